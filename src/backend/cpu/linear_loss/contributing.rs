//! Which tokens can change the loss or its gradient.

use super::super::policy_loss::takes_whole_rows;
use crate::params::arrays::{Advantages, PolicyBatch};
use crate::params::loss::PolicyLossConfig;

/// True for the tokens under the mask whose log-prob matters: without KL and entropy bonus, those with an advantage
/// other than 0, and with sequence-level ratios all of their row. A value that is not finite matters.
pub(in crate::backend) fn contributing(
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
) -> Vec<bool> {
    let mut known = batch.mask.to_vec();
    if config.beta != 0.0 || config.entropy_coef != 0.0 {
        return known;
    }
    let mut advantage = vec![];
    for row in 0..batch.layout.n_rows() {
        let tokens = batch.layout.tokens(row);
        fill_advantages(batch, row, &mut advantage);
        let matters: Vec<bool> = tokens
            .clone()
            .zip(&advantage)
            .map(|(i, a)| batch.mask[i] && (*a != 0.0 || !is_finite(batch, i)))
            .collect();
        let whole = takes_whole_rows(config);
        let any = matters.contains(&true);
        for (i, matters) in tokens.zip(matters) {
            known[i] &= if whole { any } else { matters };
        }
    }
    known
}

fn fill_advantages(batch: &PolicyBatch<'_>, row: usize, advantage: &mut Vec<f32>) {
    let tokens = batch.layout.tokens(row);
    advantage.clear();
    match batch.advantages {
        Advantages::Dense(values) => advantage.extend(tokens.map(|i| values.get(i))),
        Advantages::Rows(values) => advantage.resize(tokens.len(), values[row]),
        Advantages::Spans { episode, spans, offsets } => {
            advantage.resize(tokens.len(), episode[row]);
            for span in &spans[offsets[row]..offsets[row + 1]] {
                let at = span.tokens.start as usize..span.tokens.end as usize;
                advantage[at].fill(episode[row] + span.advantage);
            }
        }
    }
}

/// Whether what was given for a token is finite; a rollout log-prob may be NaN.
fn is_finite(batch: &PolicyBatch<'_>, i: usize) -> bool {
    batch.old.is_none_or(|old| old.get(i).is_finite())
        && batch.reference.is_none_or(|reference| reference.get(i).is_finite())
        && batch.rollout.is_none_or(|rollout| !rollout.get(i).is_infinite())
}
