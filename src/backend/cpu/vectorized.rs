//! Elementwise f32 code that the compiler turns into SIMD: run with the instructions that the device allows.
//!
//! The same Rust code is compiled twice, once with AVX2 and FMA. Every fused multiply-add is written as `mul_add`, so
//! both give the same bits.

#![allow(unsafe_code)]

use super::Simd;

/// Work whose inner loops are to be compiled for the widest instructions. `run` and what it calls must be
/// `#[inline(always)]`.
pub(super) trait Vectorized {
    type Output;
    fn run(self) -> Self::Output;
}

/// Runs `work` with the instructions of `simd`.
pub(super) fn run<W: Vectorized>(simd: Simd, work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if simd >= Simd::Avx2 {
        // SAFETY: `Simd::Avx2` and wider are only given by `Simd::detect`, which checks for AVX2 and FMA.
        return unsafe { run_avx2(work) };
    }
    let _ = simd;
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<W: Vectorized>(work: W) -> W::Output {
    work.run()
}

/// Below this, `exp` is held: 1.6e-38.
const LEAST_EXPONENT: f32 = -87.0;
/// 1.5 · 2^23: adding it rounds to the nearest integer, which the low bits then hold.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, the first with zeros at its end so that its multiples by small integers are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `exp(x)` and `exp(x) - 1 - x`, both within 3e-7 of their size, for x of at most 88; no cancellation in the second.
#[inline(always)]
pub(super) fn exp_and_k3(x: f32) -> (f32, f32) {
    let bound = if x < LEAST_EXPONENT { LEAST_EXPONENT } else { x };
    let rounded = bound.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, bound));
    // (exp(r) - 1 - r) / r², |r| <= ln 2 / 2: the Taylor series; the first term left out is below 6e-9.
    let q = (1.0f32 / 5040.0)
        .mul_add(r, 1.0 / 720.0)
        .mul_add(r, 1.0 / 120.0)
        .mul_add(r, 1.0 / 24.0)
        .mul_add(r, 1.0 / 6.0)
        .mul_add(r, 0.5);
    let k3_of_r = r * r * q;
    let scale = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    let exp = (1.0 + (r + k3_of_r)) * scale;
    (exp, if n == 0.0 { k3_of_r } else { exp - 1.0 - x })
}

/// `exp(x)` within 2e-7 of its size, for x of at most 88.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    exp_and_k3(x).0
}

#[cfg(test)]
mod tests {
    use super::{exp, exp_and_k3};

    #[test]
    fn exp_and_k3_are_those_of_f64() {
        let mut x = -87.0f32;
        while x < 88.0 {
            let (e, k3) = exp_and_k3(x);
            let wide = f64::from(x);
            assert!((f64::from(e) / wide.exp() - 1.0).abs() < 2e-7, "exp({x}) = {e}");
            let exact = wide.exp_m1() - wide;
            assert!((f64::from(k3) - exact).abs() <= 2e-6 * exact, "k3({x}) = {k3}, not {exact}");
            x += 0.003_7;
        }
        assert_eq!(exp_and_k3(0.0), (1.0, 0.0));
        assert_eq!(exp_and_k3(1e-4).1, 5.000_166_7e-9);
        assert!(exp(f32::NAN).is_nan());
    }
}
