//! `*** Begin Patch` blocks: sections `*** Update File:`, `*** Add File:` and `*** Delete File:`, with `*** Move to:`,
//! `@@ anchor` lines between hunks and `*** End of File`.
//!
//! A section read outside of a block is kept with a note. Linear.

use super::hunk::{blank_run, kind_of, push, push_blanks};
use super::path::name_text;
use super::scan::{Outcome, Scan};
use super::text::{is_blank, line_at, next_line_where};
use super::{Change, Edit, Format, Hunk, HunkLine, HunkRange, note};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker<'t> {
    Begin,
    End,
    Update(&'t [u8]),
    Add(&'t [u8]),
    Delete(&'t [u8]),
    Move(&'t [u8]),
    EndOfFile,
}

fn marker(line: &[u8]) -> Option<Marker<'_>> {
    let rest = line.strip_prefix(b"*** ")?.trim_ascii_end();
    let named = |label: &[u8]| {
        Some(rest.strip_prefix(label)?.trim_ascii_start()).filter(|name| !name.is_empty())
    };
    match rest {
        b"Begin Patch" => Some(Marker::Begin),
        b"End Patch" => Some(Marker::End),
        b"End of File" => Some(Marker::EndOfFile),
        _ => named(b"Update File:")
            .map(Marker::Update)
            .or_else(|| named(b"Add File:").map(Marker::Add))
            .or_else(|| named(b"Delete File:").map(Marker::Delete))
            .or_else(|| named(b"Move to:").map(Marker::Move)),
    }
}

fn starts_section(marker: Marker) -> bool {
    matches!(marker, Marker::Update(_) | Marker::Add(_) | Marker::Delete(_))
}

/// The next first line of a block, or of a section outside of one.
pub(super) fn next(scan: &Scan, from: usize) -> Option<usize> {
    next_line_where(scan.full_text(), from, |line, _| {
        marker(line).is_some_and(|marker| marker == Marker::Begin || starts_section(marker))
    })
}

/// Reads a block, or the sections that stand without one.
pub(super) fn read<'t>(scan: &mut Scan<'t>, start: usize) -> Outcome<'t> {
    let text = scan.text();
    let (first, next) = line_at(text, start);
    let in_block = marker(first) == Some(Marker::Begin);
    let mut at = if in_block { next } else { start };
    let mut closed = false;
    while at < text.len() {
        let (line, next) = line_at(text, at);
        match marker(line) {
            Some(Marker::End) => {
                (at, closed) = (next, true);
                break;
            }
            Some(section) if starts_section(section) => {
                at = read_section(scan, at, section, in_block)
            }
            Some(Marker::Begin) => break,
            Some(_) => at = next,
            None if in_block && is_blank(line) => at = next,
            None => break,
        }
    }
    if in_block && !closed {
        scan.note(start..at, note::UNCLOSED, "a patch without `*** End Patch`", false);
    }
    if !in_block {
        scan.note(start..at, note::NO_BEGIN, "a patch without `*** Begin Patch`", false);
    }
    Outcome::Done(at)
}

/// Reads one section; the offset after it.
fn read_section(scan: &mut Scan, start: usize, section: Marker, in_block: bool) -> usize {
    let text = scan.text();
    let fence = scan.open_fence();
    let (_, mut at) = line_at(text, start);
    let mut moved = None;
    let mut hunks = vec![Hunk::default()];
    let mut unprefixed = false;
    let adds = matches!(section, Marker::Add(_));
    while at < text.len() && !matches!(section, Marker::Delete(_)) {
        let (line, next) = line_at(text, at);
        if line.starts_with(b"*** ") {
            match marker(line) {
                Some(Marker::Move(name)) => moved = Some(name_text(name)),
                Some(Marker::EndOfFile) => {}
                _ => break,
            }
        } else if fence.is_some_and(|fence| fence.closed_by(line)) && !line.starts_with(b" ") {
            break;
        } else if line.starts_with(b"@@") && !adds {
            let section = line.get(2..).unwrap_or_default().trim_ascii().to_vec();
            hunks.push(Hunk { section, ..Hunk::default() });
        } else if let Some(hunk) = hunks.last_mut() {
            match kind_of(line) {
                Some(kind) => push(hunk, kind, text, at, next, 1),
                None if is_blank(line) => {
                    let goes_on = |line: &[u8], _| {
                        kind_of(line).is_some()
                            || line.starts_with(b"@@")
                            || marker(line).is_some() && in_block
                    };
                    let Some(end) = blank_run(text, at, goes_on) else { break };
                    let (line, _) = line_at(text, end);
                    // Before a marker the blank lines are a gap, no content.
                    if kind_of(line).is_some() {
                        push_blanks(hunk, text, at, end);
                    }
                    at = end;
                    continue;
                }
                None if in_block => {
                    unprefixed = true;
                    push(hunk, HunkLine::Context, text, at, next, 0);
                }
                None => break,
            }
        }
        at = next;
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    if unprefixed {
        scan.note(start..at, note::UNPREFIXED_LINE, "a section with lines without a prefix", false);
    }
    let (name, change) = match section {
        Marker::Add(name) => {
            for hunk in &mut hunks {
                let new_count = hunk.lines.len();
                hunk.range =
                    Some(HunkRange { old_start: 0, old_count: 0, new_start: 1, new_count });
            }
            let empty = hunks.is_empty();
            (name, if empty { Change::Meta("create") } else { Change::Hunks(hunks) })
        }
        Marker::Delete(name) => (name, Change::Meta("delete")),
        Marker::Update(name) if hunks.is_empty() && moved.is_some() => {
            (name, Change::Meta("rename"))
        }
        Marker::Update(name) if hunks.is_empty() => (name, Change::Meta("empty")),
        Marker::Update(name) => (name, Change::Hunks(hunks)),
        _ => return at,
    };
    let name = name_text(name);
    let (path, old_path) = match moved {
        Some(moved) => (moved, Some(name)),
        None => (name, None),
    };
    scan.edit(Edit { format: Format::ApplyPatch, path, old_path, change, bytes: start..at });
    at
}
