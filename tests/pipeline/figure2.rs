//! The situation of the paper's Figure 2: two diffs that differ as wholes and share a sub-diff exactly.

use hunkwise::Device;
use hunkwise::pipeline::{Config, Grouping, credit};

use crate::rollouts::{batch, replace, row};

const SHARED: [&str; 4] = [
    "def clamp(value, low, high):",
    "    if low > high:",
    "        raise ValueError('empty range')",
    "    return max(low, min(high, value))",
];

fn rollouts() -> hunkwise::rollout::Batch {
    let mut first = vec![
        "import os, sys, json, shutil, pathlib, argparse",
        "CACHE = pathlib.Path.home() / '.cache' / 'tool'",
    ];
    first.extend(SHARED);
    first.push("shutil.rmtree(CACHE, ignore_errors=True); os.makedirs(CACHE, exist_ok=True)");
    let mut second = vec![
        "from dataclasses import dataclass, field, asdict",
        "@dataclass(frozen=True, order=True, slots=True)",
    ];
    second.extend(SHARED);
    second
        .push("assert [clamp(i, 2, 4) for i in range(6)] == [2, 2, 2, 3, 4, 4], 'clamp is broken'");
    batch(vec![
        row("clamp", "a", 0, &replace("tool.py", "pass", &first), 1.0),
        row("clamp", "b", 0, &replace("tool.py", "pass", &second), 0.0),
    ])
}

fn config(grouping: Grouping) -> Config {
    let mut config = Config { grouping, ..Config::default() };
    config.similarity.eta = 0.9;
    config
}

#[test]
fn whole_diffs_give_no_group_of_added_lines() {
    let credit = credit(&Device::cpu(), &rollouts(), &config(Grouping::Whole)).unwrap();
    let added: Vec<_> = credit.tasks[0]
        .groups
        .iter()
        .filter(|g| g.edit_type == hunkwise::edits::EditType::Add)
        .collect();
    assert!(added.is_empty(), "{added:?}");
}

#[test]
fn windows_group_the_shared_part_and_only_it() {
    let batch = rollouts();
    let credit = credit(&Device::cpu(), &batch, &config(Grouping::Windows)).unwrap();
    let added: Vec<_> = credit.tasks[0]
        .groups
        .iter()
        .filter(|g| g.edit_type == hunkwise::edits::EditType::Add)
        .collect();
    assert_eq!(added.len(), 1, "{added:?}");
    let group = added[0];
    assert_eq!(group.members.len(), 2);
    let expected = SHARED.join("\n") + "\n";
    for member in &group.members {
        assert_eq!(member.n_lines, 4);
        assert_eq!(member.similarity, 1.0);
        let text = &batch.tasks[0].trajectories[member.turn.trajectory].sequences[0].text;
        let text: Vec<u8> = member.bytes.iter().flat_map(|b| text[b.clone()].to_vec()).collect();
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
    // Returns 1 and 0, mean 0.5: the paper's A^D(s) = R - mean.
    assert_eq!(group.members[0].advantage, 0.5);
    assert_eq!(group.members[1].advantage, -0.5);
}

#[test]
fn credit_of_the_shared_part_is_episode_plus_lambda_times_diff() {
    let batch = rollouts();
    let mut config = config(Grouping::Windows);
    config.advantage.lambda = 2.0;
    config.advantage.eps = 0.0;
    let credit = credit(&Device::cpu(), &batch, &config).unwrap();
    let good = &credit.tasks[0].trajectories[0];
    // (1 - 0.5) / sample standard deviation 0.70710678.
    assert!((good.episode - std::f32::consts::FRAC_1_SQRT_2).abs() < 1e-7, "{}", good.episode);
    let span = &good.sequences[0].byte_spans.iter().find(|s| s.advantage != 0.0).unwrap();
    assert_eq!(span.advantage, 1.0);
}
