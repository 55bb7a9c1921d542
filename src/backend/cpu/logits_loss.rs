//! Log-probs and policy loss from logits, a row to a task. A row is read once for its log-prob; with a gradient it is
//! read once more and written once.

mod element;
mod softmax;

use rayon::prelude::*;

pub(super) use self::element::Element;
use self::softmax::{Read, Softmax, Write};
use super::policy_loss::policy_loss;
use super::vectorized;
use super::{Cpu, Simd};
use crate::params::arrays::{
    Floats, FloatsMut, LogitsRows, PolicyBatch, PolicyLoss, PolicyOutputs, Upstream,
};
use crate::params::loss::PolicyLossConfig;

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
            let softmax = Softmax { max: f32::NAN, log_sum: f64::NAN, entropy: f64::NAN };
            return Token { log_prob: f64::NAN, softmax };
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
    let tokens = read(device, logits, rows, mask);
    for (to, token) in log_prob.iter_mut().zip(&tokens) {
        *to = token.log_prob as f32;
    }
    for (to, token) in entropy.into_iter().flatten().zip(&tokens) {
        *to = token.entropy() as f32;
    }
}

/// Logits to be read, and where their gradient goes.
pub(crate) enum Gradient<'a> {
    None(Floats<'a>),
    InPlace(FloatsMut<'a>),
    Into(Floats<'a>, FloatsMut<'a>),
}

/// The policy loss of the targets' log-probs. `batch.log_prob` and `batch.entropy` are replaced by what the logits give.
/// Everything has been validated. Returns the log-probs too.
pub(crate) fn logits_loss(
    device: &Cpu,
    gradient: Gradient<'_>,
    rows: &LogitsRows<'_>,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
) -> (PolicyLoss, Vec<f32>) {
    let logits = match &gradient {
        Gradient::None(logits) | Gradient::Into(logits, _) => *logits,
        Gradient::InPlace(logits) => logits.as_floats(),
    };
    let tokens = read(device, logits, rows, Some(batch.mask));
    let log_prob: Vec<f32> = tokens.iter().map(|token| token.log_prob as f32).collect();
    let entropy: Vec<f32> = tokens.iter().map(|token| token.entropy() as f32).collect();
    let batch = PolicyBatch {
        log_prob: Floats::F32(&log_prob),
        entropy: Some(Floats::F32(&entropy)),
        ..*batch
    };
    let (mut by_log_prob, mut by_entropy) = (vec![0.0; tokens.len()], vec![0.0; tokens.len()]);
    let outputs = match gradient {
        Gradient::None(_) => PolicyOutputs::default(),
        _ => PolicyOutputs {
            grad_log_prob: Some(FloatsMut::F32(&mut by_log_prob)),
            grad_entropy: Some(FloatsMut::F32(&mut by_entropy)),
            token_loss: None,
        },
    };
    let result = policy_loss(device, &batch, config, upstream, outputs);
    let call = Gradients {
        device,
        rows,
        tokens: &tokens,
        by_log_prob: &by_log_prob,
        by_entropy: &by_entropy,
    };
    match gradient {
        Gradient::None(_) => {}
        Gradient::InPlace(FloatsMut::F32(grad)) => call.write(None, grad),
        Gradient::InPlace(FloatsMut::Bf16(grad)) => call.write(None, grad),
        Gradient::InPlace(FloatsMut::F16(grad)) => call.write(None, grad),
        Gradient::Into(Floats::F32(logits), FloatsMut::F32(grad)) => call.write(Some(logits), grad),
        Gradient::Into(Floats::Bf16(logits), FloatsMut::Bf16(grad)) => {
            call.write(Some(logits), grad)
        }
        Gradient::Into(Floats::F16(logits), FloatsMut::F16(grad)) => call.write(Some(logits), grad),
        Gradient::Into(..) => unreachable!("the stage has checked that both have one dtype"),
    }
    (result, log_prob)
}

fn read(
    device: &Cpu,
    logits: Floats<'_>,
    rows: &LogitsRows<'_>,
    mask: Option<&[bool]>,
) -> Vec<Token> {
    match logits {
        Floats::F32(logits) => read_of(device, logits, rows, mask),
        Floats::Bf16(logits) => read_of(device, logits, rows, mask),
        Floats::F16(logits) => read_of(device, logits, rows, mask),
    }
}

fn read_of<E: Element>(
    device: &Cpu,
    logits: &[E],
    rows: &LogitsRows<'_>,
    mask: Option<&[bool]>,
) -> Vec<Token> {
    (0..rows.targets.len())
        .into_par_iter()
        .map(|i| {
            if mask.is_some_and(|mask| !mask[i]) {
                return Token::UNREAD;
            }
            let row = &logits[i * rows.n_columns..][..rows.n_vocab];
            Token::read(device.simd(), row, rows, i)
        })
        .collect()
}

struct Gradients<'a> {
    device: &'a Cpu,
    rows: &'a LogitsRows<'a>,
    tokens: &'a [Token],
    by_log_prob: &'a [f32],
    by_entropy: &'a [f32],
}

impl Gradients<'_> {
    fn write<E: Element>(&self, logits: Option<&[E]>, grad: &mut [E]) {
        let LogitsRows { n_columns, n_vocab, .. } = *self.rows;
        if n_columns == 0 {
            return;
        }
        grad.par_chunks_exact_mut(n_columns).enumerate().for_each(|(i, grad)| {
            let (grad, padding) = grad.split_at_mut(n_vocab);
            padding.fill(E::ZERO);
            let row = logits.map(|logits| &logits[i * n_columns..][..n_vocab]);
            let by = (self.by_log_prob[i], self.by_entropy[i]);
            self.tokens[i].write(self.device.simd(), row, grad, self.rows, i, by);
        });
    }
}
