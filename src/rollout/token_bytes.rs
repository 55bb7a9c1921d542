//! The exact bytes of each token of a Hugging Face `tokenizer.json`. One hash lookup per token.
//!
//! The sampled ids are the truth: text is made from ids, never ids from text, where the dump has ids. Three kinds of
//! vocabulary are read: byte-level BPE (each character of a token stands for one byte, the map of GPT-2), byte-fallback
//! SentencePiece and Metaspace (`▁` is a space, `<0xE2>` a byte), and added tokens (their literal text). A token may end
//! inside a character; offsets are bytes, so this needs no care.

#[cfg(feature = "tokenizers")]
mod vocabulary;

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
