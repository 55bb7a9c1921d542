//! Similarity on cases checked by hand, with difflib's and rapidfuzz's faults and figures.

#[path = "../support/tasks.rs"]
#[allow(dead_code)]
mod tasks;

use std::time::{Duration, Instant};

use hunkwise::code::{Span, Windows};
use hunkwise::edits::EditType::{Add, Delete, Overwrite};
use hunkwise::similarity::{
    LineVectors, Match, Occurrence, Ragged, SimilarityConfig, exact_occurrences, indel_similarity,
    lcs, matches, occurrences, pair_similarity,
};
use hunkwise::{Device, Error};
use tasks::task;

fn letters(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

fn occurrence(turn: u32, root: u32, start: u32, len: u32, similarity: f64) -> Occurrence {
    Occurrence { turn, span: Span { root, start, len }, similarity }
}

#[test]
fn known_pairs() {
    // rapidfuzz.distance.Indel.normalized_similarity on the same strings.
    let pairs = [
        ("lewenstein", "levenshtein", 0.857_142_857_142_857_2),
        ("kitten", "sitting", 0.615_384_615_384_615_3),
        ("abc", "", 0.0),
        ("abc", "def", 0.0),
        ("this is a test", "this is a test!", 0.965_517_241_379_310_3),
    ];
    for (a, b, expected) in pairs {
        let found = indel_similarity(&letters(a), &letters(b));
        assert!((found - expected).abs() < 1e-15, "{a} and {b}: {found}");
    }
    assert_eq!(lcs(&letters("AGGTAB"), &letters("GXTXAYB")), 4);
    assert_eq!(lcs(&letters("ABCBDAB"), &letters("BDCABA")), 4);
}

#[test]
fn case_43_no_popularity_heuristic_and_symmetric() {
    let x: Vec<u32> = letters("ab").repeat(100);
    let y = [letters("z"), x[1..].to_vec()].concat();
    assert_eq!(indel_similarity(&x, &y), 0.995);
    assert_eq!(indel_similarity(&x[..199], &y[..199]), 2.0 * 198.0 / 398.0);
    assert_eq!(indel_similarity(&letters("tide"), &letters("diet")), 0.5);
    assert_eq!(indel_similarity(&letters("diet"), &letters("tide")), 0.5);
    assert_eq!(indel_similarity(&[], &[]), 1.0);
    let found =
        pair_similarity(&Device::cpu(), Ragged { tokens: &[], offsets: &[0, 0, 0] }, 1.0, 1 << 20)
            .unwrap();
    assert_eq!(found, [Match { a: 0, b: 1, lcs: 0 }]);
}

#[test]
fn case_44_large_repetitive_lists_in_little_time() {
    let a: Vec<u32> = (0..20_000).map(|i| i % 2).collect();
    let b: Vec<u32> = [vec![9], (0..20_000).map(|i| i / 2 % 2).collect()].concat();
    let begun = Instant::now();
    let similarity = indel_similarity(&a, &b);
    assert_eq!(indel_similarity(&a, &a), 1.0);
    assert!(begun.elapsed() < Duration::from_secs(2), "took {:?}", begun.elapsed());
    assert!((similarity - 0.75).abs() < 0.01, "{similarity}");
    let tokens = [&a[..], &b, &a].concat();
    let items = Ragged { tokens: &tokens, offsets: &[0, 20_000, 40_001, 60_001] };
    let begun = Instant::now();
    let found = pair_similarity(&Device::cpu(), items, 0.8, 1 << 20).unwrap();
    assert_eq!(found, [Match { a: 0, b: 2, lcs: 20_000 }]);
    assert!(begun.elapsed() < Duration::from_secs(2), "took {:?}", begun.elapsed());
}

/// Two turns share a line that differs in one token of five; eta 0.8 is met exactly.
#[test]
fn a_similarity_of_exactly_eta_matches() {
    let roots = [(0, Add, vec![vec![1, 2, 3, 4, 5]]), (1, Add, vec![vec![1, 2, 3, 4, 6]])];
    let code = task(&roots);
    let windows = Windows::all(&code, 32).unwrap();
    let config = SimilarityConfig::default();
    let found = occurrences(&Device::cpu(), &code, &windows, None, &config).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found.of(0), [occurrence(0, 0, 0, 1, 1.0), occurrence(1, 1, 0, 1, 0.8)]);
    assert_eq!(found.of(1), [occurrence(0, 0, 0, 1, 0.8), occurrence(1, 1, 0, 1, 1.0)]);
    let config = SimilarityConfig { eta: 0.800_000_1, ..config };
    let found = occurrences(&Device::cpu(), &code, &windows, None, &config).unwrap();
    assert_eq!(found.of(0), [occurrence(0, 0, 0, 1, 1.0)]);
}

#[test]
fn types_never_match() {
    let line = vec![1, 2, 3];
    let roots =
        [(0, Add, vec![line.clone()]), (1, Delete, vec![line.clone()]), (2, Overwrite, vec![line])];
    let code = task(&roots);
    let windows = Windows::all(&code, 32).unwrap();
    let found =
        occurrences(&Device::cpu(), &code, &windows, None, &SimilarityConfig::default()).unwrap();
    assert_eq!(found.offsets, [0, 1, 2, 3]);
    let config = SimilarityConfig::default();
    assert_eq!(matches(&Device::cpu(), &code, &windows, None, &config).unwrap(), []);
}

/// The candidate `1 2 3 4`; in turn 1 one window of 5 tokens and one of 3, neither better: 8/9 > 6/7.
/// In turn 2 two equal windows: the earlier. In turn 3 `1 2 3 4` cut into other lines: similarity 1.
#[test]
fn the_best_window_of_a_turn() {
    let roots = [
        (0, Add, vec![vec![1, 2, 3, 4]]),
        (1, Add, vec![vec![1, 2, 3]]),
        (1, Add, vec![vec![1, 2, 3, 4, 5]]),
        (2, Add, vec![vec![7], vec![1, 2, 3, 4], vec![8], vec![1, 2, 3, 4]]),
        (3, Add, vec![vec![1, 2], vec![3, 4]]),
    ];
    let code = task(&roots);
    let windows = Windows::all(&code, 32).unwrap();
    let config = SimilarityConfig::default();
    let found = occurrences(&Device::cpu(), &code, &windows, None, &config).unwrap();
    assert_eq!(windows.first(0), Span { root: 0, start: 0, len: 1 });
    assert_eq!(
        found.of(0),
        [
            occurrence(0, 0, 0, 1, 1.0),
            occurrence(1, 2, 0, 1, 8.0 / 9.0),
            occurrence(2, 3, 1, 1, 1.0),
            occurrence(3, 4, 0, 2, 1.0),
        ]
    );
    let exact = exact_occurrences(&code, &windows).unwrap();
    assert_eq!(exact.of(0), [occurrence(0, 0, 0, 1, 1.0), occurrence(2, 3, 1, 1, 1.0)]);
}

/// Both windows of turn 1 have similarity 2/3 to `1 2 3 4` (4/6 and 6/9); the one of 5 tokens differs by 1 token, the
/// one of 2 by 2.
#[test]
fn ties_go_to_the_smaller_difference_of_lengths_then_to_the_earlier_place() {
    let roots = [
        (0, Add, vec![vec![1, 2, 3, 4]]),
        (1, Add, vec![vec![1, 2]]),
        (1, Add, vec![vec![1, 2, 3, 8, 9]]),
        (2, Add, vec![vec![1, 2, 3, 7]]),
        (2, Add, vec![vec![1, 2, 3, 6]]),
    ];
    let code = task(&roots);
    let windows = Windows::all(&code, 32).unwrap();
    let config = SimilarityConfig { eta: 0.6, ..SimilarityConfig::default() };
    let found = occurrences(&Device::cpu(), &code, &windows, None, &config).unwrap();
    assert_eq!(
        found.of(0),
        [
            occurrence(0, 0, 0, 1, 1.0),
            occurrence(1, 2, 0, 1, 6.0 / 9.0),
            occurrence(2, 3, 0, 1, 0.75),
        ]
    );
}

#[test]
fn all_matches_of_a_small_task() {
    let roots = [
        (0, Add, vec![vec![1, 2, 3, 4]]),
        (1, Add, vec![vec![1, 2, 3, 4, 5]]),
        (2, Add, vec![vec![1, 2, 3], vec![4, 5]]),
    ];
    let code = task(&roots);
    let windows = Windows::all(&code, 32).unwrap();
    // Candidates: 0 `1234`, 1 `12345`, 2 `123`, 3 `123 45`, 4 `45`.
    let config = SimilarityConfig::default();
    let found = matches(&Device::cpu(), &code, &windows, None, &config).unwrap();
    let pair = |a, b, lcs| Match { a, b, lcs };
    assert_eq!(found, [pair(0, 1, 4), pair(0, 2, 3), pair(0, 3, 4), pair(1, 3, 5)]);
}

/// Lines with vectors (3, 4, 0…) and (4, 3, 0…): cosine 24/25. No token in common, so lex is 0.
#[test]
fn embeddings_blend_in() {
    let code = task(&[(0, Add, vec![vec![1]]), (1, Add, vec![vec![2]])]);
    let mut table = vec![0f32; 3 * 8];
    table[8..10].copy_from_slice(&[3.0, 4.0]);
    table[16..18].copy_from_slice(&[4.0, 3.0]);
    let rows_of = |text: &[u8]| vec![if text == b"t1" { 1 } else { 2 }];
    let vectors = LineVectors::from_table(&code, 8, &table, rows_of).unwrap();
    // Scaled by 127/4 and rounded: 95.25 and 127.
    assert_eq!(vectors.of(0), [95, 127, 0, 0, 0, 0, 0, 0]);
    assert_eq!(vectors.of(1), [127, 95, 0, 0, 0, 0, 0, 0]);
    let windows = Windows::all(&code, 32).unwrap();
    let config =
        SimilarityConfig { embedding_weight: 0.5, eta: 0.4, ..SimilarityConfig::default() };
    let found = occurrences(&Device::cpu(), &code, &windows, Some(&vectors), &config).unwrap();
    // 2·95·127 / (95² + 127²), halved.
    let expected = 24130.0 / 25154.0 / 2.0;
    assert_eq!(found.of(0).len(), 2);
    assert!((found.of(0)[1].similarity - expected).abs() < 1e-15);
    let config = SimilarityConfig { eta: 0.5, ..config };
    let found = occurrences(&Device::cpu(), &code, &windows, Some(&vectors), &config).unwrap();
    assert_eq!(found.of(0), [occurrence(0, 0, 0, 1, 1.0)]);
}

#[test]
fn hashed_vectors_count_tokens_and_their_pairs() {
    let code = task(&[(0, Add, vec![vec![1], vec![1, 1], vec![1, 1, 1]])]);
    let vectors = LineVectors::hashed(&code, 4096).unwrap();
    let sizes: Vec<i32> =
        (0..3).map(|id| vectors.of(id).iter().map(|&x| i32::from(x).abs()).sum()).collect();
    // 1 token; 2 tokens and 1 pair; 3 tokens and 2 pairs: at two places, if they do not collide.
    assert_eq!(sizes, [1, 3, 5]);
    assert_eq!(vectors.of(3), [0i8; 0]);
}

#[test]
fn an_empty_task_has_no_occurrences() {
    let code = task(&[]);
    let windows = Windows::all(&code, 32).unwrap();
    let config = SimilarityConfig::default();
    let found = occurrences(&Device::cpu(), &code, &windows, None, &config).unwrap();
    assert!(found.is_empty());
    assert_eq!(found.offsets, [0]);
    assert!(exact_occurrences(&code, &windows).unwrap().is_empty());
    assert_eq!(matches(&Device::cpu(), &code, &windows, None, &config).unwrap(), []);
}

#[test]
fn errors_say_what_is_wrong() {
    let code = task(&[(0, Add, vec![vec![1]]), (1, Add, vec![vec![1]])]);
    let windows = Windows::all(&code, 32).unwrap();
    let device = Device::cpu();
    let run = |config: SimilarityConfig| {
        occurrences(&device, &code, &windows, None, &config).map(|_| ()).unwrap_err().to_string()
    };
    let config = SimilarityConfig::default();
    let message = run(SimilarityConfig { eta: f64::NAN, ..config.clone() });
    assert_eq!(message, "similarity: `eta` is NaN; it must be above 0 and at most 1");
    let message = run(SimilarityConfig { embedding_weight: 0.5, ..config.clone() });
    assert_eq!(
        message,
        "similarity: `embedding_weight` is 0.5; it must be 0 when no line vectors are given"
    );
    let message = run(SimilarityConfig { memory_limit: 15, ..config });
    assert!(message.contains("needs 16, the limit is 15; raise `memory_limit`"), "{message}");

    let mut table = vec![0f32; 16];
    table[9] = f32::INFINITY;
    let message = LineVectors::from_table(&code, 8, &table, |_| vec![0]).unwrap_err().to_string();
    assert_eq!(message, "line_vectors: `table` holds inf at row 1, column 1; it must be finite");
    let message =
        LineVectors::from_table(&code, 8, &[0.0; 16], |_| vec![2]).unwrap_err().to_string();
    assert_eq!(message, "line_vectors: `table` has 2 rows, but code token `t1` asks for row 2");

    let skewed = hunkwise::code::TaskCode { line_ids: vec![1, 0], ..code.clone() };
    let found = occurrences(&device, &skewed, &windows, None, &SimilarityConfig::default());
    assert!(matches!(found, Err(Error::Shape { .. })));
    let found = occurrences(&device, &task(&[]), &windows, None, &SimilarityConfig::default());
    assert!(matches!(found, Err(Error::Shape { .. })));
    for offsets in [&[][..], &[1, 2], &[0, 2, 1], &[0, 1]] {
        let found = pair_similarity(&device, Ragged { tokens: &[1, 2], offsets }, 0.8, 1 << 30);
        assert!(matches!(found, Err(Error::Shape { .. })), "{offsets:?}");
    }
}

/// Each pair of the list takes 12 bytes, twice while it is sorted.
#[test]
fn a_list_of_pairs_beyond_the_limit_is_an_error_with_its_length() {
    let add = [
        (0, Add, vec![vec![1, 2, 3, 4]]),
        (1, Add, vec![vec![1, 2, 3, 4, 5]]),
        (2, Add, vec![vec![1, 2, 3], vec![4, 5]]),
    ];
    let run = |roots: &[tasks::RootLines], memory_limit| {
        let code = task(roots);
        let windows = Windows::all(&code, 32).unwrap();
        let config = SimilarityConfig { memory_limit, ..SimilarityConfig::default() };
        matches(&Device::cpu(), &code, &windows, None, &config)
            .map(|pairs| pairs.len())
            .map_err(|e| e.to_string())
    };
    assert_eq!(run(&add, 4 * 24), Ok(4));
    assert_eq!(
        run(&add, 4 * 24 - 1).unwrap_err(),
        "matches: the list of matching pairs (pairs) needs 4, the limit is 3; raise `memory_limit`, raise `eta`, or \
         ask for the occurrences instead"
    );
    // What was found for one edit type (4 pairs of 12 bytes) counts against the next.
    let delete = add.clone().map(|(turn, _, lines)| (turn, Delete, lines));
    let both = [add, delete].concat();
    assert_eq!(run(&both, 4 * 24 + 4 * 12), Ok(8));
    assert!(run(&both, 4 * 24 + 4 * 12 - 1).unwrap_err().contains("needs 4, the limit is 3"));
}

/// Two lines in two turns: products of 2 x 2 lines (4 bytes); square, root and rounded roots of 2 windows (24 bytes); sums
/// for 2 windows over 3 bounds of lines and 8 more (8 bytes), and then 1 window at a time with 2 cells (16 bytes).
#[test]
fn line_vectors_beyond_the_limit_are_an_error_with_their_bytes() {
    let code = task(&[(0, Add, vec![vec![1]]), (1, Add, vec![vec![2]])]);
    let windows = Windows::all(&code, 32).unwrap();
    let vectors = LineVectors::new(8, vec![1; 16]).unwrap();
    let products = 16 + 48 + 176;
    let run = |memory_limit| {
        let config =
            SimilarityConfig { embedding_weight: 1.0, memory_limit, ..SimilarityConfig::default() };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        pool.install(|| occurrences(&Device::cpu(), &code, &windows, Some(&vectors), &config))
            .map_err(|e| e.to_string())
    };
    let found = run(products + 32).unwrap();
    assert_eq!(found.of(1), [occurrence(0, 0, 0, 1, 1.0), occurrence(1, 1, 0, 1, 1.0)]);
    assert!(run(products + 31).unwrap_err().contains("needs 32, the limit is 31"));
    assert!(run(products).unwrap_err().contains("needs 32, the limit is 0"));
    let message = run(products - 1).unwrap_err();
    assert!(message.contains("products of line vectors (bytes) needs 240, the limit is 239"));
}

/// The sums of products over all lines of the task go past i64, those over the lines of a root do not.
#[test]
fn sums_over_a_task_may_wrap() {
    let n_lines = 1 << 13;
    let all = vec![vec![1]; n_lines];
    let mut roots: Vec<tasks::RootLines> = (0..130).map(|turn| (turn, Add, all.clone())).collect();
    let mut other = all;
    other[n_lines - 1] = vec![2];
    roots.push((130, Add, other));
    let code = task(&roots);
    let windows = Windows::whole(&code).unwrap();
    let vectors = LineVectors::new(65536, vec![-128; 2 * 65536]).unwrap();
    let config = SimilarityConfig { embedding_weight: 0.5, ..SimilarityConfig::default() };
    let found = occurrences(&Device::cpu(), &code, &windows, Some(&vectors), &config).unwrap();
    // All but one of the tokens in common, and parallel vectors.
    let similarity = 0.5 * (8191.0 / 8192.0) + 0.5;
    assert_eq!(found.of(1).len(), 131);
    assert_eq!(found.of(1)[0], occurrence(0, 0, 0, n_lines as u32, similarity));
    // With roots of which one alone would go past it, the call is refused.
    let large = task(&[(0, Add, vec![vec![1]; 1 << 17])]);
    let vectors = LineVectors::new(65536, vec![1; 65536]).unwrap();
    let windows = Windows::whole(&large).unwrap();
    let found = occurrences(&Device::cpu(), &large, &windows, Some(&vectors), &config);
    assert!(matches!(found, Err(Error::Limit { needed: 131_072, .. })), "{found:?}");
}

/// 2000 of 2500 tokens in common: 0.8 exactly, in patterns that go through strips.
#[test]
fn long_windows_match_at_exactly_eta() {
    let line = |n_common: u32, other: u32| -> Vec<u32> {
        (0..2500).map(|i| if i < n_common { i % 50 } else { other }).collect()
    };
    for (n_common, n_found) in [(2000, 2), (1999, 1)] {
        let code = task(&[(0, Add, vec![line(n_common, 98)]), (1, Add, vec![line(n_common, 99)])]);
        let windows = Windows::all(&code, 32).unwrap();
        let config = SimilarityConfig::default();
        let found = occurrences(&Device::cpu(), &code, &windows, None, &config).unwrap();
        assert_eq!((found.of(0).len(), found.of(1).len()), (n_found, n_found));
    }
}

/// `x … z` against `z x …`: the carry of `x` goes from the first strip through the second, which holds neither, to `z`
/// in the third.
#[test]
fn carries_go_through_strips_without_the_token() {
    let (x, z) = (1, 2);
    let pattern = [vec![x], vec![3; 4200], vec![z], vec![4]].concat();
    let text = [vec![z, x], vec![5; 5000]].concat();
    assert_eq!(lcs(&pattern, &text), 1);
}

#[test]
fn hashed_vectors_have_the_places_and_signs_of_their_hashes() {
    // FNV-1a and splitmix64 of `t1`, `t2` and both, by another program: places 1357, 353, 1864; signs +, -, +.
    let code = task(&[(0, Add, vec![vec![1, 2], vec![1; 200]])]);
    let vectors = LineVectors::hashed(&code, 4096).unwrap();
    let mut expected = vec![0i8; 4096];
    (expected[1357], expected[353], expected[1864]) = (1, -1, 1);
    assert_eq!(vectors.of(0), expected);
    // 200 times `t1` is more than a signed byte holds.
    assert_eq!(vectors.of(1)[1357], 127);
}

#[test]
fn vectors_of_a_table_are_rounded_to_the_nearest() {
    let code = task(&[(0, Add, vec![vec![1]])]);
    let table = [4.0, 1.0, -1.0, -4.0, 0.0, 0.0, 0.0, 0.0];
    let vectors = LineVectors::from_table(&code, 8, &table, |_| vec![0]).unwrap();
    assert_eq!(vectors.of(0), [127, 32, -32, -127, 0, 0, 0, 0]);
}

#[test]
fn a_list_with_more_pairs_than_memory_allows_is_an_error_with_the_count() {
    // 100 equal items: 4950 pairs of 12 bytes, each held twice.
    let tokens = [7; 100];
    let offsets: Vec<u32> = (0..=100).collect();
    let items = Ragged { tokens: &tokens, offsets: &offsets };
    let enough = 4950 * 2 * 12;
    assert_eq!(pair_similarity(&Device::cpu(), items, 1.0, enough).unwrap().len(), 4950);
    match pair_similarity(&Device::cpu(), items, 1.0, enough - 1) {
        Err(Error::Limit { op: "pair_similarity", needed: 4950, limit: 4949, .. }) => {}
        other => panic!("{other:?}"),
    }
}
