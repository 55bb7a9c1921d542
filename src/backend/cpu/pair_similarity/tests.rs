//! The bounds one by one against plain counts, and the kernels against each other.

use proptest::collection::vec;
use proptest::prelude::*;

use super::lanes::{Lanes, Masks, Prefix};
use super::*;

fn kernels() -> [Kernel; 2] {
    [Kernel::new(Simd::Scalar), Kernel::new(Simd::detect())]
}

/// The table of the textbook.
fn plain_lcs(a: &[u32], b: &[u32]) -> u32 {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

fn shared_tokens(a: &[u32], b: &[u32]) -> u32 {
    let count = |of: &[u32], symbol| of.iter().filter(|&&s| s == symbol).count();
    let mut symbols = a.to_vec();
    symbols.sort_unstable();
    symbols.dedup();
    symbols.iter().map(|&s| count(a, s).min(count(b, s)) as u32).sum()
}

fn flat(items: &[Vec<u32>]) -> (Vec<u32>, Vec<u32>) {
    let mut offsets = vec![0];
    for item in items {
        offsets.push(offsets[offsets.len() - 1] + item.len() as u32);
    }
    (items.concat(), offsets)
}

/// Few symbols make bins overflow, many make symbols share one.
fn items(n: std::ops::Range<usize>, longest: usize) -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop_oneof![Just(2u32), Just(20), Just(400)]
        .prop_flat_map(move |n_symbols| vec(vec(0..n_symbols, 0..longest), n.clone()))
}

/// Edited pieces of one sequence, a chance in `rarity` for each token: a list with near matches, shared beginnings,
/// and items that begin others.
fn near_copies() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let edits = vec((0u8..3, 0u32..40, 0u32..12), 400);
    let piece = (0usize..60, 1usize..400, 5u32..40, any::<bool>());
    (vec(0u32..12, 400), vec((piece, edits), 2..9)).prop_map(|(base, pieces)| {
        let copy =
            |((first, n, rarity, from_start), edits): ((usize, usize, u32, bool), Vec<_>)| {
                let first = if from_start { 0 } else { first };
                let mut item = vec![];
                for (&token, (kind, chance, new)) in base[first..].iter().zip(edits).take(n) {
                    match (chance % rarity == 0, kind) {
                        (false, _) => item.push(token),
                        (true, 0) => item.push(new),
                        (true, 1) => {}
                        (true, _) => item.extend([token, new]),
                    }
                }
                item
            };
        pieces.into_iter().map(copy).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn histograms_never_count_less_than_is_shared(items in items(2..3, 1500)) {
        let bags = Bags::new(items.len(), |i| &items[i], 400);
        let shared = shared_tokens(&items[0], &items[1]);
        for kernel in kernels() {
            let most = kernel.shared(bags.bins(0), bags.bins(1)) + bags.excess(0).min(bags.excess(1));
            prop_assert!(most >= shared, "{most} for {shared}");
        }
        prop_assert!(shared >= plain_lcs(&items[0], &items[1]));
    }

    #[test]
    fn kept_partners_are_those_with_enough(items in items(1..20, 600), eta in 0.05f64..=1.0) {
        let bags = Bags::new(items.len(), |i| &items[i], 400);
        let limits = Limits::new(eta, 600);
        let least: Vec<u32> = (items[0].len() as u32..=1200).map(|sum| limits.least(sum)).collect();
        let expected: Vec<u32> = (1..items.len())
            .filter(|&i| {
                let bins = bags.bins(0).0.iter().zip(bags.bins(i).0);
                let in_bins: u32 = bins.map(|(&x, y)| u32::from(x.min(y))).sum();
                in_bins + bags.excess(0).min(bags.excess(i)) >= least[items[i].len()]
            })
            .map(|i| i as u32 - 1)
            .collect();
        for kernel in kernels() {
            let mut kept = vec![0; items.len() + 4];
            let partners = bags.partners(1..items.len());
            let n = kernel.keep(bags.bins(0), bags.excess(0), partners, &least, &mut kept);
            prop_assert_eq!(&kept[..n], &expected[..]);
        }
    }

    #[test]
    fn lanes_count_the_lcs_of_every_prefix(
        patterns in vec(vec(0u32..9, 1..900), 4),
        text in vec(0u32..12, 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let n_limbs = patterns.iter().map(|p| p.len().div_ceil(lanes::LIMB)).max().unwrap();
        let mut table = vec![Lanes::ZEROS; 12 * n_limbs];
        let mut prefixes = vec![];
        for (lane, pattern) in patterns.iter().enumerate() {
            for (i, &symbol) in pattern.iter().enumerate() {
                let limb = symbol as usize * n_limbs + i / lanes::LIMB;
                table[limb].0[lane] |= 1 << (i % lanes::LIMB);
            }
            prefixes.push(Prefix::new(lane, pattern.len() as u32));
            prefixes.push(Prefix::new(lane, cut.index(pattern.len()) as u32 + 1));
        }
        let row_of: Vec<u32> = (0..12).collect();
        let masks = Masks { table: &table, stride: n_limbs, row_of: &row_of };
        for kernel in kernels() {
            let mut state = vec![Lanes::ZEROS; n_limbs];
            let mut counts = [0; 64];
            kernel.advance(&mut state, masks, &text);
            kernel.ones(&state, &prefixes, (1 << prefixes.len()) - 1, &mut counts);
            for (lane, pattern) in patterns.iter().enumerate() {
                let prefix = &pattern[..=cut.index(pattern.len())];
                prop_assert_eq!(counts[2 * lane], plain_lcs(pattern, &text));
                prop_assert_eq!(counts[2 * lane + 1], plain_lcs(prefix, &text));
            }
        }
    }

    #[test]
    fn walks_lose_no_match(items in near_copies(), eta in 0.3f64..=1.0) {
        check_walks(&items, 12, eta);
    }
}

/// Matches of exactly the least LCS whose common tokens all lie on one edge of the band, at every place in a limb.
#[test]
fn matches_on_the_edges_of_the_band() {
    for n in 127..330u32 {
        let pattern: Vec<u32> = (0..n).collect();
        let least = Limits::new(0.8, n as usize).least(2 * n);
        let left_out = n - least;
        let filler: Vec<u32> = (n..n + left_out).collect();
        let above = [&pattern[left_out as usize..], &filler].concat();
        let below = [&filler, &pattern[..least as usize]].concat();
        let found = check_walks(&[pattern, above, below], 700, 0.8);
        assert!(found.contains(&(0, 1, least)) && found.contains(&(0, 2, least)), "{found:?}");
    }
}

/// The longer text has its match further below the diagonal, in the beginning that it shares with the shorter one.
#[test]
fn a_shared_beginning_has_the_band_of_the_later_text() {
    let pattern: Vec<u32> = (1..301).collect();
    let later = [&[500; 120], &pattern[..280]].concat();
    let earlier = [&later[..290], &[0; 10]].concat();
    // 2 * 280 / (300 + 400) is 0.8; the texts share 290. In lexicographic order: pattern, earlier, later.
    assert_eq!(check_walks(&[pattern, later, earlier], 501, 0.8), [(0, 2, 280), (1, 2, 290)]);
}

/// Runs every group over every text that is no shorter: every match has its LCS, and nothing else looks like one. So
/// neither the band, nor going on from a beginning, nor giving up loses any. Gives the matches of different items.
fn check_walks(items: &[Vec<u32>], n_symbols: usize, eta: f64) -> Vec<Pair> {
    let (tokens, offsets) = flat(items);
    let list = List::new(Distinct::new(&tokens, &offsets), n_symbols, eta);
    let distinct = &list.distinct;
    let mut expected = vec![];
    for a in 0..distinct.len() as u32 {
        for b in 0..distinct.len() as u32 {
            let (m, n) = (distinct.item_len(a), distinct.item_len(b));
            let lcs = plain_lcs(distinct.item(a), distinct.item(b));
            if m > 0 && m <= n && lcs >= list.least[(m + n) as usize] {
                expected.push((a, b, lcs));
            }
        }
    }
    for kernel in kernels() {
        let mut walk = Walk::new(kernel, distinct.len(), n_symbols);
        let mut found = vec![];
        for group in groups(kernel, distinct, &list.bags, &list.place_of, LONGEST_IN_LANES) {
            let slots = walk.take(distinct, &group).to_vec();
            for (slot, pattern) in slots.iter().enumerate() {
                for text in 0..distinct.len() as u32 {
                    if distinct.item_len(text) >= pattern.len {
                        walk.want(slot, text);
                    }
                }
            }
            walk.run(distinct, &list.least, |text, able, slots, counts| {
                for (slot, pattern) in slots.iter().enumerate() {
                    let sum = pattern.len + distinct.item_len(text);
                    if able >> slot & 1 == 1 && counts[slot] >= list.least[sum as usize] {
                        found.push((pattern.rank, text, counts[slot]));
                    }
                }
            });
        }
        found.sort_unstable();
        assert_eq!(found, expected, "{kernel:?}, eta {eta}");
    }
    expected.retain(|pair| pair.0 != pair.1);
    expected
}
