//! Policy loss from hidden states and the weight of the LM head. Logits exist for one chunk of rows at a time; only
//! rows that can change the loss are multiplied.
//!
//! Where a token's gradient is known from its own log-prob, a chunk goes forward and back at once. Where it takes the
//! whole row (sequence-level ratios), every chunk is read first, and those with a gradient are multiplied once more.

mod contributing;
mod gemm;

use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

pub(in crate::backend) use self::contributing::contributing;
use self::gemm::{Matrix, MatrixMut};
use super::Cpu;
use super::logits_loss::{Element, Token};
use super::policy_loss::{policy_loss_of_known, takes_whole_rows};
use crate::params::arrays::{
    Floats, FloatsMut, LinearGradients, LogitsRows, PolicyBatch, PolicyLoss, PolicyOutputs,
    Upstream,
};
use crate::params::loss::PolicyLossConfig;

/// Rows are multiplied this many at a time, the last ones with rows of zeros, so that a row's logits do not depend on
/// what is beside it: `gemm` takes other ways for at most 64.
const ROWS: usize = 96;
/// Bytes of logits in a chunk, unless [`ROWS`] rows have more.
const CHUNK_BYTES: usize = 128 << 20;
/// Most rows of a chunk: more would not make the products faster.
const MOST_ROWS: usize = 4 * ROWS;
/// Tokens of the vocabulary that one thread multiplies at a time.
const VOCAB_BLOCK: usize = 512;
/// Columns of the hidden states whose gradient one thread computes at a time.
const HIDDEN_BLOCK: usize = 128;

/// Hidden states `[n, n_hidden]` and the weight `[n_columns, n_hidden]`.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) hidden: Floats<'a>,
    pub(crate) weight: Floats<'a>,
    pub(crate) n_hidden: usize,
}

/// The policy loss of the targets' log-probs. `batch.log_prob` and `batch.entropy` are replaced by what the head gives.
/// Everything has been validated. Returns the log-probs too: 0 without mask, NaN where none was computed.
pub(crate) fn linear_loss(
    device: &Cpu,
    head: Head<'_>,
    rows: &LogitsRows<'_>,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    mut gradients: LinearGradients<'_>,
) -> (PolicyLoss, Vec<f32>) {
    let n = rows.targets.len();
    let known = contributing(batch, config);
    let wanted: Vec<usize> = (0..n).filter(|&i| known[i]).collect();
    let has_gradient = gradients.hidden.is_some() || gradients.weight.is_some();
    let at_once = has_gradient && !takes_whole_rows(config);

    let mut tokens = vec![Token::UNREAD; n];
    let mut log_prob: Vec<f32> =
        (0..n).map(|i| if batch.mask[i] && !known[i] { f32::NAN } else { 0.0 }).collect();
    let mut entropy = vec![0f32; n];
    let mut by = Partials { log_prob: vec![0.0; n], entropy: vec![0.0; n] };
    if let Some(hidden) = &mut gradients.hidden {
        fill_zeros(hidden);
    }

    let mut chunk = Chunk::new(device, head, rows, wanted.len());
    let per_chunk = chunk.most_rows();
    for at in wanted.chunks(per_chunk) {
        chunk.forward(at);
        chunk.read(at, &mut tokens);
        for &i in at {
            log_prob[i] = tokens[i].log_prob as f32;
            entropy[i] = tokens[i].entropy() as f32;
        }
        if at_once {
            let mut these = vec![false; n];
            at.iter().for_each(|&i| these[i] = true);
            let batch = of_log_probs(batch, &log_prob, &entropy);
            policy_loss_of_known(device, &batch, &these, config, upstream, by.outputs());
            chunk.backward(at, &tokens, &by, &mut gradients);
        }
    }
    let batch = of_log_probs(batch, &log_prob, &entropy);
    let outputs = if has_gradient && !at_once { by.outputs() } else { PolicyOutputs::default() };
    let result = policy_loss_of_known(device, &batch, &known, config, upstream, outputs);
    if has_gradient && !at_once {
        let moved: Vec<usize> = wanted.into_iter().filter(|&i| by.is_some(i)).collect();
        for at in moved.chunks(per_chunk) {
            chunk.forward(at);
            chunk.backward(at, &tokens, &by, &mut gradients);
        }
    }
    (result, log_prob)
}

fn of_log_probs<'a>(
    batch: &PolicyBatch<'a>,
    log_prob: &'a [f32],
    entropy: &'a [f32],
) -> PolicyBatch<'a> {
    PolicyBatch { log_prob: Floats::F32(log_prob), entropy: Some(Floats::F32(entropy)), ..*batch }
}

/// Gradients of the loss by what the head gives for each token.
struct Partials {
    log_prob: Vec<f32>,
    entropy: Vec<f32>,
}

impl Partials {
    fn outputs(&mut self) -> PolicyOutputs<'_> {
        PolicyOutputs {
            grad_log_prob: Some(FloatsMut::F32(&mut self.log_prob)),
            grad_entropy: Some(FloatsMut::F32(&mut self.entropy)),
            token_loss: None,
        }
    }

    /// Whether the token has a gradient; NaN is one.
    fn is_some(&self, i: usize) -> bool {
        self.log_prob[i] != 0.0 || self.entropy[i] != 0.0
    }
}

/// Some rows of hidden states, and their logits or the gradient by them.
struct Chunk<'a> {
    device: &'a Cpu,
    head: Head<'a>,
    rows: &'a LogitsRows<'a>,
    /// `[most_rows, n_hidden]`.
    hidden: Vec<f32>,
    /// `[most_rows, n_vocab]`.
    logits: Vec<f32>,
    /// `[most_rows, n_hidden]`, once there is one.
    grad_hidden: Vec<f32>,
}

impl<'a> Chunk<'a> {
    fn new(device: &'a Cpu, head: Head<'a>, rows: &'a LogitsRows<'a>, n_wanted: usize) -> Self {
        let most = CHUNK_BYTES / (4 * rows.n_vocab) / ROWS * ROWS;
        let most = most.clamp(ROWS, MOST_ROWS).min(n_wanted.next_multiple_of(ROWS));
        Chunk {
            device,
            head,
            rows,
            hidden: vec![0.0; most * head.n_hidden],
            logits: vec![0.0; most * rows.n_vocab],
            grad_hidden: vec![],
        }
    }

    fn most_rows(&self) -> usize {
        (self.logits.len() / self.rows.n_vocab).max(1)
    }

    /// Makes the logits of the tokens `at`.
    fn forward(&mut self, at: &[usize]) {
        let Head { weight, n_hidden, hidden } = self.head;
        let n_vocab = self.rows.n_vocab;
        self.hidden.par_chunks_exact_mut(n_hidden).enumerate().for_each(|(j, row)| {
            match at.get(j) {
                Some(i) => widen(hidden, i * n_hidden, row),
                None => row.fill(0.0),
            }
        });
        let n_rows = at.len().next_multiple_of(ROWS);
        let hidden = Matrix::new(&self.hidden[..n_rows * n_hidden], n_hidden);
        MatrixMut::new(&mut self.logits[..n_rows * n_vocab], n_vocab)
            .column_blocks(VOCAB_BLOCK)
            .into_par_iter()
            .zip(vocab_blocks(n_vocab))
            .for_each_init(Vec::new, |buffer, (mut logits, block)| {
                let weight = part(weight, n_hidden, block, 0..n_hidden, buffer);
                logits.multiply(hidden, weight.transposed(), false);
            });
    }

    fn read(&self, at: &[usize], tokens: &mut [Token]) {
        let (simd, rows) = (self.device.simd(), self.rows);
        let read: Vec<Token> = self.logits[..at.len() * rows.n_vocab]
            .par_chunks_exact(rows.n_vocab)
            .zip(at)
            .map(|(row, &i)| Token::read(simd, row, rows, i))
            .collect();
        for (token, &i) in read.into_iter().zip(at) {
            tokens[i] = token;
        }
    }

    /// Makes the gradient by the logits out of them, and of it those by the hidden states and the weight.
    fn backward(
        &mut self,
        at: &[usize],
        tokens: &[Token],
        by: &Partials,
        gradients: &mut LinearGradients<'_>,
    ) {
        let (simd, rows, n_hidden) = (self.device.simd(), self.rows, self.head.n_hidden);
        let n_vocab = rows.n_vocab;
        // A row without gradient must not be multiplied: it may be NaN.
        let mut moved = Vec::with_capacity(at.len());
        for (j, &i) in at.iter().enumerate().filter(|(_, i)| by.is_some(**i)) {
            let to = moved.len();
            if to != j {
                self.logits.copy_within(j * n_vocab..(j + 1) * n_vocab, to * n_vocab);
                self.hidden.copy_within(j * n_hidden..(j + 1) * n_hidden, to * n_hidden);
            }
            moved.push(i);
        }
        if moved.is_empty() {
            return;
        }
        let n_moved = moved.len();
        self.logits[..n_moved * n_vocab].par_chunks_exact_mut(n_vocab).zip(&moved).for_each(
            |(row, &i)| {
                let by = (by.log_prob[i], by.entropy[i]);
                tokens[i].write(simd, None, row, rows, i, by);
            },
        );
        if let Some(grad) = &mut gradients.weight {
            let logits = Matrix::new(&self.logits[..n_moved * n_vocab], n_vocab);
            let hidden = Matrix::new(&self.hidden[..n_moved * n_hidden], n_hidden);
            grad[..n_vocab * n_hidden]
                .par_chunks_mut(VOCAB_BLOCK * n_hidden)
                .zip(vocab_blocks(n_vocab))
                .for_each(|(grad, block)| {
                    let logits = logits.columns(block).transposed();
                    MatrixMut::new(grad, n_hidden).multiply(logits, hidden, true);
                });
        }
        if let Some(grad) = &mut gradients.hidden {
            self.hidden_gradient(n_moved);
            for (row, &i) in self.grad_hidden.chunks_exact(n_hidden).zip(&moved) {
                narrow(row, grad, i * n_hidden);
            }
        }
    }

    /// Multiplies the gradients by the first `n_moved` rows of logits with the weight.
    fn hidden_gradient(&mut self, n_moved: usize) {
        let Head { weight, n_hidden, .. } = self.head;
        let n_vocab = self.rows.n_vocab;
        let n_rows = n_moved.next_multiple_of(ROWS);
        self.grad_hidden.resize(self.hidden.len(), 0.0);
        let logits = Matrix::new(&self.logits[..n_rows * n_vocab], n_vocab);
        let blocks = MatrixMut::new(&mut self.grad_hidden[..n_rows * n_hidden], n_hidden)
            .column_blocks(HIDDEN_BLOCK);
        blocks.into_par_iter().enumerate().for_each(|(j, mut grad)| {
            let mut buffer = Vec::new();
            let columns = j * HIDDEN_BLOCK..((j + 1) * HIDDEN_BLOCK).min(n_hidden);
            for block in (0..n_vocab).step_by(VOCAB_BLOCK) {
                let block = block..(block + VOCAB_BLOCK).min(n_vocab);
                let add = block.start > 0;
                let weight = part(weight, n_hidden, block.clone(), columns.clone(), &mut buffer);
                grad.multiply(logits.columns(block), weight, add);
            }
        });
    }
}

fn vocab_blocks(n_vocab: usize) -> impl IndexedParallelIterator<Item = Range<usize>> {
    let n_blocks = n_vocab.div_ceil(VOCAB_BLOCK);
    (0..n_blocks)
        .into_par_iter()
        .map(move |block| block * VOCAB_BLOCK..((block + 1) * VOCAB_BLOCK).min(n_vocab))
}

/// Rows and columns of the weight: where they lie, or as f32 in `buffer`.
fn part<'a>(
    weight: Floats<'a>,
    n_hidden: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    buffer: &'a mut Vec<f32>,
) -> Matrix<'a> {
    if let Floats::F32(weight) = weight {
        let rows = &weight[rows.start * n_hidden..rows.end * n_hidden];
        return Matrix::new(rows, n_hidden).columns(columns);
    }
    buffer.resize(rows.len() * columns.len(), 0.0);
    for (row, to) in rows.zip(buffer.chunks_exact_mut(columns.len())) {
        widen(weight, row * n_hidden + columns.start, to);
    }
    Matrix::new(buffer, columns.len())
}

fn widen(from: Floats<'_>, at: usize, to: &mut [f32]) {
    let at = at..at + to.len();
    match from {
        Floats::F32(from) => to.copy_from_slice(&from[at]),
        Floats::Bf16(from) => Element::widen(&from[at], to),
        Floats::F16(from) => from[at].convert_to_f32_slice(to),
    }
}

fn narrow(from: &[f32], to: &mut FloatsMut<'_>, at: usize) {
    let at = at..at + from.len();
    match to {
        FloatsMut::F32(to) => to[at].copy_from_slice(from),
        FloatsMut::Bf16(to) => Element::narrow(from, &mut to[at]),
        FloatsMut::F16(to) => Element::narrow(from, &mut to[at]),
    }
}

fn fill_zeros(values: &mut FloatsMut<'_>) {
    match values {
        FloatsMut::F32(values) => values.fill(0.0),
        FloatsMut::Bf16(values) => values.fill(half::bf16::ZERO),
        FloatsMut::F16(values) => values.fill(half::f16::ZERO),
    }
}
