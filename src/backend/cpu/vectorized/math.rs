//! exp over lanes.

use super::Lanes;

/// Below this, `exp` is held: 1.6e-38.
const LEAST_EXPONENT: f32 = -87.0;
/// 1.5 · 2^23: adding it rounds to the nearest integer, which the low bits then hold.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, the first with zeros at its end so that its multiples by small integers are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Coefficients of `(exp(r) - 1 - r) / r²`, highest first: the Taylor series. For |r| <= ln 2 / 2 the first term left
/// out is below 6e-9.
const SERIES: [f32; 6] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];

/// `exp(x)` within 2e-7 of its size and `exp(x) - 1 - x` within 2e-6, for x of at most 88; no cancellation in the
/// second. NaN stays NaN.
#[inline(always)]
pub(in super::super) fn exp_and_k3<V: Lanes>(x: V) -> (V, V) {
    let least = V::splat(LEAST_EXPONENT);
    let bound = V::select(x.less(least), least, x);
    let rounded = bound.mul_add(V::splat(std::f32::consts::LOG2_E), V::splat(ROUND));
    let n = rounded - V::splat(ROUND);
    let r = n.mul_add(V::splat(-LN_2_LOW), n.mul_add(V::splat(-LN_2_HIGH), bound));
    let mut q = V::splat(SERIES[0]);
    for coefficient in &SERIES[1..] {
        q = q.mul_add(r, V::splat(*coefficient));
    }
    let k3_of_r = r * r * q;
    let one = V::splat(1.0);
    let exp = (one + (r + k3_of_r)) * rounded.power_of_two();
    let half = V::splat(0.5);
    let n_is_0 = n.less(half) & (-half).less(n);
    (exp, V::select(n_is_0, k3_of_r, exp - one - x))
}

/// `exp(x)` within 2e-7 of its size, for x of at most 88. NaN stays NaN.
#[inline(always)]
pub(in super::super) fn exp<V: Lanes>(x: V) -> V {
    exp_and_k3(x).0
}

#[cfg(test)]
mod tests {
    use super::super::{Lanes, Vectorized, WIDTH, run};
    use super::exp_and_k3;
    use crate::backend::cpu::Simd;

    struct Both([f32; WIDTH]);

    impl Vectorized for Both {
        type Output = [[f32; WIDTH]; 2];
        #[inline(always)]
        fn run<V: Lanes>(self) -> Self::Output {
            let (exp, k3) = exp_and_k3(V::load(&self.0));
            [exp.to_array(), k3.to_array()]
        }
    }

    #[test]
    fn exp_and_k3_are_those_of_f64_on_every_set_of_instructions() {
        let mut x = -87.0f32;
        while x < 88.0 {
            let inputs = std::array::from_fn(|i| (x + i as f32 * 0.003).min(88.0));
            let [exps, k3s] = run(Simd::Scalar, Both(inputs));
            assert_eq!(run(Simd::detect(), Both(inputs)), [exps, k3s]);
            for ((x, e), k3) in inputs.into_iter().zip(exps).zip(k3s) {
                let wide = f64::from(x);
                assert!((f64::from(e) / wide.exp() - 1.0).abs() < 2e-7, "exp({x}) = {e}");
                let exact = wide.exp_m1() - wide;
                assert!(
                    (f64::from(k3) - exact).abs() <= 2e-6 * exact,
                    "k3({x}) = {k3}, not {exact}"
                );
            }
            x += 0.025;
        }
        let [exps, k3s] =
            run(Simd::detect(), Both([0.0, 1e-4, f32::NAN, -200.0, 0.0, 0.0, 0.0, 0.0]));
        assert_eq!((exps[0], k3s[0]), (1.0, 0.0));
        assert!((k3s[1] - 5.000_166_7e-9).abs() < 1e-14);
        assert!(exps[2].is_nan() && exps[3] < 1e-37);
    }
}
