//! Step-level groups (GiGPO, arXiv 2505.10978): turns of one task that began from the same observation, or from a
//! similar one, are compared by their returns.

use rustc_hash::FxHashMap;

use super::group::{form, weighted};
use super::returns::same_length;
use super::{AdvantageConfig, Estimator, StepGroups};
use crate::device::Device;
use crate::error::Result;
use crate::params::GroupCounts;
use crate::similarity::indel_similarity;

/// A^S of the turns of one task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepAdvantages {
    /// One per turn; 0 for a turn without a group.
    pub values: Vec<f32>,
    /// Turns of each group, in order; groups in the order of their first turns.
    pub groups: Vec<Vec<u32>>,
    /// Counts over the groups.
    pub counts: GroupCounts,
    /// Turns without an observation: in no group, advantage 0.
    pub n_without_observation: usize,
}

/// A^S = R - mean of the step group, divided by std + eps when the episode estimator is [`Estimator::Grpo`].
///
/// `observations` and `returns` have one entry per turn of the task. `exact` groups equal texts. `similar` goes
/// through the turns in order and puts each into the first group whose first member is at least `step_eta` similar:
/// Indel similarity over identifiers and single other characters, white space aside. `off` makes no groups.
///
/// O(turns) for `exact`; `similar` compares every distinct observation with every group.
///
/// # Errors
/// [`crate::error::Error::Shape`] when the lengths differ; [`crate::error::Error::Config`] for parameters out of range.
pub fn step(
    device: &Device,
    observations: &[Option<&str>],
    returns: &[Option<f64>],
    config: &AdvantageConfig,
) -> Result<StepAdvantages> {
    config.validate()?;
    same_length("step", ("observations", observations.len()), ("returns", returns.len()))?;
    let mut result = StepAdvantages {
        values: vec![0.0; returns.len()],
        n_without_observation: observations
            .iter()
            .filter(|observation| observation.is_none())
            .count(),
        ..StepAdvantages::default()
    };
    result.groups = match config.step {
        StepGroups::Off => return Ok(result),
        StepGroups::Exact => equal_groups(observations),
        StepGroups::Similar => similar_groups(observations, config.step_eta),
    };

    let turns: Vec<u32> = result.groups.iter().flatten().copied().collect();
    let values: Vec<Option<f64>> = turns.iter().map(|&turn| returns[turn as usize]).collect();
    let mut offsets = vec![0];
    offsets.extend(result.groups.iter().scan(0, |end, group| {
        *end += group.len();
        Some(*end)
    }));
    let estimator =
        if config.episode == Estimator::Grpo { Estimator::Grpo } else { Estimator::GrpoNoStd };
    let flat = weighted(device, &values, None, &offsets, form(estimator, config.eps, config.ddof))?;
    for (&turn, value) in turns.iter().zip(flat.values) {
        result.values[turn as usize] = value;
    }
    result.counts = flat.counts;
    Ok(result)
}

fn equal_groups(observations: &[Option<&str>]) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut group_of: FxHashMap<&str, usize> = FxHashMap::default();
    for (turn, observation) in observations.iter().enumerate() {
        let Some(observation) = observation else { continue };
        let group = *group_of.entry(observation).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(turn as u32);
    }
    groups
}

fn similar_groups(observations: &[Option<&str>], eta: f64) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut firsts: Vec<Vec<u32>> = Vec::new();
    let mut vocabulary: FxHashMap<&str, u32> = FxHashMap::default();
    // Equal token lists have equal first fits: groups that did not fit do not change, and new ones come last.
    let mut group_of: FxHashMap<Vec<u32>, usize> = FxHashMap::default();
    for (turn, observation) in observations.iter().enumerate() {
        let Some(observation) = observation else { continue };
        let tokens: Vec<u32> = words(observation)
            .map(|word| {
                let fresh = vocabulary.len() as u32;
                *vocabulary.entry(word).or_insert(fresh)
            })
            .collect();
        let group = match group_of.get(&tokens) {
            Some(&group) => group,
            None => {
                let fit = firsts.iter().position(|first| similar(first, &tokens, eta));
                let group = fit.unwrap_or(firsts.len());
                if fit.is_none() {
                    firsts.push(tokens.clone());
                    groups.push(Vec::new());
                }
                group_of.insert(tokens, group);
                group
            }
        };
        groups[group].push(turn as u32);
    }
    groups
}

fn similar(a: &[u32], b: &[u32], eta: f64) -> bool {
    let (short, sum) = (a.len().min(b.len()), a.len() + b.len());
    // The longest common subsequence is at most the shorter list, and the similarity grows with it.
    let reachable = sum == 0 || 2.0 * short as f64 / sum as f64 >= eta;
    reachable && indel_similarity(a, b) >= eta
}

/// Identifiers (runs of letters, digits and `_`) and single other characters; white space separates.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let in_word = |c: char| c == '_' || c.is_alphanumeric();
        let end = if in_word(first) {
            rest.find(|c: char| !in_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}
