//! Group advantages, diff and step groups, and projection against plain loops.

use hunkwise::Device;
use hunkwise::advantage::returns::discounted;
use hunkwise::advantage::{
    AdvantageConfig, Cover, DiffForm, Estimator, Over, StepGroups, TaskScores, diff, episode,
    group_advantage, project, step,
};
use hunkwise::error::Place;
use hunkwise::reference::advantage as reference;
use hunkwise::rollout::{Sequence, Tokens, Turn};
use proptest::prelude::*;

use crate::devices::others;

const ESTIMATORS: [Estimator; 4] =
    [Estimator::Grpo, Estimator::GrpoNoStd, Estimator::DrGrpo, Estimator::Rloo];

/// Few distinct values, so that equal ones and groups without spread are common; some absent, some not finite.
fn value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        6 => prop::sample::select(vec![0.0, 1.0, 0.5, -1.0, 0.1]).prop_map(Some),
        2 => (-10.0f64..10.0).prop_map(Some),
        1 => Just(None),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, -1e308, 1e-310])
            .prop_map(Some),
    ]
}

fn groups() -> impl Strategy<Value = Vec<Vec<Option<f64>>>> {
    prop::collection::vec(prop::collection::vec(value(), 0..9), 0..200)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn groups_equal_the_reference(
        groups in groups(), estimator in 0usize..4, ddof in 0u8..4,
        eps in prop::sample::select(vec![0.0, 1e-6, 0.5]),
    ) {
        let mut offsets = vec![0];
        offsets.extend(groups.iter().scan(0, |end, group| { *end += group.len(); Some(*end) }));
        let flat: Vec<_> = groups.concat();
        let found = group_advantage(&Device::cpu(), &flat, &offsets, ESTIMATORS[estimator], eps, ddof).unwrap();
        for device in others() {
            assert_eq!(&group_advantage(&device, &flat, &offsets, ESTIMATORS[estimator], eps, ddof).unwrap(), &found, "{device:?}");
        }
        for (g, group) in groups.iter().enumerate() {
            let expected = reference::group(group, &vec![1; group.len()], ESTIMATORS[estimator], eps, ddof);
            prop_assert_eq!(bits(&found.values[offsets[g]..offsets[g + 1]]), bits(&expected));
        }
    }

    #[test]
    fn episodes_equal_the_reference(
        tasks in prop::collection::vec(prop::collection::vec((value(), 0u32..5), 0..9), 0..6),
        estimator in 0usize..4, by_turns in any::<bool>(),
    ) {
        let over = if by_turns { Over::Turns } else { Over::Trajectories };
        let config = AdvantageConfig { episode: ESTIMATORS[estimator], over, ..AdvantageConfig::default() };
        let input: Vec<TaskScores> = tasks.iter().map(|task| {
            let (scores, turns) = task.iter().copied().unzip();
            TaskScores { scores, turns }
        }).collect();
        let found = episode(&Device::cpu(), &input, &config).unwrap();
        for device in others() {
            assert_eq!(&episode(&device, &input, &config).unwrap(), &found, "{device:?}");
        }
        for (task, found) in input.iter().zip(&found.values) {
            let weights = if by_turns { task.turns.clone() } else { vec![1; task.turns.len()] };
            let expected = reference::group(&task.scores, &weights, config.episode, config.eps, config.ddof);
            prop_assert_eq!(bits(found), bits(&expected));
        }
    }

    #[test]
    fn turn_weights_equal_repeated_members(
        task in prop::collection::vec((prop::sample::select(vec![0.0, 1.0, 0.25]), 1u32..5), 2..9),
    ) {
        let config = AdvantageConfig { over: Over::Turns, ..AdvantageConfig::default() };
        let scores = task.iter().map(|&(score, _)| Some(score)).collect();
        let turns = task.iter().map(|&(_, turns)| turns).collect();
        let tasks = [TaskScores { scores, turns }];
        let found = episode(&Device::cpu(), &tasks, &config).unwrap();
        for device in others() {
            assert_eq!(&episode(&device, &tasks, &config).unwrap(), &found, "{device:?}");
        }
        let repeated: Vec<Option<f64>> =
            task.iter().flat_map(|&(score, turns)| vec![Some(score); turns as usize]).collect();
        let expected = reference::group(&repeated, &vec![1; repeated.len()], Estimator::Grpo, config.eps, config.ddof);
        let mut row = 0;
        for (i, &(_, turns)) in task.iter().enumerate() {
            prop_assert!((found.values[0][i] - expected[row]).abs() < 1e-5);
            row += turns as usize;
        }
    }

    #[test]
    fn returns_equal_their_definition(rewards in prop::collection::vec(-2.0f64..2.0, 0..20), gamma in 0.0f64..=1.0) {
        let expected = reference::returns(&rewards, gamma);
        for (found, expected) in discounted(&rewards, gamma).iter().zip(&expected) {
            prop_assert!((found - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn diff_groups_equal_the_reference(
        returns in prop::collection::vec(
            prop_oneof![4 => (-3i32..3).prop_map(|x| Some(f64::from(x) / 2.0)), 1 => Just(None), 1 => Just(Some(f64::NAN))],
            1..20,
        ),
        picks in prop::collection::vec(any::<u32>(), 0..5),
        contrast in any::<bool>(), diff_std in any::<bool>(), ddof in 0u8..2,
    ) {
        // Bit t of a pick says whether turn t is in the group.
        let groups: Vec<Vec<u32>> = picks.iter()
            .map(|pick| (0..returns.len() as u32).filter(|turn| pick >> turn & 1 == 1).collect()).collect();
        let form = if contrast { DiffForm::Contrast } else { DiffForm::Within };
        let config = AdvantageConfig { diff: form, diff_std, ddof, ..AdvantageConfig::default() };
        let turns: Vec<u32> = (0..returns.len() as u32).map(|turn| turn / 3).collect();
        let found = diff(&Device::cpu(), &groups, &returns, &turns, &config).unwrap();
        for device in others() {
            assert_eq!(&diff(&device, &groups, &returns, &turns, &config).unwrap(), &found, "{device:?}");
        }
        let mut abs = [0.0, 0.0];
        let mut n = 0;
        for (group, values) in groups.iter().zip(&found.values) {
            let expected = reference::diff(group, &returns, form, &config);
            prop_assert_eq!(values.len(), expected.len());
            for (found, expected) in values.iter().zip(&expected) {
                prop_assert!((f64::from(*found) - expected).abs() < 1e-5, "{:?} {:?}", values, expected);
            }
            n += group.iter().filter(|&&turn| returns[turn as usize].is_some_and(f64::is_finite)).count();
            for (sum, form) in abs.iter_mut().zip([DiffForm::Within, DiffForm::Contrast]) {
                *sum += reference::diff(group, &returns, form, &config).iter().map(|a| a.abs()).sum::<f64>();
            }
        }
        let means = abs.map(|sum| if n == 0 { 0.0 } else { sum / n as f64 });
        prop_assert!((found.mean_abs_within - means[0]).abs() < 1e-5);
        prop_assert!((found.mean_abs_contrast - means[1]).abs() < 1e-5);
    }

    #[test]
    fn step_groups_equal_the_reference(
        turns in prop::collection::vec((prop::option::of("[ab_]{1,2}( [ab.]{1,2}){0,5}"), value()), 0..25),
        similar in any::<bool>(), eta in prop::sample::select(vec![0.5, 0.75, 0.8, 1.0]), estimator in 0usize..4,
    ) {
        let observations: Vec<Option<&str>> = turns.iter().map(|(text, _)| text.as_deref()).collect();
        let returns: Vec<Option<f64>> = turns.iter().map(|&(_, value)| value).collect();
        let kind = if similar { StepGroups::Similar } else { StepGroups::Exact };
        let config = AdvantageConfig {
            step: kind, step_eta: eta, episode: ESTIMATORS[estimator], ..AdvantageConfig::default()
        };
        let found = step(&Device::cpu(), &observations, &returns, &config).unwrap();
        for device in others() {
            assert_eq!(&step(&device, &observations, &returns, &config).unwrap(), &found, "{device:?}");
        }
        let groups = reference::step_groups(&observations, |first, other| {
            if similar { indel(&split(first), &split(other)) >= eta } else { first == other }
        });
        let estimator = if config.episode == Estimator::Grpo { Estimator::Grpo } else { Estimator::GrpoNoStd };
        let n_groups = groups.iter().flatten().max().map_or(0, |last| last + 1);
        prop_assert_eq!(found.groups.len(), n_groups);
        let mut expected = vec![0.0; turns.len()];
        for group in 0..n_groups {
            let members: Vec<usize> = (0..turns.len()).filter(|&turn| groups[turn] == Some(group)).collect();
            let values: Vec<_> = members.iter().map(|&turn| returns[turn]).collect();
            let advantages = reference::group(&values, &vec![1; values.len()], estimator, config.eps, config.ddof);
            for (turn, advantage) in members.into_iter().zip(advantages) {
                expected[turn] = advantage;
            }
        }
        prop_assert_eq!(bits(&found.values), bits(&expected));
    }

    #[test]
    fn projection_equals_the_reference((sequence, covers, episode, steps) in projection()) {
        let steps = steps.as_deref();
        let found = project(&Device::cpu(), &sequence, episode, &covers, steps).unwrap();
        for device in others() {
            assert_eq!(&project(&device, &sequence, episode, &covers, steps).unwrap(), &found, "{device:?}");
        }
        let tokens = sequence.tokens.as_ref().unwrap();
        let expected = reference::dense(&sequence, episode, &covers, steps);
        prop_assert_eq!(bits(&found.dense(tokens).unwrap()), bits(&expected));

        let anchor_of = |member: u32| covers.iter().find(|cover| cover.member == member).map(|cover| cover.anchor);
        let owners = reference::token_owners(&sequence, &covers);
        let mut anchors = vec![None; owners.len()];
        for span in &found.token_spans {
            for token in span.tokens.clone() {
                anchors[token as usize] = span.anchor;
            }
        }
        for (token, owner) in owners.iter().enumerate() {
            let expected = owner.filter(|_| tokens.mask[token]).and_then(anchor_of);
            prop_assert_eq!(anchors[token], expected, "token {}", token);
        }
        let bytes = reference::byte_owners(&sequence, &covers);
        let mut anchors = vec![None; bytes.len()];
        for span in &found.byte_spans {
            anchors[span.bytes.clone()].fill(span.anchor);
        }
        for (byte, owner) in bytes.iter().enumerate() {
            prop_assert_eq!(anchors[byte], owner.and_then(anchor_of), "byte {}", byte);
        }
    }
}

/// The tokens of the words above, by another route: every letter run and every dot.
fn split(text: &str) -> Vec<String> {
    text.replace('.', " . ").split_whitespace().map(str::to_string).collect()
}

/// 2·LCS/(m+n) by recursion over all suffixes.
fn indel(a: &[String], b: &[String]) -> f64 {
    let mut lcs = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lcs[i][j] =
                if a[i] == b[j] { lcs[i + 1][j + 1] + 1 } else { lcs[i + 1][j].max(lcs[i][j + 1]) };
        }
    }
    if a.len() + b.len() == 0 { 1.0 } else { 2.0 * lcs[0][0] as f64 / (a.len() + b.len()) as f64 }
}

type Projection = (Sequence, Vec<Cover>, f32, Option<Vec<f32>>);

/// Text with characters of one to four bytes, cut anywhere (also inside a character), tokens that end anywhere, empty
/// tokens, padding, covers of several pieces that overlap.
fn projection() -> impl Strategy<Value = Projection> {
    (
        prop::collection::vec(prop::sample::select(vec!["a", "é", "中", "🚀", "\n"]), 0..30),
        0usize..4,
        prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        0usize..3,
        prop::collection::vec(prop::bool::weighted(0.8), 80),
        prop::collection::vec((any::<prop::sample::Index>(), 0usize..9, 0u32..4), 0..8),
        prop::collection::vec((-8i8..8, 0u32..3, 0u8..3), 4),
        prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        prop::option::of(prop::collection::vec(-8i8..8, 3)),
    )
        .prop_map(|(characters, cut, ends, padding, mask, pieces, members, bounds, steps)| {
            let mut text = characters.concat().into_bytes();
            text.truncate(text.len().saturating_sub(cut));
            let n = text.len();
            let mut byte_ends: Vec<u32> = ends.iter().map(|end| end.index(n + 1) as u32).collect();
            byte_ends.sort_unstable();
            byte_ends.push(n as u32);
            byte_ends.extend(vec![n as u32; padding]);
            let mask = mask[..byte_ends.len()].to_vec();
            let mut bounds: Vec<usize> = bounds.iter().map(|bound| bound.index(n + 1)).collect();
            bounds.sort_unstable();
            let turns: Vec<Turn> = bounds
                .chunks_exact(2)
                .map(|pair| Turn { bytes: pair[0]..pair[1], reward: None, observation: None })
                .collect();
            let covers = pieces
                .iter()
                .map(|&(ref start, len, member)| {
                    let start = start.index(n + 1);
                    let (advantage, anchor, score) = members[member as usize];
                    Cover {
                        bytes: start..(start + len).min(n),
                        member,
                        advantage: f32::from(advantage) / 3.0,
                        anchor,
                        score: f64::from(score) / 4.0,
                    }
                })
                .collect();
            let steps = steps
                .map(|steps| steps[..turns.len()].iter().map(|&s| f32::from(s) / 7.0).collect());
            let tokens = Some(Tokens { byte_ends, mask });
            (
                Sequence { text, tokens, turns, first_turn: 0, place: Place::default() },
                covers,
                0.3,
                steps,
            )
        })
}
