//! Sixteen f32 side by side, and exp on them: what the losses are written in.
//!
//! An operation is written once over [`Lanes`] and runs with the instructions that the device allows. All
//! implementations have sixteen lanes, whatever the width of a register, and do the same IEEE operations in the same
//! order, fused multiply-adds included, so they give the same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod math;
mod portable;

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

pub(super) use self::math::{Probe, exp, exp_and_k3, exp_of_held};
use super::Simd;

/// Numbers in a [`Lanes`].
pub(super) const WIDTH: usize = 16;

/// Sixteen f32. Comparisons with NaN are false.
pub(super) trait Lanes:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Sixteen booleans.
    type Mask: Copy
        + BitAnd<Output = Self::Mask>
        + BitOr<Output = Self::Mask>
        + Not<Output = Self::Mask>;

    fn splat(value: f32) -> Self;
    fn load(values: &[f32; WIDTH]) -> Self;
    fn store(self, values: &mut [f32; WIDTH]);
    /// `self · factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    fn less(self, other: Self) -> Self::Mask;
    /// `self` where it is less, else `other`.
    fn min(self, other: Self) -> Self;
    /// `self` where it is greater, else `other`.
    fn max(self, other: Self) -> Self;
    fn is_nan(self) -> Self::Mask;
    fn is_number(self) -> Self::Mask;
    /// Whether it is 0 or -0.
    fn is_zero(self) -> Self::Mask;
    /// `2^n` for `self = 1.5·2^23 + n`, |n| at most 126.
    fn power_of_two(self) -> Self;
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    fn mask(values: &[bool; WIDTH]) -> Self::Mask;
    fn splat_mask(value: bool) -> Self::Mask;
    /// `self` where the mask is true, else 0.
    fn keep(self, mask: Self::Mask) -> Self;
    /// `self + term` where the mask is true, else `self`, which is not -0.
    fn add_where(self, mask: Self::Mask, term: Self) -> Self;

    /// `self` within `least..=most`; NaN stays NaN.
    #[inline(always)]
    fn within(self, least: Self, most: Self) -> Self {
        most.min(least.max(self))
    }

    #[inline(always)]
    fn to_array(self) -> [f32; WIDTH] {
        let mut values = [0.0; WIDTH];
        self.store(&mut values);
        values
    }

    /// Adds each lane to its own sum.
    #[inline(always)]
    fn add_to(self, sums: &mut [f64; WIDTH]) {
        for (sum, value) in sums.iter_mut().zip(self.to_array()) {
            *sum += f64::from(value);
        }
    }
}

/// Work over lanes. `run` and what it calls must be `#[inline(always)]`, so that it is compiled for the instructions.
pub(super) trait Vectorized {
    type Output;
    fn run<V: Lanes>(self) -> Self::Output;
}

/// Runs `work` with the instructions of `simd`.
pub(super) fn run<W: Vectorized>(simd: Simd, work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    match simd {
        Simd::Avx512 => return avx512::run(work, simd),
        Simd::Avx2 => return avx2::run(work, simd),
        Simd::Scalar => {}
    }
    let _ = simd;
    work.run::<portable::Portable>()
}
