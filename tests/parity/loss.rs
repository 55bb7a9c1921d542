//! Policy losses in f32 against the reference in f64.

use half::{bf16, f16};
use hunkwise::Device;
use hunkwise::backend::cpu::{Cpu, Simd};
use hunkwise::loss::*;
use hunkwise::reference;
use hunkwise::reference::loss::ReferenceLoss;

use crate::devices::devices;
use crate::losses::{Form, Made, configs};

/// Everything that the fast path gives.
struct Fast {
    result: PolicyLoss,
    grad: Vec<f32>,
    grad_entropy: Vec<f32>,
    token_loss: Vec<f32>,
}

fn run(
    device: &Device,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
) -> Fast {
    let n = batch.log_prob.len();
    let (mut grad, mut grad_entropy, mut token_loss) = (vec![9.0; n], vec![9.0; n], vec![9.0; n]);
    let outputs = PolicyOutputs {
        grad_log_prob: Some(FloatsMut::F32(&mut grad)),
        grad_entropy: Some(FloatsMut::F32(&mut grad_entropy)),
        token_loss: Some(FloatsMut::F32(&mut token_loss)),
    };
    let result = policy_loss(device, batch, config, upstream, outputs).unwrap();
    Fast { result, grad, grad_entropy, token_loss }
}

/// Equal within `tolerance` of the larger of the value and `scale`, or both NaN.
fn near(name: &str, got: f64, want: f64, scale: f64, tolerance: f64) {
    let good = (got.is_nan() && want.is_nan())
        || got == want
        || (got - want).abs() <= tolerance * want.abs().max(scale);
    assert!(good, "{name}: {got}, reference {want}");
}

fn all_near(name: &str, got: &[f32], want: &[f64], tolerance: f64) {
    let finite = want.iter().filter(|x| x.is_finite() && **x != 0.0);
    let scale = finite.clone().map(|x| x.abs()).sum::<f64>() / finite.count().max(1) as f64;
    assert_eq!(got.len(), want.len(), "{name}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        near(&format!("{name}[{i}]"), f64::from(*got), *want, scale, tolerance);
    }
}

fn metrics_near(name: &str, got: &LossMetrics, want: &LossMetrics, tolerance: f64) {
    let counts = |m: &LossMetrics| {
        [
            m.n_rows,
            m.n_empty_rows,
            m.n_tokens,
            m.n_non_finite,
            m.n_clipped_low,
            m.n_clipped_high,
            m.n_clipped_dual,
            m.n_weights,
            m.n_weights_bound,
            m.n_unscored,
        ]
    };
    assert_eq!(
        counts(got),
        counts(want),
        "{name}: rows, empty, tokens, non-finite, low, high, dual, weights, bound, unscored"
    );
    let sums = |m: &LossMetrics| {
        [
            ("k1", m.sum_k1),
            ("k3", m.sum_k3),
            ("ratio", m.sum_ratio),
            ("ratio_min", m.ratio_min),
            ("ratio_max", m.ratio_max),
            ("kl", m.sum_kl),
            ("entropy", m.sum_entropy),
            ("weight", m.sum_weight),
            ("weight²", m.sum_weight_squared),
            ("weight_min", m.weight_min),
            ("weight_max", m.weight_max),
        ]
    };
    for ((field, got), (_, want)) in sums(got).into_iter().zip(sums(want)) {
        near(&format!("{name}: {field}"), got, want, 1.0, tolerance);
    }
}

fn check(name: &str, fast: &Fast, exact: &ReferenceLoss, tolerance: f64) {
    let scale = exact.rows.iter().filter(|x| x.is_finite()).map(|x| x.abs()).fold(0.0, f64::max);
    near(&format!("{name}: denominator"), fast.result.denominator, exact.denominator, 0.0, 0.0);
    near(&format!("{name}: numerator"), fast.result.numerator, exact.numerator, scale, tolerance);
    for (row, (got, want)) in fast.result.rows.iter().zip(&exact.rows).enumerate() {
        near(&format!("{name}: row {row}"), *got, *want, scale, tolerance);
    }
    all_near(&format!("{name}: grad"), &fast.grad, &exact.grad_log_prob, tolerance);
    all_near(&format!("{name}: grad_entropy"), &fast.grad_entropy, &exact.grad_entropy, tolerance);
    all_near(&format!("{name}: token_loss"), &fast.token_loss, &exact.token_loss, tolerance);
    metrics_near(name, &fast.result.metrics, &exact.metrics, tolerance);
}

const LENGTHS: [usize; 9] = [1, 0, 255, 256, 257, 40, 5000, 3, 4097];

/// Old log-probs alone, then with each optional array: what is not given must not be computed with.
fn variants(seed: u64, drift: f32) -> Vec<(String, Made)> {
    let mut variants = vec![];
    for given in 0..16 {
        let mut made = Made::new(seed + given, &LENGTHS, drift);
        made.has_old = given & 1 == 0;
        made.has_reference = given & 2 == 0;
        made.has_rollout = given & 4 == 0;
        made.has_entropy = given & 8 == 0;
        made.form = [Form::Dense, Form::Rows, Form::Spans][given as usize % 3];
        variants.push((format!("arrays {given:04b}"), made));
    }
    variants
}

/// The configuration without what needs an array that is absent.
fn fitted(config: &PolicyLossConfig, made: &Made) -> PolicyLossConfig {
    let mut config = config.clone();
    if !made.has_reference {
        config.beta = 0.0;
    }
    if !made.has_entropy {
        config.entropy_coef = 0.0;
    }
    if !made.has_rollout {
        config.rollout = RolloutCorrection::None;
    }
    config
}

#[test]
fn every_variant_is_that_of_the_reference() {
    for (name, config) in configs() {
        for (arrays, made) in variants(1, 0.6).into_iter().step_by(3) {
            let config = fitted(&config, &made);
            let exact = reference::loss::policy_loss(&made.batch(), &config);
            for device in devices() {
                let fast = run(&device, &made.batch(), &config, Upstream::Loss(1.0));
                check(&format!("{device:?}, {name}, {arrays}"), &fast, &exact, 2e-5);
            }
        }
    }
}

#[test]
fn every_combination_of_arrays_is_that_of_the_reference() {
    let (_, config) = &configs()[12];
    for (arrays, made) in variants(50, 0.3) {
        let config = fitted(config, &made);
        let exact = reference::loss::policy_loss(&made.batch(), &config);
        for device in devices() {
            let fast = run(&device, &made.batch(), &config, Upstream::Loss(1.0));
            check(&format!("{device:?}, {}", arrays), &fast, &exact, 2e-5);
        }
    }
}

#[test]
fn log_ratios_far_beyond_the_bound_are_those_of_the_reference() {
    for (name, config) in configs() {
        let mut made = Made::new(7, &LENGTHS, 30.0);
        made.form = Form::Spans;
        let config = fitted(&config, &made);
        let exact = reference::loss::policy_loss(&made.batch(), &config);
        assert!(exact.numerator.is_finite());
        for device in devices() {
            let fast = run(&device, &made.batch(), &config, Upstream::Loss(1.0));
            check(&format!("{device:?}, {}", name), &fast, &exact, 1e-4);
        }
    }
}

#[test]
fn old_equal_to_new_is_that_of_the_reference() {
    for (name, config) in configs() {
        let made = Made::new(8, &LENGTHS, 0.0);
        assert_eq!(made.log_prob, made.old);
        let exact = reference::loss::policy_loss(&made.batch(), &config);
        for device in devices() {
            let fast = run(&device, &made.batch(), &config, Upstream::Loss(1.0));
            check(&format!("{device:?}, {}", name), &fast, &exact, 2e-5);
        }
    }
}

#[test]
fn values_that_are_not_finite_are_poison_or_skipped_as_in_the_reference() {
    for (at, (name, config)) in configs().into_iter().enumerate() {
        let mut made = Made::new(9, &LENGTHS, 0.4);
        let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][at % 3];
        made.log_prob[300] = bad;
        made.old[10] = bad;
        made.reference[600] = bad;
        made.entropy[5601] = bad;
        made.dense[5602] = bad;
        made.rollout[5603] = f32::INFINITY;
        for t in (0..made.len()).step_by(3) {
            made.rollout[t] = f32::NAN;
        }
        for non_finite in [NonFinite::Poison, NonFinite::Skip] {
            let config = PolicyLossConfig { non_finite, ..config.clone() };
            let exact = reference::loss::policy_loss(&made.batch(), &config);
            assert_eq!(exact.numerator.is_nan(), non_finite == NonFinite::Poison);
            for device in devices() {
                let fast = run(&device, &made.batch(), &config, Upstream::Loss(1.0));
                check(&format!("{device:?}, {name}, {non_finite:?}"), &fast, &exact, 2e-5);
            }
        }
    }
}

/// The values in bf16, and what they are then.
fn in_bf16(values: &mut [f32]) -> Vec<bf16> {
    let short: Vec<bf16> = values.iter().map(|x| bf16::from_f32(*x)).collect();
    values.iter_mut().zip(&short).for_each(|(value, short)| *value = short.to_f32());
    short
}

/// The values in f16, and what they are then.
fn in_f16(values: &mut [f32]) -> Vec<f16> {
    let short: Vec<f16> = values.iter().map(|x| f16::from_f32(*x)).collect();
    values.iter_mut().zip(&short).for_each(|(value, short)| *value = short.to_f32());
    short
}

#[test]
fn short_dtypes_are_the_same_numbers_in_f32() {
    let mut made = Made::new(11, &LENGTHS, 0.5);
    let log_prob = in_bf16(&mut made.log_prob);
    let old = in_f16(&mut made.old);
    let reference = in_bf16(&mut made.reference);
    let rollout = in_f16(&mut made.rollout);
    let entropy = in_bf16(&mut made.entropy);
    let dense = in_f16(&mut made.dense);
    let (_, config) = &configs()[15];
    let wide = run(&Device::cpu(), &made.batch(), config, Upstream::Loss(1.0));
    let batch = PolicyBatch {
        log_prob: Floats::Bf16(&log_prob),
        old: Some(Floats::F16(&old)),
        reference: Some(Floats::Bf16(&reference)),
        rollout: Some(Floats::F16(&rollout)),
        entropy: Some(Floats::Bf16(&entropy)),
        advantages: Advantages::Dense(Floats::F16(&dense)),
        ..made.batch()
    };
    let short = run(&Device::cpu(), &batch, config, Upstream::Loss(1.0));
    assert_eq!(short.result, wide.result);
    assert_eq!(short.grad, wide.grad);
    let mut grad = vec![bf16::ZERO; made.len()];
    let outputs =
        PolicyOutputs { grad_log_prob: Some(FloatsMut::Bf16(&mut grad)), ..Default::default() };
    policy_loss(&Device::cpu(), &batch, config, Upstream::Loss(1.0), outputs).unwrap();
    let rounded: Vec<bf16> = wide.grad.iter().map(|x| bf16::from_f32(*x)).collect();
    assert_eq!(grad, rounded);
}

#[test]
fn the_upstream_gradient_multiplies_whatever_its_strides() {
    let (n_rows, n_columns) = (5, 300);
    let made = Made::new(12, &[n_columns; 5], 0.5);
    let batch = PolicyBatch { layout: Layout::Padded { n_rows, n_columns }, ..made.batch() };
    let grids = [(300, 1), (1, 5), (1, 0), (0, 1), (0, 0), (7, 2)];
    for (name, config) in
        configs().into_iter().filter(|(_, config)| config.ratio != RatioLevel::Sequence)
    {
        let exact = reference::loss::policy_loss(&batch, &config);
        for (row_stride, token_stride) in grids {
            let n = 4 * row_stride + 299 * token_stride + 1;
            let values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin() * 3.0).collect();
            let upstream = Upstream::Tokens { values: &values, row_stride, token_stride };
            let fast = run(&Device::cpu(), &batch, &config, upstream);
            let scaled = |grads: &[f64]| -> Vec<f64> {
                (0..1500)
                    .map(|i| {
                        grads[i]
                            * f64::from(
                                values[i / n_columns * row_stride + i % n_columns * token_stride],
                            )
                    })
                    .collect()
            };
            all_near(&name, &fast.grad, &scaled(&exact.grad_log_prob), 2e-5);
            all_near(&name, &fast.grad_entropy, &scaled(&exact.grad_entropy), 2e-5);
            assert!(
                (fast.result.numerator - exact.numerator).abs()
                    < 1e-4 * exact.numerator.abs().max(1.0)
            );
        }
        let fast = run(&Device::cpu(), &batch, &config, Upstream::Loss(-2.5));
        let scaled: Vec<f64> = exact.grad_log_prob.iter().map(|x| x * -2.5).collect();
        all_near(&name, &fast.grad, &scaled, 2e-5);
    }
}

#[test]
fn every_set_of_instructions_gives_the_same_bits() {
    let made = Made::new(13, &LENGTHS, 0.5);
    for (name, config) in configs() {
        let with = |simd| {
            let device = Device::Cpu(Cpu::with_simd(simd));
            run(&device, &made.batch(), &config, Upstream::Loss(1.0))
        };
        let plain = with(Simd::Scalar);
        for simd in [with(Simd::Avx2), with(Simd::Avx512)] {
            assert_eq!(simd.result, plain.result, "{name}");
            assert_eq!(simd.grad, plain.grad, "{name}");
            assert_eq!(simd.grad_entropy, plain.grad_entropy, "{name}");
            assert_eq!(simd.token_loss, plain.token_loss, "{name}");
        }
    }
}

#[test]
fn a_loss_of_ones_own_is_taken_like_the_built_in_ones() {
    struct PlainGradient;
    impl TokenLoss for PlainGradient {
        fn term(&self, token: TokenInput) -> TokenTerm {
            let value = -token.ratio * token.advantage;
            TokenTerm { value, d_log_ratio: value, ..TokenTerm::default() }
        }
    }
    let made = Made::new(14, &LENGTHS, 0.5);
    for ratio in [RatioLevel::Token, RatioLevel::Sequence, RatioLevel::SequenceToken] {
        // Never clipped: the highest bound that a log-ratio within 20 cannot reach.
        let surrogate = Surrogate::Clip { low: 0.0, high: 1e9, dual: None };
        let config = PolicyLossConfig { ratio, beta: 0.1, ..PolicyLossConfig::dapo() };
        let mut made = made.clone();
        made.dense.iter_mut().for_each(|a| *a = a.abs());
        let exact = reference::loss::policy_loss(
            &made.batch(),
            &PolicyLossConfig { surrogate, ..config.clone() },
        );
        let mut grad = vec![0.0; made.len()];
        let outputs =
            PolicyOutputs { grad_log_prob: Some(FloatsMut::F32(&mut grad)), ..Default::default() };
        let device = Device::cpu();
        let result = policy_loss_with(
            &device,
            &PlainGradient,
            &made.batch(),
            &config,
            Upstream::Loss(1.0),
            outputs,
        )
        .unwrap();
        near("loss", result.loss(), exact.loss(), 1.0, 1e-5);
        all_near("grad", &grad, &exact.grad_log_prob, 2e-5);
    }
}
