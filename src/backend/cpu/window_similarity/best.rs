//! For every row and turn, the best place so far. Its order is total, so the end does not depend on the way there.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::judge::Score;
use super::{BestPlace, Hit, Prepared, WindowSet};
use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy)]
struct Cell<S> {
    score: S,
    /// Difference of token counts.
    difference: u32,
    /// Rank of the place, or `NONE`.
    rank: u32,
}

const NONE: u32 = u32::MAX;

impl<S: Score> Cell<S> {
    fn is_better_than(&self, other: &Self) -> bool {
        let order = self.score.order(other.score);
        // The smaller difference and rank win.
        order.then_with(|| (other.difference, other.rank).cmp(&(self.difference, self.rank)))
            == Ordering::Greater
    }
}

/// The rows of a range of starts; one lock a start.
#[derive(Debug)]
pub(super) struct BestTable<S> {
    block: Range<usize>,
    /// (rows of the start) x turns.
    starts: Vec<Mutex<Vec<Cell<S>>>>,
}

impl<S: Score> BestTable<S> {
    /// The starts from `first` on whose cells fit in `memory` bytes.
    pub(super) fn block(set: &WindowSet<'_>, first: usize, memory: u64) -> Result<Range<usize>> {
        let row_bytes = set.n_turns as u64 * size_of::<Cell<S>>() as u64;
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
    pub(super) fn new(set: &WindowSet<'_>, prepared: &Prepared, block: Range<usize>) -> Self {
        let n_turns = set.n_turns;
        let cells_of = |start: usize| {
            let rows = set.rows_of(start);
            let empty = Cell { score: S::equal(0), difference: 0, rank: NONE };
            let mut cells = vec![empty; rows.len() * n_turns];
            for (row, cells) in rows.zip(cells.chunks_mut(n_turns.max(1))) {
                let score = S::equal(prepared.row_tokens[row]);
                for (turn, rank) in set.places_of(row) {
                    cells[turn] = Cell { score, difference: 0, rank };
                }
            }
            Mutex::new(cells)
        };
        BestTable { starts: block.clone().map(cells_of).collect(), block }
    }

    /// Takes in the matches of one text with one pattern.
    pub(super) fn update(&self, set: &WindowSet<'_>, prepared: &Prepared, hits: &[Hit<S>]) {
        self.improve(set, prepared, hits.iter().map(|hit| (hit.a, hit.b, hit.score)));
        self.improve(set, prepared, hits.iter().map(|hit| (hit.b, hit.a, hit.score)));
    }

    /// Offers, to rows that are all of one start, the places of other rows.
    fn improve(
        &self,
        set: &WindowSet<'_>,
        prepared: &Prepared,
        offers: impl Iterator<Item = (u32, u32, S)>,
    ) {
        let mut offers = offers.peekable();
        let Some(&(row, _, _)) = offers.peek() else { return };
        let start = prepared.row_start[row as usize] as usize;
        if !self.block.contains(&start) {
            return;
        }
        let first_row = set.rows_of(start).start;
        let mut cells =
            self.starts[start - self.block.start].lock().unwrap_or_else(PoisonError::into_inner);
        for (row, other, score) in offers {
            let cells = &mut cells[(row as usize - first_row) * set.n_turns..][..set.n_turns];
            let difference =
                prepared.row_tokens[row as usize].abs_diff(prepared.row_tokens[other as usize]);
            for (turn, rank) in set.places_of(other as usize) {
                let offer = Cell { score, difference, rank };
                if cells[turn].rank == NONE || offer.is_better_than(&cells[turn]) {
                    cells[turn] = offer;
                }
            }
        }
    }

    /// Hands over the best places of all rows, rows ascending, and frees each start as it goes.
    pub(super) fn drain(self, set: &WindowSet<'_>, sink: &mut impl FnMut(usize, &[BestPlace])) {
        let mut best = vec![];
        for (start, cells) in self.block.zip(self.starts) {
            let cells = cells.into_inner().unwrap_or_else(PoisonError::into_inner);
            for (row, cells) in set.rows_of(start).zip(cells.chunks(set.n_turns.max(1))) {
                best.clear();
                best.extend(cells.iter().enumerate().filter(|(_, cell)| cell.rank != NONE).map(
                    |(turn, cell)| BestPlace {
                        turn: turn as u32,
                        rank: cell.rank,
                        similarity: cell.score.value(),
                    },
                ));
                sink(row, &best);
            }
        }
    }
}
