//! The recurrence in plain Rust: 4 lanes of 64-bit words with explicit carries.

use super::lanes::{Lanes, N_LANES};

/// See [`super::lanes::Kernel::advance`].
pub(super) fn advance(
    words: usize,
    from: &[Lanes],
    to: &mut [Lanes],
    table: &[Lanes],
    rows: &[u32],
) {
    to[..words].copy_from_slice(&from[..words]);
    for &row in rows {
        let masks = &table[row as usize * words..][..words];
        let mut carry = [0u64; N_LANES];
        for (state, mask) in to.iter_mut().zip(masks) {
            for lane in 0..N_LANES {
                let (v, m) = (state.0[lane], mask.0[lane]);
                let (sum, over) = v.overflowing_add(v & m);
                let (sum, over_again) = sum.overflowing_add(carry[lane]);
                carry[lane] = u64::from(over | over_again);
                state.0[lane] = sum | (v & !m);
            }
        }
    }
}

/// See [`super::lanes::Kernel::zeros_below`].
pub(super) fn zeros_below(state: &[Lanes], bits: usize) -> [u64; N_LANES] {
    let mut zeros = [0u64; N_LANES];
    for word in &state[..bits / 64] {
        for lane in 0..N_LANES {
            zeros[lane] += u64::from(word.0[lane].count_zeros());
        }
    }
    if !bits.is_multiple_of(64) {
        let below = (1u64 << (bits % 64)) - 1;
        for lane in 0..N_LANES {
            zeros[lane] += u64::from((!state[bits / 64].0[lane] & below).count_ones());
        }
    }
    zeros
}
