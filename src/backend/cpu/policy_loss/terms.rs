//! The formulas, eight tokens at a time over a block, and the sums of what they give.

use super::super::vectorized::{Lanes, WIDTH, exp, exp_and_k3};
use super::block::{BLOCK, Inputs, Lane};
use super::surrogates::{LaneInput, LaneLoss};
use crate::params::loss::{Kl, NonFinite, PolicyLossConfig, RolloutCorrection};
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

/// What a block gives for each token.
pub(super) struct Terms {
    pub(super) value: Lane,
    pub(super) grad: Lane,
    pub(super) grad_entropy: Lane,
}

impl Terms {
    pub(super) fn new() -> Self {
        Terms { value: [0.0; BLOCK], grad: [0.0; BLOCK], grad_entropy: [0.0; BLOCK] }
    }

    /// Computes a block, adds it to `metrics` and returns the sum of its values.
    #[inline(always)]
    pub(super) fn compute<V: Lanes, L: LaneLoss, const REFERENCE: bool, const ROLLOUT: bool>(
        &mut self,
        inputs: &Inputs<'_>,
        row: RowTerms,
        constants: &Constants,
        loss: &L,
        metrics: &mut LossMetrics,
    ) -> f64 {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        let most = V::splat(constants.max_log_ratio);
        let beta = V::splat(constants.beta);
        let entropy_coef = V::splat(-constants.entropy_coef);
        let share = V::splat(row.share);
        let shared_grad = V::splat(row.shared_grad);
        let poison = V::splat(constants.poison);
        let row_ratio = row.log_ratio.map(|u| (V::splat(u), exp(V::splat(u))));
        let row_weight = row.log_weight.map(|u| exp(V::splat(u)));
        let mut sums = Sums::<V>::new();
        for i in 0..BLOCK / WIDTH {
            let read = |values: &Lane| V::load(&values.as_chunks::<WIDTH>().0[i]);
            let live = V::mask(&inputs.mask.as_chunks::<WIDTH>().0[i]);
            let given = live & finite::<V>(inputs, i, REFERENCE, ROLLOUT, constants.has_entropy);
            let log_prob = read(inputs.log_prob).keep(given);
            let old = read(inputs.old).keep(given);
            let advantage = read(inputs.advantage).keep(given);
            let difference = log_prob - old;
            let own_log_ratio = difference.within(-most, most);
            let (own_ratio, k3) = exp_and_k3(own_log_ratio);
            let (log_ratio, ratio) = row_ratio.unwrap_or((own_log_ratio, own_ratio));
            let term = loss.term(LaneInput { log_ratio, ratio, log_prob, advantage });
            let (mut value, mut through, mut direct) =
                (term.value, term.d_log_ratio, term.d_log_prob);

            let mut weights = None;
            if ROLLOUT {
                let rollout = read(inputs.rollout).keep(given);
                let unscored = rollout.is_nan();
                let log_weight = old - V::select(unscored, old, rollout);
                let rho = row_weight.unwrap_or_else(|| exp(log_weight.within(-most, most)));
                let (weight, is_bound) = constants.weight(rho);
                value = value * weight;
                through = through * weight;
                direct = direct * weight;
                weights = Some((rho, is_bound, unscored));
            }
            let mut estimate = zero;
            if REFERENCE {
                let d = read(inputs.reference).keep(given) - log_prob;
                let (kl, grad) = kl_terms(constants.kl, d, own_ratio);
                estimate = kl;
                value = beta.mul_add(kl, value);
                direct = beta.mul_add(grad, direct);
            }
            let mut entropy = zero;
            if constants.has_entropy {
                entropy = read(inputs.entropy).keep(given);
                value = entropy_coef.mul_add(entropy, value);
            }
            let own_grad = match (row.through_ratio, row.direct) {
                (true, true) => through + direct,
                (true, false) => through,
                _ => direct,
            };

            let good = given & value.is_finite() & own_grad.is_finite();
            let otherwise = poison.keep(live);
            let settle = |x: V| V::select(good, x, otherwise);
            let scale = share * read(inputs.upstream);
            let write =
                |values: &mut Lane, x: V| x.store(&mut values.as_chunks_mut::<WIDTH>().0[i]);
            let value = settle(value);
            write(&mut self.value, value);
            write(&mut self.grad, settle(scale.mul_add(own_grad, shared_grad)));
            if constants.has_entropy {
                write(&mut self.grad_entropy, settle(scale * entropy_coef));
                sums.entropy = sums.entropy + entropy.keep(good);
            }
            sums.value = sums.value + value;
            sums.log_ratio = sums.log_ratio + difference.keep(good);
            sums.k3 = sums.k3 + k3.keep(good);
            sums.ratio.add(ratio, good);
            if REFERENCE {
                sums.kl = sums.kl + estimate.keep(good);
            }
            if let Some((rho, is_bound, unscored)) = weights {
                sums.weight.add(rho, good);
                sums.weight_squared = rho.keep(good).mul_add(rho, sums.weight_squared);
                sums.n_bound = sums.n_bound + one.keep(good & is_bound);
                sums.n_unscored = sums.n_unscored + one.keep(good & unscored);
            }
            sums.n_low = sums.n_low + one.keep(good & term.clipped_low);
            sums.n_high = sums.n_high + one.keep(good & term.clipped_high);
            sums.n_dual = sums.n_dual + one.keep(good & term.clipped_dual);
            sums.n_non_finite = sums.n_non_finite + one.keep(live & !good);
        }
        sums.add_to(metrics);
        total(sums.value)
    }
}

impl Constants {
    /// What multiplies the surrogate for an importance ratio, and whether that is not the ratio itself.
    #[inline(always)]
    fn weight<V: Lanes>(&self, rho: V) -> (V, V::Mask) {
        let most = V::splat(self.most_weight);
        let over = most.less(rho);
        if !self.corrects {
            (V::splat(1.0), V::splat_mask(false))
        } else if self.masks_weights {
            let outside = over | rho.less(V::splat(self.least_weight));
            (rho.keep(!outside), outside)
        } else {
            (V::select(over, most, rho), over)
        }
    }
}

/// Whether every value that was given for the eight tokens from `8·i` is finite; a rollout log-prob may be NaN.
#[inline(always)]
fn finite<V: Lanes>(
    inputs: &Inputs<'_>,
    i: usize,
    reference: bool,
    rollout: bool,
    entropy: bool,
) -> V::Mask {
    let read = |values: &Lane| V::load(&values.as_chunks::<WIDTH>().0[i]);
    let mut good = read(inputs.log_prob).is_finite()
        & read(inputs.old).is_finite()
        & read(inputs.advantage).is_finite();
    if reference {
        good = good & read(inputs.reference).is_finite();
    }
    if rollout {
        let rollout = read(inputs.rollout);
        good = good & (rollout.is_finite() | rollout.is_nan());
    }
    if entropy {
        good = good & read(inputs.entropy).is_finite();
    }
    good
}

/// Sums over the tokens of a block from which the row's ratio and weight are made.
#[derive(Clone, Copy, Default)]
pub(super) struct RowLogs {
    pub(super) n_finite: usize,
    pub(super) log_ratio: f64,
    pub(super) log_weight: f64,
}

impl RowLogs {
    /// Adds a block.
    #[inline(always)]
    pub(super) fn add<V: Lanes>(
        &mut self,
        inputs: &Inputs<'_>,
        reference: bool,
        rollout: bool,
        entropy: bool,
    ) {
        let zero = V::splat(0.0);
        let (mut log_ratio, mut log_weight, mut n_finite) = (zero, zero, zero);
        for i in 0..BLOCK / WIDTH {
            let read = |values: &Lane| V::load(&values.as_chunks::<WIDTH>().0[i]);
            let live = V::mask(&inputs.mask.as_chunks::<WIDTH>().0[i]);
            let given = live & finite::<V>(inputs, i, reference, rollout, entropy);
            n_finite = n_finite + V::splat(1.0).keep(given);
            let old = read(inputs.old);
            log_ratio = log_ratio + (read(inputs.log_prob) - old).keep(given);
            if rollout {
                let rollout = read(inputs.rollout);
                log_weight = log_weight + (old - rollout).keep(given & !rollout.is_nan());
            }
        }
        self.n_finite += total(n_finite) as usize;
        self.log_ratio += total(log_ratio);
        self.log_weight += total(log_weight);
    }
}

/// Estimate of the KL from `d = ref - logp`, and its gradient by logp.
#[inline(always)]
fn kl_terms<V: Lanes>(kl: Kl, d: V, ratio: V) -> (V, V) {
    let held = d.min(V::splat(LARGEST_KL_EXPONENT));
    let k3 = exp_and_k3(held).1;
    match kl {
        Kl::K1 => (-d, V::splat(1.0)),
        Kl::K2 => (V::splat(0.5) * d * d, -d),
        // 1 - exp(d), without the cancellation at d = 0.
        Kl::K3 => (k3, -(held + k3)),
        Kl::K1StraightThrough => (-d, -d),
        Kl::K3StraightThrough => (k3, -d),
        Kl::K3Corrected => (ratio * k3, -ratio * held),
    }
}

/// Sums over a block: at most 32 f32 to a lane, then f64.
struct Sums<V> {
    value: V,
    log_ratio: V,
    k3: V,
    kl: V,
    entropy: V,
    ratio: Spread<V>,
    weight: Spread<V>,
    weight_squared: V,
    n_low: V,
    n_high: V,
    n_dual: V,
    n_non_finite: V,
    n_bound: V,
    n_unscored: V,
}

impl<V: Lanes> Sums<V> {
    #[inline(always)]
    fn new() -> Self {
        let zero = V::splat(0.0);
        Sums {
            value: zero,
            log_ratio: zero,
            k3: zero,
            kl: zero,
            entropy: zero,
            ratio: Spread::new(),
            weight: Spread::new(),
            weight_squared: zero,
            n_low: zero,
            n_high: zero,
            n_dual: zero,
            n_non_finite: zero,
            n_bound: zero,
            n_unscored: zero,
        }
    }

    #[inline(always)]
    fn add_to(&self, metrics: &mut LossMetrics) {
        metrics.n_clipped_low += total(self.n_low) as usize;
        metrics.n_clipped_high += total(self.n_high) as usize;
        metrics.n_clipped_dual += total(self.n_dual) as usize;
        metrics.n_non_finite += total(self.n_non_finite) as usize;
        metrics.n_weights_bound += total(self.n_bound) as usize;
        metrics.n_unscored += total(self.n_unscored) as usize;
        metrics.sum_k1 -= total(self.log_ratio);
        metrics.sum_k3 += total(self.k3);
        metrics.sum_kl += total(self.kl);
        metrics.sum_entropy += total(self.entropy);
        metrics.sum_weight_squared += total(self.weight_squared);
        self.ratio.add_to(&mut metrics.sum_ratio, &mut metrics.ratio_min, &mut metrics.ratio_max);
        self.weight.add_to(
            &mut metrics.sum_weight,
            &mut metrics.weight_min,
            &mut metrics.weight_max,
        );
    }
}

/// Sum and bounds of what counts.
struct Spread<V> {
    sum: V,
    min: V,
    max: V,
}

impl<V: Lanes> Spread<V> {
    #[inline(always)]
    fn new() -> Self {
        Spread {
            sum: V::splat(0.0),
            min: V::splat(f32::INFINITY),
            max: V::splat(f32::NEG_INFINITY),
        }
    }

    #[inline(always)]
    fn add(&mut self, x: V, counts: V::Mask) {
        self.sum = self.sum + x.keep(counts);
        self.min = V::select(counts, x, self.min).min(self.min);
        self.max = V::select(counts, x, self.max).max(self.max);
    }

    #[inline(always)]
    fn add_to(&self, sum: &mut f64, min: &mut f64, max: &mut f64) {
        *sum += total(self.sum);
        *min = min.min(f64::from(self.min.to_array().into_iter().fold(f32::INFINITY, f32::min)));
        *max =
            max.max(f64::from(self.max.to_array().into_iter().fold(f32::NEG_INFINITY, f32::max)));
    }
}

/// Sum of the lanes, in order.
#[inline(always)]
fn total<V: Lanes>(lanes: V) -> f64 {
    lanes.to_array().into_iter().map(f64::from).sum()
}

/// Sum of a block.
#[inline(always)]
pub(super) fn sum<V: Lanes>(values: &Lane) -> f64 {
    let mut lanes = V::splat(0.0);
    for chunk in values.as_chunks::<WIDTH>().0 {
        lanes = lanes + V::load(chunk);
    }
    total(lanes)
}
