//! What holds for any code: symmetry, bounds, identity, order in eta, no panic on broken arrays.

#[path = "../support/tasks.rs"]
mod tasks;

use hunkwise::Device;
use hunkwise::code::{TaskCode, Windows};
use hunkwise::edits::EditType;
use hunkwise::reference::similarity as reference;
use hunkwise::similarity::{
    LineVectors, Ragged, SimilarityConfig, exact_occurrences, indel_similarity, lcs, matches,
    occurrences, pair_similarity,
};
use proptest::collection::vec;
use proptest::prelude::*;
use tasks::{Random, Shape, random_task};

fn any_task() -> impl Strategy<Value = TaskCode> {
    (any::<u64>(), 1u64..8, 1u64..14, 1u64..9, 1u64..7, 1u64..4).prop_map(
        |(seed, n_turns, max_root_lines, n_lines, max_line_tokens, n_types)| {
            let shape = Shape {
                n_turns,
                max_roots_per_turn: 2,
                max_root_lines,
                n_lines,
                max_line_tokens,
                n_symbols: 10,
                n_types,
            };
            random_task(&mut Random(seed), shape)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn lcs_is_that_of_the_table(a in vec(0u32..6, 0..200), b in vec(0u32..6, 0..200)) {
        prop_assert_eq!(lcs(&a, &b), reference::lcs(&a, &b));
    }

    #[test]
    fn similarity_is_symmetric_bounded_and_1_for_equals(
        a in vec(any::<u32>(), 0..80),
        cut in 0usize..80,
        extra in vec(0u32..3, 0..20),
    ) {
        let cut = cut.min(a.len());
        let b = [&a[cut..], &extra].concat();
        let similarity = indel_similarity(&a, &b);
        prop_assert_eq!(similarity, indel_similarity(&b, &a));
        prop_assert!((0.0..=1.0).contains(&similarity));
        prop_assert_eq!(similarity == 1.0, a == b);
        prop_assert_eq!(indel_similarity(&a, &a), 1.0);
        prop_assert_eq!(similarity, reference::indel_similarity(&a, &b));
    }

    #[test]
    fn occurrences_hold_what_they_promise(code in any_task(), eta in 0.3f64..=1.0, max_lines in 1u32..10) {
        let windows = Windows::all(&code, max_lines).unwrap();
        let config = SimilarityConfig { eta, ..SimilarityConfig::default() };
        let found = occurrences(&Device::cpu(), &code, &windows, None, &config).unwrap();
        prop_assert_eq!(found.len(), windows.len());
        for candidate in 0..windows.len() {
            let own = windows.first(candidate as u32);
            let of_type = code.roots[own.root as usize].edit_type;
            for item in found.of(candidate) {
                let root = &code.roots[item.span.root as usize];
                prop_assert_eq!((root.turn, root.edit_type), (item.turn, of_type));
                let expected = reference::indel_similarity(code.tokens_of(own), code.tokens_of(item.span));
                prop_assert_eq!(item.similarity, expected);
                prop_assert!(item.similarity >= eta);
            }
            prop_assert!(found.of(candidate).windows(2).all(|pair| pair[0].turn < pair[1].turn));
            // It is found in each of its own turns, whole.
            for place in windows.places(candidate as u32) {
                let turn = code.roots[place.root as usize].turn;
                let own = found.of(candidate).iter().find(|item| item.turn == turn);
                prop_assert_eq!(own.map(|item| item.similarity), Some(1.0));
            }
        }
    }

    #[test]
    fn a_higher_eta_finds_a_part(code in any_task(), low in 0.3f64..0.9, step in 0.0f64..0.1) {
        let windows = Windows::all(&code, 32).unwrap();
        let at = |eta| SimilarityConfig { eta, ..SimilarityConfig::default() };
        let device = Device::cpu();
        let many = matches(&device, &code, &windows, None, &at(low)).unwrap();
        let few = matches(&device, &code, &windows, None, &at(low + step)).unwrap();
        prop_assert!(few.iter().all(|pair| many.binary_search(pair).is_ok()));
        prop_assert!(many.iter().all(|pair| pair.a < pair.b));
        prop_assert!(many.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn eta_1_without_line_breaks_is_equality(code in any_task()) {
        let windows = Windows::all(&code, 1).unwrap();
        let config = SimilarityConfig { eta: 1.0, ..SimilarityConfig::default() };
        let exact = exact_occurrences(&code, &windows).unwrap();
        let found = occurrences(&Device::cpu(), &code, &windows, None, &config).unwrap();
        for candidate in (0..windows.len()).filter(|&c| windows.first(c as u32).len == 1) {
            // Lines of equal tokens are equal, and a whole root of several lines has more.
            let same = found.of(candidate).iter().filter(|item| item.span.len == 1);
            prop_assert!(exact.of(candidate).iter().all(|item| found.of(candidate).iter().any(|x| x.turn == item.turn)));
            prop_assert!(same.count() <= exact.of(candidate).len());
        }
    }

    #[test]
    fn windows_and_lists_agree(code in any_task(), eta in 0.4f64..=1.0) {
        let windows = Windows::all(&code, 4).unwrap();
        let config = SimilarityConfig { eta, ..SimilarityConfig::default() };
        let device = Device::cpu();
        let by_windows = matches(&device, &code, &windows, None, &config).unwrap();
        let mut tokens = vec![];
        let mut offsets = vec![0];
        for candidate in 0..windows.len() {
            tokens.extend_from_slice(code.tokens_of(windows.first(candidate as u32)));
            offsets.push(tokens.len() as u32);
        }
        let mut by_list = pair_similarity(&device, Ragged { tokens: &tokens, offsets: &offsets }, eta, 1 << 30).unwrap();
        let type_of = |c: u32| code.roots[windows.first(c).root as usize].edit_type;
        by_list.retain(|pair| type_of(pair.a) == type_of(pair.b));
        prop_assert_eq!(by_windows, by_list);
    }

    #[test]
    fn broken_code_is_an_error_or_harmless(
        code in any_task(),
        which in 0usize..6,
        at in any::<usize>(),
        value in prop_oneof![0u32..20, Just(u32::MAX)],
    ) {
        let windows = Windows::all(&code, 3).unwrap();
        let mut broken = code.clone();
        let array = match which {
            0 => &mut broken.tokens,
            1 => &mut broken.line_tokens,
            2 => &mut broken.line_ids,
            3 => &mut broken.root_lines,
            _ => {
                if let Some(root) = broken.roots.last_mut() {
                    root.turn = value;
                }
                &mut broken.turn_trajectory
            }
        };
        if which == 5 {
            array.pop();
        } else if !array.is_empty() {
            let at = at % array.len();
            array[at] = value;
        }
        let device = Device::cpu();
        for embedding_weight in [0.0, 0.5] {
            let config = SimilarityConfig { embedding_weight, ..SimilarityConfig::default() };
            let vectors = LineVectors::hashed(&broken, 8);
            if let Ok(vectors) = &vectors {
                let _ = matches(&device, &broken, &windows, Some(vectors), &config);
            }
            let found = occurrences(&device, &broken, &windows, vectors.as_ref().ok(), &config);
            prop_assert!(found.is_err() || found.unwrap().len() == windows.len());
        }
        let _ = exact_occurrences(&broken, &windows);
    }

    #[test]
    fn windows_of_another_task_are_an_error_or_harmless(
        code in any_task(),
        other in any_task(),
        max_lines in 0u32..5,
        swap_types in any::<bool>(),
    ) {
        let build = |code| {
            if max_lines == 0 { Windows::whole(code) } else { Windows::all(code, max_lines) }
        };
        let mut twin = code.clone();
        // A task of the same shape whose lines are all equal, and one with other types.
        twin.line_ids.fill(0);
        if swap_types {
            for root in &mut twin.roots {
                root.edit_type = EditType::Delete;
            }
        }
        let device = Device::cpu();
        for windows in [build(&other).unwrap(), build(&twin).unwrap()] {
            for embedding_weight in [0.0, 0.5] {
                let vectors = LineVectors::hashed(&code, 8).unwrap();
                let config = SimilarityConfig { embedding_weight, ..SimilarityConfig::default() };
                let found = occurrences(&device, &code, &windows, Some(&vectors), &config);
                prop_assert!(found.is_err() || found.unwrap().len() == windows.len());
                let _ = matches(&device, &code, &windows, Some(&vectors), &config);
            }
            let _ = exact_occurrences(&code, &windows);
        }
    }

    #[test]
    fn lists_with_any_offsets_are_an_error_or_harmless(
        tokens in vec(prop_oneof![0u32..5, any::<u32>()], 0..60),
        mut offsets in vec(prop_oneof![8 => 0u32..61, 1 => any::<u32>()], 0..8),
        mend in any::<bool>(),
        eta in prop_oneof![Just(f64::NAN), Just(0.0), Just(1.0), -1.0f64..2.0],
    ) {
        if mend {
            offsets.iter_mut().for_each(|offset| *offset = (*offset).min(tokens.len() as u32));
            offsets.push(0);
            offsets.push(tokens.len() as u32);
            offsets.sort_unstable();
        }
        let items = Ragged { tokens: &tokens, offsets: &offsets };
        let found = pair_similarity(&Device::cpu(), items, eta, 1 << 30);
        prop_assert_eq!(found.is_ok(), mend && eta > 0.0 && eta <= 1.0 || {
            offsets.first() == Some(&0) && offsets.is_sorted() && offsets.last() == Some(&(tokens.len() as u32))
                && eta > 0.0 && eta <= 1.0
        });
    }

    #[test]
    fn line_vectors_from_any_table(code in any_task(), table in vec(-1e30f32..1e30, 8 * 10)) {
        let rows_of = |text: &[u8]| vec![u32::from(text[text.len() - 1] - b'0'), 3];
        let vectors = LineVectors::from_table(&code, 8, &table, rows_of).unwrap();
        let n_lines = code.line_ids.iter().max().map_or(0, |&id| id as usize + 1);
        prop_assert_eq!(vectors.len(), n_lines);
        prop_assert!(vectors.as_slice().iter().all(|&x| x != -128));
        if n_lines > 0 {
            prop_assert_eq!(vectors.as_slice().iter().map(|x| x.unsigned_abs()).max(), Some(127));
        }
    }
}
