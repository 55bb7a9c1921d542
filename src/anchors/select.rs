//! Greedy facility location with lazy evaluation (CELF, Leskovec et al. 2007), equal to naive greedy pick for pick.
//!
//! F(C) = sum over covered units u of max over c in C that cover u of GS(c) is monotone and submodular, so greedy
//! reaches (1 - 1/e) of the best F. Lazy greedy keeps the last known gain of every candidate in a heap and evaluates
//! only the top: if it stays on top it is the argmax, since a gain known from earlier is an upper bound.
//!
//! That bound holds for the rounded numbers too. A gain is a sum of `fl(gs - best(u))` or 0, in a fixed order, and
//! `best` only grows. Rounding is monotone, so each term can only fall; `fl(a + b)` is monotone in a and in b, so by
//! induction over the fixed order the sum can only fall. Hence `fresh <= stale` bit for bit, an entry that is fresh
//! and still on top is at least every other fresh gain, and among equal gains the heap gives the lower index first,
//! fresh or stale: exactly what a scan of all candidates picks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Anchor, AnchorConfig, cut, groupability, units};
use crate::backend::cpu::anchor_gain::{self, UnitRanges};
use crate::code::{TaskCode, Windows};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::similarity::Occurrences;

/// The anchors of one task, and how they came about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Groups after the cut, in the order they were picked.
    pub anchors: Vec<Anchor>,
    /// Candidates looked at.
    pub n_candidates: usize,
    /// Candidates that occur in two trajectories or more.
    pub n_eligible: usize,
    /// Picks before the cut.
    pub n_picked: usize,
    /// Picks left with too few members by the cut.
    pub n_dropped: usize,
    /// Occurrences of all picks, before the cut.
    pub n_occurrences: usize,
    /// Members of all anchors, after the cut.
    pub n_members: usize,
    /// F of the picks, before the cut.
    pub gain: f64,
    /// Units that the picks cover, before the cut: lines or occurrences, as configured.
    pub n_covered_units: usize,
    /// Lines that the anchors' members cover, after the cut.
    pub n_covered_lines: usize,
    /// Gains evaluated. It does not depend on the number of threads.
    pub n_evaluations: usize,
}

/// Selects the anchors of one task. `windows` has the candidates and `occurrences` one list for each.
///
/// Candidates with occurrences in at least two trajectories are eligible. At most `config.max_anchors` are picked, each
/// the largest marginal gain, the lower index among equals, until no gain is left; then the cut makes groups of them.
///
/// # Errors
/// [`Error::Config`] for parameters out of range, or so small that a gain could be infinite; [`Error::Shape`] for
/// occurrences that do not fit the code; [`Error::Limit`] for more than 2^32 - 2 of them.
pub fn select(
    device: &Device,
    code: &TaskCode,
    windows: &Windows,
    occurrences: &Occurrences,
    config: &AnchorConfig,
) -> Result<Selection> {
    config.validate()?;
    units::check(code, windows.len(), occurrences)?;

    let n_candidates = occurrences.len();
    let eligible: Vec<u32> = (0..n_candidates as u32)
        .filter(|&candidate| cut::spans_trajectories(code, occurrences.of(candidate as usize)))
        .collect();
    let n_most_units = (code.line_ids.len() + occurrences.items.len()) as f64;
    let mut scores = Vec::with_capacity(eligible.len());
    for &candidate in &eligible {
        let members = occurrences.of(candidate as usize);
        let score = groupability(config, cut::mean_lines(members), members.len());
        // A gain is at most one score for each unit, and F at most as much.
        if !(score * n_most_units).is_finite() {
            let got = format!("{} (g0 {})", config.s0, config.g0);
            return Err(Error::Config {
                op: "anchors",
                name: "s0",
                got,
                expected: "large enough for finite scores and gains",
            });
        }
        scores.push(score);
    }

    let covered = units::units(code, occurrences, &eligible, config.unit);
    let ranges = UnitRanges { offsets: &covered.offsets, ranges: &covered.ranges };
    let greedy = match device {
        Device::Cpu(_) => lazy_greedy(ranges, &scores, covered.n_units, config.max_anchors),
    };

    let picks: Vec<(u32, f64)> =
        greedy.picks.iter().map(|&e| (eligible[e as usize], scores[e as usize])).collect();
    let anchors = cut::cut(code, occurrences, &picks, config, |candidate| windows.first(candidate));
    let members = || anchors.iter().flat_map(|anchor| &anchor.members);
    Ok(Selection {
        n_candidates,
        n_eligible: eligible.len(),
        n_picked: picks.len(),
        n_dropped: picks.len() - anchors.len(),
        n_occurrences: picks
            .iter()
            .map(|&(candidate, _)| occurrences.of(candidate as usize).len())
            .sum(),
        n_members: members().count(),
        gain: greedy.gain,
        n_covered_units: greedy.n_covered,
        n_covered_lines: members().map(|member| member.span.len as usize).sum(),
        n_evaluations: greedy.n_evaluations,
        anchors,
    })
}

struct Greedy {
    picks: Vec<u32>,
    gain: f64,
    n_covered: usize,
    n_evaluations: usize,
}

fn lazy_greedy(units: UnitRanges<'_>, scores: &[f64], n_units: usize, max_picks: usize) -> Greedy {
    let mut best = vec![0.0; n_units];
    let mut greedy =
        Greedy { picks: Vec::new(), gain: 0.0, n_covered: 0, n_evaluations: scores.len() };
    if max_picks == 0 {
        greedy.n_evaluations = 0;
        return greedy;
    }
    // Gains are at least +0, and the bits of such floats are in the order of their values. An entry carries the
    // number of picks at its evaluation; that comes last, since it must not decide between two candidates.
    let mut heap: BinaryHeap<(u64, Reverse<u32>, usize)> = anchor_gain::gains(units, scores, &best)
        .into_iter()
        .enumerate()
        .map(|(candidate, gain)| (gain.to_bits(), Reverse(candidate as u32), 0))
        .collect();
    while let Some(mut top) = heap.peek_mut() {
        let (bits, Reverse(candidate), evaluated_at) = *top;
        if bits == 0 {
            break;
        }
        if evaluated_at == greedy.picks.len() {
            std::collections::binary_heap::PeekMut::pop(top);
            greedy.gain += f64::from_bits(bits);
            greedy.n_covered += anchor_gain::cover(
                units,
                scores[candidate as usize],
                &mut best,
                candidate as usize,
            );
            greedy.picks.push(candidate);
            if greedy.picks.len() == max_picks {
                break;
            }
        } else {
            let gain = anchor_gain::gain(units, scores, &best, candidate as usize);
            *top = (gain.to_bits(), Reverse(candidate), greedy.picks.len());
            greedy.n_evaluations += 1;
        }
    }
    greedy
}
