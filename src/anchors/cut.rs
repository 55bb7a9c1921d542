//! The cut: no line belongs to two groups.
//!
//! All occurrences of all picks compete, in one order: higher groupability (of the pick, before the cut) first, then
//! longer, then earlier, then the lower candidate. An occurrence is kept if none of its lines is taken. What is left
//! of a pick is its group: n and GS are computed again, and a group with fewer than two members or fewer than two
//! trajectories is dropped. This is one pass: lines of a dropped group are not given to another one.

use std::cmp::Reverse;

use super::{Anchor, AnchorConfig, groupability, units};
use crate::code::{Span, TaskCode};
use crate::similarity::{Occurrence, Occurrences};

/// Groups of the picks `(candidate, GS)` after the cut, in the order of the picks. O(m log m + lines) for m
/// occurrences. `first_of` gives the first place of a candidate.
pub(crate) fn cut(
    code: &TaskCode,
    occurrences: &Occurrences,
    picks: &[(u32, f64)],
    config: &AnchorConfig,
    first_of: impl Fn(u32) -> Span,
) -> Vec<Anchor> {
    let mut claims: Vec<(u32, usize, Occurrence)> = Vec::new();
    for (pick, &(candidate, _)) in picks.iter().enumerate() {
        claims.extend(
            occurrences
                .of(candidate as usize)
                .iter()
                .map(|&occurrence| (candidate, pick, occurrence)),
        );
    }
    claims.sort_unstable_by(|a, b| {
        let key =
            |claim: &(u32, usize, Occurrence)| (Reverse(claim.2.span.len), claim.2.span, claim.0);
        picks[b.1].1.total_cmp(&picks[a.1].1).then_with(|| key(a).cmp(&key(b)))
    });

    let mut taken = vec![false; code.line_ids.len()];
    let mut members: Vec<Vec<Occurrence>> = vec![Vec::new(); picks.len()];
    for (_, pick, occurrence) in claims {
        let (start, end) = units::lines(code, occurrence.span);
        let lines = &mut taken[start as usize..end as usize];
        if !lines.contains(&true) {
            lines.fill(true);
            members[pick].push(occurrence);
        }
    }

    let mut anchors = Vec::new();
    for (&(candidate, _), mut members) in picks.iter().zip(members) {
        members.sort_unstable_by_key(|member| member.turn);
        if spans_trajectories(code, &members) {
            let score = groupability(config, mean_lines(&members), members.len());
            anchors.push(Anchor { candidate, span: first_of(candidate), score, members });
        }
    }
    anchors
}

/// True for two occurrences or more from two trajectories or more.
pub(crate) fn spans_trajectories(code: &TaskCode, members: &[Occurrence]) -> bool {
    let trajectory = |member: &Occurrence| code.turn_trajectory[member.turn as usize];
    members
        .first()
        .is_some_and(|first| members.iter().any(|member| trajectory(member) != trajectory(first)))
}

/// Mean size of occurrences in lines. The sum is an integer, so the order does not matter.
pub(crate) fn mean_lines(members: &[Occurrence]) -> f64 {
    let lines: u64 = members.iter().map(|member| u64::from(member.span.len)).sum();
    lines as f64 / members.len() as f64
}
