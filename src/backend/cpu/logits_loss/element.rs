//! Logits of any dtype, as f32 by the chunk.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// A dtype of logits.
pub(in super::super) trait Element: Copy + Send + Sync {
    const ZERO: Self;
    const NAN: Self;
    fn widen(from: &[Self], to: &mut [f32]);
    fn narrow(from: &[f32], to: &mut [Self]);

    /// The same numbers where they lie, if that is possible.
    fn as_wide(_values: &[Self]) -> Option<&[f32]> {
        None
    }

    /// As [`Element::as_wide`], to be written.
    fn as_wide_mut(_values: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    fn of(value: f32) -> Self {
        let mut narrow = [Self::ZERO];
        Self::narrow(&[value], &mut narrow);
        narrow[0]
    }

    fn wide(self) -> f32 {
        let mut wide = [0.0];
        Self::widen(&[self], &mut wide);
        wide[0]
    }
}

impl Element for f32 {
    const ZERO: f32 = 0.0;
    const NAN: f32 = f32::NAN;

    #[inline(always)]
    fn widen(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    #[inline(always)]
    fn as_wide(values: &[f32]) -> Option<&[f32]> {
        Some(values)
    }

    #[inline(always)]
    fn as_wide_mut(values: &mut [f32]) -> Option<&mut [f32]> {
        Some(values)
    }
}

impl Element for bf16 {
    const ZERO: bf16 = bf16::ZERO;
    const NAN: bf16 = bf16::NAN;

    #[inline(always)]
    fn widen(from: &[bf16], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from_bits(u32::from(from.to_bits()) << 16);
        }
    }

    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [bf16]) {
        for (to, from) in to.iter_mut().zip(from) {
            // To nearest, ties to even; a NaN keeps its sign and upper bits and stays one.
            let bits = from.to_bits();
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
            let quiet = bits | 0x0040_0000;
            *to = bf16::from_bits(((if from.is_nan() { quiet } else { rounded }) >> 16) as u16);
        }
    }
}

impl Element for f16 {
    const ZERO: f16 = f16::ZERO;
    const NAN: f16 = f16::NAN;

    #[inline(always)]
    fn widen(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
    }
}
