//! Groupability: how much a candidate is worth as the centre of a group, from its size and its occurrences.
//!
//! `exp` and `log` are libm's in Rust, not the system's: their last bit decides near-ties, and must be the same on
//! every machine.

use libm::{exp, log};

use super::{AnchorConfig, Groupability};

/// Groupability score GS of a candidate whose `n` occurrences have `mean_lines` lines on average; 0 for `n < 2`.
pub fn groupability(config: &AnchorConfig, mean_lines: f64, n: usize) -> f64 {
    if n < 2 {
        return 0.0;
    }
    let size = mean_lines / config.s0;
    let others = (n - 1) as f64 / config.g0;
    match config.groupability {
        Groupability::Exponential => (1.0 - exp(-size)) * (1.0 - exp(-others)),
        Groupability::Additive => size + others,
        Groupability::Log => log(1.0 + size) * log(1.0 + others),
        Groupability::Linear => size * others,
    }
}
