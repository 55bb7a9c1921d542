//! Lines that two texts share, by a longest common subsequence.
//!
//! Common lines at both ends are paired and lines that the other side lacks are set aside; both leave the length of the
//! longest common subsequence as it is. The rest goes through the bit-vector recurrence of Crochemore et al. (2001)
//! and Hyyrö (2004) with all rows kept for the way back: n·m/64 word operations and n·m/8 bytes, exact. Beyond
//! [`MAX_CELLS`] the texts are cut at lines that both have exactly once (a longest increasing run of them, as in
//! patience diff), and what lies between two cuts is exact again or, when still too large, all changed; the caller is
//! told. Of several longest subsequences it is always the same one.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

/// Greatest n·m that is compared exactly: 32 MiB of rows.
const MAX_CELLS: usize = 1 << 28;

/// Which lines of either side the other one has in the same order.
#[derive(Debug)]
pub(super) struct Shared {
    /// By line of the old side: true when it is kept.
    pub(super) old: Vec<bool>,
    /// By line of the new side: true when it was there before.
    pub(super) new: Vec<bool>,
    /// False when the texts were too large for an exact answer.
    pub(super) is_exact: bool,
}

/// Compares two texts line by line.
pub(super) fn shared_lines(old: &[&[u8]], new: &[&[u8]]) -> Shared {
    shared_within(old, new, MAX_CELLS)
}

fn shared_within(old: &[&[u8]], new: &[&[u8]], max_cells: usize) -> Shared {
    let mut numbers: FxHashMap<&[u8], usize> = FxHashMap::default();
    let mut ids = Vec::with_capacity(old.len() + new.len());
    for &line in old.iter().chain(new) {
        let next = numbers.len();
        ids.push(*numbers.entry(line).or_insert(next));
    }
    let (old, new) = ids.split_at(old.len());
    let mut shared =
        Shared { old: vec![false; old.len()], new: vec![false; new.len()], is_exact: true };
    let mut compare = Compare { old, new, n_ids: numbers.len(), max_cells, shared: &mut shared };
    compare.ranges(0..old.len(), 0..new.len(), true);
    shared
}

struct Compare<'a> {
    old: &'a [usize],
    new: &'a [usize],
    n_ids: usize,
    max_cells: usize,
    shared: &'a mut Shared,
}

impl Compare<'_> {
    /// Compares a range of the old lines with one of the new lines.
    fn ranges(&mut self, mut old: Range<usize>, mut new: Range<usize>, may_cut: bool) {
        while !old.is_empty() && !new.is_empty() && self.old[old.start] == self.new[new.start] {
            self.pair(old.start, new.start);
            (old.start, new.start) = (old.start + 1, new.start + 1);
        }
        while !old.is_empty() && !new.is_empty() && self.old[old.end - 1] == self.new[new.end - 1] {
            (old.end, new.end) = (old.end - 1, new.end - 1);
            self.pair(old.end, new.end);
        }
        if old.is_empty() || new.is_empty() {
            return;
        }
        let rows = in_both(self.old, old.clone(), &self.new[new.clone()]);
        let columns = in_both(self.new, new.clone(), &self.old[old.clone()]);
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        if rows.len().checked_mul(columns.len()).is_some_and(|cells| cells <= self.max_cells) {
            self.exact(&rows, &columns);
        } else if may_cut {
            self.shared.is_exact = false;
            self.cut(old, new);
        }
    }

    fn pair(&mut self, old: usize, new: usize) {
        self.shared.old[old] = true;
        self.shared.new[new] = true;
    }

    /// Pairs a longest common subsequence of some old lines (rows) and some new lines (columns).
    fn exact(&mut self, rows: &[usize], columns: &[usize]) {
        let mut places: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (column, &line) in columns.iter().enumerate() {
            places.entry(self.new[line]).or_default().push(column);
        }
        let words = columns.len().div_ceil(64);
        // Bit j of row i is 0 iff the subsequence of the first i+1 rows grows from column j to j+1.
        let mut table: Vec<u64> = Vec::with_capacity(rows.len() * words);
        let mut state = vec![u64::MAX; words];
        let mut matches = vec![0u64; words];
        for &row in rows {
            let columns = places.get(&self.old[row]).map(Vec::as_slice).unwrap_or_default();
            for &column in columns {
                matches[column / 64] |= 1 << (column % 64);
            }
            let mut carry = false;
            for (state, matches) in state.iter_mut().zip(&matches) {
                let update = *state & matches;
                let (sum, first) = state.overflowing_add(update);
                let (sum, second) = sum.overflowing_add(u64::from(carry));
                carry = first || second;
                *state = sum | (*state - update);
            }
            table.extend_from_slice(&state);
            for &column in columns {
                matches[column / 64] = 0;
            }
        }
        let grows =
            |row: usize, column: usize| table[row * words + column / 64] >> (column % 64) & 1 == 0;
        let (mut row, mut column) = (rows.len(), columns.len());
        while row > 0 && column > 0 {
            if !grows(row - 1, column - 1) {
                column -= 1;
            } else if row > 1 && grows(row - 2, column - 1) {
                row -= 1;
            } else {
                (row, column) = (row - 1, column - 1);
                self.pair(rows[row], columns[column]);
            }
        }
    }

    /// Cuts at lines that stand once on either side, and compares what lies between.
    fn cut(&mut self, old: Range<usize>, new: Range<usize>) {
        // By line: how often it stands on either side, and where.
        let mut seen = vec![(0u8, 0u8, 0usize); self.n_ids];
        for i in old.clone() {
            let (count, ..) = &mut seen[self.old[i]];
            *count = count.saturating_add(1);
        }
        for j in new.clone() {
            let (_, count, place) = &mut seen[self.new[j]];
            (*count, *place) = (count.saturating_add(1), j);
        }
        let unique = |&i: &usize| matches!(seen[self.old[i]], (1, 1, _));
        let candidates: Vec<(usize, usize)> =
            old.clone().filter(unique).map(|i| (i, seen[self.old[i]].2)).collect();
        let (mut from_old, mut from_new) = (old.start, new.start);
        for (i, j) in longest_increasing(&candidates) {
            self.ranges(from_old..i, from_new..j, false);
            self.pair(i, j);
            (from_old, from_new) = (i + 1, j + 1);
        }
        self.ranges(from_old..old.end, from_new..new.end, false);
    }
}

/// The lines of a range that stand among the others too.
fn in_both(lines: &[usize], range: Range<usize>, others: &[usize]) -> Vec<usize> {
    let others: FxHashSet<usize> = others.iter().copied().collect();
    range.filter(|&i| others.contains(&lines[i])).collect()
}

/// A longest subsequence of pairs whose second numbers increase; the first ones do already.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before = vec![usize::MAX; pairs.len()];
    for (i, &(_, second)) in pairs.iter().enumerate() {
        let place = tails.partition_point(|&tail| pairs[tail].1 < second);
        if place > 0 {
            before[i] = tails[place - 1];
        }
        match tails.get_mut(place) {
            Some(tail) => *tail = i,
            None => tails.push(i),
        }
    }
    let mut chain = Vec::with_capacity(tails.len());
    let mut at = tails.last().copied();
    while let Some(i) = at {
        chain.push(pairs[i]);
        at = Some(before[i]).filter(|&i| i != usize::MAX);
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length of a longest common subsequence by the quadratic recurrence.
    fn lcs(a: &[&[u8]], b: &[&[u8]]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..a.len() {
            for j in 0..b.len() {
                table[i + 1][j + 1] = if a[i] == b[j] {
                    table[i][j] + 1
                } else {
                    table[i][j + 1].max(table[i + 1][j])
                };
            }
        }
        table[a.len()][b.len()]
    }

    fn kept<'a>(lines: &[&'a [u8]], flags: &[bool]) -> Vec<&'a [u8]> {
        lines.iter().zip(flags).filter(|(_, kept)| **kept).map(|(line, _)| *line).collect()
    }

    /// A short random text over few lines, from a seed.
    fn text(seed: &mut u64, length: usize, alphabet: u64) -> Vec<Vec<u8>> {
        (0..length)
            .map(|_| {
                *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((*seed >> 33) % alphabet).to_string().into_bytes()
            })
            .collect()
    }

    #[test]
    fn as_long_as_the_recurrence_says() {
        let mut seed = 1;
        for (n, m, alphabet) in
            [(5, 7, 3), (70, 64, 4), (130, 65, 9), (200, 300, 40), (64, 128, 2), (1, 100, 1)]
        {
            for _ in 0..20 {
                let (a, b) = (text(&mut seed, n, alphabet), text(&mut seed, m, alphabet));
                let a: Vec<&[u8]> = a.iter().map(Vec::as_slice).collect();
                let b: Vec<&[u8]> = b.iter().map(Vec::as_slice).collect();
                let shared = shared_lines(&a, &b);
                assert!(shared.is_exact);
                assert_eq!(kept(&a, &shared.old), kept(&b, &shared.new));
                assert_eq!(kept(&a, &shared.old).len(), lcs(&a, &b));
            }
        }
    }

    #[test]
    fn too_large_is_still_a_common_subsequence() {
        let mut seed = 7;
        for max_cells in [0, 10, 100, 1000] {
            let (a, b) = (text(&mut seed, 90, 60), text(&mut seed, 80, 60));
            let a: Vec<&[u8]> = a.iter().map(Vec::as_slice).collect();
            let b: Vec<&[u8]> = b.iter().map(Vec::as_slice).collect();
            let shared = shared_within(&a, &b, max_cells);
            assert!(!shared.is_exact);
            assert_eq!(kept(&a, &shared.old), kept(&b, &shared.new));
            assert!(kept(&a, &shared.old).len() <= lcs(&a, &b));
        }
    }
}
