//! Advantages as plain loops: groups, diff groups, step groups, and the projection byte by byte.

use crate::advantage::{AdvantageConfig, Cover, DiffForm, Estimator};
use crate::rollout::Sequence;

/// Advantages inside one group. `weights` says how often each member counts.
pub fn group(
    values: &[Option<f64>],
    weights: &[u32],
    estimator: Estimator,
    eps: f64,
    ddof: u8,
) -> Vec<f32> {
    let mut present = Vec::new();
    for i in 0..values.len() {
        if let Some(x) = values[i]
            && x.is_finite()
            && weights[i] > 0
        {
            present.push((i, x, f64::from(weights[i])));
        }
    }
    let mut advantages = vec![0.0; values.len()];
    let mut total = 0.0;
    let mut sum = 0.0;
    for &(_, x, w) in &present {
        total += w;
        sum += w * x;
    }
    let mean = sum / total;
    let mut squares = 0.0;
    for &(_, x, w) in &present {
        squares += w * ((x - mean) * (x - mean));
    }
    let equal = present.iter().all(|&(_, x, _)| x == present[0].1);
    if present.len() < 2 || equal {
        return advantages;
    }
    for &(i, x, w) in &present {
        let advantage = match estimator {
            Estimator::Grpo if total <= f64::from(ddof) => 0.0,
            // A spread beyond f64 would make everything 0, with a sign.
            Estimator::Grpo if squares.is_infinite() => 0.0,
            Estimator::Grpo => (x - mean) / ((squares / (total - f64::from(ddof))).sqrt() + eps),
            Estimator::GrpoNoStd | Estimator::DrGrpo => x - mean,
            Estimator::Rloo => (x - mean) * (total / (total - w)),
        };
        if (advantage as f32).is_finite() {
            advantages[i] = advantage as f32;
        }
    }
    advantages
}

/// Discounted return of each turn by its definition: `sum over k of gamma^k r_{t+k}`.
pub fn returns(rewards: &[f64], gamma: f64) -> Vec<f64> {
    let mut returns = Vec::new();
    for t in 0..rewards.len() {
        let mut sum = 0.0;
        for k in 0..rewards.len() - t {
            sum += gamma.powi(k as i32) * rewards[t + k];
        }
        returns.push(sum);
    }
    returns
}

/// Diff advantages of one group in one form, by their definitions.
pub fn diff(
    members: &[u32],
    returns: &[Option<f64>],
    form: DiffForm,
    config: &AdvantageConfig,
) -> Vec<f64> {
    let return_of = |turn: u32| returns[turn as usize].filter(|r| r.is_finite());
    let group: Vec<f64> = members.iter().filter_map(|&turn| return_of(turn)).collect();
    let task: Vec<f64> = (0..returns.len() as u32).filter_map(return_of).collect();
    let outside: Vec<f64> = (0..returns.len() as u32)
        .filter(|turn| !members.contains(turn))
        .filter_map(return_of)
        .collect();
    let mut advantages = Vec::new();
    for &turn in members {
        let Some(own) = return_of(turn) else {
            advantages.push(0.0);
            continue;
        };
        let others: Vec<f64> = members
            .iter()
            .filter(|&&other| other != turn)
            .filter_map(|&other| return_of(other))
            .collect();
        let (distance, among) = match form {
            DiffForm::Within => (own - mean(&group), &group),
            DiffForm::Contrast => (mean(&others) - mean(&outside), &task),
        };
        let alone = others.is_empty() || (form == DiffForm::Contrast && outside.is_empty());
        let no_variance = config.diff_std && among.len() <= usize::from(config.ddof);
        if alone || no_variance || among.iter().all(|r| *r == among[0]) {
            advantages.push(0.0);
        } else if config.diff_std {
            advantages.push(distance / (std(among, config.ddof) + config.eps));
        } else {
            advantages.push(distance);
        }
    }
    advantages
}

fn mean(values: &[f64]) -> f64 {
    let mut sum = 0.0;
    for x in values {
        sum += x;
    }
    sum / values.len() as f64
}

fn std(values: &[f64], ddof: u8) -> f64 {
    let mean = mean(values);
    let mut squares = 0.0;
    for x in values {
        squares += (x - mean) * (x - mean);
    }
    (squares / (values.len() as f64 - f64::from(ddof))).sqrt()
}

/// Step groups: the group of each turn, or `None`. A turn joins the first group whose first member fits.
pub fn step_groups(
    observations: &[Option<&str>],
    fits: impl Fn(&str, &str) -> bool,
) -> Vec<Option<usize>> {
    let mut firsts: Vec<&str> = Vec::new();
    let mut groups = Vec::new();
    for observation in observations {
        let Some(observation) = *observation else {
            groups.push(None);
            continue;
        };
        let mut found = None;
        for (group, first) in firsts.iter().enumerate() {
            if found.is_none() && fits(first, observation) {
                found = Some(group);
            }
        }
        if found.is_none() {
            found = Some(firsts.len());
            firsts.push(observation);
        }
        groups.push(found);
    }
    groups
}

/// Owner of each byte of a sequence, as the member number of its cover; `None` where nothing covers it.
pub fn byte_owners(sequence: &Sequence, covers: &[Cover]) -> Vec<Option<u32>> {
    let begin = |member: u32| {
        let pieces =
            covers.iter().filter(|cover| cover.member == member && !cover.bytes.is_empty());
        pieces.map(|cover| cover.bytes.start).min()
    };
    let mut owners = Vec::new();
    for byte in 0..sequence.text.len() {
        let mut owner: Option<&Cover> = None;
        for cover in covers {
            if !cover.bytes.contains(&byte) {
                continue;
            }
            let wins = match owner {
                None => true,
                Some(other) if cover.score != other.score => cover.score > other.score,
                Some(other) => {
                    (begin(cover.member), cover.anchor, cover.member)
                        < (begin(other.member), other.anchor, other.member)
                }
            };
            if wins {
                owner = Some(cover);
            }
        }
        owners.push(owner.map(|cover| cover.member));
    }
    owners
}

/// Owner of each token: for each member, its bytes in the token counted one by one; the most bytes win, and among
/// equals the member that begins earlier, then the lower anchor, then the lower member.
pub fn token_owners(sequence: &Sequence, covers: &[Cover]) -> Vec<Option<u32>> {
    let bytes = byte_owners(sequence, covers);
    let mut members: Vec<(usize, u32, u32)> = Vec::new();
    for cover in covers {
        if cover.bytes.is_empty() {
            continue;
        }
        match members.iter_mut().find(|known| known.2 == cover.member) {
            Some(known) => known.0 = known.0.min(cover.bytes.start),
            None => members.push((cover.bytes.start, cover.anchor, cover.member)),
        }
    }
    members.sort_unstable();
    let mut owners = Vec::new();
    for token in token_bytes(sequence) {
        let mut owner = None;
        let mut most = 0;
        for &(_, _, member) in &members {
            let mut overlap = 0;
            for byte in token.clone() {
                if bytes[byte] == Some(member) {
                    overlap += 1;
                }
            }
            if overlap > most {
                (owner, most) = (Some(member), overlap);
            }
        }
        owners.push(owner);
    }
    owners
}

/// Advantage of each token: `episode + (step + diff)` in f32 where trained, 0 elsewhere.
pub fn dense(
    sequence: &Sequence,
    episode: f32,
    covers: &[Cover],
    turn_advantages: Option<&[f32]>,
) -> Vec<f32> {
    let Some(tokens) = &sequence.tokens else {
        return Vec::new();
    };
    let owners = token_owners(sequence, covers);
    let mut dense = Vec::new();
    for (token, bytes) in token_bytes(sequence).into_iter().enumerate() {
        if !tokens.mask[token] {
            dense.push(0.0);
            continue;
        }
        let step =
            turn_advantages.and_then(|steps| turn_of(sequence, bytes).map(|turn| steps[turn]));
        let diff =
            owners[token].and_then(|owner| covers.iter().find(|cover| cover.member == owner));
        dense.push(match (step, diff) {
            (Some(step), Some(diff)) => episode + (step + diff.advantage),
            (Some(step), None) => episode + step,
            (None, Some(diff)) => episode + diff.advantage,
            (None, None) => episode,
        });
    }
    dense
}

fn turn_of(sequence: &Sequence, token: std::ops::Range<usize>) -> Option<usize> {
    let mut found = None;
    let mut most = 0;
    for (number, turn) in sequence.turns.iter().enumerate() {
        if turn.bytes.is_empty() {
            continue;
        }
        let overlap = token.clone().filter(|byte| turn.bytes.contains(byte)).count();
        if overlap > most {
            (found, most) = (Some(number), overlap);
        }
        let touches = turn.bytes.start <= token.start && token.start <= turn.bytes.end;
        if token.is_empty() && touches && found.is_none() {
            found = Some(number);
        }
    }
    found
}

fn token_bytes(sequence: &Sequence) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    if let Some(tokens) = &sequence.tokens {
        for &end in &tokens.byte_ends {
            ranges.push(start..end as usize);
            start = end as usize;
        }
    }
    ranges
}
