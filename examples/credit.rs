//! Byte spans with credit of their own, from a dump: `cargo run --example credit -- FILES`.
//!
//! Each span's number is lambda · A^D; every other byte of the row has A^E alone.

use std::path::PathBuf;

use hunkwise::rollout::{ReadOptions, read_files};
use hunkwise::{Config, Device};

fn main() -> hunkwise::Result<()> {
    let files: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let batch = read_files(&files, &ReadOptions::default(), &mut |_bytes| {})?;
    let credit = hunkwise::credit(&Device::cpu(), &batch, &Config::default())?;
    for (task, of_task) in batch.tasks.iter().zip(&credit.tasks) {
        println!("{}: {} groups", task.id, of_task.groups.len());
        for (trajectory, of_trajectory) in task.trajectories.iter().zip(&of_task.trajectories) {
            for (sequence, of_sequence) in trajectory.sequences.iter().zip(&of_trajectory.sequences)
            {
                println!("  {} A^E {:+.3}", trajectory.id, of_trajectory.episode);
                for span in &of_sequence.byte_spans {
                    let text = String::from_utf8_lossy(&sequence.text[span.bytes.clone()]);
                    println!(
                        "    {:+.3} on {:?}",
                        span.advantage,
                        text.lines().next().unwrap_or_default()
                    );
                }
            }
        }
    }
    Ok(())
}
