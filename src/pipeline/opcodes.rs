//! `grouping = opcodes`: the groups of the authors' code over our root diffs.
//!
//! A root's lines are their bytes in the response; a row of theirs is a turn. A group needs two turns, of any rollouts.

use super::result::TurnRef;
use super::{Config, Result, Selection, Task};
use crate::anchors::Anchor;
use crate::code::{Span, TaskCode};
use crate::opcodes::{self, Occurrence, Root, Settings};
use crate::similarity;

pub(super) fn select(
    task: &Task,
    turns: &[TurnRef],
    code: &TaskCode,
    config: &Config,
) -> Result<Selection> {
    let settings = Settings {
        sim_thresh: config.similarity.eta,
        phi_s0: config.anchors.s0,
        psi_count_ref: config.anchors.g0,
        max_anchors: i64::try_from(config.anchors.max_anchors).unwrap_or(i64::MAX),
        ..Settings::default()
    };
    if config.anchors.max_anchors == 0 {
        // Theirs takes 0 for no limit.
        return Ok(Selection::default());
    }
    let roots: Vec<Root> =
        (0..code.n_roots()).map(|root| of_code(task, turns, code, root)).collect();
    let grouped = opcodes::grouped(&roots, &settings)?;
    let mut selection = Selection {
        n_candidates: grouped.n_candidates,
        n_eligible: grouped.n_candidates,
        n_picked: grouped.n_selected,
        n_dropped: grouped.n_selected - grouped.anchors.len(),
        ..Selection::default()
    };
    for (candidate, anchor) in grouped.anchors.iter().enumerate() {
        let Some(first) = anchor.occurrences.first() else { continue };
        let text = text_of(&roots, first);
        let mut members: Vec<similarity::Occurrence> = anchor
            .occurrences
            .iter()
            .map(|one| similarity::Occurrence {
                turn: code.roots[one.root].turn,
                span: span_of(one),
                similarity: opcodes::ratio(&text_of(&roots, one), &text, true),
            })
            .collect();
        members.sort_by_key(|member| member.turn);
        selection.n_members += members.len();
        selection.n_covered_lines +=
            members.iter().map(|member| member.span.len as usize).sum::<usize>();
        selection.anchors.push(Anchor {
            candidate: candidate as u32,
            span: span_of(first),
            score: anchor.gs,
            members,
        });
    }
    Ok(selection)
}

fn of_code(task: &Task, turns: &[TurnRef], code: &TaskCode, root: usize) -> Root {
    let of_root = &code.roots[root];
    let turn = &turns[of_root.turn as usize];
    let text = &task.trajectories[turn.trajectory].sequences[turn.sequence].text;
    let lines: Vec<String> = code.line_bytes[code.lines_of(root as u32)]
        .iter()
        .map(|bytes| {
            String::from_utf8_lossy(&text[bytes.clone()]).trim_end_matches('\n').to_string()
        })
        .collect();
    let source = lines.join("\n");
    Root {
        row: of_root.turn as usize,
        edit_type: format!("{:?}", of_root.edit_type),
        lines,
        source,
        chars: (0, 0),
        tokens: (0, 0),
    }
}

fn span_of(one: &Occurrence) -> Span {
    let (start, end) = one.lines;
    Span { root: one.root as u32, start: start as u32, len: (end - start) as u32 }
}

fn text_of(roots: &[Root], one: &Occurrence) -> Vec<u32> {
    let (start, end) = one.lines;
    roots[one.root].lines[start..end].join("\n").chars().map(u32::from).collect()
}
