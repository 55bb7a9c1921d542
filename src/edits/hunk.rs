//! Lines of hunks: shared by unified diffs and apply_patch blocks.

use super::text::{is_blank, line_at};
use super::{Hunk, HunkLine, SourceLine};

/// Adds a line of the response to a hunk; its text starts after the first `prefix` bytes.
pub(super) fn push(
    hunk: &mut Hunk,
    kind: HunkLine,
    text: &[u8],
    at: usize,
    next: usize,
    prefix: usize,
) {
    let line = text.get(at..next).unwrap_or_default();
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let own = line.get(prefix.min(line.len())..).unwrap_or_default();
    hunk.lines.push((kind, SourceLine { text: own.to_vec(), bytes: at..next }));
}

/// What the first byte of a line says.
pub(super) fn kind_of(line: &[u8]) -> Option<HunkLine> {
    match line.first() {
        Some(b'+') => Some(HunkLine::Add),
        Some(b'-') => Some(HunkLine::Delete),
        Some(b' ') => Some(HunkLine::Context),
        _ => None,
    }
}

/// Offset after the blank lines from `at` on, when a line that passes the test follows them.
pub(super) fn blank_run(
    text: &[u8],
    at: usize,
    test: impl Fn(&[u8], usize) -> bool,
) -> Option<usize> {
    let mut end = at;
    while end < text.len() {
        let (line, next) = line_at(text, end);
        if !is_blank(line) {
            return test(line, next).then_some(end);
        }
        end = next;
    }
    None
}

/// Adds the bare blank lines from `at` to `end` as context.
pub(super) fn push_blanks(hunk: &mut Hunk, text: &[u8], at: usize, end: usize) {
    let mut start = at;
    while start < end {
        let (_, next) = line_at(text, start);
        push(hunk, HunkLine::Context, text, start, next, 0);
        start = next;
    }
}

/// Notes on the last line of a hunk that its file ends there without a line feed.
pub(super) fn mark_bare_end(hunk: &mut Hunk) {
    match hunk.lines.last() {
        Some((HunkLine::Add, _)) => hunk.new_ends_bare = true,
        Some((HunkLine::Delete, _)) => hunk.old_ends_bare = true,
        Some((HunkLine::Context, _)) => (hunk.old_ends_bare, hunk.new_ends_bare) = (true, true),
        None => {}
    }
}
