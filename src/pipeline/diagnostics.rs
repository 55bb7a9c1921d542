//! Counts and figures of a run, added up over the tasks in their order.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::advantage::{DiffAdvantages, SequenceCredit, StepAdvantages};
use crate::anchors::Selection;
use crate::code::{TaskCode, Windows};
use crate::edits::{Edit, EditType};
use crate::params::GroupCounts;
use crate::pipeline::{Distribution, Group, TaskCredit};
use crate::rollout::Sequence;
use crate::similarity::Occurrences;

/// Seconds of work per stage, added up over tasks (tasks run side by side, so they can exceed `wall`).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Seconds {
    /// Finding edits and their root diffs.
    pub edits: f64,
    /// Lexing, interning, windows.
    pub code: f64,
    /// Similarity and occurrences.
    pub similarity: f64,
    /// Selection and cut.
    pub anchors: f64,
    /// Statistics of trajectories, groups and steps.
    pub advantage: f64,
    /// Projection to tokens.
    pub projection: f64,
    /// The whole run on the clock.
    pub wall: f64,
}

impl Seconds {
    /// Name and value of every stage and of the whole.
    pub fn stages(&self) -> [(&'static str, f64); 7] {
        [
            ("edits", self.edits),
            ("code", self.code),
            ("similarity", self.similarity),
            ("anchors", self.anchors),
            ("advantage", self.advantage),
            ("projection", self.projection),
            ("wall", self.wall),
        ]
    }

    fn add(&mut self, other: &Seconds) {
        self.edits += other.edits;
        self.code += other.code;
        self.similarity += other.similarity;
        self.anchors += other.anchors;
        self.advantage += other.advantage;
        self.projection += other.projection;
    }
}

/// How some group-relative advantages came out.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Advantages {
    /// Groups and members, and every advantage that is 0 for want of a comparison.
    pub counts: GroupCounts,
    /// Sizes of the groups.
    pub size: Distribution,
    /// |advantage| of the scored members.
    pub magnitude: Distribution,
}

/// What happened in a run: as a struct, as flat metrics ([`Diagnostics::metrics`]), and in JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Diagnostics {
    /// Tasks.
    pub n_tasks: u64,
    /// Tasks with one trajectory: nothing to compare with.
    pub n_single_tasks: u64,
    /// Trajectories.
    pub n_trajectories: u64,
    /// Trajectories without a score.
    pub n_unscored: u64,
    /// Rows of the trainer.
    pub n_sequences: u64,
    /// Turns.
    pub n_turns: u64,
    /// Turns in which an edit was found.
    pub n_turns_with_edits: u64,
    /// Input rows that could not be taken.
    pub n_flagged_rows: usize,
    /// Edits per notation.
    pub edits: BTreeMap<String, u64>,
    /// Root diffs per edit type.
    pub roots: BTreeMap<String, u64>,
    /// Pieces kept but flagged, per kind of note.
    pub flagged_edits: BTreeMap<String, u64>,
    /// Pieces skipped, per kind of note.
    pub skipped_edits: BTreeMap<String, u64>,
    /// Code lines after normalisation.
    pub n_lines: u64,
    /// Code lines inside a group's member.
    pub n_covered_lines: u64,
    /// Candidate windows, duplicates collapsed.
    pub n_candidates: u64,
    /// Occurrences of all candidates.
    pub n_occurrences: u64,
    /// Candidates with two occurrences in two trajectories.
    pub n_eligible: u64,
    /// Anchors picked.
    pub n_picked: u64,
    /// Anchors left without a group by the cut.
    pub n_cut: u64,
    /// Tokens, where they are known.
    pub n_tokens: u64,
    /// Tokens that are trained.
    pub n_trained_tokens: u64,
    /// Trained tokens that a group's member owns.
    pub n_covered_tokens: u64,
    /// Episode groups (tasks).
    pub episode: Advantages,
    /// Diff groups (anchors).
    pub diff: Advantages,
    /// Step groups, when asked for.
    pub step: Advantages,
    /// Mean |A^D| of the scored members in the form `within`, whichever form was asked for.
    pub diff_within: f64,
    /// Mean |A^D| of the scored members in the form `contrast`, whichever form was asked for.
    pub diff_contrast: f64,
    /// Groups that hold every scored turn of their task: `contrast` has nothing to compare them with.
    pub n_no_outside: u64,
    /// Turns without an observation, where step groups were asked for.
    pub n_without_observation: u64,
    /// Groupability score of the groups.
    pub score: Distribution,
    /// Mean lines of a group's members.
    pub group_lines: Distribution,
    /// Similarity of members to their anchor.
    pub similarity: Distribution,
    /// Latest minus earliest turn number inside a group: with gamma below 1, a wide one compares unlike returns.
    pub turn_spread: Distribution,
    /// Greatest minus least return inside a group; groups without a return are left out.
    pub return_spread: Distribution,
    /// Time per stage.
    pub seconds: Seconds,
    #[serde(skip)]
    abs_within: Weighted,
    #[serde(skip)]
    abs_contrast: Weighted,
}

/// [`Diagnostics`] of one task, filled stage by stage.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskDiagnostics {
    pub(super) seconds: Seconds,
    edits: BTreeMap<String, u64>,
    roots: BTreeMap<String, u64>,
    n_turns_with_edits: u64,
    n_lines: u64,
    n_candidates: u64,
    n_occurrences: u64,
    n_eligible: u64,
    n_picked: u64,
    n_cut: u64,
    n_tokens: u64,
    n_trained_tokens: u64,
    n_covered_tokens: u64,
    n_turns: u64,
    episode: Advantages,
    diff: Advantages,
    step: Advantages,
    diff_within: Weighted,
    diff_contrast: Weighted,
    n_no_outside: u64,
    n_without_observation: u64,
    turn_spread: Distribution,
    return_spread: Distribution,
}

impl Diagnostics {
    /// Adds a task.
    pub(super) fn add_task(&mut self, credit: &TaskCredit, task: &TaskDiagnostics) {
        self.n_tasks += 1;
        self.n_single_tasks += u64::from(credit.trajectories.len() == 1);
        self.n_trajectories += credit.trajectories.len() as u64;
        self.n_unscored += credit.trajectories.iter().filter(|t| t.score.is_none()).count() as u64;
        self.n_sequences +=
            credit.trajectories.iter().map(|t| t.sequences.len() as u64).sum::<u64>();
        self.n_turns += task.n_turns;
        self.n_turns_with_edits += task.n_turns_with_edits;
        add_counts(&mut self.edits, &task.edits);
        add_counts(&mut self.roots, &task.roots);
        for note in &credit.notes {
            let counts =
                if note.note.skipped { &mut self.skipped_edits } else { &mut self.flagged_edits };
            *counts.entry(note.note.kind.to_string()).or_default() += 1;
        }
        self.n_lines += task.n_lines;
        self.n_candidates += task.n_candidates;
        self.n_occurrences += task.n_occurrences;
        self.n_eligible += task.n_eligible;
        self.n_picked += task.n_picked;
        self.n_cut += task.n_cut;
        self.n_tokens += task.n_tokens;
        self.n_trained_tokens += task.n_trained_tokens;
        self.n_covered_tokens += task.n_covered_tokens;
        self.episode.add(&task.episode);
        self.diff.add(&task.diff);
        self.step.add(&task.step);
        self.abs_within.add(task.diff_within);
        self.abs_contrast.add(task.diff_contrast);
        self.diff_within = self.abs_within.mean();
        self.diff_contrast = self.abs_contrast.mean();
        self.n_no_outside += task.n_no_outside;
        self.n_without_observation += task.n_without_observation;
        self.turn_spread.merge(&task.turn_spread);
        self.return_spread.merge(&task.return_spread);
        for group in &credit.groups {
            self.score.add(group.score);
            self.group_lines.add(group.mean_lines);
            for member in &group.members {
                self.similarity.add(member.similarity);
                self.n_covered_lines += u64::from(member.n_lines);
            }
        }
        self.seconds.add(&task.seconds);
    }

    /// Share of code lines inside a group's member, from 0 to 1.
    pub fn line_coverage(&self) -> f64 {
        share(self.n_covered_lines, self.n_lines)
    }

    /// Share of trained tokens that a group's member owns, from 0 to 1.
    pub fn token_coverage(&self) -> f64 {
        share(self.n_covered_tokens, self.n_trained_tokens)
    }

    /// Every figure under a flat name `hunkwise/...`, in a fixed order, for loggers.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        let mut out: Vec<(String, f64)> = Vec::new();
        let mut put = |name: String, value: f64| out.push((format!("hunkwise/{name}"), value));
        for (name, value) in [
            ("tasks", self.n_tasks),
            ("single_tasks", self.n_single_tasks),
            ("trajectories", self.n_trajectories),
            ("unscored_trajectories", self.n_unscored),
            ("sequences", self.n_sequences),
            ("turns", self.n_turns),
            ("turns_with_edits", self.n_turns_with_edits),
            ("flagged_rows", self.n_flagged_rows as u64),
            ("lines", self.n_lines),
            ("covered_lines", self.n_covered_lines),
            ("candidates", self.n_candidates),
            ("occurrences", self.n_occurrences),
            ("eligible_candidates", self.n_eligible),
            ("anchors_picked", self.n_picked),
            ("anchors_cut", self.n_cut),
            ("tokens", self.n_tokens),
            ("trained_tokens", self.n_trained_tokens),
            ("covered_tokens", self.n_covered_tokens),
        ] {
            put(name.to_string(), value as f64);
        }
        put("line_coverage".to_string(), self.line_coverage());
        put("token_coverage".to_string(), self.token_coverage());
        for (what, counts) in [
            ("edits", &self.edits),
            ("roots", &self.roots),
            ("flagged_edits", &self.flagged_edits),
            ("skipped_edits", &self.skipped_edits),
        ] {
            put(what.to_string(), counts.values().sum::<u64>() as f64);
            for (kind, count) in counts {
                put(format!("{what}/{kind}"), *count as f64);
            }
        }
        for (what, advantages) in
            [("episode", &self.episode), ("diff", &self.diff), ("step", &self.step)]
        {
            let counts = &advantages.counts;
            put(format!("{what}/groups"), counts.n_groups as f64);
            put(format!("{what}/singletons"), counts.n_singletons as f64);
            put(format!("{what}/zero_spread"), counts.n_zero_spread as f64);
            put(format!("{what}/unscored"), counts.n_unscored as f64);
            put(format!("{what}/not_finite"), counts.n_not_finite as f64);
            put_distribution(&mut put, &format!("{what}/group_size"), &advantages.size);
            put_distribution(&mut put, &format!("{what}/abs_advantage"), &advantages.magnitude);
        }
        put("diff/abs_within".to_string(), self.diff_within);
        put("diff/abs_contrast".to_string(), self.diff_contrast);
        put("diff/without_outside".to_string(), self.n_no_outside as f64);
        put("step/without_observation".to_string(), self.n_without_observation as f64);
        put_distribution(&mut put, "diff/groupability", &self.score);
        put_distribution(&mut put, "diff/group_lines", &self.group_lines);
        put_distribution(&mut put, "diff/similarity", &self.similarity);
        put_distribution(&mut put, "diff/turn_spread", &self.turn_spread);
        put_distribution(&mut put, "diff/return_spread", &self.return_spread);
        for (stage, seconds) in self.seconds.stages() {
            put(format!("seconds/{stage}"), seconds);
        }
        out
    }
}

impl TaskDiagnostics {
    /// Counts the edits of one turn.
    pub(super) fn add_edits(&mut self, edits: &[Edit]) {
        self.n_turns_with_edits += u64::from(!edits.is_empty());
        for edit in edits {
            *self.edits.entry(name_of(&edit.format)).or_default() += 1;
        }
    }

    /// Counts a root diff.
    pub(super) fn add_root(&mut self, edit_type: EditType) {
        *self.roots.entry(name_of(&edit_type)).or_default() += 1;
    }

    /// Counts lines, candidates and occurrences.
    pub(super) fn set_occurrences(
        &mut self,
        code: &TaskCode,
        windows: &Windows,
        occurrences: &Occurrences,
    ) {
        self.set_lines(code);
        self.n_candidates = windows.len() as u64;
        self.n_occurrences = occurrences.items.len() as u64;
    }

    /// Counts the lines.
    pub(super) fn set_lines(&mut self, code: &TaskCode) {
        self.n_lines = code.n_lines() as u64;
    }

    /// Counts what the selection did.
    pub(super) fn set_selection(&mut self, selection: &Selection) {
        self.n_eligible = selection.n_eligible as u64;
        self.n_picked = selection.n_picked as u64;
        self.n_cut = selection.n_dropped as u64;
    }

    /// Counts the tokens of a sequence.
    pub(super) fn add_sequence(&mut self, sequence: &Sequence, credit: &SequenceCredit) {
        self.n_turns += sequence.turns.len() as u64;
        let Some(tokens) = &sequence.tokens else { return };
        self.n_tokens += tokens.mask.len() as u64;
        self.n_trained_tokens += tokens.mask.iter().filter(|&&trained| trained).count() as u64;
        self.n_covered_tokens += credit
            .token_spans
            .iter()
            .filter(|span| span.anchor.is_some())
            .map(|span| u64::from(span.tokens.end - span.tokens.start))
            .sum::<u64>();
    }

    /// Takes the figures of the episode advantages in. Both lists have one entry per trajectory.
    pub(super) fn set_episode(
        &mut self,
        episode: &[f32],
        scores: &[Option<f64>],
        counts: GroupCounts,
    ) {
        let members = episode.iter().copied().zip(scores.iter().copied());
        self.episode = Advantages::new(counts, std::iter::once(members));
    }

    /// Takes the figures of the diff advantages in. `groups` are those of `diff`.
    pub(super) fn set_diff(&mut self, diff: &DiffAdvantages, groups: &[Group]) {
        let members = |group: &Group| -> Vec<(f32, Option<f64>)> {
            group.members.iter().map(|member| (member.advantage, member.turn_return)).collect()
        };
        self.diff = Advantages::new(diff.counts, groups.iter().map(members));
        self.diff_within =
            Weighted { sum: diff.mean_abs_within * n_scored(diff), n: n_scored(diff) };
        self.diff_contrast =
            Weighted { sum: diff.mean_abs_contrast * n_scored(diff), n: n_scored(diff) };
        self.n_no_outside = diff.n_no_outside as u64;
        for group in &diff.groups {
            self.turn_spread.add(f64::from(group.turn_range.1 - group.turn_range.0));
            if group.n_scored > 0 {
                self.return_spread.add(group.return_range.1 - group.return_range.0);
            }
        }
    }

    /// Takes the figures of the step advantages in. `returns` has one entry per turn of the task.
    pub(super) fn set_step(&mut self, step: &StepAdvantages, returns: &[Option<f64>]) {
        let members = |turns: &Vec<u32>| -> Vec<(f32, Option<f64>)> {
            turns.iter().map(|&turn| (step.values[turn as usize], returns[turn as usize])).collect()
        };
        self.step = Advantages::new(step.counts, step.groups.iter().map(members));
        self.n_without_observation = step.n_without_observation as u64;
    }
}

fn n_scored(diff: &DiffAdvantages) -> f64 {
    diff.groups.iter().map(|group| group.n_scored).sum::<usize>() as f64
}

/// A mean that can be added up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Weighted {
    sum: f64,
    n: f64,
}

impl Weighted {
    fn add(&mut self, other: Weighted) {
        self.sum += other.sum;
        self.n += other.n;
    }

    fn mean(self) -> f64 {
        if self.n == 0.0 { 0.0 } else { self.sum / self.n }
    }
}

impl Advantages {
    /// `groups` has the advantage of each member, and the value that it comes from: `None` for an unscored one.
    fn new(
        counts: GroupCounts,
        groups: impl Iterator<Item: IntoIterator<Item = (f32, Option<f64>)>>,
    ) -> Self {
        let mut advantages = Advantages { counts, ..Advantages::default() };
        for group in groups {
            let mut size = 0u32;
            for (advantage, value) in group {
                size += 1;
                if value.is_some() {
                    advantages.magnitude.add(f64::from(advantage.abs()));
                }
            }
            advantages.size.add(f64::from(size));
        }
        advantages
    }

    fn add(&mut self, other: &Advantages) {
        self.counts = self.counts.plus(other.counts);
        self.size.merge(&other.size);
        self.magnitude.merge(&other.magnitude);
    }
}

fn add_counts(into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (kind, count) in from {
        *into.entry(kind.clone()).or_default() += count;
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn put_distribution(put: &mut impl FnMut(String, f64), name: &str, distribution: &Distribution) {
    put(format!("{name}/min"), distribution.min);
    put(format!("{name}/mean"), distribution.mean);
    put(format!("{name}/max"), distribution.max);
}

/// The name a unit variant serialises to.
fn name_of(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
