//! Token similarity blended with the cosine of the sums of line vectors.
//!
//! The vector of a window is the sum of those of its lines, so its product with a run of lines is a difference of two
//! sums of products over all lines before: for each row of a group of patterns there is an array of such sums (an
//! integral image), and two reads give the product with any window. No dimension is left in that.

use std::ops::Range;

use rayon::prelude::*;

use super::judge::{Judge, JudgeState, NearRows, lexical};
use super::lanes::{Kernel, N_LANES, PART_ROWS};
use super::{Prepared, Simd, WindowSet, with_kernel};
use crate::error::{Error, Result};
use crate::params::windows::{LineVectorTable, SLACK, least_lexical};

/// The blend `(1-w) lex + w emb`.
#[derive(Debug)]
pub(super) struct Blended {
    weight: f64,
    eta: f64,
    /// Products of the vectors of all pairs of line ids.
    gram: Vec<i32>,
    n_line_ids: usize,
    /// Squared length of the vector of each row.
    row_norms: Vec<i64>,
    /// Its root.
    row_roots: Vec<f64>,
    /// For each start, the root for each number of lines from that of its first row to that of its last, and zeros for a
    /// look at a part from any one on. Empty where products may not fit in 32 bits.
    line_roots: Vec<f32>,
    /// Where each start begins in `line_roots`.
    first_roots: Vec<u32>,
    /// What the cosine of every match reaches, less [`NEAR_SLACK`]; at most 0 if it can be anything.
    least_cosine: f32,
    bytes: u64,
}

/// More than rounding can take from a product in f32: that is rounded once when it is converted, a root of a norm once,
/// and a bound, the product of two roots and a factor, three times; 2^-24 of the product of the roots each time.
const NEAR_SLACK: f64 = 1e-5;

/// Below this a bound on the cosine rejects too little to pay for itself.
const LEAST_USEFUL_COSINE: f64 = 0.45;

impl Blended {
    /// Multiplies all line vectors, and measures all rows. Fails when that does not fit in `memory`.
    pub(super) fn new(
        simd: Simd,
        set: &WindowSet<'_>,
        vectors: LineVectorTable<'_>,
        weight: f64,
        eta: f64,
        memory: u64,
    ) -> Result<Self> {
        let most_rows = (0..set.starts.len()).map(|start| set.rows_of(start).len()).max();
        let n_rows = set.row_lines.len();
        let n_line_ids = set.n_line_ids;
        let group_rows = most_rows.unwrap_or(0).saturating_mul(N_LANES).min(n_rows) as u64;
        let image_bytes = group_rows.saturating_mul(image_width(set) as u64).saturating_mul(8);
        let row_bytes = size_of::<i64>() + size_of::<f64>() + 2 * size_of::<f32>();
        let needed = (n_line_ids as u64)
            .saturating_mul(n_line_ids as u64)
            .saturating_mul(size_of::<i32>() as u64)
            .saturating_add(image_bytes.saturating_mul(rayon::current_num_threads() as u64))
            .saturating_add((n_rows * row_bytes) as u64);
        if needed > memory {
            return Err(Error::Limit {
                op: "window_similarity",
                what: "the table of products of line vectors (bytes)",
                needed,
                limit: memory,
                advice: "raise `memory_limit`, or set `embedding_weight` to 0",
            });
        }
        let mut gram = vec![0i32; n_line_ids * n_line_ids];
        gram.par_chunks_mut(n_line_ids.max(1)).enumerate().for_each(|(a, products)| {
            // The other half follows by symmetry.
            let a = &vectors.data[a * vectors.dim..];
            let products = &mut products[n_line_ids - a.len() / vectors.dim.max(1)..];
            with_kernel!(simd, kernel => kernel.dot_products(&a[..vectors.dim], a, products));
        });
        for a in 0..n_line_ids {
            for b in 0..a {
                gram[a * n_line_ids + b] = gram[b * n_line_ids + a];
            }
        }
        let norms: Vec<Vec<i64>> = (0..set.starts.len())
            .into_par_iter()
            .map(|start| norms_by_lines(set, &gram, start))
            .collect();
        let mut row_norms = Vec::with_capacity(n_rows);
        for (start, norms) in norms.iter().enumerate() {
            let rows = set.rows_of(start);
            let first_lines = set.row_lines[rows.start];
            row_norms.extend(rows.map(|row| norms[(set.row_lines[row] - first_lines) as usize]));
        }
        let root = |&norm: &i64| (norm as f64).sqrt();
        let (mut line_roots, mut first_roots) = (vec![], vec![]);
        // By Cauchy and Schwarz no product is larger than the largest norm.
        if norms.iter().flatten().all(|&norm| norm < i64::from(i32::MAX)) {
            for norms in &norms {
                first_roots.push(line_roots.len() as u32);
                line_roots.extend(norms.iter().map(|norm| root(norm) as f32));
            }
            line_roots.resize(line_roots.len() + PART_ROWS, 0.0);
        }
        // lex is at most 1, so a match has emb >= (eta - (1 - w)) / w.
        let least_cosine = (eta - (1.0 - weight) - SLACK) / weight - NEAR_SLACK;
        Ok(Blended {
            weight,
            eta,
            gram,
            n_line_ids,
            row_roots: row_norms.iter().map(root).collect(),
            row_norms,
            line_roots,
            first_roots,
            least_cosine: least_cosine as f32,
            bytes: needed,
        })
    }

    /// Bytes that it takes, those of all threads included.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Entries of a row of an image: a sum before each line and one after the last, and room to read a part from any one on.
fn image_width(set: &WindowSet<'_>) -> usize {
    set.line_ids.len() + 1 + PART_ROWS
}

/// Squared lengths of the sums of line vectors of a start, from the lines of its first row to those of its last.
fn norms_by_lines(set: &WindowSet<'_>, gram: &[i32], start: usize) -> Vec<i64> {
    let rows = set.rows_of(start);
    let first_lines = set.row_lines[rows.start] as usize;
    let n_lines = set.row_lines[rows.end - 1] as usize;
    let first_line = set.starts[start].first_line as usize;
    // How often each line id occurs so far.
    let mut counts: Vec<(u32, i64)> = vec![];
    let mut norm = 0i64;
    let mut norms = Vec::with_capacity(n_lines - first_lines + 1);
    for (n_before, &id) in set.line_ids[first_line..][..n_lines].iter().enumerate() {
        let products = &gram[id as usize * set.n_line_ids..][..set.n_line_ids];
        let with_others = counts.iter().map(|&(id, n)| n * i64::from(products[id as usize]));
        norm += 2 * with_others.sum::<i64>() + i64::from(products[id as usize]);
        match counts.iter_mut().find(|known| known.0 == id) {
            Some(known) => known.1 += 1,
            None => counts.push((id, 1)),
        }
        if n_before + 1 >= first_lines {
            norms.push(norm);
        }
    }
    norms
}

impl Judge for Blended {
    type State<'a> = BlendedState<'a>;

    const IS_LEXICAL: bool = false;

    fn lexical_eta(&self) -> f64 {
        least_lexical(self.eta, self.weight)
    }

    fn state<'a>(&'a self, set: &'a WindowSet<'a>, prepared: &'a Prepared) -> BlendedState<'a> {
        BlendedState {
            judge: self,
            set,
            prepared,
            rows: 0..0,
            image: if self.first_roots.is_empty() {
                Image::Wide(vec![])
            } else {
                Image::Narrow(vec![])
            },
            products: vec![],
            ready: false,
        }
    }
}

/// For each row of a group, the sum of its products with all lines before each line: rows x [`image_width`]. Sums wrap
/// around; a difference of two, the product with a run of lines of one root, is exact, for it fits.
#[derive(Debug)]
enum Image {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
}

/// One thread at work.
#[derive(Debug)]
pub(super) struct BlendedState<'a> {
    judge: &'a Blended,
    set: &'a WindowSet<'a>,
    prepared: &'a Prepared,
    rows: Range<usize>,
    image: Image,
    /// Products of the current row with each line id.
    products: Vec<i64>,
    ready: bool,
}

impl BlendedState<'_> {
    fn build_image(&mut self) {
        let n_ids = self.judge.n_line_ids;
        let width = image_width(self.set);
        match &mut self.image {
            Image::Narrow(sums) => sums.resize(self.rows.len() * width, 0),
            Image::Wide(sums) => sums.resize(self.rows.len() * width, 0),
        }
        self.products.resize(n_ids, 0);
        let mut start = u32::MAX;
        let mut n_lines = 0;
        for (at, row) in self.rows.clone().enumerate() {
            if self.prepared.row_start[row] != start {
                start = self.prepared.row_start[row];
                n_lines = 0;
                self.products.fill(0);
            }
            let first_line = self.set.starts[start as usize].first_line;
            while n_lines < self.set.row_lines[row] {
                let id = self.set.line_ids[(first_line + n_lines) as usize] as usize;
                let of_line = &self.judge.gram[id * n_ids..][..n_ids];
                for (total, &x) in self.products.iter_mut().zip(of_line) {
                    *total += i64::from(x);
                }
                n_lines += 1;
            }
            match &mut self.image {
                Image::Narrow(sums) => {
                    let mut total = 0i32;
                    let sums = &mut sums[at * width..][1..=self.set.line_ids.len()];
                    for (sum, &id) in sums.iter_mut().zip(self.set.line_ids) {
                        total = total.wrapping_add(self.products[id as usize] as i32);
                        *sum = total;
                    }
                }
                Image::Wide(sums) => {
                    let mut total = 0i64;
                    let sums = &mut sums[at * width..][1..=self.set.line_ids.len()];
                    for (sum, &id) in sums.iter_mut().zip(self.set.line_ids) {
                        total = total.wrapping_add(self.products[id as usize]);
                        *sum = total;
                    }
                }
            }
        }
        self.ready = true;
    }

    /// Product of row `a` of the group with the lines of row `b`.
    #[inline(always)]
    fn product(&self, a: usize, b: usize) -> i64 {
        let width = image_width(self.set);
        let first = self.set.starts[self.prepared.row_start[b] as usize].first_line as usize;
        let row = (a - self.rows.start) * width;
        let (begin, end) = (row + first, row + first + self.set.row_lines[b] as usize);
        match &self.image {
            Image::Narrow(sums) => i64::from(sums[end].wrapping_sub(sums[begin])),
            Image::Wide(sums) => sums[end].wrapping_sub(sums[begin]),
        }
    }
}

impl JudgeState for BlendedState<'_> {
    fn begin(&mut self, rows: Range<usize>) {
        self.rows = rows;
        self.ready = false;
    }

    #[inline(always)]
    fn near_rows<K: Kernel>(&mut self, kernel: K, text: usize) -> Option<NearRows> {
        let judge = self.judge;
        let &first_root = judge.first_roots.get(text)?;
        let rows = self.set.rows_of(text);
        let first_lines = self.set.row_lines[rows.start] as usize;
        let n_sums = self.set.row_lines[rows.end - 1] as usize - first_lines + 1;
        if f64::from(judge.least_cosine) < LEAST_USEFUL_COSINE || n_sums > u64::BITS as usize {
            return None;
        }
        if !self.ready {
            self.build_image();
        }
        let Image::Narrow(sums) = &self.image else { return None };
        let width = image_width(self.set);
        let first_line = self.set.starts[text].first_line as usize;
        let roots = &judge.line_roots[first_root as usize..];
        let mut near = [0; N_LANES];
        let first_start = self.prepared.row_start[self.rows.start];
        for row in self.rows.clone() {
            let sums = &sums[(row - self.rows.start) * width + first_line..];
            let least = judge.least_cosine * judge.row_roots[row] as f32;
            let lane = (self.prepared.row_start[row] - first_start) as usize;
            near[lane % N_LANES] |=
                kernel.reach(&sums[first_lines..], sums[0], roots, least, n_sums);
        }
        Some(near)
    }

    #[inline(always)]
    fn similarity(&mut self, a: usize, b: usize, lcs: u32, sum: u32) -> Option<f64> {
        if !self.ready {
            self.build_image();
        }
        let judge = self.judge;
        let product = self.product(a, b) as f64;
        let lexical_part = (1.0 - judge.weight) * lexical(lcs, sum);
        // Without a root and a quotient: most pairs are far from a match. SLACK is far more than rounding.
        let roots = judge.row_roots[a] * judge.row_roots[b];
        if lexical_part * roots + judge.weight * product < (judge.eta - SLACK) * roots {
            return None;
        }
        let emb = cosine(product, judge.row_norms[a], judge.row_norms[b]);
        let similarity = lexical_part + judge.weight * emb;
        (similarity >= judge.eta).then_some(similarity)
    }
}

/// Exactly 1 for equal vectors (`sqrt(x·x) = x` in IEEE arithmetic), 0 when one is zero.
fn cosine(product: f64, norm_a: i64, norm_b: i64) -> f64 {
    if norm_a == 0 || norm_b == 0 {
        return 0.0;
    }
    (product / (norm_a as f64 * norm_b as f64).sqrt()).clamp(-1.0, 1.0)
}
