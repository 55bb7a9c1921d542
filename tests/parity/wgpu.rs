//! What the wgpu backend alone must hold: the same bits in every run and within any limits, and errors for a device that
//! is gone.

use half::{bf16, f16};
use hunkwise::backend::wgpu::{Limits, Wgpu};
use hunkwise::loss::*;
use hunkwise::{Device, Error};

use crate::devices::wgpu as device;
use crate::losses::{Form, Made, configs};

/// The device with little room: work is cut into many tiles, and workgroups go into two dimensions.
fn cramped(device: &Wgpu, binding_bytes: u64) -> Device {
    Device::Wgpu(device.with_limits(Limits { binding_bytes, workgroups: 3, ..device.limits() }))
}

const LENGTHS: [usize; 8] = [1, 0, 1023, 1024, 1025, 40, 5000, 3];

type Everything = (PolicyLoss, Vec<f32>, Vec<f32>, Vec<f32>);

fn losses(
    device: &Device,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
) -> Everything {
    let n = batch.log_prob.len();
    let (mut grad, mut grad_entropy, mut token_loss) = (vec![9.0; n], vec![9.0; n], vec![9.0; n]);
    let outputs = PolicyOutputs {
        grad_log_prob: Some(FloatsMut::F32(&mut grad)),
        grad_entropy: Some(FloatsMut::F32(&mut grad_entropy)),
        token_loss: Some(FloatsMut::F32(&mut token_loss)),
    };
    let result = policy_loss(device, batch, config, upstream, outputs).unwrap();
    (result, grad, grad_entropy, token_loss)
}

fn bits(everything: Everything) -> (Vec<u64>, Vec<u32>) {
    let (result, grad, grad_entropy, token_loss) = everything;
    let m = result.metrics;
    let wide = [
        result.numerator,
        result.denominator,
        m.sum_k1,
        m.sum_k3,
        m.sum_ratio,
        m.sum_kl,
        m.sum_entropy,
        m.sum_weight,
        m.sum_weight_squared,
    ];
    let wide = wide.iter().chain(&result.rows).map(|x| x.to_bits()).collect();
    let narrow = [grad, grad_entropy, token_loss].concat().iter().map(|x| x.to_bits()).collect();
    (wide, narrow)
}

#[test]
fn losses_have_the_same_bits_in_every_run_and_within_any_limits() {
    let Some(device) = device() else { return };
    for (form, seed) in [(Form::Dense, 1), (Form::Rows, 2), (Form::Spans, 3)] {
        let made = Made { form, ..Made::new(seed, &LENGTHS, 0.5) };
        for (name, config) in configs() {
            let with =
                |device: &Device| bits(losses(device, &made.batch(), &config, Upstream::Loss(1.0)));
            let expected = with(&Device::Wgpu(device.clone()));
            assert_eq!(with(&Device::Wgpu(device.clone())), expected, "{name}");
            for binding_bytes in [40 << 10, 100 << 10] {
                assert_eq!(with(&cramped(&device, binding_bytes)), expected, "{name}");
            }
        }
    }
}

/// More workgroups than one dimension of any device has.
#[test]
fn losses_of_more_rows_than_a_dimension_has_workgroups() {
    let Some(device) = device() else { return };
    let made = Made::new(10, &[1; 70_000], 0.5);
    let (_, config) = &configs()[0];
    let (expected, grad, ..) = losses(&Device::cpu(), &made.batch(), config, Upstream::Loss(1.0));
    let device = Device::Wgpu(device);
    let (found, found_grad, ..) = losses(&device, &made.batch(), config, Upstream::Loss(1.0));
    let near = |x: f64, y: f64| (x - y).abs() <= 2e-5 * y.abs().max(1e-9);
    assert!(near(found.numerator, expected.numerator), "{found:?}");
    assert!(found.rows.iter().zip(&expected.rows).all(|(x, y)| near(*x, *y)));
    assert!(found_grad.iter().zip(&grad).all(|(x, y)| near(f64::from(*x), f64::from(*y))));
    assert_eq!(found.metrics.n_tokens, expected.metrics.n_tokens);
}

#[test]
fn a_piece_that_does_not_fit_is_an_error() {
    let Some(device) = device() else { return };
    let made = Made::new(4, &LENGTHS, 0.5);
    let (_, config) = &configs()[0];
    let error = policy_loss(
        &cramped(&device, 1 << 10),
        &made.batch(),
        config,
        Upstream::Loss(1.0),
        PolicyOutputs::default(),
    );
    assert!(matches!(error, Err(Error::Limit { limit: 1024, .. })), "{error:?}");
}

#[test]
fn short_dtypes_are_the_same_numbers_in_f32() {
    let Some(device) = device() else { return };
    let device = Device::Wgpu(device);
    let made = Made::new(5, &[301, 1030], 0.5);
    let in_bf16 = |values: &[f32]| values.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>();
    let in_f16 = |values: &[f32]| values.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>();
    let (log_prob, rollout, dense) =
        (in_bf16(&made.log_prob), in_bf16(&made.rollout), in_bf16(&made.dense));
    let (mut old, reference) = (in_f16(&made.old), in_f16(&made.reference));
    // Small, large and negative halves too.
    for (i, bits) in [0x0001, 0x8001, 0x03ff, 0x0400, 0x8000, 0xc248].into_iter().enumerate() {
        old[i] = f16::from_bits(bits);
    }
    let short = PolicyBatch {
        log_prob: Floats::Bf16(&log_prob),
        old: Some(Floats::F16(&old)),
        reference: Some(Floats::F16(&reference)),
        rollout: Some(Floats::Bf16(&rollout)),
        advantages: Advantages::Dense(Floats::Bf16(&dense)),
        ..made.batch()
    };
    let of_bf16 = |values: &[bf16]| values.iter().map(|x| x.to_f32()).collect::<Vec<f32>>();
    let of_f16 = |values: &[f16]| values.iter().map(|x| x.to_f32()).collect::<Vec<f32>>();
    let wide = Made {
        log_prob: of_bf16(&log_prob),
        old: of_f16(&old),
        reference: of_f16(&reference),
        rollout: of_bf16(&rollout),
        dense: of_bf16(&dense),
        ..made.clone()
    };
    for (name, config) in configs() {
        let narrow = losses(&device, &short, &config, Upstream::Loss(1.0));
        let full = losses(&device, &wide.batch(), &config, Upstream::Loss(1.0));
        let mut rounded = vec![bf16::ZERO; made.len()];
        let outputs = PolicyOutputs {
            grad_log_prob: Some(FloatsMut::Bf16(&mut rounded)),
            ..Default::default()
        };
        policy_loss(&device, &short, &config, Upstream::Loss(1.0), outputs).unwrap();
        assert_eq!(rounded, in_bf16(&narrow.1), "{name}");
        assert_eq!(bits(narrow), bits(full), "{name}");
    }
}

#[test]
fn the_upstream_gradient_is_that_of_the_host_whatever_its_strides() {
    let Some(device) = device() else { return };
    let (n_rows, n_columns) = (4, 1500);
    let made = Made::new(6, &[n_columns; 4], 0.5);
    let padded = PolicyBatch { layout: Layout::Padded { n_rows, n_columns }, ..made.batch() };
    for (name, config) in configs().into_iter().step_by(3) {
        for (batch, row_stride, token_stride) in [
            (padded, 1500, 1),
            (padded, 1, 4),
            (padded, 1, 0),
            (padded, 0, 1),
            (made.batch(), 0, 2),
        ] {
            let n = 3 * row_stride + 5999 * token_stride + 1;
            let values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin() * 3.0).collect();
            let upstream = Upstream::Tokens { values: &values, row_stride, token_stride };
            let (_, expected, by_entropy, _) = losses(&Device::cpu(), &batch, &config, upstream);
            let room = cramped(&device, 50 << 10);
            let (_, found, found_by_entropy, _) = losses(&room, &batch, &config, upstream);
            let largest = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (x, y) in
                found.iter().zip(&expected).chain(found_by_entropy.iter().zip(&by_entropy))
            {
                assert!((x - y).abs() <= 2e-5 * largest.max(y.abs()), "{name}: {x}, host {y}");
            }
        }
    }
}

/// A device that is given up says so at once; it never hands over zeros.
#[test]
fn a_device_that_is_gone_is_an_error() {
    use hunkwise::backend::wgpu::AdapterChoice;
    if device().is_none() {
        return;
    }
    let own = Wgpu::new(AdapterChoice::BestOrSoftware).unwrap();
    let made = Made::new(7, &LENGTHS, 0.5);
    let (_, config) = &configs()[0];
    let run = || {
        let device = Device::Wgpu(own.clone());
        let outputs = PolicyOutputs::default();
        policy_loss(&device, &made.batch(), config, Upstream::Loss(1.0), outputs)
    };
    assert!(run().unwrap().numerator.is_finite());
    own.close();
    for _ in 0..2 {
        let error = run();
        assert!(matches!(error, Err(Error::Device { .. })), "{error:?}");
        assert!(error.unwrap_err().to_string().contains("closed"));
    }
}

/// Given up while it works, at any moment: the right result or an error.
#[test]
fn a_device_that_goes_while_it_works_never_gives_a_wrong_result() {
    use std::time::Duration;

    use hunkwise::backend::wgpu::AdapterChoice;
    if device().is_none() {
        return;
    }
    let made = Made::new(9, &[200_000], 0.5);
    let (_, config) = &configs()[0];
    let mut expected = None;
    let mut n_errors = 0;
    for delay in [None, Some(0), Some(300), Some(1000), Some(3000), Some(6000), Some(10_000)] {
        let own = Wgpu::new(AdapterChoice::BestOrSoftware).unwrap();
        let device = Device::Wgpu(own.clone());
        let found = std::thread::scope(|scope| {
            if let Some(delay) = delay {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_micros(delay));
                    own.close();
                });
            }
            let mut grad = vec![0.0; made.len()];
            let outputs = PolicyOutputs {
                grad_log_prob: Some(FloatsMut::F32(&mut grad)),
                ..Default::default()
            };
            policy_loss(&device, &made.batch(), config, Upstream::Loss(1.0), outputs)
                .map(|result| (result.numerator.to_bits(), grad))
        });
        match found {
            Ok(found) => assert!(*expected.get_or_insert_with(|| found.clone()) == found),
            Err(error) => {
                n_errors += 1;
                assert!(matches!(error, Error::Device { .. }), "{error:?}");
            }
        }
    }
    assert!(expected.is_some() && n_errors > 0, "{n_errors} errors");
}

#[test]
fn a_wait_that_takes_too_long_is_an_error() {
    use std::time::Duration;

    use hunkwise::backend::wgpu::AdapterChoice;
    if device().is_none() {
        return;
    }
    let own = Wgpu::new(AdapterChoice::BestOrSoftware).unwrap();
    let hasty = own.with_limits(Limits { timeout: Duration::ZERO, ..own.limits() });
    let made = Made::new(8, &[1 << 20], 0.5);
    let (_, config) = &configs()[0];
    let outputs = PolicyOutputs::default();
    let device = Device::Wgpu(hasty);
    let error = policy_loss(&device, &made.batch(), config, Upstream::Loss(1.0), outputs);
    assert!(matches!(error, Err(Error::Device { .. })), "{error:?}");
    assert!(error.unwrap_err().to_string().contains("no result within 0 s"));
}

#[test]
fn an_adapter_that_is_not_there_is_an_error_with_those_that_are() {
    use hunkwise::backend::wgpu::AdapterChoice;
    let error = Wgpu::new(AdapterChoice::Named("no such adapter")).unwrap_err().to_string();
    assert!(error.contains("no such adapter"), "{error}");
    for adapter in Wgpu::adapters() {
        assert!(error.contains(&adapter.name), "{error} lacks {adapter}");
    }
}

#[test]
fn windows_are_those_of_the_host_within_any_limits() {
    use hunkwise::code::Windows;
    use hunkwise::similarity::{SimilarityConfig, matches, occurrences};

    use crate::tasks::{Random, Shape, random_task};

    let Some(device) = device() else { return };
    let mut random = Random(31);
    let shape = Shape {
        n_turns: 6,
        max_roots_per_turn: 2,
        max_root_lines: 14,
        n_lines: 8,
        max_line_tokens: 7,
        n_symbols: 12,
        n_types: 1,
    };
    for round in 0..6 {
        let code = random_task(&mut random, shape);
        let windows = Windows::all(&code, 8).unwrap();
        let config = SimilarityConfig { eta: [0.5, 0.8][round % 2], ..SimilarityConfig::default() };
        let host = Device::cpu();
        let expected = occurrences(&host, &code, &windows, None, &config).unwrap();
        let expected_pairs = matches(&host, &code, &windows, None, &config).unwrap();
        // Room for the code, and for the pairs of a few starts: patterns go up in many batches, and parts with too many
        // pairs are halved.
        for binding_bytes in [1 << 20, 10 << 10] {
            let room = cramped(&device, binding_bytes);
            assert_eq!(occurrences(&room, &code, &windows, None, &config).unwrap(), expected);
            assert_eq!(matches(&room, &code, &windows, None, &config).unwrap(), expected_pairs);
        }
        let room = cramped(&device, 1 << 10);
        let error = matches(&room, &code, &windows, None, &config);
        assert!(matches!(error, Err(Error::Limit { limit: 1024, .. })), "{error:?}");
    }
}

#[test]
fn group_advantages_are_those_of_the_host_within_any_limits() {
    use hunkwise::advantage::{Estimator, group_advantage};

    use crate::tasks::Random;

    let Some(device) = device() else { return };
    let mut random = Random(33);
    let (mut values, mut offsets) = (vec![], vec![0]);
    // The longest takes several dispatches.
    for n in [3, 0, 50, 1, 45_000, 0, 0, 700, 64] {
        for _ in 0..n {
            let x = random.below(2000) as f64 / 7.0 - 100.0;
            values.push((random.below(10) > 0).then_some(x));
        }
        offsets.push(values.len());
    }
    for estimator in [Estimator::Grpo, Estimator::GrpoNoStd, Estimator::Rloo] {
        let with = |device: &Device| {
            let found = group_advantage(device, &values, &offsets, estimator, 1e-6, 1).unwrap();
            let bits: Vec<u32> = found.values.iter().map(|x| x.to_bits()).collect();
            (bits, found.counts)
        };
        let expected = with(&Device::cpu());
        assert_eq!(with(&Device::Wgpu(device.clone())), expected);
        assert_eq!(with(&cramped(&device, 1 << 20)), expected);
    }
    let room = cramped(&device, 10 << 10);
    let error = group_advantage(&room, &values, &offsets, Estimator::Grpo, 1e-6, 1);
    assert!(matches!(error, Err(Error::Limit { limit: 10_240, .. })), "{error:?}");
}

/// From rollouts to credit: the same bytes as on the host.
#[test]
fn the_whole_way_gives_the_bytes_of_the_host() {
    use hunkwise::rollout::{ReadOptions, read_files};
    use hunkwise::{Config, credit, report};

    let Some(device) = device() else { return };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rollouts");
    let batch =
        read_files(&[folder.join("hunkwise.jsonl")], &ReadOptions::default(), &mut |_| {}).unwrap();
    let bytes = |device: &Device, config: &Config| {
        let credit = credit(device, &batch, config).unwrap();
        let mut out = vec![];
        report::write_credit(&mut out, &batch, &credit, true, false).unwrap();
        report::write_groups(&mut out, &batch, &credit).unwrap();
        out
    };
    let mut embedded = Config::default();
    embedded.similarity.embedding_weight = 0.3;
    for config in [Config::default(), embedded] {
        let expected = bytes(&Device::cpu(), &config);
        assert!(String::from_utf8(expected.clone()).unwrap().contains("\"members\""));
        for device in [Device::Wgpu(device.clone()), cramped(&device, 1 << 20)] {
            assert!(bytes(&device, &config) == expected, "{device:?}");
        }
    }
}

#[test]
fn logits_have_the_same_bits_in_every_run_and_within_any_limits() {
    use crate::losses::Random;

    let Some(device) = device() else { return };
    let (n, n_vocab, n_columns) = (37, 1999, 2001);
    let mut random = Random(34);
    let logits: Vec<f32> = (0..n * n_columns).map(|_| random.between(-6.0, 6.0)).collect();
    let short: Vec<bf16> = logits.iter().map(|&z| bf16::from_f32(z)).collect();
    let targets: Vec<i64> = (0..n).map(|_| random.below(n_vocab) as i64).collect();
    let mask: Vec<bool> = (0..n).map(|_| random.below(4) > 0).collect();
    let advantages: Vec<f32> = (0..n).map(|_| random.between(-2.0, 2.0)).collect();
    let temperature = Temperature::One(0.7);
    let batch = LogitsBatch {
        rows: LogitsRows { targets: &targets, n_columns, n_vocab, temperature },
        old: None,
        reference: None,
        rollout: None,
        mask: &mask,
        advantages: Advantages::Dense(Floats::F32(&advantages)),
        layout: Layout::Packed { offsets: &[0, 9, 37] },
        denominator: None,
    };
    let config = PolicyLossConfig { entropy_coef: 0.05, ..PolicyLossConfig::grpo() };
    let with = |device: &Device| {
        let (mut wide, mut narrow) = (logits.clone(), short.clone());
        let loss = |logits| {
            let (result, log_prob) = logits_loss(
                device,
                Logits::Overwrite(logits),
                &batch,
                &config,
                Upstream::Loss(1.0),
            )
            .unwrap();
            (result.numerator.to_bits(), log_prob.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
        };
        let results = [loss(FloatsMut::F32(&mut wide)), loss(FloatsMut::Bf16(&mut narrow))];
        (results, wide.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), narrow)
    };
    let expected = with(&Device::Wgpu(device.clone()));
    assert_eq!(with(&Device::Wgpu(device.clone())), expected);
    for binding_bytes in [40 << 10, 100 << 10] {
        assert_eq!(with(&cramped(&device, binding_bytes)), expected);
    }
    let mut over = logits.clone();
    let over = Logits::Overwrite(FloatsMut::F32(&mut over));
    let error = logits_loss(&cramped(&device, 5 << 10), over, &batch, &config, Upstream::Loss(1.0));
    assert!(matches!(error, Err(Error::Limit { limit: 5120, .. })), "{error:?}");
}

#[test]
fn a_row_that_a_thread_would_loop_over_for_long_is_an_error() {
    let Some(device) = device() else { return };
    let logits = vec![0.0f32; (1 << 21) + 1];
    let n_columns = logits.len();
    let temperature = Temperature::One(1.0);
    let rows = LogitsRows { targets: &[1], n_columns, n_vocab: n_columns, temperature };
    let device = Device::Wgpu(device);
    let mut log_prob = [9.0];
    let error =
        token_logprob(&device, Floats::F32(&logits), &rows, None, &mut log_prob, None).unwrap_err();
    assert!(matches!(error, Error::Limit { needed: 2_097_153, .. }), "{error}");
    let rows = LogitsRows { n_columns: 1 << 21, n_vocab: 1 << 21, ..rows };
    let logits = Floats::F32(&logits[..1 << 21]);
    token_logprob(&device, logits, &rows, None, &mut log_prob, None).unwrap();
    // All alike: -ln 2^21.
    assert!((log_prob[0] + 14.556_091).abs() < 1e-5, "{}", log_prob[0]);
}

#[test]
fn heads_have_the_same_bits_in_every_run_and_within_any_limits() {
    use crate::losses::Random;

    let Some(device) = device() else { return };
    let (n, n_hidden, n_vocab, n_columns) = (101, 37, 1100, 1103);
    let mut random = Random(35);
    let mut made = |n: usize| (0..n).map(|_| random.between(-1.0, 1.0)).collect::<Vec<f32>>();
    let (hidden, weight, advantages) = (made(n * n_hidden), made(n_columns * n_hidden), made(n));
    let short: Vec<f16> = weight.iter().map(|&x| f16::from_f32(x)).collect();
    let targets: Vec<i64> = (0..n as i64).map(|i| i * 10).collect();
    let mask: Vec<bool> = (0..n).map(|i| i % 5 != 2).collect();
    let temperature = Temperature::One(1.3);
    let batch = LogitsBatch {
        rows: LogitsRows { targets: &targets, n_columns, n_vocab, temperature },
        old: None,
        reference: None,
        rollout: None,
        mask: &mask,
        advantages: Advantages::Dense(Floats::F32(&advantages)),
        layout: Layout::Packed { offsets: &[0, 9, 101] },
        denominator: None,
    };
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for ratio in [RatioLevel::Token, RatioLevel::Sequence] {
        let config = PolicyLossConfig { ratio, ..PolicyLossConfig::dapo() };
        let with = |device: &Device, weight: Floats<'_>| {
            let (mut by_hidden, mut by_weight) = (vec![9.0; hidden.len()], vec![0.5; weight.len()]);
            let gradients = LinearGradients {
                hidden: Some(FloatsMut::F32(&mut by_hidden)),
                weight: Some(&mut by_weight),
            };
            let hidden = Floats::F32(&hidden);
            let upstream = Upstream::Loss(1.0);
            let (result, log_prob) =
                linear_loss(device, hidden, weight, &batch, &config, upstream, gradients).unwrap();
            (result.numerator.to_bits(), bits(&log_prob), bits(&by_hidden), bits(&by_weight))
        };
        for weight in [Floats::F32(&weight), Floats::F16(&short)] {
            let expected = with(&Device::Wgpu(device.clone()), weight);
            assert_eq!(with(&Device::Wgpu(device.clone()), weight), expected);
            // Chunks of 16 tokens, blocks of some hundred words of the vocabulary.
            assert_eq!(with(&cramped(&device, 80 << 10), weight), expected);
        }
        let room = cramped(&device, 60 << 10);
        let (hidden, weight) = (Floats::F32(&hidden), Floats::F32(&weight));
        let error = linear_loss(
            &room,
            hidden,
            weight,
            &batch,
            &config,
            Upstream::Loss(1.0),
            LinearGradients::default(),
        );
        assert!(matches!(error, Err(Error::Limit { limit: 61_440, .. })), "{error:?}");
    }
}
