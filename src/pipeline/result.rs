//! What the pipeline gives: credit of trajectories and rows, the groups, and what was found on the way.

use std::ops::Range;

use crate::advantage::SequenceCredit;
use crate::edits::{EditType, Format, Note};
use crate::pipeline::Diagnostics;

/// Credit of a batch: one entry per task, in the order of the batch.
#[derive(Debug, Clone)]
pub struct Credit {
    /// Tasks, parallel to [`crate::rollout::Batch::tasks`].
    pub tasks: Vec<TaskCredit>,
    /// What happened on the way, summed over the tasks.
    pub diagnostics: Diagnostics,
}

/// Credit of one task.
#[derive(Debug, Clone)]
pub struct TaskCredit {
    /// Trajectories, parallel to [`crate::rollout::Task::trajectories`].
    pub trajectories: Vec<TrajectoryCredit>,
    /// Groups of the diff advantage, in the order their anchors were picked.
    pub groups: Vec<Group>,
    /// Root diffs found, in the order of the turns; empty unless [`crate::pipeline::Extras::keep_roots`] asks for them.
    pub roots: Vec<RootView>,
    /// What was odd about the edits, in the order of the turns.
    pub notes: Vec<TurnNote>,
}

/// Credit of one trajectory.
#[derive(Debug, Clone)]
pub struct TrajectoryCredit {
    /// Outcome, or the sum of the turn rewards; `None` when unscored.
    pub score: Option<f64>,
    /// Episode advantage A^E.
    pub episode: f32,
    /// Sequences, parallel to [`crate::rollout::Trajectory::sequences`].
    pub sequences: Vec<SequenceCredit>,
}

/// A turn of a task: indices into its trajectory, its sequence, and the sequence's turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnRef {
    /// Index into [`crate::rollout::Task::trajectories`].
    pub trajectory: usize,
    /// Index into [`crate::rollout::Trajectory::sequences`].
    pub sequence: usize,
    /// Index into [`crate::rollout::Sequence::turns`].
    pub turn: usize,
    /// Number of the turn in its trajectory, from 0.
    pub number: usize,
}

/// An anchor with its group.
#[derive(Debug, Clone)]
pub struct Group {
    /// Groupability score after the cut.
    pub score: f64,
    /// Mean size of the members in lines.
    pub mean_lines: f64,
    /// Edit type of all members.
    pub edit_type: EditType,
    /// File of the anchor itself; empty when unknown.
    pub path: String,
    /// Members, by turn.
    pub members: Vec<Member>,
}

/// An occurrence in a group.
#[derive(Debug, Clone)]
pub struct Member {
    /// Where it stands.
    pub turn: TurnRef,
    /// Bytes of the sequence's text: the lines of the window, neighbours merged, in order.
    pub bytes: Vec<Range<usize>>,
    /// Lines after normalisation.
    pub n_lines: u32,
    /// Similarity to the anchor.
    pub similarity: f64,
    /// Return of its turn; `None` when the trajectory is unscored.
    pub turn_return: Option<f64>,
    /// Diff advantage A^D, before lambda.
    pub advantage: f32,
}

/// A root diff as the response has it, for people to look at.
#[derive(Debug, Clone)]
pub struct RootView {
    /// Where it stands.
    pub turn: TurnRef,
    /// File; empty when unknown.
    pub path: String,
    /// What happens to the lines.
    pub edit_type: EditType,
    /// Notation of the edit.
    pub format: Format,
    /// Each line: its text without notation, and its bytes in the sequence's text.
    pub lines: Vec<(Vec<u8>, Range<usize>)>,
}

/// A note about a piece of a turn; its bytes count in the sequence's text.
#[derive(Debug, Clone)]
pub struct TurnNote {
    /// Where it stands.
    pub turn: TurnRef,
    /// What was found.
    pub note: Note,
}
