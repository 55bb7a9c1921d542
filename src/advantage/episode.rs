//! Episode advantages A^E: each trajectory against the others of its task.

use super::group::{form, weighted};
use super::returns::same_length;
use super::{AdvantageConfig, Over};
use crate::device::Device;
use crate::error::Result;
use crate::params::GroupCounts;

/// Scores of the trajectories of one task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskScores {
    /// One per trajectory; `None` is unscored.
    pub scores: Vec<Option<f64>>,
    /// Turns of each trajectory.
    pub turns: Vec<u32>,
}

/// A^E of all trajectories.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpisodeAdvantages {
    /// Per task, one per trajectory.
    pub values: Vec<Vec<f32>>,
    /// A group is a task, a member a trajectory.
    pub counts: GroupCounts,
}

/// A^E of every trajectory of every task; a task is a group of its own, whatever its trajectories have in common with
/// another's.
///
/// With [`Over::Turns`] each trajectory counts once per turn in the mean and the standard deviation, and one without
/// turns not at all. Leave-one-out then leaves all turns of the trajectory out: its own score must not be in its
/// baseline.
///
/// # Errors
/// [`crate::error::Error::Shape`] when `scores` and `turns` of a task differ in length; [`crate::error::Error::Config`] for
/// parameters out of range.
pub fn episode(
    device: &Device,
    tasks: &[TaskScores],
    config: &AdvantageConfig,
) -> Result<EpisodeAdvantages> {
    config.validate()?;
    let mut scores = Vec::new();
    let mut turns = Vec::new();
    let mut offsets = vec![0];
    for task in tasks {
        same_length("episode", ("scores", task.scores.len()), ("turns", task.turns.len()))?;
        scores.extend_from_slice(&task.scores);
        turns.extend_from_slice(&task.turns);
        offsets.push(scores.len());
    }
    let weights = match config.over {
        Over::Trajectories => None,
        Over::Turns => Some(turns.as_slice()),
    };
    let flat = weighted(
        device,
        &scores,
        weights,
        &offsets,
        form(config.episode, config.eps, config.ddof),
    )?;
    let values =
        offsets.windows(2).map(|bounds| flat.values[bounds[0]..bounds[1]].to_vec()).collect();
    Ok(EpisodeAdvantages { values, counts: flat.counts })
}
