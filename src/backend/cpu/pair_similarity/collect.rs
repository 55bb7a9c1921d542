//! Matches of distinct items to matches of all items, sorted.

use rayon::prelude::*;

use super::distinct::Distinct;

/// A match of two items and their LCS.
pub(super) type Pair = (u32, u32, u32);

/// First items of a bucket: few enough buckets that writing to all of them in turn stays in the caches.
const BUCKET: usize = 64;

/// All pairs a < b of `n_items` items, sorted: those of equal items, and the members of every two distinct items that
/// match. Into buckets by the first item, then each bucket by a counting sort, or by comparisons where it has few pairs
/// for the number of items. O(pairs + n).
pub(super) fn sorted_pairs(
    distinct: &Distinct<'_>,
    matches: Vec<Vec<Pair>>,
    n_items: usize,
) -> Vec<Pair> {
    let mut sizes = vec![0; n_items.div_ceil(BUCKET)];
    for_each_pair(distinct, &matches, n_items, |(a, _, _)| sizes[a as usize / BUCKET] += 1);
    let mut next = starts(&sizes);
    let mut pairs = vec![(0, 0, 0); sizes.iter().sum()];
    for_each_pair(distinct, &matches, n_items, |pair| {
        let next = &mut next[pair.0 as usize / BUCKET];
        pairs[*next] = pair;
        *next += 1;
    });
    drop(matches);
    let mut buckets = vec![];
    let mut rest = &mut pairs[..];
    for (bucket, &size) in sizes.iter().enumerate() {
        let (this, others) = rest.split_at_mut(size);
        buckets.push((bucket * BUCKET, this));
        rest = others;
    }
    buckets.into_par_iter().for_each_init(Scratch::default, |scratch, (first, bucket)| {
        if bucket.len() < n_items / 4 {
            bucket.sort_unstable();
        } else {
            scratch.sort(bucket, first, n_items);
        }
    });
    pairs
}

#[inline(always)]
fn for_each_pair(
    distinct: &Distinct<'_>,
    matches: &[Vec<Pair>],
    n_items: usize,
    mut take: impl FnMut(Pair),
) {
    for &(a, b, lcs) in matches.iter().flatten() {
        for &x in distinct.members(a) {
            for &y in distinct.members(b) {
                take((x.min(y), x.max(y), lcs));
            }
        }
    }
    if distinct.len() == n_items {
        return;
    }
    for rank in 0..distinct.len() as u32 {
        let members = distinct.members(rank);
        for (k, &x) in members.iter().enumerate() {
            for &y in &members[k + 1..] {
                take((x, y, distinct.item_len(rank)));
            }
        }
    }
}

/// Where each part begins when parts of these sizes follow each other.
fn starts(sizes: &[usize]) -> Vec<usize> {
    let mut start = 0;
    let next = |&size: &usize| {
        start += size;
        start - size
    };
    sizes.iter().map(next).collect()
}

#[derive(Debug, Default)]
struct Scratch {
    next: Vec<usize>,
    by_second: Vec<Pair>,
}

impl Scratch {
    /// Two stable counting sorts: by the second item, below `n_items`, then by the first, from `first` on.
    fn sort(&mut self, bucket: &mut [Pair], first: usize, n_items: usize) {
        self.by_second.clear();
        self.by_second.resize(bucket.len(), (0, 0, 0));
        let Scratch { next, by_second } = self;
        counting_sort(bucket, by_second, next, n_items, |pair| pair.1 as usize);
        counting_sort(by_second, bucket, next, BUCKET, |pair| pair.0 as usize - first);
    }
}

/// Stable, by a key below `n_keys`.
fn counting_sort(
    from: &[Pair],
    to: &mut [Pair],
    next: &mut Vec<usize>,
    n_keys: usize,
    key: impl Fn(&Pair) -> usize,
) {
    next.clear();
    next.resize(n_keys + 1, 0);
    for pair in from {
        next[key(pair) + 1] += 1;
    }
    for k in 1..n_keys {
        next[k] += next[k - 1];
    }
    for pair in from {
        let next = &mut next[key(pair)];
        to[*next] = *pair;
        *next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 300 items, of which every 50th is equal, so that some buckets are dense and others sparse.
    #[test]
    fn pairs_of_members_in_order() {
        let n_items = 300u32;
        let tokens: Vec<u32> = (0..n_items).map(|i| if i % 50 == 7 { 500 } else { i }).collect();
        let offsets: Vec<u32> = (0..=n_items).collect();
        let distinct = Distinct::new(&tokens, &offsets);
        let n = distinct.len() as u32;
        assert_eq!(n, 295);
        // Item 0 matches all, and so does the item with six members.
        let of = |i: u32| (0..n).find(|&rank| distinct.members(rank).contains(&i)).unwrap();
        let (zero, six) = (of(0), of(7));
        let mut matches = vec![vec![], vec![]];
        for rank in 0..n {
            if rank != zero {
                matches[rank as usize % 2].push((zero, rank, rank % 5));
            }
            if rank != zero && rank != six {
                matches[rank as usize % 2].push((rank, six, rank % 7));
            }
        }
        let mut expected = vec![];
        for a in 0..n_items {
            for b in a + 1..n_items {
                let (x, y) = (of(a), of(b));
                if x == y {
                    expected.push((a, b, 1));
                } else if x == zero {
                    expected.push((a, b, y % 5));
                } else if x == six || y == six {
                    expected.push((a, b, if x == six { y % 7 } else { x % 7 }));
                }
            }
        }
        assert_eq!(sorted_pairs(&distinct, matches, n_items as usize), expected);
    }
}
