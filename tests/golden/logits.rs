//! Log-probs and gradients from logits, by hand, and the public faults of such code.

use hunkwise::Device;
use hunkwise::loss::*;

use crate::devices::devices;

/// Log-probs and entropies of rows of logits at one temperature.
fn log_probs(
    device: &Device,
    logits: &[f32],
    targets: &[i64],
    n_vocab: usize,
    temperature: f32,
) -> (Vec<f32>, Vec<f32>) {
    let rows = LogitsRows {
        targets,
        n_columns: logits.len() / targets.len(),
        n_vocab,
        temperature: Temperature::One(temperature),
    };
    let (mut log_prob, mut entropy) = (vec![9.0; targets.len()], vec![9.0; targets.len()]);
    let entropy_out = Some(entropy.as_mut_slice());
    token_logprob(device, Floats::F32(logits), &rows, None, &mut log_prob, entropy_out).unwrap();
    (log_prob, entropy)
}

fn near(got: f32, want: f32) {
    assert!((got - want).abs() <= 2e-6 * want.abs().max(1.0), "{got}, by hand {want}");
}

/// Flash attention 1930: a first piece of nothing but -inf gave (-inf) - (-inf).
#[test]
fn fault_15_a_row_may_begin_with_columns_that_cannot_be_sampled() {
    for device in devices() {
        let mut logits = vec![f32::NEG_INFINITY; 5000];
        logits[4998] = 3.0;
        logits[4999] = 3.0;
        let (log_prob, entropy) = log_probs(&device, &logits, &[4999], 5000, 1.0);
        near(log_prob[0], -std::f32::consts::LN_2);
        near(entropy[0], std::f32::consts::LN_2);
    }
}

/// PyTorch 195829: a target outside the vocabulary poisons its row and no other; -inf is no NaN, NaN stays NaN.
#[test]
fn fault_16_a_row_that_cannot_be_computed_is_nan() {
    for device in devices() {
        let nan = f32::NAN;
        let logits = [
            0.0,
            0.0,
            0.0,
            0.0,
            f32::NEG_INFINITY,
            0.0,
            nan,
            0.0,
            0.0,
            f32::NEG_INFINITY,
            0.0,
            0.0,
        ];
        let (log_prob, _) = log_probs(&device, &logits, &[3, 2, 1, 0], 3, 1.0);
        assert!(log_prob[0].is_nan(), "{log_prob:?}");
        near(log_prob[1], -std::f32::consts::LN_2);
        assert!(log_prob[2].is_nan(), "{log_prob:?}");
        assert_eq!(log_prob[3], f32::NEG_INFINITY);
        let (log_prob, _) = log_probs(&device, &[0.0, 0.0], &[-1], 2, 1.0);
        assert!(log_prob[0].is_nan(), "{log_prob:?}");
    }
}

/// Unsloth 5002: logits that are used elsewhere were overwritten. Here only `Overwrite` writes over them.
#[test]
fn fault_23_logits_are_overwritten_on_request_alone() {
    for device in devices() {
        let mut logits = vec![1.0f32, 2.0, 3.0, 4.0];
        let before = logits.clone();
        let mut grad = vec![9.0f32; 4];
        let batch = LogitsBatch {
            rows: LogitsRows {
                targets: &[0, 1],
                n_columns: 2,
                n_vocab: 2,
                temperature: Temperature::One(1.0),
            },
            old: None,
            reference: None,
            rollout: None,
            mask: &[true, true],
            advantages: Advantages::Rows(&[1.0]),
            layout: Layout::Padded { n_rows: 1, n_columns: 2 },
            denominator: None,
        };
        let config = PolicyLossConfig::bnpo();
        let run = |logits: Logits<'_>| {
            logits_loss(&device, logits, &batch, &config, Upstream::Loss(1.0)).unwrap()
        };
        let (read, _) = run(Logits::Read(Floats::F32(&logits)));
        let into = Logits::Into { logits: Floats::F32(&logits), grad: FloatsMut::F32(&mut grad) };
        let (written, _) = run(into);
        assert_eq!(logits, before);
        let (over, _) = run(Logits::Overwrite(FloatsMut::F32(&mut logits)));
        assert_eq!(logits, grad);
        // -A·(1[target] - p) / 2 tokens, p = sigmoid(±1).
        near(grad[0], -0.365_529_3);
        near(grad[1], 0.365_529_3);
        near(grad[2], 0.134_470_7);
        near(grad[3], -0.134_470_7);
        for result in [read, written, over] {
            assert_eq!(result.loss(), -1.0);
        }
    }
}

/// verl 2656 and the start of a maximum at 0: padded columns of 0 lifted log-probs by up to 123.
#[test]
fn fault_24_padded_columns_add_nothing_and_small_logits_do_not_vanish() {
    for device in devices() {
        let mut logits = vec![-200.0f32; 8];
        logits[5..].fill(0.0);
        let (log_prob, entropy) = log_probs(&device, &logits, &[2], 5, 1.0);
        near(log_prob[0], -(5f32.ln()));
        near(entropy[0], 5f32.ln());
    }
}

/// CCE 59: a target that is a padded column is outside the vocabulary.
#[test]
fn fault_25_a_padded_column_is_no_target() {
    for device in devices() {
        let (log_prob, _) = log_probs(&device, &[0.0; 8], &[6], 5, 1.0);
        assert!(log_prob[0].is_nan());
    }
}

/// TRL 3029: log-probs of the trainer lacked the temperature of the sampler.
#[test]
fn fault_27_logits_are_divided_by_the_temperature() {
    for device in devices() {
        // log sigmoid(2 / 2), and its entropy p·0.3132617 + (1 - p)·1.3132617.
        let (log_prob, entropy) = log_probs(&device, &[2.0, 0.0], &[0], 2, 2.0);
        near(log_prob[0], -0.313_261_7);
        near(entropy[0], 0.582_203_1);
    }
}
