//! `shaders/linear_loss.wgsl`: the weight goes up in blocks of the vocabulary, tokens in chunks whose logits fit the device.
//!
//! As on the host: where a token's gradient is known from its own log-prob, a chunk goes forward and back at once; where
//! it takes the whole row, every chunk is read first, and those with a gradient are multiplied once more.

pub(super) mod product;

use std::ops::Range;

use half::slice::HalfFloatSliceExt;

use self::product::{Matrix, Product, Shape};
use super::Wgpu;
use super::driver::{Memory, Step};
use super::logits_loss::{self as logits, Fields, Row, Token, bytes_of, dtype_of};
use super::policy_loss::policy_loss_of_known;
use crate::error::{Error, Result};
use crate::params::arrays::{
    Floats, FloatsMut, Head, LinearGradients, LogitsRows, PolicyBatch, PolicyLoss, PolicyOutputs,
    Upstream,
};
use crate::params::loss::PolicyLossConfig;

/// Tokens and vocabulary are cut at multiples of this, so that sums are the same however they are cut.
const UNIT: usize = 16;
/// Bytes of the logits of a chunk, and of a block of the weight's gradient.
const MOST_LOGITS_BYTES: u64 = 128 << 20;
const MOST_BLOCK_BYTES: u64 = 128 << 20;
/// Most rows of a chunk: more would not make the products faster.
const MOST_ROWS: usize = 1024;

/// As on the host: the policy loss of the targets' log-probs, these, and the gradients asked for.
pub(crate) fn linear_loss(
    device: &Wgpu,
    head: Head<'_>,
    rows: &LogitsRows<'_>,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    mut gradients: LinearGradients<'_>,
) -> Result<(PolicyLoss, Vec<f32>)> {
    let n = rows.targets.len();
    let known = head.contributing;
    let wanted: Vec<usize> = (0..n).filter(|&i| known[i]).collect();
    let has_gradient = gradients.hidden.is_some() || gradients.weight.is_some();
    let at_once = has_gradient && !config.takes_whole_rows();
    let mut log_prob: Vec<f32> =
        (0..n).map(|i| if batch.mask[i] && !known[i] { f32::NAN } else { 0.0 }).collect();
    let mut entropy = vec![0f32; n];
    let mut tokens = vec![Token::UNREAD; n];
    let mut by = Partials { log_prob: vec![0.0; n], entropy: vec![0.0; n] };
    if let Some(hidden) = &mut gradients.hidden {
        fill_zeros(hidden);
    }

    let mut call = Call::new(device, head, rows, wanted.len(), gradients.weight.is_some())?;
    for at in wanted.chunks(call.rows_per_chunk) {
        let chunk = call.forward(at)?;
        call.read(&chunk, &mut tokens)?;
        for &i in at {
            log_prob[i] = tokens[i].log_prob as f32;
            entropy[i] = tokens[i].entropy as f32;
        }
        if at_once {
            let mut these = vec![false; n];
            at.iter().for_each(|&i| these[i] = true);
            let batch = of_log_probs(batch, &log_prob, &entropy);
            policy_loss_of_known(device, &batch, &these, config, upstream, by.outputs())?;
            call.backward(&chunk, &tokens, &by, &mut gradients)?;
        }
    }
    let batch = of_log_probs(batch, &log_prob, &entropy);
    let outputs = if has_gradient && !at_once { by.outputs() } else { PolicyOutputs::default() };
    let result = policy_loss_of_known(device, &batch, known, config, upstream, outputs)?;
    if has_gradient && !at_once {
        let moved: Vec<usize> = wanted.into_iter().filter(|&i| by.is_some(i)).collect();
        for at in moved.chunks(call.rows_per_chunk) {
            let chunk = call.forward(at)?;
            call.backward(&chunk, &tokens, &by, &mut gradients)?;
        }
    }
    if let Some(grad) = gradients.weight {
        call.add_weight_gradient(grad)?;
    }
    Ok((result, log_prob))
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

/// Tokens of the vocabulary on the device.
struct Block {
    vocab: Range<usize>,
    /// `[vocab.len(), n_hidden]`, in its dtype.
    weight: Memory,
    /// The same in f32, once something has been added to it.
    grad: Option<Memory>,
}

/// Tokens on the device, with their logits or the gradient by them.
struct Chunk {
    tokens: Vec<usize>,
    /// `[tokens, n_vocab]`.
    logits: Memory,
}

struct Call<'a> {
    device: &'a Wgpu,
    head: Head<'a>,
    rows: &'a LogitsRows<'a>,
    blocks: Vec<Block>,
    rows_per_chunk: usize,
}

impl<'a> Call<'a> {
    fn new(
        device: &'a Wgpu,
        head: Head<'a>,
        rows: &'a LogitsRows<'a>,
        n_wanted: usize,
        has_weight_gradient: bool,
    ) -> Result<Self> {
        logits::check_columns("linear_loss", rows)?;
        let limit = device.limits().binding_bytes;
        let (n_vocab, n_hidden) = (rows.n_vocab, head.n_hidden);
        let widest = n_vocab.max(n_hidden).max(Fields::WORDS) as u64;
        let most_rows = limit.min(MOST_LOGITS_BYTES) / (4 * widest);
        let rows_per_chunk = (most_rows as usize).min(MOST_ROWS) / UNIT * UNIT;
        let bytes_of_value = if dtype_of(head.weight) == 0 || has_weight_gradient { 4 } else { 2 };
        let most_vocab = limit.min(MOST_BLOCK_BYTES) / (bytes_of_value * n_hidden as u64);
        let vocab_per_block = most_vocab as usize / UNIT * UNIT;
        if rows_per_chunk == 0 || vocab_per_block == 0 {
            let needed = (4 * widest).max(bytes_of_value * n_hidden as u64) * UNIT as u64;
            return Err(Error::Limit {
                op: "linear_loss",
                what: "16 rows of logits or of the weight on the device (bytes)",
                needed,
                limit: limit.min(MOST_LOGITS_BYTES),
                advice: "use Device::cpu()",
            });
        }
        let rows_per_chunk = rows_per_chunk.min(n_wanted.next_multiple_of(UNIT).max(UNIT));
        let mut call = Call { device, head, rows, blocks: vec![], rows_per_chunk };
        if n_wanted > 0 {
            for first in (0..n_vocab).step_by(vocab_per_block) {
                let vocab = first..n_vocab.min(first + vocab_per_block);
                let values = vocab.start * n_hidden..vocab.end * n_hidden;
                let weight = device.upload(bytes_of(head.weight, values))?;
                call.blocks.push(Block { vocab, weight, grad: None });
            }
        }
        Ok(call)
    }

    /// Rows of hidden states of the tokens for which `is_wanted`, zeros for the others.
    fn hidden(&self, tokens: &[usize], is_wanted: impl Fn(usize) -> bool) -> Result<Memory> {
        let n_hidden = self.head.n_hidden;
        let mut values = vec![0f32; tokens.len() * n_hidden];
        for (to, &i) in values.chunks_exact_mut(n_hidden).zip(tokens) {
            let at = i * n_hidden..(i + 1) * n_hidden;
            match self.head.hidden {
                _ if !is_wanted(i) => {}
                Floats::F32(from) => to.copy_from_slice(&from[at]),
                Floats::Bf16(from) => from[at].convert_to_f32_slice(to),
                Floats::F16(from) => from[at].convert_to_f32_slice(to),
            }
        }
        self.device.upload(&values)
    }

    fn of_rows<'m>(&self, memory: &'m Memory, row: usize, first: usize) -> Matrix<'m> {
        Matrix { memory, dtype: 0, first, row, column: 1 }
    }

    fn weight<'m>(&self, block: &'m Block) -> Matrix<'m> {
        let (dtype, row) = (dtype_of(self.head.weight), self.head.n_hidden);
        Matrix { memory: &block.weight, dtype, first: 0, row, column: 1 }
    }

    /// Makes the logits of some tokens.
    fn forward(&self, tokens: &[usize]) -> Result<Chunk> {
        let (n_vocab, n_hidden) = (self.rows.n_vocab, self.head.n_hidden);
        let hidden = self.hidden(tokens, |_| true)?;
        let logits = self.device.zeros(4 * (tokens.len() * n_vocab) as u64)?;
        for block in &self.blocks {
            let a = self.of_rows(&hidden, n_hidden, 0);
            let c = self.of_rows(&logits, n_vocab, block.vocab.start);
            let shape = Shape { m: tokens.len(), k: n_hidden, n: block.vocab.len() };
            let b = self.weight(block).transposed();
            Product::new(self.device, a, b, c, shape, false)?.run(self.device)?;
        }
        Ok(Chunk { tokens: tokens.to_vec(), logits })
    }

    /// An entry point of the logits' shader over a chunk; `n_bytes` of what it finds.
    fn of_logits(
        &self,
        chunk: &Chunk,
        entry: &'static str,
        rows: &[Row],
        n_bytes: u64,
    ) -> Result<Vec<u32>> {
        let n_vocab = self.rows.n_vocab as u32;
        let args =
            logits::Args { n_rows: rows.len() as u32, n_vocab, row_words: n_vocab, dtype: 0 };
        let args = self.device.parameters(&args)?;
        let found = self.device.zeros(n_bytes)?;
        let workgroups = rows.len() as u32;
        let rows = self.device.upload(rows)?;
        let step = Step {
            shader: &logits::SHADER,
            size: 1,
            entry,
            memory: &[&args, &rows, &chunk.logits, &found],
            workgroups,
        };
        Ok(self.device.run(&[step], &[(&found, n_bytes)])?.swap_remove(0))
    }

    fn read(&self, chunk: &Chunk, tokens: &mut [Token]) -> Result<()> {
        let rows: Vec<Row> = chunk.tokens.iter().map(|&i| Row::to_read(self.rows, i)).collect();
        let n_bytes = 4 * (Fields::WORDS * rows.len()) as u64;
        let found = self.of_logits(chunk, "logits_read", &rows, n_bytes)?;
        for (&i, fields) in chunk.tokens.iter().zip(Fields::all(&found)) {
            tokens[i] = Token::new(fields, self.rows, i);
        }
        Ok(())
    }

    /// Makes the gradient by the logits out of them, and of it those by the hidden states and the weight.
    fn backward(
        &mut self,
        chunk: &Chunk,
        tokens: &[Token],
        by: &Partials,
        gradients: &mut LinearGradients<'_>,
    ) -> Result<()> {
        let (n_vocab, n_hidden, n) = (self.rows.n_vocab, self.head.n_hidden, chunk.tokens.len());
        if !chunk.tokens.iter().any(|&i| by.is_some(i)) {
            return Ok(());
        }
        let row = |&i: &usize| tokens[i].to_write(self.rows, i, 0, (by.log_prob[i], by.entropy[i]));
        let rows: Vec<Row> = chunk.tokens.iter().map(row).collect();
        self.of_logits(chunk, "logits_write", &rows, 0)?;
        if gradients.weight.is_some() {
            // A row without gradient must not be multiplied: it may be NaN.
            let hidden = self.hidden(&chunk.tokens, |i| by.is_some(i))?;
            for at in 0..self.blocks.len() {
                let vocab = self.blocks[at].vocab.clone();
                let is_new = self.blocks[at].grad.is_none();
                if is_new {
                    let n_bytes = 4 * (vocab.len() * n_hidden) as u64;
                    self.blocks[at].grad = Some(self.device.zeros(n_bytes)?);
                }
                let Some(grad) = &self.blocks[at].grad else { continue };
                let a = self.of_rows(&chunk.logits, n_vocab, vocab.start).transposed();
                let b = self.of_rows(&hidden, n_hidden, 0);
                let c = self.of_rows(grad, n_hidden, 0);
                let shape = Shape { m: vocab.len(), k: n, n: n_hidden };
                Product::new(self.device, a, b, c, shape, !is_new)?.run(self.device)?;
            }
        }
        if let Some(to) = &mut gradients.hidden {
            let n_bytes = 4 * (n * n_hidden) as u64;
            let grad = self.device.zeros(n_bytes)?;
            for block in &self.blocks {
                let a = self.of_rows(&chunk.logits, n_vocab, block.vocab.start);
                let c = self.of_rows(&grad, n_hidden, 0);
                let shape = Shape { m: n, k: block.vocab.len(), n: n_hidden };
                let adds = block.vocab.start > 0;
                let b = self.weight(block);
                Product::new(self.device, a, b, c, shape, adds)?.run(self.device)?;
            }
            let read = self.device.run(&[], &[(&grad, n_bytes)])?.swap_remove(0);
            let values: &[f32] = bytemuck::cast_slice(&read);
            for (from, &i) in values.chunks_exact(n_hidden).zip(&chunk.tokens) {
                if by.is_some(i) {
                    narrow(from, to, i * n_hidden);
                }
            }
        }
        Ok(())
    }

    fn add_weight_gradient(&self, to: &mut [f32]) -> Result<()> {
        let n_hidden = self.head.n_hidden;
        for Block { vocab, grad, .. } in &self.blocks {
            let Some(grad) = grad else { continue };
            let n_bytes = 4 * (vocab.len() * n_hidden) as u64;
            let read = self.device.run(&[], &[(grad, n_bytes)])?.swap_remove(0);
            let to = &mut to[vocab.start * n_hidden..vocab.end * n_hidden];
            for (to, bits) in to.iter_mut().zip(read) {
                *to += f32::from_bits(bits);
            }
        }
        Ok(())
    }
}

fn narrow(from: &[f32], to: &mut FloatsMut<'_>, at: usize) {
    let at = at..at + from.len();
    match to {
        FloatsMut::F32(to) => to[at].copy_from_slice(from),
        FloatsMut::Bf16(to) => to[at].convert_from_f32_slice(from),
        FloatsMut::F16(to) => to[at].convert_from_f32_slice(from),
    }
}

fn fill_zeros(values: &mut FloatsMut<'_>) {
    match values {
        FloatsMut::F32(values) => values.fill(0.0),
        FloatsMut::Bf16(values) => values.fill(half::bf16::ZERO),
        FloatsMut::F16(values) => values.fill(half::f16::ZERO),
    }
}
