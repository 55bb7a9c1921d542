//! Comments and strings that go over lines: what is open, and where it ends.

use super::languages::MOST_RULES;
use super::scan;
use super::syntax::Syntax;

/// Kinds of constructs that go over lines: block comments and strings by their place in the syntax, Lua's long
/// comments and strings, and raw strings with a prefix.
pub(crate) const N_KINDS: usize = 2 * MOST_RULES + 3;
pub(crate) const KIND_STRING: usize = MOST_RULES;
pub(crate) const KIND_LONG_COMMENT: usize = 2 * MOST_RULES;
pub(crate) const KIND_LONG_STRING: usize = KIND_LONG_COMMENT + 1;
pub(crate) const KIND_RAW: usize = KIND_LONG_STRING + 1;

/// A comment or string whose end has not been met.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) close: Close,
    pub(crate) comment: bool,
    pub(crate) kind: usize,
    /// Where it began.
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// What ends it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Close {
    /// The closing mark of the syntax's block comment with this index, at this depth of nesting.
    Block { rule: usize, depth: usize },
    /// The quote of the syntax's string with this index.
    Quote { rule: usize },
    /// `"` and this many `#`.
    Hashes(usize),
    /// `]`, this many `=`, `]`.
    Level(usize),
    /// `)`, these bytes, `"`.
    Delimiter([u8; MOST_DELIMITER], usize),
    /// A single `"`; two are a quote inside.
    Doubled,
}

/// The longest delimiter of a C++ raw string, by its standard.
pub(crate) const MOST_DELIMITER: usize = 16;

/// End of what `close` closes, looked for from `from` on; keeps the depth of nested comments.
pub(crate) fn close_of(
    syntax: &Syntax,
    close: &mut Close,
    text: &[u8],
    from: usize,
) -> Option<usize> {
    let mut pos = from;
    match close {
        Close::Block { rule, depth } => {
            let block = syntax.block_comments.get(*rule)?;
            if block.first_column {
                return (from == 0 && text.starts_with(block.close)).then_some(text.len());
            }
            while pos < text.len() {
                let rest = scan::from(text, pos);
                if rest.starts_with(block.close) {
                    pos += block.close.len();
                    *depth = depth.saturating_sub(1);
                    if *depth == 0 {
                        return Some(pos);
                    }
                } else if block.nested && rest.starts_with(block.open) {
                    pos += block.open.len();
                    *depth += 1;
                } else {
                    pos += 1;
                }
            }
            None
        }
        Close::Quote { rule } => {
            let string = syntax.strings.get(*rule)?;
            find_quote(text, from, string.quote, string.escapes)
        }
        Close::Hashes(n) => find_with(text, from, b'"', |rest| {
            let hashes = rest.iter().take(*n).take_while(|&&b| b == b'#').count();
            (hashes == *n).then_some(hashes)
        }),
        Close::Level(n) => find_with(text, from, b']', |rest| {
            let signs = rest.iter().take(*n).take_while(|&&b| b == b'=').count();
            (signs == *n && rest.get(signs) == Some(&b']')).then_some(signs + 1)
        }),
        Close::Delimiter(bytes, len) => find_with(text, from, b')', |rest| {
            let name = bytes.get(..*len)?;
            (rest.starts_with(name) && rest.get(*len) == Some(&b'"')).then_some(*len + 1)
        }),
        Close::Doubled => {
            while let Some(byte) = scan::at(text, pos) {
                if byte != b'"' {
                    pos += 1;
                } else if scan::at(text, pos + 1) == Some(b'"') {
                    pos += 2;
                } else {
                    return Some(pos + 1);
                }
            }
            None
        }
    }
}

/// End of the first `first` at or after `from` whose following bytes `tail` accepts, with the length it took.
fn find_with(
    text: &[u8],
    from: usize,
    first: u8,
    tail: impl Fn(&[u8]) -> Option<usize>,
) -> Option<usize> {
    let mut pos = from;
    loop {
        pos += memchr::memchr(first, scan::from(text, pos))? + 1;
        if let Some(len) = tail(scan::from(text, pos)) {
            return Some(pos + len);
        }
    }
}

/// End of the string that goes on at `from`.
pub(crate) fn find_quote(text: &[u8], from: usize, quote: &[u8], escapes: bool) -> Option<usize> {
    let first = *quote.first()?;
    let mut pos = from;
    while let Some(byte) = scan::at(text, pos) {
        if byte == b'\\' && escapes {
            pos += 2;
        } else if byte == first && scan::from(text, pos).starts_with(quote) {
            return Some(pos + quote.len());
        } else {
            pos += 1;
        }
    }
    None
}
