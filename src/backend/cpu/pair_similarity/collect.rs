//! Matches of distinct items to matches of all items, sorted.

use super::distinct::Distinct;

/// A match of two items and their LCS.
pub(super) type Pair = (u32, u32, u32);

/// All pairs a < b of `n_items` items, sorted: those of equal items, and the members of every two distinct items that
/// match. Two counting sorts, O(pairs + n).
pub(super) fn sorted_pairs(
    distinct: &Distinct<'_>,
    matches: Vec<Vec<Pair>>,
    n_items: usize,
) -> Vec<Pair> {
    let all_singles = distinct.len() == n_items;
    let each = |take: &mut dyn FnMut(Pair)| {
        for &(a, b, lcs) in matches.iter().flatten() {
            for &x in distinct.members(a) {
                for &y in distinct.members(b) {
                    take((x.min(y), x.max(y), lcs));
                }
            }
        }
        let ranks = 0..if all_singles { 0 } else { distinct.len() as u32 };
        for rank in ranks {
            let members = distinct.members(rank);
            for (k, &x) in members.iter().enumerate() {
                for &y in &members[k + 1..] {
                    take((x, y, distinct.item_len(rank)));
                }
            }
        }
    };
    let mut by_second = Scatter::new(n_items);
    each(&mut |pair| by_second.count(pair.1));
    by_second.reserve();
    each(&mut |pair| by_second.put(pair.1, pair));
    let by_second = by_second.pairs;
    drop(matches);
    let mut by_first = Scatter::new(n_items);
    by_second.iter().for_each(|pair| by_first.count(pair.0));
    by_first.reserve();
    by_second.iter().for_each(|&pair| by_first.put(pair.0, pair));
    by_first.pairs
}

/// A stable counting sort: first count every key, then reserve, then put in the same order.
struct Scatter {
    next: Vec<usize>,
    pairs: Vec<Pair>,
}

impl Scatter {
    fn new(n_keys: usize) -> Self {
        Scatter { next: vec![0; n_keys + 1], pairs: vec![] }
    }

    #[inline]
    fn count(&mut self, key: u32) {
        self.next[key as usize + 1] += 1;
    }

    fn reserve(&mut self) {
        for key in 1..self.next.len() {
            self.next[key] += self.next[key - 1];
        }
        self.pairs = vec![(0, 0, 0); self.next.last().copied().unwrap_or(0)];
    }

    #[inline]
    fn put(&mut self, key: u32, pair: Pair) {
        let next = &mut self.next[key as usize];
        self.pairs[*next] = pair;
        *next += 1;
    }
}
