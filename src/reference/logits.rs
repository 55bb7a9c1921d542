//! Log-probs from logits in f64, and the gradient that a loss of log-probs has by the logits.

use crate::loss::{Floats, LogitsRows};

/// Log-probs of the vocabulary in one row; all NaN where the row has NaN, +inf or nothing finite.
fn log_softmax(logits: Floats<'_>, rows: &LogitsRows<'_>, row: usize) -> Vec<f64> {
    let temperature = f64::from(rows.temperature.of(row));
    let from = row * rows.n_columns;
    let z: Vec<f64> =
        (from..from + rows.n_vocab).map(|i| f64::from(logits.get(i)) / temperature).collect();
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

/// Log-prob of each target and the entropy of its row.
pub fn token_logprob(logits: Floats<'_>, rows: &LogitsRows<'_>) -> Vec<(f64, f64)> {
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
    logits: Floats<'_>,
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
