//! The exact bytes of each token of a Hugging Face `tokenizer.json`. One hash lookup per token.
//!
//! The sampled ids are the truth: text is made from ids, never ids from text, where the dump has ids. Three kinds of
//! vocabulary are read: byte-level BPE (each character of a token stands for one byte, the map of GPT-2), byte-fallback
//! SentencePiece and Metaspace (`▁` is a space, `<0xE2>` a byte), and added tokens (their literal text). A token may end
//! inside a character; offsets are bytes, so this needs no care.

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};

/// The bytes of every token of one tokenizer.
pub struct TokenBytes {
    /// Bytes of all tokens, one after the other.
    bytes: Vec<u8>,
    tokens: FxHashMap<u32, Token>,
    start_rule: StartRule,
    #[cfg(feature = "tokenizers")]
    encoder: tokenizers::Tokenizer,
}

/// Whether special tokens (end of text, turn markers) are part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// They have no bytes: the text does not show them.
    ZeroWidth,
    /// They have their literal text.
    Shown,
}

/// Where in the text the first token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the very start: the decoder's rule for a leading space applies.
    OfText,
    /// After a prompt: every byte counts.
    Continuation,
}

#[derive(Debug, Clone, Copy)]
struct Token {
    start: usize,
    end: usize,
    special: bool,
    /// A `<0xE2>` token.
    byte_fallback: bool,
}

/// What the decoder drops at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "tokenizers"), allow(dead_code))]
enum StartRule {
    Nothing,
    /// At most `count` times the byte `content`.
    Strip {
        content: u8,
        count: usize,
    },
    /// All spaces of the first token.
    FirstToken,
}

impl TokenBytes {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read; [`Error::Unavailable`] when it is not a tokenizer, when its decoder is of
    /// a kind whose token bytes are not defined (WordPiece, CTC, …), or without the feature `tokenizers`.
    pub fn from_file(path: &Path) -> Result<TokenBytes> {
        let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
        TokenBytes::from_bytes(&bytes, &path.display().to_string())
    }

    /// Number of token ids.
    pub fn n_tokens(&self) -> usize {
        self.tokens.len()
    }

    /// The bytes of a token that is not the first of a text; for a special token its literal text.
    ///
    /// # Errors
    /// [`Error::Shape`] when the tokenizer has no such id.
    pub fn bytes_of(&self, id: u32) -> Result<&[u8]> {
        self.token(id, None).map(|token| self.bytes_of_token(token))
    }

    /// The text of the ids, and the byte at which each token ends in it.
    ///
    /// # Errors
    /// [`Error::Shape`] when the tokenizer lacks one of the ids (named, with its position); [`Error::Limit`] for a text
    /// of 4 GiB or more.
    pub fn decode(
        &self,
        ids: &[u32],
        specials: Specials,
        start: Start,
    ) -> Result<(Vec<u8>, Vec<u32>)> {
        let mut text = Vec::with_capacity(ids.len().saturating_mul(4));
        let mut byte_ends = Vec::with_capacity(ids.len());
        let mut rule = if start == Start::OfText { self.start_rule } else { StartRule::Nothing };
        for (position, &id) in ids.iter().enumerate() {
            let token = self.token(id, Some(position))?;
            if specials == Specials::Shown || !token.special {
                rule = push_token(&mut text, self.bytes_of_token(token), rule);
            }
            let end = u32::try_from(text.len()).map_err(|_| Error::Limit {
                op: "tokenizer",
                what: "the text of one row, in bytes,",
                needed: text.len() as u64,
                limit: u32::MAX.into(),
                advice: "split the row",
            })?;
            byte_ends.push(end);
        }
        Ok((text, byte_ends))
    }

    /// Finds how the ids spell `text`: special tokens shown or not, leading space dropped or not. Returns the exact
    /// bytes and byte-ends. The bytes differ from `text` only where `text` has U+FFFD for bytes that are no characters
    /// (a character cut at the end of the response).
    ///
    /// # Errors
    /// As [`TokenBytes::decode`]; [`Error::Shape`] when the ids do not spell the text.
    pub fn align(&self, ids: &[u32], text: &[u8]) -> Result<(Vec<u8>, Vec<u32>)> {
        let mut first_mismatch = None;
        for specials in [Specials::ZeroWidth, Specials::Shown] {
            for start in [Start::Continuation, Start::OfText] {
                let (bytes, byte_ends) = self.decode(ids, specials, start)?;
                let shown_equal = || {
                    bytes.utf8_chunks().any(|chunk| !chunk.invalid().is_empty())
                        && (String::from_utf8_lossy(&bytes).as_bytes() == text
                            || self.shown_by_fallback(ids, specials, &bytes, &byte_ends) == text)
                };
                if bytes == text || shown_equal() {
                    return Ok((bytes, byte_ends));
                }
                if first_mismatch.is_none() {
                    let at = bytes.iter().zip(text).take_while(|(a, b)| a == b).count();
                    first_mismatch = Some((at, bytes.len()));
                }
            }
        }
        let (at, length) = first_mismatch.unwrap_or_default();
        Err(Error::Shape {
            op: "tokenizer",
            what: format!(
                "the {} token ids spell {length} bytes that differ from the text of {} bytes from byte {at} on; the \
                 tokenizer or the text is not the one of these ids",
                ids.len(),
                text.len()
            ),
        })
    }

    /// What a byte-fallback decoder shows: of a run of byte tokens that is not UTF-8 as a whole, U+FFFD for each.
    fn shown_by_fallback(
        &self,
        ids: &[u32],
        specials: Specials,
        bytes: &[u8],
        byte_ends: &[u32],
    ) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len());
        let (mut run_start, mut run_length, mut start) = (0, 0, 0);
        let close_run = |shown: &mut Vec<u8>, run: &[u8], run_length: usize| {
            if std::str::from_utf8(run).is_ok() {
                shown.extend_from_slice(run);
            } else {
                shown.extend("\u{FFFD}".repeat(run_length).as_bytes());
            }
        };
        for (id, &end) in ids.iter().zip(byte_ends) {
            let end = end as usize;
            let token =
                self.tokens.get(id).filter(|token| specials == Specials::Shown || !token.special);
            if let Some(token) = token {
                if token.byte_fallback {
                    run_length += 1;
                } else {
                    close_run(
                        &mut shown,
                        bytes.get(run_start..start).unwrap_or_default(),
                        run_length,
                    );
                    shown.extend_from_slice(bytes.get(start..end).unwrap_or_default());
                    (run_start, run_length) = (end, 0);
                }
            }
            start = end;
        }
        close_run(&mut shown, bytes.get(run_start..start).unwrap_or_default(), run_length);
        shown
    }

    fn token(&self, id: u32, position: Option<usize>) -> Result<Token> {
        self.tokens.get(&id).copied().ok_or_else(|| {
            let at =
                position.map(|position| format!(" at position {position}")).unwrap_or_default();
            Error::Shape {
                op: "tokenizer",
                what: format!(
                    "token id {id}{at} is not among the {} ids of the tokenizer",
                    self.tokens.len()
                ),
            }
        })
    }

    fn bytes_of_token(&self, token: Token) -> &[u8] {
        self.bytes.get(token.start..token.end).unwrap_or_default()
    }
}

impl std::fmt::Debug for TokenBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenBytes").field("n_tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

/// Appends a token, less what the rule drops; returns the rule for the next token.
fn push_token(text: &mut Vec<u8>, token: &[u8], rule: StartRule) -> StartRule {
    match rule {
        StartRule::Nothing => {
            text.extend_from_slice(token);
            StartRule::Nothing
        }
        StartRule::Strip { content, count } => {
            let n_dropped = token.iter().take(count).take_while(|&&byte| byte == content).count();
            text.extend_from_slice(&token[n_dropped..]);
            if n_dropped == token.len() {
                StartRule::Strip { content, count: count - n_dropped }
            } else {
                StartRule::Nothing
            }
        }
        StartRule::FirstToken => {
            text.extend(token.iter().filter(|&&byte| byte != b' '));
            StartRule::Nothing
        }
    }
}

#[cfg(not(feature = "tokenizers"))]
impl TokenBytes {
    /// Reads a `tokenizer.json` from memory; `name` is for messages.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: this build has no tokenizers.
    pub fn from_bytes(_json: &[u8], name: &str) -> Result<TokenBytes> {
        Err(Error::Unavailable {
            what: format!("the tokenizer {name}"),
            reason: "this build reads no tokenizers; build with `--features tokenizers`".into(),
        })
    }

    /// Byte-ends of the tokens of a text.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: this build has no tokenizers.
    pub fn encode(&self, _text: &[u8]) -> Result<Vec<u32>> {
        TokenBytes::from_bytes(&[], "").map(|_| Vec::new())
    }
}

#[cfg(feature = "tokenizers")]
mod vocabulary {
    //! From `tokenizer.json` to bytes.

    use serde_json::Value;
    use tokenizers::Tokenizer;

    use super::{FxHashMap, StartRule, Token, TokenBytes};
    use crate::error::{Error, Result};

    /// One step from a token's spelling to its text.
    enum Step {
        ByteLevel,
        Replace(String, String),
        ByteFallback,
        /// At most `count` times `content` at the start of each token.
        StripEach(char, usize),
    }

    impl TokenBytes {
        /// Reads a `tokenizer.json` from memory; `name` is for messages.
        ///
        /// # Errors
        /// [`Error::Unavailable`] when it is not a tokenizer or its decoder is of an unknown kind.
        pub fn from_bytes(json: &[u8], name: &str) -> Result<TokenBytes> {
            let unavailable = |reason: String| Error::Unavailable {
                what: format!("the tokenizer {name}"),
                reason,
            };
            let mut encoder = Tokenizer::from_bytes(json)
                .map_err(|error| unavailable(format!("not a tokenizer.json: {error}")))?;
            // Padding and truncation are for batches; a text is encoded whole.
            encoder.with_padding(None);
            encoder.with_truncation(None).map_err(|error| unavailable(error.to_string()))?;
            let decoder = match encoder.get_decoder() {
                Some(decoder) => {
                    serde_json::to_value(decoder).map_err(|error| unavailable(error.to_string()))?
                }
                None => match serde_json::to_value(encoder.get_pre_tokenizer()) {
                    // Some byte-level tokenizers name the byte map before the model only.
                    Ok(value) if value.to_string().contains("\"ByteLevel\"") => {
                        serde_json::json!({"type": "ByteLevel"})
                    }
                    _ => Value::Null,
                },
            };
            let mut steps = Vec::new();
            let mut start_rule = StartRule::Nothing;
            read_decoder(&decoder, &mut steps, &mut start_rule, &mut false).map_err(unavailable)?;

            let added = encoder.get_added_tokens_decoder();
            let mut bytes = Vec::new();
            let mut tokens = FxHashMap::default();
            for (spelling, id) in encoder.get_vocab(true) {
                let added_token = added.get(&id);
                let (token_bytes, byte_fallback) = match added_token {
                    Some(token) => (token.content.clone().into_bytes(), false),
                    None => spell(&spelling, &steps),
                };
                let start = bytes.len();
                bytes.extend(token_bytes);
                let special = added_token.is_some_and(|token| token.special);
                tokens.insert(id, Token { start, end: bytes.len(), special, byte_fallback });
            }
            Ok(TokenBytes { bytes, tokens, start_rule, encoder })
        }

        /// Byte-ends of the tokens of a text, for texts whose sampled ids are not known. No special token is added.
        /// Where a character is split over several tokens, their bytes tell where; only if the tokenizer changes the
        /// text (normalisation), the offsets it reports stand for them.
        ///
        /// # Errors
        /// [`Error::Shape`] when the text is not UTF-8 or the tokenizer refuses it.
        pub fn encode(&self, text: &[u8]) -> Result<Vec<u32>> {
            let shape = |what: String| Error::Shape { op: "tokenizer", what };
            let text_str = std::str::from_utf8(text).map_err(|error| {
                shape(format!("the text is not UTF-8 from byte {} on", error.valid_up_to()))
            })?;
            let encoding =
                self.encoder.encode(text_str, false).map_err(|error| shape(error.to_string()))?;
            if let Ok((bytes, byte_ends)) = self.align(encoding.get_ids(), text) {
                // A replacement character in the text itself must not pass for cut bytes.
                if bytes == text {
                    return Ok(byte_ends);
                }
            }
            let mut last = 0;
            let mut byte_ends: Vec<u32> = encoding
                .get_offsets()
                .iter()
                .map(|&(_, end)| {
                    last = last.max(u32::try_from(end.min(text.len())).unwrap_or(u32::MAX));
                    last
                })
                .collect();
            let length = u32::try_from(text.len())
                .map_err(|_| shape("the text has 4 GiB or more".into()))?;
            // What the tokenizer dropped at the end belongs to the last token: every byte has an owner.
            match byte_ends.last_mut() {
                Some(end) => *end = length,
                None if length == 0 => {}
                None => return Err(shape("the tokenizer gives no token for the text".into())),
            }
            Ok(byte_ends)
        }
    }

    /// Reads the steps of a decoder. `fused` turns true once the tokens have been joined.
    fn read_decoder(
        decoder: &Value,
        steps: &mut Vec<Step>,
        start_rule: &mut StartRule,
        fused: &mut bool,
    ) -> Result<(), String> {
        let kind = decoder.get("type").and_then(Value::as_str).unwrap_or("none");
        let text = |field: &str| decoder.get(field).and_then(Value::as_str);
        match kind {
            "ByteLevel" => steps.push(Step::ByteLevel),
            "ByteFallback" => steps.push(Step::ByteFallback),
            "Fuse" => *fused = true,
            "Sequence" => {
                for part in decoder.get("decoders").and_then(Value::as_array).into_iter().flatten()
                {
                    read_decoder(part, steps, start_rule, fused)?;
                }
            }
            "Metaspace" => {
                let replacement = text("replacement").unwrap_or("▁");
                steps.push(Step::Replace(replacement.to_owned(), " ".to_owned()));
                if text("prepend_scheme") != Some("never") {
                    *start_rule = StartRule::FirstToken;
                }
            }
            "Replace" => {
                match (decoder.pointer("/pattern/String").and_then(Value::as_str), text("content"))
                {
                    (Some(pattern), Some(content)) if !pattern.is_empty() => {
                        steps.push(Step::Replace(pattern.to_owned(), content.to_owned()));
                    }
                    _ => return Err(
                        "its decoder replaces a regular expression; only fixed strings are known"
                            .into(),
                    ),
                }
            }
            "Strip" => {
                let number =
                    |field: &str| decoder.get(field).and_then(Value::as_u64).unwrap_or(0) as usize;
                let content =
                    text("content").and_then(|content| content.chars().next()).unwrap_or(' ');
                if number("stop") > 0 {
                    return Err("its decoder strips the end of tokens, which is not known".into());
                }
                if !*fused {
                    steps.push(Step::StripEach(content, number("start")));
                } else if content.is_ascii() {
                    *start_rule =
                        StartRule::Strip { content: content as u8, count: number("start") };
                } else {
                    return Err(format!(
                        "its decoder strips `{content}` from the text; only ASCII is known"
                    ));
                }
            }
            other => {
                return Err(format!(
                    "its decoder is `{other}`; known are ByteLevel, Metaspace, and sequences of Replace, ByteFallback, \
                     Fuse and Strip"
                ));
            }
        }
        Ok(())
    }

    /// The bytes of a token, and whether it is a byte-fallback token.
    fn spell(token: &str, steps: &[Step]) -> (Vec<u8>, bool) {
        let mut text = token.to_owned();
        for step in steps {
            match step {
                Step::ByteLevel => {
                    let bytes: Option<Vec<u8>> = text.chars().map(byte_of_char).collect();
                    return (bytes.unwrap_or_else(|| text.into_bytes()), false);
                }
                Step::Replace(pattern, content) => text = text.replace(pattern, content),
                Step::ByteFallback => {
                    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
                    let byte = digits
                        .filter(|digits| digits.len() == 2)
                        .map(|digits| u8::from_str_radix(digits, 16));
                    if let Some(Ok(byte)) = byte {
                        return (vec![byte], true);
                    }
                }
                Step::StripEach(content, count) => {
                    let n_dropped =
                        text.chars().take(*count).take_while(|char| char == content).count();
                    text = text.chars().skip(n_dropped).collect();
                }
            }
        }
        (text.into_bytes(), false)
    }

    /// The byte that a character of a byte-level token stands for. Printable bytes stand for themselves; the other 68,
    /// in order, for the characters from U+0100 on.
    fn byte_of_char(char: char) -> Option<u8> {
        let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        match u8::try_from(u32::from(char)) {
            Ok(byte) => printable(byte).then_some(byte),
            Err(_) => {
                let rank = u32::from(char).checked_sub(0x100)? as usize;
                (0..=u8::MAX).filter(|&byte| !printable(byte)).nth(rank)
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::byte_of_char;

        #[test]
        fn byte_map_of_gpt2() {
            // From the published vocabulary: Ġ is a space, Ċ a newline, ĉ a tab, Ń is 0xAD.
            let known = [
                ('Ġ', b' '),
                ('Ċ', b'\n'),
                ('ĉ', b'\t'),
                ('!', b'!'),
                ('â', 0xE2),
                ('Ń', 0xAD),
                ('¢', 0xA2),
            ];
            for (char, byte) in known {
                assert_eq!(byte_of_char(char), Some(byte), "{char}");
            }
            assert_eq!(byte_of_char(' '), None);
            assert_eq!(byte_of_char('\u{144}'), None);
            let mut all: Vec<u8> =
                (0..0x144).filter_map(char::from_u32).filter_map(byte_of_char).collect();
            all.sort_unstable();
            assert_eq!(all, (0..=255).collect::<Vec<u8>>());
        }
    }
}
