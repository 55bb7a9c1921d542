//! Policy losses by hand, and the public faults of trainers' loss code: each test is named after the fault it rules out.

use hunkwise::loss::*;
use hunkwise::{Device, Error};

/// A batch of one array each, rows of equal length.
struct Arrays {
    log_prob: Vec<f32>,
    old: Option<Vec<f32>>,
    reference: Option<Vec<f32>>,
    rollout: Option<Vec<f32>>,
    mask: Vec<bool>,
    advantage: Vec<f32>,
    n_rows: usize,
}

impl Arrays {
    /// One row with these log-ratios (old log-probs are -1), everything under the mask.
    fn row(log_ratio: &[f32], advantage: &[f32]) -> Self {
        Arrays {
            log_prob: log_ratio.iter().map(|u| u - 1.0).collect(),
            old: Some(vec![-1.0; log_ratio.len()]),
            reference: None,
            rollout: None,
            mask: vec![true; log_ratio.len()],
            advantage: advantage.to_vec(),
            n_rows: 1,
        }
    }

    fn batch(&self) -> PolicyBatch<'_> {
        PolicyBatch {
            log_prob: Floats::F32(&self.log_prob),
            old: self.old.as_deref().map(Floats::F32),
            reference: self.reference.as_deref().map(Floats::F32),
            rollout: self.rollout.as_deref().map(Floats::F32),
            entropy: None,
            mask: &self.mask,
            advantages: Advantages::Dense(Floats::F32(&self.advantage)),
            layout: Layout::Padded {
                n_rows: self.n_rows,
                n_columns: self.mask.len() / self.n_rows.max(1),
            },
            denominator: None,
        }
    }
}

struct Outcome {
    result: PolicyLoss,
    grad: Vec<f32>,
    token_loss: Vec<f32>,
}

fn run(batch: &PolicyBatch<'_>, config: &PolicyLossConfig) -> Outcome {
    let n = batch.log_prob.len();
    let (mut grad, mut token_loss) = (vec![7.0; n], vec![7.0; n]);
    let outputs = PolicyOutputs {
        grad_log_prob: Some(FloatsMut::F32(&mut grad)),
        token_loss: Some(FloatsMut::F32(&mut token_loss)),
        ..Default::default()
    };
    let result = policy_loss(&Device::cpu(), batch, config, Upstream::Loss(1.0), outputs).unwrap();
    Outcome { result, grad, token_loss }
}

fn near(got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= relative * want.abs(), "{got}, expected {want}");
}

fn clip(low: f64, high: f64, dual: Option<f64>) -> PolicyLossConfig {
    PolicyLossConfig {
        surrogate: Surrogate::Clip { low, high, dual },
        reduction: Reduction::TokenSum,
        ..PolicyLossConfig::default()
    }
}

fn error_of(batch: &PolicyBatch<'_>, config: &PolicyLossConfig) -> String {
    let found =
        policy_loss(&Device::cpu(), batch, config, Upstream::Loss(1.0), PolicyOutputs::default());
    found.expect_err("must be refused").to_string()
}

#[test]
fn case_15_dual_clip_applies_to_negative_advantages_only() {
    let pairs = [(0.5f32, 1.0f32), (2.0, 1.0), (0.5, -1.0), (2.0, -1.0), (10.0, -1.0), (1.0, 1.0)];
    let arrays = Arrays::row(&pairs.map(|(r, _)| r.ln()), &pairs.map(|(_, a)| a));
    let outcome = run(&arrays.batch(), &clip(0.2, 0.2, Some(3.0)));
    for (got, want) in outcome.token_loss.iter().zip([-0.5, -1.2, 0.8, 2.0, 3.0, -1.0]) {
        near(f64::from(*got), want, 1e-6);
    }
    let is_zero: Vec<bool> = outcome.grad.iter().map(|g| *g == 0.0).collect();
    assert_eq!(is_zero, [false, true, true, false, true, false]);
    let metrics = outcome.result.metrics;
    assert_eq!((metrics.n_clipped_low, metrics.n_clipped_high, metrics.n_clipped_dual), (1, 1, 1));
    let plain = run(&arrays.batch(), &clip(0.2, 0.2, None));
    near(f64::from(plain.token_loss[4]), 10.0, 1e-6);
    let higher = Arrays::row(&[1.25f32.ln()], &[1.0]);
    near(run(&higher.batch(), &clip(0.2, 0.28, None)).result.loss(), -1.25, 1e-6);
    let refused = error_of(&arrays.batch(), &clip(0.2, 0.2, Some(1.0)));
    assert_eq!(refused, "policy_loss: `surrogate.dual` is 1; it must be finite and above 1");
}

#[test]
fn case_17_k3_neither_overflows_nor_cancels() {
    let d = [std::f32::consts::LN_2, -std::f32::consts::LN_2, 1e-4, -1e-4, 100.0];
    let mut arrays = Arrays::row(&[0.0; 5], &[0.0; 5]);
    // Log-probs of 0, so that the differences are exact.
    arrays.log_prob = vec![0.0; 5];
    arrays.old = Some(vec![0.0; 5]);
    arrays.reference = Some(d.to_vec());
    let config = PolicyLossConfig { beta: 1.0, ..clip(0.2, 0.2, None) };
    let outcome = run(&arrays.batch(), &config);
    let expected = [0.306_852_82, 0.193_147_18, 5.000_17e-9, 4.999_83e-9, 485_165_174.41];
    for (i, (got, want)) in outcome.token_loss.iter().zip(expected).enumerate() {
        near(f64::from(*got), want, if want < 1e-6 { 1e-3 } else { 1e-6 });
        assert!(*got >= 0.0 && outcome.grad[i].is_finite());
    }
    // The gradient of the bound value, not 0: drift is largest there.
    near(f64::from(outcome.grad[4]), 1.0 - 20f64.exp(), 1e-6);
}

#[test]
fn case_19_the_denominator_has_the_mask_of_the_numerator() {
    // -A·r = 1 for each kept token.
    let mut arrays = Arrays::row(&[0.0; 30], &[-1.0; 30]);
    arrays.mask[25..].fill(false);
    let outcome = run(&arrays.batch(), &PolicyLossConfig::bnpo());
    assert_eq!((outcome.result.loss(), outcome.result.denominator), (1.0, 25.0));
    arrays.mask.fill(false);
    for name in PRESETS {
        let outcome = run(&arrays.batch(), &PolicyLossConfig::preset(name).unwrap());
        assert_eq!(outcome.result.loss(), 0.0);
        assert_eq!(outcome.result.metrics.n_empty_rows, 1);
        assert_eq!(outcome.grad, [0.0; 30]);
    }
    assert_eq!(run(&arrays.batch(), &PolicyLossConfig::bnpo()).result.denominator, 0.0);
}

#[test]
fn case_20_masked_tokens_do_not_enter_the_ratio_of_a_row() {
    let config = PolicyLossConfig {
        surrogate: Surrogate::Clip { low: 0.5, high: 9.0, dual: None },
        ..PolicyLossConfig::gspo()
    };
    let outcomes = [9.0, -9.0, f32::NAN].map(|third| {
        let mut arrays = Arrays::row(&[0.2, 0.4, third], &[1.0; 3]);
        arrays.mask[2] = false;
        run(&arrays.batch(), &config)
    });
    for outcome in &outcomes {
        near(outcome.result.metrics.ratio_max, 1.349_858_81, 1e-6);
        near(outcome.result.loss(), -1.349_858_81, 1e-6);
        assert_eq!(outcome.grad[2], 0.0);
        assert_eq!(outcome.grad, outcomes[0].grad);
    }
}

#[test]
fn case_21_arrays_of_another_length_are_refused() {
    let arrays = Arrays::row(&[0.0; 4], &[1.0; 4]);
    let short = [0.0f32; 3];
    let batch = PolicyBatch { old: Some(Floats::F32(&short)), ..arrays.batch() };
    assert_eq!(
        error_of(&batch, &clip(0.2, 0.2, None)),
        "policy_loss: `old` has 3 values, `log_prob` has 4"
    );
    let batch = PolicyBatch { mask: &[true; 5], ..arrays.batch() };
    assert_eq!(
        error_of(&batch, &clip(0.2, 0.2, None)),
        "policy_loss: `mask` has 5 values, `log_prob` has 4"
    );
    let batch = PolicyBatch {
        layout: Layout::Padded { n_rows: usize::MAX, n_columns: 2 },
        ..arrays.batch()
    };
    assert!(error_of(&batch, &clip(0.2, 0.2, None)).contains("but `log_prob` has 4 values"));
    let batch = PolicyBatch { layout: Layout::Packed { offsets: &[0, 3, 2, 4] }, ..arrays.batch() };
    assert_eq!(
        error_of(&batch, &clip(0.2, 0.2, None)),
        "policy_loss: `layout.offsets` falls from 3 to 2 at entry 2"
    );
}

/// Liger-Kernel 1082: the importance weight was ignored; verl: it multiplied the KL as well.
#[test]
fn fault_1_the_rollout_weight_multiplies_the_clipped_loss_and_not_the_kl() {
    let mut arrays = Arrays::row(&[2f32.ln()], &[1.0]);
    arrays.rollout = Some(vec![-1.0 - 3f32.ln()]);
    arrays.reference = Some(vec![2f32.ln() - 1.0 - 2f32.ln()]);
    let truncate = RolloutCorrection::Truncate { level: RolloutLevel::Token, max: 2.0 };
    let config = PolicyLossConfig { rollout: truncate, beta: 10.0, ..clip(0.2, 0.2, None) };
    // rho = 3, held at 2; clipped loss -1.2; k3 of d = -ln 2 is 0.19314718.
    near(run(&arrays.batch(), &config).result.loss(), 2.0 * -1.2 + 1.931_471_8, 1e-6);
}

/// TRL 5890, 5619, 6024; verl 5625, 906, 7200, 7321: a mean over each micro-batch is not the mean over the batch.
#[test]
fn fault_2_micro_batches_divide_by_the_global_count() {
    // Losses 4 and 1, 1, 1: the mean of the two means would be 2.5, the mean over all tokens is 1.75.
    let parts = [Arrays::row(&[0.0], &[-4.0]), Arrays::row(&[0.0; 3], &[-1.0; 3])];
    let outcomes = parts.map(|part| {
        let batch = PolicyBatch { denominator: Some(4.0), ..part.batch() };
        run(&batch, &PolicyLossConfig::dapo())
    });
    assert_eq!(outcomes.iter().map(|o| o.result.loss()).sum::<f64>(), 1.75);
    assert_eq!(outcomes[0].grad, [1.0]);
    assert_eq!(outcomes[1].grad, [0.25; 3]);
}

/// TRL 6654: luspo's sum was never masked, so its weight was L²/T.
#[test]
fn fault_5_luspo_weighs_a_row_by_its_masked_tokens() {
    let mut arrays = Arrays::row(&[0.0; 8], &[-1.0; 8]);
    arrays.mask[3..].fill(false);
    assert_eq!(run(&arrays.batch(), &PolicyLossConfig::luspo()).result.loss(), 3.0);
}

/// verl 3741: Dr. GRPO left out 1/B and divided by the padded width.
#[test]
fn fault_7_dr_grpo_divides_by_rows_and_a_constant_length() {
    for width in [4, 40] {
        let mut arrays = Arrays::row(&vec![0.0; 2 * width], &vec![-1.0; 2 * width]);
        arrays.n_rows = 2;
        for t in 0..2 * width {
            arrays.mask[t] = t % width < 3;
        }
        near(run(&arrays.batch(), &PolicyLossConfig::dr_grpo(10)).result.loss(), 0.3, 1e-12);
    }
}

/// verl 2928: a clamped k3 has no gradient exactly where the drift is largest.
#[test]
fn fault_11_the_kl_gradient_pulls_at_any_drift() {
    for drift in [11.0f32, 19.0, 21.0, 500.0] {
        let mut arrays = Arrays::row(&[0.0], &[0.0]);
        arrays.reference = Some(vec![-1.0 + drift]);
        let config = PolicyLossConfig { beta: 1.0, ..clip(0.2, 0.2, None) };
        assert!(run(&arrays.batch(), &config).grad[0] < -1e4);
    }
}

/// OpenRLHF 1293, miles 1363, slime 2198: an unbounded ratio under a mask of 0 is inf·0 = NaN.
#[test]
fn fault_12_the_mask_comes_before_exp() {
    let mut arrays = Arrays::row(&[0.0, 1e30], &[1.0, 1.0]);
    arrays.mask[1] = false;
    for name in PRESETS {
        let outcome = run(&arrays.batch(), &PolicyLossConfig::preset(name).unwrap());
        assert!(outcome.result.loss().is_finite() && outcome.grad == [outcome.grad[0], 0.0]);
    }
    let outcome = run(&Arrays::row(&[1000.0], &[-1.0]).batch(), &clip(0.2, 0.2, None));
    near(outcome.result.loss(), 20f64.exp(), 1e-6);
    near(f64::from(outcome.grad[0]), 20f64.exp(), 1e-6);
}

/// unsloth-zoo 1262: a row that is masked out made the KL metric NaN. aiter 5165: no token at all, infinite gradients.
#[test]
fn fault_13_rows_without_tokens_leave_every_number_finite() {
    let mut arrays = Arrays::row(&[0.1, 0.2, 0.3, 0.4], &[1.0; 4]);
    arrays.n_rows = 2;
    arrays.reference = Some(vec![-1.0; 4]);
    arrays.mask[..2].fill(false);
    for reduction in [Reduction::TokenMean, Reduction::SeqMeanTokenMean, Reduction::SeqMeanTokenSum]
    {
        let config = PolicyLossConfig { reduction, beta: 0.1, ..PolicyLossConfig::grpo() };
        let outcome = run(&arrays.batch(), &config);
        let metrics = outcome.result.metrics;
        assert!(
            outcome.result.loss().is_finite()
                && metrics.kl().is_finite()
                && metrics.ratio_max.is_finite()
        );
        assert_eq!(outcome.result.rows[0], 0.0);
        assert_eq!(metrics.n_empty_rows, 1);
        let only_filled = PolicyLossConfig { count_empty_rows: false, ..config };
        let twice = if reduction == Reduction::TokenMean { 1.0 } else { 2.0 };
        near(
            run(&arrays.batch(), &only_filled).result.loss(),
            twice * outcome.result.loss(),
            1e-12,
        );
    }
}

/// TRL 5413: tokens that the rollout engine did not score are NaN, and the ratio was NaN with them.
#[test]
fn fault_18_an_unscored_token_has_an_importance_weight_of_1() {
    let mut arrays = Arrays::row(&[0.0, 0.0], &[-1.0, -1.0]);
    arrays.rollout = Some(vec![f32::NAN, -1.0 - 2f32.ln()]);
    let truncate = RolloutCorrection::Truncate { level: RolloutLevel::Token, max: 5.0 };
    let outcome =
        run(&arrays.batch(), &PolicyLossConfig { rollout: truncate, ..clip(0.2, 0.2, None) });
    near(outcome.result.loss(), 3.0, 1e-6);
    let metrics = outcome.result.metrics;
    assert_eq!((metrics.n_unscored, metrics.n_non_finite, metrics.n_weights), (1, 0, 2));
    near(metrics.effective_sample_size(), 9.0 / 5.0, 1e-6);
}

/// TransformerEngine 2139: the upstream gradient was another number, hidden by tests with 1.
/// TransformerEngine 2402: a broadcast upstream gradient was read out of bounds. Liger luspo: a `[B, 1]` one too.
#[test]
fn fault_20_21_37_upstream_gradients_of_any_stride_multiply() {
    let mut arrays = Arrays::row(&[0.0; 6], &[-1.0; 6]);
    arrays.n_rows = 2;
    let grad = |upstream: Upstream<'_>| {
        let mut grad = vec![0.0; 6];
        let outputs =
            PolicyOutputs { grad_log_prob: Some(FloatsMut::F32(&mut grad)), ..Default::default() };
        policy_loss(&Device::cpu(), &arrays.batch(), &clip(0.2, 0.2, None), upstream, outputs)
            .map(|_| grad)
    };
    assert_eq!(grad(Upstream::Loss(-3.0)).unwrap(), [-3.0; 6]);
    let per_row = Upstream::Tokens { values: &[2.0, 5.0], row_stride: 1, token_stride: 0 };
    assert_eq!(grad(per_row).unwrap(), [2.0, 2.0, 2.0, 5.0, 5.0, 5.0]);
    let one = Upstream::Tokens { values: &[4.0], row_stride: 0, token_stride: 0 };
    assert_eq!(grad(one).unwrap(), [4.0; 6]);
    let beyond = Upstream::Tokens { values: &[2.0, 5.0], row_stride: 1, token_stride: 1 };
    assert!(matches!(grad(beyond), Err(Error::Shape { .. })));
}

/// unsloth-zoo 870: the sum of exponentials instead of the exponential of the sum.
#[test]
fn fault_28_the_importance_weight_of_a_row_is_the_exponential_of_the_sum() {
    let mut arrays = Arrays::row(&[0.0, 0.0], &[-1.0, -1.0]);
    arrays.rollout = Some(vec![-1.0 - 2f32.ln(), -1.0 - 3f32.ln()]);
    let truncate = RolloutCorrection::Truncate { level: RolloutLevel::Sequence, max: 100.0 };
    let outcome =
        run(&arrays.batch(), &PolicyLossConfig { rollout: truncate, ..clip(0.2, 0.2, None) });
    near(outcome.result.loss(), 12.0, 1e-6);
    assert_eq!(outcome.result.metrics.weight_min, outcome.result.metrics.weight_max);
}

/// TRL 3175: a clip metric must look at the sign of the advantage.
#[test]
fn fault_29_clip_fractions_count_what_has_no_gradient() {
    let pairs = [(2.0f32, 1.0f32), (2.0, -1.0), (0.5, 1.0), (0.5, -1.0)];
    let arrays = Arrays::row(&pairs.map(|(r, _)| r.ln()), &pairs.map(|(_, a)| a));
    let metrics = run(&arrays.batch(), &clip(0.2, 0.2, None)).result.metrics;
    assert_eq!(
        (metrics.clip_fraction_low(), metrics.clip_fraction_high(), metrics.clip_fraction()),
        (0.25, 0.25, 0.5)
    );
}

/// TRL 2769, 2608: without old log-probs the ratio is 1 and its gradient is alive.
#[test]
fn fault_36_no_old_log_probs_mean_a_ratio_of_1_with_its_gradient() {
    let mut arrays = Arrays::row(&[0.3, -0.7], &[2.0, -3.0]);
    arrays.old = None;
    let outcome = run(&arrays.batch(), &clip(0.2, 0.2, None));
    assert_eq!(outcome.result.loss(), 1.0);
    assert_eq!(outcome.grad, [-2.0, 3.0]);
}

#[test]
fn a_value_that_is_not_finite_poisons_its_row_alone() {
    let mut arrays = Arrays::row(&[0.0; 4], &[-1.0; 4]);
    arrays.n_rows = 2;
    arrays.log_prob[0] = f32::INFINITY;
    let outcome = run(&arrays.batch(), &clip(0.2, 0.2, None));
    assert!(outcome.result.rows[0].is_nan() && outcome.result.loss().is_nan());
    assert_eq!(outcome.result.rows[1], 2.0);
    assert!(outcome.grad[0].is_nan());
    assert_eq!(outcome.grad[1..], [1.0; 3]);
    assert_eq!(outcome.result.metrics.n_non_finite, 1);
    let skipping = PolicyLossConfig { non_finite: NonFinite::Skip, ..clip(0.2, 0.2, None) };
    let outcome = run(&arrays.batch(), &skipping);
    assert_eq!((outcome.result.loss(), outcome.result.metrics.n_non_finite), (3.0, 1));
    assert_eq!(outcome.grad, [0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn spans_add_to_the_advantage_of_the_episode() {
    let arrays = Arrays::row(&[0.0; 6], &[0.0; 6]);
    let spans = [
        AdvantageSpan { tokens: 1..3, advantage: 0.5 },
        AdvantageSpan { tokens: 5..6, advantage: -2.0 },
    ];
    let batch = PolicyBatch {
        advantages: Advantages::Spans { episode: &[1.0], spans: &spans, offsets: &[0, 2] },
        ..arrays.batch()
    };
    assert_eq!(run(&batch, &clip(0.2, 0.2, None)).grad, [-1.0, -1.5, -1.5, -1.0, -1.0, 1.0]);
    let overlapping = [
        AdvantageSpan { tokens: 1..3, advantage: 0.5 },
        AdvantageSpan { tokens: 2..4, advantage: 1.0 },
    ];
    let batch = PolicyBatch {
        advantages: Advantages::Spans { episode: &[1.0], spans: &overlapping, offsets: &[0, 2] },
        ..arrays.batch()
    };
    assert!(error_of(&batch, &clip(0.2, 0.2, None)).contains("span 1 of row 0 is 2..4"));
}

#[test]
fn every_parameter_is_checked_by_name() {
    let arrays = Arrays::row(&[0.0], &[1.0]);
    let grpo = PolicyLossConfig::grpo();
    let mask = |min, max| RolloutCorrection::Mask { level: RolloutLevel::Token, min, max };
    let cases = [
        ("surrogate.low", clip(1.0, 0.2, None)),
        ("surrogate.low", clip(f64::NAN, 0.2, None)),
        ("surrogate.high", clip(0.2, -0.1, None)),
        ("surrogate.dual", clip(0.2, 0.2, Some(f64::INFINITY))),
        (
            "surrogate.max",
            PolicyLossConfig { surrogate: Surrogate::Cispo { min: 2.0, max: 1.0 }, ..grpo.clone() },
        ),
        (
            "surrogate.min",
            PolicyLossConfig {
                surrogate: Surrogate::Cispo { min: -1.0, max: 1.0 },
                ..grpo.clone()
            },
        ),
        (
            "surrogate.tau_negative",
            PolicyLossConfig {
                surrogate: Surrogate::Sapo { tau_positive: 1.0, tau_negative: 0.0 },
                ..grpo.clone()
            },
        ),
        ("reduction.length", PolicyLossConfig::dr_grpo(0)),
        ("max_log_ratio", PolicyLossConfig { max_log_ratio: 81.0, ..grpo.clone() }),
        ("max_log_ratio", PolicyLossConfig { max_log_ratio: 0.0, ..grpo.clone() }),
        ("beta", PolicyLossConfig { beta: -0.1, ..grpo.clone() }),
        ("beta", PolicyLossConfig { beta: 0.1, ..grpo.clone() }),
        ("entropy_coef", PolicyLossConfig { entropy_coef: f64::NAN, ..grpo.clone() }),
        ("entropy_coef", PolicyLossConfig { entropy_coef: 0.1, ..grpo.clone() }),
        ("rollout.max", PolicyLossConfig { rollout: mask(1.0, 1.0), ..grpo.clone() }),
        ("rollout.min", PolicyLossConfig { rollout: mask(-1.0, 1.0), ..grpo.clone() }),
        ("rollout", PolicyLossConfig { rollout: mask(0.5, 2.0), ..grpo.clone() }),
    ];
    for (name, config) in cases {
        let text = error_of(&arrays.batch(), &config);
        assert!(text.starts_with(&format!("policy_loss: `{name}` is ")), "{name}: {text}");
    }
    let batch = PolicyBatch { denominator: Some(0.0), ..arrays.batch() };
    assert!(error_of(&batch, &grpo).contains("`denominator` is 0"));
    let text = PolicyLossConfig::preset("grop").unwrap_err().to_string();
    assert!(PRESETS.iter().all(|name| text.contains(name)), "{text}");
}
