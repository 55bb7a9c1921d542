//! All matching pairs of windows of a task given as JSON, for a check against a peer (dev/peers/rapidfuzz_pairs.py).
//!
//! In: `{"roots": [{"turn": 0, "lines": [[1, 2], [3]]}, …]}`, lines as token numbers, roots by turn.
//! Out, on standard output: `{"windows": [[1, 2], …], "pairs": [[0, 1], …]}`. Times go to standard error.
//!
//! `cargo run --release --example window_pairs -- task.json 0.8 > pairs.json`

use std::collections::HashMap;
use std::time::Instant;

use hunkwise::Device;
use hunkwise::code::{Root, TaskCode, Windows};
use hunkwise::edits::EditType;
use hunkwise::similarity::{LineVectors, SimilarityConfig, matches, occurrences};

#[derive(serde::Deserialize)]
struct Task {
    roots: Vec<TaskRoot>,
}

#[derive(serde::Deserialize)]
struct TaskRoot {
    turn: u32,
    lines: Vec<Vec<u32>>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, eta] = &arguments[..] else {
        return Err("usage: window_pairs TASK.json ETA".into());
    };
    let task: Task = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let config = SimilarityConfig { eta: eta.parse()?, ..SimilarityConfig::default() };
    let code = code_of(&task);
    let windows = Windows::all(&code, 32)?;
    let places: u64 = (0..windows.len()).map(|c| windows.places(c).len() as u64).sum();
    let device = Device::cpu();

    let begun = Instant::now();
    let found = occurrences(&device, &code, &windows, None, &config)?;
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!(
        "{} windows, {places} places; {} occurrences in {seconds:.3} s: {:.0} M pairs of places a second",
        windows.len(),
        found.items.len(),
        (places * places.saturating_sub(1) / 2) as f64 / seconds / 1e6,
    );
    let begun = Instant::now();
    let pairs = matches(&device, &code, &windows, None, &config)?;
    eprintln!("{} matching pairs in {:.3} s", pairs.len(), begun.elapsed().as_secs_f64());
    let vectors = LineVectors::hashed(&code, config.embedding_dim)?;
    let blended = SimilarityConfig { embedding_weight: 0.3, ..config };
    let begun = Instant::now();
    let found = occurrences(&device, &code, &windows, Some(&vectors), &blended)?;
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{} occurrences with line vectors (weight 0.3) in {seconds:.3} s", found.items.len());

    let windows: Vec<&[u32]> =
        (0..windows.len()).map(|c| code.tokens_of(windows.first(c))).collect();
    let pairs: Vec<[u32; 2]> = pairs.into_iter().map(|pair| [pair.a, pair.b]).collect();
    println!("{}", serde_json::json!({ "windows": windows, "pairs": pairs }));
    Ok(())
}

fn code_of(task: &Task) -> TaskCode {
    let mut code = TaskCode { line_tokens: vec![0], root_lines: vec![0], ..TaskCode::default() };
    let mut tokens = HashMap::new();
    let mut lines: HashMap<&[u32], u32> = HashMap::new();
    for root in &task.roots {
        for line in &root.lines {
            for token in line {
                let next = tokens.len() as u32;
                code.tokens.push(*tokens.entry(*token).or_insert(next));
                if next < tokens.len() as u32 {
                    code.vocabulary.push(token.to_string().into_bytes().into());
                }
            }
            code.line_tokens.push(code.tokens.len() as u32);
            let next = lines.len() as u32;
            code.line_ids.push(*lines.entry(line).or_insert(next));
            code.line_bytes.push(0..0);
        }
        code.root_lines.push(code.line_ids.len() as u32);
        code.roots.push(Root { turn: root.turn, edit_type: EditType::Add, path: String::new() });
        code.turn_trajectory.resize(root.turn as usize + 1, 0);
    }
    code
}
