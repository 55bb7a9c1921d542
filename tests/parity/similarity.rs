//! Similarity against its plain reference: every SIMD set, one thread and two, with and without embeddings.

use hunkwise::Device;
use hunkwise::backend::cpu::{Cpu, Simd};
use hunkwise::code::{TaskCode, Windows};
use hunkwise::reference::similarity as reference;
use hunkwise::similarity::{
    LineVectors, Ragged, SimilarityConfig, matches, occurrences, pair_similarity,
};

use crate::devices::{devices, others};
use crate::tasks::{Random, Shape, random_task, task};

/// Every way to run: instructions x threads, and every device beside the host.
fn everywhere(check: impl Fn(&Device) + Sync) {
    for simd in [Simd::Scalar, Simd::Avx2, Simd::Avx512] {
        if simd > Simd::detect() {
            println!("skipped: {simd:?} is not on this processor");
            continue;
        }
        for n_threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            pool.install(|| check(&Device::Cpu(Cpu::with_simd(simd))));
        }
    }
    others().iter().for_each(check);
}

fn check(
    code: &TaskCode,
    windows: &Windows,
    vectors: Option<&LineVectors>,
    config: &SimilarityConfig,
) {
    let expected = reference::occurrences(code, windows, vectors, config);
    let expected_matches = reference::matches(code, windows, vectors, config);
    assert_eq!(expected.len(), windows.len());
    everywhere(|device| {
        let found = occurrences(device, code, windows, vectors, config).unwrap();
        for candidate in 0..windows.len() {
            assert_eq!(
                found.of(candidate),
                expected.of(candidate),
                "candidate {candidate}, {config:?}"
            );
        }
        assert_eq!(found, expected);
        assert_eq!(matches(device, code, windows, vectors, config).unwrap(), expected_matches);
    });
}

const SMALL: Shape = Shape {
    n_turns: 5,
    max_roots_per_turn: 2,
    max_root_lines: 10,
    n_lines: 6,
    max_line_tokens: 5,
    n_symbols: 12,
    n_types: 3,
};

fn with_eta(eta: f64) -> SimilarityConfig {
    SimilarityConfig { eta, ..SimilarityConfig::default() }
}

#[test]
fn near_copies_of_one_program() {
    let mut random = Random(1);
    for round in 0..60 {
        let code = random_task(&mut random, SMALL);
        for max_lines in [1, 3, 32] {
            let windows = Windows::all(&code, max_lines).unwrap();
            check(&code, &windows, None, &with_eta([0.3, 0.5, 0.8, 0.9, 1.0][round % 5]));
        }
    }
}

#[test]
fn whole_roots_alone() {
    let mut random = Random(2);
    for _ in 0..20 {
        let code = random_task(&mut random, Shape { n_turns: 9, ..SMALL });
        check(&code, &Windows::whole(&code).unwrap(), None, &with_eta(0.6));
    }
}

#[test]
fn roots_of_one_line() {
    let mut random = Random(3);
    for eta in [0.4, 0.8] {
        let code = random_task(&mut random, Shape { n_turns: 30, max_root_lines: 1, ..SMALL });
        check(&code, &Windows::all(&code, 32).unwrap(), None, &with_eta(eta));
    }
}

#[test]
fn lines_longer_than_a_word_and_patterns_of_many_words() {
    let mut random = Random(4);
    let long_lines = Shape {
        n_turns: 3,
        max_roots_per_turn: 1,
        max_root_lines: 8,
        n_lines: 5,
        max_line_tokens: 200,
        n_symbols: 60,
        n_types: 1,
    };
    for eta in [0.7, 0.8] {
        let code = random_task(&mut random, long_lines);
        check(&code, &Windows::all(&code, 8).unwrap(), None, &with_eta(eta));
    }
}

#[test]
fn whole_roots_longer_than_any_window() {
    let mut random = Random(5);
    let shape =
        Shape { n_turns: 4, max_root_lines: 90, n_lines: 20, n_symbols: 30, n_types: 2, ..SMALL };
    for max_lines in [1, 2] {
        let code = random_task(&mut random, shape);
        check(&code, &Windows::all(&code, max_lines).unwrap(), None, &with_eta(0.6));
    }
}

/// The turns of a window take several words of bits, and many windows stand in the same turns.
#[test]
fn more_than_64_turns() {
    let mut random = Random(12);
    for n_turns in [64, 65, 150] {
        let shape = Shape { n_turns, max_root_lines: 4, n_lines: 4, n_types: 1, ..SMALL };
        let code = random_task(&mut random, shape);
        check(&code, &Windows::all(&code, 3).unwrap(), None, &with_eta(0.75));
    }
}

/// Windows of the same tokens on other lines have similarity 1 without being one candidate.
#[test]
fn the_same_tokens_on_other_lines() {
    use hunkwise::edits::EditType::Add;
    let mut random = Random(13);
    for _ in 0..20 {
        let mut roots = vec![];
        for turn in 0..6 {
            let (mut lines, mut next) = (vec![], 0);
            while next < 8 {
                let end = (next + 1 + random.below(4) as u32).min(8);
                lines.push((next..end).map(|t| t % 3).collect());
                next = end;
            }
            roots.push((turn, Add, lines));
        }
        let code = task(&roots);
        check(&code, &Windows::all(&code, 32).unwrap(), None, &with_eta(0.8));
    }
}

#[test]
fn lines_without_tokens() {
    use hunkwise::edits::EditType::Add;
    let code = task(&[
        (0, Add, vec![vec![], vec![1, 2], vec![]]),
        (1, Add, vec![vec![], vec![], vec![1, 2]]),
        (2, Add, vec![vec![1], vec![]]),
    ]);
    let windows = Windows::all(&code, 32).unwrap();
    for eta in [0.5, 1.0] {
        check(&code, &windows, None, &with_eta(eta));
    }
    let vectors = LineVectors::hashed(&code, 8).unwrap();
    let config = SimilarityConfig { embedding_weight: 0.8, ..with_eta(0.8) };
    check(&code, &windows, Some(&vectors), &config);
}

/// Windows of more lines than the walk keeps states for. The lines repeat, so that there are few distinct windows.
#[test]
fn windows_of_more_than_64_lines() {
    use hunkwise::edits::EditType::Add;
    let lines = |changed: usize, n: usize| -> Vec<Vec<u32>> {
        (0..n).map(|i| if i == changed { vec![7] } else { vec![i as u32 % 2] }).collect()
    };
    let code = task(&[(0, Add, lines(99, 70)), (1, Add, lines(2, 68)), (2, Add, lines(67, 69))]);
    for max_lines in [66, 80] {
        let windows = Windows::all(&code, max_lines).unwrap();
        let config = with_eta(0.95);
        let expected = reference::occurrences(&code, &windows, None, &config);
        everywhere(|device| {
            assert_eq!(occurrences(device, &code, &windows, None, &config).unwrap(), expected);
        });
    }
}

/// Patterns of more than 32 words go through strips, those of more than 2048 tokens through several.
#[test]
fn windows_of_thousands_of_tokens() {
    use hunkwise::edits::EditType::Add;
    let mut random = Random(7);
    let line: Vec<u32> = (0..2300).map(|_| random.below(40) as u32).collect();
    let changed = |random: &mut Random, every: u64| -> Vec<u32> {
        line.iter().map(|&t| if random.below(every) == 0 { 99 } else { t }).collect()
    };
    let roots = vec![
        (0, Add, vec![line.clone(), vec![1, 2, 3]]),
        (1, Add, vec![changed(&mut random, 5)]),
        (2, Add, vec![changed(&mut random, 4)[..1500].to_vec()]),
        (3, Add, vec![vec![1, 2, 3], line[..2050].to_vec()]),
    ];
    let code = task(&roots);
    let windows = Windows::all(&code, 32).unwrap();
    check(&code, &windows, None, &with_eta(0.75));
    // In several passes the long pattern also meets shorter texts that lie outside the block.
    let config = SimilarityConfig { memory_limit: 4 * 16 * 2, ..with_eta(0.6) };
    let expected = reference::occurrences(&code, &windows, None, &config);
    everywhere(|device| {
        assert_eq!(occurrences(device, &code, &windows, None, &config).unwrap(), expected)
    });
}

#[test]
fn several_passes_give_the_same() {
    let mut random = Random(8);
    for _ in 0..10 {
        let code = random_task(&mut random, SMALL);
        let windows = Windows::all(&code, 4).unwrap();
        let config = with_eta(0.6);
        let expected = reference::occurrences(&code, &windows, None, &config);
        // Cells of 16 bytes, at most 5 turns and 5 windows a start: one start a pass, and a few.
        for memory_limit in [16 * 5 * 5, 16 * 5 * 40] {
            let config = SimilarityConfig { memory_limit, ..config.clone() };
            for device in devices() {
                assert_eq!(occurrences(&device, &code, &windows, None, &config).unwrap(), expected);
            }
        }
    }
}

#[test]
fn with_embeddings() {
    let mut random = Random(9);
    for round in 0..30 {
        let code = random_task(&mut random, Shape { n_types: 2, ..SMALL });
        let windows = Windows::all(&code, [2, 32][round % 2]).unwrap();
        let vectors = LineVectors::hashed(&code, [8, 64][round / 2 % 2]).unwrap();
        for embedding_weight in [0.1, 0.5, 0.9, 1.0] {
            let eta = [0.5, 0.8, 0.9][round % 3];
            let config = SimilarityConfig { embedding_weight, ..with_eta(eta) };
            check(&code, &windows, Some(&vectors), &config);
        }
    }
}

#[test]
fn with_vectors_of_zeros_and_extremes() {
    let mut random = Random(10);
    for _ in 0..10 {
        let code = random_task(&mut random, SMALL);
        let n_lines = code.line_ids.iter().max().map_or(0, |&id| id as usize + 1);
        let data =
            (0..n_lines * 8).map(|_| [0, 0, 0, 127, -128][random.below(5) as usize]).collect();
        let vectors = LineVectors::new(8, data).unwrap();
        let windows = Windows::all(&code, 32).unwrap();
        for embedding_weight in [0.3, 1.0] {
            let config = SimilarityConfig { embedding_weight, ..with_eta(0.7) };
            check(&code, &windows, Some(&vectors), &config);
        }
    }
}

/// Cosines close to one another, and so bounds that reject many pairs before the LCS; products beyond 32 bits too.
#[test]
fn with_embeddings_that_decide() {
    let mut random = Random(14);
    let shape = Shape { max_root_lines: 24, n_lines: 15, n_types: 1, ..SMALL };
    for round in 0..8 {
        let code = random_task(&mut random, shape);
        let windows = Windows::all(&code, [4, 32][round % 2]).unwrap();
        let n_lines = code.line_ids.iter().max().map_or(0, |&id| id as usize + 1);
        let vectors = if round % 4 < 2 {
            LineVectors::hashed(&code, 64).unwrap()
        } else {
            let data = (0..n_lines * 256).map(|_| 120 + random.below(8) as i8).collect();
            LineVectors::new(256, data).unwrap()
        };
        for (embedding_weight, eta) in [(0.6, 0.9), (0.8, 0.95), (1.0, 0.9), (1.0, 1.0)] {
            let config = SimilarityConfig { embedding_weight, ..with_eta(eta) };
            check(&code, &windows, Some(&vectors), &config);
        }
    }
}

#[test]
fn lists_of_sequences() {
    let mut random = Random(11);
    for round in 0..20 {
        let n_symbols = [2, 30, 400][round % 3];
        let base: Vec<u32> = (0..300).map(|_| random.below(n_symbols) as u32 * 7_000_001).collect();
        let items: Vec<Vec<u32>> = (0..40)
            .map(|_| {
                let first = random.below(280) as usize;
                let most = if random.below(4) == 0 { 300 - first as u64 } else { 20 };
                let n = random.below(most) as usize;
                let keep = |t: u32, r: u64| if r == 0 { 5 } else { t };
                base[first..first + n].iter().map(|&t| keep(t, random.below(8))).collect()
            })
            .collect();
        let eta = [0.2, 0.8, 1.0, 0.6][round % 4];
        let mut expected = vec![];
        for a in 0..items.len() {
            for b in a + 1..items.len() {
                let lcs = reference::lcs(&items[a], &items[b]);
                if reference::lexical(lcs, items[a].len() + items[b].len()) >= eta {
                    expected.push((a as u32, b as u32, lcs));
                }
            }
        }
        let mut offsets = vec![0];
        for item in &items {
            offsets.push(offsets[offsets.len() - 1] + item.len() as u32);
        }
        let tokens = items.concat();
        everywhere(|device| {
            let items = Ragged { tokens: &tokens, offsets: &offsets };
            let found = pair_similarity(device, items, eta, 1 << 30).unwrap();
            let found: Vec<_> = found.into_iter().map(|m| (m.a, m.b, m.lcs)).collect();
            assert_eq!(found, expected);
        });
    }
}

/// More than 255 of one token overflow a bin of the histogram; items of several strips.
#[test]
fn lists_of_long_and_repetitive_sequences() {
    let items: Vec<Vec<u32>> = vec![
        vec![1; 3000],
        vec![1; 2500],
        [vec![1; 2000], vec![2; 700]].concat(),
        [vec![2; 700], vec![1; 2000]].concat(),
        (0..2700).map(|i| i % 3).collect(),
        (0..2600).map(|i| (i + 1) % 3).collect(),
    ];
    let mut offsets = vec![0];
    for item in &items {
        offsets.push(offsets[offsets.len() - 1] + item.len() as u32);
    }
    let tokens = items.concat();
    let eta = 0.7;
    let mut expected = vec![];
    for a in 0..items.len() {
        for b in a + 1..items.len() {
            let lcs = reference::lcs(&items[a], &items[b]);
            if reference::lexical(lcs, items[a].len() + items[b].len()) >= eta {
                expected.push((a as u32, b as u32, lcs));
            }
        }
    }
    let found = pair_similarity(
        &Device::cpu(),
        Ragged { tokens: &tokens, offsets: &offsets },
        eta,
        1 << 30,
    )
    .unwrap();
    assert_eq!(found.into_iter().map(|m| (m.a, m.b, m.lcs)).collect::<Vec<_>>(), expected);
}
