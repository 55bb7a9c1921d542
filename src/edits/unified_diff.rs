//! Unified diffs, git's and plain, in the response or inside a fence, well-formed or as models write them.
//!
//! The counts of a hunk's header decide what belongs to it: a removed line that reads `--- ` is content while lines are
//! due. Where the counts are wrong the prefixes decide, and a note says so. Hunks without line numbers (`@@`,
//! `@@ def f():`) go by the prefixes alone. Linear.

use super::hunk::{blank_run, kind_of, mark_bare_end, push, push_blanks};
use super::scan::{Outcome, Scan};
use super::text::{is_blank, line_at, next_line_where};
use super::unified_header::{FileHeader, read_header, read_range, read_ranges};
use super::{Change, Edit, Format, Hunk, HunkLine, fence, note};

/// The next line that may start a file's diff, or a hunk with line numbers.
pub(super) fn next(scan: &Scan, from: usize) -> Option<usize> {
    let text = scan.full_text();
    next_line_where(text, from, |line, next| match line.first() {
        Some(b'd') => line.starts_with(b"diff --"),
        Some(b'-') => is_header_pair(text, line, next),
        Some(b'@') => read_ranges(line).is_some(),
        _ => false,
    })
}

/// True for a line that starts the header of a file's diff.
pub(super) fn is_header(text: &[u8], line: &[u8], next: usize) -> bool {
    line.starts_with(b"diff --git ") || is_header_pair(text, line, next)
}

fn is_header_pair(text: &[u8], line: &[u8], next: usize) -> bool {
    line.starts_with(b"--- ") && text.get(next..).is_some_and(|rest| rest.starts_with(b"+++ "))
}

/// Reads the diff of one file.
pub(super) fn read<'t>(scan: &mut Scan<'t>, at: usize) -> Outcome<'t> {
    let text = scan.text();
    let (line, _) = line_at(text, at);
    let has_header = line.first() != Some(&b'@');
    let header = if has_header {
        match read_header(text, at) {
            Some(header) if header.has_content => header,
            _ => return Outcome::NotHere,
        }
    } else {
        FileHeader { path: scan.hint().unwrap_or_default(), end: at, ..FileHeader::default() }
    };
    let mut reader = Reader { text, at: header.end, hunks: Vec::new(), fence: scan.open_fence() };
    reader.hunks(scan);
    let Reader { at: end, hunks, .. } = reader;
    let FileHeader { path, old_path, meta, .. } = header;
    if hunks.is_empty() && meta.is_none() {
        let (first, _) = line_at(text, at);
        if first.starts_with(b"diff --") {
            let change = Change::Meta("empty");
            scan.edit(Edit { format: Format::UnifiedDiff, path, old_path, change, bytes: at..end });
        } else {
            scan.note(at..end, note::NO_HUNKS, format!("the diff of `{path}` has no hunk"), true);
        }
        return Outcome::Done(end);
    }
    if !has_header {
        scan.note(at..end, note::NO_FILE_HEADER, "hunks without a file header", false);
    }
    let change = match meta {
        Some("submodule") => Change::Meta("submodule"),
        Some(meta) if hunks.is_empty() => Change::Meta(meta),
        _ => Change::Hunks(hunks),
    };
    scan.edit(Edit { format: Format::UnifiedDiff, path, old_path, change, bytes: at..end });
    Outcome::Done(end)
}

/// Reads a fence's body whose language is `diff` and that has neither a file header nor numbered hunks: one hunk, or
/// several between lines that start with `@@`. `None` when it has no changed line.
pub(super) fn read_bare(text: &[u8], body: std::ops::Range<usize>) -> Option<Vec<Hunk>> {
    let text = text.get(..body.end)?;
    let mut hunks = vec![Hunk::default()];
    let mut at = body.start;
    while at < text.len() {
        let (line, next) = line_at(text, at);
        if line.starts_with(b"@@") {
            hunks.push(Hunk { section: bare_section(line), ..Hunk::default() });
        } else if let Some(hunk) = hunks.last_mut() {
            match kind_of(line) {
                Some(_) if line.starts_with(b"--- ") || line.starts_with(b"+++ ") => {}
                Some(kind) => push(hunk, kind, text, at, next, 1),
                None if line.starts_with(b"\\") => mark_bare_end(hunk),
                None => push(hunk, HunkLine::Context, text, at, next, 0),
            }
        }
        at = next;
    }
    hunks.retain(|hunk| hunk.lines.iter().any(|(kind, _)| *kind != HunkLine::Context));
    (!hunks.is_empty()).then_some(hunks)
}

/// The title of a hunk header without numbers.
fn bare_section(line: &[u8]) -> Vec<u8> {
    let inside: &[u8] = line.strip_prefix(b"@@").unwrap_or(line);
    let inside = inside.trim_ascii();
    inside.strip_suffix(b"@@").unwrap_or(inside).trim_ascii().to_vec()
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    hunks: Vec<Hunk>,
    fence: Option<fence::Open>,
}

impl Reader<'_> {
    fn hunks(&mut self, scan: &mut Scan) {
        loop {
            let (line, next) = line_at(self.text, self.at);
            if self.at >= self.text.len() {
                return;
            }
            if line.starts_with(b"@@") {
                let start = self.at;
                match read_ranges(line) {
                    Some((ranges, section)) if ranges.len() > 2 => {
                        let section = section.to_vec();
                        self.at = next;
                        self.combined(&ranges, section);
                        let what = format!("a hunk against {} parents", ranges.len() - 1);
                        scan.note(start..self.at, note::COMBINED_DIFF, what, false);
                    }
                    Some(_) => self.numbered(scan, line, next),
                    None => {
                        self.at = next;
                        self.unnumbered(scan, bare_section(line));
                    }
                }
            } else if self.hunks.is_empty()
                && kind_of(line).is_some()
                && !is_header_pair(self.text, line, next)
            {
                // A file header with changed lines right after it.
                let before = self.at;
                self.unnumbered(scan, Vec::new());
                if self.hunks.is_empty() {
                    self.at = before;
                    return;
                }
            } else {
                // Blank lines may stand between hunks.
                let hunk_follows = |line: &[u8], _| line.starts_with(b"@@");
                match blank_run(self.text, self.at, hunk_follows).filter(|&end| end > self.at) {
                    Some(end) => self.at = end,
                    None => return,
                }
            }
        }
    }

    /// True at a line that cannot belong to a hunk because the next file starts there.
    fn is_next_file(&self, line: &[u8], next: usize, due: Option<(usize, usize)>) -> bool {
        if line.starts_with(b"diff --") || line.starts_with(b"@@") {
            return true;
        }
        if !is_header_pair(self.text, line, next) {
            return false;
        }
        let Some(due) = due else { return true };
        let (_, third) = line_at(self.text, next);
        let (third, _) = line_at(self.text, third);
        // Content only if nothing but these two lines is due, or no hunk follows them.
        read_ranges(third).is_some() && due != (1, 1)
    }

    fn closes_fence(&self, line: &[u8]) -> bool {
        self.fence.is_some_and(|fence| fence.closed_by(line)) && !line.starts_with(b" ")
    }

    fn numbered(&mut self, scan: &mut Scan, line: &[u8], next: usize) {
        let Some((range, section)) = read_range(line) else { return };
        let start = self.at;
        let mut hunk = Hunk { range: Some(range), section: section.to_vec(), ..Hunk::default() };
        let (mut old_due, mut new_due) = (range.old_count, range.new_count);
        let (mut overrun, mut unprefixed, mut bare_blanks) = (false, false, 0);
        self.at = next;
        while self.at < self.text.len() {
            let (line, next) = line_at(self.text, self.at);
            if line.first() == Some(&b'\\') {
                mark_bare_end(&mut hunk);
                self.at = next;
                continue;
            }
            let satisfied = old_due == 0 && new_due == 0;
            let due = (!satisfied).then_some((old_due, new_due));
            if self.is_next_file(line, next, due) || self.closes_fence(line) {
                break;
            }
            let bare = is_blank(line) && line.first() != Some(&b' ');
            let kind = match kind_of(line) {
                // The line before a mail's signature.
                Some(_) if satisfied && line == b"-- " => break,
                Some(kind) => kind,
                None if satisfied => break,
                None if bare => HunkLine::Context,
                None if self.fence.is_some() && !fence::looks_like_fence(line) => {
                    unprefixed = true;
                    HunkLine::Context
                }
                None => break,
            };
            let prefix = usize::from(kind_of(line).is_some());
            let (old, new) =
                (usize::from(kind != HunkLine::Add), usize::from(kind != HunkLine::Delete));
            overrun |= old > old_due || new > new_due;
            (old_due, new_due) = (old_due.saturating_sub(old), new_due.saturating_sub(new));
            bare_blanks = if bare { bare_blanks + 1 } else { 0 };
            push(&mut hunk, kind, self.text, self.at, next, prefix);
            self.at = next;
        }
        if old_due > 0 || new_due > 0 {
            // The counts are wrong, so blank lines at the end are a gap before what follows.
            for _ in 0..bare_blanks {
                if let Some((_, line)) = hunk.lines.pop() {
                    self.at = line.bytes.start;
                }
            }
        }
        let count = |but: HunkLine| hunk.lines.iter().filter(|(kind, _)| *kind != but).count();
        let (old, new) = (count(HunkLine::Add), count(HunkLine::Delete));
        let number = self.hunks.len() + 1;
        let what = || {
            format!(
                "hunk {number} declares {}/{}, has {old}/{new}",
                range.old_count, range.new_count
            )
        };
        if overrun {
            scan.note(start..self.at, note::WRONG_COUNT, what(), false);
        } else if old < range.old_count || new < range.new_count {
            scan.note(start..self.at, note::SHORT_HUNK, what(), false);
        }
        if unprefixed {
            scan.note(
                start..self.at,
                note::UNPREFIXED_LINE,
                format!("hunk {number} has lines without a prefix"),
                false,
            );
        }
        self.hunks.push(hunk);
    }

    fn unnumbered(&mut self, scan: &mut Scan, section: Vec<u8>) {
        let start = self.at;
        let mut hunk = Hunk { section, ..Hunk::default() };
        let mut unprefixed = false;
        while self.at < self.text.len() {
            let (line, next) = line_at(self.text, self.at);
            if self.is_next_file(line, next, None) || self.closes_fence(line) {
                break;
            }
            match kind_of(line) {
                Some(kind) => push(&mut hunk, kind, self.text, self.at, next, 1),
                None if line.first() == Some(&b'\\') => mark_bare_end(&mut hunk),
                None if is_blank(line) => {
                    let goes_on = |line: &[u8], next| {
                        kind_of(line).is_some() && !is_header_pair(self.text, line, next)
                            || self.fence.is_some()
                                && !self.closes_fence(line)
                                && !self.is_next_file(line, next, None)
                    };
                    let Some(end) = blank_run(self.text, self.at, goes_on) else { break };
                    push_blanks(&mut hunk, self.text, self.at, end);
                    self.at = end;
                    continue;
                }
                None if self.fence.is_some() && !fence::looks_like_fence(line) => {
                    unprefixed = true;
                    push(&mut hunk, HunkLine::Context, self.text, self.at, next, 0);
                }
                None => break,
            }
            self.at = next;
        }
        if unprefixed {
            let what = format!("hunk {} has lines without a prefix", self.hunks.len() + 1);
            scan.note(start..self.at, note::UNPREFIXED_LINE, what, false);
        }
        if !hunk.lines.is_empty() {
            self.hunks.push(hunk);
        }
    }

    /// A hunk against several parents: as many prefix columns.
    fn combined(&mut self, ranges: &[(usize, usize)], section: Vec<u8>) {
        let parents = ranges.len() - 1;
        let mut due: Vec<usize> = ranges.iter().map(|(_, count)| *count).collect();
        let mut hunk = Hunk { section, ..Hunk::default() };
        while self.at < self.text.len() && due.iter().any(|&due| due > 0) {
            let (line, next) = line_at(self.text, self.at);
            if line.first() == Some(&b'\\') {
                mark_bare_end(&mut hunk);
                self.at = next;
                continue;
            }
            let bare = line.is_empty() || line == b"\r";
            let columns: &[u8] = if bare { &[] } else { line.get(..parents).unwrap_or(line) };
            if !columns.iter().all(|b| matches!(b, b' ' | b'+' | b'-')) {
                break;
            }
            let deleted = columns.contains(&b'-');
            let kind = match (deleted, columns.contains(&b'+')) {
                (true, _) => HunkLine::Delete,
                (false, true) => HunkLine::Add,
                (false, false) => HunkLine::Context,
            };
            for (parent, due) in due.iter_mut().enumerate() {
                let column = columns.get(parent).copied().unwrap_or(b' ');
                let counts = if parent == parents {
                    !deleted
                } else {
                    (column == b'-') == deleted && column != b'+'
                };
                *due = due.saturating_sub(usize::from(counts));
            }
            push(&mut hunk, kind, self.text, self.at, next, columns.len());
            self.at = next;
        }
        self.hunks.push(hunk);
    }
}
