//! Advantages: of trajectories, of anchors' groups, of steps, and their projection to tokens.

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
    /// Divide A^D by std + eps of its group.
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
