//! Sixteen f32 in one AVX-512 register.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

use super::super::Simd;
use super::{Lanes, Vectorized, WIDTH};

/// Only made inside [`run`], so that the processor has AVX-512 F and BW wherever one exists.
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

/// A bit for each lane.
#[derive(Clone, Copy)]
pub(super) struct Mask(__mmask16);

/// Runs `work` in AVX-512 F and BW.
///
/// # Panics
/// When `simd` is narrower.
pub(super) fn run<W: Vectorized>(work: W, simd: Simd) -> W::Output {
    #[target_feature(enable = "avx2,fma,popcnt,bmi1,bmi2,avx512f,avx512bw")]
    fn with_avx512<W: Vectorized>(work: W) -> W::Output {
        work.run::<Avx512>()
    }
    assert!(simd >= Simd::Avx512);
    // SAFETY: `Simd::Avx512` comes from `Simd::detect` alone, which has found all that is enabled.
    unsafe { with_avx512(work) }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $instruction:ident) => {
        impl $trait for Avx512 {
            type Output = Avx512;
            #[inline(always)]
            fn $method(self, other: Avx512) -> Avx512 {
                // SAFETY: AVX-512 F is there: see `Avx512`.
                Avx512(unsafe { $instruction(self.0, other.0) })
            }
        }
    };
}

operator!(Add, add, _mm512_add_ps);
operator!(Sub, sub, _mm512_sub_ps);
operator!(Mul, mul, _mm512_mul_ps);
operator!(Div, div, _mm512_div_ps);

impl Neg for Avx512 {
    type Output = Avx512;
    #[inline(always)]
    fn neg(self) -> Avx512 {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        unsafe {
            let sign = _mm512_set1_epi32(i32::MIN);
            Avx512(_mm512_castsi512_ps(_mm512_xor_epi32(_mm512_castps_si512(self.0), sign)))
        }
    }
}

impl BitAnd for Mask {
    type Output = Mask;
    #[inline(always)]
    fn bitand(self, other: Mask) -> Mask {
        Mask(self.0 & other.0)
    }
}

impl BitOr for Mask {
    type Output = Mask;
    #[inline(always)]
    fn bitor(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }
}

impl Not for Mask {
    type Output = Mask;
    #[inline(always)]
    fn not(self) -> Mask {
        Mask(!self.0)
    }
}

impl Avx512 {
    #[inline(always)]
    fn is<const COMPARISON: i32>(self, other: Self) -> Mask {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        Mask(unsafe { _mm512_cmp_ps_mask::<COMPARISON>(self.0, other.0) })
    }
}

impl Lanes for Avx512 {
    type Mask = Mask;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        Avx512(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    fn load(values: &[f32; WIDTH]) -> Self {
        // SAFETY: AVX-512 F is there, and the array has sixteen numbers.
        Avx512(unsafe { _mm512_loadu_ps(values.as_ptr()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [f32; WIDTH]) {
        // SAFETY: AVX-512 F is there, and the array has sixteen numbers.
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        Avx512(unsafe { _mm512_fmadd_ps(self.0, factor.0, term.0) })
    }

    #[inline(always)]
    fn less(self, other: Self) -> Mask {
        self.is::<_CMP_LT_OQ>(other)
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        Avx512(unsafe { _mm512_min_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        Avx512(unsafe { _mm512_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn is_nan(self) -> Mask {
        self.is::<_CMP_UNORD_Q>(self)
    }

    #[inline(always)]
    fn is_number(self) -> Mask {
        self.is::<_CMP_ORD_Q>(self)
    }

    #[inline(always)]
    fn is_zero(self) -> Mask {
        self.is::<_CMP_EQ_OQ>(Self::splat(0.0))
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(self.0));
            let one = _mm512_castps_si512(_mm512_set1_ps(1.0));
            Avx512(_mm512_castsi512_ps(_mm512_add_epi32(exponent, one)))
        }
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        Avx512(unsafe { _mm512_mask_blend_ps(mask.0, no.0, yes.0) })
    }

    #[inline(always)]
    fn mask(values: &[bool; WIDTH]) -> Mask {
        let bytes = u128::from_le_bytes(values.map(u8::from)).cast_signed();
        let (low, high) = (bytes as i64, (bytes >> 64) as i64);
        // SAFETY: AVX-512 BW is there: see `Avx512`.
        unsafe {
            let bytes = _mm512_castsi128_si512(_mm_set_epi64x(high, low));
            Mask(_mm512_test_epi8_mask(bytes, bytes) as u16)
        }
    }

    #[inline(always)]
    fn splat_mask(value: bool) -> Mask {
        Mask(if value { u16::MAX } else { 0 })
    }

    #[inline(always)]
    fn keep(self, mask: Mask) -> Self {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        Avx512(unsafe { _mm512_maskz_mov_ps(mask.0, self.0) })
    }

    #[inline(always)]
    fn add_where(self, mask: Mask, term: Self) -> Self {
        // SAFETY: AVX-512 F is there: see `Avx512`.
        Avx512(unsafe { _mm512_mask_add_ps(self.0, mask.0, self.0, term.0) })
    }
}
