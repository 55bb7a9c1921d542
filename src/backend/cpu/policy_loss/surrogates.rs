//! The losses of a token, sixteen tokens at a time.

use super::super::vectorized::{Lanes, Probe, WIDTH, exp};
use crate::params::loss::{TokenInput, TokenLoss, TokenTerm};

/// [`TokenInput`] of sixteen tokens.
#[derive(Clone, Copy)]
pub(super) struct LaneInput<V: Lanes> {
    /// The others may have anything.
    pub(super) live: V::Mask,
    pub(super) log_ratio: V,
    pub(super) ratio: V,
    pub(super) log_prob: V,
    pub(super) advantage: V,
}

/// [`TokenTerm`] of sixteen tokens.
#[derive(Clone, Copy)]
pub(super) struct LaneTerm<V: Lanes> {
    pub(super) value: V,
    pub(super) d_log_ratio: V,
    pub(super) d_log_prob: V,
    pub(super) clipped_low: V::Mask,
    pub(super) clipped_high: V::Mask,
    pub(super) clipped_dual: V::Mask,
}

/// [`TokenLoss`] of sixteen tokens.
pub(super) trait LaneLoss: Sync {
    fn term<V: Lanes>(&self, token: LaneInput<V>) -> LaneTerm<V>;
}

/// PPO's clipped loss, with the dual clip where `dual` is finite.
pub(super) struct Clip {
    pub(super) least: f32,
    pub(super) most: f32,
    pub(super) dual: f32,
}

impl LaneLoss for Clip {
    #[inline(always)]
    fn term<V: Lanes>(&self, token: LaneInput<V>) -> LaneTerm<V> {
        let (r, a, zero) = (token.ratio, token.advantage, V::splat(0.0));
        let plain = -r * a;
        let held = -r.within(V::splat(self.least), V::splat(self.most)) * a;
        let at_bound = plain.less(held);
        let value = V::select(at_bound, held, plain);
        let most = V::splat(self.dual) * -a;
        let negative = a.less(zero);
        let at_dual = negative & most.less(value);
        let clipped = at_bound & !at_dual;
        LaneTerm {
            value: V::select(at_dual, most, value),
            d_log_ratio: V::select(at_bound | at_dual, zero, plain),
            d_log_prob: zero,
            clipped_low: clipped & negative,
            clipped_high: clipped & !negative,
            clipped_dual: at_dual,
        }
    }
}

/// CISPO: a bound weight without gradient on the log-prob.
pub(super) struct Cispo {
    pub(super) min: f32,
    pub(super) max: f32,
}

impl LaneLoss for Cispo {
    #[inline(always)]
    fn term<V: Lanes>(&self, token: LaneInput<V>) -> LaneTerm<V> {
        let (min, max) = (V::splat(self.min), V::splat(self.max));
        let weight = -token.ratio.within(min, max) * token.advantage;
        LaneTerm {
            value: weight * token.log_prob,
            d_log_ratio: V::splat(0.0),
            d_log_prob: weight,
            clipped_low: token.ratio.less(min),
            clipped_high: max.less(token.ratio),
            clipped_dual: V::splat_mask(false),
        }
    }
}

/// SAPO: a sigmoid gate around the ratio 1.
pub(super) struct Sapo {
    pub(super) tau_positive: f32,
    pub(super) tau_negative: f32,
}

/// The gate is constant beyond this in f32.
const LARGEST_GATE: f32 = 80.0;

impl LaneLoss for Sapo {
    #[inline(always)]
    fn term<V: Lanes>(&self, token: LaneInput<V>) -> LaneTerm<V> {
        let (r, a, one) = (token.ratio, token.advantage, V::splat(1.0));
        let positive = V::splat(0.0).less(a);
        let tau = V::select(positive, V::splat(self.tau_positive), V::splat(self.tau_negative));
        let most = V::splat(LARGEST_GATE);
        let e = exp(-(tau * (r - one)).within(-most, most));
        let gate = one / (one + e);
        let four_a = -a * V::splat(4.0);
        LaneTerm {
            value: four_a / tau * gate,
            // gate·(1 - gate), without the cancellation of 1 - gate.
            d_log_ratio: four_a * (gate * (e * gate)) * r,
            d_log_prob: V::splat(0.0),
            clipped_low: V::splat_mask(false),
            clipped_high: V::splat_mask(false),
            clipped_dual: V::splat_mask(false),
        }
    }
}

/// A loss given token by token.
pub(super) struct Own<'a, L>(pub(super) &'a L);

impl<L: TokenLoss> LaneLoss for Own<'_, L> {
    #[inline(always)]
    fn term<V: Lanes>(&self, token: LaneInput<V>) -> LaneTerm<V> {
        let LaneInput { live, log_ratio, ratio, log_prob, advantage } = token;
        let probe = Probe::new().with(log_ratio).with(ratio).with(log_prob).with(advantage);
        let given = live & probe.all_finite();
        let (log_ratio, ratio) = (log_ratio.keep(given).to_array(), ratio.keep(given).to_array());
        let log_prob = log_prob.keep(given).to_array();
        let advantage = advantage.keep(given).to_array();
        let terms: [TokenTerm; WIDTH] = std::array::from_fn(|i| {
            self.0.term(TokenInput {
                log_ratio: log_ratio[i],
                ratio: ratio[i],
                log_prob: log_prob[i],
                advantage: advantage[i],
            })
        });
        LaneTerm {
            value: V::load(&terms.map(|term| term.value)),
            d_log_ratio: V::load(&terms.map(|term| term.d_log_ratio)),
            d_log_prob: V::load(&terms.map(|term| term.d_log_prob)),
            clipped_low: V::mask(&terms.map(|term| term.clipped_low)),
            clipped_high: V::mask(&terms.map(|term| term.clipped_high)),
            clipped_dual: V::mask(&terms.map(|term| term.clipped_dual)),
        }
    }
}
