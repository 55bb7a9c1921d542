//! Advantages of groups, and the advantage of every token: NumPy's sums, term by term.

/// A piece of a row whose tokens share an advantage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// Row of the batch.
    pub row: usize,
    /// Tokens, from and to (not included); a start below 0 is no place.
    pub tokens: (i64, i64),
    /// What it is chosen by.
    pub gs: f64,
    /// What its tokens get.
    pub advantage: f64,
    /// What it is counted under.
    pub kind: usize,
}

/// How many tokens got an advantage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filled {
    /// By kind.
    pub tokens: Vec<usize>,
}

/// `numpy.mean` of float64 values; 0 for none.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { sum(values) / values.len() as f64 }
}

/// The sum as NumPy takes it of contiguous float64 values: in eight lanes, halved where there are many.
fn sum(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 8 {
        // It begins with -0.0 or 0.0 by version, which no sum of ours can tell from the other.
        return values.iter().fold(0.0, |sum, value| sum + value);
    }
    if n > 128 {
        let half = n / 2 - n / 2 % 8;
        return sum(&values[..half]) + sum(&values[half..]);
    }
    let (whole, rest) = values.split_at(n - n % 8);
    let mut r = [0.0; 8];
    r.copy_from_slice(&whole[..8]);
    for eight in whole[8..].chunks_exact(8) {
        for (lane, value) in r.iter_mut().zip(eight) {
            *lane += value;
        }
    }
    let lanes = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    rest.iter().fold(lanes, |sum, value| sum + value)
}

/// Each value minus the mean of all, over their standard deviation (`ddof` 0) plus `epsilon` unless `remove_std`.
pub fn baselined(values: &[f64], epsilon: f64, remove_std: bool) -> Vec<f64> {
    let mean = mean(values);
    let above = values.iter().map(|value| value - mean);
    if remove_std {
        return above.collect();
    }
    let std = if values.len() > 1 {
        let squares: Vec<f64> = above.clone().map(|x| x * x).collect();
        (sum(&squares) / values.len() as f64).sqrt()
    } else {
        1.0
    };
    above.map(|x| x / (std + epsilon)).collect()
}

/// Writes for each token the advantage of the unit that covers it with the highest `gs`, the first among equals. `to`:
/// `[rows, n_tokens]`, zeros. Units with a `gs` of -1 or less are never chosen.
///
/// A unit of a row that `to` lacks is left out.
pub fn fill(units: &[Unit], n_tokens: usize, to: &mut [f64]) -> Filled {
    let n_kinds = units.iter().map(|unit| unit.kind + 1).max().unwrap_or(0);
    let mut best: Vec<(f64, usize)> = vec![(-1.0, usize::MAX); to.len()];
    for unit in units {
        let (Ok(start), Ok(end)) = (usize::try_from(unit.tokens.0), usize::try_from(unit.tokens.1))
        else {
            continue;
        };
        let row = unit.row.checked_mul(n_tokens).and_then(|first| {
            let last = first.checked_add(n_tokens).filter(|&last| last <= to.len())?;
            Some(first..last)
        });
        let Some(row) = row else { continue };
        for at in row.start + start.min(n_tokens)..row.start + end.min(n_tokens) {
            if unit.gs > best[at].0 {
                best[at] = (unit.gs, unit.kind);
                to[at] = unit.advantage;
            }
        }
    }
    let mut tokens = vec![0; n_kinds];
    for (_, kind) in best.iter().filter(|(_, kind)| *kind != usize::MAX) {
        tokens[*kind] += 1;
    }
    Filled { tokens }
}
