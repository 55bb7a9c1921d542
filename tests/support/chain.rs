//! The reference of every stage, one after the other: what the pipeline must give for a task.

use hunkwise::advantage::{Cover, Estimator, trajectory_score, turn_returns};
use hunkwise::code::{TaskCode, TaskCodeBuilder, Windows};
use hunkwise::edits::{FileVersions, parse};
use hunkwise::pipeline::{Config, TaskCredit};
use hunkwise::reference;
use hunkwise::rollout::Task;

/// Panics where the credit of a task, of rows with one turn each and known tokens, differs from the reference.
pub(crate) fn check_task(task: &Task, got: &TaskCredit, config: &Config) {
    let code = code_of(task, config);
    let windows = Windows::all(&code, config.max_lines).expect("a small task");
    let occurrences = reference::similarity::occurrences(&code, &windows, None, &config.similarity);
    let anchors = reference::anchors::select(&code, &occurrences, &config.anchors).anchors;
    assert_eq!(got.groups.len(), anchors.len(), "groups of {}", task.id);

    let scores: Vec<Option<f64>> = task.trajectories.iter().map(trajectory_score).collect();
    let returns: Vec<Option<f64>> =
        task.trajectories.iter().flat_map(|t| turn_returns(t, &config.advantage)).collect();
    let a = &config.advantage;
    assert_eq!(a.episode, Estimator::Grpo);
    let episode =
        reference::advantage::group(&scores, &vec![1; scores.len()], a.episode, a.eps, a.ddof);

    // Rows in the order of their turns: (trajectory, sequence) and the covers of each.
    let rows: Vec<(usize, usize)> = task
        .trajectories
        .iter()
        .enumerate()
        .flat_map(|(t, trajectory)| (0..trajectory.sequences.len()).map(move |s| (t, s)))
        .collect();
    let mut covers: Vec<Vec<Cover>> = vec![Vec::new(); rows.len()];
    let mut member_id = 0;
    for (anchor, ((_, score, members), group)) in anchors.iter().zip(&got.groups).enumerate() {
        assert_eq!(group.score.to_bits(), score.to_bits(), "groupability of group {anchor}");
        let turns: Vec<u32> = members.iter().map(|member| member.turn).collect();
        let diff = reference::advantage::diff(&turns, &returns, a.diff, a);
        assert_eq!(group.members.len(), members.len());
        for ((member, advantage), got) in members.iter().zip(diff).zip(&group.members) {
            assert_eq!((got.turn.trajectory, got.turn.sequence), rows[member.turn as usize]);
            assert_eq!(got.similarity.to_bits(), member.similarity.to_bits());
            assert!((f64::from(got.advantage) - advantage).abs() < 1e-6, "{got:?} {advantage}");
            for bytes in code.bytes_of(member.span) {
                covers[member.turn as usize].push(Cover {
                    bytes,
                    member: member_id,
                    // The pipeline's own f32, so that the projection can be held to the last bit.
                    advantage: (a.lambda * f64::from(got.advantage)) as f32,
                    anchor: anchor as u32,
                    score: *score,
                });
            }
            member_id += 1;
        }
    }
    for (&(t, s), covers) in rows.iter().zip(&covers) {
        assert!((got.trajectories[t].episode - episode[t]).abs() < 1e-6);
        let sequence = &task.trajectories[t].sequences[s];
        let expected =
            reference::advantage::dense(sequence, got.trajectories[t].episode, covers, None);
        let tokens = sequence.tokens.as_ref().expect("known tokens");
        let dense = got.trajectories[t].sequences[s].dense(tokens).expect("the same tokens");
        assert_eq!(dense, expected, "row {s} of trajectory {t}");
    }
}

fn code_of(task: &Task, config: &Config) -> TaskCode {
    let mut builder = TaskCodeBuilder::new();
    for (trajectory_idx, trajectory) in task.trajectories.iter().enumerate() {
        let mut versions = FileVersions::default();
        for sequence in &trajectory.sequences {
            assert_eq!(sequence.turns.len(), 1);
            builder.begin_turn(trajectory_idx as u32);
            let parsed = parse(&sequence.text, &config.edits);
            for root in versions.roots(&parsed.edits, &config.edits).roots {
                builder.push_root(&root, 0);
            }
        }
    }
    builder.finish().expect("a small task")
}
