//! difflib's blocks and the authors' groups against the plain reference.

use hunkwise::opcodes::{Matcher, Root, Scratch, Settings, anchors, ratio, refine};
use hunkwise::reference::opcodes as reference;

use crate::tasks::Random;

fn sequence(random: &mut Random, longest: u64, n_symbols: u64) -> Vec<u32> {
    // Numbers that are too large for a table by symbol.
    (0..random.below(longest + 1)).map(|_| 0xffff_0000 + random.below(n_symbols) as u32).collect()
}

fn near(random: &mut Random, one: &[u32], n_symbols: u64) -> Vec<u32> {
    let mut other = one.to_vec();
    for _ in 0..random.below(6) {
        let at = random.below(other.len() as u64 + 1) as usize;
        let piece = sequence(random, 8, n_symbols);
        let end = (at + random.below(8) as usize).min(other.len());
        other.splice(at..end, piece);
    }
    other
}

#[test]
fn blocks_are_those_of_the_reference_with_memory_used_again() {
    let mut random = Random(7);
    let mut scratch = Scratch::default();
    let mut n_blocks = 0;
    for round in 0..600 {
        let n_symbols = [1, 2, 3, 12, 100][round % 5];
        let longest = [6, 40, 260][round % 3];
        let b = sequence(&mut random, longest, n_symbols);
        let a = if round % 2 == 0 {
            sequence(&mut random, longest, n_symbols)
        } else {
            near(&mut random, &b, n_symbols)
        };
        for autojunk in [false, true] {
            let expected = reference::blocks(&a, &b, autojunk);
            let matcher = Matcher::new(&b, autojunk);
            assert_eq!(matcher.blocks(&a, &mut scratch), expected, "{a:?} {b:?} {autojunk}");
            let small = |symbols: &[u32]| -> Vec<u32> {
                symbols.iter().map(|symbol| symbol - 0xffff_0000).collect()
            };
            let of_small = Matcher::new(&small(&b), autojunk);
            assert_eq!(of_small.blocks(&small(&a), &mut scratch), expected);
            let matched: usize = expected.iter().map(|block| block.size).sum();
            assert_eq!(matcher.matches(&a, &mut scratch), matched);
            assert_eq!(ratio(&a, &b, autojunk), reference::ratio(&a, &b, autojunk));
            for needed in [0, matched.saturating_sub(1), matched, matched + 1] {
                let reaches = matcher.reaches(&a, needed, &mut scratch);
                assert_eq!(reaches, matched >= needed, "{needed} of {matched}");
            }
            n_blocks += expected.len();
        }
    }
    assert!(n_blocks > 2000, "{n_blocks}");
}

const WORDS: [&str; 9] =
    ["total", "price", "return", "if", "is None:", "sum(items)", "é", "+= 1", "    "];

fn line(random: &mut Random) -> String {
    let n = 1 + random.below(4);
    (0..n).map(|_| WORDS[random.below(9) as usize]).collect::<Vec<_>>().join(" ")
}

fn task(random: &mut Random, n_roots: usize) -> Vec<Root> {
    let base: Vec<String> = (0..6 + random.below(8)).map(|_| line(random)).collect();
    (0..n_roots)
        .map(|i| {
            let mut lines = base.clone();
            for _ in 0..random.below(5) {
                let at = random.below(lines.len() as u64 + 1) as usize;
                match random.below(3) {
                    0 => lines.insert(at, line(random)),
                    _ if at == lines.len() => {}
                    1 => drop(lines.remove(at)),
                    _ => lines[at].push_str(" # é"),
                }
            }
            let edit_type = if random.below(4) == 0 { "del" } else { "add" }.to_string();
            let source = lines.join("\n");
            let n = source.chars().count() as i64;
            let first = random.below(30) as i64;
            let tokens = (first / 3, (first + n) / 3);
            Root { row: i / 2, edit_type, lines, source, chars: (first, first + n), tokens }
        })
        .collect()
}

#[test]
fn anchors_are_those_of_the_reference() {
    let mut random = Random(11);
    let mut n_anchors = 0;
    for round in 0..60 {
        let settings = Settings {
            sim_thresh: [0.8, 0.6, 1.0, 0.95][round % 4],
            max_anchors: [64, 3, 0][round % 3],
            min_block_lines: [1, 2][round % 2],
            ..Settings::default()
        };
        let roots = task(&mut random, 2 + round % 9);
        let found = &anchors(&[roots.as_slice()], &settings).unwrap()[0];
        let pieces: Vec<Vec<_>> = found
            .iter()
            .map(|anchor| {
                let of = anchor.occurrences.iter();
                of.map(|one| (one.root, one.lines.0, one.lines.1)).collect()
            })
            .collect();
        assert_eq!(pieces, reference::anchors(&roots, &settings), "round {round}");
        n_anchors += pieces.len();
    }
    assert!(n_anchors > 100, "{n_anchors}");
}

#[test]
fn clusters_are_those_of_the_ratios() {
    let mut random = Random(13);
    for threshold in [0.5, 0.8, 1.0] {
        let texts: Vec<String> = (0..80).map(|_| line(&mut random)).collect();
        let mut firsts: Vec<&str> = vec![];
        let expected: Vec<usize> = texts
            .iter()
            .map(|text| {
                let joins = |first: &&str| reference::text_ratio(text, first) >= threshold;
                firsts.iter().position(joins).unwrap_or_else(|| {
                    firsts.push(text);
                    firsts.len() - 1
                })
            })
            .collect();
        assert_eq!(refine(&texts, threshold), expected, "{threshold}");
        assert!(firsts.len() > 5 && firsts.len() < 80);
    }
}
