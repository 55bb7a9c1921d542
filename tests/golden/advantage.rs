//! Scores, returns and group advantages: public bug cases and values worked out by hand or with NumPy.

use std::f64::consts::FRAC_1_SQRT_2;

use hunkwise::advantage::returns::{discounted, last_trained, row_returns, token_returns};
use hunkwise::advantage::{
    AdvantageConfig, DiffForm, Estimator, GroupAdvantages, Over, Returns, StepGroups, TaskScores,
    diff, episode, group_advantage, keep_groups, step, trajectory_score, turn_returns, whiten,
};
use hunkwise::error::Place;
use hunkwise::rollout::{Sequence, Trajectory, Turn};
use hunkwise::{Device, Error};

fn one_group(values: &[Option<f64>], estimator: Estimator, eps: f64, ddof: u8) -> GroupAdvantages {
    group_advantage(&Device::cpu(), values, &[0, values.len()], estimator, eps, ddof).unwrap()
}

fn scored(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(*f) - e).abs() <= tolerance,
            "entry {i}: {f}, expected {e} in {found:?}"
        );
    }
}

fn trajectory(outcome: Option<f64>, rewards: &[&[Option<f64>]]) -> Trajectory {
    let sequences = rewards
        .iter()
        .map(|turns| Sequence {
            text: vec![b'x'; turns.len()],
            tokens: None,
            turns: turns
                .iter()
                .enumerate()
                .map(|(i, &reward)| Turn { bytes: i..i + 1, reward, observation: None })
                .collect(),
            first_turn: 0,
            place: Place::default(),
        })
        .collect();
    Trajectory { id: "t".to_string(), outcome, sequences }
}

#[test]
fn case_01_rollouts_of_one_task_are_one_group() {
    let rewards = scored(&[1.0, 0.0, 1.0, 0.0]);
    let centred = one_group(&rewards, Estimator::GrpoNoStd, 0.0, 1);
    assert_eq!(centred.values, [0.5, -0.5, 0.5, -0.5]);
    assert_eq!(centred.counts.n_groups, 1);
    let sample = one_group(&rewards, Estimator::Grpo, 0.0, 1);
    assert_near(&sample.values, &[0.8660254, -0.8660254, 0.8660254, -0.8660254], 1e-7);
    assert!(!sample.counts.all_singletons());
    assert_eq!(one_group(&rewards, Estimator::Grpo, 0.0, 0).values, [1.0, -1.0, 1.0, -1.0]);

    // Keyed by rollout instead: no baseline, no advantage, and the counts say so.
    let alone =
        group_advantage(&Device::cpu(), &rewards, &[0, 1, 2, 3, 4], Estimator::Grpo, 1e-6, 1)
            .unwrap();
    assert_eq!(alone.values, [0.0; 4]);
    assert_eq!((alone.counts.n_groups, alone.counts.n_singletons), (4, 4));
    assert!(alone.counts.all_singletons());
}

#[test]
fn case_03_a_group_of_one_gets_zero_and_is_counted() {
    let values = scored(&[0.7, 1.0, 0.0]);
    for estimator in [Estimator::Grpo, Estimator::GrpoNoStd, Estimator::DrGrpo, Estimator::Rloo] {
        let found =
            group_advantage(&Device::cpu(), &values, &[0, 1, 3], estimator, 1e-6, 1).unwrap();
        assert_eq!(found.values[0], 0.0);
        assert_eq!(found.counts.n_singletons, 1);
        assert!(found.values.iter().all(|a| a.is_finite()));
    }
    // Two members and two degrees of freedom: no variance, and so no comparison.
    let pair = one_group(&values[1..], Estimator::Grpo, 1e-6, 2);
    assert_eq!((pair.counts.n_singletons, pair.counts.n_not_finite), (1, 0));
    let grpo =
        group_advantage(&Device::cpu(), &values, &[0, 1, 3], Estimator::Grpo, 1e-6, 1).unwrap();
    assert_near(&grpo.values, &[0.0, 0.7071058, -0.7071058], 1e-7);
}

#[test]
fn case_04_ddof_is_a_choice_and_eps_is_added_to_the_std() {
    let mixed = scored(&[1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let pair = scored(&[1.0, 0.0]);
    let ends = |found: GroupAdvantages| [found.values[0], *found.values.last().unwrap()];
    assert_near(
        &ends(one_group(&mixed, Estimator::Grpo, 0.0, 1)),
        &[1.20761473, -0.72456884],
        1e-7,
    );
    assert_near(
        &ends(one_group(&pair, Estimator::Grpo, 0.0, 1)),
        &[FRAC_1_SQRT_2, -FRAC_1_SQRT_2],
        1e-7,
    );
    assert_near(
        &ends(one_group(&mixed, Estimator::Grpo, 0.0, 0)),
        &[1.29099445, -0.77459667],
        1e-7,
    );
    assert_near(&ends(one_group(&pair, Estimator::Grpo, 0.0, 0)), &[1.0, -1.0], 0.0);
    assert_near(
        &ends(one_group(&mixed, Estimator::Rloo, 0.0, 1)),
        &[0.71428571, -0.42857143],
        1e-7,
    );
    // std 0.5 and eps 0.5: 0.5 / (0.5 + 0.5), not 0.5 / sqrt(0.25 + 0.5).
    assert_near(&ends(one_group(&pair, Estimator::Grpo, 0.5, 0)), &[0.5, -0.5], 0.0);
}

#[test]
fn case_05_small_variances_are_not_clamped() {
    let rewards = scored(&[1.0f32, 1.00001, 1.00002, 1.00003].map(f64::from));
    let found = one_group(&rewards, Estimator::Grpo, 1e-6, 1);
    assert_near(&found.values, &[-1.07847, -0.35949, 0.35949, 1.07847], 0.005);
}

#[test]
fn case_07_statistics_are_wider_than_the_rewards() {
    let bf16 = one_group(&scored(&[1.0, 1.0, 1.0, 1.0078125]), Estimator::Grpo, 0.0, 1);
    assert_eq!(bf16.values, [-0.5, -0.5, -0.5, 1.5]);
    let integers = one_group(&scored(&[2.0, 0.0, 1.0, 1.0]), Estimator::GrpoNoStd, 0.0, 1);
    assert_eq!(integers.values, [1.0, -1.0, 0.0, 0.0]);
}

#[test]
fn case_08_an_unscored_rollout_is_absent() {
    let sqrt3 = [0.57735027, -1.15470054, 0.0, 0.57735027];
    for missing in [None, Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY)] {
        let found = one_group(&[Some(1.0), Some(0.0), missing, Some(1.0)], Estimator::Grpo, 0.0, 1);
        assert_near(&found.values, &sqrt3, 1e-7);
        assert_eq!(found.counts.n_unscored, 1);
    }
}

#[test]
fn case_09_groups_without_signal_are_dropped_whole_by_a_named_metric() {
    let keep = |metric: &[f64]| keep_groups(&scored(metric), &[0, metric.len()], 1e-6).unwrap();
    assert_eq!(keep(&[0.5; 4]), [false]);
    // The outcome decides, not the shaped reward beside it.
    assert_eq!(keep(&[0.0; 4]), [false]);
    assert_eq!(keep(&[0.0, 0.1, 0.2, 0.3]), [true]);
    let mixed = [0.0, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95];
    assert_eq!(keep(&mixed), [true]);
    let found = one_group(&scored(&mixed), Estimator::Grpo, 0.0, 1);
    let others = [0.35355339; 7];
    assert_near(&found.values[..1], &[-2.47487373], 1e-6);
    assert_near(&found.values[1..], &others, 1e-6);
    assert_eq!(keep(&[1.0, 0.99999994]), [false]);
    // A spread of exactly the tolerance is none.
    assert_eq!(keep_groups(&scored(&[0.0, 0.5]), &[0, 2], 0.5).unwrap(), [false]);
    // Groups without two scored members have no signal either.
    assert_eq!(
        keep_groups(&[None, Some(1.0), None], &[0, 0, 2, 3], 1e-6).unwrap(),
        [false, false, false]
    );
}

#[test]
fn case_11_keys_are_compared_whole_and_tasks_never_mix() {
    // Joined with a colon both keys would be "a:b:c".
    let keys = [("a", "b:c"), ("a:b", "c")];
    assert_eq!(row_returns(&keys, &[0, 1], &[1.0, 1.0], 0.5).unwrap(), [1.0, 1.0]);
    let same_key = [("a", "b"), ("a", "b")];
    assert_eq!(row_returns(&same_key, &[0, 1], &[1.0, 1.0], 0.5).unwrap(), [1.5, 1.0]);

    // Two tasks with the same scores: two groups, each with its own baseline.
    let task = |scores: &[f64]| TaskScores { scores: scored(scores), turns: vec![1; scores.len()] };
    let config = AdvantageConfig { episode: Estimator::GrpoNoStd, ..AdvantageConfig::default() };
    let found = episode(&Device::cpu(), &[task(&[1.0, 0.0]), task(&[1.0, 1.0])], &config).unwrap();
    assert_eq!(found.values, [vec![0.5, -0.5], vec![0.0, 0.0]]);
    assert_eq!((found.counts.n_groups, found.counts.n_zero_spread), (2, 1));
}

#[test]
fn case_12_tool_tokens_neither_end_nor_discount_a_return() {
    let found = token_returns(&[0.0, 0.0, 1.0], &[true, false, true], 0.5).unwrap();
    assert_eq!(found, [0.5, 0.0, 1.0]);
    // A reward on a masked token is not lost: 1 + 0.5·(1 + 2).
    assert_eq!(
        token_returns(&[1.0, 2.0, 1.0], &[true, false, true], 0.5).unwrap(),
        [2.5, 0.0, 1.0]
    );
    assert!(matches!(token_returns(&[1.0], &[], 0.5), Err(Error::Shape { .. })));
}

#[test]
fn case_13_returns_stay_in_their_trajectory_and_follow_the_steps() {
    let found =
        row_returns(&["B", "A", "A", "B"], &[1, 0, 1, 0], &[1.0, 1.0, 0.0, 0.0], 0.5).unwrap();
    assert_eq!(found, [1.0, 1.0, 0.0, 0.5]);
    let twice = row_returns(&["A", "A"], &[3, 3], &[1.0, 1.0], 0.5);
    assert!(twice.unwrap_err().to_string().contains("rows 0 and 1 are both step 3"));
}

#[test]
fn case_14_the_outcome_belongs_to_the_last_trained_token() {
    assert_eq!(last_trained(&[true, true, false, false]), Some(1));
    assert_eq!(last_trained(&[false, false, false, true, true]), Some(4));
    assert_eq!(last_trained(&[false, false]), None);
    assert_eq!(last_trained(&[]), None);
}

#[test]
fn case_22_whitening_sees_the_mask_only() {
    let found = whiten(&[1.0, 3.0, 100.0], &[true, true, false], 1, 0.0).unwrap();
    let expected = [-FRAC_1_SQRT_2, FRAC_1_SQRT_2, 0.0];
    for (f, e) in found.values.iter().zip(expected) {
        assert!((f - e).abs() < 1e-15);
    }
    // One valid value: left as it is, whatever the degrees of freedom.
    assert_eq!(whiten(&[4.0, 9.0], &[true, false], 0, 0.0).unwrap().values, [4.0, 0.0]);
    assert_eq!(whiten(&[4.0, 9.0], &[true, false], 1, 0.0).unwrap().values, [4.0, 0.0]);
    let odd = whiten(&[2.0, f64::NAN, 2.0], &[true, true, true], 1, 0.0).unwrap();
    assert_eq!((odd.values, odd.n_valid, odd.n_not_finite), (vec![0.0, 0.0, 0.0], 2, 1));
}

#[test]
fn case_47_sums_have_one_order() {
    // In f64 the sum is 1, so the mean is 1/3 and the middle member is 2/3 above it.
    let values = scored(&[1e8, 1.0, -1e8]);
    let first = one_group(&values, Estimator::GrpoNoStd, 0.0, 1);
    assert_eq!(first.values[1], (2.0f64 / 3.0) as f32);
    for _ in 0..100 {
        assert_eq!(one_group(&values, Estimator::GrpoNoStd, 0.0, 1), first);
    }

    // A million values in ten thousand groups of 1 to 199: the same bits from one thread and from two.
    let mut state = 0u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut offsets = vec![0];
    for _ in 0..5_000 {
        let size = 1 + draw() as usize % 199;
        let last = offsets[offsets.len() - 1];
        offsets.extend([last + size, last + 200]);
    }
    let values: Vec<Option<f64>> = (0..1_000_000).map(|_| Some(draw() as f64 / 1e6)).collect();
    let with = |n_threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
        let device = Device::cpu();
        pool.install(|| group_advantage(&device, &values, &offsets, Estimator::Grpo, 1e-6, 1))
            .unwrap()
    };
    let one = with(1);
    assert_eq!(one.counts.n_groups, 10_000);
    for _ in 0..3 {
        assert_eq!(with(2), one);
    }
}

#[test]
fn equal_values_give_exactly_zero() {
    // The mean of three times 0.1 is not 0.1 in f64.
    let found = one_group(&scored(&[0.1; 3]), Estimator::Grpo, 0.0, 1);
    assert_eq!(found.values, [0.0; 3]);
    assert_eq!(found.counts.n_zero_spread, 1);
}

#[test]
fn values_beyond_f32_give_zero_and_are_counted() {
    let found = one_group(&scored(&[1e308, -1e308, 1e308, 1e308]), Estimator::GrpoNoStd, 0.0, 1);
    assert_eq!(found.values, [0.0; 4]);
    assert_eq!(found.counts.n_not_finite, 4);
}

/// The squares of 1e200 are beyond f64: dividing by an infinite spread would give 0 without a word.
#[test]
fn spreads_beyond_f64_give_zero_and_are_counted() {
    let values = scored(&[1e200, -1e200, 0.0]);
    let found = one_group(&values, Estimator::Grpo, 1e-6, 1);
    assert_eq!((found.values, found.counts.n_not_finite), (vec![0.0; 3], 3));
    let white = whiten(&[1e200, -1e200, 0.0], &[true; 3], 1, 0.0).unwrap();
    assert_eq!((white.values, white.n_not_finite), (vec![0.0; 3], 3));
    for form in [DiffForm::Within, DiffForm::Contrast] {
        let config = AdvantageConfig { diff: form, diff_std: true, ..AdvantageConfig::default() };
        let found = diff(&Device::cpu(), &[vec![0, 1]], &values, &[0, 1, 2], &config).unwrap();
        assert_eq!((found.values, found.counts.n_not_finite), (vec![vec![0.0; 2]], 2), "{form:?}");
    }
}

#[test]
fn scores_of_trajectories() {
    let (r, none): (Option<f64>, Option<f64>) = (Some(0.5), None);
    assert_eq!(trajectory_score(&trajectory(Some(1.0), &[&[r, r]])), Some(1.0));
    assert_eq!(trajectory_score(&trajectory(None, &[&[r, none], &[r]])), Some(1.0));
    assert_eq!(trajectory_score(&trajectory(None, &[&[none]])), None);
    assert_eq!(trajectory_score(&trajectory(Some(f64::NAN), &[&[r]])), None);
    assert_eq!(trajectory_score(&trajectory(None, &[&[Some(f64::INFINITY)]])), None);
}

#[test]
fn returns_of_turns() {
    let none: Option<f64> = None;
    let half = AdvantageConfig { gamma: 0.5, ..AdvantageConfig::default() };
    // Only an outcome: it is the reward of the last turn.
    let outcome = trajectory(Some(1.0), &[&[none, none], &[none]]);
    assert_eq!(turn_returns(&outcome, &half), [Some(0.25), Some(0.5), Some(1.0)]);
    // Both: the rewards make the returns, the outcome is the score.
    let both = trajectory(Some(7.0), &[&[Some(1.0), none], &[Some(2.0)]]);
    assert_eq!(turn_returns(&both, &half), [Some(1.5), Some(1.0), Some(2.0)]);
    let flat = AdvantageConfig { returns: Returns::Outcome, ..half.clone() };
    assert_eq!(turn_returns(&both, &flat), [Some(7.0); 3]);
    assert_eq!(turn_returns(&trajectory(None, &[&[none, none]]), &half), [None, None]);
    // A reward that is no number spoils its turn and those before it, none after.
    let broken = trajectory(Some(1.0), &[&[Some(1.0), Some(f64::NAN), Some(3.0)]]);
    assert_eq!(turn_returns(&broken, &half), [None, None, Some(3.0)]);
    let myopic = AdvantageConfig { gamma: 0.0, ..half.clone() };
    assert_eq!(turn_returns(&broken, &myopic), [Some(1.0), None, Some(3.0)]);
    assert!(turn_returns(&trajectory(Some(1.0), &[]), &half).is_empty());
    assert_eq!(discounted(&[0.0, 0.0, 1.0], 0.5), [0.25, 0.5, 1.0]);
}

#[test]
fn episode_over_turns_counts_each_trajectory_once_per_turn() {
    // Scores 1, 0 with 3 and 1 turns: mean 0.75; the sample variance of (1, 1, 1, 0) is 0.25.
    let task = [TaskScores { scores: scored(&[1.0, 0.0]), turns: vec![3, 1] }];
    let config = AdvantageConfig { over: Over::Turns, eps: 0.0, ..AdvantageConfig::default() };
    assert_eq!(episode(&Device::cpu(), &task, &config).unwrap().values, [vec![0.5, -1.5]]);
    // Leave-one-out leaves the whole trajectory out: 1 - 0 and 0 - 1.
    let rloo = AdvantageConfig { episode: Estimator::Rloo, ..config };
    assert_eq!(episode(&Device::cpu(), &task, &rloo).unwrap().values, [vec![1.0, -1.0]]);
}

#[test]
fn diff_within_and_contrast() {
    // Trajectories of 2, 2 and 1 turns. The group holds turns 0, 2 and 4 with returns 1, 0 and 1; outside are 3 and 2.
    let returns = scored(&[1.0, 3.0, 0.0, 2.0, 1.0]);
    let turns = [0, 0, 1, 1, 2];
    let groups = [vec![0, 2, 4], vec![3, 4]];
    let within = AdvantageConfig::default();
    let found = diff(&Device::cpu(), &groups, &returns, &turns, &within).unwrap();
    assert_near(&found.values[0], &[1.0 / 3.0, -2.0 / 3.0, 1.0 / 3.0], 1e-7);
    assert_eq!(found.values[1], [0.5, -0.5]);
    assert_eq!(found.groups[1].turn_range, (0, 1));
    assert_eq!(found.groups[0].return_range, (0.0, 1.0));

    let contrast = AdvantageConfig { diff: DiffForm::Contrast, ..within.clone() };
    let other = diff(&Device::cpu(), &groups, &returns, &turns, &contrast).unwrap();
    // Group 0: means of the others 0.5, 1, 0.5; outside 2.5. Group 1: others 1 and 2; outside (1 + 3 + 0)/3.
    assert_near(&other.values[0], &[-2.0, -1.5, -2.0], 1e-7);
    assert_near(&other.values[1], &[1.0 - 4.0 / 3.0, 2.0 - 4.0 / 3.0], 1e-7);
    // Both forms are reported, whichever is in use: (4/3 + 1)/5 and (5.5 + 1/3 + 2/3)/5.
    for report in [&found, &other] {
        assert!((report.mean_abs_within - 7.0 / 15.0).abs() < 1e-7);
        assert!((report.mean_abs_contrast - 6.5 / 5.0).abs() < 1e-7);
    }

    // Over std + eps: group 0 has variance 1/3.
    let scaled = AdvantageConfig { diff_std: true, eps: 0.0, ..within };
    let found = diff(&Device::cpu(), &groups[..1], &returns, &turns, &scaled).unwrap();
    assert_near(&found.values[0], &[0.57735027, -1.15470054, 0.57735027], 1e-7);
}

#[test]
fn diff_without_a_comparison_is_zero_and_counted() {
    let device = Device::cpu();
    let contrast = AdvantageConfig { diff: DiffForm::Contrast, ..AdvantageConfig::default() };
    let all = diff(&device, &[vec![0, 1]], &scored(&[1.0, 0.0]), &[0, 1], &contrast).unwrap();
    assert_eq!((all.values, all.n_no_outside), (vec![vec![0.0, 0.0]], 1));
    let alone = diff(&device, &[vec![0]], &scored(&[1.0, 0.0]), &[0, 1], &contrast).unwrap();
    assert_eq!((alone.values, alone.counts.n_singletons), (vec![vec![0.0]], 1));
    assert_eq!(alone.counts.n_not_finite, 0);
    // The mean of three times 0.1 is not 0.1 in f64, but there is nothing between equal returns.
    let equal =
        diff(&device, &[vec![0, 1, 2]], &scored(&[0.1; 4]), &[0, 1, 2, 3], &contrast).unwrap();
    assert_eq!((equal.values, equal.counts.n_zero_spread), (vec![vec![0.0; 3]], 1));
    let unscored = [Some(1.0), None, Some(0.5)];
    let found = diff(&device, &[vec![0, 1]], &unscored, &[0, 1, 2], &contrast).unwrap();
    assert_eq!(found.values, [vec![0.0, 0.0]]);
    assert_eq!((found.counts.n_unscored, found.counts.n_singletons), (1, 1));
    // All passed inside and all failed outside: within sees nothing, contrast sees the snippet.
    let solved =
        diff(&device, &[vec![0, 1]], &scored(&[1.0, 1.0, 0.0]), &[0, 1, 2], &contrast).unwrap();
    assert_eq!(solved.values, [vec![1.0, 1.0]]);
    assert_eq!((solved.mean_abs_within, solved.mean_abs_contrast), (0.0, 1.0));
    let equal = diff(&device, &[vec![0, 1]], &scored(&[0.1; 4]), &[0, 1, 2, 3], &contrast).unwrap();
    assert_eq!((equal.values, equal.counts.n_zero_spread), (vec![vec![0.0, 0.0]], 1));
}

#[test]
fn diff_refuses_groups_that_do_not_fit() {
    let config = AdvantageConfig::default();
    for groups in [[vec![0, 2]], [vec![1, 1]]] {
        let found = diff(&Device::cpu(), &groups, &scored(&[1.0, 0.0]), &[0, 1], &config);
        assert!(matches!(found, Err(Error::Shape { op: "diff", .. })));
    }
}

#[test]
fn step_groups_of_equal_and_similar_observations() {
    let observations = [
        Some("open  a.py now please"),
        None,
        Some("open b.py now please"),
        Some("open a.py now please"),
    ];
    let returns = scored(&[1.0, 9.0, 0.0, 0.0]);
    let off = AdvantageConfig { episode: Estimator::GrpoNoStd, ..AdvantageConfig::default() };
    let found = step(&Device::cpu(), &observations, &returns, &off).unwrap();
    assert_eq!((found.values, found.groups.len()), (vec![0.0; 4], 0));
    let exact = AdvantageConfig { step: StepGroups::Exact, ..off.clone() };
    let found = step(&Device::cpu(), &observations, &returns, &exact).unwrap();
    assert_eq!(found.groups, [vec![0], vec![2], vec![3]]);
    assert_eq!((found.counts.n_singletons, found.n_without_observation), (3, 1));
    // White space aside the first and the last are equal; the third shares 5 of 6 tokens, 10/12.
    let similar = AdvantageConfig { step: StepGroups::Similar, step_eta: 0.84, ..off.clone() };
    let found = step(&Device::cpu(), &observations, &returns, &similar).unwrap();
    assert_eq!(found.groups, [vec![0, 3], vec![2]]);
    assert_eq!(found.values, [0.5, 0.0, 0.0, -0.5]);
    let loose = AdvantageConfig { step_eta: 0.83, ..similar };
    let found = step(&Device::cpu(), &observations, &returns, &loose).unwrap();
    assert_eq!(found.groups, [vec![0, 2, 3]]);
    assert_near(&found.values, &[2.0 / 3.0, 0.0, -1.0 / 3.0, -1.0 / 3.0], 1e-7);
}

#[test]
fn parameters_out_of_range_are_named() {
    let base = AdvantageConfig::default;
    let wrong = [
        ("eps", AdvantageConfig { eps: -1.0, ..base() }),
        ("ddof", AdvantageConfig { ddof: 2, ..base() }),
        ("gamma", AdvantageConfig { gamma: f64::NAN, ..base() }),
        ("lambda", AdvantageConfig { lambda: f64::INFINITY, ..base() }),
        ("step_eta", AdvantageConfig { step_eta: 0.0, ..base() }),
    ];
    for (expected, config) in wrong {
        match config.validate() {
            Err(Error::Config { name, .. }) => assert_eq!(name, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let offsets = group_advantage(&Device::cpu(), &[Some(1.0)], &[0, 2], Estimator::Grpo, 1e-6, 1);
    assert!(matches!(offsets, Err(Error::Shape { .. })));
}
