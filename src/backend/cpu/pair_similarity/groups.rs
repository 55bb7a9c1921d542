//! Which items are patterns of one run of the dynamic program: chains of items that begin one another, and groups of
//! four chains of much the same tokens.
//!
//! One run over a pattern gives the LCS of each of its beginnings as well, so items that are beginnings of one another
//! are one chain with the longest as its pattern. Four chains run side by side over every text that one of them needs;
//! that wastes least when all four need the same texts, which chains that share many tokens do.

use super::bags::Bags;
use super::distinct::Distinct;
use super::lanes::{Kernel, LIMB, N_LANES};

/// Most items of a chain, so that a group has at most 64.
const MOST_ITEMS: usize = 16;
/// Chains of the next lesser lengths among which a chain looks for its companions.
const N_LOOKED_AT: usize = 256;

/// Items that begin one another: neighbours in lexicographic order, `first..=last`. The last is the longest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// Up to four chains.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) chains: Vec<Chain>,
    /// Limbs of the longest pattern.
    pub(super) n_limbs: usize,
}

fn limbs(len: u32) -> usize {
    (len as usize).div_ceil(LIMB)
}

/// Every item of at least one and at most `longest` tokens in one group; the longest patterns first. `place_of` is an
/// item's place in `bags`.
pub(super) fn groups(
    kernel: Kernel,
    distinct: &Distinct<'_>,
    bags: &Bags,
    place_of: &[u32],
    longest: usize,
) -> Vec<Group> {
    let mut chains = chains(distinct, longest);
    let len = |chain: Chain| distinct.item_len(chain.last);
    chains.sort_unstable_by_key(|&chain| (std::cmp::Reverse(len(chain)), chain.last));
    let mut groups = vec![];
    let mut taken = vec![false; chains.len()];
    for leader in 0..chains.len() {
        if taken[leader] {
            continue;
        }
        let n_limbs = limbs(len(chains[leader]));
        let place = |chain: Chain| place_of[chain.last as usize] as usize;
        let own = bags.bins(place(chains[leader]));
        // Of each companion: how alike (larger is better) and which.
        let mut best = [(0u32, usize::MAX); N_LANES - 1];
        let candidates = (leader + 1..chains.len())
            .filter(|&other| !taken[other])
            .take_while(|&other| 8 * limbs(len(chains[other])) >= 7 * n_limbs)
            .take(N_LOOKED_AT);
        for other in candidates {
            let shared = u64::from(kernel.shared(own, bags.bins(place(chains[other]))));
            let sum = u64::from(len(chains[leader])) + u64::from(len(chains[other]));
            let alike = ((shared << 20) / sum) as u32;
            let mut entry = (alike + 1, other);
            for better in &mut best {
                if entry.0 > better.0 {
                    std::mem::swap(&mut entry, better);
                }
            }
        }
        let companions = best.iter().filter(|entry| entry.0 > 0).map(|entry| entry.1);
        let members: Vec<usize> = std::iter::once(leader).chain(companions).collect();
        for &member in &members {
            taken[member] = true;
        }
        groups.push(Group { chains: members.iter().map(|&m| chains[m]).collect(), n_limbs });
    }
    groups
}

/// Chains whose items need equally many limbs: a short beginning of a long pattern would pay for limbs it has no use for.
fn chains(distinct: &Distinct<'_>, longest: usize) -> Vec<Chain> {
    let mut chains: Vec<Chain> = vec![];
    for rank in 0..distinct.len() as u32 {
        let len = distinct.item_len(rank);
        if len == 0 || len as usize > longest {
            continue;
        }
        match chains.last_mut() {
            Some(chain)
                if chain.last + 1 == rank
                    && ((rank - chain.first) as usize) < MOST_ITEMS
                    && limbs(distinct.item_len(chain.last)) == limbs(len)
                    && distinct.common_prefix(chain.last, rank)
                        == distinct.item_len(chain.last) =>
            {
                chain.last = rank;
            }
            _ => chains.push(Chain { first: rank, last: rank }),
        }
    }
    chains
}
