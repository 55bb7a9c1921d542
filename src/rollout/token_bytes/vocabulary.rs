//! From a `tokenizer.json` to the bytes of its tokens, by the steps of its decoder; and encoding of texts that have no
//! ids. One pass over the vocabulary.

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
        let unavailable =
            |reason: String| Error::Unavailable { what: format!("the tokenizer {name}"), reason };
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
        let length =
            u32::try_from(text.len()).map_err(|_| shape("the text has 4 GiB or more".into()))?;
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
            for part in decoder.get("decoders").and_then(Value::as_array).into_iter().flatten() {
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
            match (decoder.pointer("/pattern/String").and_then(Value::as_str), text("content")) {
                (Some(pattern), Some(content)) if !pattern.is_empty() => {
                    steps.push(Step::Replace(pattern.to_owned(), content.to_owned()));
                }
                _ => {
                    return Err(
                        "its decoder replaces a regular expression; only fixed strings are known"
                            .into(),
                    );
                }
            }
        }
        "Strip" => {
            let number =
                |field: &str| decoder.get(field).and_then(Value::as_u64).unwrap_or(0) as usize;
            let content = text("content").and_then(|content| content.chars().next()).unwrap_or(' ');
            if number("stop") > 0 {
                return Err("its decoder strips the end of tokens, which is not known".into());
            }
            if !*fused {
                steps.push(Step::StripEach(content, number("start")));
            } else if content.is_ascii() {
                *start_rule = StartRule::Strip { content: content as u8, count: number("start") };
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
