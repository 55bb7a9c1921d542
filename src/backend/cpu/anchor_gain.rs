//! Marginal gains of facility location. [`weighted`] has them for graphs with a weight for each edge; here a candidate has
//! one score: `gain(c) = sum over units u of c of max(0, gs(c) - best(u))`, where `best(u)`
//! is the largest groupability among the picks that cover u.
//!
//! A candidate's units are ranges (an occurrence is a run of lines), so the cost is one read of `best` per unit and
//! nothing per edge. The order of summation is part of the result: units inside a range first to last, then ranges
//! first to last. Sums of different ranges do not wait for each other, which hides the latency of the additions.

mod byte_rows;
pub(crate) mod weighted;

use rayon::prelude::*;

use crate::params::cover::UnitRanges;

/// Gains of all candidates. `gs` has one entry per candidate, `best` one per unit. Parallel over candidates; a
/// candidate is summed by one thread.
pub(crate) fn gains(units: UnitRanges<'_>, gs: &[f64], best: &[f64]) -> Vec<f64> {
    (0..gs.len())
        .into_par_iter()
        .with_min_len(64)
        .map(|candidate| gain(units, gs, best, candidate))
        .collect()
}

/// Gain of one candidate.
pub(crate) fn gain(units: UnitRanges<'_>, gs: &[f64], best: &[f64], candidate: usize) -> f64 {
    let score = gs[candidate];
    let mut sum = 0.0;
    for &(start, end) in units.of(candidate) {
        let mut part = 0.0;
        for &covered in &best[start as usize..end as usize] {
            let rise = score - covered;
            // Not `max`, whose care for NaN costs two more instructions: scores are finite.
            part += if rise > 0.0 { rise } else { 0.0 };
        }
        sum += part;
    }
    sum
}

/// Raises `best` by a pick; returns how many units had no cover before.
pub(crate) fn cover(
    units: UnitRanges<'_>,
    score: f64,
    best: &mut [f64],
    candidate: usize,
) -> usize {
    let mut n_new = 0;
    for &(start, end) in units.of(candidate) {
        for covered in &mut best[start as usize..end as usize] {
            n_new += usize::from(*covered == 0.0 && score > 0.0);
            *covered = covered.max(score);
        }
    }
    n_new
}
