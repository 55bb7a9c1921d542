//! Log-probs from logits in f64, and the gradients that a loss of log-probs has by logits, hidden states and weight.

use crate::loss::{Floats, LogitsRows};

/// Log-probs of the vocabulary in one row; all NaN where the row has NaN, +inf or nothing finite.
fn log_softmax(logits: &[f64], rows: &LogitsRows<'_>, row: usize) -> Vec<f64> {
    let temperature = f64::from(rows.temperature.of(row));
    let from = row * rows.n_columns;
    let z: Vec<f64> = logits[from..from + rows.n_vocab].iter().map(|z| z / temperature).collect();
    let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = z.iter().map(|z| (z - max).exp()).sum::<f64>().ln();
    z.iter().map(|z| z - max - log_sum).collect()
}

/// `-sum p log p`, in nats; a log-prob of -inf adds nothing.
fn entropy(log_probs: &[f64]) -> f64 {
    -log_probs
        .iter()
        .map(|lp| if *lp == f64::NEG_INFINITY { 0.0 } else { lp.exp() * lp })
        .sum::<f64>()
}

/// Values of any dtype in f64.
pub fn widen(values: Floats<'_>) -> Vec<f64> {
    (0..values.len()).map(|i| values.get(i).into()).collect()
}

/// Log-prob of each target and the entropy of its row.
pub fn token_logprob(logits: &[f64], rows: &LogitsRows<'_>) -> Vec<(f64, f64)> {
    (0..rows.targets.len())
        .map(|row| {
            let log_probs = log_softmax(logits, rows, row);
            let target =
                usize::try_from(rows.targets[row]).ok().filter(|target| *target < rows.n_vocab);
            target.map_or((f64::NAN, f64::NAN), |target| (log_probs[target], entropy(&log_probs)))
        })
        .collect()
}

/// Gradient by the logits, from those by the targets' log-probs and by the entropies: all columns, padding 0.
pub fn grad_logits(
    logits: &[f64],
    rows: &LogitsRows<'_>,
    by_log_prob: &[f64],
    by_entropy: &[f64],
) -> Vec<f64> {
    let mut grad = vec![0.0; logits.len()];
    for row in 0..rows.targets.len() {
        let (g, h) = (by_log_prob[row], by_entropy[row]);
        if g == 0.0 && h == 0.0 {
            continue;
        }
        let log_probs = log_softmax(logits, rows, row);
        let entropy = entropy(&log_probs);
        for (column, lp) in log_probs.iter().enumerate() {
            let p = lp.exp();
            let is_target = f64::from(u8::from(column as i64 == rows.targets[row]));
            let of_entropy = if p == 0.0 { 0.0 } else { p * (lp + entropy) };
            grad[row * rows.n_columns + column] =
                (g * (is_target - p) - h * of_entropy) / f64::from(rows.temperature.of(row));
        }
    }
    grad
}

/// `hidden · weightᵀ`: `[n, n_columns]` from `[n, n_hidden]` and `[n_columns, n_hidden]`.
pub fn linear_logits(hidden: &[f64], weight: &[f64], n_hidden: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    hidden
        .chunks_exact(n_hidden)
        .flat_map(|x| weight.chunks_exact(n_hidden).map(move |w| dot(x, w)))
        .collect()
}

/// Gradients by hidden states and weight, from that by their logits. A row whose gradient is 0 adds nothing.
pub fn grad_linear(
    hidden: &[f64],
    weight: &[f64],
    n_hidden: usize,
    by_logits: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let n_columns = weight.len() / n_hidden;
    let (mut grad_hidden, mut grad_weight) = (vec![0.0; hidden.len()], vec![0.0; weight.len()]);
    for (row, by_logits) in by_logits.chunks_exact(n_columns).enumerate() {
        for (column, g) in by_logits.iter().enumerate().filter(|(_, g)| **g != 0.0) {
            for h in 0..n_hidden {
                grad_hidden[row * n_hidden + h] += g * weight[column * n_hidden + h];
                grad_weight[column * n_hidden + h] += g * hidden[row * n_hidden + h];
            }
        }
    }
    (grad_hidden, grad_weight)
}
