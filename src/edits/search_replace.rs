//! SEARCH/REPLACE blocks: `<<<<<<< SEARCH`, the text looked for, `=======`, its replacement, `>>>>>>> REPLACE`.
//!
//! The separator is a whole line of as many `=` as the opening line has `<` (5 to 9). Several such lines make a block
//! ambiguous: it is reported and skipped, never guessed. The file's name stands in the line before, or before the fence
//! around the block, or in its info string; else it is that of the block before. Linear.

use super::path::{block_path_before, block_path_of_line};
use super::scan::{Outcome, Scan};
use super::text::{line_at, line_before, lines_of, next_line_where};
use super::{Change, Edit, Format, fence, note};

/// How many marks a line has before its word: `<<<<<<< SEARCH` has 7.
fn marks(line: &[u8], mark: u8, word: &[u8]) -> Option<usize> {
    if line.first() != Some(&mark) {
        return None;
    }
    let count = line.iter().take(10).take_while(|byte| **byte == mark).count();
    let rest = line.get(count..)?.strip_prefix(b" ").or_else(|| line.get(count..))?;
    ((5..=9).contains(&count) && rest.trim_ascii_end() == word).then_some(count)
}

fn opening(line: &[u8]) -> Option<usize> {
    marks(line, b'<', b"SEARCH").or_else(|| marks(line, b'-', b"SEARCH"))
}

/// True for the first line of a block.
pub(super) fn is_opening(line: &[u8]) -> bool {
    opening(line).is_some()
}

fn is_closing(line: &[u8]) -> bool {
    marks(line, b'>', b"REPLACE").or_else(|| marks(line, b'+', b"REPLACE")).is_some()
}

fn is_separator(line: &[u8], count: usize) -> bool {
    let line = line.trim_ascii_end();
    line.len() == count && line.iter().all(|byte| *byte == b'=')
}

/// The next opening line.
pub(super) fn next(scan: &Scan, from: usize) -> Option<usize> {
    next_line_where(scan.full_text(), from, |line, _| opening(line).is_some())
}

/// Reads the block whose opening line starts at `at`.
pub(super) fn read<'t>(scan: &mut Scan<'t>, at: usize) -> Outcome<'t> {
    let text = scan.text();
    let (first, body) = line_at(text, at);
    let Some(count) = opening(first) else { return Outcome::NotHere };
    let open_fence = scan.open_fence();
    let (mut separator, mut separators) = (None, 0);
    let mut closed = false;
    let (mut new_end, mut end) = (text.len(), text.len());
    let mut line_start = body;
    while line_start < text.len() {
        let (line, next) = line_at(text, line_start);
        if is_separator(line, count) {
            separators += 1;
            separator.get_or_insert((line_start, next));
        } else if is_closing(line) {
            (closed, new_end, end) = (true, line_start, next);
            break;
        } else if opening(line).is_some() {
            (new_end, end) = (line_start, line_start);
            break;
        }
        line_start = next;
    }
    if !closed && let Some(fence) = open_fence {
        // The fence around an unclosed block ends it.
        let from = separator.map_or(body, |(_, next)| next);
        if let Some(close) = next_line_where(&text[..end], from, |line, _| fence.closed_by(line)) {
            (new_end, end) = (close, close);
        }
    }
    let Some((old_end, new_start)) = separator else {
        let what = "a SEARCH block without a separator line";
        scan.note(at..end, note::NO_SEPARATOR, what, true);
        return Outcome::Done(end);
    };
    if separators > 1 {
        let what = format!("{separators} lines could separate search and replacement");
        scan.note(at..end, note::AMBIGUOUS_SEPARATOR, what, true);
        return Outcome::Done(end);
    }
    if !closed {
        scan.note(at..end, note::UNCLOSED, "a SEARCH/REPLACE block without its last line", false);
    }
    let old = lines_of(text, after_position(text, body, old_end)..old_end);
    let new = lines_of(text, new_start..new_end.max(new_start));
    let path = path_of_block(scan, at);
    let change = Change::Replace { old, new };
    scan.edit(Edit { format: Format::SearchReplace, path, old_path: None, change, bytes: at..end });
    Outcome::Done(end)
}

/// Where the search text starts: after lines `:start_line:12`, `:end_line:14` and the `-------` below them, which say
/// where it stands in the file.
fn after_position(text: &[u8], body: usize, end: usize) -> usize {
    let mut at = body;
    while at < end {
        let (line, next) = line_at(text, at);
        let line = line.trim_ascii_end();
        let says_where = line.starts_with(b":start_line:") || line.starts_with(b":end_line:");
        if !(says_where || at > body && line == b"-------") {
            break;
        }
        at = next;
        if !says_where {
            break;
        }
    }
    at.min(end)
}

/// The name in the line before the block; else the one that its surroundings give; else that of the block before.
fn path_of_block(scan: &Scan, at: usize) -> String {
    let text = scan.text();
    let before = line_before(text, at);
    let direct = before.and_then(|(line, _)| block_path_of_line(line));
    let around = || match before {
        Some((line, start)) => fence::read_opening(line)
            .and_then(|open| open.path().or_else(|| block_path_before(text, start))),
        None => None,
    };
    direct
        .or_else(around)
        .or_else(|| scan.hint())
        .or_else(|| scan.last_path(Format::SearchReplace))
        .unwrap_or_default()
}
