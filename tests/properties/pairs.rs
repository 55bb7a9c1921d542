//! What holds for the pairs of any list: none lost, none invented, the same in any order.

use hunkwise::Device;
use hunkwise::backend::cpu::{Cpu, Simd};
use hunkwise::error::Error;
use hunkwise::reference::similarity as reference;
use hunkwise::similarity::{Match, Ragged, pair_similarity};
use proptest::collection::vec;
use proptest::prelude::*;

fn pairs(simd: Simd, items: &[&Vec<u32>], eta: f64, memory: u64) -> Result<Vec<Match>, Error> {
    let mut offsets = vec![0];
    let mut tokens = vec![];
    for item in items {
        tokens.extend_from_slice(item);
        offsets.push(tokens.len() as u32);
    }
    let items = Ragged { tokens: &tokens, offsets: &offsets };
    pair_similarity(&Device::Cpu(Cpu::with_simd(simd)), items, eta, memory)
}

/// Any items, and copies of them with some tokens taken out and the rest turned round a little.
fn lists() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let item = prop_oneof![
        3 => vec(0u32..4, 0..40),
        2 => vec(0u32..30, 0..200),
        1 => vec(any::<u32>(), 0..10),
    ];
    (vec(item, 1..8), vec((any::<prop::sample::Index>(), 1usize..40, 0usize..6), 0..12)).prop_map(
        |(mut items, copies)| {
            for (of, rarity, n) in copies {
                let item = &items[of.index(items.len())];
                let mut copy: Vec<u32> = item
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| (i + 1) % rarity != 0 || rarity == 1)
                    .map(|(_, &token)| token)
                    .collect();
                let n = n.min(copy.len());
                copy.rotate_left(n);
                items.push(copy);
            }
            items
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_pair_is_lost_or_invented(items in lists(), eta in prop_oneof![Just(0.8), 0.05f64..=1.0]) {
        let mut expected = vec![];
        for a in 0..items.len() {
            for b in a + 1..items.len() {
                let lcs = reference::lcs(&items[a], &items[b]);
                if reference::lexical(lcs, items[a].len() + items[b].len()) >= eta {
                    expected.push(Match { a: a as u32, b: b as u32, lcs });
                }
            }
        }
        let items: Vec<&Vec<u32>> = items.iter().collect();
        prop_assert_eq!(&pairs(Simd::Scalar, &items, eta, 1 << 30).unwrap(), &expected);
        prop_assert_eq!(&pairs(Simd::Avx2, &items, eta, 1 << 30).unwrap(), &expected);
        // Just enough memory, and just not.
        let needed = 24 * expected.len() as u64;
        prop_assert!(pairs(Simd::Avx2, &items, eta, needed).is_ok());
        if needed > 0 {
            match pairs(Simd::Avx2, &items, eta, needed - 1) {
                Err(Error::Limit { needed, .. }) => prop_assert_eq!(needed, expected.len() as u64),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn the_order_of_items_only_renumbers_pairs(
        (items, order) in lists().prop_flat_map(|items| {
            let order: Vec<u32> = (0..items.len() as u32).collect();
            (Just(items), Just(order).prop_shuffle())
        }),
        eta in 0.3f64..=1.0,
    ) {
        let given: Vec<&Vec<u32>> = items.iter().collect();
        let shuffled: Vec<&Vec<u32>> = order.iter().map(|&i| &items[i as usize]).collect();
        let mut back: Vec<Match> = pairs(Simd::Avx2, &shuffled, eta, 1 << 30)
            .unwrap()
            .into_iter()
            .map(|Match { a, b, lcs }| {
                let (a, b) = (order[a as usize], order[b as usize]);
                Match { a: a.min(b), b: a.max(b), lcs }
            })
            .collect();
        back.sort_unstable();
        prop_assert_eq!(pairs(Simd::Avx2, &given, eta, 1 << 30).unwrap(), back);
    }
}
