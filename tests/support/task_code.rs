//! The code of one task as the pipeline makes it, for what looks at the operations after it.

use hunkwise::Result;
use hunkwise::code::{TaskCode, TaskCodeBuilder};
use hunkwise::edits::{EditConfig, FileVersions, parse};
use hunkwise::rollout::Task;

pub(crate) fn code_of(task: &Task) -> Result<TaskCode> {
    let config = EditConfig::default();
    let mut builder = TaskCodeBuilder::new();
    for (trajectory_idx, trajectory) in task.trajectories.iter().enumerate() {
        let mut versions = FileVersions::default();
        for sequence in &trajectory.sequences {
            for turn in &sequence.turns {
                builder.begin_turn(trajectory_idx as u32);
                let parsed = parse(&sequence.text[turn.bytes.clone()], &config);
                for root in versions.roots(&parsed.edits, &config).roots {
                    builder.push_root(&root, turn.bytes.start);
                }
            }
        }
    }
    builder.finish()
}
