//! The loss computed twice, and what differs.

use std::collections::BTreeMap;

use hunkwise::Device;
use hunkwise::error::Result;
use hunkwise::loss::{FloatsMut, PolicyLossConfig, PolicyOutputs, Upstream, policy_loss};
use hunkwise::reference;
use serde::Serialize;

use super::input::Tensors;

/// Everything that the command found. A number that is not finite is `null` in JSON.
#[derive(Serialize)]
pub(super) struct Check {
    /// Rows and tokens in words.
    pub(super) layout: String,
    /// Dtype of the log-probs.
    pub(super) dtype: &'static str,
    pub(super) config: PolicyLossConfig,
    pub(super) loss: Values,
    pub(super) numerator: Values,
    pub(super) denominator: Values,
    pub(super) metrics: BTreeMap<&'static str, Values>,
    pub(super) comparisons: Vec<Comparison>,
    /// The tokens under the mask.
    pub(super) tokens: Vec<Token>,
}

/// One number in every way that it was computed.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Values {
    /// In f64.
    pub(super) reference: f64,
    /// On the fast path.
    pub(super) fast: f64,
    /// By the trainer, when the file says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trainer: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Token {
    pub(super) row: usize,
    /// Position in the row.
    pub(super) token: usize,
    pub(super) log_prob: f32,
    pub(super) advantage: f32,
    pub(super) token_loss: Values,
    pub(super) grad_log_prob: Values,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grad_entropy: Option<Values>,
}

/// The largest difference from the reference.
#[derive(Serialize)]
pub(super) struct Comparison {
    /// `fast` or `trainer`.
    pub(super) of: &'static str,
    /// `loss`, `token_loss`, `grad_log_prob` or `grad_entropy`.
    pub(super) what: &'static str,
    /// Relative to the scale that `--tolerance` names; infinite where one value is finite and the other is not.
    pub(super) difference: f64,
    /// Row and token of it; a trainer's value where the mask is 0 is looked at too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<(usize, usize)>,
    pub(super) is_equal: bool,
}

pub(super) fn check(tensors: &Tensors, config: PolicyLossConfig, tolerance: f64) -> Result<Check> {
    let batch = tensors.batch();
    let n = batch.log_prob.len();
    let (mut token_loss, mut grad_log_prob) = (vec![0f32; n], vec![0f32; n]);
    let mut grad_entropy = batch.entropy.map(|_| vec![0f32; n]);
    let outputs = PolicyOutputs {
        grad_log_prob: Some(FloatsMut::F32(&mut grad_log_prob)),
        grad_entropy: grad_entropy.as_deref_mut().map(FloatsMut::F32),
        token_loss: Some(FloatsMut::F32(&mut token_loss)),
    };
    let upstream = Upstream::Loss(tensors.upstream);
    let fast = policy_loss(&Device::cpu(), &batch, &config, upstream, outputs)?;
    let mut wanted = reference::loss::policy_loss(&batch, &config);
    for gradient in wanted.grad_log_prob.iter_mut().chain(&mut wanted.grad_entropy) {
        *gradient *= f64::from(tensors.upstream);
    }

    let trainer = &tensors.trainer;
    let values = |reference, fast| Values { reference, fast, trainer: None };
    let loss = Values { trainer: trainer.loss, ..values(wanted.loss(), fast.loss()) };
    let series = [
        Series::new("token_loss", &wanted.token_loss, &token_loss, trainer.token_loss.as_deref()),
        Series::new(
            "grad_log_prob",
            &wanted.grad_log_prob,
            &grad_log_prob,
            trainer.grad_log_prob.as_deref(),
        ),
    ];
    let of_entropy = grad_entropy
        .as_ref()
        .map(|fast| Series::new("grad_entropy", &wanted.grad_entropy, fast, None));

    let mut comparisons = Vec::new();
    let scale = wanted.token_loss.iter().map(|share| share.abs()).sum();
    let mut compare = |of, what, difference: f64, at: Option<usize>| {
        let at = at.map(|at| tensors.rows.place_of(at));
        let is_equal = difference <= tolerance;
        comparisons.push(Comparison { of, what, difference, at, is_equal });
    };
    compare("fast", "loss", relative(loss.fast, loss.reference, scale), None);
    for one in series.iter().chain(&of_entropy) {
        let (difference, at) = one.largest(&one.fast);
        compare("fast", one.what, difference, at);
    }
    if let Some(loss_there) = trainer.loss {
        compare("trainer", "loss", relative(loss_there, loss.reference, scale), None);
    }
    for one in &series {
        if let Some(theirs) = one.trainer {
            let (difference, at) = one.largest(theirs);
            compare("trainer", one.what, difference, at);
        }
    }

    let tokens = (0..n).filter(|&t| batch.mask[t]).map(|t| {
        let (row, token) = tensors.rows.place_of(t);
        Token {
            row,
            token,
            log_prob: batch.log_prob.get(t),
            advantage: tensors.advantage(t, row, token),
            token_loss: series[0].at(t),
            grad_log_prob: series[1].at(t),
            grad_entropy: of_entropy.as_ref().map(|one| one.at(t)),
        }
    });
    let metrics = wanted.metrics.named().into_iter().zip(fast.metrics.named());
    Ok(Check {
        layout: tensors.rows.name(),
        dtype: tensors.dtype.name(),
        loss,
        numerator: values(wanted.numerator, fast.numerator),
        denominator: values(wanted.denominator, fast.denominator),
        metrics: metrics.map(|((name, a), (_, b))| (name, values(a, b))).collect(),
        tokens: tokens.collect(),
        comparisons,
        config,
    })
}

/// Values of every token in every way that they were computed.
struct Series<'a> {
    what: &'static str,
    reference: &'a [f64],
    fast: Vec<f64>,
    trainer: Option<&'a [f64]>,
}

impl<'a> Series<'a> {
    fn new(
        what: &'static str,
        reference: &'a [f64],
        fast: &[f32],
        trainer: Option<&'a [f64]>,
    ) -> Self {
        Series { what, reference, fast: fast.iter().copied().map(f64::from).collect(), trainer }
    }

    fn at(&self, t: usize) -> Values {
        Values {
            reference: self.reference[t],
            fast: self.fast[t],
            trainer: self.trainer.map(|values| values[t]),
        }
    }

    /// The largest difference from the reference, and its position; none where nothing differs.
    fn largest(&self, values: &[f64]) -> (f64, Option<usize>) {
        let finite = self.reference.iter().filter(|value| value.is_finite());
        let scale = finite.fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let mut found = (0.0, None);
        for (t, (&value, &reference)) in values.iter().zip(self.reference).enumerate() {
            let difference = relative(value, reference, scale);
            if difference > found.0 {
                found = (difference, Some(t));
            }
        }
        found
    }
}

fn relative(value: f64, reference: f64, scale: f64) -> f64 {
    let is_same = value == reference || (value.is_nan() && reference.is_nan());
    match (value - reference).abs() {
        _ if is_same => 0.0,
        difference if difference.is_finite() && scale > 0.0 => difference / scale,
        _ => f64::INFINITY,
    }
}
