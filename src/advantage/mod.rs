//! Advantages: of trajectories, of anchors' groups, of steps, and their projection to tokens.
//!
//! Scores and returns come from [`returns`]; [`episode`] compares the trajectories of a task, [`diff`] the members of
//! an anchor's group, [`step`] turns with equal or similar observations, all through [`group_advantage`];
//! [`project`] puts the results on bytes and tokens.
//!
//! Sums are in f64 in the order of the input, results in f32. An advantage is never NaN: where there is nothing to
//! compare with (one member, equal values, no score) it is 0 and counted.

use crate::error::{Error, Result};

mod diff;
mod episode;
mod group;
mod projection;
pub mod returns;
mod step;

pub use diff::{DiffAdvantages, DiffGroup, diff};
pub use episode::{EpisodeAdvantages, TaskScores, episode};
pub use group::{GroupAdvantages, Whitened, group_advantage, keep_groups, whiten};
pub use projection::{ByteSpan, Cover, SequenceCredit, TokenSpan, dense_ragged, project};
pub use returns::{trajectory_score, turn_returns};
pub use step::{StepAdvantages, step};

pub use crate::params::GroupCounts;

/// How advantages are computed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdvantageConfig {
    /// Estimator of the episode advantage A^E.
    pub episode: Estimator,
    /// What the statistics of A^E run over.
    pub over: Over,
    /// Added to the standard deviation (not to the variance), once.
    pub eps: f64,
    /// Degrees of freedom taken off in the standard deviation: 1 (sample, torch's default) or 0 (population).
    pub ddof: u8,
    /// Discount of the return-to-go `R_t = sum_k gamma^k r_{t+k}`, in [0, 1].
    pub gamma: f64,
    /// What a turn's return is.
    pub returns: Returns,
    /// Form of the diff advantage A^D.
    pub diff: DiffForm,
    /// Divide A^D by std + eps: of its group (`within`), or of all scored turns of the task (`contrast`, where a group
    /// of equal returns still has something to say).
    pub diff_std: bool,
    /// Weight of A^D, lambda.
    pub lambda: f64,
    /// Step-level groups of equal or similar observations (GiGPO), beside or instead of diff groups.
    pub step: StepGroups,
    /// Weight of the step advantage, omega.
    pub omega: f64,
    /// Least similarity of two observations for `step = "similar"`, in (0, 1].
    pub step_eta: f64,
}

impl Default for AdvantageConfig {
    fn default() -> Self {
        AdvantageConfig {
            episode: Estimator::Grpo,
            over: Over::Trajectories,
            eps: 1e-6,
            ddof: 1,
            gamma: 0.95,
            returns: Returns::Discounted,
            diff: DiffForm::Within,
            diff_std: false,
            lambda: 1.2,
            step: StepGroups::Off,
            omega: 1.0,
            step_eta: 0.9,
        }
    }
}

impl AdvantageConfig {
    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// [`Error::Config`] with the name of the first one that is out of its range.
    pub fn validate(&self) -> Result<()> {
        let wrong = |name, got: String, expected| {
            Err(Error::Config { op: "advantage", name, got, expected })
        };
        if !(self.eps.is_finite() && self.eps >= 0.0) {
            return wrong("eps", self.eps.to_string(), "finite and at least 0");
        }
        if self.ddof > 1 {
            return wrong("ddof", self.ddof.to_string(), "0 (population) or 1 (sample)");
        }
        if !(0.0..=1.0).contains(&self.gamma) {
            return wrong("gamma", self.gamma.to_string(), "in [0, 1]");
        }
        for (name, weight) in [("lambda", self.lambda), ("omega", self.omega)] {
            if !weight.is_finite() {
                return wrong(name, weight.to_string(), "finite");
            }
        }
        if !(self.step_eta > 0.0 && self.step_eta <= 1.0) {
            return wrong("step_eta", self.step_eta.to_string(), "in (0, 1]");
        }
        Ok(())
    }
}

/// Group-relative estimators: how a score becomes an advantage inside its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// `(x - mean) / (std + eps)`.
    Grpo,
    /// `x - mean`.
    GrpoNoStd,
    /// `x - mean`, the advantage of Dr. GRPO (whose loss also drops the length normalisation).
    DrGrpo,
    /// `x - mean of the others` (leave one out).
    Rloo,
}

/// What the statistics of the episode advantage run over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Each trajectory counts once.
    Trajectories,
    /// Each trajectory counts once per turn.
    Turns,
}

/// What a turn's return is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Returns {
    /// Discounted sum of the rewards from this turn on.
    Discounted,
    /// The score of the trajectory, for each of its turns.
    Outcome,
}

/// Forms of the diff advantage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffForm {
    /// The member's return minus the mean of its group: how a rollout did among those that share the snippet.
    Within,
    /// Mean return of the group without the member minus that of the task's turns outside the group: how the snippet
    /// did.
    Contrast,
}

/// Step-level groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepGroups {
    /// None.
    Off,
    /// Turns with equal observations.
    Exact,
    /// Turns whose observations are similar to the group's first one.
    Similar,
}
