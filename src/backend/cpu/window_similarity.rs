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
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bags;
mod best;
mod best_lexical;
mod blended;
#[cfg(feature = "wgpu")]
mod found;
mod judge;
mod lanes;

mod pair_list;
mod patterns;
mod scalar;
mod walk;

use std::ops::Range;

use rayon::prelude::*;

use super::Simd;
use crate::error::Result;
use crate::params::Match;
use crate::params::limits::Limits;
use crate::params::windows::{BestPlace, Threshold, WindowSet};
use bags::Bag;
use best::{BestSink, BestTable, Key, Layout, Places};
use best_lexical::{LexicalSink, Narrow};
use blended::Blended;
use judge::{Judge, Lexical, NearRows};
use lanes::{Cut, Kernel, N_LANES, READ_ROWS};
use pair_list::{PairList, PairSink};
use walk::Walker;

#[cfg(feature = "wgpu")]
pub(crate) use found::{RowPair, Search, best_per_turn_of_found, matching_pairs_of_found};
pub(crate) use lanes::WORD_TOKENS;

/// What follows from a set alone.
#[derive(Debug)]
struct Prepared {
    /// A line of the task for each line id.
    line_of_id: Vec<u32>,
    /// Tokens of each row, and zeros for a look at [`READ_ROWS`] rows from any one on.
    row_tokens: Vec<u32>,
    row_start: Vec<u32>,
    /// Where each row ends in the words of its start; as many as `row_tokens`.
    row_cuts: Vec<Cut>,
    /// For each row, the end of the rows of its start from it on that stand in the same turns.
    class_ends: Vec<u32>,
    /// The cut for each number of tokens.
    cuts: Vec<Cut>,
    bin_of: Vec<u8>,
    /// Bag of each row.
    bags: Vec<Bag>,
    /// The starts in the order in which texts are walked.
    texts: Vec<Text>,
    limits: Limits,
}

/// A start as text.
#[derive(Debug, Clone, Copy)]
struct Text {
    start: u32,
    /// First lines shared with the text before.
    n_shared: u32,
    first_line: u32,
    first_row: u32,
    end_row: u32,
    /// Tokens of the first row and of the last.
    least_tokens: u32,
    most_tokens: u32,
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
        let longest = row_tokens.iter().copied().max().unwrap_or(0) as usize;
        let cuts: Vec<Cut> = (0..=longest).map(Cut::at).collect();
        let texts = set.text_order.iter().zip(set.text_shared).map(|(&start, &n_shared)| {
            let rows = set.rows_of(start as usize);
            let tokens = &row_tokens[rows.clone()];
            Text {
                start,
                n_shared,
                first_line: set.starts[start as usize].first_line,
                first_row: rows.start as u32,
                end_row: rows.end as u32,
                least_tokens: tokens.first().copied().unwrap_or(0),
                most_tokens: tokens.last().copied().unwrap_or(0),
            }
        });
        let texts = texts.collect();
        let mut class_ends: Vec<u32> = (1..=row_tokens.len() as u32).collect();
        for row in (1..row_tokens.len()).rev() {
            let turns_of = |row| set.places_of(row).map(|(turn, _)| turn);
            if row_start[row] == row_start[row - 1] && turns_of(row).eq(turns_of(row - 1)) {
                class_ends[row - 1] = class_ends[row];
            }
        }
        let bin_of = bags::bins_by_frequency(set);
        row_tokens.resize(row_tokens.len() + READ_ROWS, 0);
        let row_cuts = row_tokens.iter().map(|&n| cuts[n as usize]).collect();
        Prepared {
            line_of_id,
            class_ends,
            row_cuts,
            cuts,
            bags: bags::bags_of_rows(set, &bin_of),
            bin_of,
            texts,
            row_tokens,
            row_start,
            limits: Limits::new(lexical_eta, longest),
        }
    }
}

/// Takes what one thread finds.
trait Sink {
    /// From now on the patterns are these starts.
    fn begin(&mut self, group: Range<usize>);
    /// From now on the text is this start. Which of its rows may match, if that is known; see
    /// [`JudgeState::near_rows`].
    fn begin_text<K: Kernel>(&mut self, kernel: K, text: usize) -> Option<NearRows>;
    /// The LCS of row `b` of the text with `n_rows` rows of one pattern, from `first_a` on; what follows in `lcs` is 0.
    /// Rows of a text come in ascending order.
    fn take<K: Kernel>(
        &mut self,
        kernel: K,
        b: usize,
        first_a: usize,
        n_rows: usize,
        lcs: &[u32; READ_ROWS],
    );
    /// The text is done.
    fn end_text(&mut self);
    /// The patterns are done.
    fn end(&mut self);
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
    best_by(&simd, simd, set, threshold, memory, sink)
}

fn best_by(
    walk: &impl Walk,
    simd: Simd,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    memory: u64,
    sink: impl FnMut(usize, &[BestPlace]),
) -> Result<()> {
    match threshold.embedding {
        None => best_with(walk, set, &Lexical { eta: threshold.eta }, memory, sink),
        Some((weight, vectors)) => {
            let blended = Blended::new(simd, set, vectors, weight, threshold.eta, memory)?;
            best_with(walk, set, &blended, memory - blended.bytes().min(memory), sink)
        }
    }
}

/// All pairs of rows that match, sorted, under the numbers of their rows. `numbers` has one for each row, no two equal.
pub(crate) fn matching_pairs(
    simd: Simd,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    numbers: &[u32],
    memory: u64,
) -> Result<Vec<Match>> {
    pairs_by(&simd, simd, set, threshold, numbers, memory)
}

fn pairs_by(
    walk: &impl Walk,
    simd: Simd,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    numbers: &[u32],
    memory: u64,
) -> Result<Vec<Match>> {
    match threshold.embedding {
        None => pairs_with(walk, set, &Lexical { eta: threshold.eta }, numbers, memory),
        Some((weight, vectors)) => {
            let blended = Blended::new(simd, set, vectors, weight, threshold.eta, memory)?;
            pairs_with(walk, set, &blended, numbers, memory - blended.bytes().min(memory))
        }
    }
}

/// Finds every pair of rows that passes the lexical bound and has a row in a start of `block`, each pair once.
trait Walk {
    fn walk_block<S: Sink>(
        &self,
        set: &WindowSet<'_>,
        prepared: &Prepared,
        block: &Range<usize>,
        sink_of_thread: impl Fn() -> S + Sync + Send,
    ) -> Result<()>;
}

/// Evaluates an expression with the kernel of the widest instructions that there are and that `$simd` allows.
macro_rules! with_kernel {
    ($simd:expr, $kernel:ident => $value:expr) => {
        'chosen: {
            #[cfg(target_arch = "x86_64")]
            {
                use crate::backend::cpu::window_similarity::{avx2::Avx2, avx512::Avx512};
                if $simd >= Simd::Avx512
                    && let Some($kernel) = Avx512::detect()
                {
                    break 'chosen $value;
                }
                if $simd >= Simd::Avx2
                    && let Some($kernel) = Avx2::detect()
                {
                    break 'chosen $value;
                }
            }
            let $kernel = crate::backend::cpu::window_similarity::scalar::Scalar;
            $value
        }
    };
}
use with_kernel;

/// On this processor.
impl Walk for Simd {
    fn walk_block<S: Sink>(
        &self,
        set: &WindowSet<'_>,
        prepared: &Prepared,
        block: &Range<usize>,
        sink_of_thread: impl Fn() -> S + Sync + Send,
    ) -> Result<()> {
        with_kernel!(*self, kernel => walk_with(kernel, set, prepared, block, sink_of_thread));
        Ok(())
    }
}

fn best_with<J: Judge>(
    walk: &impl Walk,
    set: &WindowSet<'_>,
    judge: &J,
    memory: u64,
    sink: impl FnMut(usize, &[BestPlace]),
) -> Result<()> {
    let prepared = &Prepared::new(set, judge.lexical_eta());
    let places = &Places::new(set, prepared);
    let wide = Layout::new(set);
    if J::IS_LEXICAL
        && let Some(narrow) = Narrow::new(set, prepared)
    {
        let walk = |block: &Range<usize>, table: &BestTable<u64>| {
            walk.walk_block(set, prepared, block, || {
                LexicalSink::new(set, prepared, places, narrow, table)
            })
        };
        return best_in_blocks(set, prepared, places, narrow, memory, walk, sink);
    }
    let walk = |block: &Range<usize>, table: &BestTable<u128>| {
        walk.walk_block(set, prepared, block, || {
            BestSink::new(set, prepared, places, judge.state(set, prepared), table)
        })
    };
    best_in_blocks(set, prepared, places, wide, memory, walk, sink)
}

/// Fills a table for as many starts as fit, drains it, and goes on with the next ones.
fn best_in_blocks<K: Key>(
    set: &WindowSet<'_>,
    prepared: &Prepared,
    places: &Places,
    layout: K::Layout,
    memory: u64,
    walk: impl Fn(&Range<usize>, &BestTable<K>) -> Result<()>,
    mut sink: impl FnMut(usize, &[BestPlace]),
) -> Result<()> {
    let mut first = 0;
    while first < set.starts.len() {
        let block = BestTable::<K>::block(set, first, memory)?;
        let table = BestTable::new(set, prepared, places, block.clone(), layout);
        walk(&block, &table)?;
        table.drain(set, prepared, places, &mut sink);
        first = block.end;
    }
    Ok(())
}

fn pairs_with<J: Judge>(
    walk: &impl Walk,
    set: &WindowSet<'_>,
    judge: &J,
    numbers: &[u32],
    memory: u64,
) -> Result<Vec<Match>> {
    let prepared = &Prepared::new(set, judge.lexical_eta());
    let list = PairList::new(numbers, memory);
    let narrow = if J::IS_LEXICAL { Narrow::new(set, prepared) } else { None };
    walk.walk_block(set, prepared, &(0..set.starts.len()), || {
        PairSink::new(set, prepared, judge.state(set, prepared), &list, narrow)
    })?;
    list.finish()
}

fn walk_with<K: Kernel, S: Sink>(
    kernel: K,
    set: &WindowSet<'_>,
    prepared: &Prepared,
    block: &Range<usize>,
    sink_of_thread: impl Fn() -> S + Sync + Send,
) {
    // Starts are in the order of their words, so the long ones are the last.
    let is_short = |start: &usize| set.tokens_of_start(*start).len() <= walk::MAX_TOKENS;
    let first_long = block.start + block.clone().take_while(is_short).count();
    let mut groups: Vec<Range<usize>> = (block.start..first_long)
        .step_by(N_LANES)
        .map(|first| first..(first + N_LANES).min(first_long))
        .collect();
    groups.extend((first_long..block.end).map(|start| start..start + 1));
    // The costly groups first: nothing large is left for the end, when other threads have no more to do.
    groups.into_par_iter().rev().for_each_init(
        || (Walker::new(set, prepared, kernel), sink_of_thread()),
        |(walker, sink), group| {
            sink.begin(group.clone());
            if group.start < first_long {
                kernel.walk_group(walker, block, group, sink);
            } else {
                walker.walk_long(block, group.start, sink);
            }
            sink.end();
        },
    );
}
