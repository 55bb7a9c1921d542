//! Histograms of tokens, for an upper bound of a longest common subsequence.
//!
//! A common subsequence takes each symbol at most as often as both sides have it, so it is at most
//! `sum over symbols of min(count in a, count in b)`. Symbols that share a bin only make the bound larger, for
//! `min(x + x', y + y') >= min(x, y) + min(x', y')`. So does cutting a bin off at 255 when what is cut off is kept:
//! `min(x, y) <= min(min(x, 255), min(y, 255)) + min(x cut off, y cut off)`, and sums of minima are at most minima of
//! sums.

use super::WindowSet;

/// Bins of a histogram: the most frequent symbols have one each, the others share the upper half.
pub(super) const N_BINS: usize = 128;
const N_OWN_BINS: usize = 64;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Bag {
    pub(super) bins: [u8; N_BINS],
    /// Tokens beyond 255 in their bin.
    pub(super) excess: u32,
}

impl Bag {
    pub(super) const EMPTY: Bag = Bag { bins: [0; N_BINS], excess: 0 };

    #[inline]
    pub(super) fn add(&mut self, bin: u8) {
        let count = &mut self.bins[bin as usize % N_BINS];
        match count.checked_add(1) {
            Some(more) => *count = more,
            None => self.excess += 1,
        }
    }

    /// Makes every bound with this bag at least the bound with `other`.
    pub(super) fn join(&mut self, other: &Bag) {
        for (bin, &of_other) in self.bins.iter_mut().zip(&other.bins) {
            *bin = (*bin).max(of_other);
        }
        self.excess = self.excess.max(other.excess);
    }

    /// An upper bound of the longest common subsequence of the two token sequences.
    pub(super) fn shared_at_most(&self, other: &Bag) -> u32 {
        let in_bins: u32 =
            self.bins.iter().zip(&other.bins).map(|(&x, &y)| u32::from(x.min(y))).sum();
        in_bins + self.excess.min(other.excess)
    }
}

/// The bin of each symbol.
pub(super) fn bins_by_frequency(set: &WindowSet<'_>) -> Vec<u8> {
    let mut counts = vec![0u64; set.n_symbols];
    for &symbol in set.tokens {
        counts[symbol as usize] += 1;
    }
    let mut by_count: Vec<u32> = (0..set.n_symbols as u32).collect();
    by_count.sort_unstable_by_key(|&symbol| (std::cmp::Reverse(counts[symbol as usize]), symbol));
    let mut bin_of = vec![0; set.n_symbols];
    for (rank, symbol) in by_count.into_iter().enumerate() {
        let bin = if rank < N_BINS { rank } else { N_OWN_BINS + rank % (N_BINS - N_OWN_BINS) };
        bin_of[symbol as usize] = bin as u8;
    }
    bin_of
}

/// The bag of every row of the set.
pub(super) fn bags_of_rows(set: &WindowSet<'_>, bin_of: &[u8]) -> Vec<Bag> {
    let mut bags = Vec::with_capacity(set.row_lines.len());
    for start in 0..set.starts.len() {
        let first_line = set.starts[start].first_line;
        let mut bag = Bag::EMPTY;
        let mut n_lines = 0;
        for row in set.rows_of(start) {
            for &symbol in set.tokens_of_lines(first_line + n_lines, set.row_lines[row] - n_lines) {
                bag.add(bin_of[symbol as usize]);
            }
            n_lines = set.row_lines[row];
            bags.push(bag);
        }
    }
    bags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::window_similarity::{Simd, lanes::Kernel, with_kernel};

    fn bag_of(bins: &[u8]) -> Bag {
        let mut bag = Bag::EMPTY;
        bins.iter().for_each(|&bin| bag.add(bin));
        bag
    }

    fn lcs(a: &[u8], b: &[u8]) -> u32 {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut diagonal = 0;
            for (j, y) in b.iter().enumerate() {
                let above = row[j + 1];
                row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
                diagonal = above;
            }
        }
        row[b.len()]
    }

    /// For sequences with more than 255 tokens in a bin too, and for bags that stand for two sequences.
    #[test]
    fn no_common_subsequence_is_longer_than_the_bound() {
        let mut state = 3u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as usize
        };
        for round in 0..60 {
            let n_bins = [1, 2, 9, 128][round % 4];
            let mut sequence = |most: usize| -> Vec<u8> {
                (0..next() % most).map(|_| (next() % n_bins) as u8).collect()
            };
            let (a, b, c) = (sequence(700), sequence(700), sequence(40));
            let mut joined = bag_of(&a);
            joined.join(&bag_of(&c));
            for simd in [Simd::Scalar, Simd::Avx2, Simd::Avx512] {
                let bound =
                    |x: &Bag, y: &Bag| with_kernel!(simd, kernel => kernel.shared_at_most(x, y));
                assert_eq!(bound(&bag_of(&a), &bag_of(&b)), bag_of(&a).shared_at_most(&bag_of(&b)));
                assert!(bound(&bag_of(&a), &bag_of(&b)) >= lcs(&a, &b));
                assert!(bound(&joined, &bag_of(&b)) >= lcs(&a, &b).max(lcs(&c, &b)));
            }
        }
    }
}
