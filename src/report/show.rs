//! A task's rollouts as diffs with their credit: plain data for a terminal, a page or a notebook to draw.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::edits::EditType;
use crate::pipeline::{TaskCredit, TurnRef};
use crate::rollout::Task;

/// What a line of a diff does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Put in.
    Add,
    /// Taken out.
    Delete,
    /// Part of a file written whole.
    Overwrite,
}

/// A line of a diff with its credit.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownLine {
    /// What happens to it.
    pub sign: Sign,
    /// Its text, without notation.
    pub text: String,
    /// Advantage of its bytes: A^E, and lambda · A^D where a group covers it.
    pub advantage: f32,
    /// Group that covers it.
    pub anchor: Option<u32>,
}

/// One turn of a rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownTurn {
    /// Number of the turn in its trajectory, from 0.
    pub number: usize,
    /// Files in the order in which they are edited, each with its lines; empty when no edit was found.
    pub files: Vec<(String, Vec<ShownLine>)>,
    /// What was odd, in words.
    pub notes: Vec<String>,
}

/// One rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownRollout {
    /// Its id.
    pub trajectory: String,
    /// Its score; `None` when unscored.
    pub score: Option<f64>,
    /// Its episode advantage.
    pub episode: f32,
    /// Its turns.
    pub turns: Vec<ShownTurn>,
}

/// The rollouts of a task, in order, ready to be drawn.
pub fn show_task(task: &Task, credit: &TaskCredit) -> Vec<ShownRollout> {
    let mut rollouts: Vec<ShownRollout> = task
        .trajectories
        .iter()
        .zip(&credit.trajectories)
        .map(|(trajectory, c)| ShownRollout {
            trajectory: trajectory.id.clone(),
            score: c.score,
            episode: c.episode,
            turns: (0..trajectory.turns().count())
                .map(|number| ShownTurn { number, files: Vec::new(), notes: Vec::new() })
                .collect(),
        })
        .collect();
    // Pieces that a group covers, per row, by their first byte; they do not overlap.
    type Pieces = BTreeMap<usize, (Range<usize>, u32)>;
    let mut pieces: BTreeMap<(usize, usize), Pieces> = BTreeMap::new();
    for (anchor, group) in credit.groups.iter().enumerate() {
        for member in &group.members {
            let row = pieces.entry((member.turn.trajectory, member.turn.sequence)).or_default();
            row.extend(member.bytes.iter().map(|b| (b.start, (b.clone(), anchor as u32))));
        }
    }
    for root in &credit.roots {
        let row = pieces.get(&(root.turn.trajectory, root.turn.sequence));
        let shown = root.lines.iter().map(|(text, bytes)| {
            let anchor = row
                .and_then(|row| row.range(..=bytes.start).next_back())
                .filter(|(_, (piece, _))| bytes.start < piece.end)
                .map(|(_, (_, anchor))| *anchor);
            ShownLine {
                sign: sign_of(root.edit_type),
                text: String::from_utf8_lossy(text).into_owned(),
                advantage: advantage_at(credit, root.turn, bytes.start),
                anchor,
            }
        });
        let files = &mut rollouts[root.turn.trajectory].turns[root.turn.number].files;
        match files.last_mut() {
            Some((path, lines)) if *path == root.path => lines.extend(shown),
            _ => files.push((root.path.clone(), shown.collect())),
        }
    }
    for note in &credit.notes {
        let turn = &mut rollouts[note.turn.trajectory].turns[note.turn.number];
        let fate = if note.note.skipped { "skipped" } else { "flagged" };
        turn.notes.push(format!("{fate}: {} ({})", note.note.what, note.note.kind));
    }
    rollouts
}

fn sign_of(edit_type: EditType) -> Sign {
    match edit_type {
        EditType::Add => Sign::Add,
        EditType::Delete => Sign::Delete,
        EditType::Overwrite => Sign::Overwrite,
    }
}

fn advantage_at(credit: &TaskCredit, turn: TurnRef, byte: usize) -> f32 {
    let trajectory = &credit.trajectories[turn.trajectory];
    let spans = &trajectory.sequences[turn.sequence].byte_spans;
    let next = spans.partition_point(|span| span.bytes.start <= byte);
    match next.checked_sub(1).map(|i| &spans[i]) {
        Some(span) if byte < span.bytes.end => trajectory.episode + span.advantage,
        _ => trajectory.episode,
    }
}
