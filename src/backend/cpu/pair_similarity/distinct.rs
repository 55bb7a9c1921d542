//! The distinct items of a list in lexicographic order, and how long a beginning any two of them share.
//!
//! Equal items are one item with several members. The order makes items that begin alike neighbours, so that the
//! dynamic program can go on from where the neighbour's beginning ended.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Distinct items, numbered by their rank in lexicographic order.
#[derive(Debug)]
pub(super) struct Distinct<'a> {
    tokens: &'a [u32],
    /// First and last + 1 token of each rank.
    spans: Vec<(u32, u32)>,
    member_offsets: Vec<u32>,
    members: Vec<u32>,
    common: RangeMin,
}

impl<'a> Distinct<'a> {
    /// O(tokens) to collapse equal items, O(n log n) comparisons to sort the others.
    pub(super) fn new(tokens: &'a [u32], offsets: &[u32]) -> Self {
        let n_items = offsets.len().saturating_sub(1);
        let of = |i: u32| &tokens[offsets[i as usize] as usize..offsets[i as usize + 1] as usize];
        let (first_of, class_of) = classes(n_items, of);
        // The first two tokens decide most comparisons.
        let mut order: Vec<(u64, u32)> = (0..first_of.len() as u32)
            .map(|class| {
                let item = of(first_of[class as usize]);
                let token = |k: usize| item.get(k).map_or(0, |&t| u64::from(t) + 1);
                (token(0) << 32 | token(1).min(u64::from(u32::MAX)), class)
            })
            .collect();
        order.sort_unstable_by(|x, y| {
            x.0.cmp(&y.0).then_with(|| {
                of(first_of[x.1 as usize]).cmp(of(first_of[y.1 as usize])).then(x.1.cmp(&y.1))
            })
        });
        let spans: Vec<(u32, u32)> = order
            .iter()
            .map(|&(_, class)| first_of[class as usize] as usize)
            .map(|i| (offsets[i], offsets[i + 1]))
            .collect();
        let mut rank_of = vec![0; order.len()];
        for (rank, &(_, class)) in order.iter().enumerate() {
            rank_of[class as usize] = rank as u32;
        }
        let (member_offsets, members) =
            grouped(class_of.iter().map(|&class| rank_of[class as usize]), order.len());
        let by_rank = |rank: usize| &tokens[spans[rank].0 as usize..spans[rank].1 as usize];
        let common = (0..spans.len())
            .map(|rank| match rank {
                0 => 0,
                _ => common_prefix(by_rank(rank - 1), by_rank(rank)),
            })
            .collect();
        Distinct { tokens, spans, member_offsets, members, common: RangeMin::new(common) }
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Tokens of an item.
    #[inline]
    pub(super) fn item(&self, rank: u32) -> &'a [u32] {
        let (start, end) = self.spans[rank as usize];
        &self.tokens[start as usize..end as usize]
    }

    /// Length of an item.
    #[inline]
    pub(super) fn item_len(&self, rank: u32) -> u32 {
        let (start, end) = self.spans[rank as usize];
        end - start
    }

    /// The places in the list that hold this item, ascending.
    #[inline]
    pub(super) fn members(&self, rank: u32) -> &[u32] {
        let rank = rank as usize;
        &self.members[self.member_offsets[rank] as usize..self.member_offsets[rank + 1] as usize]
    }

    /// Tokens that two items begin with alike; `a < b`.
    ///
    /// In sorted order everything between two items that share a beginning shares it too, so this is the least of what
    /// neighbours share.
    #[inline]
    pub(super) fn common_prefix(&self, a: u32, b: u32) -> u32 {
        self.common.least(a as usize + 1, b as usize + 1)
    }
}

/// The first item of each class of equal items, and the class of each item.
fn classes<'a>(n_items: usize, of: impl Fn(u32) -> &'a [u32]) -> (Vec<u32>, Vec<u32>) {
    let hasher = FxBuildHasher;
    let mut first_of: Vec<u32> = vec![];
    // Equal hashes of unequal items: the newest class with that hash, and from each class the one before.
    let mut newest: FxHashMap<u64, u32> = FxHashMap::default();
    newest.reserve(n_items);
    let mut before: Vec<Option<u32>> = vec![];
    let class_of = (0..n_items as u32)
        .map(|i| {
            let next = first_of.len() as u32;
            let entry = newest.entry(hasher.hash_one(of(i)));
            let newest = match &entry {
                std::collections::hash_map::Entry::Occupied(entry) => Some(*entry.get()),
                std::collections::hash_map::Entry::Vacant(_) => None,
            };
            let mut class = newest;
            while let Some(known) = class {
                if of(first_of[known as usize]) == of(i) {
                    return known;
                }
                class = before[known as usize];
            }
            entry.insert_entry(next);
            first_of.push(i);
            before.push(newest);
            next
        })
        .collect();
    (first_of, class_of)
}

/// A counting sort: where the members of each of `n_groups` groups begin, and the members, ascending in each group.
fn grouped(group_of: impl Iterator<Item = u32> + Clone, n_groups: usize) -> (Vec<u32>, Vec<u32>) {
    let mut offsets = vec![0u32; n_groups + 1];
    let mut n_members = 0;
    for group in group_of.clone() {
        offsets[group as usize + 1] += 1;
        n_members += 1;
    }
    for group in 0..n_groups {
        offsets[group + 1] += offsets[group];
    }
    let mut next = offsets.clone();
    let mut members = vec![0; n_members];
    for (member, group) in group_of.enumerate() {
        members[next[group as usize] as usize] = member as u32;
        next[group as usize] += 1;
    }
    (offsets, members)
}

fn common_prefix(a: &[u32], b: &[u32]) -> u32 {
    const BLOCK: usize = 16;
    let (whole_a, _) = a.as_chunks::<BLOCK>();
    let (whole_b, _) = b.as_chunks::<BLOCK>();
    let n_blocks = whole_a.iter().zip(whole_b).take_while(|(x, y)| x == y).count();
    let start = n_blocks * BLOCK;
    let rest = a[start..].iter().zip(&b[start..]).take_while(|(x, y)| x == y).count();
    (start + rest) as u32
}

/// The least of any range of numbers in O(1), by ranges of lengths 1, 2, 4, …; O(n log n) space.
#[derive(Debug)]
struct RangeMin {
    levels: Vec<Vec<u32>>,
}

impl RangeMin {
    fn new(numbers: Vec<u32>) -> Self {
        let n = numbers.len();
        let mut levels = vec![numbers];
        let mut span = 1;
        while 2 * span <= n {
            let below = &levels[levels.len() - 1];
            let level = (0..=n - 2 * span).map(|i| below[i].min(below[i + span])).collect();
            levels.push(level);
            span *= 2;
        }
        RangeMin { levels }
    }

    /// The least number in `start..end`, which is not empty.
    #[inline]
    fn least(&self, start: usize, end: usize) -> u32 {
        let level = (end - start).ilog2();
        let numbers = &self.levels[level as usize];
        numbers[start].min(numbers[end - (1 << level)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_are_members_of_one() {
        // "b", "", "a b", "b", "a", "": distinct and sorted "", "a", "a b", "b" with a = 1, b = 2.
        let distinct = Distinct::new(&[2, 1, 2, 2, 1], &[0, 1, 1, 3, 4, 5, 5]);
        let items: Vec<&[u32]> = (0..4).map(|rank| distinct.item(rank)).collect();
        assert_eq!(distinct.len(), 4);
        assert_eq!(items, [&[][..], &[1], &[1, 2], &[2]]);
        let members: Vec<&[u32]> = (0..4).map(|rank| distinct.members(rank)).collect();
        assert_eq!(members, [&[1, 5][..], &[4], &[2], &[0, 3]]);
        assert_eq!((distinct.common_prefix(1, 2), distinct.common_prefix(1, 3)), (1, 0));
    }

    #[test]
    fn least_of_any_range() {
        let numbers = [5, 3, 9, 9, 1, 7, 2, 8, 8, 4, 6];
        let table = RangeMin::new(numbers.to_vec());
        for start in 0..numbers.len() {
            for end in start + 1..=numbers.len() {
                let least = numbers[start..end].iter().copied().min();
                assert_eq!(Some(table.least(start, end)), least);
            }
        }
    }

    #[test]
    fn beginnings_longer_than_a_block() {
        let a: Vec<u32> = (0..50).collect();
        for n in 0..50 {
            let mut b = a.clone();
            b[n] = 99;
            assert_eq!(common_prefix(&a, &b), n as u32);
            assert_eq!(common_prefix(&a, &a[..n]), n as u32);
        }
    }
}
