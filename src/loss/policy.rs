//! The policy loss over log-probs.

use super::{PolicyBatch, PolicyLoss, PolicyLossConfig, PolicyOutputs, TokenLoss, Upstream};
use crate::backend::cpu::policy_loss as cpu;
#[cfg(feature = "cuda")]
use crate::backend::cuda::policy_loss as cuda;
#[cfg(feature = "wgpu")]
use crate::backend::wgpu::policy_loss as wgpu;
use crate::device::Device;
use crate::error::Result;

/// Loss, gradient and metrics in one pass over the tokens.
///
/// The gradient is that of `upstream · loss` by `log_prob`; where there is no token it is 0. Time is that of reading the
/// inputs and writing the outputs once; sequence-level ratios read them twice. Memory beyond the outputs: about 300
/// bytes for each row or 4,096 tokens.
///
/// # Errors
/// [`Error::Config`](crate::Error::Config) for a parameter out of its range or without its array,
/// [`Error::Shape`](crate::Error::Shape) for arrays that do not fit each other.
///
/// ```
/// use hunkwise::loss::*;
///
/// let log_prob = [-0.9f32, -1.2, -0.3];
/// let old = [-1.0f32, -1.0, -0.3];
/// let batch = PolicyBatch {
///     log_prob: Floats::F32(&log_prob),
///     old: Some(Floats::F32(&old)),
///     reference: None,
///     rollout: None,
///     entropy: None,
///     mask: &[true, true, false],
///     advantages: Advantages::Rows(&[1.0]),
///     layout: Layout::Padded { n_rows: 1, n_columns: 3 },
///     denominator: None,
/// };
/// let mut grad = [0f32; 3];
/// let outputs = PolicyOutputs { grad_log_prob: Some(FloatsMut::F32(&mut grad)), ..Default::default() };
/// let device = hunkwise::Device::cpu();
/// let result = policy_loss(&device, &batch, &PolicyLossConfig::grpo(), Upstream::Loss(1.0), outputs)?;
/// assert!((result.loss() + (0.1f64.exp() + (-0.2f64).exp()) / 2.0).abs() < 1e-6);
/// assert_eq!(grad[2], 0.0);
/// # Ok::<(), hunkwise::Error>(())
/// ```
pub fn policy_loss(
    device: &Device,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> Result<PolicyLoss> {
    validate(batch, config, upstream, &outputs)?;
    match device {
        Device::Cpu(device) => Ok(cpu::policy_loss(device, batch, config, upstream, outputs)),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::policy_loss(device, batch, config, upstream, outputs),
        #[cfg(feature = "wgpu")]
        Device::Wgpu(device) => wgpu::policy_loss(device, batch, config, upstream, outputs),
    }
}

/// [`policy_loss`] with a token loss of one's own; `config.surrogate` is not looked at. On the host only.
///
/// # Errors
/// As [`policy_loss`].
pub fn policy_loss_with(
    device: &Device,
    token_loss: &impl TokenLoss,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> Result<PolicyLoss> {
    validate(batch, config, upstream, &outputs)?;
    match device {
        Device::Cpu(device) => {
            Ok(cpu::policy_loss_with(device, token_loss, batch, config, upstream, outputs))
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(_) => Err(device.lacks("policy_loss_with")),
        #[cfg(feature = "wgpu")]
        Device::Wgpu(_) => Err(device.lacks("policy_loss_with")),
    }
}

fn validate(
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: &PolicyOutputs<'_>,
) -> Result<()> {
    config.validate()?;
    batch.validate(config)?;
    upstream.validate(batch.layout, batch.log_prob.len())?;
    outputs.validate(batch.log_prob.len())
}
