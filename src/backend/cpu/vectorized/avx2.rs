//! Eight f32 in one AVX2 register.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

use super::super::Simd;
use super::{Lanes, Vectorized, WIDTH};

/// Only made inside [`run`], so that the processor has AVX2 and FMA wherever one exists.
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256);

/// All bits of a lane are equal.
#[derive(Clone, Copy)]
pub(super) struct Mask(__m256);

/// Runs `work` in AVX2 and FMA.
///
/// # Panics
/// When `simd` is narrower.
pub(super) fn run<W: Vectorized>(work: W, simd: Simd) -> W::Output {
    #[target_feature(enable = "avx2,fma")]
    fn with_avx2<W: Vectorized>(work: W) -> W::Output {
        work.run::<Avx2>()
    }
    assert!(simd >= Simd::Avx2);
    // SAFETY: `Simd::Avx2` and wider come from `Simd::detect` alone, which has found AVX2 and FMA.
    unsafe { with_avx2(work) }
}

macro_rules! operator {
    ($type:ident, $trait:ident, $method:ident, $instruction:ident) => {
        impl $trait for $type {
            type Output = $type;
            #[inline(always)]
            fn $method(self, other: $type) -> $type {
                // SAFETY: AVX2 is there: see `Avx2`.
                $type(unsafe { $instruction(self.0, other.0) })
            }
        }
    };
}

operator!(Avx2, Add, add, _mm256_add_ps);
operator!(Avx2, Sub, sub, _mm256_sub_ps);
operator!(Avx2, Mul, mul, _mm256_mul_ps);
operator!(Avx2, Div, div, _mm256_div_ps);
operator!(Mask, BitAnd, bitand, _mm256_and_ps);
operator!(Mask, BitOr, bitor, _mm256_or_ps);

impl Neg for Avx2 {
    type Output = Avx2;
    #[inline(always)]
    fn neg(self) -> Avx2 {
        // SAFETY: AVX2 is there: see `Avx2`.
        Avx2(unsafe { _mm256_xor_ps(self.0, _mm256_set1_ps(-0.0)) })
    }
}

impl Not for Mask {
    type Output = Mask;
    #[inline(always)]
    fn not(self) -> Mask {
        // SAFETY: AVX2 is there: see `Avx2`.
        Mask(unsafe { _mm256_xor_ps(self.0, _mm256_castsi256_ps(_mm256_set1_epi32(-1))) })
    }
}

impl Lanes for Avx2 {
    type Mask = Mask;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        Avx2(unsafe { _mm256_set1_ps(value) })
    }

    #[inline(always)]
    fn load(values: &[f32; WIDTH]) -> Self {
        // SAFETY: AVX2 is there, and the array has eight numbers.
        Avx2(unsafe { _mm256_loadu_ps(values.as_ptr()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [f32; WIDTH]) {
        // SAFETY: AVX2 is there, and the array has eight numbers.
        unsafe { _mm256_storeu_ps(values.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        // SAFETY: FMA is there: see `Avx2`.
        Avx2(unsafe { _mm256_fmadd_ps(self.0, factor.0, term.0) })
    }

    #[inline(always)]
    fn less(self, other: Self) -> Mask {
        // SAFETY: AVX2 is there: see `Avx2`.
        Mask(unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0) })
    }

    #[inline(always)]
    fn is_nan(self) -> Mask {
        // SAFETY: AVX2 is there: see `Avx2`.
        Mask(unsafe { _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0) })
    }

    #[inline(always)]
    fn is_finite(self) -> Mask {
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe {
            let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0);
            Mask(_mm256_cmp_ps::<_CMP_LT_OQ>(size, _mm256_set1_ps(f32::INFINITY)))
        }
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(self.0));
            let one = _mm256_castps_si256(_mm256_set1_ps(1.0));
            Avx2(_mm256_castsi256_ps(_mm256_add_epi32(exponent, one)))
        }
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        Avx2(unsafe { _mm256_blendv_ps(no.0, yes.0, mask.0) })
    }

    #[inline(always)]
    fn mask(values: &[bool; WIDTH]) -> Mask {
        let bytes = i64::from_le_bytes(values.map(u8::from));
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe {
            let wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes));
            Mask(_mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256())))
        }
    }

    #[inline(always)]
    fn splat_mask(value: bool) -> Mask {
        // SAFETY: AVX2 is there: see `Avx2`.
        Mask(unsafe { _mm256_castsi256_ps(_mm256_set1_epi32(-i32::from(value))) })
    }

    #[inline(always)]
    fn keep(self, mask: Mask) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        Avx2(unsafe { _mm256_and_ps(self.0, mask.0) })
    }
}
