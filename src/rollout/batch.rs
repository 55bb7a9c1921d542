//! From rows in any order to a batch in canonical order. O(n log n) comparisons for n rows.
//!
//! The batch is a function of the set of rows alone: tasks are ordered by [`Key`], trajectories by key, sequences by
//! the index of their first turn. Rows without a trajectory id are trajectories of their own; they are ordered by their
//! content and named by rank, after the trajectories that have an id. Of rows that claim the same place, the first by
//! content is kept and each other one is flagged.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::key::unique_names;
use super::{Batch, Flagged, Key, Sequence, Task, Trajectory, Turn};
use crate::error::{Error, Place};

/// One row of input: a sequence and where it belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The problem it tries to solve.
    pub task: Key,
    /// The rollout it is part of; `None` when the row is a rollout by itself.
    pub trajectory: Option<Key>,
    /// Index of the row's first turn in its trajectory, or any number that grows from row to row. Needed when a
    /// trajectory has several rows.
    pub order: Option<u64>,
    /// Score of the whole rollout.
    pub outcome: Option<f64>,
    /// True when a reward was given but cannot be used: then the whole trajectory is unscored, whatever its other
    /// rewards say.
    pub unscored: bool,
    /// Text, tokens, turns and place.
    pub sequence: Sequence,
}

impl Row {
    /// A row that is a rollout by itself, with no score.
    pub fn new(task: impl Into<Key>, sequence: Sequence) -> Row {
        Row {
            task: task.into(),
            trajectory: None,
            order: None,
            outcome: None,
            unscored: false,
            sequence,
        }
    }
}

impl Batch {
    /// The rows in canonical order: see the head of this module. Never fails; what cannot be taken is in
    /// [`Batch::flagged`].
    ///
    /// - A sequence that breaks [`Sequence::validate`] is flagged and left out.
    /// - A reward or outcome that is not finite is flagged; the row stays and its trajectory is unscored.
    /// - A row without `order` in a trajectory of several rows is flagged and left out.
    /// - Rows of one trajectory with different outcomes: the last turn's outcome holds, and the row is flagged.
    pub fn new(rows: Vec<Row>) -> Batch {
        let mut flagged = Vec::new();
        let mut by_task: BTreeMap<Key, Vec<Row>> = BTreeMap::new();
        for mut row in rows {
            match row.sequence.validate() {
                Err(Error::Input { place, what }) => flagged.push(Flagged { place, reason: what }),
                Err(error) => {
                    flagged.push(Flagged {
                        place: row.sequence.place.clone(),
                        reason: error.to_string(),
                    });
                }
                Ok(()) => {
                    flag_rewards(&mut row, &mut flagged);
                    match by_task.get_mut(&row.task) {
                        Some(rows) => rows.push(row),
                        None => {
                            by_task.insert(row.task.clone(), vec![row]);
                        }
                    }
                }
            }
        }
        let names = unique_names(by_task.keys());
        let tasks = by_task
            .into_values()
            .zip(names)
            .filter_map(|(rows, id)| {
                let trajectories = trajectories_of(rows, &mut flagged);
                (!trajectories.is_empty()).then_some(Task { id, trajectories })
            })
            .collect();
        flagged.sort();
        Batch { tasks, flagged, notes: Vec::new() }
    }
}

/// Flags rewards that are not finite, and marks the row as unscored.
fn flag_rewards(row: &mut Row, flagged: &mut Vec<Flagged>) {
    let place = &row.sequence.place;
    let mut flag = |place: Place, number: f64| {
        flagged.push(Flagged {
            place,
            reason: format!("is {number}; the row is kept and its trajectory is unscored"),
        });
    };
    if let Some(number) = row.outcome.filter(|number| !number.is_finite()) {
        flag(place.at("outcome"), number);
        row.unscored = true;
    }
    for (i, turn) in row.sequence.turns.iter().enumerate() {
        if let Some(number) = turn.reward.filter(|number| !number.is_finite()) {
            flag(place.at(format!("turns[{i}].reward")), number);
            row.unscored = true;
        }
    }
}

fn trajectories_of(rows: Vec<Row>, flagged: &mut Vec<Flagged>) -> Vec<Trajectory> {
    let mut named: BTreeMap<Key, Vec<Row>> = BTreeMap::new();
    let mut anonymous = Vec::new();
    for mut row in rows {
        match row.trajectory.take() {
            Some(key) => named.entry(key).or_default().push(row),
            None => anonymous.push(row),
        }
    }
    let names = unique_names(named.keys());
    let mut taken: BTreeSet<String> = names.iter().cloned().collect();
    let mut trajectories: Vec<Trajectory> =
        named.into_values().zip(names).map(|(rows, id)| trajectory_of(id, rows, flagged)).collect();
    anonymous.sort_by(compare_rows);
    let mut rank = 0u64;
    for row in anonymous {
        while taken.contains(&rank.to_string()) {
            rank += 1;
        }
        let id = rank.to_string();
        taken.insert(id.clone());
        trajectories.push(trajectory_of(id, vec![row], flagged));
    }
    trajectories.retain(|trajectory| !trajectory.sequences.is_empty());
    trajectories
}

fn trajectory_of(id: String, mut rows: Vec<Row>, flagged: &mut Vec<Flagged>) -> Trajectory {
    rows.sort_by(compare_rows);
    if rows.len() > 1 {
        let n_rows = rows.len();
        rows.retain(|row| {
            if row.order.is_none() {
                flagged.push(Flagged {
                    place: row.sequence.place.at("turn"),
                    reason: format!(
                        "is missing; trajectory `{id}` has {n_rows} rows, and each must give the index of its first turn"
                    ),
                });
            }
            row.order.is_some()
        });
    }
    let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        match kept.last() {
            Some(first) if first.order == row.order => flagged.push(Flagged {
                place: row.sequence.place.at("turn"),
                reason: format!(
                    "repeats turn {} of trajectory `{id}`, which {} holds; this row is left out",
                    row.order.unwrap_or(0),
                    first.sequence.place
                ),
            }),
            _ => kept.push(row),
        }
    }
    let unscored = kept.iter().any(|row| row.unscored);
    let outcome = kept.iter().rev().find_map(|row| row.outcome);
    if let Some(last) = outcome.filter(|_| !unscored) {
        for row in &kept {
            if let Some(own) = row.outcome.filter(|&own| own != last) {
                flagged.push(Flagged {
                    place: row.sequence.place.at("outcome"),
                    reason: format!(
                        "is {own}, but the last turn of trajectory `{id}` says {last}, which holds"
                    ),
                });
            }
        }
    }
    let mut sequences: Vec<Sequence> = kept
        .into_iter()
        .map(|row| Sequence { first_turn: row.order.unwrap_or(0), ..row.sequence })
        .collect();
    if unscored {
        // With one reward unknown, neither an outcome nor a sum of rewards would be the trajectory's score.
        for turn in sequences.iter_mut().flat_map(|sequence| &mut sequence.turns) {
            turn.reward = None;
        }
    }
    Trajectory { id, outcome: outcome.filter(|_| !unscored), sequences }
}

/// Order of rows by all their content; the place comes last, so that it only orders rows that are equal otherwise.
fn compare_rows(a: &Row, b: &Row) -> Ordering {
    let (x, y) = (&a.sequence, &b.sequence);
    a.order
        .cmp(&b.order)
        .then_with(|| x.text.cmp(&y.text))
        .then_with(|| compare_lists(&x.turns, &y.turns, compare_turns))
        .then_with(|| compare_numbers(a.outcome, b.outcome))
        .then_with(|| a.unscored.cmp(&b.unscored))
        .then_with(|| {
            let tokens_x = x.tokens.as_ref().map(|tokens| (&tokens.byte_ends, &tokens.mask));
            tokens_x.cmp(&y.tokens.as_ref().map(|tokens| (&tokens.byte_ends, &tokens.mask)))
        })
        .then_with(|| x.place.cmp(&y.place))
}

fn compare_turns(a: &Turn, b: &Turn) -> Ordering {
    (a.bytes.start, a.bytes.end)
        .cmp(&(b.bytes.start, b.bytes.end))
        .then_with(|| compare_numbers(a.reward, b.reward))
        .then_with(|| a.observation.cmp(&b.observation))
}

fn compare_numbers(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.is_some().cmp(&b.is_some()),
    }
}

fn compare_lists<T>(a: &[T], b: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
    let first_difference = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
    first_difference.unwrap_or_else(|| a.len().cmp(&b.len()))
}
