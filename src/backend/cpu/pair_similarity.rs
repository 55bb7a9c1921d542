//! pair_similarity: which sequences of a list match, over all pairs.
//!
//! Sorted by length, so that the partners that can match by length stand side by side; of those, the ones that share
//! enough tokens (histograms of 128 bins); of those, a bit-parallel LCS. Every filter is exact: it drops no match.
//! O(pairs in the length range) histogram comparisons, O(m·n/64) for each pair left.

pub(crate) mod strips;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::window_similarity::limits::Limits;
use crate::error::{Error, Result};
use strips::StripLcs;

/// Bins of a histogram: the 64 most frequent symbols have one each, the others share the rest.
const N_BINS: usize = 128;
const N_OWN_BINS: usize = 64;

/// A histogram with saturated bins. What saturation cuts off is in `excess`, so that the bound stays one.
#[derive(Debug, Clone)]
struct Bag {
    bins: [u8; N_BINS],
    excess: u32,
}

/// All pairs a < b of items that match, as (a, b, LCS), sorted; in at most `memory` bytes.
///
/// Item `i` has the tokens `offsets[i]..offsets[i + 1]`, each below `n_symbols`.
pub(crate) fn matching_pairs(
    tokens: &[u32],
    offsets: &[u32],
    n_symbols: usize,
    eta: f64,
    memory: u64,
) -> Result<Vec<(u32, u32, u32)>> {
    let n_pairs = AtomicU64::new(0);
    // Each pair stands in the list of its item, and once more in the list of all.
    let limit = memory / (2 * size_of::<(u32, u32, u32)>() as u64);
    let n_items = offsets.len().saturating_sub(1);
    let item = |i: u32| &tokens[offsets[i as usize] as usize..offsets[i as usize + 1] as usize];
    let mut order: Vec<u32> = (0..n_items as u32).collect();
    order.sort_by_key(|&i| (item(i).len(), i));
    let longest = order.last().map_or(0, |&i| item(i).len());
    let limits = Limits::new(eta, longest);
    let bin_of = bins_by_frequency(tokens, n_symbols);
    let bags: Vec<Bag> = order.par_iter().map(|&i| Bag::new(item(i), &bin_of)).collect();

    let mut pairs: Vec<(u32, u32, u32)> = (0..n_items)
        .into_par_iter()
        .map_init(
            || StripLcs::new(n_symbols),
            |strips, at| {
                let a = item(order[at]);
                let partners = order[at + 1..].partition_point(|&i| {
                    item(i).len() <= limits.of(a.len() as u32).longest as usize
                });
                let mut found = vec![];
                let mut taken = false;
                for (bag, &other) in bags[at + 1..].iter().zip(&order[at + 1..]).take(partners) {
                    let b = item(other);
                    let least = limits.least((a.len() + b.len()) as u32);
                    if bags[at].shared_at_most(bag) < least {
                        continue;
                    }
                    let lcs = if StripLcs::is_one_strip(a) {
                        if !taken {
                            strips.take_pattern(a);
                            taken = true;
                        }
                        strips.lcs_with(b)
                    } else {
                        strips.lcs(a, b)
                    };
                    // Past the limit they are only counted, so that the error can say how many there are.
                    if lcs >= least && n_pairs.fetch_add(1, Relaxed) < limit {
                        found.push((order[at].min(other), order[at].max(other), lcs));
                    }
                }
                found
            },
        )
        .flatten_iter()
        .collect();
    let n_pairs = n_pairs.into_inner();
    if n_pairs > limit {
        return Err(Error::Limit {
            op: "pair_similarity",
            what: "the list of matching pairs (pairs)",
            needed: n_pairs,
            limit,
            advice: "raise `memory_limit` or `eta`, or drop equal items",
        });
    }
    pairs.par_sort_unstable();
    Ok(pairs)
}

fn bins_by_frequency(tokens: &[u32], n_symbols: usize) -> Vec<u8> {
    let mut counts = vec![0u64; n_symbols];
    for &symbol in tokens {
        counts[symbol as usize] += 1;
    }
    let mut by_count: Vec<usize> = (0..n_symbols).collect();
    by_count.sort_by_key(|&symbol| (std::cmp::Reverse(counts[symbol]), symbol));
    let mut bin_of = vec![0; n_symbols];
    for (rank, symbol) in by_count.into_iter().enumerate() {
        let bin = if rank < N_BINS { rank } else { N_OWN_BINS + rank % (N_BINS - N_OWN_BINS) };
        bin_of[symbol] = bin as u8;
    }
    bin_of
}

impl Bag {
    fn new(item: &[u32], bin_of: &[u8]) -> Self {
        let mut counts = [0u32; N_BINS];
        for &symbol in item {
            counts[bin_of[symbol as usize] as usize] += 1;
        }
        let bins = counts.map(|count| count.min(255) as u8);
        let excess = counts.iter().map(|count| count.saturating_sub(255)).sum();
        Bag { bins, excess }
    }

    /// An upper bound of the tokens that both hold, and so of their LCS.
    #[inline]
    fn shared_at_most(&self, other: &Bag) -> u32 {
        let in_bins: u32 =
            self.bins.iter().zip(&other.bins).map(|(&x, &y)| u32::from(x.min(y))).sum();
        in_bins + self.excess.min(other.excess)
    }
}
