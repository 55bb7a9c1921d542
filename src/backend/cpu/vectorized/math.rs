//! exp over lanes.

use super::Lanes;

/// Below this, `exp` is held: 1.6e-38.
const LEAST_EXPONENT: f32 = -87.0;
/// 1.5 · 2^23: adding it rounds to the nearest integer, which the low bits then hold.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, the first with zeros at its end so that its multiples by small integers are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Coefficients of `(exp(r) - 1 - r) / r²`, highest first: within 1.3e-7 of its size for |r| <= ln 2 / 2, found by
/// exchange; the last one rounds to 1/2.
const SERIES: [f32; 5] = [0.001_394_116_6, 0.008_363_205, 0.041_666_374, 0.166_665_77, 0.5];

/// `exp(x)` within 2e-7 of its size and `exp(x) - 1 - x` within 2e-6, for x of at most 88; no cancellation in the
/// second. NaN stays NaN.
#[inline(always)]
pub(in super::super) fn exp_and_k3<V: Lanes>(x: V) -> (V, V) {
    let Reduced { r, q, n, power } = reduced(V::splat(LEAST_EXPONENT).max(x));
    let k3_of_r = r * r * q;
    let one = V::splat(1.0);
    let exp = (one + (r + k3_of_r)) * power;
    (exp, V::select(n.is_zero(), k3_of_r, exp - one - x))
}

/// `exp(x)` within 2e-7 of its size, for x of at most 88. NaN stays NaN.
#[inline(always)]
pub(in super::super) fn exp<V: Lanes>(x: V) -> V {
    exp_of_held(V::splat(LEAST_EXPONENT).max(x))
}

/// `exp(x)` within 2e-7 of its size, for x from -87 to 88. NaN stays NaN.
#[inline(always)]
pub(in super::super) fn exp_of_held<V: Lanes>(x: V) -> V {
    let one = V::splat(1.0);
    let Reduced { r, q, power, .. } = reduced(x);
    q.mul_add(r, one).mul_add(r, one) * power
}

/// `x = r + n·ln 2` with a whole n.
struct Reduced<V> {
    r: V,
    /// `(exp(r) - 1 - r) / r²`.
    q: V,
    n: V,
    /// `2^n`.
    power: V,
}

/// Reduces an x from -87 to 88.
#[inline(always)]
fn reduced<V: Lanes>(x: V) -> Reduced<V> {
    let rounded = x.mul_add(V::splat(std::f32::consts::LOG2_E), V::splat(ROUND));
    let n = rounded - V::splat(ROUND);
    let r = n.mul_add(V::splat(-LN_2_LOW), n.mul_add(V::splat(-LN_2_HIGH), x));
    let mut q = V::splat(SERIES[0]);
    for coefficient in &SERIES[1..] {
        q = q.mul_add(r, V::splat(*coefficient));
    }
    Reduced { r, q, n, power: rounded.power_of_two() }
}

/// Tells whether every value that it was given is finite: infinity times 0 is NaN.
#[derive(Clone, Copy)]
pub(in super::super) struct Probe<V>(V);

impl<V: Lanes> Probe<V> {
    #[inline(always)]
    pub(in super::super) fn new() -> Self {
        Probe(V::splat(0.0))
    }

    #[inline(always)]
    pub(in super::super) fn with(self, value: V) -> Self {
        Probe(value.mul_add(V::splat(0.0), self.0))
    }

    #[inline(always)]
    pub(in super::super) fn all_finite(self) -> V::Mask {
        self.0.is_number()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Lanes, Vectorized, WIDTH, run};
    use super::exp_and_k3;
    use crate::backend::cpu::Simd;

    struct Both([f32; WIDTH]);

    impl Vectorized for Both {
        type Output = [[f32; WIDTH]; 3];
        #[inline(always)]
        fn run<V: Lanes>(self) -> Self::Output {
            let (exp, k3) = exp_and_k3(V::load(&self.0));
            [exp.to_array(), k3.to_array(), super::exp(V::load(&self.0)).to_array()]
        }
    }

    #[test]
    fn exp_and_k3_are_those_of_f64_on_every_set_of_instructions() {
        let mut x = -87.0f32;
        while x < 88.0 {
            let inputs = std::array::from_fn(|i| (x + i as f32 * 0.003).min(88.0));
            let [exps, k3s, plain] = run(Simd::Scalar, Both(inputs));
            for simd in [Simd::Avx2, Simd::Avx512] {
                assert_eq!(run(simd.min(Simd::detect()), Both(inputs)), [exps, k3s, plain]);
            }
            for (((x, e), k3), plain) in inputs.into_iter().zip(exps).zip(k3s).zip(plain) {
                let wide = f64::from(x);
                assert!((f64::from(plain) / wide.exp() - 1.0).abs() < 2e-7, "exp({x}) = {plain}");
                assert!((f64::from(e) / wide.exp() - 1.0).abs() < 2e-7, "exp({x}) = {e}");
                let exact = wide.exp_m1() - wide;
                assert!(
                    (f64::from(k3) - exact).abs() <= 2e-6 * exact,
                    "k3({x}) = {k3}, not {exact}"
                );
            }
            x += 0.025;
        }
        let mut inputs = [0.0; WIDTH];
        inputs[1..4].copy_from_slice(&[1e-4, f32::NAN, -200.0]);
        let [exps, k3s, plain] = run(Simd::detect(), Both(inputs));
        assert_eq!((exps[0], k3s[0]), (1.0, 0.0));
        assert!((k3s[1] - 5.000_166_7e-9).abs() < 1e-14);
        assert!(exps[2].is_nan() && exps[3] < 1e-37);
        assert!(plain[0] == 1.0 && plain[2].is_nan() && plain[3] < 1e-37);
    }
}
