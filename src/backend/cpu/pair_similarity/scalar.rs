//! The kernels in plain Rust.

use super::lanes::{Bins, Lanes, Masks, N_LANES, Partners, Prefix};

/// See [`super::lanes::Kernel::advance`].
pub(super) fn advance(state: &mut [Lanes], masks: Masks<'_>, text: &[u32]) {
    for &symbol in text {
        let mut borrow = [0u64; N_LANES];
        for (state, mask) in state.iter_mut().zip(masks.of(symbol)) {
            for lane in 0..N_LANES {
                let (z, m) = (state.0[lane], mask.0[lane]);
                let difference = z.wrapping_sub(!z & m).wrapping_sub(borrow[lane]);
                borrow[lane] = difference >> 63;
                state.0[lane] = difference & (z | m);
            }
        }
    }
}

/// See [`super::lanes::Kernel::ones`].
#[inline(always)]
pub(super) fn ones(state: &[Lanes], prefixes: &[Prefix], wanted: u64, ones: &mut [u32; 64]) {
    let mut left = wanted;
    while left != 0 {
        let slot = left.trailing_zeros() as usize;
        left &= left - 1;
        let prefix = prefixes[slot];
        let (n_whole, lane) = (prefix.n_whole as usize, prefix.lane as usize % N_LANES);
        let whole: u32 = state[..n_whole].iter().map(|limb| limb.0[lane].count_ones()).sum();
        ones[slot] = whole + (state[n_whole].0[lane] & prefix.rest).count_ones();
    }
}

/// See [`super::lanes::Kernel::keep`].
pub(super) fn keep(
    bins: &Bins,
    excess: u32,
    partners: Partners<'_>,
    least: &[u32],
    kept: &mut [u32],
) -> usize {
    let mut n_kept = 0;
    for (place, ((other, &other_excess), &len)) in
        partners.bins.iter().zip(partners.excess).zip(partners.lens).enumerate()
    {
        kept[n_kept] = place as u32;
        let most = shared(bins, other) + excess.min(other_excess);
        n_kept += usize::from(most >= least[len as usize]);
    }
    n_kept
}

/// See [`super::lanes::Kernel::shared`].
#[inline]
pub(super) fn shared(a: &Bins, b: &Bins) -> u32 {
    a.0.iter().zip(&b.0).map(|(&x, &y)| u32::from(x.min(y))).sum()
}
