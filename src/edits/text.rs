//! Lines of byte strings, and texts that know where in the response their bytes are spelled.
//!
//! Lines end at a line feed and nowhere else: form feeds, lone carriage returns and Unicode separators are content, and
//! the carriage return before a line feed stays in its line.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

use bstr::ByteSlice;

use super::SourceLine;

/// Offset after the line feed that ends the line at `at`, or the end of the text.
pub(super) fn line_end(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.find_byte(b'\n').map_or(text.len(), |i| at + i + 1)
}

/// The text from `at` to its line feed, without it, and the offset where the next line starts.
pub(super) fn line_at(text: &[u8], at: usize) -> (&[u8], usize) {
    let end = line_end(text, at);
    let line = text.get(at..end).unwrap_or_default();
    (line.strip_suffix(b"\n").unwrap_or(line), end)
}

/// The line before the line that starts at `at`, and where it starts; `None` at the start of the text.
pub(super) fn line_before(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let before = text.get(..at)?;
    let before = before.strip_suffix(b"\n")?;
    let start = before.rfind_byte(b'\n').map_or(0, |i| i + 1);
    Some((&before[start..], start))
}

/// True at the start of a line.
pub(super) fn is_line_start(text: &[u8], at: usize) -> bool {
    at == 0 || text.get(at - 1) == Some(&b'\n')
}

/// The first line at or after `from` that passes the test, which gets the line and the offset of the next one.
pub(super) fn next_line_where(
    text: &[u8],
    from: usize,
    test: impl Fn(&[u8], usize) -> bool,
) -> Option<usize> {
    let mut at = if is_line_start(text, from) { from } else { line_end(text, from) };
    while at < text.len() {
        let (line, next) = line_at(text, at);
        if test(line, next) {
            return Some(at);
        }
        at = next;
    }
    None
}

/// True for spaces, tabs and carriage returns only.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
}

/// The lines of a range of the response, spelled as they are.
pub(super) fn lines_of(text: &[u8], range: Range<usize>) -> Vec<SourceLine> {
    let mut lines = Vec::new();
    let text = text.get(..range.end).unwrap_or(text);
    let mut at = range.start;
    while at < text.len() {
        let (line, next) = line_at(text, at);
        lines.push(SourceLine { text: line.to_vec(), bytes: at..next });
        at = next;
    }
    lines
}

/// A body between two tags without the line feed after the opening tag, and without the blank start of the line on
/// which the closing tag stands.
pub(super) fn tag_body(text: &[u8], body: Range<usize>) -> Range<usize> {
    let Some(inside) = text.get(body.clone()) else { return body };
    let skip = if inside.starts_with(b"\r\n") { 2 } else { usize::from(inside.starts_with(b"\n")) };
    let end = match inside.rfind_byte(b'\n') {
        Some(i) if is_blank(&inside[i + 1..]) => i + 1,
        _ => inside.len(),
    };
    body.start + skip..body.start + end.max(skip)
}

/// Bytes decoded from the response, with the way back to where they are spelled.
#[derive(Debug, Clone)]
pub(super) struct Payload<'t> {
    /// Decoded bytes.
    pub(super) text: Cow<'t, [u8]>,
    /// Where they are spelled.
    pub(super) map: Rc<Map>,
    /// False when the end is missing.
    pub(super) closed: bool,
}

/// Offsets of a decoded text in the response.
#[derive(Debug)]
pub(super) enum Map {
    /// The text itself, from this offset on.
    Verbatim(usize),
    /// Pieces, each a decoded offset and where its spelling starts, in ascending order. Inside a piece the bytes are
    /// spelled as they are; an escape is a piece of its own. `outer` maps on when the spelling is itself decoded.
    Pieces { pieces: Vec<(usize, usize)>, outer: Option<Rc<Map>> },
}

impl Map {
    /// Offset in the response of a decoded offset that is the start of a piece, or lies in a verbatim one.
    pub(super) fn response_offset(&self, decoded: usize) -> usize {
        match self {
            Map::Verbatim(start) => start + decoded,
            Map::Pieces { pieces, outer } => {
                let count = pieces.partition_point(|&(start, _)| start <= decoded);
                let (start, spelled) = count.checked_sub(1).map_or((0, 0), |i| pieces[i]);
                let spelled = spelled + (decoded - start);
                outer.as_ref().map_or(spelled, |map| map.response_offset(spelled))
            }
        }
    }

    /// The same for both ends of a range.
    pub(super) fn response_range(&self, decoded: Range<usize>) -> Range<usize> {
        self.response_offset(decoded.start)..self.response_offset(decoded.end)
    }
}

impl<'t> Payload<'t> {
    /// A part of the response as it is.
    pub(super) fn verbatim(text: &'t [u8], range: Range<usize>, closed: bool) -> Self {
        let bytes = text.get(range.clone()).unwrap_or_default();
        Payload { text: Cow::Borrowed(bytes), map: Rc::new(Map::Verbatim(range.start)), closed }
    }

    /// The lines of the decoded text, each with the bytes that spell it.
    pub(super) fn lines(&self) -> Vec<SourceLine> {
        let mut lines = lines_of(&self.text, 0..self.text.len());
        for line in &mut lines {
            line.bytes = self.map.response_range(line.bytes.clone());
        }
        lines
    }

    /// The text when it is UTF-8, without surrounding white space: for names and commands.
    pub(super) fn word(&self) -> Option<&str> {
        self.text.to_str().ok().map(str::trim)
    }
}
