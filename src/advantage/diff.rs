//! Diff advantages A^D: each member of an anchor's group, by the returns of the turns they stand in.
//!
//! Two forms. `within`: R - mean of the group; how a rollout did among those that share the snippet. `contrast`: mean
//! of the group without the member, minus the mean of the task's turns outside the group; how the snippet did.
//! O(groups · turns of the task).

use super::group::group_advantage;
use super::{AdvantageConfig, DiffForm, Estimator};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::params::GroupCounts;

/// A^D of all groups of one task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiffAdvantages {
    /// Per group, one per member, in the form configured.
    pub values: Vec<Vec<f32>>,
    /// What each group looks like.
    pub groups: Vec<DiffGroup>,
    /// Counts of the form configured. With `contrast`, zero spread is that of the whole task.
    pub counts: GroupCounts,
    /// Groups that hold every scored turn of the task, so that `contrast` has nothing to compare them with: 0.
    pub n_no_outside: usize,
    /// Mean of |A^D| over the scored members, had the form been `within`. 0 without members.
    pub mean_abs_within: f64,
    /// Mean of |A^D| over the scored members, had the form been `contrast`. 0 without members.
    pub mean_abs_contrast: f64,
}

/// One group, for diagnostics.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct DiffGroup {
    /// Members.
    pub size: usize,
    /// Members whose turn has a return.
    pub n_scored: usize,
    /// Smallest and largest return; both 0 without scored members.
    pub return_range: (f64, f64),
    /// Smallest and largest number of a member's turn within its trajectory, from 0; both 0 without members.
    pub turn_range: (u32, u32),
}

/// A^D of the members of each group of one task.
///
/// `groups` has the turns of each group's members, numbered through the task; `returns` and `turn_trajectory` have one
/// entry per turn of the task, trajectory by trajectory. Statistics run over the turns with a return; a member
/// without one gets 0.
///
/// With `diff_std` the advantage is divided by std + eps, of the group (`within`) or of all scored turns of the task
/// (`contrast`).
///
/// # Errors
/// [`Error::Shape`] for a turn that the task does not have or that is twice in one group; [`Error::Config`] for
/// parameters out of range.
pub fn diff(
    device: &Device,
    groups: &[Vec<u32>],
    returns: &[Option<f64>],
    turn_trajectory: &[u32],
    config: &AdvantageConfig,
) -> Result<DiffAdvantages> {
    config.validate()?;
    super::returns::same_length(
        "diff",
        ("returns", returns.len()),
        ("turn_trajectory", turn_trajectory.len()),
    )?;
    let returns: Vec<Option<f64>> =
        returns.iter().map(|value| value.filter(|value| value.is_finite())).collect();
    let numbers = turn_numbers(turn_trajectory);

    let mut seen = vec![usize::MAX; returns.len()];
    let mut offsets = vec![0];
    let mut values = Vec::new();
    for (group, members) in groups.iter().enumerate() {
        for &turn in members {
            match seen.get_mut(turn as usize) {
                Some(last) if *last != group => *last = group,
                found => {
                    let why =
                        if found.is_some() { "twice in it" } else { "not a turn of the task" };
                    let what = format!(
                        "group {group} has turn {turn}, which is {why} ({} turns)",
                        returns.len()
                    );
                    return Err(Error::Shape { op: "diff", what });
                }
            }
            values.push(returns[turn as usize]);
        }
        offsets.push(values.len());
    }

    let estimator = if config.diff_std { Estimator::Grpo } else { Estimator::GrpoNoStd };
    let within = group_advantage(device, &values, &offsets, estimator, config.eps, config.ddof)?;
    let (contrast, contrast_counts, n_no_outside) = contrast(groups, &returns, config);
    let (chosen, counts) = match config.diff {
        DiffForm::Within => (&within.values, within.counts),
        DiffForm::Contrast => (&contrast, contrast_counts),
    };
    Ok(DiffAdvantages {
        values: offsets.windows(2).map(|bounds| chosen[bounds[0]..bounds[1]].to_vec()).collect(),
        groups: groups.iter().map(|members| describe(members, &returns, &numbers)).collect(),
        counts,
        n_no_outside,
        mean_abs_within: mean_abs(&within.values, &values),
        mean_abs_contrast: mean_abs(&contrast, &values),
    })
}

/// The contrast form of all members, flat; its counts; groups without an outside.
fn contrast(
    groups: &[Vec<u32>],
    returns: &[Option<f64>],
    config: &AdvantageConfig,
) -> (Vec<f32>, GroupCounts, usize) {
    let mut counts = GroupCounts::default();
    let mut n_no_outside = 0;
    let task = Spread::of(returns.iter().flatten().copied());
    let scale =
        if config.diff_std { task.std(returns, f64::from(config.ddof)) + config.eps } else { 1.0 };
    let mut values = Vec::new();
    let mut inside = vec![false; returns.len()];
    for members in groups {
        for &turn in members {
            inside[turn as usize] = true;
        }
        let group = Spread::of(members.iter().filter_map(|&turn| returns[turn as usize]));
        let outside = Spread::of(
            returns.iter().zip(&inside).filter(|(_, inside)| !**inside).filter_map(|(r, _)| *r),
        );
        for &turn in members {
            inside[turn as usize] = false;
        }
        counts.n_groups += usize::from(!members.is_empty());
        counts.n_members += members.len();
        counts.n_unscored += members.len() - group.n;
        counts.n_singletons += usize::from(group.n == 1);
        counts.n_zero_spread += usize::from(group.n > 1 && task.least == task.most);
        n_no_outside += usize::from(group.n > 0 && outside.n == 0);

        let comparable = group.n > 1 && outside.n > 0 && task.least < task.most;
        for &turn in members {
            let advantage = match returns[turn as usize] {
                Some(value) if comparable => {
                    // Leaving x out moves the mean by (mean - x)/(n - 1); this keeps the digits that sum - x loses.
                    let others = group.mean() + (group.mean() - value) / (group.n - 1) as f64;
                    let distance = others - outside.mean();
                    // Over a spread beyond f64 everything would be 0.
                    if scale.is_finite() { (distance / scale) as f32 } else { f32::INFINITY }
                }
                _ => 0.0,
            };
            counts.n_not_finite += usize::from(!advantage.is_finite());
            values.push(if advantage.is_finite() { advantage } else { 0.0 });
        }
    }
    (values, counts, n_no_outside)
}

struct Spread {
    n: usize,
    sum: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let none = Spread { n: 0, sum: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY };
        values.fold(none, |all, x| Spread {
            n: all.n + 1,
            sum: all.sum + x,
            least: all.least.min(x),
            most: all.most.max(x),
        })
    }

    fn mean(&self) -> f64 {
        self.sum / self.n as f64
    }

    fn std(&self, values: &[Option<f64>], ddof: f64) -> f64 {
        let mean = self.mean();
        let squares = values.iter().flatten().fold(0.0, |sum, x| sum + (x - mean) * (x - mean));
        (squares / (self.n as f64 - ddof)).sqrt()
    }
}

fn describe(members: &[u32], returns: &[Option<f64>], numbers: &[u32]) -> DiffGroup {
    let scored = Spread::of(members.iter().filter_map(|&turn| returns[turn as usize]));
    let numbers = || members.iter().map(|&turn| numbers[turn as usize]);
    DiffGroup {
        size: members.len(),
        n_scored: scored.n,
        return_range: if scored.n > 0 { (scored.least, scored.most) } else { (0.0, 0.0) },
        turn_range: (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0)),
    }
}

/// Number of each turn within its trajectory.
fn turn_numbers(turn_trajectory: &[u32]) -> Vec<u32> {
    let mut numbers = vec![0; turn_trajectory.len()];
    for turn in 1..turn_trajectory.len() {
        if turn_trajectory[turn] == turn_trajectory[turn - 1] {
            numbers[turn] = numbers[turn - 1] + 1;
        }
    }
    numbers
}

fn mean_abs(advantages: &[f32], returns: &[Option<f64>]) -> f64 {
    let scored = || advantages.iter().zip(returns).filter(|(_, value)| value.is_some());
    let n = scored().count();
    if n == 0 { 0.0 } else { scored().fold(0.0, |sum, (a, _)| sum + f64::from(a.abs())) / n as f64 }
}
