//! Histograms of the items: an upper bound of the tokens that two items share, and so of their LCS.

use rayon::prelude::*;

use super::lanes::{Bins, N_BINS, Partners};

/// The most frequent symbols have a bin each, the others share the rest.
const N_OWN_BINS: usize = 64;

/// Histograms with saturated bins, flat. What saturation cuts off is in `excess`.
///
/// Items a and b share of symbol s at most `min(a_s, b_s)`, and sums of minima are at most minima of sums, so bins may
/// hold several symbols. With counts cut at 255, `min(x, y) <= min(x', y') + min(x - x', y - y')`: where the smaller of
/// both is cut, so is the other, by no less. Summed over the bins the last part is at most the smaller excess.
#[derive(Debug)]
pub(super) struct Bags {
    bins: Vec<Bins>,
    excess: Vec<u32>,
    lens: Vec<u32>,
}

impl Bags {
    /// Histograms of `n_items` items, in their order.
    pub(super) fn new<'a>(
        n_items: usize,
        item: impl Fn(usize) -> &'a [u32] + Sync,
        n_symbols: usize,
    ) -> Self {
        let bin_of = bins_by_frequency((0..n_items).map(&item), n_symbols);
        let bags: Vec<(Bins, u32)> =
            (0..n_items).into_par_iter().map(|i| histogram(item(i), &bin_of)).collect();
        Bags {
            bins: bags.iter().map(|bag| bag.0).collect(),
            excess: bags.iter().map(|bag| bag.1).collect(),
            lens: (0..n_items).map(|i| item(i).len() as u32).collect(),
        }
    }

    #[inline]
    pub(super) fn bins(&self, i: usize) -> &Bins {
        &self.bins[i]
    }

    #[inline]
    pub(super) fn excess(&self, i: usize) -> u32 {
        self.excess[i]
    }

    /// The items of a range as partners.
    #[inline]
    pub(super) fn partners(&self, range: std::ops::Range<usize>) -> Partners<'_> {
        Partners {
            bins: &self.bins[range.clone()],
            excess: &self.excess[range.clone()],
            lens: &self.lens[range],
        }
    }

    /// Lengths of all items.
    pub(super) fn lens(&self) -> &[u32] {
        &self.lens
    }
}

fn bins_by_frequency<'a>(items: impl Iterator<Item = &'a [u32]>, n_symbols: usize) -> Vec<u8> {
    let mut counts = vec![0u32; n_symbols];
    for &symbol in items.flatten() {
        counts[symbol as usize] += 1;
    }
    let mut by_count: Vec<u32> = (0..n_symbols as u32).collect();
    by_count.sort_unstable_by_key(|&symbol| (std::cmp::Reverse(counts[symbol as usize]), symbol));
    let mut bin_of = vec![0; n_symbols];
    for (rank, symbol) in by_count.into_iter().enumerate() {
        let bin = if rank < N_BINS { rank } else { N_OWN_BINS + rank % (N_BINS - N_OWN_BINS) };
        bin_of[symbol as usize] = bin as u8;
    }
    bin_of
}

fn histogram(item: &[u32], bin_of: &[u8]) -> (Bins, u32) {
    let mut counts = [0u32; N_BINS];
    for &symbol in item {
        counts[bin_of[symbol as usize] as usize % N_BINS] += 1;
    }
    let bins = Bins(counts.map(|count| count.min(255) as u8));
    (bins, counts.iter().map(|count| count.saturating_sub(255)).sum())
}
