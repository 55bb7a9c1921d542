//! Lists of sequences against the plain reference: scalar and AVX2, one thread and two, and wgpu.

use hunkwise::Device;
use hunkwise::backend::cpu::{Cpu, Simd};
use hunkwise::reference::similarity as reference;
use hunkwise::similarity::{Match, Ragged, pair_similarity};

use crate::devices::others;
use crate::tasks::Random;

fn check(items: &[Vec<u32>], eta: f64) -> usize {
    let mut expected = vec![];
    for a in 0..items.len() {
        for b in a + 1..items.len() {
            let (m, n) = (items[a].len(), items[b].len());
            // No common subsequence is longer than the shorter one.
            if reference::lexical(m.min(n) as u32, m + n) >= eta {
                let lcs = reference::lcs(&items[a], &items[b]);
                if reference::lexical(lcs, m + n) >= eta {
                    expected.push(Match { a: a as u32, b: b as u32, lcs });
                }
            }
        }
    }
    let mut offsets = vec![0];
    for item in items {
        offsets.push(offsets[offsets.len() - 1] + item.len() as u32);
    }
    let tokens = items.concat();
    for simd in [Simd::Scalar, Simd::Avx2] {
        for n_threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            let device = Device::Cpu(Cpu::with_simd(simd));
            let list = Ragged { tokens: &tokens, offsets: &offsets };
            let found = pool.install(|| pair_similarity(&device, list, eta, 1 << 30)).unwrap();
            assert_eq!(found, expected, "{simd:?}, {n_threads} threads, eta {eta}");
        }
    }
    for device in others() {
        let list = Ragged { tokens: &tokens, offsets: &offsets };
        assert_eq!(pair_similarity(&device, list, eta, 1 << 30).unwrap(), expected, "{device:?}");
    }
    expected.len()
}

/// Pieces of one sequence, with one token in `rarity` changed, dropped or doubled.
fn near_copies(
    random: &mut Random,
    n_items: usize,
    longest: u64,
    n_symbols: u64,
    rarity: u64,
) -> Vec<Vec<u32>> {
    let base: Vec<u32> = (0..longest).map(|_| random.below(n_symbols) as u32).collect();
    (0..n_items)
        .map(|_| {
            let first = random.below(3) * random.below(longest) / 2;
            let n = 1 + random.below(longest - first);
            let mut item = vec![];
            for &token in &base[first as usize..(first + n) as usize] {
                match random.below(3 * rarity) {
                    0 => item.push(random.below(n_symbols) as u32),
                    1 => {}
                    2 => item.extend([token, token]),
                    _ => item.push(token),
                }
            }
            item
        })
        .collect()
}

/// From one limb of a pattern to a dozen and more, few symbols and many.
#[test]
fn near_copies_of_all_lengths() {
    let mut random = Random(21);
    for (longest, n_items) in [(6, 120), (60, 90), (200, 60), (700, 40), (1100, 24)] {
        for n_symbols in [3, 40, 5000] {
            for eta in [0.35, 0.8, 0.95] {
                let rarity = if eta > 0.9 { 60 } else { 12 };
                let items = near_copies(&mut random, n_items, longest, n_symbols, rarity);
                assert!(check(&items, eta) > 0, "no match in {longest}, {n_symbols}, {eta}");
            }
        }
    }
}

/// All windows of near copies: items that begin others, shared beginnings, equal items.
#[test]
fn all_pieces_of_near_copies() {
    let mut random = Random(22);
    for eta in [0.5, 0.8, 1.0] {
        let copies = near_copies(&mut random, 5, 90, 12, 15);
        let mut items = vec![vec![]];
        for copy in &copies {
            for first in (0..copy.len()).step_by(11) {
                for end in (first..=copy.len()).step_by(9) {
                    items.push(copy[first..end].to_vec());
                }
            }
        }
        assert!(check(&items, eta) > 0);
    }
}

/// Lengths at the ends of limbs, of strips, and of what goes in lanes; the partners of long items.
#[test]
fn lengths_at_borders() {
    let mut random = Random(23);
    let base: Vec<u32> = (0..2400).map(|_| random.below(30) as u32).collect();
    let lens = [1, 2, 62, 63, 64, 125, 126, 127, 188, 189, 190, 503, 504, 505, 755, 756, 757, 819];
    let items: Vec<Vec<u32>> = lens.iter().map(|&n| base[..n].to_vec()).collect();
    check(&items, 0.9);
    let items: Vec<Vec<u32>> = [1900, 2046, 2047, 2048, 2049, 2050, 2399, 2400]
        .iter()
        .enumerate()
        .map(|(i, &n)| {
            let mut item = base[..n].to_vec();
            item[i * 200] = 31;
            item
        })
        .collect();
    // All but the shortest with the two longest: 2 * 1900 / (1900 + 2399) is below 0.9.
    assert_eq!(check(&items, 0.9), 26);
}

/// Equal items in any number, one item, no item, only empty items.
#[test]
fn equal_and_empty_items() {
    for n in 0..4 {
        check(&vec![vec![]; n], 0.8);
        check(&vec![vec![u32::MAX, 0, u32::MAX]; n], 1.0);
    }
    let mut random = Random(24);
    let few: Vec<Vec<u32>> = near_copies(&mut random, 6, 40, 9, 10);
    let items: Vec<Vec<u32>> = (0..300).map(|_| few[random.below(6) as usize].clone()).collect();
    assert!(check(&items, 0.7) > 7000);
}
