//! The result as JSON lines: one object per sequence, and one per group. docs/output.md describes every field.
//! The bytes depend on the rollouts and the configuration alone: not on time, threads, SIMD set or the order of rows.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::edits::EditType;
use crate::pipeline::{Config, Credit, Diagnostics, Group};
use crate::rollout::{Batch, Task};

#[derive(Serialize)]
struct Row<'a> {
    task: &'a str,
    trajectory: &'a str,
    turn: u64,
    score: Option<f64>,
    episode: f32,
    byte_spans: Vec<SpanRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_spans: Option<Vec<SpanRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advantages: Option<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<NoteRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

#[derive(Serialize)]
struct SpanRow {
    start: u64,
    end: u64,
    advantage: f32,
    anchor: Option<u32>,
}

#[derive(Serialize)]
struct NoteRow<'a> {
    kind: &'static str,
    skipped: bool,
    start: usize,
    end: usize,
    what: &'a str,
}

/// Writes one line per sequence. With `dense` the advantages of all tokens beside the spans, where tokens are known;
/// with `source` the file and line that each row came from (these change when the rows of the input do).
///
/// # Errors
/// Whatever the writer returns.
pub fn write_credit(
    out: &mut dyn Write,
    batch: &Batch,
    credit: &Credit,
    dense: bool,
    source: bool,
) -> io::Result<()> {
    for (task, task_credit) in batch.tasks.iter().zip(&credit.tasks) {
        let mut notes = task_credit.notes.iter().peekable();
        for (trajectory_idx, (trajectory, trajectory_credit)) in
            task.trajectories.iter().zip(&task_credit.trajectories).enumerate()
        {
            for (sequence_idx, (sequence, sequence_credit)) in
                trajectory.sequences.iter().zip(&trajectory_credit.sequences).enumerate()
            {
                let mut row_notes = Vec::new();
                while let Some(note) = notes.next_if(|n| {
                    (n.turn.trajectory, n.turn.sequence) == (trajectory_idx, sequence_idx)
                }) {
                    row_notes.push(NoteRow {
                        kind: note.note.kind,
                        skipped: note.note.skipped,
                        start: note.note.bytes.start,
                        end: note.note.bytes.end,
                        what: &note.note.what,
                    });
                }
                let byte_spans = sequence_credit
                    .byte_spans
                    .iter()
                    .map(|s| {
                        span_row(s.bytes.start as u64, s.bytes.end as u64, s.advantage, s.anchor)
                    })
                    .collect();
                let token_spans = sequence.tokens.as_ref().map(|_| {
                    sequence_credit
                        .token_spans
                        .iter()
                        .map(|s| {
                            span_row(
                                s.tokens.start.into(),
                                s.tokens.end.into(),
                                s.advantage,
                                s.anchor,
                            )
                        })
                        .collect()
                });
                let advantages = match (&sequence.tokens, dense) {
                    (Some(tokens), true) => {
                        Some(sequence_credit.dense(tokens).map_err(io::Error::other)?)
                    }
                    _ => None,
                };
                let row = Row {
                    task: &task.id,
                    trajectory: &trajectory.id,
                    turn: sequence.first_turn,
                    score: trajectory_credit.score,
                    episode: trajectory_credit.episode,
                    byte_spans,
                    token_spans,
                    advantages,
                    notes: row_notes,
                    source: source.then(|| sequence.place.to_string()),
                };
                write_line(out, &row)?;
            }
        }
    }
    Ok(())
}

fn span_row(start: u64, end: u64, advantage: f32, anchor: Option<u32>) -> SpanRow {
    SpanRow { start, end, advantage, anchor }
}

#[derive(Serialize)]
struct GroupRow<'a> {
    task: &'a str,
    anchor: usize,
    edit_type: EditType,
    path: &'a str,
    groupability: f64,
    mean_lines: f64,
    members: Vec<MemberRow<'a>>,
}

#[derive(Serialize)]
struct MemberRow<'a> {
    trajectory: &'a str,
    turn: u64,
    bytes: Vec<[usize; 2]>,
    lines: u32,
    similarity: f64,
    #[serde(rename = "return")]
    turn_return: Option<f64>,
    advantage: f32,
    text: String,
}

/// Writes one line per group of the diff advantage, with its members and their text.
///
/// # Errors
/// Whatever the writer returns.
pub fn write_groups(out: &mut dyn Write, batch: &Batch, credit: &Credit) -> io::Result<()> {
    for (task, task_credit) in batch.tasks.iter().zip(&credit.tasks) {
        for (anchor, group) in task_credit.groups.iter().enumerate() {
            write_line(out, &group_row(task, anchor, group))?;
        }
    }
    Ok(())
}

fn group_row<'a>(task: &'a Task, anchor: usize, group: &'a Group) -> GroupRow<'a> {
    let members = group
        .members
        .iter()
        .map(|member| {
            let trajectory = &task.trajectories[member.turn.trajectory];
            let sequence = &trajectory.sequences[member.turn.sequence];
            let text: Vec<u8> = member
                .bytes
                .iter()
                .flat_map(|b| sequence.text.get(b.clone()).unwrap_or_default())
                .copied()
                .collect();
            MemberRow {
                trajectory: &trajectory.id,
                turn: sequence.first_turn + member.turn.turn as u64,
                bytes: member.bytes.iter().map(|b| [b.start, b.end]).collect(),
                lines: member.n_lines,
                similarity: member.similarity,
                turn_return: member.turn_return,
                advantage: member.advantage,
                text: String::from_utf8_lossy(&text).into_owned(),
            }
        })
        .collect();
    GroupRow {
        task: &task.id,
        anchor,
        edit_type: group.edit_type,
        path: &group.path,
        groupability: group.score,
        mean_lines: group.mean_lines,
        members,
    }
}

#[derive(Serialize)]
struct DiagnosticsRow<'a> {
    diagnostics: &'a Diagnostics,
    metrics: Map<String, Value>,
    config: &'a Config,
    flagged_rows: Vec<[String; 2]>,
    reader_notes: &'a [String],
}

/// Writes one JSON object: the diagnostics as they are and as flat metrics, the configuration, and every input row
/// that could not be taken with its place and reason.
///
/// # Errors
/// Whatever the writer returns.
pub fn write_diagnostics(
    out: &mut dyn Write,
    batch: &Batch,
    credit: &Credit,
    config: &Config,
) -> io::Result<()> {
    let row = DiagnosticsRow {
        diagnostics: &credit.diagnostics,
        metrics: credit
            .diagnostics
            .metrics()
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect(),
        config,
        flagged_rows: batch
            .flagged
            .iter()
            .map(|f| [f.place.to_string(), f.reason.clone()])
            .collect(),
        reader_notes: &batch.notes,
    };
    write_line(out, &row)
}

fn write_line(out: &mut dyn Write, row: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    out.write_all(b"\n")
}
