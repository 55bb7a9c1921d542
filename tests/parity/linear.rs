//! Loss and gradients from hidden states against the reference in f64.

use half::{bf16, f16};
use hunkwise::Device;
use hunkwise::loss::*;
use hunkwise::reference;

use crate::devices::others;
use crate::losses::Random;

/// Hidden states, a head and what a loss needs beside them, owned.
struct MadeHead {
    hidden: Vec<f32>,
    weight: Vec<f32>,
    n_hidden: usize,
    n_vocab: usize,
    n_columns: usize,
    targets: Vec<i64>,
    old: Vec<f32>,
    mask: Vec<bool>,
    advantage: Vec<f32>,
    offsets: Vec<usize>,
}

impl MadeHead {
    /// Rows of 1 to 40 tokens; a quarter outside the mask, a third with an advantage of 0, one row of it alone.
    fn new(seed: u64, n: usize, n_hidden: usize, (n_vocab, n_columns): (usize, usize)) -> Self {
        let mut random = Random(seed);
        let mut made = |n: usize, most: f32| -> Vec<f32> {
            // Numbers that every dtype holds, so that one reference is right for all.
            (0..n).map(|_| bf16::from_f32(random.between(-most, most)).to_f32()).collect()
        };
        let (mut hidden, mut weight) = (made(n * n_hidden, 1.0), made(n_columns * n_hidden, 0.5));
        weight[n_vocab * n_hidden..].fill(f32::NAN);
        let mut offsets = vec![0];
        while *offsets.last().unwrap() < n {
            let end = offsets.last().unwrap() + 1 + random.below(40);
            offsets.push(end.min(n));
        }
        let mask: Vec<bool> = (0..n).map(|_| random.below(4) > 0).collect();
        let mut advantage: Vec<f32> = (0..n)
            .map(|_| if random.below(3) == 0 { 0.0 } else { random.between(-2.0, 2.0) })
            .collect();
        advantage[offsets[0]..offsets[1]].fill(0.0);
        // What is outside the mask is never read.
        for (row, live) in hidden.chunks_exact_mut(n_hidden).zip(&mask) {
            if !live {
                row.fill(f32::NAN);
            }
        }
        let targets: Vec<i64> = (0..n).map(|_| random.below(n_vocab) as i64).collect();
        let mut made = MadeHead {
            hidden,
            weight,
            n_hidden,
            n_vocab,
            n_columns,
            targets,
            old: vec![],
            mask,
            advantage,
            offsets,
        };
        let wide = |values| reference::logits::widen(Floats::F32(values));
        let logits =
            reference::logits::linear_logits(&wide(&made.hidden), &wide(&made.weight), n_hidden);
        made.old = reference::logits::token_logprob(&logits, &made.rows())
            .into_iter()
            .map(|(log_prob, _)| log_prob as f32 + random.between(-0.6, 0.6))
            .collect();
        made
    }

    fn rows(&self) -> LogitsRows<'_> {
        LogitsRows {
            targets: &self.targets,
            n_columns: self.n_columns,
            n_vocab: self.n_vocab,
            temperature: Temperature::One(0.8),
        }
    }

    fn batch(&self) -> LogitsBatch<'_> {
        LogitsBatch {
            rows: self.rows(),
            old: Some(Floats::F32(&self.old)),
            reference: None,
            rollout: None,
            mask: &self.mask,
            advantages: Advantages::Dense(Floats::F32(&self.advantage)),
            layout: Layout::Packed { offsets: &self.offsets },
            denominator: None,
        }
    }
}

struct Outcome {
    result: PolicyLoss,
    log_prob: Vec<f32>,
    hidden: Vec<f32>,
    weight: Vec<f32>,
}

fn hosts_and_others() -> Vec<Device> {
    [Device::cpu()].into_iter().chain(others()).collect()
}

fn run(made: &MadeHead, config: &PolicyLossConfig) -> Outcome {
    run_on(&Device::cpu(), made, config)
}

fn run_on(device: &Device, made: &MadeHead, config: &PolicyLossConfig) -> Outcome {
    let (mut hidden, mut weight) = (vec![9.0; made.hidden.len()], vec![0.0; made.weight.len()]);
    let gradients =
        LinearGradients { hidden: Some(FloatsMut::F32(&mut hidden)), weight: Some(&mut weight) };
    let (result, log_prob) = linear_loss(
        device,
        Floats::F32(&made.hidden),
        Floats::F32(&made.weight),
        &made.batch(),
        config,
        Upstream::Loss(-3.0),
        gradients,
    )
    .unwrap();
    Outcome { result, log_prob, hidden, weight }
}

struct Exact {
    loss: reference::loss::ReferenceLoss,
    /// Log-prob and entropy of each token.
    tokens: Vec<(f64, f64)>,
    hidden: Vec<f64>,
    weight: Vec<f64>,
}

/// The same in f64, every token computed.
fn exact(made: &MadeHead, config: &PolicyLossConfig) -> Exact {
    let wide = |values| reference::logits::widen(Floats::F32(values));
    let (hidden, weight) = (wide(&made.hidden), wide(&made.weight));
    let logits = reference::logits::linear_logits(&hidden, &weight, made.n_hidden);
    let tokens = reference::logits::token_logprob(&logits, &made.rows());
    let log_prob: Vec<f32> = tokens.iter().map(|(log_prob, _)| *log_prob as f32).collect();
    let entropy: Vec<f32> = tokens.iter().map(|(_, entropy)| *entropy as f32).collect();
    let batch = made.batch();
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
    let scaled = |grad: &[f64]| -> Vec<f64> { grad.iter().map(|g| g * -3.0).collect() };
    let by_logits = reference::logits::grad_logits(
        &logits,
        &made.rows(),
        &scaled(&loss.grad_log_prob),
        &scaled(&loss.grad_entropy),
    );
    let (hidden, weight) =
        reference::logits::grad_linear(&hidden, &weight, made.n_hidden, &by_logits);
    Exact { loss, tokens, hidden, weight }
}

fn all_near(name: &str, got: &[f32], want: &[f64], tolerance: f64) {
    let scale = want.iter().fold(0f64, |most, x| most.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*got) - want).abs();
        assert!(error <= tolerance * scale.max(1e-9), "{name} {i}: {got}, reference {want}");
    }
}

fn configs() -> Vec<PolicyLossConfig> {
    let clip = PolicyLossConfig {
        surrogate: Surrogate::Clip { low: 0.2, high: 0.28, dual: Some(1.5) },
        ..PolicyLossConfig::dapo()
    };
    vec![
        PolicyLossConfig { entropy_coef: 0.02, ..clip.clone() },
        PolicyLossConfig { ratio: RatioLevel::Sequence, ..clip.clone() },
        PolicyLossConfig { ratio: RatioLevel::SequenceToken, ..clip.clone() },
        clip,
        PolicyLossConfig::cispo_trl(),
        PolicyLossConfig::sapo(),
    ]
}

/// Tokens, hidden columns, vocabulary and its padding: around the 96 rows and 512 tokens of a product.
const SHAPES: [(usize, usize, (usize, usize)); 6] = [
    (1, 1, (1, 1)),
    (40, 16, (33, 40)),
    (96, 8, (513, 513)),
    (97, 24, (512, 520)),
    (400, 130, (257, 257)),
    (130, 33, (1030, 1030)),
];

#[test]
fn losses_and_gradients_are_those_of_the_reference() {
    hosts_and_others().iter().for_each(losses_and_gradients);
}

fn losses_and_gradients(device: &Device) {
    for (seed, (n, n_hidden, vocab)) in SHAPES.into_iter().enumerate() {
        let made = MadeHead::new(seed as u64, n, n_hidden, vocab);
        for config in configs() {
            let name = format!("{device:?}, {n} x {n_hidden} x {vocab:?}, {config:?}");
            let got = run_on(device, &made, &config);
            let want = exact(&made, &config);
            let (loss, tokens) = (&want.loss, &want.tokens);
            let error = (got.result.loss() - loss.loss()).abs();
            assert!(error <= 1e-5 * loss.loss().abs().max(1.0), "{name}");
            assert_eq!(got.result.denominator, loss.denominator, "{name}");
            for (i, (want, _)) in tokens.iter().enumerate() {
                let log_prob = got.log_prob[i];
                match made.mask[i] {
                    false => assert_eq!(log_prob, 0.0),
                    // Not computed.
                    true if log_prob.is_nan() => assert_eq!(made.advantage[i], 0.0),
                    true => {
                        let error = (f64::from(log_prob) - want).abs();
                        assert!(error < 1e-5 * want.abs().max(1.0), "{name}, token {i}");
                    }
                }
            }
            all_near(&format!("{name}: hidden"), &got.hidden, &want.hidden, 1e-5);
            let live = n_hidden * vocab.0;
            let weight = &got.weight[..live];
            all_near(&format!("{name}: weight"), weight, &want.weight[..live], 1e-5);
            assert!(got.weight[live..].iter().all(|g| *g == 0.0), "{name}: padding");
        }
    }
}

#[test]
fn tokens_that_change_nothing_are_counted_and_left_out() {
    hosts_and_others().iter().for_each(tokens_left_out);
}

fn tokens_left_out(device: &Device) {
    let made = MadeHead::new(7, 200, 16, (60, 64));
    let first = made.offsets[0]..made.offsets[1];
    for config in configs() {
        let got = run_on(device, &made, &config);
        let all_count = config.entropy_coef != 0.0;
        let is_skipped = |i: usize| {
            let of_row = config.ratio == RatioLevel::Token || first.contains(&i);
            made.mask[i] && made.advantage[i] == 0.0 && of_row && !all_count
        };
        let n_skipped = (0..200).filter(|&i| is_skipped(i)).count();
        assert_eq!(got.result.metrics.n_skipped, n_skipped, "{config:?}");
        assert!(all_count || n_skipped > 0);
        for i in 0..200 {
            assert_eq!(got.log_prob[i].is_nan(), is_skipped(i), "{config:?}, token {i}");
        }
        let live = made.mask.iter().filter(|live| **live).count();
        assert_eq!(got.result.metrics.n_tokens, live);
        assert_eq!(got.result.metrics.n_finite(), live - n_skipped);
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_batch_and_thread_count() {
    for (n_hidden, vocab) in [(600, (40, 40)), (64, (700, 700)), (1025, (513, 513))] {
        let made = MadeHead::new(11, 250, n_hidden, vocab);
        for config in configs() {
            let all = run(&made, &config);
            let pool = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
            for threads in [1, 3] {
                let again = pool(threads).install(|| run(&made, &config));
                assert_eq!(again.result, all.result);
                let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&again.log_prob), bits(&all.log_prob));
                assert_eq!(bits(&again.hidden), bits(&all.hidden));
                assert_eq!(bits(&again.weight), bits(&all.weight));
            }
            for row in 0..made.offsets.len() - 1 {
                let at = made.offsets[row]..made.offsets[row + 1];
                let offsets = [0, at.len()];
                let batch = LogitsBatch {
                    rows: LogitsRows { targets: &made.targets[at.clone()], ..made.rows() },
                    old: Some(Floats::F32(&made.old[at.clone()])),
                    mask: &made.mask[at.clone()],
                    advantages: Advantages::Dense(Floats::F32(&made.advantage[at.clone()])),
                    layout: Layout::Packed { offsets: &offsets },
                    ..made.batch()
                };
                let hidden = &made.hidden[at.start * n_hidden..at.end * n_hidden];
                let (alone, log_prob) = linear_loss(
                    &Device::cpu(),
                    Floats::F32(hidden),
                    Floats::F32(&made.weight),
                    &batch,
                    &config,
                    Upstream::Loss(1.0),
                    LinearGradients::default(),
                )
                .unwrap();
                assert_eq!(alone.rows[0].to_bits(), all.result.rows[row].to_bits());
                for (a, b) in log_prob.iter().zip(&all.log_prob[at]) {
                    assert_eq!(a.to_bits(), b.to_bits());
                }
            }
        }
    }
}

#[test]
fn every_dtype_gives_the_gradients_of_its_numbers() {
    hosts_and_others().iter().for_each(every_dtype);
}

fn every_dtype(device: &Device) {
    let made = MadeHead::new(13, 120, 40, (600, 608));
    let config = PolicyLossConfig::dapo();
    let wide = run(&made, &config);
    let short: Vec<bf16> = made.hidden.iter().map(|x| bf16::from_f32(*x)).collect();
    let half: Vec<f16> = made.weight.iter().map(|x| f16::from_f32(*x)).collect();
    let (mut hidden, mut weight) = (vec![bf16::ONE; short.len()], vec![1.0f32; made.weight.len()]);
    let (result, _) = linear_loss(
        device,
        Floats::Bf16(&short),
        Floats::F16(&half),
        &made.batch(),
        &config,
        Upstream::Loss(-3.0),
        LinearGradients { hidden: Some(FloatsMut::Bf16(&mut hidden)), weight: Some(&mut weight) },
    )
    .unwrap();
    assert!((result.loss() - wide.result.loss()).abs() < 1e-3);
    let scale = wide.hidden.iter().fold(0f32, |most, x| most.max(x.abs()));
    for (got, want) in hidden.iter().zip(&wide.hidden) {
        assert!((got.to_f32() - want).abs() <= want.abs() / 256.0 + 1e-4 * scale);
    }
    // Added to what was there.
    let scale = wide.weight.iter().fold(0f32, |most, x| most.max(x.abs()));
    for (got, want) in weight.iter().zip(&wide.weight) {
        assert!((got - 1.0 - want).abs() <= 1e-3 * scale.max(1e-3), "{got} {want}");
    }
}

#[test]
fn values_that_are_not_finite_stay_in_their_token() {
    hosts_and_others().iter().for_each(not_finite);
}

fn not_finite(device: &Device) {
    let mut made = MadeHead::new(17, 150, 20, (90, 90));
    made.mask.fill(true);
    made.advantage.fill(0.5);
    made.hidden.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = 0.25);
    made.old.fill(-4.0);
    made.hidden[31 * 20 + 3] = f32::NAN;
    made.targets[77] = 90;
    let skip = PolicyLossConfig { non_finite: NonFinite::Skip, ..PolicyLossConfig::dapo() };
    let got = run_on(device, &made, &skip);
    assert_eq!(got.result.metrics.n_non_finite, 2);
    assert!(got.log_prob[31].is_nan() && got.log_prob[77].is_nan());
    assert!(got.result.loss().is_finite());
    assert!(got.hidden.iter().chain(&got.weight).all(|g| g.is_finite()));
    assert!(got.hidden[31 * 20..32 * 20].iter().all(|g| *g == 0.0));

    let got = run_on(device, &made, &PolicyLossConfig::dapo());
    assert!(got.result.loss().is_nan());
    for i in 0..150 {
        let row = &got.hidden[i * 20..(i + 1) * 20];
        assert!(row.iter().all(|g| g.is_nan() == (i == 31 || i == 77)), "token {i}");
    }
    assert!(got.weight.iter().all(|g| g.is_nan()));
}

#[test]
fn nothing_to_train_gives_zeros() {
    hosts_and_others().iter().for_each(nothing_to_train);
}

fn nothing_to_train(device: &Device) {
    let mut made = MadeHead::new(19, 30, 4, (10, 10));
    made.mask.fill(false);
    let got = run_on(device, &made, &PolicyLossConfig::grpo());
    assert_eq!((got.result.loss(), got.result.metrics.n_tokens), (0.0, 0));
    assert!(got.hidden.iter().chain(&got.weight).all(|g| *g == 0.0));
}

#[test]
fn shapes_are_checked() {
    let made = MadeHead::new(23, 6, 4, (10, 12));
    let text = |hidden: usize, weight: usize, grad: usize| {
        let mut grad = vec![0.0; grad];
        linear_loss(
            &Device::cpu(),
            Floats::F32(&made.hidden[..hidden]),
            Floats::F32(&made.weight[..weight]),
            &made.batch(),
            &PolicyLossConfig::grpo(),
            Upstream::default(),
            LinearGradients { hidden: None, weight: Some(&mut grad) },
        )
        .unwrap_err()
        .to_string()
    };
    assert_eq!(text(24, 47, 48), "linear_loss: `weight` has 47 values, which are not 12 rows");
    assert_eq!(text(23, 48, 48), "linear_loss: `hidden` has 23 values, not 6 targets times 4");
    assert_eq!(text(24, 48, 40), "linear_loss: the gradient by `weight` has 40 values for 48");
}
