//! Code: lines and code tokens of root diffs, and their windows.
//!
//! [`TaskCode`] holds the roots of one task after normalisation: comments and blank lines gone, every line a range of
//! interned code tokens, flat arrays that a device can take as they are. [`TaskCodeBuilder`] makes it from root diffs,
//! with the [`lexer`] and the [`syntax`] of each file; [`Windows`] are its candidates.

use std::ops::Range;

pub mod build;
mod languages;
pub mod lexer;
mod open;
mod scan;
mod strings;
pub mod syntax;
mod validate;
pub mod windows;

pub use build::TaskCodeBuilder;
pub use windows::Windows;

use crate::edits::EditType;

/// The code of one task: lines of all root diffs of all turns, flat.
///
/// With R roots, N lines and T code tokens: `root_lines` has R+1 entries, `line_tokens` N+1, `tokens` T.
/// Every line has at least one token and every root at least one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskCode {
    /// Interned code tokens, equal iff their text is equal; numbered from 0 in order of first occurrence.
    pub tokens: Vec<u32>,
    /// Line `i` has the tokens `line_tokens[i]..line_tokens[i+1]`.
    pub line_tokens: Vec<u32>,
    /// Equal iff the lines have the same tokens; numbered from 0 in order of first occurrence.
    pub line_ids: Vec<u32>,
    /// Bytes of line `i` in the text of its sequence.
    pub line_bytes: Vec<Range<usize>>,
    /// Root `r` has the lines `root_lines[r]..root_lines[r+1]`.
    pub root_lines: Vec<u32>,
    /// What each root is.
    pub roots: Vec<Root>,
    /// Text of each code token, by its number.
    pub vocabulary: Vec<Box<[u8]>>,
    /// Trajectory of each turn of the task (index into [`crate::rollout::Task::trajectories`]); turns are numbered
    /// through the task, trajectory by trajectory, also those without roots.
    pub turn_trajectory: Vec<u32>,
}

/// One root diff of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Turn it stands in, numbered through the task; roots are in the order of their turns.
    pub turn: u32,
    /// Edit type: roots of different types never match.
    pub edit_type: EditType,
    /// File; empty when unknown.
    pub path: String,
}

/// A window's place: lines `start..start + len` of a root, counted inside the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Root of the task.
    pub root: u32,
    /// First line in the root.
    pub start: u32,
    /// Lines, at least 1.
    pub len: u32,
}

impl TaskCode {
    /// Root diffs.
    pub fn n_roots(&self) -> usize {
        self.roots.len()
    }

    /// Lines of all roots.
    pub fn n_lines(&self) -> usize {
        self.line_ids.len()
    }

    /// Turns of the task, also those without roots.
    pub fn n_turns(&self) -> usize {
        self.turn_trajectory.len()
    }

    /// Lines of a root, as indices into the lines of the task.
    ///
    /// # Panics
    /// If there is no such root, as with a slice.
    #[inline]
    pub fn lines_of(&self, root: u32) -> Range<usize> {
        let root = root as usize;
        self.root_lines[root] as usize..self.root_lines[root + 1] as usize
    }

    /// Lines of a window, as indices into the lines of the task.
    ///
    /// # Panics
    /// If there is no such root; the lines of a span that goes past its root are another root's.
    #[inline]
    pub fn lines_in(&self, span: Span) -> Range<usize> {
        let first = self.lines_of(span.root).start + span.start as usize;
        first..first + span.len as usize
    }

    /// Code tokens of a window: those of its lines, one after another.
    ///
    /// # Panics
    /// If the span is none of this task, as with a slice.
    #[inline]
    pub fn tokens_of(&self, span: Span) -> &[u32] {
        let lines = self.lines_in(span);
        &self.tokens[self.line_tokens[lines.start] as usize..self.line_tokens[lines.end] as usize]
    }

    /// Bytes of a window in the text of its sequence, in the order of its lines. Lines that touch are one range; between
    /// two ranges stand bytes that are not the window's (context, comments, blank lines).
    ///
    /// # Panics
    /// If the span is none of this task, as with a slice.
    pub fn bytes_of(&self, span: Span) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut lines = self.line_bytes[self.lines_in(span)].iter().cloned().peekable();
        std::iter::from_fn(move || {
            let mut bytes = lines.next()?;
            while let Some(next) = lines.next_if(|next| next.start == bytes.end) {
                bytes.end = next.end;
            }
            Some(bytes)
        })
    }
}
