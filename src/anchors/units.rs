//! Units of coverage: what an occurrence covers, as ranges of numbers.

use rustc_hash::FxHashMap;

use super::Unit;
use crate::code::{Span, TaskCode};
use crate::error::{Error, Result};
use crate::similarity::{Occurrence, Occurrences};

/// Ranges of units of the eligible candidates, and the number of units.
pub(crate) struct Units {
    pub(crate) offsets: Vec<usize>,
    pub(crate) ranges: Vec<(u32, u32)>,
    pub(crate) n_units: usize,
}

/// Units of the given candidates, one range per occurrence, in the order of the occurrences. O(occurrences).
pub(crate) fn units(
    code: &TaskCode,
    occurrences: &Occurrences,
    candidates: &[u32],
    unit: Unit,
) -> Units {
    let mut offsets = Vec::with_capacity(candidates.len() + 1);
    offsets.push(0);
    let mut ranges = Vec::new();
    let mut numbers: FxHashMap<Span, u32> = FxHashMap::default();
    for &candidate in candidates {
        for occurrence in occurrences.of(candidate as usize) {
            ranges.push(match unit {
                Unit::Line => lines(code, occurrence.span),
                Unit::Occurrence => {
                    let fresh = numbers.len() as u32;
                    let number = *numbers.entry(occurrence.span).or_insert(fresh);
                    (number, number + 1)
                }
            });
        }
        offsets.push(ranges.len());
    }
    let n_units = match unit {
        Unit::Line => code.root_lines.last().map_or(0, |&end| end as usize),
        Unit::Occurrence => numbers.len(),
    };
    Units { offsets, ranges, n_units }
}

/// Lines of a checked span, counted through the task.
pub(crate) fn lines(code: &TaskCode, span: Span) -> (u32, u32) {
    let start = code.root_lines[span.root as usize] + span.start;
    (start, start + span.len)
}

/// Checks that every index of the input is in range, so that nothing after it can fail.
pub(crate) fn check(code: &TaskCode, n_windows: usize, occurrences: &Occurrences) -> Result<()> {
    let wrong = |what: String| Err(Error::Shape { op: "anchors", what });
    if occurrences.len() != n_windows {
        return wrong(format!(
            "{} lists of occurrences for {n_windows} candidates",
            occurrences.len()
        ));
    }
    if code.root_lines.len() != code.roots.len() + 1 && !code.roots.is_empty() {
        return wrong(format!(
            "root_lines has {} entries for {} roots",
            code.root_lines.len(),
            code.roots.len()
        ));
    }
    if code.root_lines.windows(2).any(|pair| pair[0] > pair[1]) {
        return wrong("root_lines is not in order".to_string());
    }
    if code.root_lines.last().is_some_and(|&end| end as usize != code.line_ids.len()) {
        return wrong(format!(
            "root_lines does not end at the {} lines of the task",
            code.line_ids.len()
        ));
    }
    let ordered = occurrences.offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let first = occurrences.offsets.first().copied().unwrap_or(0);
    let last = occurrences.offsets.last().copied().unwrap_or(0);
    if !ordered || first != 0 || last != occurrences.items.len() {
        return wrong(format!(
            "offsets do not run from 0 to the {} occurrences in order",
            occurrences.items.len()
        ));
    }
    if occurrences.len() >= u32::MAX as usize || occurrences.items.len() >= u32::MAX as usize {
        return Err(Error::Limit {
            op: "anchors",
            what: "one task's candidates or occurrences",
            needed: occurrences.items.len().max(occurrences.len()) as u64,
            limit: u64::from(u32::MAX) - 1,
            advice: "use fewer lines per window (max_lines) or fewer rollouts per task",
        });
    }
    for candidate in 0..occurrences.len() {
        let mut previous: Option<u32> = None;
        for occurrence in occurrences.of(candidate) {
            check_occurrence(code, candidate, occurrence, previous)?;
            previous = Some(occurrence.turn);
        }
    }
    Ok(())
}

fn check_occurrence(
    code: &TaskCode,
    candidate: usize,
    occurrence: &Occurrence,
    previous: Option<u32>,
) -> Result<()> {
    let wrong = |why: &str| {
        let what = format!(
            "candidate {candidate}, occurrence {:?} of turn {}: {why}",
            occurrence.span, occurrence.turn
        );
        Err(Error::Shape { op: "anchors", what })
    };
    let Span { root, start, len } = occurrence.span;
    let Some(root_diff) = code.roots.get(root as usize) else {
        return wrong("the task has no such root");
    };
    let n_lines = code.root_lines[root as usize + 1] - code.root_lines[root as usize];
    if len == 0 || start.checked_add(len).is_none_or(|end| end > n_lines) {
        return wrong("the span is empty or leaves its root");
    }
    if root_diff.turn != occurrence.turn {
        return wrong("the root stands in another turn");
    }
    if occurrence.turn as usize >= code.turn_trajectory.len() {
        return wrong("the task has no such turn");
    }
    if previous.is_some_and(|previous| previous >= occurrence.turn) {
        return wrong("occurrences must be in the order of their turns, one per turn");
    }
    Ok(())
}
