//! What is known of a trajectory's files, and edits applied to it.
//!
//! A version is known from a write, from a diff that creates the file, or because the caller gave it. Every later edit
//! is applied to it where it fits: search text at its first exact place, hunks at their line numbers or else at the
//! first place after the hunk before, insertions at their line. Where it does not fit the version stays as it was.
//! Lines that differ only in white space at their ends match when nothing matches exactly.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::text::line_at;
use super::{EditType, Hunk, HunkLine, SourceLine};

/// The files of one trajectory as far as they are known, and the root diffs of its last edits.
#[derive(Debug, Clone, Default)]
pub struct FileVersions {
    /// Content by path; every line ends with a line feed.
    files: FxHashMap<String, Vec<u8>>,
    /// What the last turn put in, took out or overwrote, by path and type, normalised.
    pub(super) emitted: FxHashMap<(String, EditType), FxHashSet<Vec<u8>>>,
    /// Bytes that may still be read for applying edits in this turn.
    pub(super) work: usize,
}

impl FileVersions {
    /// Nothing is known.
    pub fn new() -> Self {
        FileVersions::default()
    }

    /// Makes the content of a file known, as before the first edit of the trajectory.
    pub fn set(&mut self, path: &str, content: &[u8]) {
        let mut content = content.to_vec();
        if !content.is_empty() && !content.ends_with(b"\n") {
            content.push(b'\n');
        }
        self.files.insert(path.to_owned(), content);
    }

    /// The content of a file when it is known; every line ends with a line feed.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Bytes of all known files.
    pub(super) fn total_bytes(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    pub(super) fn write(&mut self, path: &str, lines: &[SourceLine]) {
        // A file without a name is not known by it.
        if !path.is_empty() {
            self.files
                .insert(path.to_owned(), joined(lines.iter().map(|line| line.text.as_slice())));
        }
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.files.remove(path);
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        match self.files.remove(from) {
            Some(content) => self.files.insert(to.to_owned(), content),
            None => self.files.remove(to),
        };
    }

    pub(super) fn copy(&mut self, from: &str, to: &str) {
        match self.files.get(from).cloned() {
            Some(content) => self.files.insert(to.to_owned(), content),
            None => self.files.remove(to),
        };
    }

    /// Takes the bytes that applying an edit reads from what this turn may spend; `Err` says what is wrong.
    fn spend(&mut self, path: &str, more: usize) -> Result<(), &'static str> {
        let cost = self.files.get(path).map_or(0, Vec::len).saturating_add(more);
        self.work = self
            .work
            .checked_sub(cost)
            .ok_or("the turn has too many edits of large files to follow")?;
        Ok(())
    }

    /// Replaces the first place of `old`. Does nothing when the file is not known.
    pub(super) fn replace(
        &mut self,
        path: &str,
        old: &[SourceLine],
        new: &[SourceLine],
    ) -> Result<(), &'static str> {
        if !self.files.contains_key(path) {
            return Ok(());
        }
        self.spend(path, old.len())?;
        let Some(content) = self.files.get_mut(path) else { return Ok(()) };
        let texts = |lines: &[SourceLine]| joined(lines.iter().map(|line| line.text.as_slice()));
        let (old, mut new) = (texts(old), texts(new));
        let place = match find_lines(content, &old) {
            Some(place) => Some(place),
            None => {
                // A search text may begin and end inside a line.
                let part = old.strip_suffix(b"\n").unwrap_or(&old);
                let inside = memchr::memmem::find(content, part).map(|at| at..at + part.len());
                if inside.is_some() && new.ends_with(b"\n") {
                    new.pop();
                }
                inside.or_else(|| find_loosely(content, &old))
            }
        };
        let place =
            place.ok_or("the text that it replaces is not in the known version of the file")?;
        content.splice(place, new);
        close_last_line(content);
        Ok(())
    }

    /// Inserts lines after the first `after` ones, or at the end. Does nothing when the file is not known.
    pub(super) fn insert(
        &mut self,
        path: &str,
        new: &[SourceLine],
        after: Option<usize>,
    ) -> Result<(), &'static str> {
        if !self.files.contains_key(path) {
            return Ok(());
        }
        self.spend(path, 0)?;
        let Some(content) = self.files.get_mut(path) else { return Ok(()) };
        let after = after.ok_or("it says not where it inserts")?;
        let at = line_offset(content, after)
            .ok_or("it inserts after the end of the known version of the file")?;
        content.splice(at..at, joined(new.iter().map(|line| line.text.as_slice())));
        Ok(())
    }

    /// Adds lines at the end of a known file.
    pub(super) fn append(&mut self, path: &str, new: &[SourceLine]) {
        if let Some(content) = self.files.get_mut(path) {
            content.extend(joined(new.iter().map(|line| line.text.as_slice())));
        }
    }

    /// Applies all hunks or none. A hunk that creates the file makes it known; one that empties it forgets it.
    pub(super) fn apply(&mut self, path: &str, hunks: &[Hunk]) -> Result<(), &'static str> {
        let creates = |hunk: &Hunk| {
            hunk.range.is_some_and(|range| range.old_start == 0 && range.old_count == 0)
        };
        let removes = |hunk: &Hunk| {
            hunk.range.is_some_and(|range| range.new_start == 0 && range.new_count == 0)
        };
        if let [hunk] = hunks {
            if creates(hunk) && self.files.get(path).is_none_or(Vec::is_empty) {
                let lines: Vec<SourceLine> =
                    hunk.lines.iter().map(|(_, line)| line.clone()).collect();
                self.write(path, &lines);
                return Ok(());
            }
            if removes(hunk) {
                self.remove(path);
                return Ok(());
            }
        }
        if !self.files.contains_key(path) {
            return Ok(());
        }
        self.spend(path, 0)?;
        let Some(content) = self.files.get_mut(path) else { return Ok(()) };
        *content =
            applied(content, hunks).ok_or("a hunk does not fit the known version of the file")?;
        Ok(())
    }
}

fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text
}

fn close_last_line(content: &mut Vec<u8>) {
    if !content.is_empty() && !content.ends_with(b"\n") {
        content.push(b'\n');
    }
}

/// Offset after the first `lines` lines.
fn line_offset(content: &[u8], lines: usize) -> Option<usize> {
    match lines {
        0 => Some(0),
        _ => memchr::memchr_iter(b'\n', content).nth(lines - 1).map(|i| i + 1),
    }
}

/// The first place where whole lines equal `needle`, which ends with a line feed. Nothing is found for an empty one.
fn find_lines(content: &[u8], needle: &[u8]) -> Option<Range<usize>> {
    if needle.is_empty() {
        return None;
    }
    let finder = memchr::memmem::Finder::new(needle);
    let is_whole = |&at: &usize| at == 0 || content.get(at - 1) == Some(&b'\n');
    finder.find_iter(content).find(is_whole).map(|at| at..at + needle.len())
}

/// The same with white space at the ends of lines left out of the comparison. The place found is one of the content as
/// it is, not of a normalised copy. Nothing is found for a needle of blank lines.
fn find_loosely(content: &[u8], needle: &[u8]) -> Option<Range<usize>> {
    let lines = |text: &[u8]| {
        // Trimmed lines joined again, and where each starts in the text.
        let (mut trimmed, mut starts) = (Vec::with_capacity(text.len()), Vec::new());
        let mut at = 0;
        while at < text.len() {
            let (line, next) = line_at(text, at);
            starts.push((trimmed.len(), at));
            trimmed.extend_from_slice(line.trim_ascii_end());
            trimmed.push(b'\n');
            at = next;
        }
        starts.push((trimmed.len(), text.len()));
        (trimmed, starts)
    };
    let (needle, _) = lines(needle);
    if needle.trim_ascii().is_empty() {
        return None;
    }
    let (trimmed, starts) = lines(content);
    let place = find_lines(&trimmed, &needle)?;
    let original = |at: usize| {
        starts.binary_search_by_key(&at, |(trimmed, _)| *trimmed).ok().map(|i| starts[i].1)
    };
    Some(original(place.start)?..original(place.end)?)
}

/// The content after all hunks, `None` when one does not fit.
fn applied(content: &[u8], hunks: &[Hunk]) -> Option<Vec<u8>> {
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut at = 0;
    while at < content.len() {
        let (line, next) = line_at(content, at);
        lines.push(line);
        at = next;
    }
    // Lines compared in search of places: enough for any real diff, and an end to any other.
    let mut budget = lines.len().saturating_add(1024).saturating_mul(16);
    let mut result: Vec<&[u8]> = Vec::with_capacity(lines.len());
    let mut cursor = 0;
    for hunk in hunks {
        let old: Vec<&[u8]> = side(hunk, HunkLine::Add);
        let place = match hunk.range {
            _ if !old.is_empty() => {
                let stated = hunk.range.map(|range| range.old_start.saturating_sub(1));
                find_hunk(&lines, &old, cursor, stated, &mut budget)?
            }
            Some(range) => range.old_start,
            None => lines.len(),
        };
        result.extend_from_slice(lines.get(cursor..place)?);
        result.extend(side(hunk, HunkLine::Delete));
        cursor = place + old.len();
    }
    result.extend_from_slice(lines.get(cursor..)?);
    Some(joined(result.into_iter()))
}

/// The lines of a hunk except those of one kind.
fn side(hunk: &Hunk, without: HunkLine) -> Vec<&[u8]> {
    hunk.lines
        .iter()
        .filter(|(kind, _)| *kind != without)
        .map(|(_, line)| line.text.as_slice())
        .collect()
}

/// Where the lines of a hunk stand, at or after `cursor`: as stated, or the first place exactly, or the first loosely.
fn find_hunk(
    lines: &[&[u8]],
    old: &[&[u8]],
    cursor: usize,
    stated: Option<usize>,
    budget: &mut usize,
) -> Option<usize> {
    let mut fits = |at: usize, equal: fn(&[u8], &[u8]) -> bool| {
        let place = lines.get(at..at.checked_add(old.len())?)?;
        let same = place.iter().zip(old).take_while(|(a, b)| equal(a, b)).count();
        *budget = budget.checked_sub(same + 1)?;
        Some(same == old.len())
    };
    if let Some(at) = stated
        && at >= cursor
        && fits(at, exactly) == Some(true)
    {
        return Some(at);
    }
    for equal in [exactly as fn(&[u8], &[u8]) -> bool, loosely] {
        let mut at = cursor;
        while let Some(fit) = fits(at, equal) {
            if fit {
                return Some(at);
            }
            at += 1;
        }
    }
    None
}

fn exactly(a: &[u8], b: &[u8]) -> bool {
    a == b
}

fn loosely(a: &[u8], b: &[u8]) -> bool {
    a.trim_ascii_end() == b.trim_ascii_end()
}
