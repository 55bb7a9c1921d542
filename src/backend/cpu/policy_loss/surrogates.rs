//! The built-in losses of a token.

use super::super::vectorized::exp;
use crate::params::loss::{TokenInput, TokenLoss, TokenTerm};

/// PPO's clipped loss, with the dual clip where `dual` is finite.
pub(super) struct Clip {
    pub(super) least: f32,
    pub(super) most: f32,
    pub(super) dual: f32,
}

impl TokenLoss for Clip {
    #[inline(always)]
    fn term(&self, token: TokenInput) -> TokenTerm {
        let (r, a) = (token.ratio, token.advantage);
        let plain = -r * a;
        let held = -bound(r, self.least, self.most) * a;
        let at_bound = held > plain;
        let value = if at_bound { held } else { plain };
        let most = self.dual * -a;
        let at_dual = (a < 0.0) & (value > most);
        TokenTerm {
            value: if at_dual { most } else { value },
            d_log_ratio: if at_bound | at_dual { 0.0 } else { plain },
            d_log_prob: 0.0,
            clipped_low: at_bound & !at_dual & (a < 0.0),
            clipped_high: at_bound & !at_dual & (a > 0.0),
            clipped_dual: at_dual,
        }
    }
}

/// CISPO: a bound weight without gradient on the log-prob.
pub(super) struct Cispo {
    pub(super) min: f32,
    pub(super) max: f32,
}

impl TokenLoss for Cispo {
    #[inline(always)]
    fn term(&self, token: TokenInput) -> TokenTerm {
        let (r, a) = (token.ratio, token.advantage);
        let weight = -bound(r, self.min, self.max) * a;
        TokenTerm {
            value: weight * token.log_prob,
            d_log_ratio: 0.0,
            d_log_prob: weight,
            clipped_low: r < self.min,
            clipped_high: r > self.max,
            clipped_dual: false,
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

impl TokenLoss for Sapo {
    #[inline(always)]
    fn term(&self, token: TokenInput) -> TokenTerm {
        let (r, a) = (token.ratio, token.advantage);
        let tau = if a > 0.0 { self.tau_positive } else { self.tau_negative };
        let e = exp(-bound(tau * (r - 1.0), -LARGEST_GATE, LARGEST_GATE));
        let gate = 1.0 / (1.0 + e);
        TokenTerm {
            value: -a * (4.0 / tau) * gate,
            // gate·(1 - gate), without the cancellation of 1 - gate.
            d_log_ratio: -a * 4.0 * (gate * (e / (1.0 + e))) * r,
            ..TokenTerm::default()
        }
    }
}

#[inline(always)]
fn bound(x: f32, least: f32, most: f32) -> f32 {
    let x = if x < least { least } else { x };
    if x > most { most } else { x }
}
