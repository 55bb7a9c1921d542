//! Lists of sequences with results from rapidfuzz 3.14.6 (`LCSseq.similarity` of every pair).

use hunkwise::Device;
use hunkwise::similarity::{Match, Ragged, pair_similarity};

fn pairs(items: &[Vec<u32>], eta: f64) -> Vec<(u32, u32, u32)> {
    let mut offsets = vec![0];
    for item in items {
        offsets.push(offsets[offsets.len() - 1] + item.len() as u32);
    }
    let tokens = items.concat();
    let items = Ragged { tokens: &tokens, offsets: &offsets };
    let found = pair_similarity(&Device::cpu(), items, eta, 1 << 20).unwrap();
    found.into_iter().map(|Match { a, b, lcs }| (a, b, lcs)).collect()
}

/// Equal items, empty ones, and pairs at exactly 0.8, which rapidfuzz's `cdist` leaves out with that cutoff.
#[test]
fn lines_of_code_by_characters() {
    let items = [
        "return a + b",
        "return a - b",
        "return b + a",
        "",
        "xs = sorted(xs)",
        "xs = sorted(ys)",
        "ys = sorted(xs, key=len)",
        "return a + b",
        "",
        "abcde",
        "abcdf",
        "abcdefghij",
        "abcdefghxy",
    ]
    .map(|text| text.bytes().map(u32::from).collect());
    let at_08 = [
        (0, 1, 11),
        (0, 2, 10),
        (0, 7, 12),
        (1, 7, 11),
        (2, 7, 10),
        (3, 8, 0),
        (4, 5, 14),
        (9, 10, 4),
        (11, 12, 8),
    ];
    assert_eq!(pairs(&items, 0.8), at_08);
    let mut at_07 = [&at_08[..], &[(1, 2, 9), (4, 6, 14)]].concat();
    at_07.sort_unstable();
    assert_eq!(pairs(&items, 0.7), at_07);
}

/// Patterns of several words, and pairs around 0.44 to stand on both sides of eta.
#[test]
fn periodic_lists_of_hundreds() {
    let a: Vec<u32> = (0..500).map(|i| i % 7).collect();
    let items = [
        a.clone(),
        (0..500).map(|i| i * 3 % 7).collect(),
        (0..500).filter(|i| i % 9 != 0).map(|i| i % 7).collect(),
        a[..130].to_vec(),
        a[3..150].to_vec(),
        (0..200).map(|i| i * i % 11).collect(),
        (0..210).map(|i| (i * i + i / 50) % 11).collect(),
    ];
    assert_eq!(pairs(&items, 0.9), [(0, 2, 444), (3, 4, 130)]);
    assert_eq!(
        pairs(&items, 0.445),
        [
            (0, 2, 444),
            (0, 4, 147),
            (1, 2, 213),
            (2, 4, 142),
            (2, 5, 144),
            (3, 4, 130),
            (3, 5, 74),
            (4, 5, 78),
            (5, 6, 109),
        ]
    );
}
