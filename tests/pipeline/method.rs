//! Parameters do what they say.

use hunkwise::advantage::{DiffForm, Returns, StepGroups};
use hunkwise::pipeline::{Config, Grouping, credit};
use hunkwise::{Device, Error};

use crate::rollouts::{batch, replace, row, rows, tokenized};

fn three() -> hunkwise::rollout::Batch {
    let good = replace("a.py", "pass", &["result = compute(values, scale=2)", "return result"]);
    let bad = replace("a.py", "pass", &["raise RuntimeError('some other day')"]);
    batch(vec![
        tokenized(row("t", "1", 0, &good, 1.0), 4),
        tokenized(row("t", "2", 0, &good, 0.0), 4),
        tokenized(row("t", "3", 0, &bad, 0.0), 4),
    ])
}

fn added(config: &Config) -> Vec<f32> {
    let credit = credit(&Device::cpu(), &three(), config).unwrap();
    let group = credit.tasks[0]
        .groups
        .iter()
        .find(|g| g.edit_type == hunkwise::edits::EditType::Add)
        .unwrap();
    group.members.iter().map(|m| m.advantage).collect()
}

#[test]
fn within_compares_members_and_contrast_compares_with_the_rest_of_the_task() {
    let mut config = Config::default();
    assert_eq!(added(&config), [0.5, -0.5]);
    config.advantage.diff = DiffForm::Contrast;
    // Leave-one-out means 0 and 1, minus the mean 0 of the turn outside.
    assert_eq!(added(&config), [0.0, 1.0]);
}

#[test]
fn none_is_grpo() {
    let config = Config { grouping: Grouping::None, ..Config::default() };
    let batch = three();
    let credit = credit(&Device::cpu(), &batch, &config).unwrap();
    assert!(credit.tasks[0].groups.is_empty());
    for (trajectory, of) in batch.tasks[0].trajectories.iter().zip(&credit.tasks[0].trajectories) {
        let dense =
            of.sequences[0].dense(trajectory.sequences[0].tokens.as_ref().unwrap()).unwrap();
        assert!(dense.iter().all(|a| *a == of.episode));
    }
    // Scores 1, 0, 0: mean 1/3, sample standard deviation 0.57735027.
    let expected = [1.154_698_5, -0.577_349_3, -0.577_349_3];
    for (of, expected) in credit.tasks[0].trajectories.iter().zip(expected) {
        assert!((of.episode - expected).abs() < 1e-6, "{} {expected}", of.episode);
    }
}

#[test]
fn exact_groups_only_equal_windows() {
    let near = |n: usize| {
        replace(
            "a.py",
            "pass",
            &[&format!("answer = solve(problem, depth={n}, width=10, seed=7, retries=3)")],
        )
    };
    let batch = batch(vec![row("t", "1", 0, &near(1), 1.0), row("t", "2", 0, &near(2), 0.0)]);
    let count = |grouping| {
        let credit =
            credit(&Device::cpu(), &batch, &Config { grouping, ..Config::default() }).unwrap();
        credit.tasks[0]
            .groups
            .iter()
            .filter(|g| g.edit_type == hunkwise::edits::EditType::Add)
            .count()
    };
    assert_eq!(count(Grouping::Exact), 0);
    assert_eq!(count(Grouping::Windows), 1);
}

#[test]
fn a_repeated_diff_of_one_trajectory_gets_no_second_credit() {
    let edit = replace("a.py", "pass", &["x = first_step(7)", "y = second_step(x)"]);
    let batch = batch(vec![
        row("t", "1", 0, &edit, 0.0),
        row("t", "1", 1, &edit, 1.0),
        row("t", "2", 0, &edit, 0.0),
    ]);
    let mut config = Config::default();
    let gated = credit(&Device::cpu(), &batch, &config).unwrap();
    assert!(gated.tasks[0].groups.iter().all(|g| g.members.len() == 2));
    assert!(gated.tasks[0].notes.iter().any(|n| n.note.kind == "re_emission"));
    config.edits.diff_gate = false;
    let open = credit(&Device::cpu(), &batch, &config).unwrap();
    assert!(open.tasks[0].groups.iter().any(|g| g.members.len() == 3));
}

#[test]
fn discounted_returns_reach_the_group() {
    let first = replace("a.py", "pass", &["alpha = load_table('alpha.csv')"]);
    let batch = batch(vec![
        row("t", "1", 0, &first, 0.0),
        row("t", "1", 1, "no edit here", 1.0),
        row("t", "2", 0, &first, 0.0),
    ]);
    let mut config = Config::default();
    config.advantage.gamma = 0.5;
    let returns = |config: &Config| -> Vec<Option<f64>> {
        let credit = credit(&Device::cpu(), &batch, config).unwrap();
        credit.tasks[0].groups[0].members.iter().map(|m| m.turn_return).collect()
    };
    assert_eq!(returns(&config), [Some(0.5), Some(0.0)]);
    config.advantage.returns = Returns::Outcome;
    assert_eq!(returns(&config), [Some(1.0), Some(0.0)]);
}

#[test]
fn step_groups_reach_the_tokens() {
    let mut rows = vec![row("t", "1", 0, "one", 1.0), row("t", "2", 0, "two", 0.0)];
    for row in &mut rows {
        row.sequence.turns[0].observation = Some("ls\nmain.py".to_string());
    }
    let batch = batch(rows.into_iter().map(|row| tokenized(row, 1)).collect());
    let mut config = Config { grouping: Grouping::None, ..Config::default() };
    config.advantage.step = StepGroups::Exact;
    config.advantage.eps = 0.0;
    config.advantage.omega = 3.0;
    let credit = credit(&Device::cpu(), &batch, &config).unwrap();
    let tokens = batch.tasks[0].trajectories[0].sequences[0].tokens.as_ref().unwrap();
    let dense = credit.tasks[0].trajectories[0].sequences[0].dense(tokens).unwrap();
    // A^E = 0.70710678, A^S the same, omega 3.
    assert!(
        dense.iter().all(|a| (a - 4.0 * std::f32::consts::FRAC_1_SQRT_2).abs() < 1e-6),
        "{dense:?}"
    );
}

#[test]
fn a_parameter_outside_its_range_is_named() {
    let mut config = Config::default();
    config.similarity.eta = 1.5;
    match credit(&Device::cpu(), &three(), &config) {
        Err(Error::Config { op: "similarity", name: "eta", got, .. }) => assert_eq!(got, "1.5"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn configuration_round_trips_through_toml_and_refuses_unknown_keys() {
    let mut config = Config { max_lines: 7, ..Config::default() };
    config.advantage.lambda = 0.25;
    let text = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
    assert!(
        toml::from_str::<Config>("[advantage]\nlamda = 1.0\n")
            .unwrap_err()
            .to_string()
            .contains("lamda")
    );
}

#[test]
fn diagnostics_count_what_the_credit_holds() {
    let batch = batch(rows(7, 2, 5, 2));
    let credit = credit(&Device::cpu(), &batch, &Config::default()).unwrap();
    let d = &credit.diagnostics;
    let groups: Vec<_> = credit.tasks.iter().flat_map(|t| &t.groups).collect();
    assert_eq!((d.n_tasks, d.n_trajectories, d.n_turns), (2, 10, 20));
    assert_eq!(d.diff.counts.n_groups as u64, groups.len() as u64);
    assert!(!groups.is_empty());
    let n_lines: u64 = groups.iter().flat_map(|g| &g.members).map(|m| u64::from(m.n_lines)).sum();
    assert_eq!(d.n_covered_lines, n_lines);
    assert!(d.n_covered_lines <= d.n_lines);
    assert_eq!(d.n_trained_tokens, d.n_tokens);
    assert!(d.n_covered_tokens > 0 && d.n_covered_tokens < d.n_tokens);
    let metrics = d.metrics();
    let of = |name: &str| metrics.iter().find(|(n, _)| n == name).unwrap().1;
    assert_eq!(of("hunkwise/diff/groups"), groups.len() as f64);
    assert_eq!(of("hunkwise/trajectories"), 10.0);
    assert!(metrics.iter().all(|(_, value)| value.is_finite()));
}

#[test]
fn figures_of_advantages_are_over_scored_members() {
    let shared = replace("a.py", "pass", &["return compute(values, scale=2)"]);
    let unscored = |trajectory: &str, text: &str| {
        let mut row = row("t", trajectory, 0, text, 0.0);
        row.sequence.turns[0].reward = None;
        row
    };
    // A group of the returns 1, 0 and none; and one in which no member has a return.
    let other = replace("b.py", "break", &["raise RuntimeError('some other day')"]);
    let mut batch = batch(vec![
        row("t", "1", 0, &shared, 1.0),
        row("t", "2", 0, &shared, 0.0),
        unscored("3", &shared),
        unscored("4", &other),
        unscored("5", &other),
    ]);
    for trajectory in &mut batch.tasks[0].trajectories {
        for turn in trajectory.sequences.iter_mut().flat_map(|sequence| &mut sequence.turns) {
            turn.observation = Some("the same".into());
        }
    }
    let mut config = Config::default();
    config.advantage.step = StepGroups::Exact;
    let d = credit(&Device::cpu(), &batch, &config).unwrap().diagnostics;

    // What is added and what is taken out, twice.
    assert_eq!(d.diff.counts.n_groups, 4);
    assert_eq!((d.diff.size.n, d.diff.size.min, d.diff.size.max), (4, 2.0, 3.0));
    assert_eq!((d.diff.magnitude.n, d.diff.magnitude.min, d.diff.magnitude.mean), (4, 0.5, 0.5));
    assert_eq!(d.diff_within, d.diff.magnitude.mean);
    assert_eq!((d.return_spread.n, d.return_spread.min, d.return_spread.max), (2, 1.0, 1.0));
    assert_eq!((d.step.size.n, d.step.size.max, d.step.magnitude.n), (1, 5.0, 2));
    assert_eq!((d.episode.size.max, d.episode.magnitude.n), (5.0, 2));
}

#[test]
fn opcodes_groups_what_difflib_lines_up() {
    let text = |lines: &[&str]| replace("a.py", "pass", lines);
    let rows = vec![
        tokenized(
            row(
                "t",
                "1",
                0,
                &text(&["first = compute(alpha, beta, gamma)", "total = 0", "return total"]),
                1.0,
            ),
            4,
        ),
        tokenized(
            row(
                "t",
                "2",
                0,
                &text(&["while queue: visit(queue.pop())", "total = 0", "return total"]),
                0.0,
            ),
            4,
        ),
        tokenized(row("t", "3", 0, &text(&["raise Missing"]), 0.0), 4),
    ];
    let config = Config { grouping: Grouping::Opcodes, ..Config::default() };
    let credit = credit(&Device::cpu(), &batch(rows), &config).unwrap();
    let groups: Vec<_> = credit.tasks[0]
        .groups
        .iter()
        .map(|group| {
            let members = group.members.iter();
            (
                group.mean_lines,
                members.map(|m| (m.turn.trajectory, m.advantage)).collect::<Vec<_>>(),
            )
        })
        .collect();
    // `pass` is deleted in all three, and two lines are equal in two of them.
    let (third, two_thirds) = (1.0_f32 / 3.0, 2.0_f32 / 3.0);
    assert_eq!(groups.len(), 2);
    assert!(groups.contains(&(2.0, vec![(0, 0.5), (1, -0.5)])), "{groups:?}");
    assert!(groups.contains(&(1.0, vec![(0, two_thirds), (1, -third), (2, -third)])), "{groups:?}");
}

#[test]
fn opcodes_refuses_what_it_does_not_take() {
    let mut config = Config { grouping: Grouping::Opcodes, ..Config::default() };
    config.similarity.embedding_weight = 0.3;
    let told = config.validate().unwrap_err().to_string();
    assert_eq!(
        told,
        "grouping = opcodes: `embedding_weight` is 0.3; it must be 0: texts are compared by characters"
    );
    config.similarity.embedding_weight = 0.0;
    config.anchors.groupability = hunkwise::anchors::Groupability::Log;
    let told = config.validate().unwrap_err().to_string();
    assert_eq!(told, "grouping = opcodes: `groupability` is log; it must be exponential");
}
