//! Rollouts: the batch that everything else works on, and the readers that make one from a trainer's dump.
//!
//! A [`Batch`] holds tasks; a task its trajectories (rollouts of the same problem); a trajectory its sequences (the
//! trainer's rows of tokens) in order; a sequence one turn (verl-agent style) or several (a whole conversation in one
//! row). All offsets are **bytes** of [`Sequence::text`]; token positions are indices into [`Tokens::byte_ends`].

mod areal;
mod batch;
mod fields;
mod format;
mod hunkwise;
mod ids;
mod json;
mod key;
mod lines;
mod nemo_rl;
mod prime_rl;
mod read;
mod synthetic;
pub mod token_bytes;
mod trl;
mod validate;
mod verl;

pub use batch::Row;
pub use format::DumpFormat;
pub use key::Key;
pub use read::{DumpReader, ReadOptions, read_files, read_from};
pub use synthetic::{Shape, synthetic};
pub use token_bytes::TokenBytes;

use std::ops::Range;

use crate::error::Place;

/// Rollouts of any number of tasks, in canonical order: see [`Batch::new`].
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Tasks, by id.
    pub tasks: Vec<Task>,
    /// Rows that could not be taken, or only in part, each with its place and its reason, sorted by place. They are
    /// counted in every report.
    pub flagged: Vec<Flagged>,
    /// What the reader assumed or ignored, one sentence each, sorted.
    pub notes: Vec<String>,
}

/// One problem: its rollouts are compared with each other and with nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Unique in the batch.
    pub id: String,
    /// Rollouts, by id.
    pub trajectories: Vec<Trajectory>,
}

/// One rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct Trajectory {
    /// Unique in the task.
    pub id: String,
    /// Score of the whole rollout. `None` when there is none: then the sum of the turn rewards stands for it, and a
    /// trajectory with neither is unscored (advantage 0, outside all statistics, counted).
    pub outcome: Option<f64>,
    /// The trainer's rows, in the order of their turns.
    pub sequences: Vec<Sequence>,
}

/// One row of the trainer: the response text of one turn or of several, and its tokens when they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// Text of the row after the prompt: model output, and tool output where the row holds several turns.
    /// Bytes, for a row cut inside a character is not UTF-8.
    pub text: Vec<u8>,
    /// Tokens of `text`, when known.
    pub tokens: Option<Tokens>,
    /// What the model wrote, in order; disjoint byte ranges of `text`.
    pub turns: Vec<Turn>,
    /// Index of the first turn in its trajectory, as the dump gives it; 0 where it gives none.
    pub first_turn: u64,
    /// Where the row was read.
    pub place: Place,
}

impl Trajectory {
    /// All turns, through its sequences.
    pub fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.sequences.iter().flat_map(|sequence| &sequence.turns)
    }
}

/// One model response inside a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Bytes of [`Sequence::text`].
    pub bytes: Range<usize>,
    /// Reward of this step; `None` is no reward.
    pub reward: Option<f64>,
    /// What the model saw before this turn, for step-level groups (GiGPO).
    pub observation: Option<String>,
}

/// Tokens of a sequence: token `i` has the bytes `byte_ends[i-1]..byte_ends[i]` (from 0 for the first).
/// A token may be empty (special tokens, padding) and may end inside a character.
#[derive(Debug, Clone, PartialEq)]
pub struct Tokens {
    /// Non-decreasing; the last equals the length of the text.
    pub byte_ends: Vec<u32>,
    /// True where the token is trained; as long as `byte_ends`.
    pub mask: Vec<bool>,
}

/// An input row that was not taken, or only in part, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flagged {
    /// File, line and field.
    pub place: Place,
    /// What is wrong and what was expected.
    pub reason: String,
}
