//! A small JSON reader that knows where each string is spelled.
//!
//! It keeps what a tool call can consist of (strings, numbers under a key, objects, arrays), drops the rest, and gives
//! back what it has read when the text is cut off or broken. Line feeds inside strings are taken as they are, for
//! models write them. Linear; objects and arrays nested deeper than [`MAX_DEPTH`] are broken.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

use super::text::{Map, Payload};

const MAX_DEPTH: usize = 64;

/// How reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// At the closing bracket.
    Complete,
    /// At the end of the text.
    Truncated,
    /// At something that is no JSON.
    Broken,
}

/// A value with its place.
#[derive(Debug)]
pub(super) struct Value {
    /// Bytes that spell it.
    pub(super) bytes: Range<usize>,
    /// What it is.
    pub(super) kind: Kind,
    /// False when its end is missing.
    pub(super) closed: bool,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Kind {
    /// Keys as spelled, in order.
    Object(Vec<(Range<usize>, Value)>),
    /// Objects, arrays and strings of an array.
    Array(Vec<Value>),
    /// `bytes` are those between the quotes.
    String,
    /// A whole number from 0.
    Number(usize),
    /// Anything else.
    Other,
}

impl Kind {
    fn is_empty(&self) -> bool {
        match self {
            Kind::Object(entries) => entries.is_empty(),
            Kind::Array(values) => values.is_empty(),
            Kind::String | Kind::Number(_) => false,
            Kind::Other => true,
        }
    }
}

/// A value read from a text, and how far.
#[derive(Debug)]
pub(super) struct Document {
    /// The value, as far as it goes.
    pub(super) value: Value,
    /// How reading ended.
    pub(super) state: State,
    /// Offset where reading ended.
    pub(super) end: usize,
    /// Offset of the last string: when reading ended at something odd, its quote may have been the wrong one. The
    /// brackets before it cannot lead any further.
    pub(super) last_string: usize,
}

/// Reads the object or array that starts at `at`.
pub(super) fn read(text: &[u8], at: usize) -> Document {
    let mut reader = Reader { text, at, state: State::Complete, last_string: at };
    let value = reader.value(0);
    Document { value, state: reader.state, end: reader.at, last_string: reader.last_string }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    state: State,
    last_string: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.text.get(self.at).copied()
    }

    fn fail(&mut self) {
        let at_end = self.at >= self.text.len();
        self.state = if at_end { State::Truncated } else { State::Broken };
    }

    fn value(&mut self, depth: usize) -> Value {
        let first = self.peek();
        let start = self.at;
        let kind = match first {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => {
                self.state = State::Broken;
                Kind::Other
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => {
                let (bytes, closed) = self.string();
                return Value { bytes, kind: Kind::String, closed };
            }
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => self.scalar(),
            _ => {
                self.fail();
                Kind::Other
            }
        };
        Value { bytes: start..self.at, kind, closed: self.state == State::Complete }
    }

    fn scalar(&mut self) -> Kind {
        let rest = &self.text[self.at..];
        let length = rest
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.'))
            .count();
        let word = &rest[..length];
        self.at += length;
        let number = || std::str::from_utf8(word).ok()?.parse().ok();
        if word.iter().all(u8::is_ascii_digit) {
            return number().map_or(Kind::Other, Kind::Number);
        }
        let numeric = word
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E'));
        if !numeric && !matches!(word, b"true" | b"false" | b"null") {
            self.at -= length;
            self.state =
                if self.at + length == self.text.len() { State::Truncated } else { State::Broken };
        }
        Kind::Other
    }

    /// The bytes between the quotes, and whether the closing one is there.
    fn string(&mut self) -> (Range<usize>, bool) {
        self.last_string = self.at;
        let start = self.at + 1;
        let mut at = start;
        loop {
            match memchr::memchr2(b'"', b'\\', self.text.get(at..).unwrap_or_default()) {
                None => {
                    self.at = self.text.len();
                    self.state = State::Truncated;
                    return (start.min(self.at)..self.at, false);
                }
                Some(i) if self.text[at + i] == b'"' => {
                    self.at = at + i + 1;
                    return (start..at + i, true);
                }
                Some(i) => at += i + 2,
            }
        }
    }

    fn object(&mut self, depth: usize) -> Kind {
        let mut entries = Vec::new();
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                Some(b'"') => {}
                _ => {
                    self.fail();
                    break;
                }
            }
            let (key, _) = self.string();
            if self.state == State::Complete {
                if self.peek() == Some(b':') {
                    self.at += 1;
                } else {
                    self.fail();
                }
            }
            if self.state != State::Complete {
                break;
            }
            let value = self.value(depth + 1);
            if !value.kind.is_empty() {
                entries.push((key, value));
            }
            if self.state != State::Complete || !self.comma(b'}') {
                break;
            }
        }
        Kind::Object(entries)
    }

    fn array(&mut self, depth: usize) -> Kind {
        let mut values = Vec::new();
        self.at += 1;
        loop {
            if self.peek() == Some(b']') {
                self.at += 1;
                break;
            }
            let value = self.value(depth + 1);
            if !value.kind.is_empty() && !matches!(value.kind, Kind::Number(_)) {
                values.push(value);
            }
            if self.state != State::Complete || !self.comma(b']') {
                break;
            }
        }
        Kind::Array(values)
    }

    /// Passes a comma; a closing bracket is left for the caller. False when there is neither.
    fn comma(&mut self, close: u8) -> bool {
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(byte) if byte == close => {}
            _ => {
                self.fail();
                return false;
            }
        }
        true
    }
}

/// Decodes what stands between the quotes of a string of `text`. `outer` maps offsets of `text` to the response when
/// `text` is itself decoded. A broken escape stands for itself, one that is cut
/// off at the end of the text for nothing; a lone surrogate is U+FFFD.
pub(super) fn decode<'t>(text: &'t [u8], value: &Value, outer: Option<&Rc<Map>>) -> Payload<'t> {
    let range = value.bytes.clone();
    let spelled = text.get(range.clone()).unwrap_or_default();
    if outer.is_none() && memchr::memchr(b'\\', spelled).is_none() {
        return Payload::verbatim(text, range, value.closed);
    }
    let mut bytes = Vec::with_capacity(spelled.len());
    let mut pieces = vec![(0, range.start)];
    let mut at = 0;
    while let Some(i) = memchr::memchr(b'\\', &spelled[at..]) {
        bytes.extend_from_slice(&spelled[at..at + i]);
        at += i;
        let rest = &spelled[at..];
        if !value.closed && (rest.len() == 1 || rest.len() < 6 && rest.starts_with(b"\\u")) {
            at = spelled.len();
            break;
        }
        let before = bytes.len();
        pieces.push((before, range.start + at));
        at += push_escape(&mut bytes, &spelled[at..]);
        pieces.push((bytes.len(), range.start + at));
    }
    bytes.extend_from_slice(&spelled[at..]);
    pieces.push((bytes.len(), range.end));
    let map = Map::Pieces { pieces, outer: outer.cloned() };
    Payload { text: Cow::Owned(bytes), map: Rc::new(map), closed: value.closed }
}

/// Decodes the escape at the start of `spelled`; its length there, at least 1.
fn push_escape(bytes: &mut Vec<u8>, spelled: &[u8]) -> usize {
    let plain = match spelled.get(1) {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
        Some(b'u') => {
            let Some(unit) = hex4(spelled, 2) else {
                bytes.push(b'\\');
                return 1;
            };
            let low = (0xD800..0xDC00).contains(&unit).then(|| {
                let pair = spelled.get(6..8) == Some(b"\\u");
                hex4(spelled, 8).filter(|low| pair && (0xDC00..0xE000).contains(low))
            });
            let (code, length) = match low.flatten() {
                Some(low) => (0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), 12),
                None => (unit, 6),
            };
            let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return length;
        }
        _ => {
            bytes.push(b'\\');
            return 1;
        }
    };
    bytes.push(plain);
    2
}

fn hex4(spelled: &[u8], at: usize) -> Option<u32> {
    spelled
        .get(at..at + 4)?
        .iter()
        .try_fold(0, |value, &byte| Some(value * 16 + char::from(byte).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
        let document = read(text, 0);
        let payload = decode(text, &document.value, None);
        let offsets = (0..=payload.text.len()).map(|i| payload.map.response_offset(i)).collect();
        (payload.text.into_owned(), offsets)
    }

    #[test]
    fn escapes_map_back_to_their_spelling() {
        assert_eq!(decoded(br#""a\nb""#), (b"a\nb".to_vec(), vec![1, 2, 4, 5]));
        assert_eq!(decoded(br#""\\n""#), (b"\\n".to_vec(), vec![1, 3, 4]));
        assert_eq!(decoded(br#""\u0041x""#), (b"Ax".to_vec(), vec![1, 7, 8]));
    }

    #[test]
    fn surrogate_pairs_join_and_lone_ones_are_replaced() {
        assert_eq!(decoded(br#""\ud83d\ude80""#).0, "\u{1F680}".as_bytes());
        assert_eq!(decoded(br#""\ud83dx""#).0, "\u{FFFD}x".as_bytes());
        assert_eq!(decoded(br#""\ude80\u0041""#).0, "\u{FFFD}A".as_bytes());
        assert_eq!(decoded(br#""\u12""#).0, b"\\u12");
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(read(b"{\"a\": [1, 2]} x", 0).state, State::Complete);
        assert_eq!(read(b"{\"a\": [1, 2", 0).state, State::Truncated);
        assert_eq!(read(b"{\"a\": \"b", 0).state, State::Truncated);
        assert_eq!(read(b"{\"a\": nul", 0).state, State::Truncated);
        assert_eq!(read(b"{\"a\" 1}", 0).state, State::Broken);
        assert_eq!(read(&b"[".repeat(1000), 0).state, State::Broken);
    }
}
