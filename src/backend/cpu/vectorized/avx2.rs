//! Sixteen f32 in two AVX2 registers.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

use super::super::Simd;
use super::{Lanes, Vectorized, WIDTH};

/// Only made inside [`run`], so that the processor has AVX2 and FMA wherever one exists.
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256, __m256);

/// All bits of a lane are equal.
#[derive(Clone, Copy)]
pub(super) struct Mask(__m256, __m256);

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
                unsafe { $type($instruction(self.0, other.0), $instruction(self.1, other.1)) }
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
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            Avx2(_mm256_xor_ps(self.0, sign), _mm256_xor_ps(self.1, sign))
        }
    }
}

impl Not for Mask {
    type Output = Mask;
    #[inline(always)]
    fn not(self) -> Mask {
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe {
            let all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
            Mask(_mm256_xor_ps(self.0, all), _mm256_xor_ps(self.1, all))
        }
    }
}

impl Avx2 {
    #[inline(always)]
    fn is<const COMPARISON: i32>(self, other: Self) -> Mask {
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe {
            let low = _mm256_cmp_ps::<COMPARISON>(self.0, other.0);
            Mask(low, _mm256_cmp_ps::<COMPARISON>(self.1, other.1))
        }
    }
}

impl Lanes for Avx2 {
    type Mask = Mask;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        let all = unsafe { _mm256_set1_ps(value) };
        Avx2(all, all)
    }

    #[inline(always)]
    fn load(values: &[f32; WIDTH]) -> Self {
        let [low, high] = values.as_chunks::<8>().0 else { unreachable!("sixteen numbers") };
        // SAFETY: AVX2 is there, and both arrays have eight numbers.
        unsafe { Avx2(_mm256_loadu_ps(low.as_ptr()), _mm256_loadu_ps(high.as_ptr())) }
    }

    #[inline(always)]
    fn store(self, values: &mut [f32; WIDTH]) {
        let [low, high] = values.as_chunks_mut::<8>().0 else { unreachable!("sixteen numbers") };
        // SAFETY: AVX2 is there, and both arrays have eight numbers.
        unsafe {
            _mm256_storeu_ps(low.as_mut_ptr(), self.0);
            _mm256_storeu_ps(high.as_mut_ptr(), self.1);
        }
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        // SAFETY: FMA is there: see `Avx2`.
        unsafe {
            let low = _mm256_fmadd_ps(self.0, factor.0, term.0);
            Avx2(low, _mm256_fmadd_ps(self.1, factor.1, term.1))
        }
    }

    #[inline(always)]
    fn less(self, other: Self) -> Mask {
        self.is::<_CMP_LT_OQ>(other)
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe { Avx2(_mm256_min_ps(self.0, other.0), _mm256_min_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe { Avx2(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1)) }
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
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe {
            let one = _mm256_castps_si256(_mm256_set1_ps(1.0));
            let low = _mm256_slli_epi32::<23>(_mm256_castps_si256(self.0));
            let high = _mm256_slli_epi32::<23>(_mm256_castps_si256(self.1));
            let low = _mm256_castsi256_ps(_mm256_add_epi32(low, one));
            Avx2(low, _mm256_castsi256_ps(_mm256_add_epi32(high, one)))
        }
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe {
            let low = _mm256_blendv_ps(no.0, yes.0, mask.0);
            Avx2(low, _mm256_blendv_ps(no.1, yes.1, mask.1))
        }
    }

    #[inline(always)]
    fn mask(values: &[bool; WIDTH]) -> Mask {
        let bytes = u128::from_le_bytes(values.map(u8::from)).cast_signed();
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe {
            let low = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes as i64));
            let high = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((bytes >> 64) as i64));
            let zero = _mm256_setzero_si256();
            let low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(low, zero));
            Mask(low, _mm256_castsi256_ps(_mm256_cmpgt_epi32(high, zero)))
        }
    }

    #[inline(always)]
    fn splat_mask(value: bool) -> Mask {
        // SAFETY: AVX2 is there: see `Avx2`.
        let all = unsafe { _mm256_castsi256_ps(_mm256_set1_epi32(-i32::from(value))) };
        Mask(all, all)
    }

    #[inline(always)]
    fn keep(self, mask: Mask) -> Self {
        // SAFETY: AVX2 is there: see `Avx2`.
        unsafe { Avx2(_mm256_and_ps(self.0, mask.0), _mm256_and_ps(self.1, mask.1)) }
    }

    #[inline(always)]
    fn add_where(self, mask: Mask, term: Self) -> Self {
        // Adding 0 changes nothing but -0.
        self + term.keep(mask)
    }
}
