//! Anchor selection as plain loops: naive greedy over all candidates, then the cut.

use crate::anchors::{AnchorConfig, Groupability, Unit};
use crate::code::{Span, TaskCode};
use crate::similarity::{Occurrence, Occurrences};

/// What the selection must give.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Candidate and marginal gain of each pick, before the cut.
    pub picks: Vec<(u32, f64)>,
    /// Candidate, groupability and members of each anchor, after the cut, in the order of the picks.
    pub anchors: Vec<(u32, f64, Vec<Occurrence>)>,
}

/// `phi(L)·psi(n)` and its other forms; 0 for n < 2.
pub fn groupability(config: &AnchorConfig, mean_lines: f64, n: usize) -> f64 {
    if n < 2 {
        return 0.0;
    }
    let l = mean_lines / config.s0;
    let m = (n - 1) as f64 / config.g0;
    match config.groupability {
        Groupability::Exponential => (1.0 - libm::exp(-l)) * (1.0 - libm::exp(-m)),
        Groupability::Additive => l + m,
        Groupability::Log => libm::log(1.0 + l) * libm::log(1.0 + m),
        Groupability::Linear => l * m,
    }
}

/// Naive greedy facility location: each round every gain anew, the first of the largest, until none is left. A row holds
/// (unit, weight). A gain is summed in parts of 64 edges: edge i of a part goes to sum i mod 8, and these are added in
/// pairs four apart, two apart, and one apart.
pub fn facility_location(rows: &[Vec<(u32, f64)>], n_units: usize, k: usize) -> Vec<(u32, f64)> {
    let mut best = vec![0.0; n_units];
    let mut picks: Vec<(u32, f64)> = vec![];
    while picks.len() < k {
        let mut choice: Option<(u32, f64)> = None;
        for (candidate, row) in rows.iter().enumerate() {
            if picks.iter().any(|&(picked, _)| picked == candidate as u32) {
                continue;
            }
            let mut gain = 0.0;
            for part in row.chunks(64) {
                let mut s = [0.0; 8];
                for (i, &(unit, weight)) in part.iter().enumerate() {
                    if weight > best[unit as usize] {
                        s[i % 8] += weight - best[unit as usize];
                    }
                }
                gain += ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
            }
            if choice.is_none_or(|(_, most)| gain > most) {
                choice = Some((candidate as u32, gain));
            }
        }
        let Some((candidate, gain)) = choice else { break };
        if gain <= 0.0 {
            break;
        }
        picks.push((candidate, gain));
        for &(unit, weight) in &rows[candidate as usize] {
            if weight > best[unit as usize] {
                best[unit as usize] = weight;
            }
        }
    }
    picks
}

/// Greedy and cut. A gain is summed unit by unit within an occurrence, then occurrence by occurrence.
pub fn select(code: &TaskCode, occurrences: &Occurrences, config: &AnchorConfig) -> Reference {
    let score = |members: &[Occurrence]| {
        let mut lines = 0u64;
        for member in members {
            lines += u64::from(member.span.len);
        }
        groupability(config, lines as f64 / members.len() as f64, members.len())
    };

    let mut best: Vec<(Span, f64)> = Vec::new();
    let mut picks: Vec<(u32, f64)> = Vec::new();
    while picks.len() < config.max_anchors {
        let mut choice: Option<(u32, f64)> = None;
        for candidate in 0..occurrences.len() as u32 {
            let members = occurrences.of(candidate as usize);
            if !eligible(code, members) || picks.iter().any(|&(picked, _)| picked == candidate) {
                continue;
            }
            let gs = score(members);
            let mut gain = 0.0;
            for member in members {
                let mut part = 0.0;
                for unit in units_of(member.span, config.unit) {
                    let covered =
                        best.iter().find(|(known, _)| *known == unit).map_or(0.0, |&(_, gs)| gs);
                    if gs > covered {
                        part += gs - covered;
                    }
                }
                gain += part;
            }
            if choice.is_none_or(|(_, most)| gain > most) {
                choice = Some((candidate, gain));
            }
        }
        let Some((candidate, gain)) = choice else { break };
        if gain <= 0.0 {
            break;
        }
        picks.push((candidate, gain));
        let members = occurrences.of(candidate as usize);
        for member in members {
            for unit in units_of(member.span, config.unit) {
                match best.iter_mut().find(|(known, _)| *known == unit) {
                    Some((_, covered)) => *covered = covered.max(score(members)),
                    None => best.push((unit, score(members))),
                }
            }
        }
    }

    // The cut, one claim at a time: the best of those left that touches nothing kept.
    let mut left: Vec<(u32, f64, Occurrence)> = Vec::new();
    for &(candidate, _) in &picks {
        let members = occurrences.of(candidate as usize);
        for &member in members {
            left.push((candidate, score(members), member));
        }
    }
    let mut kept: Vec<(u32, f64, Occurrence)> = Vec::new();
    while !left.is_empty() {
        let mut first = 0;
        for i in 1..left.len() {
            if goes_before(&left[i], &left[first]) {
                first = i;
            }
        }
        let claim = left.remove(first);
        if kept.iter().all(|other| !overlap(other.2.span, claim.2.span)) {
            kept.push(claim);
        }
    }

    let mut anchors = Vec::new();
    for &(candidate, _) in &picks {
        let mut members = Vec::new();
        for turn in 0..code.turn_trajectory.len() as u32 {
            for claim in &kept {
                if claim.0 == candidate && claim.2.turn == turn {
                    members.push(claim.2);
                }
            }
        }
        if eligible(code, &members) {
            anchors.push((candidate, score(&members), members));
        }
    }
    Reference { picks, anchors }
}

fn eligible(code: &TaskCode, members: &[Occurrence]) -> bool {
    for a in members {
        for b in members {
            if code.turn_trajectory[a.turn as usize] != code.turn_trajectory[b.turn as usize] {
                return true;
            }
        }
    }
    false
}

fn units_of(span: Span, unit: Unit) -> Vec<Span> {
    match unit {
        Unit::Line => {
            (0..span.len).map(|k| Span { root: span.root, start: span.start + k, len: 1 }).collect()
        }
        Unit::Occurrence => vec![span],
    }
}

fn overlap(a: Span, b: Span) -> bool {
    a.root == b.root && a.start < b.start + b.len && b.start < a.start + a.len
}

fn goes_before(a: &(u32, f64, Occurrence), b: &(u32, f64, Occurrence)) -> bool {
    if a.1 != b.1 {
        return a.1 > b.1;
    }
    if a.2.span.len != b.2.span.len {
        return a.2.span.len > b.2.span.len;
    }
    if a.2.span != b.2.span {
        return a.2.span < b.2.span;
    }
    a.0 < b.0
}
