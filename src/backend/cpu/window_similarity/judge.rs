//! The similarity of two rows from their LCS, with or without the embedding part.

use std::ops::Range;

use super::lanes::{Kernel, N_LANES};
use super::{Prepared, WindowSet};

/// Decides which pairs match, beyond the lexical bound.
pub(super) trait Judge: Sync {
    type State<'a>: JudgeState
    where
        Self: 'a;

    /// Whether the LCS decides alone.
    const IS_LEXICAL: bool;

    /// A bound from 0 to 1 that the lexical similarity of every match reaches.
    fn lexical_eta(&self) -> f64;
    /// Working state of one thread.
    fn state<'a>(&'a self, set: &'a WindowSet<'a>, prepared: &'a Prepared) -> Self::State<'a>;
}

/// See [`JudgeState::near_rows`].
pub(super) type NearRows = [u64; N_LANES];

/// A judge at work in one thread.
pub(super) trait JudgeState {
    /// From now on `a` in [`JudgeState::similarity`] is one of these rows.
    fn begin(&mut self, rows: Range<usize>);
    /// Which lines of text `text` may end a row that matches a row of the group: for each lane a bit for each number of
    /// lines, from that of the first row on. `None` if nothing is known.
    fn near_rows<K: Kernel>(&mut self, _: K, _: usize) -> Option<NearRows> {
        None
    }

    /// The similarity, from 0 to 1, of rows `a` and `b`, distinct, that have passed the lexical bound: `None` if they
    /// do not match. `sum` is the sum of their token counts.
    fn similarity(&mut self, a: usize, b: usize, lcs: u32, sum: u32) -> Option<f64>;
}

pub(super) fn lexical(lcs: u32, sum: u32) -> f64 {
    if sum == 0 { 1.0 } else { 2.0 * f64::from(lcs) / f64::from(sum) }
}

/// Token similarity alone: the lexical bound decides.
#[derive(Debug)]
pub(super) struct Lexical {
    pub(super) eta: f64,
}

impl Judge for Lexical {
    type State<'a> = LexicalState;

    const IS_LEXICAL: bool = true;

    fn lexical_eta(&self) -> f64 {
        self.eta
    }

    fn state<'a>(&'a self, _: &'a WindowSet<'a>, _: &'a Prepared) -> LexicalState {
        LexicalState
    }
}

#[derive(Debug)]
pub(super) struct LexicalState;

impl JudgeState for LexicalState {
    fn begin(&mut self, _: Range<usize>) {}

    #[inline(always)]
    fn similarity(&mut self, _: usize, _: usize, lcs: u32, sum: u32) -> Option<f64> {
        Some(lexical(lcs, sum))
    }
}
