//! Scores of trajectories and returns of their turns: from rewards to the numbers that groups compare.

use std::collections::BTreeMap;

use super::{AdvantageConfig, Returns};
use crate::error::{Error, Result};
use crate::rollout::{Trajectory, Turn};

/// Score of a whole rollout: its outcome, or else the sum of its turn rewards, or else `None`. A score that is not
/// finite is `None` too: the rollout is unscored.
pub fn trajectory_score(trajectory: &Trajectory) -> Option<f64> {
    let score = match trajectory.outcome {
        Some(outcome) => Some(outcome),
        None => turns(trajectory).filter_map(|turn| turn.reward).reduce(|sum, reward| sum + reward),
    };
    score.filter(|score| score.is_finite())
}

/// Returns of the turns of a trajectory, in order through its sequences.
///
/// With [`Returns::Discounted`], `R_t = r_t + gamma·R_{t+1}` where r is the turn's reward and an absent one is 0. If no
/// turn has a reward, the outcome is the reward of the last turn; if some have, the outcome is the score and no
/// reward. With [`Returns::Outcome`], the score for each turn. All `None` for an unscored trajectory; a reward that
/// is not finite makes the return of its turn, and of those before it, `None`.
pub fn turn_returns(trajectory: &Trajectory, config: &AdvantageConfig) -> Vec<Option<f64>> {
    let n_turns = turns(trajectory).count();
    let Some(score) = trajectory_score(trajectory) else {
        return vec![None; n_turns];
    };
    if config.returns == Returns::Outcome {
        return vec![Some(score); n_turns];
    }
    let mut rewards: Vec<f64> = turns(trajectory).map(|turn| turn.reward.unwrap_or(0.0)).collect();
    if turns(trajectory).all(|turn| turn.reward.is_none())
        && let Some(last) = rewards.last_mut()
    {
        *last = score;
    }
    let mut carry = Some(0.0);
    let mut returns: Vec<Option<f64>> = rewards
        .iter()
        .rev()
        .map(|&reward| {
            // Without a future (gamma 0) a bad reward says nothing about the turns before it.
            let future = if config.gamma == 0.0 {
                Some(0.0)
            } else {
                carry.map(|carry| config.gamma * carry)
            };
            carry = future.map(|future| reward + future).filter(|value| value.is_finite());
            carry
        })
        .collect();
    returns.reverse();
    returns
}

fn turns(trajectory: &Trajectory) -> impl Iterator<Item = &Turn> {
    trajectory.sequences.iter().flat_map(|sequence| &sequence.turns)
}

/// Discounted sums from each reward on: `R_t = r_t + gamma·R_{t+1}`.
pub fn discounted(rewards: &[f64], gamma: f64) -> Vec<f64> {
    let mut returns = rewards.to_vec();
    for t in (0..returns.len().saturating_sub(1)).rev() {
        returns[t] += gamma * returns[t + 1];
    }
    returns
}

/// Discounted sums at the tokens whose mask is true; 0 at the others. A token outside the mask (tool output, padding)
/// is no step: it neither ends the sum nor discounts it. A reward that stands on such a token is not lost; it is
/// handed, undiscounted, to what follows the masked token before it.
///
/// # Errors
/// [`Error::Shape`] when the lengths differ.
pub fn token_returns(rewards: &[f64], mask: &[bool], gamma: f64) -> Result<Vec<f64>> {
    same_length("token_returns", ("rewards", rewards.len()), ("mask", mask.len()))?;
    let mut returns = vec![0.0; rewards.len()];
    let mut carry = 0.0;
    for t in (0..rewards.len()).rev() {
        if mask[t] {
            carry = rewards[t] + gamma * carry;
            returns[t] = carry;
        } else {
            carry += rewards[t];
        }
    }
    Ok(returns)
}

/// Discounted sums of a flat table of steps, in the order of its rows: each trajectory by itself, its steps in the
/// order of their numbers, wherever the rows stand. Trajectories are told apart by `keys`, compared whole (a tuple of
/// task and trajectory, not a joined string).
///
/// # Errors
/// [`Error::Shape`] when the lengths differ, or two rows of one trajectory have the same step.
pub fn row_returns<K: Ord>(
    keys: &[K],
    steps: &[u64],
    rewards: &[f64],
    gamma: f64,
) -> Result<Vec<f64>> {
    same_length("row_returns", ("keys", keys.len()), ("steps", steps.len()))?;
    same_length("row_returns", ("keys", keys.len()), ("rewards", rewards.len()))?;
    let mut rows: BTreeMap<(&K, u64), usize> = BTreeMap::new();
    for row in 0..keys.len() {
        if let Some(other) = rows.insert((&keys[row], steps[row]), row) {
            let what =
                format!("rows {other} and {row} are both step {} of one trajectory", steps[row]);
            return Err(Error::Shape { op: "row_returns", what });
        }
    }
    let mut returns = vec![0.0; keys.len()];
    let mut later: Option<(&K, f64)> = None;
    for (&(key, _), &row) in rows.iter().rev() {
        let carry = later.filter(|&(other, _)| other == key).map_or(0.0, |(_, carry)| carry);
        returns[row] = rewards[row] + gamma * carry;
        later = Some((key, returns[row]));
    }
    Ok(returns)
}

/// Where a reward for the whole row belongs: the last token whose mask is true. `None` when no token is trained.
pub fn last_trained(mask: &[bool]) -> Option<usize> {
    mask.iter().rposition(|&trained| trained)
}

pub(super) fn same_length(op: &'static str, a: (&str, usize), b: (&str, usize)) -> Result<()> {
    if a.1 == b.1 {
        return Ok(());
    }
    let what = format!(
        "`{}` has {} entries and `{}` has {}; they must be equally long",
        a.0, a.1, b.0, b.1
    );
    Err(Error::Shape { op, what })
}
