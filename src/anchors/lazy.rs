//! Greedy selection with lazy evaluation (CELF, Leskovec et al. 2007), equal to naive greedy pick for pick.
//!
//! The last known bound of the gain of every candidate is in a heap, and only the top is looked at: if it is a gain that
//! is up to date it is the argmax, since every other is at most its bound. For a submodular function a gain from before
//! is a bound.
//!
//! That holds for the rounded numbers too. A gain is a sum of `fl(w - best(u))` or 0, in a fixed order, and `best` only
//! grows. Rounding is monotone, so each term can only fall; `fl(a + b)` is monotone in a and in b, so by induction over
//! the fixed order a sum can only fall, and a sum of which some parts are from before is no lower than the gain. Hence
//! `gain <= bound` bit for bit, and among equals the heap gives the lower index first, bound or gain: exactly what a
//! scan of all candidates picks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Gains of a monotone submodular function, given what has been picked.
pub(super) trait Gains {
    /// The gain of every candidate before the first pick. Not negative.
    fn first_gains(&self) -> Vec<f64>;
    /// Lowers the bound of a candidate to its gain, or stops below `enough`; tells whether it is the gain.
    fn tighten(&mut self, candidate: usize, enough: f64) -> (f64, bool);
    /// Picks a candidate.
    fn pick(&mut self, candidate: usize);
}

/// Hands over at most `k` picks with their gains. Returns how many gains and bounds were evaluated.
pub(super) fn lazy_greedy(
    gains: &mut impl Gains,
    k: usize,
    mut sink: impl FnMut(u32, f64),
) -> usize {
    if k == 0 {
        return 0;
    }
    // Gains are at least +0, and the bits of such floats are in the order of their values. An entry carries the number
    // of picks for which it is a gain; that comes last, since it must not decide between two candidates.
    const BOUND: usize = usize::MAX;
    let mut heap: BinaryHeap<(u64, Reverse<u32>, usize)> = gains
        .first_gains()
        .into_iter()
        .enumerate()
        .map(|(candidate, gain)| (gain.to_bits(), Reverse(candidate as u32), 0))
        .collect();
    let mut n_evaluations = heap.len();
    let mut n_picked = 0;
    while let Some(&(bits, Reverse(candidate), gain_at)) = heap.peek()
        && bits != 0
        && n_picked < k
    {
        if gain_at == n_picked {
            heap.pop();
            gains.pick(candidate as usize);
            sink(candidate, f64::from_bits(bits));
            n_picked += 1;
            continue;
        }
        // The second of a heap is one of the two below its top.
        let next = heap.as_slice().iter().skip(1).take(2).max().map_or(0, |entry| entry.0);
        let (bound, is_gain) = gains.tighten(candidate as usize, f64::from_bits(next));
        n_evaluations += 1;
        if let Some(mut top) = heap.peek_mut() {
            *top = (bound.to_bits(), Reverse(candidate), if is_gain { n_picked } else { BOUND });
        }
    }
    n_evaluations
}
