//! What a policy loss reports beside its value: sums and counts, so that those of micro-batches and ranks add up.

use serde::Serialize;

/// Metrics of one call of a policy loss, over the trained tokens whose values are all finite.
///
/// Fields are sums and counts; the methods divide. [`plus`](Self::plus) joins micro-batches and ranks. A mean over no
/// token is 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LossMetrics {
    /// Rows given.
    pub n_rows: usize,
    /// Rows without a trained token.
    pub n_empty_rows: usize,
    /// Tokens under the mask, those that are not finite included.
    pub n_tokens: usize,
    /// Tokens under the mask with a value that is not finite, given or computed.
    pub n_non_finite: usize,
    /// Tokens under the mask whose log-prob was not computed, because it could change nothing: see
    /// [`linear_loss`](crate::loss::linear_loss). They are in no sum.
    pub n_skipped: usize,
    /// Tokens held at the lower bound of the ratio (A < 0), so without gradient from the surrogate.
    pub n_clipped_low: usize,
    /// Tokens held at the upper bound.
    pub n_clipped_high: usize,
    /// Tokens with A < 0 held at the dual bound.
    pub n_clipped_dual: usize,
    /// Sum of `old - logp`.
    pub sum_k1: f64,
    /// Sum of `exp(logp - old) - 1 - (logp - old)`, the log-ratio within its bound.
    pub sum_k3: f64,
    /// Sum of the ratios that the surrogate used.
    pub sum_ratio: f64,
    /// Least such ratio; infinite without tokens.
    pub ratio_min: f64,
    /// Largest such ratio; minus infinite without tokens.
    pub ratio_max: f64,
    /// Sum of the KL estimate to the reference policy; 0 without reference log-probs.
    pub sum_kl: f64,
    /// Sum of the entropies; 0 without.
    pub sum_entropy: f64,
    /// Tokens with an importance weight: all that are finite, where rollout log-probs were given.
    pub n_weights: usize,
    /// Sum of the importance ratios rho, before truncation or mask.
    pub sum_weight: f64,
    /// Sum of their squares.
    pub sum_weight_squared: f64,
    /// Least rho; infinite without.
    pub weight_min: f64,
    /// Largest rho; minus infinite without.
    pub weight_max: f64,
    /// Tokens whose rho was truncated or masked.
    pub n_weights_bound: usize,
    /// Tokens that the rollout engine did not score (NaN): rho is 1.
    pub n_unscored: usize,
}

impl Default for LossMetrics {
    fn default() -> Self {
        LossMetrics {
            n_rows: 0,
            n_empty_rows: 0,
            n_tokens: 0,
            n_non_finite: 0,
            n_skipped: 0,
            n_clipped_low: 0,
            n_clipped_high: 0,
            n_clipped_dual: 0,
            sum_k1: 0.0,
            sum_k3: 0.0,
            sum_ratio: 0.0,
            ratio_min: f64::INFINITY,
            ratio_max: f64::NEG_INFINITY,
            sum_kl: 0.0,
            sum_entropy: 0.0,
            n_weights: 0,
            sum_weight: 0.0,
            sum_weight_squared: 0.0,
            weight_min: f64::INFINITY,
            weight_max: f64::NEG_INFINITY,
            n_weights_bound: 0,
            n_unscored: 0,
        }
    }
}

impl LossMetrics {
    /// Both together.
    pub fn plus(self, other: LossMetrics) -> LossMetrics {
        LossMetrics {
            n_rows: self.n_rows + other.n_rows,
            n_empty_rows: self.n_empty_rows + other.n_empty_rows,
            n_tokens: self.n_tokens + other.n_tokens,
            n_non_finite: self.n_non_finite + other.n_non_finite,
            n_skipped: self.n_skipped + other.n_skipped,
            n_clipped_low: self.n_clipped_low + other.n_clipped_low,
            n_clipped_high: self.n_clipped_high + other.n_clipped_high,
            n_clipped_dual: self.n_clipped_dual + other.n_clipped_dual,
            sum_k1: self.sum_k1 + other.sum_k1,
            sum_k3: self.sum_k3 + other.sum_k3,
            sum_ratio: self.sum_ratio + other.sum_ratio,
            ratio_min: self.ratio_min.min(other.ratio_min),
            ratio_max: self.ratio_max.max(other.ratio_max),
            sum_kl: self.sum_kl + other.sum_kl,
            sum_entropy: self.sum_entropy + other.sum_entropy,
            n_weights: self.n_weights + other.n_weights,
            sum_weight: self.sum_weight + other.sum_weight,
            sum_weight_squared: self.sum_weight_squared + other.sum_weight_squared,
            weight_min: self.weight_min.min(other.weight_min),
            weight_max: self.weight_max.max(other.weight_max),
            n_weights_bound: self.n_weights_bound + other.n_weights_bound,
            n_unscored: self.n_unscored + other.n_unscored,
        }
    }

    /// Tokens that entered the sums.
    pub fn n_finite(&self) -> usize {
        self.n_tokens - self.n_non_finite - self.n_skipped
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.n_finite().max(1) as f64
    }

    /// Share of tokens held at the lower bound.
    pub fn clip_fraction_low(&self) -> f64 {
        self.mean(self.n_clipped_low as f64)
    }

    /// Share of tokens held at the upper bound.
    pub fn clip_fraction_high(&self) -> f64 {
        self.mean(self.n_clipped_high as f64)
    }

    /// Share of tokens held at the lower or the upper bound.
    pub fn clip_fraction(&self) -> f64 {
        self.mean((self.n_clipped_low + self.n_clipped_high) as f64)
    }

    /// Share of tokens held at the dual bound.
    pub fn clip_fraction_dual(&self) -> f64 {
        self.mean(self.n_clipped_dual as f64)
    }

    /// Mean of `old - logp`: the k1 estimate of KL(old || new), of either sign.
    pub fn k1(&self) -> f64 {
        self.mean(self.sum_k1)
    }

    /// The k3 estimate of KL(old || new), never below 0.
    pub fn k3(&self) -> f64 {
        self.mean(self.sum_k3)
    }

    /// Mean ratio.
    pub fn ratio_mean(&self) -> f64 {
        self.mean(self.sum_ratio)
    }

    /// Mean of the KL estimate to the reference policy.
    pub fn kl(&self) -> f64 {
        self.mean(self.sum_kl)
    }

    /// Mean entropy.
    pub fn entropy(&self) -> f64 {
        self.mean(self.sum_entropy)
    }

    /// Mean rho.
    pub fn weight_mean(&self) -> f64 {
        self.sum_weight / self.n_weights.max(1) as f64
    }

    /// `(sum rho)² / sum rho²`: how many of the tokens the weights leave, from 1 to their number. 0 without weights.
    pub fn effective_sample_size(&self) -> f64 {
        if self.n_weights == 0 || self.sum_weight_squared == 0.0 {
            return 0.0;
        }
        self.sum_weight * self.sum_weight / self.sum_weight_squared
    }

    /// Every metric by the name of its method or field, means instead of sums.
    pub fn named(&self) -> [(&'static str, f64); 22] {
        [
            ("n_rows", self.n_rows as f64),
            ("n_empty_rows", self.n_empty_rows as f64),
            ("n_tokens", self.n_tokens as f64),
            ("n_non_finite", self.n_non_finite as f64),
            ("n_skipped", self.n_skipped as f64),
            ("clip_fraction", self.clip_fraction()),
            ("clip_fraction_low", self.clip_fraction_low()),
            ("clip_fraction_high", self.clip_fraction_high()),
            ("clip_fraction_dual", self.clip_fraction_dual()),
            ("k1", self.k1()),
            ("k3", self.k3()),
            ("ratio_min", self.ratio_min),
            ("ratio_mean", self.ratio_mean()),
            ("ratio_max", self.ratio_max),
            ("kl", self.kl()),
            ("entropy", self.entropy()),
            ("weight_min", self.weight_min),
            ("weight_mean", self.weight_mean()),
            ("weight_max", self.weight_max),
            ("effective_sample_size", self.effective_sample_size()),
            ("n_weights_bound", self.n_weights_bound as f64),
            ("n_unscored", self.n_unscored as f64),
        ]
    }
}
