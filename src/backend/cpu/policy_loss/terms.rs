//! The formulas, token by token over a block, and the sums of what they give.

use super::super::vectorized::exp_and_k3;
use super::block::{BLOCK, Inputs, Lane};
use crate::params::loss::{
    Kl, NonFinite, PolicyLossConfig, RolloutCorrection, TokenInput, TokenLoss,
};
use crate::params::metrics::LossMetrics;

/// `d` of the k3 estimate is held at this.
const LARGEST_KL_EXPONENT: f32 = 20.0;

/// What does not change during a call.
#[derive(Clone, Copy)]
pub(super) struct Constants {
    pub(super) max_log_ratio: f32,
    kl: Kl,
    beta: f32,
    entropy_coef: f32,
    least_weight: f32,
    most_weight: f32,
    masks_weights: bool,
    corrects: bool,
    poison: f32,
    pub(super) has_entropy: bool,
}

impl Constants {
    pub(super) fn new(config: &PolicyLossConfig, has_entropy: bool) -> Self {
        let (least_weight, most_weight, masks_weights) = match config.rollout {
            RolloutCorrection::None => (0.0, f32::INFINITY, false),
            RolloutCorrection::Truncate { max, .. } => (0.0, max as f32, false),
            RolloutCorrection::Mask { min, max, .. } => (min as f32, max as f32, true),
        };
        Constants {
            max_log_ratio: config.max_log_ratio as f32,
            kl: config.kl,
            beta: config.beta as f32,
            entropy_coef: config.entropy_coef as f32,
            least_weight,
            most_weight,
            masks_weights,
            corrects: config.rollout != RolloutCorrection::None,
            poison: match config.non_finite {
                NonFinite::Poison => f32::NAN,
                NonFinite::Skip => 0.0,
            },
            has_entropy,
        }
    }
}

/// What all tokens of a row share.
#[derive(Clone, Copy, Default)]
pub(super) struct RowTerms {
    /// The row's weight divided by the denominator.
    pub(super) share: f32,
    /// Log-ratio of the row, where the ratio is that of the row.
    pub(super) log_ratio: Option<f32>,
    /// Log of the row's importance weight, where the correction is that of the row.
    pub(super) log_weight: Option<f32>,
    /// Gradient that each token has from the row's ratio; NaN makes every gradient of the row NaN.
    pub(super) shared_grad: f32,
    /// Whether the token's own gradient has the part that goes through the ratio.
    pub(super) through_ratio: bool,
    /// Whether it has the part that does not.
    pub(super) direct: bool,
}

/// What a block computes for each token. Tokens that do not count have NaN in `ratio` and `weight`, 0 elsewhere.
pub(super) struct Terms {
    pub(super) value: Lane,
    pub(super) grad: Lane,
    pub(super) grad_entropy: Lane,
    ratio: Lane,
    log_ratio: Lane,
    k3: Lane,
    kl: Lane,
    weight: Lane,
    flags: [u32; BLOCK],
}

/// Fields of `flags`, five bits each, so that a lane of a block can add them up.
const LOW: u32 = 0;
const HIGH: u32 = 5;
const DUAL: u32 = 10;
const NON_FINITE: u32 = 15;
const BOUND: u32 = 20;
const UNSCORED: u32 = 25;
/// Lanes that a sum is made of; `BLOCK / LANES` fits into five bits.
const LANES: usize = 16;
const _: () = assert!(BLOCK / LANES < 32);

impl Terms {
    pub(super) fn new() -> Self {
        Terms {
            value: [0.0; BLOCK],
            grad: [0.0; BLOCK],
            grad_entropy: [0.0; BLOCK],
            ratio: [0.0; BLOCK],
            log_ratio: [0.0; BLOCK],
            k3: [0.0; BLOCK],
            kl: [0.0; BLOCK],
            weight: [0.0; BLOCK],
            flags: [0; BLOCK],
        }
    }

    /// Fills all but `grad_entropy`.
    #[inline(always)]
    pub(super) fn compute<L: TokenLoss, const REFERENCE: bool, const ROLLOUT: bool>(
        &mut self,
        inputs: &Inputs,
        row: RowTerms,
        constants: &Constants,
        loss: &L,
    ) {
        let Constants { max_log_ratio, kl, beta, entropy_coef, .. } = *constants;
        let corrects = constants.corrects;
        let (row_ratio, row_log_ratio) = row.log_ratio.map_or((0.0, 0.0), |u| (exp_and_k3(u).0, u));
        let row_weight = row.log_weight.map_or(0.0, |u| exp_and_k3(u).0);
        for t in 0..BLOCK {
            let live = inputs.mask[t];
            let given = finite(inputs, t, REFERENCE, ROLLOUT, constants.has_entropy);
            let counts = live & given;
            let keep = |x: f32| if counts { x } else { 0.0 };
            let log_prob = keep(inputs.log_prob[t]);
            let old = keep(inputs.old[t]);
            let advantage = keep(inputs.advantage[t]);
            let difference = log_prob - old;
            let own_log_ratio = hold(difference, max_log_ratio);
            let (own_ratio, k3) = exp_and_k3(own_log_ratio);
            let ratio = if row.log_ratio.is_some() { row_ratio } else { own_ratio };
            let log_ratio = if row.log_ratio.is_some() { row_log_ratio } else { own_log_ratio };
            let term = loss.term(TokenInput { log_ratio, ratio, log_prob, advantage });

            let mut value = term.value;
            let mut through = term.d_log_ratio;
            let mut direct = term.d_log_prob;
            let mut raw_weight = 0.0;
            let mut flags = 0;
            if ROLLOUT {
                let rollout = keep(inputs.rollout[t]);
                let unscored = rollout.is_nan();
                let own =
                    exp_and_k3(hold(old - if unscored { old } else { rollout }, max_log_ratio)).0;
                raw_weight = if row.log_weight.is_some() { row_weight } else { own };
                let over = raw_weight > constants.most_weight;
                let outside = over | (raw_weight < constants.least_weight);
                let at_most = if over { constants.most_weight } else { raw_weight };
                let within = if outside { 0.0 } else { raw_weight };
                let corrected = if constants.masks_weights { within } else { at_most };
                let weight = if corrects { corrected } else { 1.0 };
                let is_bound = corrects & if constants.masks_weights { outside } else { over };
                value *= weight;
                through *= weight;
                direct *= weight;
                flags |= (u32::from(is_bound) << BOUND) | (u32::from(unscored) << UNSCORED);
            }
            let mut estimate = 0.0;
            if REFERENCE {
                let d = keep(inputs.reference[t]) - log_prob;
                let (e, g) = kl_terms(kl, d, own_ratio);
                estimate = e;
                value = beta.mul_add(estimate, value);
                direct = beta.mul_add(g, direct);
            }
            value = (-entropy_coef).mul_add(keep(inputs.entropy[t]), value);

            let own_grad = (if row.through_ratio { through } else { 0.0 })
                + (if row.direct { direct } else { 0.0 });
            let computed = is_finite(value) & is_finite(own_grad);
            let good = counts & computed;
            let bad = live & !good;
            let settle = |x: f32| {
                if good {
                    x
                } else if bad {
                    constants.poison
                } else {
                    0.0
                }
            };
            let scale = row.share * inputs.upstream[t];
            self.value[t] = settle(value);
            self.grad[t] = settle(scale.mul_add(own_grad, row.shared_grad));
            let tell = |x: f32| if good { x } else { 0.0 };
            let tell_or_nan = |x: f32| if good { x } else { f32::NAN };
            self.ratio[t] = tell_or_nan(ratio);
            self.log_ratio[t] = tell(difference);
            self.k3[t] = tell(k3);
            if REFERENCE {
                self.kl[t] = tell(estimate);
            }
            if ROLLOUT {
                self.weight[t] = tell_or_nan(raw_weight);
            }
            flags |= (u32::from(term.clipped_low) << LOW)
                | (u32::from(term.clipped_high) << HIGH)
                | (u32::from(term.clipped_dual) << DUAL);
            self.flags[t] = (if good { flags } else { 0 }) | (u32::from(bad) << NON_FINITE);
        }
    }

    /// Gradient by the entropies.
    #[inline(always)]
    pub(super) fn compute_grad_entropy(
        &mut self,
        inputs: &Inputs,
        row: RowTerms,
        constants: &Constants,
    ) {
        for t in 0..BLOCK {
            let bad = (self.flags[t] >> NON_FINITE) & 1 == 1;
            let grad = row.share * inputs.upstream[t] * -constants.entropy_coef;
            let grad = if bad { constants.poison } else { grad };
            self.grad_entropy[t] = if inputs.mask[t] { grad } else { 0.0 };
        }
    }

    /// Adds a block to the metrics; returns the sum of its values.
    #[inline(always)]
    pub(super) fn add_to<const REFERENCE: bool, const ROLLOUT: bool>(
        &self,
        inputs: &Inputs,
        has_entropy: bool,
        metrics: &mut LossMetrics,
    ) -> f64 {
        let mut flags = [0u32; LANES];
        for chunk in self.flags.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                flags[lane] += chunk[lane];
            }
        }
        let count =
            |field: u32| flags.iter().map(|sum| (sum >> field & 31) as usize).sum::<usize>();
        metrics.n_clipped_low += count(LOW);
        metrics.n_clipped_high += count(HIGH);
        metrics.n_clipped_dual += count(DUAL);
        metrics.n_non_finite += count(NON_FINITE);
        metrics.sum_k1 -= sum(&self.log_ratio);
        metrics.sum_k3 += sum(&self.k3);
        let ratios = Spread::of(&self.ratio);
        metrics.sum_ratio += ratios.sum;
        metrics.ratio_min = metrics.ratio_min.min(ratios.min);
        metrics.ratio_max = metrics.ratio_max.max(ratios.max);
        if REFERENCE {
            metrics.sum_kl += sum(&self.kl);
        }
        if has_entropy {
            let mut told = [0.0; BLOCK];
            for t in 0..BLOCK {
                told[t] = if self.ratio[t].is_nan() { 0.0 } else { inputs.entropy[t] };
            }
            metrics.sum_entropy += sum(&told);
        }
        if ROLLOUT {
            metrics.n_weights_bound += count(BOUND);
            metrics.n_unscored += count(UNSCORED);
            let weights = Spread::of(&self.weight);
            metrics.sum_weight += weights.sum;
            metrics.sum_weight_squared += weights.sum_of_squares;
            metrics.weight_min = metrics.weight_min.min(weights.min);
            metrics.weight_max = metrics.weight_max.max(weights.max);
        }
        sum(&self.value)
    }
}

/// Whether every value that was given for token `t` is finite; a rollout log-prob may be NaN.
#[inline(always)]
pub(super) fn finite(
    inputs: &Inputs,
    t: usize,
    reference: bool,
    rollout: bool,
    entropy: bool,
) -> bool {
    let mut good =
        is_finite(inputs.log_prob[t]) & is_finite(inputs.old[t]) & is_finite(inputs.advantage[t]);
    if reference {
        good &= is_finite(inputs.reference[t]);
    }
    if rollout {
        good &= inputs.rollout[t].abs() != f32::INFINITY;
    }
    if entropy {
        good &= is_finite(inputs.entropy[t]);
    }
    good
}

#[inline(always)]
fn is_finite(x: f32) -> bool {
    x.abs() < f32::INFINITY
}

/// `x` within ±`most`.
#[inline(always)]
pub(super) fn hold(x: f32, most: f32) -> f32 {
    let x = if x > most { most } else { x };
    if x < -most { -most } else { x }
}

/// Estimate of the KL from `d = ref - logp`, and its gradient by logp.
#[inline(always)]
fn kl_terms(kl: Kl, d: f32, ratio: f32) -> (f32, f32) {
    let held = if d > LARGEST_KL_EXPONENT { LARGEST_KL_EXPONENT } else { d };
    let k3 = exp_and_k3(held).1;
    let estimate = match kl {
        Kl::K1 | Kl::K1StraightThrough => -d,
        Kl::K2 => 0.5 * d * d,
        Kl::K3 | Kl::K3StraightThrough => k3,
        Kl::K3Corrected => ratio * k3,
    };
    let grad = match kl {
        Kl::K1 => 1.0,
        Kl::K2 | Kl::K1StraightThrough | Kl::K3StraightThrough => -d,
        // 1 - exp(d), without the cancellation at d = 0.
        Kl::K3 => -(held + k3),
        Kl::K3Corrected => -ratio * held,
    };
    (estimate, grad)
}

/// Sum in f64, in a fixed order.
#[inline(always)]
pub(super) fn sum(values: &Lane) -> f64 {
    let mut lanes = [0.0f64; LANES];
    for chunk in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            lanes[lane] += f64::from(chunk[lane]);
        }
    }
    lanes.iter().sum()
}

/// Sums and bounds of the values that are not NaN.
struct Spread {
    sum: f64,
    sum_of_squares: f64,
    min: f64,
    max: f64,
}

impl Spread {
    #[inline(always)]
    fn of(values: &Lane) -> Self {
        let mut sums = [0.0f64; LANES];
        let mut squares = [0.0f64; LANES];
        let mut min = [f32::INFINITY; LANES];
        let mut max = [f32::NEG_INFINITY; LANES];
        for chunk in values.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                let x = chunk[lane];
                let told = f64::from(if x.is_nan() { 0.0 } else { x });
                sums[lane] += told;
                squares[lane] += told * told;
                min[lane] = if x < min[lane] { x } else { min[lane] };
                max[lane] = if x > max[lane] { x } else { max[lane] };
            }
        }
        Spread {
            sum: sums.iter().sum(),
            sum_of_squares: squares.iter().sum(),
            min: f64::from(min.into_iter().fold(f32::INFINITY, f32::min)),
            max: f64::from(max.into_iter().fold(f32::NEG_INFINITY, f32::max)),
        }
    }
}
