//! Fenced code blocks, by CommonMark's rules: a fence opens at the start of a line (up to three spaces before it) with
//! at least three backticks or tildes, and closes at a bare line of the same character, at least as long.
//!
//! A block is a file to write when it names one: in its info string (`python src/a.py`, `python:src/a.py`,
//! `title="src/a.py"`), in the line before it, or in a first line that is a comment with nothing but the name. A block
//! that begins with another notation, or whose language is none of code and that holds one, is a wrapper around it.
//!
//! With [`Fences::Auto`] a block that names no file is an edit only in a response without edits in another notation,
//! and only when its language is not one of shells, outputs and prose (`bash`, `text`, `json`, …); a response with
//! nothing but one such block means it. Unclosed blocks go on to the end of the text.

use std::ops::Range;

use bstr::ByteSlice;

use super::path::{is_path, path_before, path_of_comment, path_of_line};
use super::scan::{Container, Found, Outcome, Scan};
use super::text::{is_blank, line_at, line_end, next_line_where};
use super::{Change, Edit, EditConfig, Fences, Format, Note, SourceLine, note, unified_diff};

/// An opening fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Open {
    byte: u8,
    length: usize,
    indent: usize,
}

/// Info strings: the language, and the file when it is named there.
#[derive(Debug)]
pub(super) struct Opening {
    open: Open,
    language: String,
    path: Option<String>,
}

/// What a fence's block is, apart from its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// It names a file.
    named: bool,
    /// Its language is one of shells, outputs or prose.
    prose: bool,
}

const PROSE: [&str; 34] = [
    "bash",
    "sh",
    "shell",
    "zsh",
    "fish",
    "console",
    "shell-session",
    "shellsession",
    "terminal",
    "powershell",
    "ps1",
    "cmd",
    "bat",
    "text",
    "txt",
    "plain",
    "plaintext",
    "output",
    "stdout",
    "stderr",
    "log",
    "logs",
    "traceback",
    "error",
    "json",
    "jsonl",
    "md",
    "markdown",
    "diff",
    "patch",
    "xml",
    "mermaid",
    "tool_code",
    "tool_call",
];

/// Fence characters at the start of a line after up to three spaces: (byte, run, indent).
fn run(line: &[u8]) -> Option<Open> {
    let indent = line.iter().take(4).take_while(|b| **b == b' ').count();
    let byte = *line.get(indent).filter(|b| indent < 4 && matches!(b, b'`' | b'~'))?;
    let length = line.get(indent..)?.iter().take_while(|b| **b == byte).count();
    (length >= 3).then_some(Open { byte, length, indent })
}

/// True for a line that opens or closes a fence.
pub(super) fn looks_like_fence(line: &[u8]) -> bool {
    run(line).is_some()
}

impl Open {
    /// True when the line closes this fence.
    pub(super) fn closed_by(self, line: &[u8]) -> bool {
        run(line).is_some_and(|other| {
            let rest = line.get(other.indent + other.length..).unwrap_or_default();
            other.byte == self.byte && other.length >= self.length && is_blank(rest)
        })
    }
}

impl Opening {
    /// The file that the info string names.
    pub(super) fn path(&self) -> Option<String> {
        self.path.clone()
    }

    /// True when there is an info string, so that the fence cannot be a closing one.
    pub(super) fn has_info(&self) -> bool {
        !self.language.is_empty() || self.path.is_some()
    }
}

/// Reads a line that may open a fence.
pub(super) fn read_opening(line: &[u8]) -> Option<Opening> {
    let open = run(line)?;
    let info = line.get(open.indent + open.length..)?.trim();
    if open.byte == b'`' && info.contains(&b'`') {
        return None;
    }
    let info = info.get(..info.len().min(400))?.to_str_lossy();
    let mut words = info.split_whitespace();
    let first = words.next().unwrap_or_default().trim_start_matches(['{', '.']);
    let (mut language, mut path) = (first, None);
    if let Some((before, after)) = first.split_once(':')
        && is_path(after)
    {
        (language, path) = (before, Some(after));
    } else if is_path(first) {
        (language, path) = ("", Some(first));
    }
    for word in words {
        let word = word.trim_matches(['{', '}', ',']);
        let value = match word.split_once('=') {
            Some(("title" | "file" | "filename" | "path" | "name", value)) => {
                value.trim_matches(['"', '\''])
            }
            Some(_) => continue,
            None => word.trim_matches(['"', '\'', '(', ')', '`', '*']),
        };
        if path.is_none() && is_path(value) {
            path = Some(value);
        }
    }
    let path = path.map(str::to_owned);
    Some(Opening { open, language: language.trim_end_matches('}').to_ascii_lowercase(), path })
}

/// The next line that looks like a fence.
pub(super) fn next(scan: &Scan, from: usize) -> Option<usize> {
    next_line_where(scan.full_text(), from, |line, _| looks_like_fence(line))
}

/// Reads the block that opens at `at`.
pub(super) fn read<'t>(scan: &mut Scan<'t>, at: usize) -> Outcome<'t> {
    let text = scan.text();
    let (line, start) = line_at(text, at);
    let Some(opening) = read_opening(line) else { return Outcome::NotHere };
    let close = scan.fence_end(opening.open, start);
    let body = start..close.unwrap_or(text.len()).max(start);
    let end = close.map_or(text.len(), |close| line_end(text, close));
    let (first, second) = line_at(text, start);
    let comment = || path_of_comment(first).filter(|_| start < body.end);
    let path = opening.path.clone().or_else(|| path_before(text, at)).or_else(comment);
    let prose = PROSE.contains(&opening.language.as_str());
    // Another notation makes the block a wrapper when it starts here at the latest.
    let is_code = path.is_some() || !prose && !opening.language.is_empty();
    let heading =
        is_blank(first) || path_of_line(first).is_some() || path_of_comment(first).is_some();
    let reach = match (is_code, heading) {
        (false, _) => body.end,
        (true, true) => line_end(text, second).min(body.end),
        (true, false) => second.min(body.end),
    };
    let block = Block { named: path.is_some(), prose };
    let is_diff = matches!(opening.language.as_str(), "diff" | "patch");
    let closed = close.is_some();
    let (hint, inside) = (path.clone(), body.clone());
    let fallback = Box::new(move || {
        let mut notes = Vec::new();
        let mut note = |kind, what: &str| {
            notes.push(Note { bytes: at..end, kind, what: what.to_owned(), skipped: false });
        };
        if !closed {
            note(note::UNCLOSED, "a fence without its end");
        }
        let bare = is_diff.then(|| unified_diff::read_bare(text, inside.clone())).flatten();
        let path = path.unwrap_or_default();
        let (change, block, format) = match bare {
            Some(hunks) => {
                note(note::NO_FILE_HEADER, "a diff without file header and line numbers");
                (Change::Hunks(hunks), None, Format::UnifiedDiff)
            }
            None => {
                let new = block_lines(text, inside, opening.open.indent);
                (Change::Write { new }, Some(block), Format::Fence)
            }
        };
        (
            Some(Found {
                edit: Edit { format, path, old_path: None, change, bytes: at..end },
                block,
            }),
            notes,
        )
    });
    Outcome::Container(Container { body, reach, end, hint, fence: Some(opening.open), fallback })
}

/// All lines that can close a fence, found in one pass, by character.
#[derive(Debug, Default)]
pub(super) struct Closings {
    backticks: Vec<Closing>,
    tildes: Vec<Closing>,
}

#[derive(Debug)]
struct Closing {
    at: usize,
    length: usize,
    /// Number of the next longer one.
    longer: usize,
}

impl Closings {
    /// Finds them.
    pub(super) fn new(text: &[u8]) -> Self {
        let mut closings = Closings::default();
        let mut at = 0;
        while at < text.len() {
            let (line, next) = line_at(text, at);
            if let Some(open) = run(line)
                && open.closed_by(line)
            {
                let list =
                    if open.byte == b'`' { &mut closings.backticks } else { &mut closings.tildes };
                list.push(Closing { at, length: open.length, longer: usize::MAX });
            }
            at = next;
        }
        for list in [&mut closings.backticks, &mut closings.tildes] {
            let mut shorter: Vec<usize> = Vec::new();
            for i in 0..list.len() {
                while let Some(&top) = shorter.last()
                    && list[top].length < list[i].length
                {
                    list[top].longer = i;
                    shorter.pop();
                }
                shorter.push(i);
            }
        }
        closings
    }

    /// The first line at or after `from` that closes the fence.
    pub(super) fn find(&self, open: Open, from: usize) -> Option<usize> {
        let list = if open.byte == b'`' { &self.backticks } else { &self.tildes };
        let mut number = list.partition_point(|closing| closing.at < from);
        loop {
            let closing = list.get(number)?;
            if closing.length >= open.length {
                return Some(closing.at);
            }
            number = closing.longer;
        }
    }
}

/// The lines of a block, without the spaces that stand before its fence too.
fn block_lines(text: &[u8], body: Range<usize>, indent: usize) -> Vec<SourceLine> {
    let mut lines = super::text::lines_of(text, body);
    for line in &mut lines {
        let spaces = line.text.iter().take(indent).take_while(|b| **b == b' ').count();
        line.text.drain(..spaces);
    }
    lines
}

/// The inside of a body that is nothing but one fenced block; else the body.
pub(super) fn unwrap(text: &[u8], body: Range<usize>) -> Range<usize> {
    let Some(inside) = text.get(..body.end) else { return body };
    let (first, start) = line_at(inside, body.start);
    let Some(opening) = read_opening(first) else { return body };
    let Some(close) = next_line_where(inside, start, |line, _| opening.open.closed_by(line)) else {
        return body;
    };
    let end = line_end(inside, close);
    if is_blank(&inside[end..].replace("\n", "")) { start..close } else { body }
}

/// Decides which blocks are edits; the others become notes.
pub(super) fn choose(found: Vec<Found>, notes: &mut Vec<Note>, config: &EditConfig) -> Vec<Edit> {
    let others = found.iter().any(|found| found.block.is_none());
    let blocks = found.iter().filter(|found| found.block.is_some()).count();
    let mut edits = Vec::with_capacity(found.len());
    let mut skipped = rustc_hash::FxHashSet::default();
    for Found { edit, block } in found {
        let reason = match (block, config.fences) {
            (None, _) | (_, Fences::Always) => None,
            (Some(_), Fences::Never) => {
                Some((note::FENCES_OFF, "a code block, and `fences` is `never`"))
            }
            (Some(block), Fences::Auto) if block.named => None,
            (Some(_), Fences::Auto) if others => {
                Some((note::UNNAMED_FENCE, "a code block without a file name beside other edits"))
            }
            (Some(block), Fences::Auto) if block.prose && blocks > 1 => Some((
                note::UNNAMED_FENCE,
                "a block of a shell, an output or prose without a file name",
            )),
            _ => None,
        };
        match reason {
            None => edits.push(edit),
            Some((kind, what)) => {
                skipped.insert(edit.bytes.start);
                notes.push(Note { bytes: edit.bytes, kind, what: what.to_owned(), skipped: true });
            }
        }
    }
    // A skipped block needs no second note.
    notes.retain(|note| note.kind != note::UNCLOSED || !skipped.contains(&note.bytes.start));
    edits
}
