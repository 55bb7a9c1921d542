//! Pairs of rows whose LCS another device has found: judged here, in f64, and taken like those of this processor.

use std::ops::Range;

use rayon::prelude::*;

use super::lanes::READ_ROWS;
use super::scalar::Scalar;
use super::{BestPlace, Prepared, Sink, Threshold, Walk, WindowSet, best_by, pairs_by};
use crate::backend::cpu::Simd;
use crate::error::Result;
use crate::params::Match;
use crate::params::limits::Limits;

/// Two rows with their LCS: `a` of a pattern, a start of the block, and `b` of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct RowPair {
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) lcs: u32,
}

/// What to find.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub(crate) set: &'a WindowSet<'a>,
    /// Tokens of each row.
    pub(crate) row_tokens: &'a [u32],
    pub(crate) limits: &'a Limits,
    /// Starts that are patterns. A text is any start, except those of the block before the pattern.
    pub(crate) block: Range<usize>,
}

/// Hands over pairs that pass the limits, each once: all those of some patterns with some texts together, in any order.
pub(crate) type Find<'a> = dyn Fn(&Search<'_>, &mut dyn FnMut(&mut [RowPair])) -> Result<()> + 'a;

/// [`best_per_turn`](super::best_per_turn) of pairs that are found elsewhere.
pub(crate) fn best_per_turn_of_found(
    find: &Find<'_>,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    memory: u64,
    sink: impl FnMut(usize, &[BestPlace]),
) -> Result<()> {
    best_by(&Found(find), Simd::detect(), set, threshold, memory, sink)
}

/// [`matching_pairs`](super::matching_pairs) of pairs that are found elsewhere.
pub(crate) fn matching_pairs_of_found(
    find: &Find<'_>,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    numbers: &[u32],
    memory: u64,
) -> Result<Vec<Match>> {
    pairs_by(&Found(find), Simd::detect(), set, threshold, numbers, memory)
}

struct Found<'a>(&'a Find<'a>);

impl Walk for Found<'_> {
    fn walk_block<S: Sink>(
        &self,
        set: &WindowSet<'_>,
        prepared: &Prepared,
        block: &Range<usize>,
        sink_of_thread: impl Fn() -> S + Sync + Send,
    ) -> Result<()> {
        let search = Search {
            set,
            row_tokens: &prepared.row_tokens[..set.row_lines.len()],
            limits: &prepared.limits,
            block: block.clone(),
        };
        let start_of = |row: u32| prepared.row_start[row as usize] as usize;
        let mut take = |pairs: &mut [RowPair]| {
            // Rows are numbered by start, so the pairs of a pattern follow one another, and in them those of a text.
            pairs.par_sort_unstable_by_key(|pair| (start_of(pair.a), pair.b, pair.a));
            let patterns: Vec<&[RowPair]> =
                pairs.chunk_by(|x, y| start_of(x.a) == start_of(y.a)).collect();
            patterns.into_par_iter().for_each_init(&sink_of_thread, |sink, pairs| {
                let pattern = start_of(pairs[0].a);
                sink.begin(pattern..pattern + 1);
                for of_text in pairs.chunk_by(|x, y| start_of(x.b) == start_of(y.b)) {
                    sink.begin_text(Scalar, start_of(of_text[0].b));
                    for pair in of_text {
                        let mut lcs = [0; READ_ROWS];
                        lcs[0] = pair.lcs;
                        sink.take(Scalar, pair.b as usize, pair.a as usize, 1, &lcs);
                    }
                    sink.end_text();
                }
                sink.end();
            });
        };
        (self.0)(&search, &mut take)
    }
}
