//! The formulas, sixteen tokens at a time over a block.

use super::super::vectorized::{Lanes, Probe, WIDTH, exp, exp_and_k3};
use super::block::{Inputs, Lane};
use super::sums::{Sums, Totals};
use super::surrogates::{LaneInput, LaneLoss, LaneTerm};
use crate::params::loss::{Kl, NonFinite, PolicyLossConfig, RolloutCorrection};

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

/// Where a block's numbers go, for each token.
pub(super) struct Places<'a> {
    pub(super) grad: &'a mut Lane,
    pub(super) grad_entropy: &'a mut Lane,
    /// The value times the row's share, where it is wanted.
    pub(super) share: Option<&'a mut Lane>,
}

/// A block, and how it is computed.
pub(super) struct Block<'a, L> {
    pub(super) inputs: Inputs<'a>,
    pub(super) row: RowTerms,
    pub(super) constants: &'a Constants,
    pub(super) loss: &'a L,
}

/// What a row has for all its tokens.
struct RowLanes<V> {
    log_ratio_and_ratio: Option<(V, V)>,
    weight: Option<V>,
}

/// What sixteen tokens give. Where they are not good, `value` and `grad` are what takes their place, and the others
/// anything.
pub(super) struct Terms<V: Lanes> {
    pub(super) live: V::Mask,
    pub(super) good: V::Mask,
    pub(super) value: V,
    /// Of the loss, the upstream gradient included.
    pub(super) grad: V,
    pub(super) grad_entropy: V,
    pub(super) surrogate: LaneTerm<V>,
    /// `logp - old`.
    pub(super) difference: V,
    pub(super) ratio: V,
    pub(super) k3: V,
    pub(super) kl: V,
    pub(super) entropy: V,
    pub(super) weight: Option<Weight<V>>,
}

/// The importance weight of sixteen tokens.
#[derive(Clone, Copy)]
pub(super) struct Weight<V: Lanes> {
    pub(super) rho: V,
    pub(super) is_bound: V::Mask,
    pub(super) is_unscored: V::Mask,
    /// What multiplies the surrogate.
    used: V,
    /// The rollout's log-prob, or the old one where it has none.
    rollout: V,
}

impl<L: LaneLoss> Block<'_, L> {
    /// Computes the block and adds it to `totals`.
    #[inline(always)]
    pub(super) fn compute<V: Lanes, const REFERENCE: bool, const ROLLOUT: bool>(
        &self,
        totals: &mut Totals<V>,
        places: &mut Places<'_>,
    ) {
        let row = RowLanes {
            log_ratio_and_ratio: self.row.log_ratio.map(|u| (V::splat(u), exp(V::splat(u)))),
            weight: self.row.log_weight.map(|u| exp(V::splat(u))),
        };
        let has_entropy = self.constants.has_entropy;
        let share = V::splat(self.row.share);
        let mut sums = Sums::new();
        for i in 0..self.inputs.len.div_ceil(WIDTH) {
            let terms = self.terms::<V, REFERENCE, ROLLOUT>(i, &row);
            let write =
                |values: &mut Lane, x: V| x.store(&mut values.as_chunks_mut::<WIDTH>().0[i]);
            write(places.grad, terms.grad);
            if let Some(to) = &mut places.share {
                write(to, share * terms.value);
            }
            if has_entropy {
                write(places.grad_entropy, terms.grad_entropy);
            }
            sums.add::<REFERENCE>(&terms, has_entropy);
            totals.count(&terms);
        }
        totals.add(&sums);
    }

    /// The terms of the tokens from `16·i`.
    #[inline(always)]
    fn terms<V: Lanes, const REFERENCE: bool, const ROLLOUT: bool>(
        &self,
        i: usize,
        row: &RowLanes<V>,
    ) -> Terms<V> {
        let Block { inputs, constants, .. } = self;
        let read = |values: &Lane| V::load(&values.as_chunks::<WIDTH>().0[i]);
        let (zero, most) = (V::splat(0.0), V::splat(constants.max_log_ratio));
        let live = V::mask(&inputs.mask.as_chunks::<WIDTH>().0[i]);
        let (log_prob, old) = (read(inputs.log_prob), read(inputs.old));
        let advantage = read(inputs.advantage);
        let mut probe = Probe::new().with(log_prob).with(old).with(advantage);
        let difference = log_prob - old;
        let own_log_ratio = difference.within(-most, most);
        let (own_ratio, k3) = exp_and_k3(own_log_ratio);
        let (log_ratio, ratio) = row.log_ratio_and_ratio.unwrap_or((own_log_ratio, own_ratio));
        let surrogate = self.loss.term(LaneInput { live, log_ratio, ratio, log_prob, advantage });
        let LaneTerm { mut value, d_log_ratio: mut through, d_log_prob: mut direct, .. } =
            surrogate;

        let mut weight = None;
        if ROLLOUT {
            let of_tokens = constants.weight(old, read(inputs.rollout), row.weight);
            value = value * of_tokens.used;
            through = through * of_tokens.used;
            direct = direct * of_tokens.used;
            probe = probe.with(of_tokens.rollout);
            weight = Some(of_tokens);
        }
        let mut kl = zero;
        if REFERENCE {
            let d = read(inputs.reference) - log_prob;
            let (estimate, grad) = kl_terms(constants.kl, d, own_ratio);
            let beta = V::splat(constants.beta);
            kl = estimate;
            value = beta.mul_add(estimate, value);
            direct = beta.mul_add(grad, direct);
            probe = probe.with(read(inputs.reference));
        }
        let (mut entropy, by_entropy) = (zero, V::splat(-constants.entropy_coef));
        if constants.has_entropy {
            entropy = read(inputs.entropy);
            value = by_entropy.mul_add(entropy, value);
            probe = probe.with(entropy);
        }
        let grad = match (self.row.through_ratio, self.row.direct) {
            (true, true) => through + direct,
            (true, false) => through,
            _ => direct,
        };

        let good = live & probe.with(value).with(grad).all_finite();
        let otherwise = V::splat(constants.poison).keep(live);
        let settle = |x: V| V::select(good, x, otherwise);
        let scale = V::splat(self.row.share) * read(inputs.upstream);
        Terms {
            live,
            good,
            value: settle(value),
            grad: settle(scale.mul_add(grad, V::splat(self.row.shared_grad))),
            grad_entropy: settle(scale * by_entropy),
            surrogate,
            difference,
            ratio,
            k3,
            kl,
            entropy,
            weight,
        }
    }
}

impl Constants {
    /// The importance weights of `old` to `rollout`, or that of the row.
    #[inline(always)]
    fn weight<V: Lanes>(&self, old: V, rollout: V, of_row: Option<V>) -> Weight<V> {
        let is_unscored = rollout.is_nan();
        let rollout = V::select(is_unscored, old, rollout);
        let most = V::splat(self.max_log_ratio);
        let rho = of_row.unwrap_or_else(|| exp((old - rollout).within(-most, most)));
        let (used, is_bound) = self.bound(rho);
        Weight { rho, is_bound, is_unscored, used, rollout }
    }

    /// What multiplies the surrogate for an importance ratio, and whether that is not the ratio itself.
    #[inline(always)]
    fn bound<V: Lanes>(&self, rho: V) -> (V, V::Mask) {
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
