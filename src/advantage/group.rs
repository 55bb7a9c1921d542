//! Group-relative advantages over segments, and the rules about groups that go with them.

use super::Estimator;
use super::returns::same_length;
use crate::backend;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::params::{GroupCounts, GroupForm};

/// Advantages of the members of all groups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupAdvantages {
    /// One per value given, in its order.
    pub values: Vec<f32>,
    /// What was counted on the way.
    pub counts: GroupCounts,
}

/// Advantages inside groups: group `g` has the values `offsets[g]..offsets[g + 1]`, `None` for a member without a
/// score (a value that is not finite counts as such).
///
/// Statistics run over the scored members, in their order. 0, and counted: unscored members, groups of one, groups
/// whose members are all equal, and with [`Estimator::Grpo`] groups of `ddof` members or fewer.
///
/// # Errors
/// [`Error::Shape`] when `offsets` does not run from 0 to the number of values in order; [`Error::Config`] for an eps
/// that is negative or not finite.
pub fn group_advantage(
    device: &Device,
    values: &[Option<f64>],
    offsets: &[usize],
    estimator: Estimator,
    eps: f64,
    ddof: u8,
) -> Result<GroupAdvantages> {
    weighted(device, values, None, offsets, form(estimator, eps, ddof))
}

/// The form of an estimator.
pub(super) fn form(estimator: Estimator, eps: f64, ddof: u8) -> GroupForm {
    GroupForm {
        divide: estimator == Estimator::Grpo,
        leave_one_out: estimator == Estimator::Rloo,
        eps,
        ddof: u32::from(ddof),
    }
}

pub(super) fn weighted(
    device: &Device,
    values: &[Option<f64>],
    weights: Option<&[u32]>,
    offsets: &[usize],
    form: GroupForm,
) -> Result<GroupAdvantages> {
    check_offsets("group_advantage", values.len(), offsets)?;
    if !(form.eps.is_finite() && form.eps >= 0.0) {
        let got = form.eps.to_string();
        return Err(Error::Config {
            op: "group_advantage",
            name: "eps",
            got,
            expected: "finite and at least 0",
        });
    }
    if let Some(weights) = weights {
        same_length("group_advantage", ("values", values.len()), ("weights", weights.len()))?;
    }
    let mut out = vec![0.0; values.len()];
    let counts = match device {
        Device::Cpu(_) => {
            backend::cpu::token_advantage::segments(values, weights, offsets, form, &mut out)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => backend::cuda::token_advantage::segments(
            device, values, weights, offsets, form, &mut out,
        )?,
        #[cfg(feature = "wgpu")]
        Device::Wgpu(gpu) => {
            backend::wgpu::token_advantage::segments(gpu, values, weights, offsets, form, &mut out)?
        }
    };
    Ok(GroupAdvantages { values: out, counts })
}

/// Which groups have a signal (dynamic sampling): whole groups, kept when `max - min > tol` over the scored members of
/// one named metric. Give it the outcome, not a shaped reward.
///
/// # Errors
/// [`Error::Shape`] when `offsets` does not run from 0 to the number of values in order.
pub fn keep_groups(metric: &[Option<f64>], offsets: &[usize], tol: f64) -> Result<Vec<bool>> {
    check_offsets("keep_groups", metric.len(), offsets)?;
    let keeps = |bounds: &[usize]| {
        let scored = metric[bounds[0]..bounds[1]].iter().flatten().filter(|x| x.is_finite());
        let (least, most) = scored.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &x| {
            (least.min(x), most.max(x))
        });
        most - least > tol
    };
    Ok(offsets.windows(2).map(keeps).collect())
}

/// Values brought to mean 0 and standard deviation 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whitened {
    /// One per value given; 0 outside the mask.
    pub values: Vec<f64>,
    /// Values inside the mask that entered the statistics.
    pub n_valid: usize,
    /// Values inside the mask that are not finite (outside the statistics), or whose result is not: 0 in the result.
    pub n_not_finite: usize,
}

/// `(x - mean) / (std + eps)` over the values whose mask is true; 0 for the others. With fewer than two valid values,
/// or not more than `ddof`, there is no spread to divide by and the values are left as they are; equal values give 0.
///
/// # Errors
/// [`Error::Shape`] when the lengths differ.
pub fn whiten(values: &[f64], mask: &[bool], ddof: u8, eps: f64) -> Result<Whitened> {
    same_length("whiten", ("values", values.len()), ("mask", mask.len()))?;
    let valid = || {
        values.iter().zip(mask).filter(|(x, trained)| **trained && x.is_finite()).map(|(&x, _)| x)
    };
    let n_valid = valid().count();
    let mut n_not_finite = mask.iter().filter(|&&trained| trained).count() - n_valid;
    let (mut mean, mut scale) = (0.0, 1.0);
    let scale_by_spread = n_valid >= 2 && n_valid > usize::from(ddof);
    if scale_by_spread {
        mean = valid().sum::<f64>() / n_valid as f64;
        let squares: f64 = valid().map(|x| (x - mean) * (x - mean)).sum();
        scale = (squares / (n_valid - usize::from(ddof)) as f64).sqrt() + eps;
    }
    let first = valid().next();
    let equal = valid().all(|x| Some(x) == first);
    let mut whitened = vec![0.0; values.len()];
    for i in 0..values.len() {
        if !(mask[i] && values[i].is_finite()) {
            continue;
        }
        let white = if scale_by_spread && equal { 0.0 } else { (values[i] - mean) / scale };
        // Over a spread beyond f64 everything would be 0.
        if white.is_finite() && scale.is_finite() {
            whitened[i] = white;
        } else {
            n_not_finite += 1;
        }
    }
    Ok(Whitened { values: whitened, n_valid, n_not_finite })
}

fn check_offsets(op: &'static str, n_values: usize, offsets: &[usize]) -> Result<()> {
    let ordered = offsets.windows(2).all(|bounds| bounds[0] <= bounds[1]);
    let (first, last) =
        (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    if ordered && first == 0 && last == n_values {
        return Ok(());
    }
    let what = format!("`offsets` must run in order from 0 to {n_values}, the number of values");
    Err(Error::Shape { op, what })
}
