//! The similarity of two rows from their LCS, with or without the embedding part.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::Range;

use rayon::prelude::*;

use super::lanes::N_LANES;
use super::{Prepared, WindowSet};
use crate::error::{Error, Result};

/// A similarity that orders exactly.
pub(super) trait Score: Debug + Copy + Send + Sync {
    /// Of a row with itself.
    fn equal(n_tokens: u32) -> Self;
    /// Which one is the more similar.
    fn order(self, other: Self) -> Ordering;
    /// As a number.
    fn value(self) -> f64;
}

/// Decides which pairs match, beyond the lexical bound.
pub(super) trait Judge: Sync {
    type Score: Score;
    type State<'a>: JudgeState<Score = Self::Score>
    where
        Self: 'a;

    /// A bound from 0 to 1 that the lexical similarity of every match reaches.
    fn lexical_eta(&self) -> f64;
    /// Working state of one thread.
    fn state<'a>(&'a self, set: &'a WindowSet<'a>, prepared: &'a Prepared) -> Self::State<'a>;
}

/// A judge at work in one thread.
pub(super) trait JudgeState {
    type Score: Score;

    /// From now on `a` in [`JudgeState::score`] is one of these rows.
    fn begin(&mut self, rows: Range<usize>);
    /// The similarity of rows `a` and `b`, distinct, if they match; `sum` is the sum of their token counts. The pair
    /// has passed the lexical bound.
    fn score(&mut self, a: usize, b: usize, lcs: u32, sum: u32) -> Option<Self::Score>;
}

/// `2·lcs / sum`, compared as a fraction; 1 when `sum` is 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratio {
    lcs: u32,
    sum: u32,
}

impl Score for Ratio {
    fn equal(n_tokens: u32) -> Self {
        Ratio { lcs: n_tokens, sum: 2 * n_tokens }
    }

    fn order(self, other: Self) -> Ordering {
        let cross = |a: Ratio, b: Ratio| u64::from(a.lcs) * u64::from(b.sum);
        cross(self, other).cmp(&cross(other, self))
    }

    fn value(self) -> f64 {
        lexical(self.lcs, self.sum)
    }
}

fn lexical(lcs: u32, sum: u32) -> f64 {
    if sum == 0 { 1.0 } else { 2.0 * f64::from(lcs) / f64::from(sum) }
}

/// Token similarity alone: the lexical bound decides.
#[derive(Debug)]
pub(super) struct Lexical {
    pub(super) eta: f64,
}

impl Judge for Lexical {
    type Score = Ratio;
    type State<'a> = LexicalState;

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
    type Score = Ratio;

    fn begin(&mut self, _: Range<usize>) {}

    #[inline]
    fn score(&mut self, _: usize, _: usize, lcs: u32, sum: u32) -> Option<Ratio> {
        Some(Ratio { lcs, sum })
    }
}

/// `(1-w)·lex + w·emb` in f64.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blend(f64);

impl Score for Blend {
    fn equal(_: u32) -> Self {
        Blend(1.0)
    }

    fn order(self, other: Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }

    fn value(self) -> f64 {
        self.0
    }
}

/// One vector of signed bytes for each line id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineVectorTable<'a> {
    pub(crate) dim: usize,
    /// (line ids) x `dim`.
    pub(crate) data: &'a [i8],
}

/// Token similarity blended with the cosine of the sums of line vectors.
#[derive(Debug)]
pub(super) struct Blended {
    weight: f64,
    eta: f64,
    /// Products of the vectors of all pairs of line ids.
    gram: Vec<i32>,
    n_line_ids: usize,
    /// Squared length of the vector of each row.
    row_norms: Vec<i64>,
    bytes: u64,
}

/// More than rounding can add to a blend (a few units in the last place).
const SLACK: f64 = 1e-9;

impl Blended {
    /// Multiplies all line vectors, and measures all rows. Fails when that does not fit in `memory`.
    pub(super) fn new(
        set: &WindowSet<'_>,
        vectors: LineVectorTable<'_>,
        weight: f64,
        eta: f64,
        memory: u64,
    ) -> Result<Self> {
        let most_rows =
            (0..set.starts.len()).map(|start| set.rows_of(start).len()).max().unwrap_or(0);
        let max_group_rows = most_rows.saturating_mul(N_LANES) as u64;
        let n_line_ids = set.n_line_ids;
        let image_bytes =
            max_group_rows.saturating_mul(set.line_ids.len() as u64 + 1).saturating_mul(8);
        let needed = (n_line_ids as u64)
            .saturating_mul(n_line_ids as u64)
            .saturating_mul(size_of::<i32>() as u64)
            .saturating_add(image_bytes.saturating_mul(rayon::current_num_threads() as u64))
            .saturating_add(set.row_lines.len() as u64 * size_of::<i64>() as u64);
        if needed > memory {
            return Err(Error::Limit {
                op: "window_similarity",
                what: "the table of products of line vectors (bytes)",
                needed,
                limit: memory,
                advice: "raise `memory_limit`, or set `embedding_weight` to 0",
            });
        }
        let dim = vectors.dim;
        let mut gram = vec![0i32; n_line_ids * n_line_ids];
        gram.par_chunks_mut(n_line_ids.max(1)).enumerate().for_each(|(a, products)| {
            let a = &vectors.data[a * dim..][..dim];
            for (product, b) in products.iter_mut().zip(vectors.data.chunks_exact(dim)) {
                *product = a.iter().zip(b).map(|(&x, &y)| i32::from(x) * i32::from(y)).sum();
            }
        });
        let row_norms = (0..set.starts.len())
            .into_par_iter()
            .flat_map_iter(|start| norms_of_rows(set, vectors, start))
            .collect();
        Ok(Blended { weight, eta, gram, n_line_ids, row_norms, bytes: needed })
    }

    /// Bytes that it takes, those of all threads included.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Squared lengths of the sums of line vectors, for all rows of a start.
fn norms_of_rows(set: &WindowSet<'_>, vectors: LineVectorTable<'_>, start: usize) -> Vec<i64> {
    let mut sum = vec![0i64; vectors.dim];
    let mut n_lines = 0;
    let first_line = set.starts[start].first_line;
    set.rows_of(start)
        .map(|row| {
            while n_lines < set.row_lines[row] {
                let id = set.line_ids[(first_line + n_lines) as usize] as usize;
                let line = &vectors.data[id * vectors.dim..][..vectors.dim];
                for (total, &x) in sum.iter_mut().zip(line) {
                    *total += i64::from(x);
                }
                n_lines += 1;
            }
            sum.iter().map(|x| x * x).sum()
        })
        .collect()
}

impl Judge for Blended {
    type Score = Blend;
    type State<'a> = BlendedState<'a>;

    fn lexical_eta(&self) -> f64 {
        // emb is at most 1, so a match has lex >= (eta - w) / (1 - w).
        let lexical_part = self.eta - self.weight - SLACK;
        if lexical_part <= 0.0 || self.weight >= 1.0 {
            return 0.0;
        }
        (lexical_part / (1.0 - self.weight)).min(1.0)
    }

    fn state<'a>(&'a self, set: &'a WindowSet<'a>, prepared: &'a Prepared) -> BlendedState<'a> {
        BlendedState { judge: self, set, prepared, rows: 0..0, image: vec![], ready: false }
    }
}

/// The products of the rows of a group with all runs of lines of the task.
#[derive(Debug)]
pub(super) struct BlendedState<'a> {
    judge: &'a Blended,
    set: &'a WindowSet<'a>,
    prepared: &'a Prepared,
    rows: Range<usize>,
    /// For each row of the group, its product with the sum of all lines before each line: rows x (N + 1).
    image: Vec<i64>,
    ready: bool,
}

impl BlendedState<'_> {
    /// Two reads then give the product of a row with any run of lines.
    fn build_image(&mut self) {
        let n_ids = self.judge.n_line_ids;
        let mut products = vec![0i64; n_ids];
        self.image.clear();
        self.image.reserve(self.rows.len() * (self.set.line_ids.len() + 1));
        let mut start = u32::MAX;
        let mut n_lines = 0;
        for row in self.rows.clone() {
            if self.prepared.row_start[row] != start {
                start = self.prepared.row_start[row];
                n_lines = 0;
                products.fill(0);
            }
            let first_line = self.set.starts[start as usize].first_line;
            while n_lines < self.set.row_lines[row] {
                let id = self.set.line_ids[(first_line + n_lines) as usize] as usize;
                for (total, &x) in products.iter_mut().zip(&self.judge.gram[id * n_ids..][..n_ids])
                {
                    *total += i64::from(x);
                }
                n_lines += 1;
            }
            // The sum over the whole task may go past i64; the difference of two, a run of one root, does not.
            let mut total = 0i64;
            self.image.push(0);
            for &id in self.set.line_ids {
                total = total.wrapping_add(products[id as usize]);
                self.image.push(total);
            }
        }
        self.ready = true;
    }
}

impl JudgeState for BlendedState<'_> {
    type Score = Blend;

    fn begin(&mut self, rows: Range<usize>) {
        self.rows = rows;
        self.ready = false;
    }

    fn score(&mut self, a: usize, b: usize, lcs: u32, sum: u32) -> Option<Blend> {
        if !self.ready {
            self.build_image();
        }
        let n_sums = self.set.line_ids.len() + 1;
        let sums = &self.image[(a - self.rows.start) * n_sums..][..n_sums];
        let first = self.set.starts[self.prepared.row_start[b] as usize].first_line as usize;
        let dot = sums[first + self.set.row_lines[b] as usize].wrapping_sub(sums[first]);
        let emb = cosine(dot, self.judge.row_norms[a], self.judge.row_norms[b]);
        let weight = self.judge.weight;
        let similarity = (1.0 - weight) * lexical(lcs, sum) + weight * emb;
        (similarity >= self.judge.eta).then_some(Blend(similarity))
    }
}

/// Exactly 1 for equal vectors (`sqrt(x·x) = x` in IEEE arithmetic), 0 when one is zero.
fn cosine(dot: i64, norm_a: i64, norm_b: i64) -> f64 {
    if norm_a == 0 || norm_b == 0 {
        return 0.0;
    }
    (dot as f64 / (norm_a as f64 * norm_b as f64).sqrt()).clamp(-1.0, 1.0)
}
