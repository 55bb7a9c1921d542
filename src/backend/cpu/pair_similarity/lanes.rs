//! Bit vectors of four patterns side by side, histograms, and the choice of the instructions that run them.
//!
//! # The recurrence
//! Hyyrö's bit vector V (Bit-parallel LCS-length computation revisited, 2004) goes by
//! `V' = (V + (V & M)) | (V & !M)`, with M the places of the text's token in the pattern; its zeros below bit e count
//! the LCS of the pattern's first e tokens and the text so far. Here the state is Z = !V, so ones are counted. With
//! `U = V & M = !Z & M` and, as `!x = -1 - x`, `V + U = !(Z - U)`:
//!
//! `Z' = !(V + U) & !(V & !M) = (Z - U) & (Z | M)`.
//!
//! A limb has 63 bits of a pattern in a word of 64; bit 63 of Z and M is zero. So in `D = Z - U - c`, with a borrow c of
//! 0 or 1 from the limb below, both Z and U + c are in 0..=2^63, D is at least -2^63, and D is negative iff the limb
//! borrows: the borrow is bit 63 of D, without a comparison. Bit 63 of Z' is zero again, as that of Z | M is.
//! A token that is not in the pattern has M = 0, so U = 0, no borrow, and Z stays.

use super::super::Simd;
#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
use super::scalar;

/// Patterns that one state holds.
pub(super) const N_LANES: usize = 4;
/// Bits of a pattern in a limb.
pub(super) const LIMB: usize = 63;
/// Bins of a histogram.
pub(super) const N_BINS: usize = 128;

/// One limb of each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(32))]
pub(super) struct Lanes(pub(super) [u64; N_LANES]);

impl Lanes {
    pub(super) const ZEROS: Lanes = Lanes([0; N_LANES]);
}

/// Where each symbol stands in the patterns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Masks<'a> {
    /// From the first limb in use on; a row is `stride` limbs.
    pub(super) table: &'a [Lanes],
    pub(super) stride: usize,
    /// The row of each symbol.
    pub(super) row_of: &'a [u32],
}

impl<'a> Masks<'a> {
    /// The limbs of a symbol from the first one in use on.
    #[inline(always)]
    pub(super) fn of(self, symbol: u32) -> &'a [Lanes] {
        &self.table[self.row_of[symbol as usize] as usize * self.stride..]
    }
}

/// The bins of one histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(32))]
pub(super) struct Bins(pub(super) [u8; N_BINS]);

/// The beginning of a lane's pattern, in which ones are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix {
    pub(super) lane: u32,
    /// Limbs counted whole.
    pub(super) n_whole: u32,
    /// The bits counted of the limb after them; at least one.
    pub(super) rest: u64,
}

impl Prefix {
    /// The first `len` tokens, at least one.
    pub(super) fn new(lane: usize, len: u32) -> Self {
        let n_whole = (len as usize - 1) / LIMB;
        let n_rest = len as usize - n_whole * LIMB;
        Prefix { lane: lane as u32, n_whole: n_whole as u32, rest: (1 << n_rest) - 1 }
    }
}

/// The partners of an item in the order of their lengths: histograms, what these leave out, and lengths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partners<'a> {
    pub(super) bins: &'a [Bins],
    pub(super) excess: &'a [u32],
    pub(super) lens: &'a [u32],
}

/// The instructions in use; every kind gives the same bits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kernel {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

impl Kernel {
    pub(super) fn new(simd: Simd) -> Self {
        #[cfg(target_arch = "x86_64")]
        if simd >= Simd::Avx2
            && let Some(avx2) = Avx2::detect()
        {
            return Kernel::Avx2(avx2);
        }
        let _ = simd;
        Kernel::Scalar
    }

    /// Runs the recurrence over a text on some limbs of the state.
    #[inline]
    pub(super) fn advance(self, state: &mut [Lanes], masks: Masks<'_>, text: &[u32]) {
        match self {
            Kernel::Scalar => scalar::advance(state, masks, text),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.advance(state, masks, text),
        }
    }

    /// The ones in each prefix whose bit is set in `wanted`.
    #[inline]
    pub(super) fn ones(
        self,
        state: &[Lanes],
        prefixes: &[Prefix],
        wanted: u64,
        ones: &mut [u32; 64],
    ) {
        match self {
            Kernel::Scalar => scalar::ones(state, prefixes, wanted, ones),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.ones(state, prefixes, wanted, ones),
        }
    }

    /// The partners that share enough tokens by the histograms: their places in `partners`, at the beginning of `kept`;
    /// gives how many. `least` holds by a partner's length the least number to share. `kept` has room for all and 4.
    #[inline]
    pub(super) fn keep(
        self,
        bins: &Bins,
        excess: u32,
        partners: Partners<'_>,
        least: &[u32],
        kept: &mut [u32],
    ) -> usize {
        match self {
            Kernel::Scalar => scalar::keep(bins, excess, partners, least, kept),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.keep(bins, excess, partners, least, kept),
        }
    }

    /// The tokens that two histograms share.
    #[inline]
    pub(super) fn shared(self, a: &Bins, b: &Bins) -> u32 {
        match self {
            Kernel::Scalar => scalar::shared(a, b),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.shared(a, b),
        }
    }
}
