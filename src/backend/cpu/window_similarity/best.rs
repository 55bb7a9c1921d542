//! For every row and turn, the best place so far, as one integer: the larger, the better. Its order is total, so the
//! end does not depend on the way there.

use std::fmt::Debug;
use std::ops::{BitOr, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::judge::{JudgeState, NearRows};
use super::lanes::{Kernel, READ_ROWS};
use super::{BestPlace, Prepared, Sink, WindowSet};
use crate::error::{Error, Result};

/// A place offered to a row: from the highest bits on the similarity, then how small the difference of token counts
/// is, then how far from the end the rank of the place.
pub(super) trait Key: Debug + Copy + Ord + Send + Sync + BitOr<Output = Self> {
    type Layout: Copy + Send + Sync;
    /// No place.
    const NONE: Self;

    /// A row of `n_tokens` with itself, still without a place.
    fn of_equal(layout: Self::Layout, n_tokens: u32) -> Self;
    /// The part of a place; `behind` counts from the last rank.
    fn of_place(behind: u32) -> Self;
    fn rank(self, layout: Self::Layout) -> u32;
    /// The similarity again; `sum` is the sum of the token counts.
    fn similarity(self, layout: Self::Layout, sum: u32) -> f64;
}

/// Of a wide key: 64 bits for the similarity, 32 for the difference, 32 for the place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) last_rank: u32,
}

impl Layout {
    pub(super) fn new(set: &WindowSet<'_>) -> Layout {
        Layout { last_rank: (set.place_ranks.len() as u32).saturating_sub(1) }
    }
}

impl Key for u128 {
    type Layout = Layout;

    const NONE: u128 = 0;

    fn of_equal(_: Layout, _: u32) -> u128 {
        wide(1.0, 0)
    }

    #[inline]
    fn of_place(behind: u32) -> u128 {
        u128::from(behind)
    }

    fn rank(self, layout: Layout) -> u32 {
        layout.last_rank - self as u32
    }

    fn similarity(self, _: Layout, _: u32) -> f64 {
        f64::from_bits((self >> 64) as u64 - 1)
    }
}

/// The order of floats from 0 is that of their bits. One more tells 0 from no place.
#[inline]
fn wide(similarity: f64, difference: u32) -> u128 {
    u128::from(similarity.max(0.0).to_bits() + 1) << 64 | u128::from(!difference) << 32
}

/// The turns and places of all rows, as offers to other rows take them.
#[derive(Debug)]
pub(super) struct Places {
    /// W x `turn_words`: the turns of each row, as bits.
    turns: Vec<u64>,
    turn_words: usize,
    /// For each place: the turn, and how far its rank is from the last one.
    places: Vec<(u32, u32)>,
    /// Tokens of the row of each rank.
    rank_tokens: Vec<u32>,
}

impl Places {
    pub(super) fn new(set: &WindowSet<'_>, prepared: &Prepared) -> Self {
        let turn_words = set.n_turns.div_ceil(64);
        let n_rows = set.row_lines.len();
        let last_rank = Layout::new(set).last_rank;
        let mut places = Places {
            turns: vec![0; n_rows * turn_words],
            turn_words,
            places: Vec::with_capacity(set.place_ranks.len()),
            rank_tokens: vec![0; set.place_ranks.len()],
        };
        for row in 0..n_rows {
            for (turn, rank) in set.places_of(row) {
                places.turns[row * turn_words + turn / 64] |= 1 << (turn % 64);
                places.places.push((turn as u32, last_rank - rank));
                places.rank_tokens[rank as usize] = prepared.row_tokens[row];
            }
        }
        places
    }

    #[inline(always)]
    pub(super) fn turns_of(&self, row: usize) -> &[u64] {
        &self.turns[row * self.turn_words..][..self.turn_words]
    }

    /// Offers the places of row `other` to the cells of `row`. In the turns that `row` stands in itself it has similarity
    /// 1 already, and only a match of `full` similarity could come before it.
    #[inline(always)]
    pub(super) fn offer<K: Key>(
        &self,
        set: &WindowSet<'_>,
        cells: &mut [K],
        row: usize,
        other: usize,
        key: K,
        full: bool,
    ) {
        let places =
            &self.places[set.row_places[other] as usize..set.row_places[other + 1] as usize];
        let mut first = 0;
        for (&known, &turns) in self.turns_of(row).iter().zip(self.turns_of(other)) {
            let mut new = if full { turns } else { turns & !known };
            while new != 0 {
                let lowest = new & new.wrapping_neg();
                new ^= lowest;
                let (turn, behind) = places[first + (turns & (lowest - 1)).count_ones() as usize];
                let cell = &mut cells[turn as usize];
                *cell = (*cell).max(key | K::of_place(behind));
            }
            first += turns.count_ones() as usize;
        }
    }
}

/// The rows of a range of starts; one lock a start.
#[derive(Debug)]
pub(super) struct BestTable<K: Key> {
    block: Range<usize>,
    layout: K::Layout,
    /// (rows of the start) x turns.
    starts: Vec<Mutex<Vec<K>>>,
}

impl<K: Key> BestTable<K> {
    /// The starts from `first` on whose cells fit in `memory` bytes.
    pub(super) fn block(set: &WindowSet<'_>, first: usize, memory: u64) -> Result<Range<usize>> {
        let row_bytes = set.n_turns as u64 * size_of::<K>() as u64;
        let mut end = first;
        let mut bytes = 0u64;
        while end < set.starts.len() {
            bytes = bytes.saturating_add((set.rows_of(end).len() as u64).saturating_mul(row_bytes));
            if bytes > memory {
                break;
            }
            end += 1;
        }
        if end == first {
            return Err(Error::Limit {
                op: "window_similarity",
                what: "the table of best windows by turn, for the windows of one line (bytes)",
                needed: bytes,
                limit: memory,
                advice: "raise `memory_limit`, or lower `max_lines`",
            });
        }
        Ok(first..end)
    }

    /// A table in which every row knows itself.
    pub(super) fn new(
        set: &WindowSet<'_>,
        prepared: &Prepared,
        places: &Places,
        block: Range<usize>,
        layout: K::Layout,
    ) -> Self {
        let n_turns = set.n_turns;
        let cells_of = |start: usize| {
            let rows = set.rows_of(start);
            let mut cells = vec![K::NONE; rows.len() * n_turns];
            for (row, cells) in rows.zip(cells.chunks_mut(n_turns.max(1))) {
                let equal = K::of_equal(layout, prepared.row_tokens[row]);
                places.offer(set, cells, row, row, equal, true);
            }
            Mutex::new(cells)
        };
        BestTable { starts: block.clone().map(cells_of).collect(), block, layout }
    }

    /// The cells of a start; `None` when it is outside of the block.
    pub(super) fn cells(&self, start: usize) -> Option<MutexGuard<'_, Vec<K>>> {
        let cells = self.starts.get(start.checked_sub(self.block.start)?)?;
        Some(cells.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands over the best places of all rows, rows ascending, and frees each start as it goes.
    pub(super) fn drain(
        self,
        set: &WindowSet<'_>,
        prepared: &Prepared,
        places: &Places,
        sink: &mut impl FnMut(usize, &[BestPlace]),
    ) {
        let mut best = vec![];
        for (start, cells) in self.block.zip(self.starts) {
            let cells = cells.into_inner().unwrap_or_else(PoisonError::into_inner);
            for (row, cells) in set.rows_of(start).zip(cells.chunks(set.n_turns.max(1))) {
                best.clear();
                let known = cells.iter().enumerate().filter(|(_, key)| **key != K::NONE);
                best.extend(known.map(|(turn, key)| {
                    let rank = key.rank(self.layout);
                    let sum = prepared.row_tokens[row] + places.rank_tokens[rank as usize];
                    let similarity = key.similarity(self.layout, sum);
                    BestPlace { turn: turn as u32, rank, similarity }
                }));
                sink(row, &best);
            }
        }
    }
}

/// The cells of a group of patterns, apart from the table, so that a thread works on them without locks.
#[derive(Debug)]
pub(super) struct GroupCells<K> {
    group: Range<usize>,
    first_row: usize,
    n_turns: usize,
    /// (rows of the group) x turns.
    cells: Vec<K>,
}

impl<K: Key> GroupCells<K> {
    pub(super) fn new() -> Self {
        GroupCells { group: 0..0, first_row: 0, n_turns: 0, cells: vec![] }
    }

    pub(super) fn begin(&mut self, set: &WindowSet<'_>, group: Range<usize>) {
        let rows = set.rows_of_starts(group.clone());
        self.cells.clear();
        self.cells.resize(rows.len() * set.n_turns, K::NONE);
        *self = GroupCells {
            group,
            first_row: rows.start,
            n_turns: set.n_turns,
            cells: std::mem::take(&mut self.cells),
        };
    }

    #[inline(always)]
    pub(super) fn of_row(&mut self, row: usize) -> &mut [K] {
        &mut self.cells[(row - self.first_row) * self.n_turns..][..self.n_turns]
    }

    /// Brings the cells into the table.
    pub(super) fn end(&mut self, set: &WindowSet<'_>, table: &BestTable<K>) {
        let mut cells = self.cells.as_slice();
        for start in self.group.clone() {
            let (of_start, rest) = cells.split_at(set.rows_of(start).len() * self.n_turns);
            cells = rest;
            let Some(mut known) = table.cells(start) else { continue };
            for (known, &found) in known.iter_mut().zip(of_start) {
                *known = (*known).max(found);
            }
        }
    }
}

/// Takes matches of any judge into a table.
pub(super) struct BestSink<'a, T> {
    set: &'a WindowSet<'a>,
    prepared: &'a Prepared,
    places: &'a Places,
    judge: T,
    table: &'a BestTable<u128>,
    of_group: GroupCells<u128>,
    text: usize,
    of_text: Option<MutexGuard<'a, Vec<u128>>>,
}

impl<'a, T: JudgeState> BestSink<'a, T> {
    pub(super) fn new(
        set: &'a WindowSet<'a>,
        prepared: &'a Prepared,
        places: &'a Places,
        judge: T,
        table: &'a BestTable<u128>,
    ) -> Self {
        let of_group = GroupCells::new();
        BestSink { set, prepared, places, judge, table, of_group, text: 0, of_text: None }
    }
}

impl<T: JudgeState> Sink for BestSink<'_, T> {
    fn begin(&mut self, group: Range<usize>) {
        self.judge.begin(self.set.rows_of_starts(group.clone()));
        self.of_group.begin(self.set, group);
    }

    #[inline(always)]
    fn begin_text<K: Kernel>(&mut self, kernel: K, text: usize) -> Option<NearRows> {
        self.text = text;
        self.judge.near_rows(kernel, text)
    }

    #[inline(always)]
    fn take<K: Kernel>(
        &mut self,
        _: K,
        b: usize,
        first_a: usize,
        n_rows: usize,
        lcs: &[u32; READ_ROWS],
    ) {
        let n = self.prepared.row_tokens[b];
        let least = self.prepared.limits.least_from(n);
        for (a, &lcs) in (first_a..).zip(&lcs[..n_rows]) {
            let m = self.prepared.row_tokens[a];
            if lcs < least[m as usize] {
                continue;
            }
            let Some(similarity) = self.judge.similarity(a, b, lcs, m + n) else { continue };
            let (key, full) = (wide(similarity, m.abs_diff(n)), similarity >= 1.0);
            self.places.offer(self.set, self.of_group.of_row(a), a, b, key, full);
            if self.of_text.is_none() {
                self.of_text = self.table.cells(self.text);
            }
            if let Some(of_text) = &mut self.of_text {
                let n_turns = self.set.n_turns;
                let first_cell = (b - self.set.start_rows[self.text] as usize) * n_turns;
                let cells = &mut of_text[first_cell..][..n_turns];
                self.places.offer(self.set, cells, b, a, key, full);
            }
        }
    }

    fn end_text(&mut self) {
        self.of_text = None;
    }

    fn end(&mut self) {
        self.of_group.end(self.set, self.table);
    }
}
