//! From logits to log-probs, and to the policy loss with its gradient by the logits.

use super::{
    Advantages, Floats, Layout, Logits, LogitsRows, PolicyBatch, PolicyLoss, PolicyLossConfig,
    Temperature, Upstream,
};
use crate::backend::cpu::logits_loss as cpu;
#[cfg(feature = "cuda")]
use crate::backend::cuda::logits_loss as cuda;
#[cfg(feature = "wgpu")]
use crate::backend::wgpu::logits_loss as wgpu;
use crate::device::Device;
use crate::error::{Error, Result};

/// Log-prob of each row's target under `softmax(logits / temperature)`, and the entropy of that distribution in nats.
///
/// Logits are `[targets.len(), n_columns]`, read once, never written. A target outside the vocabulary, NaN or +inf
/// among the logits, or no finite logit makes the row's numbers NaN; a logit of -inf has probability 0. Rows whose
/// `mask` is false are not read and get 0.
///
/// # Errors
/// [`Error::Shape`] for lengths that do not fit, [`Error::Config`] for a temperature that is not above 0.
pub fn token_logprob(
    device: &Device,
    logits: Floats<'_>,
    rows: &LogitsRows<'_>,
    mask: Option<&[bool]>,
    log_prob: &mut [f32],
    entropy: Option<&mut [f32]>,
) -> Result<()> {
    const OP: &str = "token_logprob";
    rows.validate(OP, logits.len())?;
    let n = rows.targets.len();
    let lengths = [
        ("mask", mask.map(<[bool]>::len)),
        ("log_prob", Some(log_prob.len())),
        ("entropy", entropy.as_ref().map(|entropy| entropy.len())),
    ];
    for (name, len) in lengths {
        if let Some(len) = len.filter(|len| *len != n) {
            return Err(Error::Shape {
                op: OP,
                what: format!("`{name}` has {len} values for {n} targets"),
            });
        }
    }
    match device {
        Device::Cpu(device) => cpu::token_logprob(device, logits, rows, mask, log_prob, entropy),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            cuda::token_logprob(device, logits, rows, mask, log_prob, entropy)?;
        }
        #[cfg(feature = "wgpu")]
        Device::Wgpu(device) => {
            wgpu::token_logprob(device, logits, rows, mask, log_prob, entropy)?;
        }
    }
    Ok(())
}

/// What [`logits_loss`] and [`linear_loss`](super::linear_loss) read beside logits or hidden states: as [`PolicyBatch`], whose log-probs and entropies the logits give.
#[derive(Debug, Clone, Copy)]
pub struct LogitsBatch<'a> {
    /// Targets, width and temperature.
    pub rows: LogitsRows<'a>,
    /// Old log-probs; `None` for a ratio of 1 with its gradient.
    pub old: Option<Floats<'a>>,
    /// Log-probs under the reference policy.
    pub reference: Option<Floats<'a>>,
    /// Log-probs of the rollout engine.
    pub rollout: Option<Floats<'a>>,
    /// True where the token is trained; other rows of logits are not read.
    pub mask: &'a [bool],
    /// Advantages.
    pub advantages: Advantages<'a>,
    /// Which tokens make a sequence.
    pub layout: Layout<'a>,
    /// The global count, if it is not that of this call.
    pub denominator: Option<f64>,
}

/// The policy loss of the targets' log-probs, with its gradient by the logits where [`Logits`] says so.
///
/// Gives the loss and the log-probs. The gradient of a row that is not trained or has none is 0, as is that of padded
/// columns. Memory beyond the arguments: about 60 bytes a token. Entropies are always in the metrics.
///
/// # Errors
/// As [`policy_loss`](super::policy_loss) and [`token_logprob`]; [`Error::Shape`] for a gradient of another shape or
/// dtype.
pub fn logits_loss(
    device: &Device,
    logits: Logits<'_>,
    batch: &LogitsBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
) -> Result<(PolicyLoss, Vec<f32>)> {
    const OP: &str = "logits_loss";
    let n_logits = logits.len();
    if let Logits::Into { logits, grad } = &logits {
        let same_dtype =
            std::mem::discriminant(logits) == std::mem::discriminant(&grad.as_floats());
        if !same_dtype || n_logits != grad.len() {
            let given = grad.len();
            let what = format!(
                "`grad` has {given} values, `logits` {n_logits}; both must have one shape and dtype"
            );
            return Err(Error::Shape { op: OP, what });
        }
    }
    batch.rows.validate(OP, n_logits)?;
    let nothing = vec![0f32; batch.rows.targets.len()];
    let policy = batch.policy(&nothing, config, upstream)?;
    match device {
        Device::Cpu(device) => {
            Ok(cpu::logits_loss(device, logits, &batch.rows, &policy, config, upstream))
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            cuda::logits_loss(device, logits, &batch.rows, &policy, config, upstream)
        }
        #[cfg(feature = "wgpu")]
        Device::Wgpu(device) => {
            wgpu::logits_loss(device, logits, &batch.rows, &policy, config, upstream)
        }
    }
}

impl<'a> LogitsBatch<'a> {
    /// The batch of the policy loss, checked, with `nothing` for the log-probs and entropies that are still to come.
    pub(super) fn policy(
        &self,
        nothing: &'a [f32],
        config: &PolicyLossConfig,
        upstream: Upstream<'_>,
    ) -> Result<PolicyBatch<'a>> {
        config.validate()?;
        let LogitsBatch { old, reference, rollout, mask, advantages, layout, denominator, .. } =
            *self;
        let policy = PolicyBatch {
            log_prob: Floats::F32(nothing),
            old,
            reference,
            rollout,
            entropy: Some(Floats::F32(nothing)),
            mask,
            advantages,
            layout,
            denominator,
        };
        policy.validate(config)?;
        upstream.validate(layout, nothing.len())?;
        Ok(policy)
    }
}

impl LogitsRows<'_> {
    pub(super) fn validate(&self, op: &'static str, n_logits: usize) -> Result<()> {
        let n = self.targets.len();
        if n.checked_mul(self.n_columns) != Some(n_logits) {
            let what = format!(
                "`logits` has {n_logits} values, not {n} targets times {} columns",
                self.n_columns
            );
            return Err(Error::Shape { op, what });
        }
        if self.n_vocab == 0 || self.n_vocab > self.n_columns {
            let what = format!(
                "`n_vocab` is {}; it must be 1 to the {} columns",
                self.n_vocab, self.n_columns
            );
            return Err(Error::Shape { op, what });
        }
        let good = |t: f32| t.is_finite() && t > 0.0;
        let bad = match self.temperature {
            Temperature::One(t) => (!good(t)).then_some(t),
            Temperature::Rows(values) if values.len() != n => {
                let what = format!("`temperature` has {} values for {n} targets", values.len());
                return Err(Error::Shape { op, what });
            }
            Temperature::Rows(values) => values.iter().copied().find(|t| !good(*t)),
        };
        match bad {
            Some(t) => Err(Error::Config {
                op,
                name: "temperature",
                got: t.to_string(),
                expected: "finite and above 0",
            }),
            None => Ok(()),
        }
    }
}
