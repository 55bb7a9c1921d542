//! From hidden states and the weight of the LM head to the policy loss and its gradients.

use super::contributing::contributing;
use super::{Floats, LinearGradients, LogitsBatch, PolicyLoss, PolicyLossConfig, Upstream};
use crate::backend::cpu::linear_loss as cpu;
#[cfg(feature = "cuda")]
use crate::backend::cuda::linear_loss as cuda;
#[cfg(feature = "wgpu")]
use crate::backend::wgpu::linear_loss as wgpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::params::arrays::Head;

const OP: &str = "linear_loss";

/// The policy loss of the logits `hidden · weightᵀ`, which never exist all at once.
///
/// `hidden` is `[targets.len(), n_hidden]`, one row for each token: that which predicts the token, so of the position
/// before it. `weight` is `[n_columns, n_hidden]`; rows from `n_vocab` on are padding, never read. Gives the loss and
/// the log-probs.
///
/// A token that can change neither loss nor gradient is not multiplied: one outside the mask, and, without KL and
/// entropy bonus, one with an advantage of 0 (with sequence-level ratios or weights, when its whole row has). The
/// log-prob of the latter is NaN, and it is in no metric but `n_tokens` and `n_skipped`. Tokens whose gradient is 0,
/// for instance by clipping, are left out of the products that go back.
///
/// Logits are f32 and so are all sums of the products; the log-prob of a token has the same bits in every batch, all
/// results for every number of threads. A NaN among the log-probs makes the gradient of the weight NaN (unless
/// [`NonFinite::Skip`](super::NonFinite::Skip)), as it must. Memory beyond the arguments: one chunk of at most 128 MiB
/// of logits (or 96 rows), and about 80 bytes a token. Sequence-level ratios take the product forward twice.
///
/// # Errors
/// As [`logits_loss`](super::logits_loss); [`Error::Shape`] for lengths that do not fit.
pub fn linear_loss(
    device: &Device,
    hidden: Floats<'_>,
    weight: Floats<'_>,
    batch: &LogitsBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    gradients: LinearGradients<'_>,
) -> Result<(PolicyLoss, Vec<f32>)> {
    let rows = &batch.rows;
    let n = rows.targets.len();
    let shape = |what: String| Err(Error::Shape { op: OP, what });
    let Some(n_logits) = n.checked_mul(rows.n_columns) else {
        return shape(format!("{n} targets times {} columns are too many", rows.n_columns));
    };
    rows.validate(OP, n_logits)?;
    let n_hidden = weight.len() / rows.n_columns;
    if n_hidden == 0 || n_hidden * rows.n_columns != weight.len() {
        let (given, n_columns) = (weight.len(), rows.n_columns);
        return shape(format!("`weight` has {given} values, which are not {n_columns} rows"));
    }
    if n.checked_mul(n_hidden) != Some(hidden.len()) {
        let given = hidden.len();
        return shape(format!("`hidden` has {given} values, not {n} targets times {n_hidden}"));
    }
    let lengths = [
        ("hidden", gradients.hidden.as_ref().map(|grad| grad.len()), hidden.len()),
        ("weight", gradients.weight.as_ref().map(|grad| grad.len()), weight.len()),
    ];
    for (name, given, len) in lengths {
        if let Some(given) = given.filter(|given| *given != len) {
            return shape(format!("the gradient by `{name}` has {given} values for {len}"));
        }
    }
    let nothing = vec![0f32; n];
    let policy = batch.policy(&nothing, config, upstream)?;
    let contributing = contributing(&policy, config);
    let head = Head { hidden, weight, n_hidden, contributing: &contributing };
    match device {
        Device::Cpu(device) => {
            Ok(cpu::linear_loss(device, head, rows, &policy, config, upstream, gradients))
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            cuda::linear_loss(device, head, rows, &policy, config, upstream, gradients)
        }
        #[cfg(feature = "wgpu")]
        Device::Wgpu(device) => {
            wgpu::linear_loss(device, head, rows, &policy, config, upstream, gradients)
        }
    }
}
