//! Log-probs, entropies and gradients from logits against the reference in f64.

use half::{bf16, f16};
use hunkwise::Device;
use hunkwise::backend::cpu::{Cpu, Simd};
use hunkwise::loss::*;
use hunkwise::reference;

use crate::devices::others;
use crate::losses::Random;

const SHAPES: [(usize, usize); 6] =
    [(1, 1), (7, 8), (1023, 1023), (1024, 1030), (1031, 1040), (5003, 5003)];
const N_TOKENS: usize = 6;

fn hosts_and_others() -> Vec<Device> {
    [Device::cpu()].into_iter().chain(others()).collect()
}

struct MadeLogits {
    logits: Vec<f32>,
    targets: Vec<i64>,
    temperature: Vec<f32>,
    n_vocab: usize,
    n_columns: usize,
}

impl MadeLogits {
    fn new(seed: u64, (n_vocab, n_columns): (usize, usize), spread: f32) -> Self {
        let mut random = Random(seed);
        let mut logits: Vec<f32> =
            (0..N_TOKENS * n_columns).map(|_| random.between(-spread, spread)).collect();
        for row in logits.chunks_exact_mut(n_columns) {
            // What padding must never be read for, and tokens that cannot be sampled.
            row[n_vocab..].fill(f32::NAN);
            for z in row[1..n_vocab.max(1)].iter_mut().step_by(11) {
                *z = f32::NEG_INFINITY;
            }
        }
        MadeLogits {
            logits,
            targets: (0..N_TOKENS).map(|_| (random.below(n_vocab) / 11 * 11) as i64).collect(),
            temperature: (0..N_TOKENS).map(|_| random.between(0.5, 1.5)).collect(),
            n_vocab,
            n_columns,
        }
    }

    fn rows(&self) -> LogitsRows<'_> {
        LogitsRows {
            targets: &self.targets,
            n_columns: self.n_columns,
            n_vocab: self.n_vocab,
            temperature: Temperature::Rows(&self.temperature),
        }
    }
}

const MASK: [bool; N_TOKENS] = [true, true, false, true, true, true];
const OLD: [f32; N_TOKENS] = [-3.0, -7.0, f32::NAN, -6.0, -0.5, -9.0];

fn batch<'a>(rows: LogitsRows<'a>, offsets: &'a [usize]) -> LogitsBatch<'a> {
    LogitsBatch {
        rows,
        old: Some(Floats::F32(&OLD)),
        reference: None,
        rollout: None,
        mask: &MASK,
        advantages: Advantages::Rows(&[1.5, -0.5]),
        layout: Layout::Packed { offsets },
        denominator: None,
    }
}

fn near(name: &str, got: f32, want: f64, scale: f64, tolerance: f64) {
    let got = f64::from(got);
    let good =
        (got.is_nan() && want.is_nan()) || (got - want).abs() <= tolerance * want.abs().max(scale);
    assert!(good, "{name}: {got}, reference {want}");
}

#[test]
fn log_probs_and_entropies_are_those_of_the_reference() {
    let hosts = [Simd::Scalar, Simd::Avx2, Simd::Avx512];
    let hosts = hosts.map(|simd| Device::Cpu(Cpu::with_simd(simd)));
    for device in hosts.into_iter().chain(others()) {
        for (seed, shape) in SHAPES.into_iter().enumerate() {
            for spread in [0.0, 2.0, 30.0, 1000.0] {
                let made = MadeLogits::new(seed as u64, shape, spread);
                let logits = Floats::F32(&made.logits);
                let (mut log_prob, mut entropy) = ([9.0; N_TOKENS], [9.0; N_TOKENS]);
                token_logprob(
                    &device,
                    logits,
                    &made.rows(),
                    None,
                    &mut log_prob,
                    Some(&mut entropy),
                )
                .unwrap();
                let wide = reference::logits::widen(logits);
                let exact = reference::logits::token_logprob(&wide, &made.rows());
                for (i, (want, want_entropy)) in exact.into_iter().enumerate() {
                    let name = format!("{device:?}, {shape:?}, spread {spread}, row {i}");
                    near(&name, log_prob[i], want, 1.0, 2e-6);
                    near(&format!("{name}, entropy"), entropy[i], want_entropy, 1.0, 5e-6);
                }
            }
        }
    }
}

#[test]
fn gradients_are_those_of_the_reference_in_every_dtype() {
    let config = PolicyLossConfig {
        entropy_coef: 0.05,
        surrogate: Surrogate::Clip { low: 0.9, high: 9.0, dual: None },
        ..PolicyLossConfig::grpo()
    };
    let configs = [
        PolicyLossConfig::bnpo(),
        config.clone(),
        PolicyLossConfig { ratio: RatioLevel::Sequence, ..config },
        PolicyLossConfig::cispo_trl(),
    ];
    for config in configs {
        for (seed, shape) in SHAPES.into_iter().enumerate() {
            let made = MadeLogits::new(seed as u64, shape, 4.0);
            let short: Vec<bf16> = made.logits.iter().map(|z| bf16::from_f32(*z)).collect();
            let half: Vec<f16> = made.logits.iter().map(|z| f16::from_f32(*z)).collect();
            for device in hosts_and_others() {
                check(&device, &config, &made, Floats::F32(&made.logits), 1e-5);
                check(&device, &config, &made, Floats::Bf16(&short), 1.0 / 256.0);
                check(&device, &config, &made, Floats::F16(&half), 1.0 / 1024.0);
            }
        }
    }
}

/// Holds both forms of the gradient to the reference; they must be the same bits.
fn check(
    device: &Device,
    config: &PolicyLossConfig,
    made: &MadeLogits,
    logits: Floats<'_>,
    tolerance: f64,
) {
    let offsets = [0, 4, 6];
    let batch = batch(made.rows(), &offsets);
    let wide = reference::logits::widen(logits);
    let exact = reference::logits::token_logprob(&wide, &made.rows());
    let log_prob: Vec<f32> = exact.iter().map(|(log_prob, _)| *log_prob as f32).collect();
    let entropy: Vec<f32> = exact.iter().map(|(_, entropy)| *entropy as f32).collect();
    let policy = PolicyBatch {
        log_prob: Floats::F32(&log_prob),
        old: batch.old,
        reference: None,
        rollout: None,
        entropy: Some(Floats::F32(&entropy)),
        mask: batch.mask,
        advantages: batch.advantages,
        layout: batch.layout,
        denominator: None,
    };
    let loss = reference::loss::policy_loss(&policy, config);
    let scaled = |grad: &[f64]| -> Vec<f64> { grad.iter().map(|g| g * -2.0).collect() };
    let want = reference::logits::grad_logits(
        &wide,
        &made.rows(),
        &scaled(&loss.grad_log_prob),
        &scaled(&loss.grad_entropy),
    );
    let got: Vec<f32> = match logits {
        Floats::F32(logits) => {
            let mut over = logits.to_vec();
            let both = Logits::Overwrite(FloatsMut::F32(&mut over));
            let (result, _) =
                logits_loss(device, both, &batch, config, Upstream::Loss(-2.0)).unwrap();
            assert!((result.loss() - loss.loss()).abs() <= 1e-5 * loss.loss().abs().max(1.0));
            let mut into = vec![7.0; over.len()];
            let logits =
                Logits::Into { logits: Floats::F32(logits), grad: FloatsMut::F32(&mut into) };
            let (again, _) =
                logits_loss(device, logits, &batch, config, Upstream::Loss(-2.0)).unwrap();
            assert_eq!(result, again);
            assert_eq!(over, into);
            over
        }
        Floats::Bf16(logits) => {
            let mut over = logits.to_vec();
            let both = Logits::Overwrite(FloatsMut::Bf16(&mut over));
            logits_loss(device, both, &batch, config, Upstream::Loss(-2.0)).unwrap();
            over.into_iter().map(bf16::to_f32).collect()
        }
        Floats::F16(logits) => {
            let mut over = logits.to_vec();
            let both = Logits::Overwrite(FloatsMut::F16(&mut over));
            logits_loss(device, both, &batch, config, Upstream::Loss(-2.0)).unwrap();
            over.into_iter().map(f16::to_f32).collect()
        }
    };
    for (i, (got, want)) in got.into_iter().zip(want).enumerate() {
        near(&format!("{} of {}, {config:?}", i, made.n_columns), got, want, 1e-4, tolerance);
    }
}

#[test]
fn every_set_of_instructions_gives_the_same_bits() {
    let made = MadeLogits::new(3, (5003, 5010), 4.0);
    let short: Vec<bf16> = made.logits.iter().map(|z| bf16::from_f32(*z)).collect();
    let config = PolicyLossConfig { entropy_coef: 0.05, ..PolicyLossConfig::grpo() };
    let with = |simd| {
        let device = Device::Cpu(Cpu::with_simd(simd));
        let (mut wide, mut short) = (made.logits.clone(), short.clone());
        let loss = |logits| {
            let batch = batch(made.rows(), &[0, 4, 6]);
            logits_loss(&device, Logits::Overwrite(logits), &batch, &config, Upstream::Loss(1.0))
                .unwrap()
        };
        let results = [loss(FloatsMut::F32(&mut wide)), loss(FloatsMut::Bf16(&mut short))];
        (results, wide, short)
    };
    let plain = with(Simd::Scalar);
    for simd in [Simd::Avx2, Simd::Avx512] {
        assert_eq!(with(simd), plain);
    }
}

#[test]
fn a_row_is_the_same_alone_and_among_more_than_a_cache_holds() {
    let n_columns = 600_000;
    let mut made = MadeLogits::new(4, (n_columns, n_columns), 4.0);
    let config = PolicyLossConfig { entropy_coef: 0.05, ..PolicyLossConfig::dapo() };
    let loss = |logits: &mut [f32], batch: &LogitsBatch<'_>| {
        let over = Logits::Overwrite(FloatsMut::F32(logits));
        logits_loss(&Device::cpu(), over, batch, &config, Upstream::Loss(1.0)).unwrap();
    };
    let mut alone = made.logits.clone();
    for (i, logits) in alone.chunks_exact_mut(n_columns).enumerate() {
        let temperature = Temperature::One(made.temperature[i]);
        let rows = LogitsRows { targets: &made.targets[i..=i], temperature, ..made.rows() };
        let one = LogitsBatch {
            old: Some(Floats::F32(&OLD[i..=i])),
            mask: &MASK[i..=i],
            advantages: Advantages::Rows(&[1.5]),
            denominator: Some(5.0),
            ..batch(rows, &[0, 1])
        };
        loss(logits, &one);
    }
    let mut together = std::mem::take(&mut made.logits);
    let all = LogitsBatch {
        advantages: Advantages::Rows(&[1.5]),
        denominator: Some(5.0),
        ..batch(made.rows(), &[0, 6])
    };
    loss(&mut together, &all);
    assert!(together == alone);
}

#[test]
fn bad_rows_are_nan_and_leave_the_others_whole() {
    hosts_and_others().iter().for_each(bad_rows);
}

fn bad_rows(device: &Device) {
    let mut made = MadeLogits::new(5, (2000, 2010), 3.0);
    made.logits[1500] = f32::NAN;
    made.targets[1] = 2000;
    made.logits[3 * 2010 + 7] = f32::INFINITY;
    made.logits[4 * 2010..5 * 2010].fill(f32::NEG_INFINITY);
    made.targets[5] = -1;
    let (mut log_prob, mut entropy) = ([9.0; N_TOKENS], [9.0; N_TOKENS]);
    let logits = Floats::F32(&made.logits);
    token_logprob(device, logits, &made.rows(), None, &mut log_prob, Some(&mut entropy)).unwrap();
    for i in [0, 1, 3, 4, 5] {
        assert!(
            log_prob[i].is_nan() && entropy[i].is_nan(),
            "row {i}: {} {}",
            log_prob[i],
            entropy[i]
        );
    }
    assert!(log_prob[2].is_finite() && entropy[2].is_finite());

    let mask = [true, true, true, false, false, false];
    let (mut log_prob, mut grad) = ([9.0; N_TOKENS], made.logits.clone());
    token_logprob(device, logits, &made.rows(), Some(&mask), &mut log_prob, None).unwrap();
    assert_eq!(log_prob[3..], [0.0; 3]);
    let offsets = [0, 1, 2, 3, 6];
    let batch = LogitsBatch {
        mask: &mask,
        old: None,
        advantages: Advantages::Rows(&[1.0; 4]),
        ..batch(made.rows(), &offsets)
    };
    let over = Logits::Overwrite(FloatsMut::F32(&mut grad));
    let (result, _) =
        logits_loss(device, over, &batch, &PolicyLossConfig::grpo(), Upstream::Loss(1.0)).unwrap();
    assert!(result.rows[0].is_nan() && result.rows[1].is_nan() && result.rows[2] == -1.0);
    assert_eq!(result.metrics.n_non_finite, 2);
    assert!(grad[..2000].iter().all(|g| g.is_nan()) && grad[2000..2010].iter().all(|g| *g == 0.0));
    assert!(grad[2 * 2010..3 * 2010].iter().all(|g| g.is_finite()));
    assert!(grad[3 * 2010..].iter().all(|g| *g == 0.0));
}

#[test]
fn shapes_and_temperatures_are_checked() {
    let made = MadeLogits::new(6, (7, 8), 1.0);
    let mut log_prob = [0.0; N_TOKENS];
    let mut text = |rows: LogitsRows<'_>, n: usize| {
        let logits = Floats::F32(&made.logits[..n]);
        token_logprob(&Device::cpu(), logits, &rows, None, &mut log_prob, None)
            .unwrap_err()
            .to_string()
    };
    let rows = made.rows();
    assert_eq!(
        text(rows, 47),
        "token_logprob: `logits` has 47 values, not 6 targets times 8 columns"
    );
    assert_eq!(
        text(LogitsRows { n_vocab: 9, ..rows }, 48),
        "token_logprob: `n_vocab` is 9; it must be 1 to the 8 columns"
    );
    let cold = LogitsRows { temperature: Temperature::One(0.0), ..rows };
    assert_eq!(text(cold, 48), "token_logprob: `temperature` is 0; it must be finite and above 0");
    let few = LogitsRows { temperature: Temperature::Rows(&[1.0]), ..rows };
    assert_eq!(text(few, 48), "token_logprob: `temperature` has 1 values for 6 targets");
}

/// Liger-Kernel 1329, 1419; TransformerEngine 3193: 1 - p read, modified and written in bf16 is wrong by 20 % at p = 0.99.
#[test]
fn fault_19_the_target_gradient_is_rounded_once() {
    // p = 0.999 of the first of two tokens.
    let mut logits = [bf16::from_f32(6.90625), bf16::ZERO];
    let p = 1.0 / (1.0 + (-6.90625f64).exp());
    let rows =
        LogitsRows { targets: &[0], n_columns: 2, n_vocab: 2, temperature: Temperature::One(1.0) };
    let batch = LogitsBatch {
        rows,
        old: None,
        mask: &[true],
        advantages: Advantages::Rows(&[-1.0]),
        ..batch(rows, &[0, 1])
    };
    let over = Logits::Overwrite(FloatsMut::Bf16(&mut logits));
    logits_loss(&Device::cpu(), over, &batch, &PolicyLossConfig::grpo(), Upstream::Loss(1.0))
        .unwrap();
    assert_eq!(logits[0], bf16::from_f64(1.0 - p));
    assert_eq!(logits[1], bf16::from_f64(-(1.0 - p)));
}
