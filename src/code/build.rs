//! From root diffs to [`TaskCode`]: lexing, normalisation and interning, root by root.
//!
//! Linear in the bytes of the root diffs; one hash look-up per code token and per line.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::lexer::{self, Lexed};
use super::syntax::syntax_of;
use super::{Root, TaskCode};
use crate::edits::RootDiff;
use crate::error::{Error, Result};

/// Builds the [`TaskCode`] of one task.
///
/// Turns are begun one after another, in the order of their trajectories; each root diff belongs to the turn begun
/// last. What cannot be taken (see [`TaskCodeBuilder::finish`]) leaves the builder usable and is reported at the end.
#[derive(Debug, Clone)]
pub struct TaskCodeBuilder {
    code: TaskCode,
    token_ids: FxHashMap<Box<[u8]>, u32>,
    line_ids: FxHashMap<Box<[u32]>, u32>,
    lexed: Lexed,
    /// Most entries of any array, so that its indices fit `u32`.
    most: u64,
    /// Entries of the longest array, had everything been taken.
    needed: u64,
    fault: Option<Fault>,
}

/// Why the task cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    TooLarge,
    NoTurn,
    ByteOffset,
}

impl Default for TaskCodeBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl TaskCodeBuilder {
    /// A task without turns.
    pub fn new() -> Self {
        Self::with_limit(u64::from(u32::MAX))
    }

    fn with_limit(most: u64) -> Self {
        TaskCodeBuilder {
            code: TaskCode { line_tokens: vec![0], root_lines: vec![0], ..TaskCode::default() },
            token_ids: FxHashMap::default(),
            line_ids: FxHashMap::default(),
            lexed: Lexed::default(),
            most,
            needed: 0,
            fault: None,
        }
    }

    /// Begins the next turn of the task, of this trajectory; returns its number, from 0 in the order of the calls.
    /// Trajectories come in ascending order, each with all its turns.
    pub fn begin_turn(&mut self, trajectory: u32) -> u32 {
        let turn = self.code.turn_trajectory.len();
        if self.has_room(&[turn as u64 + 1]) {
            self.code.turn_trajectory.push(trajectory);
        }
        // Never cut off: beyond the limit `finish` fails.
        turn as u32
    }

    /// Adds a root diff to the turn begun last. `byte_offset` is added to the bytes of each of its lines: where the
    /// text that the edit was found in begins in the text of its sequence.
    ///
    /// Returns the root's number, or `None` when nothing is left of it without comments and blank lines, or when it
    /// cannot be taken.
    pub fn push_root(&mut self, root: &RootDiff, byte_offset: usize) -> Option<u32> {
        let Some(turn) = self.code.turn_trajectory.len().checked_sub(1) else {
            self.fault.get_or_insert(Fault::NoTurn);
            return None;
        };
        let mut lexed = std::mem::take(&mut self.lexed);
        lexer::lex(&syntax_of(&root.path), root.lines.len(), |i| &root.lines[i].text, &mut lexed);
        let number = self.push_lexed(root, turn as u32, byte_offset, &lexed);
        self.lexed = lexed;
        number
    }

    /// The task.
    ///
    /// # Errors
    /// [`Error::Limit`] when tokens, lines, roots or turns do not fit `u32`, or a byte range does not fit `usize`;
    /// [`Error::Shape`] when a root came before the first turn.
    pub fn finish(mut self) -> Result<TaskCode> {
        match self.fault {
            None => {}
            Some(Fault::TooLarge) => {
                return Err(Error::Limit {
                    op: "code",
                    what: "the longest index of a task, in entries,",
                    needed: self.needed,
                    limit: self.most,
                    advice: "give the task fewer rollouts or shorter edits",
                });
            }
            Some(Fault::ByteOffset) => {
                return Err(Error::Shape {
                    op: "code",
                    what: "a line's bytes plus its byte offset exceed the address space; give offsets of the text".into(),
                });
            }
            Some(Fault::NoTurn) => {
                return Err(Error::Shape {
                    op: "code",
                    what: "a root diff came before the first turn; begin a turn first".into(),
                });
            }
        }
        let mut vocabulary = vec![Box::default(); self.token_ids.len()];
        for (text, id) in self.token_ids {
            vocabulary[id as usize] = text;
        }
        self.code.vocabulary = vocabulary;
        Ok(self.code)
    }

    /// Do arrays of these lengths fit? Remembers when they do not.
    fn has_room(&mut self, lengths: &[u64]) -> bool {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        self.needed = self.needed.max(longest);
        if self.needed > self.most {
            self.fault.get_or_insert(Fault::TooLarge);
        }
        self.fault.is_none()
    }

    fn push_lexed(
        &mut self,
        root: &RootDiff,
        turn: u32,
        byte_offset: usize,
        lexed: &Lexed,
    ) -> Option<u32> {
        if lexed.n_tokens() == 0 {
            return None;
        }
        let number = self.code.roots.len();
        let tokens = self.code.tokens.len() as u64 + lexed.n_tokens() as u64;
        let lines = self.code.line_ids.len() as u64 + lexed.n_lines() as u64;
        if !self.has_room(&[tokens, lines, number as u64 + 1]) {
            return None;
        }
        let moved = |bytes: &Range<usize>| {
            Some(bytes.start.checked_add(byte_offset)?..bytes.end.checked_add(byte_offset)?)
        };
        if root.lines.iter().any(|line| moved(&line.bytes).is_none()) {
            self.fault.get_or_insert(Fault::ByteOffset);
            return None;
        }
        for (line_idx, line) in root.lines.iter().enumerate() {
            let ranges = lexed.line(line_idx);
            let (Some(bytes), false) = (moved(&line.bytes), ranges.is_empty()) else { continue };
            let first = self.code.tokens.len();
            for range in ranges {
                let id =
                    intern(&mut self.token_ids, line.text.get(range.clone()).unwrap_or_default());
                self.code.tokens.push(id);
            }
            self.code.line_ids.push(intern(&mut self.line_ids, &self.code.tokens[first..]));
            self.code.line_tokens.push(self.code.tokens.len() as u32);
            self.code.line_bytes.push(bytes);
        }
        self.code.root_lines.push(self.code.line_ids.len() as u32);
        self.code.roots.push(Root { turn, edit_type: root.edit_type, path: root.path.clone() });
        Some(number as u32)
    }
}

/// The number of `key`, given out in order of first sight. The caller has checked that there is room.
fn intern<T: Clone + Eq + std::hash::Hash>(ids: &mut FxHashMap<Box<[T]>, u32>, key: &[T]) -> u32 {
    if let Some(&id) = ids.get(key) {
        return id;
    }
    let id = ids.len() as u32;
    ids.insert(key.into(), id);
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edits::{EditType, Format, SourceLine};

    fn root(lines: &[&str]) -> RootDiff {
        let lines = lines
            .iter()
            .map(|l| SourceLine { text: l.as_bytes().to_vec(), bytes: 0..l.len() })
            .collect();
        RootDiff { path: "a.py".into(), edit_type: EditType::Add, lines, format: Format::Fence }
    }

    #[test]
    fn too_many_tokens_are_an_error_with_the_figure() {
        let mut builder = TaskCodeBuilder::with_limit(5);
        builder.begin_turn(0);
        assert_eq!(builder.push_root(&root(&["a b c"]), 0), Some(0));
        assert_eq!(builder.push_root(&root(&["d e f"]), 0), None);
        assert_eq!(builder.push_root(&root(&["g"]), 0), None, "nothing after a gap");
        match builder.finish() {
            Err(Error::Limit { needed: 6, limit: 5, .. }) => {}
            other => panic!("{other:?}"),
        }
        let mut builder = TaskCodeBuilder::with_limit(2);
        for _ in 0..3 {
            builder.begin_turn(0);
        }
        assert!(matches!(builder.finish(), Err(Error::Limit { needed: 3, limit: 2, .. })));
    }

    #[test]
    fn misuse_is_an_error() {
        let mut builder = TaskCodeBuilder::new();
        assert_eq!(builder.push_root(&root(&["a"]), 0), None);
        assert!(matches!(builder.finish(), Err(Error::Shape { .. })));
        let mut builder = TaskCodeBuilder::new();
        builder.begin_turn(0);
        assert_eq!(builder.push_root(&root(&["a"]), usize::MAX), None);
        assert!(matches!(builder.finish(), Err(Error::Shape { .. })));
    }
}
