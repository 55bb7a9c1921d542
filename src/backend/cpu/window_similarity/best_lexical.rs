//! The best places when the LCS decides alone: matches of 32 bits, and few offers.
//!
//! The rows of a start are prefixes of one another. A longer one stands in a part of the turns of a shorter one, and in
//! none of them earlier. So among the rows of one start that stand in the same turns (a *class*, a run of rows) only
//! the most similar one, of those the one with the smallest difference, and of those the shortest, can be the best in
//! any turn: for a row and a class one offer is enough.

use std::ops::Range;
use std::sync::MutexGuard;

use super::best::{BestTable, GroupCells, Key, Layout, Places};
use super::judge::NearRows;
use super::lanes::{Kernel, N_LANES, N_PARTS, PART_ROWS, Part, READ_ROWS};
use super::{Prepared, Sink, WindowSet};
use crate::params::limits::Limits;

/// The most tokens of a row for which a quotient in f32 is as good as the fraction: 2^23 / 2896² is 1.0002.
///
/// Two similarities `2L/s` that differ do so by at least `2/(s s')`. With s, s' up to `2 n` that is at least 2^23 / n²
/// steps of f32 between 1/2 and 1, where the step is 2^-24, and more of the smaller steps below. Numbers that are g
/// steps apart are more than g - 1 apart when both are rounded to the nearest. So with `2^k <= 2^23 / n²`, the bits of
/// quotients that differ do so by at least 2^k, and even without their last k bits they differ, in the same order. Equal
/// fractions have equal quotients.
const MAX_TOKENS: u32 = 2896;

/// Last bits of a quotient that are dropped, at most. Then `L` is still the nearest integer to quotient times s/2: for
/// `2^k <= 2^23 / n²` the error of at most 2^k + 1/2 steps, times `s/2 <= n`, is below `1/(2n) + n 2^-25`, and
/// n is 181 or more; for smaller n it is at most 181 (2^8 + 1/2) 2^-24. Both are below 1/2.
const MAX_DROPPED: u32 = 8;

/// How a match of 32 bits is laid out: the similarity as an f32, less the smallest; then the difference of token counts,
/// less the largest. A key of 64 bits is that, then the place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Narrow {
    last_rank: u32,
    /// The least similarity of a match.
    pub(super) least: f32,
    /// Last bits of a similarity that are dropped.
    pub(super) dropped: u32,
    /// Taken off what is left, so that the least similarity becomes 1.
    pub(super) floor: u32,
    pub(super) difference_bits: u32,
}

const RANK_BITS: u32 = u32::BITS;

impl Narrow {
    /// `None` when a match does not fit.
    pub(super) fn new(set: &WindowSet<'_>, prepared: &Prepared) -> Option<Narrow> {
        let sizes = &prepared.row_tokens[..set.row_lines.len()];
        if sizes.contains(&0) {
            return None;
        }
        let longest = sizes.iter().copied().max().unwrap_or(0);
        Narrow::with(&prepared.limits, longest, Layout::new(set).last_rank)
    }

    fn with(limits: &Limits, longest: u32, last_rank: u32) -> Option<Narrow> {
        if longest > MAX_TOKENS {
            return None;
        }
        // A pair matches iff its fraction is at least the least one that matches, and so are the quotients.
        let least_of = |sum: u32| quotient(limits.least(sum), sum);
        let least = (1..=2 * longest).map(least_of).fold(1f32, f32::min);
        let dropped = ((1 << 23) / (longest * longest).max(1)).ilog2().min(MAX_DROPPED);
        let floor = (least.to_bits() >> dropped).checked_sub(1)?;
        let difference = |n: u32| n - limits.of(n).shortest;
        let most_difference = (0..=longest).map(difference).max().unwrap_or(0);
        let bits = |largest: u32| u32::BITS - largest.leading_zeros();
        let narrow =
            Narrow { last_rank, least, dropped, floor, difference_bits: bits(most_difference) };
        let similarity_bits = bits((1f32.to_bits() >> dropped) - floor);
        (similarity_bits + narrow.difference_bits <= u32::BITS).then_some(narrow)
    }

    /// A match, or 0: similarity and difference of rows of `m` and `n` tokens. Larger is better.
    #[inline(always)]
    pub(super) fn of_match(self, lcs: u32, m: u32, n: u32) -> u32 {
        let quotient = quotient(lcs, m + n);
        let similarity = (quotient.to_bits() >> self.dropped).wrapping_sub(self.floor);
        // Only rows that match are sure to be no further apart than the most.
        let difference = self.most_difference().wrapping_sub(m.abs_diff(n));
        if quotient >= self.least { similarity << self.difference_bits | difference } else { 0 }
    }

    /// The matches of row `b` with `n_rows` rows from `first_a` on, 0 for none, and which there are as bits. `lcs` is 0
    /// past the last row.
    #[inline(always)]
    pub(super) fn read_matches<K: Kernel>(
        self,
        kernel: K,
        prepared: &Prepared,
        b: usize,
        first_a: usize,
        n_rows: usize,
        lcs: &[u32; READ_ROWS],
    ) -> ([Part; N_PARTS], u32) {
        let n = prepared.row_tokens[b];
        let (lcs, _) = lcs.as_chunks();
        let (sizes, _) = prepared.row_tokens[first_a..].as_chunks();
        let mut found = [[0; PART_ROWS]; N_PARTS];
        let mut found_at = 0;
        for i in 0..n_rows.div_ceil(PART_ROWS) {
            let bits;
            (found[i], bits) = kernel.matches(self, &lcs[i], &sizes[i], n);
            found_at |= bits << (i * PART_ROWS);
        }
        (found, found_at)
    }

    /// Ones for all bits of a difference.
    pub(super) fn most_difference(self) -> u32 {
        (1 << self.difference_bits) - 1
    }

    fn is_full(self, of_match: u32) -> bool {
        of_match >> self.difference_bits == (1f32.to_bits() >> self.dropped) - self.floor
    }

    fn key(of_match: u32) -> u64 {
        u64::from(of_match) << RANK_BITS
    }
}

/// `2L/s`. Signed, as the conversions of SIMD are; `s` is positive and at most 2 x [`MAX_TOKENS`].
#[inline(always)]
fn quotient(lcs: u32, sum: u32) -> f32 {
    (2 * lcs) as i32 as f32 / sum as i32 as f32
}

impl Key for u64 {
    type Layout = Narrow;

    const NONE: u64 = 0;

    fn of_equal(layout: Narrow, n_tokens: u32) -> u64 {
        Narrow::key(layout.of_match(n_tokens, n_tokens, n_tokens))
    }

    #[inline]
    fn of_place(behind: u32) -> u64 {
        u64::from(behind)
    }

    fn rank(self, layout: Narrow) -> u32 {
        layout.last_rank - self as u32
    }

    fn similarity(self, layout: Narrow, sum: u32) -> f64 {
        let of_match = (self >> RANK_BITS) as u32;
        let bits = (of_match >> layout.difference_bits) + layout.floor;
        let quotient = f64::from(f32::from_bits(bits << layout.dropped));
        let lcs = (quotient * f64::from(sum) / 2.0).round();
        2.0 * lcs / f64::from(sum)
    }
}

/// Takes lexical matches into a table.
pub(super) struct LexicalSink<'a> {
    set: &'a WindowSet<'a>,
    prepared: &'a Prepared,
    places: &'a Places,
    layout: Narrow,
    table: &'a BestTable<u64>,
    of_group: GroupCells<u64>,
    /// For each row of the group, the best match with the current class of the text, and its row of the text.
    best: Vec<u32>,
    best_b: Vec<u32>,
    group: Range<usize>,
    first_row: usize,
    /// For each start of the group, where there may be matches in `best`.
    touched: [Range<usize>; N_LANES],
    text: usize,
    /// End of the current class of the text.
    class_end: usize,
    of_text: Option<MutexGuard<'a, Vec<u64>>>,
}

/// A range that is ready to be widened.
#[allow(clippy::reversed_empty_ranges)]
const NOWHERE: Range<usize> = usize::MAX..0;

impl<'a> LexicalSink<'a> {
    pub(super) fn new(
        set: &'a WindowSet<'a>,
        prepared: &'a Prepared,
        places: &'a Places,
        layout: Narrow,
        table: &'a BestTable<u64>,
    ) -> Self {
        LexicalSink {
            set,
            prepared,
            places,
            layout,
            table,
            of_group: GroupCells::new(),
            best: vec![],
            best_b: vec![],
            group: 0..0,
            first_row: 0,
            touched: [NOWHERE; N_LANES],
            text: 0,
            class_end: 0,
            of_text: None,
        }
    }

    /// Offers the best matches with the class of the text to the rows of the group.
    #[inline(always)]
    fn end_class(&mut self) {
        for touched in &mut self.touched[..self.group.len()] {
            for a in std::mem::replace(touched, NOWHERE) {
                let at = a - self.first_row;
                let of_match = std::mem::take(&mut self.best[at]);
                if of_match != 0 {
                    let (key, full) = (Narrow::key(of_match), self.layout.is_full(of_match));
                    let cells = self.of_group.of_row(a);
                    self.places.offer(self.set, cells, a, self.best_b[at] as usize, key, full);
                }
            }
        }
    }
}

impl LexicalSink<'_> {
    /// Offers the best match of a class of a pattern to row `b` of the text.
    #[inline(always)]
    fn offer_to_text(&mut self, b: usize, a: usize, of_match: u32) {
        if self.of_text.is_none() {
            self.of_text = self.table.cells(self.text);
        }
        if let Some(of_text) = &mut self.of_text {
            let n_turns = self.set.n_turns;
            let first_cell = (b - self.set.start_rows[self.text] as usize) * n_turns;
            let cells = &mut of_text[first_cell..][..n_turns];
            let (key, full) = (Narrow::key(of_match), self.layout.is_full(of_match));
            self.places.offer(self.set, cells, b, a, key, full);
        }
    }
}

impl Sink for LexicalSink<'_> {
    fn begin(&mut self, group: Range<usize>) {
        let rows = self.set.rows_of_starts(group.clone());
        self.best.clear();
        self.best.resize(rows.len() + READ_ROWS, 0);
        self.best_b.resize(rows.len() + READ_ROWS, 0);
        self.first_row = rows.start;
        self.of_group.begin(self.set, group.clone());
        self.group = group;
    }

    #[inline(always)]
    fn begin_text<K: Kernel>(&mut self, _: K, text: usize) -> Option<NearRows> {
        self.text = text;
        self.class_end = 0;
        None
    }

    #[inline(always)]
    fn take<K: Kernel>(
        &mut self,
        kernel: K,
        b: usize,
        first_a: usize,
        n_rows: usize,
        lcs: &[u32; READ_ROWS],
    ) {
        if b >= self.class_end {
            self.end_class();
            self.class_end = self.prepared.class_ends[b] as usize;
        }
        let (found, found_at) =
            self.layout.read_matches(kernel, self.prepared, b, first_a, n_rows, lcs);
        if found_at == 0 {
            return;
        }

        // Rows of the text come in ascending order, so among equals the lower one stays.
        let at = first_a - self.first_row;
        let (best, _) = self.best[at..].as_chunks_mut();
        let (best_b, _) = self.best_b[at..].as_chunks_mut();
        let n_parts = n_rows.div_ceil(PART_ROWS);
        for ((best, best_b), found) in best.iter_mut().zip(best_b).zip(&found[..n_parts]) {
            kernel.keep_best(found, b as u32, best, best_b);
        }
        let end_a = first_a + n_rows;
        let lane = self.prepared.row_start[first_a] as usize - self.group.start;
        let touched = &mut self.touched[lane];
        *touched = touched.start.min(first_a)..touched.end.max(end_a);

        let found = found.as_flattened();
        let mut rest = found_at;
        while rest != 0 {
            let first = first_a + rest.trailing_zeros() as usize;
            let end = end_a.min(self.prepared.class_ends[first] as usize);
            let (mut best, mut best_at) = (0, 0);
            let of_class = u32::MAX >> (u32::BITS - (end - first_a) as u32);
            let mut of_class_rest = rest & of_class;
            while of_class_rest != 0 {
                let at = of_class_rest.trailing_zeros() as usize;
                of_class_rest &= of_class_rest - 1;
                best_at = if found[at] > best { at } else { best_at };
                best = best.max(found[at]);
            }
            self.offer_to_text(b, first_a + best_at, best);
            rest &= !of_class;
        }
    }

    #[inline(always)]
    fn end_text(&mut self) {
        self.end_class();
        self.of_text = None;
    }

    fn end(&mut self) {
        self.of_group.end(self.set, self.table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow(eta: f64, longest: u32) -> Option<Narrow> {
        Narrow::with(&Limits::new(eta, longest as usize), longest, 7)
    }

    /// Of pairs that match, the order of 32 bits is that of the fractions, then of the differences; and the LCS comes
    /// back.
    #[test]
    fn narrow_matches_are_in_the_order_of_the_fractions() {
        let mut state = 1u64;
        let mut below = move |n: u32| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(n)) as u32
        };
        for (eta, longest) in
            [(0.8, 1), (0.8, 3), (0.5, 60), (0.9, 181), (0.5, 400), (0.8, 1000), (0.8, 2896)]
        {
            let layout = narrow(eta, longest).unwrap();
            let mut pair = || {
                // Close to the longest, where fractions are close to one another.
                let m = longest - below(longest.div_ceil(8));
                let n = longest - below(longest.div_ceil(8));
                (m.min(n) - below(m.min(n).div_ceil(4)), m, n)
            };
            for _ in 0..20_000 {
                let (x, y) = (pair(), pair());
                let key = |(lcs, m, n): (u32, u32, u32)| layout.of_match(lcs, m, n);
                for (lcs, m, n) in [x, y] {
                    let similarity = 2.0 * f64::from(lcs) / f64::from(m + n);
                    assert_eq!(key((lcs, m, n)) != 0, similarity >= eta, "{lcs} of {m} and {n}");
                    if similarity >= eta {
                        let wide = Narrow::key(key((lcs, m, n)));
                        assert_eq!(wide.similarity(layout, m + n).to_bits(), similarity.to_bits());
                        assert_eq!(layout.is_full(key((lcs, m, n))), lcs == m && lcs == n);
                    }
                }
                if key(x) != 0 && key(y) != 0 {
                    // x.lcs / (x.m + x.n) against y.lcs / (y.m + y.n)
                    let fractions = (x.0 * (y.1 + y.2)).cmp(&(y.0 * (x.1 + x.2)));
                    let expected = fractions.then(y.1.abs_diff(y.2).cmp(&x.1.abs_diff(x.2)));
                    assert_eq!(key(x).cmp(&key(y)), expected, "{x:?} and {y:?} up to {longest}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_no_layout() {
        assert!(narrow(0.8, 2896).is_some());
        assert!(narrow(0.8, 2897).is_none());
        assert!(narrow(0.001, 2896).is_none());
    }
}
