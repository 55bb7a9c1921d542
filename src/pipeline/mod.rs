//! The whole way from a batch of rollouts to credit: the only file that knows all stages.
//!
//! Per task: edits -> root diffs -> lines and code tokens -> windows -> occurrences -> anchors -> diff advantages ->
//! tokens. Tasks are independent of each other, so they run side by side and the results come back in their order.

mod config;
mod diagnostics;
mod distribution;
mod opcodes;
mod result;

pub use config::{Config, Grouping};
pub use diagnostics::{Advantages, Diagnostics, Seconds};
pub use distribution::Distribution;
pub use result::{
    Credit, Group, Member, RootView, TaskCredit, TrajectoryCredit, TurnNote, TurnRef,
};

use std::time::Instant;

use rayon::prelude::*;

use crate::advantage::{self, Cover, DiffAdvantages, StepGroups, TaskScores};
use crate::anchors::{self, Selection};
use crate::code::{TaskCode, TaskCodeBuilder, Windows};
use crate::device::Device;
use crate::edits::{self, FileVersions, RootDiff};
use crate::error::Result;
use crate::rollout::{Batch, Task};

use crate::similarity::{self, LineVectors, Occurrences};
use diagnostics::TaskDiagnostics;

/// Gives the line vectors of a task, for callers who bring their own token table.
pub type LineVectorsOf<'a> = &'a (dyn Fn(&TaskCode) -> Result<LineVectors> + Sync);

/// What [`credit_with`] takes beside the configuration.
#[derive(Default, Clone, Copy)]
pub struct Extras<'a> {
    /// Line vectors for the embedding part; the built-in hashed n-grams when absent. Not called at embedding weight 0.
    pub line_vectors: Option<LineVectorsOf<'a>>,
    /// Keep the text of every root diff in [`TaskCredit::roots`], for [`crate::report::show_task`]; it is large.
    pub keep_roots: bool,
    /// Called once after each task, from any thread.
    pub on_task_done: Option<&'a (dyn Fn() + Sync)>,
    /// Called after every stretch of work on one stage of one task, from the thread that did it. A stage can have
    /// several: edits and code take turns with each response.
    pub on_stage: Option<&'a (dyn Fn(StageLap) + Sync)>,
}

/// A stretch of work on one stage of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLap {
    /// Index into [`Batch::tasks`].
    pub task: usize,
    /// Name of the stage, as in [`Seconds::stages`].
    pub stage: &'static str,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
}

/// Token-level DiDPO credit of a batch: `A = A^E + lambda · A^D` (arXiv 2608.07147).
///
/// # Errors
/// A parameter outside its range, a sequence whose offsets disagree, or a task over an index or memory limit.
pub fn credit(device: &Device, batch: &Batch, config: &Config) -> Result<Credit> {
    credit_with(device, batch, config, Extras::default())
}

/// [`credit`] with the caller's line vectors and a progress call.
///
/// # Errors
/// As [`credit`], and whatever the caller's line vectors return.
pub fn credit_with(
    device: &Device,
    batch: &Batch,
    config: &Config,
    extras: Extras<'_>,
) -> Result<Credit> {
    config.validate()?;
    let started = Instant::now();
    let results: Vec<Result<(TaskCredit, TaskDiagnostics)>> = batch
        .tasks
        .par_iter()
        .enumerate()
        .map(|(task_idx, task)| {
            let clock = Clock { task: task_idx, since: Instant::now(), on_stage: extras.on_stage };
            let result = credit_task(device, task, config, extras, clock);
            if let Some(call) = extras.on_task_done {
                call();
            }
            result
        })
        .collect();
    let mut tasks = Vec::with_capacity(results.len());
    let mut diagnostics = Diagnostics::default();
    for result in results {
        let (task, task_diagnostics) = result?;
        diagnostics.add_task(&task, &task_diagnostics);
        tasks.push(task);
    }
    diagnostics.n_flagged_rows = batch.flagged.len();
    diagnostics.seconds.wall = started.elapsed().as_secs_f64();
    Ok(Credit { tasks, diagnostics })
}

fn credit_task(
    device: &Device,
    task: &Task,
    config: &Config,
    extras: Extras<'_>,
    mut clock: Clock<'_>,
) -> Result<(TaskCredit, TaskDiagnostics)> {
    let mut diagnostics = TaskDiagnostics::default();
    for sequence in task.trajectories.iter().flat_map(|trajectory| &trajectory.sequences) {
        sequence.validate()?;
    }
    let turns = turns_of(task);
    let turn = |i: usize| {
        &task.trajectories[turns[i].trajectory].sequences[turns[i].sequence].turns[turns[i].turn]
    };

    let scores: Vec<Option<f64>> =
        task.trajectories.iter().map(advantage::trajectory_score).collect();
    let returns: Vec<Option<f64>> = task
        .trajectories
        .iter()
        .flat_map(|t| advantage::turn_returns(t, &config.advantage))
        .collect();
    let n_turns_of = task.trajectories.iter().map(|t| t.turns().count() as u32).collect();
    let task_scores = TaskScores { scores: scores.clone(), turns: n_turns_of };
    let mut episode = advantage::episode(device, &[task_scores], &config.advantage)?;
    let episode_of = episode.values.pop().unwrap_or_default();
    diagnostics.seconds.advantage = clock.lap("advantage");

    let mut found = match config.grouping {
        Grouping::None => Found::default(),
        _ => find(device, task, &turns, config, extras, &mut diagnostics, &mut clock)?,
    };
    let members: Vec<Vec<u32>> = found
        .selection
        .anchors
        .iter()
        .map(|a| a.members.iter().map(|m| m.turn).collect())
        .collect();
    let turn_trajectory: Vec<u32> = turns.iter().map(|t| t.trajectory as u32).collect();
    let diff = advantage::diff(device, &members, &returns, &turn_trajectory, &config.advantage)?;
    let step = match config.advantage.step {
        StepGroups::Off => None,
        _ => {
            let observations: Vec<Option<&str>> =
                (0..turns.len()).map(|i| turn(i).observation.as_deref()).collect();
            Some(advantage::step(device, &observations, &returns, &config.advantage)?)
        }
    };
    let groups = groups_of(&found, &turns, &returns, &diff);
    diagnostics.seconds.advantage += clock.lap("advantage");

    let mut covers = covers_of(task, &groups, config.advantage.lambda);
    let step_of_turn = step.as_ref().map(|s| weighted(&s.values, config.advantage.omega));
    let mut trajectories = Vec::with_capacity(task.trajectories.len());
    let mut first_turn = 0;
    for (trajectory_idx, trajectory) in task.trajectories.iter().enumerate() {
        let mut sequences = Vec::with_capacity(trajectory.sequences.len());
        for (sequence_idx, sequence) in trajectory.sequences.iter().enumerate() {
            let turn_range = first_turn..first_turn + sequence.turns.len();
            first_turn = turn_range.end;
            let covers = std::mem::take(&mut covers[trajectory_idx][sequence_idx]);
            let steps = step_of_turn.as_ref().map(|values| &values[turn_range]);
            let credit =
                advantage::project(device, sequence, episode_of[trajectory_idx], &covers, steps)?;
            diagnostics.add_sequence(sequence, &credit);
            sequences.push(credit);
        }
        trajectories.push(TrajectoryCredit {
            score: scores[trajectory_idx],
            episode: episode_of[trajectory_idx],
            sequences,
        });
    }
    diagnostics.seconds.projection = clock.lap("projection");
    diagnostics.set_episode(&episode_of, &scores, episode.counts);
    diagnostics.set_diff(&diff, &groups);
    if let Some(step) = &step {
        diagnostics.set_step(step, &returns);
    }
    diagnostics.set_selection(&found.selection);
    let notes = std::mem::take(&mut found.notes);
    let roots = std::mem::take(&mut found.roots);
    Ok((TaskCredit { trajectories, groups, roots, notes }, diagnostics))
}

/// Everything that the edits of a task lead to.
#[derive(Default)]
struct Found {
    code: TaskCode,
    selection: Selection,
    roots: Vec<RootView>,
    notes: Vec<TurnNote>,
}

fn find(
    device: &Device,
    task: &Task,
    turns: &[TurnRef],
    config: &Config,
    extras: Extras<'_>,
    diagnostics: &mut TaskDiagnostics,
    clock: &mut Clock<'_>,
) -> Result<Found> {
    let mut found = Found::default();
    let mut builder = TaskCodeBuilder::new();
    let mut versions = FileVersions::default();
    let mut trajectory_of_versions = 0;
    for turn in turns {
        if turn.trajectory != trajectory_of_versions {
            versions = FileVersions::default();
            trajectory_of_versions = turn.trajectory;
        }
        let sequence = &task.trajectories[turn.trajectory].sequences[turn.sequence];
        let start = sequence.turns[turn.turn].bytes.start;
        let response = &sequence.text[sequence.turns[turn.turn].bytes.clone()];
        let parsed = edits::parse(response, &config.edits);
        let roots = versions.roots(&parsed.edits, &config.edits);
        diagnostics.add_edits(&parsed.edits);
        diagnostics.seconds.edits += clock.lap("edits");
        builder.begin_turn(turn.trajectory as u32);
        for root in roots.roots {
            diagnostics.add_root(root.edit_type);
            builder.push_root(&root, start);
            if extras.keep_roots {
                found.roots.push(root_view(root, *turn, start));
            }
        }
        found.notes.extend(parsed.notes.into_iter().chain(roots.notes).map(|mut note| {
            note.bytes = start + note.bytes.start..start + note.bytes.end;
            TurnNote { turn: *turn, note }
        }));
        diagnostics.seconds.code += clock.lap("code");
    }
    let code = builder.finish()?;
    if config.grouping == Grouping::Opcodes {
        diagnostics.seconds.code += clock.lap("code");
        diagnostics.set_lines(&code);
        found.selection = opcodes::select(task, turns, &code, config)?;
        diagnostics.seconds.anchors = clock.lap("anchors");
        found.code = code;
        return Ok(found);
    }
    let windows = match config.grouping {
        Grouping::Whole => Windows::whole(&code)?,
        _ => Windows::all(&code, config.max_lines)?,
    };
    diagnostics.seconds.code += clock.lap("code");
    let occurrences = occurrences_of(device, &code, &windows, config, extras)?;
    diagnostics.set_occurrences(&code, &windows, &occurrences);
    diagnostics.seconds.similarity = clock.lap("similarity");
    found.selection = anchors::select(device, &code, &windows, &occurrences, &config.anchors)?;
    diagnostics.seconds.anchors = clock.lap("anchors");
    found.code = code;
    Ok(found)
}

fn root_view(root: RootDiff, turn: TurnRef, offset: usize) -> RootView {
    let lines = root.lines.into_iter();
    RootView {
        turn,
        path: root.path,
        edit_type: root.edit_type,
        format: root.format,
        lines: lines
            .map(|line| (line.text, offset + line.bytes.start..offset + line.bytes.end))
            .collect(),
    }
}

fn occurrences_of(
    device: &Device,
    code: &TaskCode,
    windows: &Windows,
    config: &Config,
    extras: Extras<'_>,
) -> Result<Occurrences> {
    if config.grouping == Grouping::Exact {
        return similarity::exact_occurrences(code, windows);
    }
    let line_vectors = match (config.similarity.embedding_weight > 0.0, extras.line_vectors) {
        (false, _) => None,
        (true, Some(of)) => Some(of(code)?),
        (true, None) => Some(LineVectors::hashed(code, config.similarity.embedding_dim)?),
    };
    similarity::occurrences(device, code, windows, line_vectors.as_ref(), &config.similarity)
}

fn turns_of(task: &Task) -> Vec<TurnRef> {
    let mut turns = Vec::new();
    for (trajectory, t) in task.trajectories.iter().enumerate() {
        let mut number = 0;
        for (sequence, s) in t.sequences.iter().enumerate() {
            for turn in 0..s.turns.len() {
                turns.push(TurnRef { trajectory, sequence, turn, number });
                number += 1;
            }
        }
    }
    turns
}

fn groups_of(
    found: &Found,
    turns: &[TurnRef],
    returns: &[Option<f64>],
    diff: &DiffAdvantages,
) -> Vec<Group> {
    let code = &found.code;
    found
        .selection
        .anchors
        .iter()
        .zip(&diff.values)
        .map(|(anchor, advantages)| {
            let members: Vec<Member> = anchor
                .members
                .iter()
                .zip(advantages)
                .map(|(occurrence, &advantage)| Member {
                    turn: turns[occurrence.turn as usize],
                    bytes: code.bytes_of(occurrence.span).collect(),
                    n_lines: occurrence.span.len,
                    similarity: occurrence.similarity,
                    turn_return: returns[occurrence.turn as usize],
                    advantage,
                })
                .collect();
            let root = &code.roots[anchor.span.root as usize];
            Group {
                score: anchor.score,
                mean_lines: members.iter().map(|m| f64::from(m.n_lines)).sum::<f64>()
                    / members.len() as f64,
                edit_type: root.edit_type,
                path: root.path.clone(),
                members,
            }
        })
        .collect()
}

/// Pieces of occurrences, per trajectory and sequence.
fn covers_of(task: &Task, groups: &[Group], lambda: f64) -> Vec<Vec<Vec<Cover>>> {
    let mut covers: Vec<Vec<Vec<Cover>>> =
        task.trajectories.iter().map(|t| vec![Vec::new(); t.sequences.len()]).collect();
    let mut member_id = 0;
    for (group_idx, group) in groups.iter().enumerate() {
        for member in &group.members {
            let advantage = (lambda * f64::from(member.advantage)) as f32;
            covers[member.turn.trajectory][member.turn.sequence].extend(member.bytes.iter().map(
                |bytes| Cover {
                    bytes: bytes.clone(),
                    advantage,
                    anchor: group_idx as u32,
                    member: member_id,
                    score: group.score,
                },
            ));
            member_id += 1;
        }
    }
    covers
}

fn weighted(values: &[f32], weight: f64) -> Vec<f32> {
    values.iter().map(|&v| (weight * f64::from(v)) as f32).collect()
}

/// Time since the last lap.
struct Clock<'a> {
    task: usize,
    since: Instant,
    on_stage: Option<&'a (dyn Fn(StageLap) + Sync)>,
}

impl Clock<'_> {
    fn lap(&mut self, stage: &'static str) -> f64 {
        let (began, ended) = (self.since, Instant::now());
        if let Some(call) = self.on_stage {
            call(StageLap { task: self.task, stage, began, ended });
            // What the call takes is in no lap.
            self.since = Instant::now();
        } else {
            self.since = ended;
        }
        (ended - began).as_secs_f64()
    }
}
