//! window_similarity: which windows match, over all pairs of windows of one edit type.
//!
//! A *start* is a line of a root with the lines that follow; its *rows* are the windows that begin there. One bit
//! vector dynamic program of start A as pattern against start B as text gives, at each text line end, the LCS of every
//! prefix of A with that prefix of B (a count of zero bits). So one program serves all rows of A times all rows of B.
//! - Starts with equal lines are one start, and a window that stands at several starts is a row of only one.
//! - Pairs are walked once: the pattern is the earlier of two starts, and starts are in the order of their size.
//! - Texts are walked in lexicographic order of their lines, so that the state after a shared beginning is kept.
//! - Four patterns share a pass (a lane each).
//! - A row of text is read out only if its length can match, and if the tokens it shares with the patterns are enough.
//!
//! Work: about (starts of A) · (tokens of B) · (words of A) / 4 steps, less the shared beginnings. No approximation:
//! lengths, bounds and thresholds come from the same integer table.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod best;
mod judge;
mod lanes;
pub(crate) mod limits;
mod patterns;
mod scalar;
mod walk;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::Simd;
use crate::error::{Error, Result};
use best::BestTable;
use judge::{Blended, Judge, Lexical};
use lanes::{Kernel, N_LANES};
use limits::Limits;
use walk::Walker;

pub(crate) use judge::LineVectorTable;

/// A line of the task and the lines after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) first_line: u32,
    pub(crate) n_lines: u32,
}

/// The distinct windows of one edit type as rows of distinct starts, in flat arrays.
///
/// With N lines, S starts and W rows. Starts are in ascending order of `ceil(tokens / 64)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowSet<'a> {
    /// Tokens of all lines, each below `n_symbols`.
    pub(crate) tokens: &'a [u32],
    pub(crate) n_symbols: usize,
    /// N+1 offsets into `tokens`.
    pub(crate) line_tokens: &'a [u32],
    /// N numbers below `n_line_ids`, equal iff the lines are equal.
    pub(crate) line_ids: &'a [u32],
    pub(crate) n_line_ids: usize,
    pub(crate) starts: &'a [Start],
    /// S+1 offsets into the rows.
    pub(crate) start_rows: &'a [u32],
    /// Lines of each row, ascending within a start and at most those of the start.
    pub(crate) row_lines: &'a [u32],
    /// The starts in lexicographic order of their lines.
    pub(crate) text_order: &'a [u32],
    /// For each entry of `text_order`: how many first lines it shares with the entry before.
    pub(crate) text_shared: &'a [u32],
    /// W+1 offsets into the places: the first place of the row in each turn that has one, by turn.
    pub(crate) row_places: &'a [u32],
    /// Turn of each place, below `n_turns`.
    pub(crate) place_turns: &'a [u32],
    /// Rank of each place among all places.
    pub(crate) place_ranks: &'a [u32],
    pub(crate) n_turns: usize,
}

impl<'a> WindowSet<'a> {
    fn rows_of(&self, start: usize) -> Range<usize> {
        self.start_rows[start] as usize..self.start_rows[start + 1] as usize
    }

    fn tokens_of_line(&self, line: usize) -> &'a [u32] {
        &self.tokens[self.line_tokens[line] as usize..self.line_tokens[line + 1] as usize]
    }

    fn tokens_of_lines(&self, first: u32, n_lines: u32) -> &'a [u32] {
        let (first, last) = (first as usize, first as usize + n_lines as usize);
        &self.tokens[self.line_tokens[first] as usize..self.line_tokens[last] as usize]
    }

    fn tokens_of_start(&self, start: usize) -> &'a [u32] {
        let Start { first_line, n_lines } = self.starts[start];
        self.tokens_of_lines(first_line, n_lines)
    }

    fn places_of(&self, row: usize) -> impl Iterator<Item = (usize, u32)> + 'a {
        let range = self.row_places[row] as usize..self.row_places[row + 1] as usize;
        let turns = self.place_turns[range.clone()].iter().map(|&turn| turn as usize);
        turns.zip(self.place_ranks[range].iter().copied())
    }
}

/// What follows from a set alone.
#[derive(Debug)]
struct Prepared {
    /// A line of the task for each line id.
    line_of_id: Vec<u32>,
    row_tokens: Vec<u32>,
    row_start: Vec<u32>,
    limits: Limits,
}

impl Prepared {
    /// `lexical_eta` is what the lexical similarity of every match reaches.
    fn new(set: &WindowSet<'_>, lexical_eta: f64) -> Self {
        let mut line_of_id = vec![0; set.n_line_ids];
        for (line, &id) in set.line_ids.iter().enumerate().rev() {
            line_of_id[id as usize] = line as u32;
        }
        let mut row_tokens = Vec::with_capacity(set.row_lines.len());
        let mut row_start = Vec::with_capacity(set.row_lines.len());
        for start in 0..set.starts.len() {
            for row in set.rows_of(start) {
                let first_line = set.starts[start].first_line;
                row_tokens.push(set.tokens_of_lines(first_line, set.row_lines[row]).len() as u32);
                row_start.push(start as u32);
            }
        }
        let longest = row_tokens.iter().copied().max().unwrap_or(0);
        Prepared {
            line_of_id,
            row_tokens,
            row_start,
            limits: Limits::new(lexical_eta, longest as usize),
        }
    }
}

/// Two rows that match.
#[derive(Debug, Clone, Copy)]
struct Hit<S> {
    a: u32,
    b: u32,
    lcs: u32,
    score: S,
}

/// How two rows are compared with eta.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold<'a> {
    pub(crate) eta: f64,
    /// Weight of the embedding part, and the vectors; `None` for the lexical part alone.
    pub(crate) embedding: Option<(f64, LineVectorTable<'a>)>,
}

/// The best row of one turn for one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BestPlace {
    pub(crate) turn: u32,
    pub(crate) rank: u32,
    pub(crate) similarity: f64,
}

/// For every row and turn, the most similar window of that turn if it matches; ties go to the smaller difference of
/// token counts, then to the lower rank. `sink` takes each row once, rows ascending, with its best places by turn.
///
/// Holds at most `memory` bytes: more rows than fit are done in several passes. Fails if one start does not fit.
pub(crate) fn best_per_turn(
    simd: Simd,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    memory: u64,
    sink: impl FnMut(usize, &[BestPlace]),
) -> Result<()> {
    match threshold.embedding {
        None => best_with(simd, set, &Lexical { eta: threshold.eta }, memory, sink),
        Some((weight, vectors)) => {
            let blended = Blended::new(set, vectors, weight, threshold.eta, memory)?;
            best_with(simd, set, &blended, memory - blended.bytes().min(memory), sink)
        }
    }
}

/// All pairs of rows that match, as (row, row, LCS) in no particular order; the rows of a pair too are in no order.
pub(crate) fn matching_pairs(
    simd: Simd,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    memory: u64,
) -> Result<Vec<(u32, u32, u32)>> {
    match threshold.embedding {
        None => pairs_with(simd, set, &Lexical { eta: threshold.eta }, memory),
        Some((weight, vectors)) => {
            let blended = Blended::new(set, vectors, weight, threshold.eta, memory)?;
            pairs_with(simd, set, &blended, memory - blended.bytes().min(memory))
        }
    }
}

fn best_with<J: Judge>(
    simd: Simd,
    set: &WindowSet<'_>,
    judge: &J,
    memory: u64,
    mut sink: impl FnMut(usize, &[BestPlace]),
) -> Result<()> {
    let prepared = Prepared::new(set, judge.lexical_eta());
    let mut first = 0;
    while first < set.starts.len() {
        let block = BestTable::<J::Score>::block(set, first, memory)?;
        let table = BestTable::<J::Score>::new(set, &prepared, block.clone());
        walk_block(simd, set, &prepared, judge, &block, |hits| table.update(set, &prepared, hits));
        table.drain(set, &mut sink);
        first = block.end;
    }
    Ok(())
}

fn pairs_with<J: Judge>(
    simd: Simd,
    set: &WindowSet<'_>,
    judge: &J,
    memory: u64,
) -> Result<Vec<(u32, u32, u32)>> {
    let prepared = Prepared::new(set, judge.lexical_eta());
    let pairs = Mutex::new(vec![]);
    let n_pairs = AtomicU64::new(0);
    // A growing vector holds up to twice its content, and three times while it moves.
    let limit = memory / (3 * size_of::<(u32, u32, u32)>() as u64);
    walk_block(simd, set, &prepared, judge, &(0..set.starts.len()), |hits| {
        let n_so_far = n_pairs.fetch_add(hits.len() as u64, Relaxed) + hits.len() as u64;
        if n_so_far <= limit {
            let mut pairs = pairs.lock().unwrap_or_else(PoisonError::into_inner);
            pairs.extend(hits.iter().map(|hit| (hit.a, hit.b, hit.lcs)));
        }
    });
    let n_pairs = n_pairs.into_inner();
    if n_pairs > limit {
        return Err(Error::Limit {
            op: "matches",
            what: "the list of matching pairs (pairs)",
            needed: n_pairs,
            limit,
            advice: "raise `memory_limit`, raise `eta`, or ask for the occurrences instead",
        });
    }
    Ok(pairs.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Finds every match of a start of `block` with any start, each pair inside the block once, and hands over those of one
/// text with one pattern at a time.
fn walk_block<J: Judge>(
    simd: Simd,
    set: &WindowSet<'_>,
    prepared: &Prepared,
    judge: &J,
    block: &Range<usize>,
    on_text: impl Fn(&[Hit<J::Score>]) + Sync,
) {
    let kernel = Kernel::new(simd);
    // Starts are in the order of their words, so the long ones are the last.
    let is_short = |start: &usize| set.tokens_of_start(*start).len() <= 64 * walk::MAX_WORDS;
    let first_long = block.start + block.clone().take_while(is_short).count();
    let mut groups: Vec<Range<usize>> = (block.start..first_long)
        .step_by(N_LANES)
        .map(|first| first..(first + N_LANES).min(first_long))
        .collect();
    groups.extend((first_long..block.end).map(|start| start..start + 1));
    // The costly groups first: nothing large is left for the end, when other threads have no more to do.
    groups.into_par_iter().rev().for_each_init(
        || Walker::new(set, prepared, judge, kernel),
        |walker, group| {
            if group.start < first_long {
                walker.walk_group(block, group, &on_text);
            } else {
                walker.walk_long(block, group.start, &on_text);
            }
        },
    );
}
