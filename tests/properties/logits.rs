//! What holds for every loss from logits: nothing depends on threads, on the rows beside one, on what is masked or
//! padded, nor on a constant added to a row.

use hunkwise::Device;
use hunkwise::loss::*;

use crate::losses::Random;

const N_COLUMNS: usize = 1037;
const N_VOCAB: usize = 1031;
const N_TOKENS: usize = 23;

#[derive(Clone)]
struct Made {
    logits: Vec<f32>,
    targets: Vec<i64>,
    old: Vec<f32>,
    mask: Vec<bool>,
    advantages: Vec<f32>,
}

impl Made {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        Made {
            logits: (0..N_TOKENS * N_COLUMNS).map(|_| random.between(-8.0, 8.0)).collect(),
            targets: (0..N_TOKENS).map(|_| random.below(N_VOCAB) as i64).collect(),
            old: (0..N_TOKENS).map(|_| random.between(-9.0, -5.0)).collect(),
            mask: (0..N_TOKENS).map(|_| random.below(4) > 0).collect(),
            advantages: (0..N_TOKENS).map(|_| random.between(-2.0, 2.0)).collect(),
        }
    }

    /// Loss, log-probs and gradient, each token a row of its own.
    fn run(&self, device: &Device) -> (PolicyLoss, Vec<f32>, Vec<f32>) {
        let n = self.targets.len();
        let offsets: Vec<usize> = (0..=n).collect();
        let batch = LogitsBatch {
            rows: LogitsRows {
                targets: &self.targets,
                n_columns: N_COLUMNS,
                n_vocab: N_VOCAB,
                temperature: Temperature::One(0.7),
            },
            old: Some(Floats::F32(&self.old)),
            reference: None,
            rollout: None,
            mask: &self.mask,
            advantages: Advantages::Dense(Floats::F32(&self.advantages)),
            layout: Layout::Packed { offsets: &offsets },
            denominator: Some(17.0),
        };
        let config = PolicyLossConfig { entropy_coef: 0.01, ..PolicyLossConfig::dapo() };
        let mut grad = vec![9.0; self.logits.len()];
        let logits =
            Logits::Into { logits: Floats::F32(&self.logits), grad: FloatsMut::F32(&mut grad) };
        let (loss, log_prob) =
            logits_loss(device, logits, &batch, &config, Upstream::Loss(1.0)).unwrap();
        (loss, log_prob, grad)
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn threads_change_no_bit() {
    let made = Made::new(1);
    let on_threads = |n: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| made.run(&Device::cpu()))
    };
    let (loss, log_prob, grad) = on_threads(1);
    for n in [2, 3, 5] {
        let (other, other_log_prob, other_grad) = on_threads(n);
        assert_eq!(loss, other);
        assert_eq!(bits(&log_prob), bits(&other_log_prob));
        assert_eq!(bits(&grad), bits(&other_grad));
    }
}

#[test]
fn a_row_does_not_depend_on_the_rows_around_it() {
    let made = Made::new(2);
    let (loss, log_prob, grad) = made.run(&Device::cpu());
    let mut order: Vec<usize> = (0..N_TOKENS).collect();
    order.reverse();
    order.swap(3, 11);
    order.truncate(N_TOKENS - 4);
    let row = |values: &[f32], i: usize| values[i * N_COLUMNS..(i + 1) * N_COLUMNS].to_vec();
    let moved = Made {
        logits: order.iter().flat_map(|&i| row(&made.logits, i)).collect(),
        targets: order.iter().map(|&i| made.targets[i]).collect(),
        old: order.iter().map(|&i| made.old[i]).collect(),
        mask: order.iter().map(|&i| made.mask[i]).collect(),
        advantages: order.iter().map(|&i| made.advantages[i]).collect(),
    };
    let (moved_loss, moved_log_prob, moved_grad) = moved.run(&Device::cpu());
    for (at, &i) in order.iter().enumerate() {
        assert_eq!(moved_log_prob[at].to_bits(), log_prob[i].to_bits());
        assert_eq!(moved_loss.rows[at].to_bits(), loss.rows[i].to_bits());
        assert_eq!(bits(&row(&moved_grad, at)), bits(&row(&grad, i)));
    }
}

#[test]
fn what_is_masked_or_padded_is_never_read_and_has_no_gradient() {
    let made = Made::new(3);
    let (loss, log_prob, grad) = made.run(&Device::cpu());
    let mut hostile = made.clone();
    for (i, row) in hostile.logits.chunks_exact_mut(N_COLUMNS).enumerate() {
        let from = if made.mask[i] { N_VOCAB } else { 0 };
        row[from..].fill(f32::NAN);
        if !made.mask[i] {
            hostile.targets[i] = i64::MAX;
            hostile.old[i] = f32::INFINITY;
            hostile.advantages[i] = f32::NAN;
        }
    }
    let (other, other_log_prob, other_grad) = hostile.run(&Device::cpu());
    assert!(made.mask.contains(&false));
    assert_eq!(loss, other);
    assert_eq!(bits(&log_prob), bits(&other_log_prob));
    assert_eq!(bits(&grad), bits(&other_grad));
    for (i, row) in grad.chunks_exact(N_COLUMNS).enumerate() {
        let from = if made.mask[i] { N_VOCAB } else { 0 };
        assert!(row[from..].iter().all(|g| *g == 0.0), "row {i}");
    }
}

#[test]
fn a_constant_added_to_a_row_changes_nothing() {
    let made = Made::new(4);
    let (_, log_prob, grad) = made.run(&Device::cpu());
    let mut moved = made.clone();
    for (i, row) in moved.logits.chunks_exact_mut(N_COLUMNS).enumerate() {
        let by = i as f32 * 4.0 - 40.0;
        row.iter_mut().for_each(|z| *z += by);
    }
    let (_, moved_log_prob, moved_grad) = moved.run(&Device::cpu());
    for (a, b) in log_prob.iter().zip(&moved_log_prob) {
        assert!((a - b).abs() < 2e-5, "{a} {b}");
    }
    for (a, b) in grad.iter().zip(&moved_grad) {
        assert!((a - b).abs() < 2e-6, "{a} {b}");
    }
}

#[test]
fn the_gradient_of_a_row_sums_to_0() {
    let made = Made::new(5);
    let (_, _, grad) = made.run(&Device::cpu());
    for (i, row) in grad.chunks_exact(N_COLUMNS).enumerate() {
        let sum: f64 = row.iter().map(|g| f64::from(*g)).sum();
        let size: f64 = row.iter().map(|g| f64::from(g.abs())).sum();
        assert!(sum.abs() <= 1e-6 * size.max(1.0), "row {i}: {sum}");
        assert_eq!(size > 0.0, made.mask[i], "row {i}");
    }
}
