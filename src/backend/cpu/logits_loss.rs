//! Log-probs and policy loss from logits, a row to a task. A row is read once for its log-prob; with a gradient it is
//! read once more and written once, while it is in a cache unless the loss takes whole sequences.

mod element;
mod softmax;

use std::ops::Range;

use rayon::prelude::*;

pub(super) use self::element::Element;
use self::softmax::{Read, Softmax, Write};
use super::policy_loss::{policy_loss, policy_loss_of_known};
use super::vectorized;
use super::{Cpu, Simd};
use crate::params::arrays::{
    Floats, FloatsMut, Logits, LogitsRows, PolicyBatch, PolicyLoss, PolicyOutputs, Upstream,
};
use crate::params::loss::PolicyLossConfig;

/// Bytes of logits that are read, then made their gradient: they are to stay in the last-level cache.
const CHUNK_BYTES: usize = 16 << 20;

/// The token's log-prob, and all that its row's gradient needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) log_prob: f64,
    softmax: Softmax,
}

impl Token {
    /// A token whose row is not read.
    pub(super) const UNREAD: Token =
        Token { log_prob: 0.0, softmax: Softmax { max: 0.0, log_sum: 0.0, entropy: 0.0 } };

    /// Reads the row of logits of token `i`: those of the vocabulary, without padding.
    pub(super) fn read<E: Element>(simd: Simd, row: &[E], rows: &LogitsRows<'_>, i: usize) -> Self {
        let target = usize::try_from(rows.targets[i]).ok();
        let Some(z) = target.and_then(|target| row.get(target)) else {
            return Token { log_prob: f64::NAN, softmax: Softmax::NAN };
        };
        let temperature = rows.temperature.of(i);
        let softmax = vectorized::run(simd, Read { row, temperature });
        let d = f64::from(z.wide()) - f64::from(softmax.max);
        Token { log_prob: d / f64::from(temperature) - softmax.log_sum, softmax }
    }

    pub(super) fn entropy(&self) -> f64 {
        self.softmax.entropy
    }

    /// Makes `grad` the gradient by the logits of token `i`; they are `row`, or stand in `grad`.
    pub(super) fn write<E: Element>(
        self,
        simd: Simd,
        row: Option<&[E]>,
        grad: &mut [E],
        rows: &LogitsRows<'_>,
        i: usize,
        (by_log_prob, by_entropy): (f32, f32),
    ) {
        if by_log_prob == 0.0 && by_entropy == 0.0 {
            grad.fill(E::ZERO);
            return;
        }
        let Token { log_prob, softmax } = self;
        if by_log_prob.is_nan() || !log_prob.is_finite() {
            grad.fill(E::NAN);
            return;
        }
        let target = rows.targets[i] as usize;
        let temperature = rows.temperature.of(i);
        let write = Write { row, grad: &mut *grad, softmax, temperature, by_log_prob, by_entropy };
        vectorized::run(simd, write);
        // 1 - p without cancellation, rounded to the dtype once.
        let of_entropy = f64::from(by_entropy) * log_prob.exp() * (log_prob + softmax.entropy);
        let of_target = f64::from(by_log_prob) * -log_prob.exp_m1() - of_entropy;
        grad[target] = E::of((of_target / f64::from(temperature)) as f32);
    }
}

/// Log-probs and entropies. Everything has been validated; rows without mask get 0.
pub(crate) fn token_logprob(
    device: &Cpu,
    logits: Floats<'_>,
    rows: &LogitsRows<'_>,
    mask: Option<&[bool]>,
    log_prob: &mut [f32],
    entropy: Option<&mut [f32]>,
) {
    let all = 0..rows.targets.len();
    let tokens = match logits {
        Floats::F32(logits) => read(device, logits, rows, mask, all),
        Floats::Bf16(logits) => read(device, logits, rows, mask, all),
        Floats::F16(logits) => read(device, logits, rows, mask, all),
    };
    for (to, token) in log_prob.iter_mut().zip(&tokens) {
        *to = token.log_prob as f32;
    }
    for (to, token) in entropy.into_iter().flatten().zip(&tokens) {
        *to = token.entropy() as f32;
    }
}

/// The policy loss of the targets' log-probs. `batch.log_prob` and `batch.entropy` are replaced by what the logits give.
/// Everything has been validated. Returns the log-probs too.
pub(crate) fn logits_loss(
    device: &Cpu,
    logits: Logits<'_>,
    rows: &LogitsRows<'_>,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
) -> (PolicyLoss, Vec<f32>) {
    let mut call = Call::new(device, rows, batch, config, upstream);
    match logits {
        Logits::Read(Floats::F32(logits)) => call.read(logits, 0..rows.targets.len()),
        Logits::Read(Floats::Bf16(logits)) => call.read(logits, 0..rows.targets.len()),
        Logits::Read(Floats::F16(logits)) => call.read(logits, 0..rows.targets.len()),
        Logits::Overwrite(FloatsMut::F32(grad)) => call.read_and_write(None, grad),
        Logits::Overwrite(FloatsMut::Bf16(grad)) => call.read_and_write(None, grad),
        Logits::Overwrite(FloatsMut::F16(grad)) => call.read_and_write(None, grad),
        Logits::Into { logits: Floats::F32(logits), grad: FloatsMut::F32(grad) } => {
            call.read_and_write(Some(logits), grad);
        }
        Logits::Into { logits: Floats::Bf16(logits), grad: FloatsMut::Bf16(grad) } => {
            call.read_and_write(Some(logits), grad);
        }
        Logits::Into { logits: Floats::F16(logits), grad: FloatsMut::F16(grad) } => {
            call.read_and_write(Some(logits), grad);
        }
        Logits::Into { .. } => unreachable!("the stage has checked that both have one dtype"),
    }
    let result = policy_loss(device, &call.batch(), config, upstream, PolicyOutputs::default());
    (result, call.log_prob)
}

/// The tokens `at`; those whose mask is false are not read.
fn read<E: Element>(
    device: &Cpu,
    logits: &[E],
    rows: &LogitsRows<'_>,
    mask: Option<&[bool]>,
    at: Range<usize>,
) -> Vec<Token> {
    at.into_par_iter()
        .map(|i| {
            if mask.is_some_and(|mask| !mask[i]) {
                return Token::UNREAD;
            }
            let row = &logits[i * rows.n_columns..][..rows.n_vocab];
            Token::read(device.simd(), row, rows, i)
        })
        .collect()
}

/// A call, and what is known of its tokens so far.
struct Call<'a> {
    device: &'a Cpu,
    rows: &'a LogitsRows<'a>,
    batch: &'a PolicyBatch<'a>,
    config: &'a PolicyLossConfig,
    upstream: Upstream<'a>,
    tokens: Vec<Token>,
    log_prob: Vec<f32>,
    entropy: Vec<f32>,
}

impl<'a> Call<'a> {
    fn new(
        device: &'a Cpu,
        rows: &'a LogitsRows<'a>,
        batch: &'a PolicyBatch<'a>,
        config: &'a PolicyLossConfig,
        upstream: Upstream<'a>,
    ) -> Self {
        let n = rows.targets.len();
        let (tokens, log_prob, entropy) = (vec![Token::UNREAD; n], vec![0.0; n], vec![0.0; n]);
        Call { device, rows, batch, config, upstream, tokens, log_prob, entropy }
    }

    /// The batch with the log-probs and entropies of what was read.
    fn batch(&self) -> PolicyBatch<'_> {
        PolicyBatch {
            log_prob: Floats::F32(&self.log_prob),
            entropy: Some(Floats::F32(&self.entropy)),
            ..*self.batch
        }
    }

    fn read<E: Element>(&mut self, logits: &[E], at: Range<usize>) {
        let tokens = read(self.device, logits, self.rows, Some(self.batch.mask), at.clone());
        for (i, token) in at.zip(tokens) {
            self.log_prob[i] = token.log_prob as f32;
            self.entropy[i] = token.entropy() as f32;
            self.tokens[i] = token;
        }
    }

    /// Reads all tokens and makes `grad` their gradient; the logits are `logits`, or stand in `grad`.
    fn read_and_write<E: Element>(&mut self, logits: Option<&[E]>, grad: &mut [E]) {
        let (n, n_columns) = (self.rows.targets.len(), self.rows.n_columns);
        // As many for each thread.
        let n_threads = rayon::current_num_threads();
        let of_thread = CHUNK_BYTES / (n_columns * size_of::<E>()) / n_threads;
        let at_a_time = match self.config.takes_whole_rows() {
            true => n.max(1),
            false => of_thread.max(1) * n_threads,
        };
        let mut known = vec![false; n];
        let (mut by_log_prob, mut by_entropy) = (vec![0.0; n], vec![0.0; n]);
        for start in (0..n).step_by(at_a_time) {
            let at = start..n.min(start + at_a_time);
            self.read(logits.unwrap_or(&*grad), at.clone());
            for i in at.clone() {
                known[i] = self.batch.mask[i];
            }
            let outputs = PolicyOutputs {
                grad_log_prob: Some(FloatsMut::F32(&mut by_log_prob)),
                grad_entropy: Some(FloatsMut::F32(&mut by_entropy)),
                token_loss: None,
            };
            let (device, config) = (self.device, self.config);
            policy_loss_of_known(device, &self.batch(), &known, config, self.upstream, outputs);
            known[at.clone()].fill(false);
            let grad = &mut grad[at.start * n_columns..at.end * n_columns];
            self.write(logits, grad, at, &by_log_prob, &by_entropy);
        }
    }

    /// Makes `grad` the gradient of the tokens `at`.
    fn write<E: Element>(
        &self,
        logits: Option<&[E]>,
        grad: &mut [E],
        at: Range<usize>,
        by_log_prob: &[f32],
        by_entropy: &[f32],
    ) {
        let LogitsRows { n_columns, n_vocab, .. } = *self.rows;
        grad.par_chunks_exact_mut(n_columns).zip(at).for_each(|(grad, i)| {
            let (grad, padding) = grad.split_at_mut(n_vocab);
            padding.fill(E::ZERO);
            let row = logits.map(|logits| &logits[i * n_columns..][..n_vocab]);
            let by = (by_log_prob[i], by_entropy[i]);
            self.tokens[i].write(self.device.simd(), row, grad, self.rows, i, by);
        });
    }
}
