//! What holds for every policy loss: its gradient is that of finite differences, parts add up, a row's value does not
//! depend on what is beside it, nor anything on threads or on what is masked.

use std::ops::Range;

use hunkwise::Device;
use hunkwise::loss::*;
use hunkwise::reference::loss::{loss_at, policy_loss as reference_loss};

use crate::losses::{Form, Made, Random, configs};

fn run(batch: &PolicyBatch<'_>, config: &PolicyLossConfig) -> (PolicyLoss, Vec<f32>) {
    let mut grad = vec![0.0; batch.log_prob.len()];
    let outputs =
        PolicyOutputs { grad_log_prob: Some(FloatsMut::F32(&mut grad)), ..Default::default() };
    let result = policy_loss(&Device::cpu(), batch, config, Upstream::Loss(1.0), outputs).unwrap();
    (result, grad)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Some rows of a batch alone.
fn rows_of(made: &Made, rows: Range<usize>) -> Made {
    let at = made.offsets[rows.start]..made.offsets[rows.end];
    let spans = made.span_offsets[rows.start]..made.span_offsets[rows.end];
    Made {
        log_prob: made.log_prob[at.clone()].to_vec(),
        old: made.old[at.clone()].to_vec(),
        reference: made.reference[at.clone()].to_vec(),
        rollout: made.rollout[at.clone()].to_vec(),
        entropy: made.entropy[at.clone()].to_vec(),
        mask: made.mask[at.clone()].to_vec(),
        dense: made.dense[at].to_vec(),
        episode: made.episode[rows.clone()].to_vec(),
        spans: made.spans[spans.clone()].to_vec(),
        span_offsets: made.span_offsets[rows.start..=rows.end]
            .iter()
            .map(|end| end - spans.start)
            .collect(),
        offsets: made.offsets[rows.start..=rows.end]
            .iter()
            .map(|end| end - made.offsets[rows.start])
            .collect(),
        ..*made
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for (name, config) in configs() {
        for (drift, has_old, form) in [
            (0.5, true, Form::Spans),
            (0.0, true, Form::Dense),
            (30.0, true, Form::Rows),
            (0.5, false, Form::Dense),
        ] {
            let mut made = Made::new(3, &[6, 1, 0, 4, 9], drift);
            made.has_old = has_old;
            made.form = form;
            let batch = made.batch();
            let stop: Vec<f64> = made.log_prob.iter().map(|x| f64::from(*x)).collect();
            let exact = reference_loss(&batch, &config);
            let here = loss_at(&batch, &config, &stop, &stop);
            assert!(
                (here - exact.loss()).abs() <= 1e-9 * exact.loss().abs().max(1.0),
                "{name}: {here}"
            );
            let (_, fast) = run(&batch, &config);
            let largest = exact.grad_log_prob.iter().fold(0f64, |m, g| m.max(g.abs()));
            for t in 0..made.len() {
                let step = 1e-6;
                let moved = |by: f64| {
                    let mut log_prob = stop.clone();
                    log_prob[t] += by;
                    loss_at(&batch, &config, &log_prob, &stop)
                };
                let (after, before) = ((moved(step) - here) / step, (here - moved(-step)) / step);
                let central = (after + before) / 2.0;
                // At a corner of a clip the two sides differ; the gradient is then one of them.
                let near =
                    |slope: f64| (exact.grad_log_prob[t] - slope).abs() <= 1e-4 * largest.max(1e-3);
                assert!(
                    near(central) || near(after) || near(before),
                    "{name}, drift {drift}: d{t} = {}, finite differences {before}, {after}",
                    exact.grad_log_prob[t]
                );
                let close = (f64::from(fast[t]) - exact.grad_log_prob[t]).abs() <= 1e-4 * largest;
                assert!(close, "{name}: fast {}, reference {}", fast[t], exact.grad_log_prob[t]);
            }
        }
    }
}

#[test]
fn micro_batches_add_up() {
    let made = Made::new(5, &[30, 700, 0, 64, 5, 4200, 9, 80], 0.5);
    for (name, config) in configs() {
        let (whole, whole_grad) = run(&made.batch(), &config);
        for cuts in [vec![0, 8], vec![0, 3, 8], vec![0, 1, 2, 3, 4, 5, 6, 7, 8]] {
            let (mut numerator, mut denominator, mut grads) = (0.0, 0.0, vec![]);
            let mut metrics = LossMetrics::default();
            for pair in cuts.windows(2) {
                let part = rows_of(&made, pair[0]..pair[1]);
                denominator += run(&part.batch(), &config).0.denominator;
                let batch = PolicyBatch { denominator: Some(whole.denominator), ..part.batch() };
                let (result, grad) = run(&batch, &config);
                numerator += result.numerator;
                metrics = metrics.plus(result.metrics);
                grads.extend(grad);
            }
            assert!(
                (numerator - whole.numerator).abs() <= 1e-12 * whole.numerator.abs().max(1.0),
                "{name}"
            );
            if config.reduction != Reduction::TokenSum {
                assert_eq!(denominator, whole.denominator, "{name}");
            }
            assert_eq!(bits(&grads), bits(&whole_grad), "{name}");
            assert_eq!(metrics.n_tokens, whole.metrics.n_tokens);
            assert_eq!(metrics.n_clipped_high, whole.metrics.n_clipped_high);
            assert!((metrics.sum_k3 - whole.metrics.sum_k3).abs() <= 1e-9 * whole.metrics.sum_k3);
            assert_eq!(metrics.ratio_max, whole.metrics.ratio_max);
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_batch_and_layout() {
    let made = Made::new(6, &[500; 7], 0.5);
    for (name, config) in configs() {
        let (whole, _) = run(&made.batch(), &config);
        let padded =
            PolicyBatch { layout: Layout::Padded { n_rows: 7, n_columns: 500 }, ..made.batch() };
        assert_eq!(run(&padded, &config).0, whole, "{name}");
        for row in 0..7 {
            let alone = rows_of(&made, row..row + 1);
            let (result, _) = run(&alone.batch(), &config);
            assert_eq!(result.rows[0].to_bits(), whole.rows[row].to_bits(), "{name}, row {row}");
        }
    }
}

#[test]
fn padding_after_a_row_changes_nothing() {
    let made = Made::new(16, &[300, 20, 41, 257], 0.5);
    for (name, config) in configs() {
        let (packed, packed_grad) = run(&made.batch(), &config);
        let n_columns = 333;
        let pad = |values: &[f32], filler: f32| -> Vec<f32> {
            let rows = made.offsets.windows(2);
            rows.flat_map(|b| {
                let mut row = values[b[0]..b[1]].to_vec();
                row.resize(n_columns, filler);
                row
            })
            .collect()
        };
        let live: Vec<f32> = made.mask.iter().map(|m| f32::from(u8::from(*m))).collect();
        let mask: Vec<bool> = pad(&live, 0.0).iter().map(|m| *m == 1.0).collect();
        let (log_prob, old) = (pad(&made.log_prob, f32::NAN), pad(&made.old, f32::INFINITY));
        let (reference, rollout) = (pad(&made.reference, f32::NAN), pad(&made.rollout, -1e30));
        let (entropy, dense) = (pad(&made.entropy, f32::NAN), pad(&made.dense, f32::NAN));
        let batch = PolicyBatch {
            log_prob: Floats::F32(&log_prob),
            old: Some(Floats::F32(&old)),
            reference: Some(Floats::F32(&reference)),
            rollout: Some(Floats::F32(&rollout)),
            entropy: Some(Floats::F32(&entropy)),
            mask: &mask,
            advantages: Advantages::Dense(Floats::F32(&dense)),
            layout: Layout::Padded { n_rows: 4, n_columns },
            denominator: None,
        };
        let (padded, grad) = run(&batch, &config);
        assert_eq!(padded, packed, "{name}");
        assert_eq!(bits(&grad), bits(&pad(&packed_grad, 0.0)), "{name}");
    }
}

#[test]
fn masked_values_are_never_read() {
    let made = Made::new(17, &[300, 20, 41, 257, 0, 5], 0.5);
    for (name, config) in configs() {
        let before = run(&made.batch(), &config);
        let mut random = Random(1);
        let mut spoilt = made.clone();
        for t in (0..made.len()).filter(|t| !made.mask[*t]) {
            let mut any =
                || [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, -1e38, 0.0][random.below(6)];
            spoilt.log_prob[t] = any();
            spoilt.old[t] = any();
            spoilt.reference[t] = any();
            spoilt.rollout[t] = any();
            spoilt.entropy[t] = any();
            spoilt.dense[t] = any();
        }
        let after = run(&spoilt.batch(), &config);
        assert_eq!(after.0, before.0, "{name}");
        assert_eq!(bits(&after.1), bits(&before.1), "{name}");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let made = Made::new(18, &[9000, 20, 41, 257, 0, 5, 4096, 8193], 0.5);
    for (name, config) in configs() {
        let in_pool = |n: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
            pool.install(|| run(&made.batch(), &config))
        };
        let one = in_pool(1);
        for n in [2, 3, 7] {
            let many = in_pool(n);
            assert_eq!(many.0, one.0, "{name}");
            assert_eq!(bits(&many.1), bits(&one.1), "{name}");
        }
    }
}

#[test]
fn no_bits_of_input_make_a_panic_or_a_silent_nan() {
    let mut random = Random(19);
    for (name, config) in configs() {
        let mut made = Made::new(20, &[40, 3, 0, 300], 0.5);
        for values in [
            &mut made.log_prob,
            &mut made.old,
            &mut made.reference,
            &mut made.rollout,
            &mut made.entropy,
            &mut made.dense,
        ] {
            values.iter_mut().for_each(|x| *x = f32::from_bits(random.below(1 << 32) as u32));
        }
        for non_finite in [NonFinite::Poison, NonFinite::Skip] {
            let config = PolicyLossConfig { non_finite, ..config.clone() };
            let (result, grad) = run(&made.batch(), &config);
            let is_whole = result.numerator.is_finite() && grad.iter().all(|g| g.is_finite());
            assert!(is_whole || non_finite == NonFinite::Poison, "{name}");
            assert!(is_whole || result.metrics.n_non_finite > 0, "{name}");
            for t in (0..made.len()).filter(|t| !made.mask[*t]) {
                assert_eq!(grad[t], 0.0, "{name}");
            }
        }
    }
}
