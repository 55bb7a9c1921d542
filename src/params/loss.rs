//! Parameters of the policy losses: what the stage `loss` and every backend agree on.

use serde::{Deserialize, Serialize};

/// Every parameter of a policy loss.
///
/// ```text
/// loss = sum_i w_i · sum_t mask · (rho·l(ratio, A) + beta·KL - entropy_coef·H) / denominator
/// ```
///
/// The surrogate `l` is [`surrogate`](Self::surrogate), `w_i` and the denominator are [`reduction`](Self::reduction).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyLossConfig {
    /// The loss of a token.
    pub surrogate: Surrogate,
    /// What the ratio is taken over.
    pub ratio: RatioLevel,
    /// Weights of rows and the denominator.
    pub reduction: Reduction,
    /// Rows without a trained token count in the denominator of the `seq_mean` reductions (TRL: yes; verl: no).
    pub count_empty_rows: bool,
    /// Log-ratios are held in ±this before `exp`; the gradient there is that of the bound value. At most 80.
    pub max_log_ratio: f64,
    /// Estimator of the KL to the reference policy.
    pub kl: Kl,
    /// Weight of that KL; 0 leaves it out of the loss.
    pub beta: f64,
    /// Weight of the entropy bonus; needs entropies.
    pub entropy_coef: f64,
    /// Importance sampling against the log-probs of the rollout engine.
    pub rollout: RolloutCorrection,
    /// What a value that is not finite does under the mask.
    pub non_finite: NonFinite,
}

impl PolicyLossConfig {
    /// Whether the loss of a token depends on other tokens of its row.
    pub(crate) fn takes_whole_rows(&self) -> bool {
        self.weighs_rows() || self.ratio != RatioLevel::Token
    }

    /// Whether the importance weight is that of the row.
    pub(crate) fn weighs_rows(&self) -> bool {
        match self.rollout {
            RolloutCorrection::None => false,
            RolloutCorrection::Truncate { level, .. } | RolloutCorrection::Mask { level, .. } => {
                level == RolloutLevel::Sequence
            }
        }
    }
}

/// Losses of a token with ratio `r`, log-prob `logp` and advantage `A`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Surrogate {
    /// `-min(r·A, clip(r, 1 - low, 1 + high)·A)`, and at most `dual·|A|` where A < 0 (PPO, clip-higher, dual clip).
    ///
    /// TRL's `delta` is `dual` when `delta >= 1 + high`.
    Clip {
        /// In [0, 1).
        low: f64,
        /// At least 0.
        high: f64,
        /// Above 1; `None` for no dual clip.
        #[serde(default)]
        dual: Option<f64>,
    },
    /// `-stop(clip(r, min, max))·A·logp`. TRL: min 0; verl: 1 - low and 1 + high.
    Cispo {
        /// Least weight, at least 0.
        min: f64,
        /// Largest weight, at least `min`.
        max: f64,
    },
    /// `-A·(4/tau)·sigmoid(tau·(r - 1))`.
    Sapo {
        /// tau where A > 0; above 0.
        tau_positive: f64,
        /// tau elsewhere; above 0.
        tau_negative: f64,
    },
}

/// What the importance ratio is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioLevel {
    /// Each token its own: `exp(logp - old)`.
    Token,
    /// Geometric mean over the row, and the gradient goes through it to every token of the row (GSPO; TRL's form).
    Sequence,
    /// Geometric mean over the row as value, each token's own log-prob as gradient (GSPO-token; verl's form).
    SequenceToken,
}

/// How tokens are added up. `L_i` is the number of trained tokens of row i.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reduction {
    /// `sum m·l / sum m`: over the call (bnpo), or over a global count given as denominator (dapo, verl's token-mean).
    TokenMean,
    /// `sum_i (sum m·l / L_i) / rows` (grpo, sapo, gspo).
    SeqMeanTokenMean,
    /// `sum_i sum m·l / rows` (luspo).
    SeqMeanTokenSum,
    /// `sum_i (sum m·l / length) / rows` with a constant length (Dr. GRPO).
    SeqMeanTokenSumNorm {
        /// The longest completion that is allowed, never the padded width.
        length: u32,
    },
    /// `sum m·l`.
    TokenSum,
}

/// Estimators of the KL from the policy to the reference, with `d = ref - logp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kl {
    /// `-d`.
    K1,
    /// `d²/2`: its gradient is an unbiased gradient of the KL on samples of the policy.
    K2,
    /// `exp(d) - d - 1`, never below 0; d is held at 20 at most, with the gradient of the bound value there.
    K3,
    /// Value of k1, gradient of k2 (verl's `kl+`).
    K1StraightThrough,
    /// Value of k3, gradient of k2 (verl's `low_var_kl+`).
    K3StraightThrough,
    /// `r·k3` with the gradient `r·(logp - ref)` (TRL's and Liger's bias-corrected KL).
    K3Corrected,
}

/// Correction for a rollout engine whose log-probs differ from the trainer's: `rho = exp(old - rollout)` multiplies the
/// surrogate, before KL and entropy are added.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum RolloutCorrection {
    /// No correction. Rollout log-probs, if given, only make metrics.
    None,
    /// `min(rho, max)` (TIS).
    Truncate {
        /// Ratio of the token or of the row.
        level: RolloutLevel,
        /// Above 0.
        max: f64,
    },
    /// 0 outside `min..=max`, else rho (MIS, IcePop).
    Mask {
        /// Ratio of the token or of the row.
        level: RolloutLevel,
        /// At least 0.
        min: f64,
        /// Above `min`.
        max: f64,
    },
}

/// What the correction's ratio is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutLevel {
    /// `exp(old - rollout)` of the token.
    Token,
    /// `exp(sum m·(old - rollout))` of the row: the exponential of the sum, not the sum of exponentials.
    Sequence,
}

/// What an unmasked value that is not finite does. It is counted in either case; under a mask of 0 nothing is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonFinite {
    /// The row's loss and the token's gradient are NaN (with sequence ratios those of the row); other rows are whole.
    Poison,
    /// The token adds 0 to loss and gradient. It stays in the denominator, which is known from masks alone.
    Skip,
}

/// What a token loss looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenInput {
    /// `logp - old` within the bound, or the mean over the row.
    pub log_ratio: f32,
    /// `exp(log_ratio)`.
    pub ratio: f32,
    /// Log-prob of the token.
    pub log_prob: f32,
    /// Advantage of the token.
    pub advantage: f32,
}

/// A token's loss with its derivatives.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TokenTerm {
    /// The loss.
    pub value: f32,
    /// Derivative by the log-ratio.
    pub d_log_ratio: f32,
    /// Derivative by the log-prob where it stands beside the ratio (CISPO).
    pub d_log_prob: f32,
    /// Held at the lower bound.
    pub clipped_low: bool,
    /// Held at the upper bound.
    pub clipped_high: bool,
    /// Held at the dual bound.
    pub clipped_dual: bool,
}

/// A token's loss as code: the extension point for losses that hunkwise does not have. It must be a pure function;
/// written without branches (values chosen by `if` of numbers at hand) it is compiled to SIMD like the built-in ones.
pub trait TokenLoss: Sync {
    /// Value and derivatives for one token.
    fn term(&self, token: TokenInput) -> TokenTerm;
}
