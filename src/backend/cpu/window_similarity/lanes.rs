//! Bit vectors of four patterns side by side, and the choice of the instructions that run them.
//!
//! A state holds, for each lane, the bit vector V of Hyyrö's recurrence (Bit-parallel LCS-length computation
//! revisited, 2004): `V' = (V + (V & M)) | (V & !M)`, with M the places of the text's token in the pattern. The zero
//! bits of V below bit e count the longest common subsequence of the pattern's first e tokens and the text so far.

use super::super::Simd;
#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
use super::scalar;

/// Patterns that one state holds.
pub(super) const N_LANES: usize = 4;

/// One 64-bit word of each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(32))]
pub(super) struct Lanes(pub(super) [u64; N_LANES]);

impl Lanes {
    pub(super) const ZEROS: Lanes = Lanes([0; N_LANES]);
    pub(super) const ONES: Lanes = Lanes([u64::MAX; N_LANES]);
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

    /// Runs the recurrence over a line of text: `from` and `to` have `words` entries, `table` has `words` entries for
    /// every table row, and `rows` holds the table row of each token.
    #[inline]
    pub(super) fn advance(
        self,
        words: usize,
        from: &[Lanes],
        to: &mut [Lanes],
        table: &[Lanes],
        rows: &[u32],
    ) {
        match self {
            Kernel::Scalar => scalar::advance(words, from, to, table, rows),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.advance(words, from, to, table, rows),
        }
    }

    /// Zero bits below bit `bits` in each lane; `bits` is at most 64 times the number of words.
    #[inline]
    pub(super) fn zeros_below(self, state: &[Lanes], bits: usize) -> [u64; N_LANES] {
        match self {
            Kernel::Scalar => scalar::zeros_below(state, bits),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.zeros_below(state, bits),
        }
    }
}
