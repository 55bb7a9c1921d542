//! Dumps the candidate windows of each task and the pairs that match, for a peer to check.
//!
//! `cargo run --example dump_pairs -- --eta 0.8 FILES > pairs.jsonl`: one JSON object per task, edit type and eta with
//! `tokens` (the code tokens of each candidate) and `pairs` (candidates a < b with similarity >= eta).

#[path = "../tests/support/task_code.rs"]
mod task_code;

use std::io::Write;
use std::path::PathBuf;

use hunkwise::code::Windows;
use hunkwise::edits::EditType;
use hunkwise::rollout::{ReadOptions, read_files};
use hunkwise::similarity::{SimilarityConfig, matches};
use hunkwise::{Device, Result};

fn main() -> Result<()> {
    let (mut etas, mut files, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--eta" => etas.extend(args.next().and_then(|eta| eta.parse::<f64>().ok())),
            "--task" => tasks.extend(args.next()),
            _ => files.push(PathBuf::from(arg)),
        }
    }
    let batch = read_files(&files, &ReadOptions::default(), &mut |_| {})?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for task in batch.tasks.iter().filter(|task| tasks.is_empty() || tasks.contains(&task.id)) {
        let code = task_code::code_of(task)?;
        let windows = Windows::all(&code, 32)?;
        for &eta in &etas {
            let config = SimilarityConfig { eta, ..SimilarityConfig::default() };
            let pairs = matches(&Device::cpu(), &code, &windows, None, &config)?;
            for edit_type in [EditType::Add, EditType::Delete, EditType::Overwrite] {
                let of_type: Vec<u32> = (0..windows.len() as u32)
                    .filter(|&c| code.roots[windows.first(c).root as usize].edit_type == edit_type)
                    .collect();
                // Candidates are numbered by edit type first, so those of one type are neighbours.
                let Some(&first) = of_type.first() else { continue };
                let tokens: Vec<&[u32]> =
                    of_type.iter().map(|&c| code.tokens_of(windows.first(c))).collect();
                let of_type_pairs: Vec<[u32; 2]> = pairs
                    .iter()
                    .filter(|m| (first..first + of_type.len() as u32).contains(&m.a))
                    .map(|m| [m.a - first, m.b - first])
                    .collect();
                let row = serde_json::json!({
                    "task": format!("{} ({edit_type:?})", task.id), "eta": eta, "tokens": tokens, "pairs": of_type_pairs,
                });
                writeln!(out, "{row}").expect("standard output takes the dump");
            }
        }
    }
    Ok(())
}
