//! Code: lines and code tokens of root diffs, and their windows.
//!
//! [`TaskCode`] holds the roots of one task after normalisation: comments and blank lines gone, every line a range of
//! interned code tokens, flat arrays that a device can take as they are.

mod windows;

pub use windows::Windows;

use std::ops::Range;

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
