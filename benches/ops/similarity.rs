//! Time of each operation on made-up tasks. Every benchmark first checks its result against the reference on a small
//! shape, so that nothing wrong is timed.
//!
//! `cargo bench --bench ops -- window_similarity`; `RAYON_NUM_THREADS=1` for one core.

#[path = "../../tests/support/tasks.rs"]
#[allow(dead_code)]
mod tasks;

use criterion::{Criterion, Throughput};
use hunkwise::Device;
use hunkwise::code::{TaskCode, Windows};
use hunkwise::reference::similarity as reference;
use hunkwise::similarity::{
    LineVectors, Match, Ragged, SimilarityConfig, occurrences, pair_similarity,
};
use tasks::{Random, Shape, random_task};

/// Rollouts of one program, edited here and there: `n_turns` roots of up to `n_lines` lines.
fn program(seed: u64, n_turns: u64, n_lines: u64) -> TaskCode {
    let shape = Shape {
        n_turns,
        max_roots_per_turn: 2,
        max_root_lines: n_lines,
        n_lines: n_lines * 2 / 3 + 1,
        max_line_tokens: 14,
        n_symbols: 150,
        n_types: 1,
    };
    random_task(&mut Random(seed), shape)
}

/// Every window of up to 32 lines against every other; throughput in pairs of places.
pub(crate) fn window_similarity(criterion: &mut Criterion) {
    let device = Device::cpu();
    let mut group = criterion.benchmark_group("window_similarity");
    group.sample_size(10);
    for (name, weight) in [("tokens", 0.0), ("tokens and line vectors", 0.3)] {
        let config = SimilarityConfig { embedding_weight: weight, ..SimilarityConfig::default() };
        let run = |code: &TaskCode, windows: &Windows, vectors: &LineVectors| {
            occurrences(&device, code, windows, Some(vectors), &config).expect("valid input")
        };
        let prepare = |code: &TaskCode| {
            let windows = Windows::all(code, 32).expect("a small task");
            (windows, LineVectors::hashed(code, 256).expect("a valid dimension"))
        };
        let small = program(1, 4, 12);
        let (windows, vectors) = prepare(&small);
        let expected = reference::occurrences(&small, &windows, Some(&vectors), &config);
        assert_eq!(run(&small, &windows, &vectors), expected);

        let code = program(2, 20, 60);
        let (windows, vectors) = prepare(&code);
        let n_places: u64 = (0..windows.len()).map(|c| windows.places(c as u32).len() as u64).sum();
        group.throughput(Throughput::Elements(n_places * (n_places - 1) / 2));
        group.bench_function(name, |bencher| bencher.iter(|| run(&code, &windows, &vectors)));
    }
    group.finish();
}

/// A list of token sequences against itself; throughput in pairs.
pub(crate) fn pair_similarity_of_a_list(criterion: &mut Criterion) {
    let device = Device::cpu();
    let list = |code: &TaskCode| {
        let windows = Windows::all(code, 8).expect("a small task");
        let mut offsets = vec![0];
        let mut tokens = vec![];
        for candidate in 0..windows.len() {
            tokens.extend_from_slice(code.tokens_of(windows.first(candidate as u32)));
            offsets.push(tokens.len() as u32);
        }
        (tokens, offsets)
    };
    let run = |(tokens, offsets): &(Vec<u32>, Vec<u32>)| {
        pair_similarity(&device, Ragged { tokens, offsets }, 0.8, 1 << 30).expect("valid input")
    };

    // A character for each decimal digit of a token, and one between tokens.
    let characters = |(tokens, offsets): &(Vec<u32>, Vec<u32>)| {
        let mut characters = vec![];
        let mut ends = vec![0];
        for item in offsets.windows(2) {
            for token in &tokens[item[0] as usize..item[1] as usize] {
                characters.extend(format!("{token} ").bytes().map(u32::from));
            }
            ends.push(characters.len() as u32);
        }
        (characters, ends)
    };

    let small = list(&program(1, 4, 12));
    for (tokens, offsets) in [characters(&small), small] {
        let item = |i: usize| &tokens[offsets[i] as usize..offsets[i + 1] as usize];
        let mut expected = vec![];
        for a in 0..offsets.len() - 1 {
            for b in a + 1..offsets.len() - 1 {
                if reference::indel_similarity(item(a), item(b)) >= 0.8 {
                    let lcs = reference::lcs(item(a), item(b));
                    expected.push(Match { a: a as u32, b: b as u32, lcs });
                }
            }
        }
        assert!(!expected.is_empty());
        assert_eq!(run(&(tokens.clone(), offsets.clone())), expected);
    }

    let items = list(&program(2, 20, 60));
    let n_items = items.1.len() as u64 - 1;
    let mut group = criterion.benchmark_group("pair_similarity");
    group.sample_size(10).throughput(Throughput::Elements(n_items * (n_items - 1) / 2));
    group.bench_function("list", |bencher| bencher.iter(|| run(&items)));
    let items = characters(&items);
    group.bench_function("list of characters", |bencher| bencher.iter(|| run(&items)));
    group.finish();
}
