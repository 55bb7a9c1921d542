//! Readers of dumps, on small files written by hand, and bad input. Text and offsets are literals; what tokens spell was
//! taken from the Python package `tokenizers` 0.23.3 on the same files.

mod bad_input;
mod cases;
mod formats;

use std::path::PathBuf;

use hunkwise::Error;
use hunkwise::error::Place;
use hunkwise::rollout::{
    Batch, DumpFormat, Key, ReadOptions, Row, Sequence, Tokens, Trajectory, Turn, read_files,
    read_from,
};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", "rollout", name].iter().collect()
}

#[cfg(feature = "tokenizers")]
fn with_tokenizer(name: &str) -> ReadOptions {
    ReadOptions { tokenizer: Some(fixture(name)), ..ReadOptions::default() }
}

fn file(name: &str, options: &ReadOptions) -> Batch {
    read_files(&[fixture(name)], options, &mut |_| {}).unwrap()
}

fn text(lines: &str) -> Batch {
    read_from(lines.as_bytes(), "in", &ReadOptions::default()).unwrap()
}

fn error(lines: &[u8]) -> String {
    read_from(lines, "in", &ReadOptions::default()).unwrap_err().to_string()
}

/// One usable row before the given ones, so that a bad row is flagged and not the whole file refused.
fn flags(lines: &str) -> Vec<String> {
    let batch = text(&format!("{{\"task\": \"good\", \"text\": \"g\"}}\n{lines}\n"));
    assert_eq!(
        batch.tasks.iter().filter(|task| task.id == "good").count(),
        1,
        "the good row is lost"
    );
    batch.flagged.iter().map(|flagged| format!("{}: {}", flagged.place, flagged.reason)).collect()
}

fn ids(batch: &Batch) -> Vec<(&str, Vec<&str>)> {
    batch
        .tasks
        .iter()
        .map(|task| {
            (
                task.id.as_str(),
                task.trajectories.iter().map(|trajectory| trajectory.id.as_str()).collect(),
            )
        })
        .collect()
}

fn texts(trajectory: &Trajectory) -> Vec<&str> {
    trajectory
        .sequences
        .iter()
        .map(|sequence| std::str::from_utf8(&sequence.text).unwrap())
        .collect()
}

fn turn_texts(sequence: &Sequence) -> Vec<&str> {
    sequence
        .turns
        .iter()
        .map(|turn| std::str::from_utf8(&sequence.text[turn.bytes.clone()]).unwrap())
        .collect()
}

fn observations(sequence: &Sequence) -> Vec<&str> {
    sequence.turns.iter().map(|turn| turn.observation.as_deref().unwrap()).collect()
}

fn tokens(sequence: &Sequence) -> (&[u32], Vec<u8>) {
    let Tokens { byte_ends, mask } = sequence.tokens.as_ref().unwrap();
    (byte_ends, mask.iter().map(|&bit| bit.into()).collect())
}
