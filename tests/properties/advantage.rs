//! What holds for all advantages: finite, independent of threads and of the order of groups, every token one owner.

use std::collections::{BTreeMap, BTreeSet};

use hunkwise::Device;
use hunkwise::advantage::{
    AdvantageConfig, Cover, DiffForm, Estimator, Over, Returns, StepGroups, TaskScores, diff,
    episode, group_advantage, keep_groups, project, step, trajectory_score, turn_returns, whiten,
};
use hunkwise::error::Place;
use hunkwise::rollout::{Sequence, Tokens, Trajectory, Turn};
use proptest::prelude::*;

const ESTIMATORS: [Estimator; 4] =
    [Estimator::Grpo, Estimator::GrpoNoStd, Estimator::DrGrpo, Estimator::Rloo];

/// Any float at all, or none.
fn wild() -> impl Strategy<Value = Option<f64>> {
    prop::option::weighted(
        0.9,
        prop_oneof![any::<f64>(), any::<u64>().prop_map(f64::from_bits), -1.0f64..1.0],
    )
}

fn offsets(groups: &[Vec<Option<f64>>]) -> Vec<usize> {
    let mut offsets = vec![0];
    offsets.extend(groups.iter().scan(0, |end, group| {
        *end += group.len();
        Some(*end)
    }));
    offsets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn advantages_are_finite(
        groups in prop::collection::vec(prop::collection::vec(wild(), 0..6), 0..40),
        estimator in 0usize..4, eps in prop::sample::select(vec![0.0, 1e-6]), ddof in any::<u8>(),
        contrast in any::<bool>(), diff_std in any::<bool>(),
    ) {
        let device = Device::cpu();
        let flat = groups.concat();
        let ends = offsets(&groups);
        let found = group_advantage(&device, &flat, &ends, ESTIMATORS[estimator], eps, ddof).unwrap();
        prop_assert!(found.values.iter().all(|a| a.is_finite()));
        let counts = found.counts;
        prop_assert_eq!(counts.n_members, flat.len());
        prop_assert_eq!(counts.n_unscored, flat.iter().filter(|x| !x.is_some_and(f64::is_finite)).count());
        prop_assert!(counts.n_singletons + counts.n_zero_spread <= counts.n_groups);
        prop_assert_eq!(keep_groups(&flat, &ends, 0.0).unwrap().len(), groups.len());

        let turns = vec![0; flat.len()];
        let members = ends.windows(2).map(|b| (b[0] as u32..b[1] as u32).collect()).collect::<Vec<_>>();
        let form = if contrast { DiffForm::Contrast } else { DiffForm::Within };
        let config = AdvantageConfig { eps, diff: form, diff_std, ..AdvantageConfig::default() };
        let found = diff(&device, &members, &flat, &turns, &config).unwrap();
        prop_assert!(found.values.iter().flatten().all(|a| a.is_finite()));
        prop_assert!(found.mean_abs_within.is_finite() && found.mean_abs_contrast.is_finite());

        let values: Vec<f64> = flat.iter().flatten().copied().collect();
        let white = whiten(&values, &vec![true; values.len()], 1, eps).unwrap();
        prop_assert!(white.values.iter().all(|x| x.is_finite()));
    }

    #[test]
    fn returns_are_finite_or_absent(
        outcome in wild(), rewards in prop::collection::vec(wild(), 0..8),
        gamma in 0.0f64..=1.0, flat in any::<bool>(),
    ) {
        let turns: Vec<Turn> =
            rewards.iter().map(|&reward| Turn { bytes: 0..0, reward, observation: None }).collect();
        let sequence = Sequence { text: Vec::new(), tokens: None, turns, first_turn: 0, place: Place::default() };
        let trajectory = Trajectory { id: String::new(), outcome, sequences: vec![sequence] };
        let returns = if flat { Returns::Outcome } else { Returns::Discounted };
        let config = AdvantageConfig { gamma, returns, ..AdvantageConfig::default() };
        let found = turn_returns(&trajectory, &config);
        prop_assert_eq!(found.len(), rewards.len());
        prop_assert!(found.iter().flatten().all(|r| r.is_finite()));
        let score = trajectory_score(&trajectory);
        prop_assert!(score.is_none_or(f64::is_finite));
        prop_assert!(score.is_some() || found.iter().all(|r| r.is_none()));
    }

    #[test]
    fn order_of_groups_and_threads_change_nothing(
        groups in prop::collection::vec(prop::collection::vec(wild(), 0..6), 1..300),
        estimator in 0usize..4, turn in any::<prop::sample::Index>(),
    ) {
        let with = |threads, groups: &[Vec<Option<f64>>]| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (flat, ends) = (groups.concat(), offsets(groups));
            let found = pool.install(|| {
                group_advantage(&Device::cpu(), &flat, &ends, ESTIMATORS[estimator], 1e-6, 1).unwrap()
            });
            let values = ends.windows(2).map(|b| found.values[b[0]..b[1]].iter().map(|a| a.to_bits()).collect());
            (values.collect::<Vec<Vec<u32>>>(), found.counts)
        };
        let one = with(1, &groups);
        prop_assert_eq!(&one, &with(2, &groups));
        let by = turn.index(groups.len());
        let mut turned = groups.clone();
        turned.rotate_left(by);
        let (mut values, counts) = with(2, &turned);
        values.rotate_right(by);
        prop_assert_eq!(one, (values, counts));
    }

    #[test]
    fn centred_groups_add_up_to_zero(values in prop::collection::vec(-5.0f64..5.0, 2..12)) {
        let scored: Vec<_> = values.iter().copied().map(Some).collect();
        for estimator in ESTIMATORS {
            let found = group_advantage(&Device::cpu(), &scored, &[0, scored.len()], estimator, 1e-6, 1).unwrap();
            let sum: f64 = found.values.iter().map(|&a| f64::from(a)).sum();
            prop_assert!(sum.abs() < 1e-4, "{:?} {}", estimator, sum);
            // The better member never has the smaller advantage.
            for i in 0..values.len() {
                for j in 0..values.len() {
                    prop_assert!(values[i] < values[j] || found.values[i] >= found.values[j]);
                }
            }
        }
    }

    #[test]
    fn equal_observations_share_a_group(
        texts in prop::collection::vec(prop::option::of("[a-c_é ]{0,6}"), 0..20), similar in any::<bool>(),
    ) {
        let observations: Vec<Option<&str>> = texts.iter().map(|text| text.as_deref()).collect();
        let kind = if similar { StepGroups::Similar } else { StepGroups::Exact };
        let config = AdvantageConfig { step: kind, ..AdvantageConfig::default() };
        let found = step(&Device::cpu(), &observations, &vec![Some(1.0); texts.len()], &config).unwrap();
        let mut group_of = BTreeMap::new();
        for (group, members) in found.groups.iter().enumerate() {
            for &turn in members {
                prop_assert!(group_of.insert(turn as usize, group).is_none());
            }
        }
        prop_assert_eq!(group_of.len() + found.n_without_observation, texts.len());
        for i in 0..texts.len() {
            for j in 0..texts.len() {
                if texts[i].is_some() && texts[i] == texts[j] {
                    prop_assert_eq!(group_of[&i], group_of[&j]);
                }
            }
        }
    }

    #[test]
    fn every_touched_token_has_one_owner(
        n_bytes in 1usize..60,
        ends in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        mask in prop::collection::vec(prop::bool::weighted(0.7), 41),
        covers in prop::collection::vec((any::<prop::sample::Index>(), 1usize..12, -2i8..3, 0u8..3), 0..8),
    ) {
        let mut byte_ends: Vec<u32> = ends.iter().map(|end| end.index(n_bytes + 1) as u32).collect();
        byte_ends.sort_unstable();
        byte_ends.push(n_bytes as u32);
        let mask = mask[..byte_ends.len()].to_vec();
        let covers: Vec<Cover> = covers.iter().enumerate().map(|(member, &(ref start, len, advantage, score))| {
            let start = start.index(n_bytes);
            let end = (start + len).min(n_bytes);
            let (advantage, score) = (f32::from(advantage), f64::from(score));
            Cover { bytes: start..end, member: member as u32, advantage, anchor: member as u32, score }
        }).collect();
        let tokens = Tokens { byte_ends, mask };
        let sequence = Sequence {
            text: vec![b'x'; n_bytes], tokens: Some(tokens.clone()), turns: Vec::new(), first_turn: 0, place: Place::default(),
        };
        let found = project(&Device::cpu(), &sequence, 1.0, &covers, None).unwrap();

        let touched: BTreeSet<u32> = (0..tokens.mask.len()).filter(|&token| {
            let start = if token == 0 { 0 } else { tokens.byte_ends[token - 1] as usize };
            let end = tokens.byte_ends[token] as usize;
            let touches = |cover: &Cover| cover.bytes.start < end && start < cover.bytes.end;
            tokens.mask[token] && start < end && covers.iter().any(touches)
        }).map(|token| token as u32).collect();
        let owned: Vec<u32> = found.token_spans.iter().flat_map(|span| span.tokens.clone()).collect();
        prop_assert_eq!(owned.len(), touched.len());
        prop_assert_eq!(owned.into_iter().collect::<BTreeSet<u32>>(), touched);

        // Byte spans: exactly the bytes under covers, each once.
        let mut covered = vec![0; n_bytes];
        for span in &found.byte_spans {
            for byte in span.bytes.clone() {
                covered[byte] += 1;
            }
        }
        for (byte, times) in covered.into_iter().enumerate() {
            prop_assert_eq!(times, i32::from(covers.iter().any(|cover| cover.bytes.contains(&byte))));
        }

        // The order of the covers is of no account.
        let mut turned = covers.clone();
        turned.reverse();
        prop_assert_eq!(project(&Device::cpu(), &sequence, 1.0, &turned, None).unwrap(), found);
    }

    #[test]
    fn odd_groups_are_an_error_or_harmless(
        returns in prop::collection::vec(wild(), 0..8),
        groups in prop::collection::vec(prop::collection::vec(prop_oneof![8 => 0u32..8, 1 => any::<u32>()], 0..5), 0..5),
        trajectories in prop::collection::vec(any::<u32>(), 0..8),
        offsets in prop::collection::vec(0usize..9, 0..5),
        weights in prop::collection::vec(any::<u32>(), 0..8),
        estimator in 0usize..4, number in wild(), contrast in any::<bool>(), over_turns in any::<bool>(),
    ) {
        let device = Device::cpu();
        let x = number.unwrap_or(0.5);
        let config = AdvantageConfig {
            episode: ESTIMATORS[estimator],
            over: if over_turns { Over::Turns } else { Over::Trajectories },
            diff: if contrast { DiffForm::Contrast } else { DiffForm::Within },
            diff_std: over_turns,
            step: if contrast { StepGroups::Similar } else { StepGroups::Exact },
            ..AdvantageConfig::default()
        };
        for config in [
            config.clone(),
            AdvantageConfig { eps: x, ..config.clone() },
            AdvantageConfig { gamma: x, lambda: x, ..config.clone() },
            AdvantageConfig { step_eta: x, ..config },
        ] {
            if let Ok(found) = diff(&device, &groups, &returns, &trajectories, &config) {
                prop_assert!(found.values.iter().flatten().all(|a| a.is_finite()));
            }
            let task = TaskScores { scores: returns.clone(), turns: weights.clone() };
            if let Ok(found) = episode(&device, &[task], &config) {
                prop_assert!(found.values[0].iter().all(|a| a.is_finite()));
            }
            let observations = vec![Some("a b"); trajectories.len()];
            if let Ok(found) = step(&device, &observations, &returns, &config) {
                prop_assert!(found.values.iter().all(|a| a.is_finite()));
            }
        }
        let found = group_advantage(&device, &returns, &offsets, ESTIMATORS[estimator], x, 1);
        let fits = offsets.is_sorted() && offsets.first().copied().unwrap_or(0) == 0
            && offsets.last().copied().unwrap_or(0) == returns.len();
        prop_assert_eq!(found.is_ok(), fits && x.is_finite() && x >= 0.0);
        prop_assert_eq!(keep_groups(&returns, &offsets, x).is_ok(), fits);
    }

    #[test]
    fn odd_sequences_are_an_error_or_harmless(
        n_bytes in 0usize..20,
        ends in prop::option::of(prop::collection::vec(prop_oneof![8 => 0u32..22, 1 => any::<u32>()], 0..8)),
        mend in any::<bool>(),
        n_mask in 0usize..9,
        covers in prop::collection::vec((0usize..23, 0usize..23, 0u32..3, wild(), 0u8..3), 0..5),
        turns in prop::collection::vec((0usize..23, 0usize..23), 0..3),
        steps in prop::option::of(prop::collection::vec(wild(), 0..3)),
        episode in wild(),
    ) {
        let tokens = ends.map(|mut byte_ends| {
            if mend {
                byte_ends.iter_mut().for_each(|end| *end = (*end).min(n_bytes as u32));
                byte_ends.push(n_bytes as u32);
                byte_ends.sort_unstable();
            }
            let n_mask = if mend { byte_ends.len() } else { n_mask };
            Tokens { byte_ends, mask: vec![true; n_mask] }
        });
        let covers: Vec<Cover> = covers.iter().map(|&(start, end, member, x, score)| Cover {
            bytes: start..end, member, advantage: x.unwrap_or(1.0) as f32, anchor: member, score: f64::from(score),
        }).collect();
        let turns =
            turns.iter().map(|&(start, end)| Turn { bytes: start..end, reward: None, observation: None }).collect();
        let sequence = Sequence {
            text: vec![b'x'; n_bytes], tokens: tokens.clone(), turns, first_turn: 0, place: Place::default(),
        };
        let steps: Option<Vec<f32>> =
            steps.map(|steps| steps.iter().map(|step| step.unwrap_or(0.5) as f32).collect());
        let episode = episode.unwrap_or(0.0) as f32;
        if let Ok(found) = project(&Device::cpu(), &sequence, episode, &covers, steps.as_deref()) {
            prop_assert!(found.byte_spans.iter().all(|span| span.bytes.end <= n_bytes && !span.bytes.is_empty()));
            if let Some(tokens) = &tokens {
                prop_assert!(found.dense(tokens).unwrap().iter().all(|a| a.is_finite()));
            }
        }
    }
}
