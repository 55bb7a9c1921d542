//! Made-up rollouts: their shape, and that their edits recur as real ones do.

use std::collections::{BTreeMap, BTreeSet};

use hunkwise::code::Windows;
use hunkwise::pipeline::{Config, credit};
use hunkwise::rollout::{Shape, Task, synthetic};
use hunkwise::similarity::{SimilarityConfig, occurrences};
use hunkwise::{Device, Error};

#[path = "../support/task_code.rs"]
mod task_code;

fn shape(text: &str) -> Shape {
    text.parse().expect("a shape")
}

#[test]
fn synthetic_rollouts_have_the_shape_asked_for() {
    for (asked, [n_tasks, n_rollouts, n_turns, n_lines]) in
        [("3x8x4x30", [3, 8, 4, 30]), ("1x1x1x1", [1, 1, 1, 1]), ("2x5x3x7", [2, 5, 3, 7])]
    {
        let batch = synthetic(shape(asked), 7).expect("a batch");
        assert!(batch.flagged.is_empty() && batch.notes.is_empty());
        assert_eq!(batch.tasks.len(), n_tasks);
        for task in &batch.tasks {
            assert_eq!(task.trajectories.len(), n_rollouts);
            for trajectory in &task.trajectories {
                assert!(trajectory.outcome.is_some());
                assert_eq!(trajectory.turns().count(), n_turns);
                assert!(trajectory.sequences.iter().all(|s| s.tokens.is_some()));
            }
        }
        let d = credit(&Device::cpu(), &batch, &Config::default()).expect("credit").diagnostics;
        let asked_lines = (n_tasks * n_rollouts * n_turns * n_lines) as f64;
        let ratio = d.n_lines as f64 / asked_lines;
        assert!((0.9..=1.1).contains(&ratio), "{asked}: {} lines", d.n_lines);
        assert_eq!(d.n_turns_with_edits, d.n_turns);
        // Every edit is read. A short one can repeat the one before it, as real ones do.
        assert!(d.skipped_edits.keys().all(|kind| kind == "re_emission"), "{:?}", d.skipped_edits);
    }
}

#[test]
fn synthetic_rollouts_resemble_real_ones() {
    let batch = synthetic(shape("3x12x4x30"), 0).expect("a batch");
    let mut config = Config::default();
    config.advantage.step = hunkwise::advantage::StepGroups::Exact;
    let d = credit(&Device::cpu(), &batch, &config).expect("credit").diagnostics;
    assert_eq!(d.edits.len(), 4, "several notations: {:?}", d.edits);
    assert!(d.diff.counts.n_groups >= 3 * 10, "snippets recur: {:?}", d.diff);
    // Mutated copies match too, and some turns begin from the same observation with another return.
    assert!(d.similarity.mean < 0.999 && d.similarity.min >= 0.8);
    assert!(d.step.magnitude.max > 0.0 && d.episode.magnitude.max > 0.0);
    assert!(d.step.counts.n_groups > 3 && d.n_without_observation == 0);
}

#[test]
fn synthetic_rollouts_depend_on_shape_and_seed_alone() {
    let make = |text: &str, seed| synthetic(shape(text), seed).expect("a batch").tasks;
    let large = make("3x6x2x20", 5);
    assert_eq!(large, make("3x6x2x20", 5));
    assert_ne!(large, make("3x6x2x20", 6));
    // A larger batch contains the smaller one: growth compares like with like.
    assert_eq!(make("2x6x2x20", 5), large[..2]);
    for (small, large) in make("3x4x2x20", 5).iter().zip(&large) {
        for (a, b) in small.trajectories.iter().zip(&large.trajectories) {
            let texts = |t: &hunkwise::rollout::Trajectory| {
                t.sequences.iter().map(|s| s.text.clone()).collect::<Vec<_>>()
            };
            assert_eq!((&a.id, texts(a)), (&b.id, texts(b)));
        }
    }
    // No rollout is the copy of another.
    let texts: BTreeSet<&[u8]> = large
        .iter()
        .flat_map(|task| &task.trajectories)
        .flat_map(|t| t.sequences.iter().map(|s| s.text.as_slice()))
        .collect();
    assert_eq!(texts.len(), 3 * 6 * 2);
}

#[test]
fn a_shape_is_four_numbers_above_0_and_bounded() {
    for bad in ["", "6", "6x32x8", "6x32x8x50x1", "0x1x1x1", "1x1x1x0", "ax1x1x1", "-1x1x1x1"] {
        assert!(matches!(bad.parse::<Shape>(), Err(Error::Config { .. })), "{bad}");
    }
    for huge in
        ["1000x1000x1000x1000", "3000000x1x1x1", "4294967295x4294967295x4294967295x4294967295"]
    {
        assert!(matches!(huge.parse::<Shape>(), Err(Error::Limit { .. })), "{huge}");
    }
}

/// How much the edits of a task resemble each other, as `dev/synthetic.md` measures it on real attempts.
fn recurrence(task: &Task) -> BTreeMap<&'static str, f64> {
    let code = task_code::code_of(task).expect("code");
    let windows = Windows::all(&code, 32).expect("windows");
    let found = occurrences(&Device::cpu(), &code, &windows, None, &SimilarityConfig::default());
    let found = found.expect("occurrences");
    let n_rollouts = task.trajectories.len();
    let rollout_of = |turn: u32| code.turn_trajectory[turn as usize];
    let (mut distinct_lines, mut lone, mut equal, mut near, mut own) = (0, 0, 0.0, 0.0, 0.0);
    for candidate in 0..windows.len() as u32 {
        distinct_lines += usize::from(windows.first(candidate).len == 1);
        let places = windows.places(candidate);
        let home = rollout_of(code.roots[places[0].root as usize].turn);
        let items = &found.items[found.offsets[candidate as usize] as usize
            ..found.offsets[candidate as usize + 1] as usize];
        let of_equal: BTreeSet<u32> =
            places.iter().map(|span| rollout_of(code.roots[span.root as usize].turn)).collect();
        let of_near: BTreeSet<u32> = items.iter().map(|o| rollout_of(o.turn)).collect();
        let of_own = items.iter().filter(|o| rollout_of(o.turn) == home).count();
        let weight = places.len() as f64;
        equal += weight * (of_equal.len() - 1) as f64;
        near += weight * (of_near.len() - 1) as f64;
        own += weight * (of_own - 1) as f64;
        lone += usize::from(of_near.len() == 1);
    }
    let n_places = windows.n_places() as f64;
    let n_own = (code.n_turns() / n_rollouts - 1).max(1) as f64;
    BTreeMap::from([
        ("tokens of a line", code.tokens.len() as f64 / code.n_lines() as f64),
        ("distinct lines", distinct_lines as f64 / code.n_lines() as f64),
        ("distinct windows", windows.len() as f64 / n_places),
        ("windows of a start", windows.len() as f64 / code.n_lines() as f64),
        ("equal", equal / n_places / (n_rollouts - 1) as f64),
        ("near", near / n_places / (n_rollouts - 1) as f64),
        ("own turns", own / n_places / n_own),
        ("lone", lone as f64 / windows.len() as f64),
    ])
}

/// The bounds are the greatest and least quartile of real attempts in dev/synthetic.md, of those with one turn where
/// the made-up rollouts have one.
#[test]
fn synthetic_edits_recur_as_real_ones_do() {
    let bounds = [
        ("tokens of a line", 3.2..=8.4),
        ("distinct lines", 0.06..=0.36),
        ("distinct windows", 0.24..=0.93),
        ("windows of a start", 1.5..=9.2),
        ("equal", 0.009..=1.0),
        ("near", 0.03..=1.0),
        ("lone", 0.003..=0.78),
    ];
    for task in &synthetic(shape("3x20x1x60"), 1).expect("a batch").tasks {
        let figures = recurrence(task);
        for (figure, bounds) in bounds.clone() {
            assert!(bounds.contains(&figures[figure]), "{figure}: {}", figures[figure]);
        }
        // Neither all the same nor all different: between the medians of short programs and of classes.
        assert!(
            (0.1..=0.7).contains(&figures["near"]) && (0.02..=0.35).contains(&figures["equal"])
        );
    }
    // Turns of one rollout write other code than the ones before.
    for task in &synthetic(shape("2x6x8x30"), 1).expect("a batch").tasks {
        let figures = recurrence(task);
        assert!((0.0001..=0.1).contains(&figures["own turns"]), "{figures:?}");
        assert!(figures["near"] > 2.0 * figures["own turns"], "{figures:?}");
    }
}
