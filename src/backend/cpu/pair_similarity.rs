//! pair_similarity: which sequences of a list match, over all pairs.
//!
//! Equal items are one. The others stand sorted by length, so that the partners that can match by length stand side by
//! side; of those, the ones that share enough tokens (histograms of 128 bins); of those, a bit-parallel LCS in the band
//! of a match, four patterns side by side, that goes on from the beginnings that texts share. Every filter is exact: it
//! drops no match. O(pairs in the length range) histogram comparisons, and for each pair left at most O(m·n/64).

mod bags;
mod collect;
mod distinct;
mod groups;
mod lanes;
mod scalar;
pub(crate) mod strips;
mod walk;

#[cfg(target_arch = "x86_64")]
mod avx2;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::Simd;
use crate::error::{Error, Result};
use crate::params::limits::Limits;
use bags::Bags;
use collect::{Pair, sorted_pairs};
use distinct::Distinct;
use groups::{Group, groups};
use lanes::Kernel;
use strips::StripLcs;
use walk::Walk;

/// Longer patterns run alone, in strips.
const LONGEST_IN_LANES: usize = 2048;

/// All pairs a < b of items that match, as (a, b, LCS), sorted; in at most `memory` bytes.
///
/// Item `i` has the tokens `offsets[i]..offsets[i + 1]`, each below `n_symbols`.
pub(crate) fn matching_pairs(
    simd: Simd,
    tokens: &[u32],
    offsets: &[u32],
    n_symbols: usize,
    eta: f64,
    memory: u64,
) -> Result<Vec<Pair>> {
    let kernel = Kernel::new(simd);
    let n_items = offsets.len().saturating_sub(1);
    let list = List::new(Distinct::new(tokens, offsets), n_symbols, eta);
    // Each pair stands in the list of its group, and once more in the list of all.
    let limit = memory / (2 * size_of::<Pair>() as u64);
    let found = Found { distinct: &list.distinct, n_pairs: AtomicU64::new(0), limit };
    found.count_equal_items();

    let groups = groups(kernel, &list.distinct, &list.bags, &list.place_of, LONGEST_IN_LANES);
    let n_texts = list.distinct.len();
    let new_scratch = || (Walk::new(kernel, n_texts, n_symbols), vec![0; n_texts + 4]);
    let mut matches: Vec<Vec<Pair>> = groups
        .par_iter()
        .map_init(new_scratch, |(walk, kept), group| {
            list.matches_of_group(kernel, group, walk, kept, &found)
        })
        .collect();
    let n_short = list
        .by_length
        .partition_point(|&rank| list.distinct.item_len(rank) as usize <= LONGEST_IN_LANES);
    let new_scratch = || (StripLcs::new(n_symbols), vec![0; n_texts + 4]);
    matches.par_extend(
        (n_short..n_texts).into_par_iter().map_init(new_scratch, |(strips, kept), place| {
            list.matches_of_long_item(kernel, place, strips, kept, &found)
        }),
    );

    let n_pairs = found.n_pairs.into_inner();
    if n_pairs > limit {
        return Err(Error::Limit {
            op: "pair_similarity",
            what: "the list of matching pairs (pairs)",
            needed: n_pairs,
            limit,
            advice: "raise `memory_limit` or `eta`, or drop equal items",
        });
    }
    Ok(sorted_pairs(&list.distinct, matches, n_items))
}

/// The distinct items, their order by length and their histograms in that order.
struct List<'a> {
    distinct: Distinct<'a>,
    by_length: Vec<u32>,
    place_of: Vec<u32>,
    bags: Bags,
    limits: Limits,
    /// By the sum of two lengths: the least LCS of a match.
    least: Vec<u32>,
}

impl<'a> List<'a> {
    fn new(distinct: Distinct<'a>, n_symbols: usize, eta: f64) -> Self {
        let n_distinct = distinct.len();
        let mut by_length: Vec<u32> = (0..n_distinct as u32).collect();
        by_length.sort_unstable_by_key(|&rank| (distinct.item_len(rank), rank));
        let mut place_of = vec![0; n_distinct];
        for (place, &rank) in by_length.iter().enumerate() {
            place_of[rank as usize] = place as u32;
        }
        let longest = by_length.last().map_or(0, |&rank| distinct.item_len(rank) as usize);
        let bags = Bags::new(n_distinct, |place| distinct.item(by_length[place]), n_symbols);
        let limits = Limits::new(eta, longest);
        let least = (0..=2 * longest as u32).map(|sum| limits.least(sum)).collect();
        List { distinct, by_length, place_of, bags, limits, least }
    }

    /// The places after `place` whose items can match its item by length and by histogram, at the beginning of `kept`,
    /// counted from `place + 1`; gives how many. A pair is looked at once, from its shorter item.
    fn partners(&self, kernel: Kernel, place: usize, kept: &mut [u32]) -> usize {
        let lens = self.bags.lens();
        let len = lens[place];
        let longest = self.limits.of(len).longest;
        let end = place + 1 + lens[place + 1..].partition_point(|&other| other <= longest);
        kernel.keep(
            self.bags.bins(place),
            self.bags.excess(place),
            self.bags.partners(place + 1..end),
            &self.least[len as usize..],
            kept,
        )
    }

    fn matches_of_group(
        &self,
        kernel: Kernel,
        group: &Group,
        walk: &mut Walk,
        kept: &mut [u32],
        found: &Found<'_>,
    ) -> Vec<Pair> {
        let n_slots = walk.take(&self.distinct, group).len();
        for slot in 0..n_slots {
            let place = self.place_of[walk.rank_of_slot(slot) as usize] as usize;
            let n_kept = self.partners(kernel, place, kept);
            for &partner in &kept[..n_kept] {
                walk.want(slot, self.by_length[place + 1 + partner as usize]);
            }
        }
        let mut pairs = vec![];
        walk.run(&self.distinct, &self.least, |text, wanted, slots, counts| {
            let text_len = self.distinct.item_len(text);
            let mut left = wanted;
            while left != 0 {
                let slot = left.trailing_zeros() as usize;
                left &= left - 1;
                if counts[slot] >= self.least[(slots[slot].len + text_len) as usize] {
                    found.push(slots[slot].rank, text, counts[slot], &mut pairs);
                }
            }
        });
        pairs
    }

    fn matches_of_long_item(
        &self,
        kernel: Kernel,
        place: usize,
        strips: &mut StripLcs,
        kept: &mut [u32],
        found: &Found<'_>,
    ) -> Vec<Pair> {
        let rank = self.by_length[place];
        let item = self.distinct.item(rank);
        let mut pairs = vec![];
        let n_kept = self.partners(kernel, place, kept);
        for &partner in &kept[..n_kept] {
            let other = self.by_length[place + 1 + partner as usize];
            let text = self.distinct.item(other);
            let lcs = strips.lcs(item, text);
            if lcs >= self.least[item.len() + text.len()] {
                found.push(rank, other, lcs, &mut pairs);
            }
        }
        pairs
    }
}

/// The count of matches of all items, over all threads, and how many may be kept.
struct Found<'a> {
    distinct: &'a Distinct<'a>,
    n_pairs: AtomicU64,
    limit: u64,
}

impl Found<'_> {
    /// Equal items match: similarity 1, and eta is at most 1.
    fn count_equal_items(&self) {
        for rank in 0..self.distinct.len() as u32 {
            let n = self.distinct.members(rank).len() as u64;
            self.n_pairs.fetch_add(n * (n - 1) / 2, Relaxed);
        }
    }

    /// Counts a match of two distinct items for all their members. Past the limit it is not kept, so that the error can
    /// say how many there are.
    fn push(&self, a: u32, b: u32, lcs: u32, pairs: &mut Vec<Pair>) {
        let n = self.distinct.members(a).len() as u64 * self.distinct.members(b).len() as u64;
        if self.n_pairs.fetch_add(n, Relaxed) < self.limit {
            pairs.push((a, b, lcs));
        }
    }
}
