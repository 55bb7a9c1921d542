//! Anchor selection against naive greedy: picks, groups and scores, bit for bit.

use hunkwise::Device;
use hunkwise::anchors::{
    AnchorConfig, Csr, Groupability, Unit, facility_location, groupability, select,
};
use hunkwise::code::{Root, Span, TaskCode, Windows};
use hunkwise::edits::EditType;
use hunkwise::reference;
use hunkwise::similarity::{Occurrence, Occurrences};
use proptest::prelude::*;

use crate::devices::others;

/// A task of distinct lines: `roots[r]` is the turn step (0 stays in the turn, 1 goes on) and the number of lines.
fn code(roots: &[(u32, u32)], turns_per_trajectory: u32) -> TaskCode {
    let mut code = TaskCode { line_tokens: vec![0], root_lines: vec![0], ..TaskCode::default() };
    let mut turn = 0;
    for &(step, n_lines) in roots {
        turn += step;
        for _ in 0..n_lines {
            let line = code.line_ids.len();
            code.tokens.push(line as u32);
            code.line_ids.push(line as u32);
            code.line_tokens.push(line as u32 + 1);
            code.line_bytes.push(line..line + 1);
            code.vocabulary.push(line.to_string().into_bytes().into());
        }
        code.root_lines.push(code.line_ids.len() as u32);
        code.roots.push(Root { turn, edit_type: EditType::Add, path: String::new() });
    }
    code.turn_trajectory = (0..=turn).map(|turn| turn / turns_per_trajectory).collect();
    code
}

/// For each candidate, a random window in some of the turns.
fn occurrences(
    code: &TaskCode,
    n_candidates: usize,
    mut draw: impl FnMut(u32) -> u32,
) -> Occurrences {
    let mut occurrences = Occurrences { offsets: vec![0], items: Vec::new() };
    for _ in 0..n_candidates {
        for turn in 0..code.turn_trajectory.len() as u32 {
            let roots: Vec<usize> =
                (0..code.roots.len()).filter(|&r| code.roots[r].turn == turn).collect();
            if roots.is_empty() || draw(3) == 0 {
                continue;
            }
            let root = roots[draw(roots.len() as u32) as usize];
            let n_lines = code.root_lines[root + 1] - code.root_lines[root];
            let start = draw(n_lines);
            let len = 1 + draw((n_lines - start).min(4));
            let span = Span { root: root as u32, start, len };
            occurrences.items.push(Occurrence { turn, span, similarity: 0.9 });
        }
        occurrences.offsets.push(occurrences.items.len());
    }
    occurrences
}

fn splitmix(mut state: u64) -> impl FnMut(u32) -> u32 {
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(below.max(1))) as u32
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn select_equals_naive_greedy(
        roots in prop::collection::vec((0u32..2, 1u32..7), 1..9),
        turns_per_trajectory in 1u32..4,
        seed in any::<u64>(),
        max_anchors in 0usize..12,
        by_occurrence in any::<bool>(),
        form in 0usize..4,
        scale in prop::sample::select(vec![0.5, 1.0, 8.0]),
    ) {
        let code = code(&roots, turns_per_trajectory);
        let windows = Windows::all(&code, 3).unwrap();
        let occurrences = occurrences(&code, windows.len(), splitmix(seed));
        let forms = [Groupability::Exponential, Groupability::Additive, Groupability::Log, Groupability::Linear];
        let config = AnchorConfig {
            groupability: forms[form],
            s0: scale,
            g0: scale,
            max_anchors,
            unit: if by_occurrence { Unit::Occurrence } else { Unit::Line },
        };
        let expected = reference::anchors::select(&code, &occurrences, &config);
        let found = select(&Device::cpu(), &code, &windows, &occurrences, &config).unwrap();
        for device in others() {
            let other = select(&device, &code, &windows, &occurrences, &config).unwrap();
            prop_assert_eq!((other.n_picked, other.n_covered_units), (found.n_picked, found.n_covered_units));
            prop_assert_eq!(other.gain.to_bits(), found.gain.to_bits());
            prop_assert_eq!(&other.anchors, &found.anchors);
        }

        prop_assert_eq!(found.n_picked, expected.picks.len());
        let gain: f64 = expected.picks.iter().fold(0.0, |sum, (_, gain)| sum + gain);
        prop_assert_eq!(found.gain.to_bits(), gain.to_bits());
        prop_assert_eq!(found.n_dropped, expected.picks.len() - expected.anchors.len());
        prop_assert_eq!(found.anchors.len(), expected.anchors.len());
        for (anchor, (candidate, score, members)) in found.anchors.iter().zip(&expected.anchors) {
            prop_assert_eq!(anchor.candidate, *candidate);
            prop_assert_eq!(anchor.span, windows.first(*candidate));
            prop_assert_eq!(anchor.score.to_bits(), score.to_bits());
            prop_assert_eq!(&anchor.members, members);
        }
    }

    #[test]
    fn groupability_equals_its_formula(lines in 0.5f64..200.0, n in 0usize..100, form in 0usize..4) {
        let forms = [Groupability::Exponential, Groupability::Additive, Groupability::Log, Groupability::Linear];
        let config = AnchorConfig { groupability: forms[form], ..AnchorConfig::default() };
        let expected = reference::anchors::groupability(&config, lines, n);
        prop_assert_eq!(groupability(&config, lines, n).to_bits(), expected.to_bits());
    }
}

/// A random graph; `n_weights` distinct weights, so that few of them make many ties.
fn graph(
    n_candidates: usize,
    n_units: u32,
    density: u32,
    n_weights: u32,
    seed: u64,
) -> Vec<Vec<(u32, f64)>> {
    let mut draw = splitmix(seed);
    let mut rows = vec![vec![]; n_candidates];
    for row in &mut rows {
        let share = 1 + draw(density);
        for unit in 0..n_units {
            if draw(density) < share {
                row.push((unit, f64::from(draw(n_weights)) / 7.0));
            }
        }
    }
    rows
}

fn check_facility(rows: &[Vec<(u32, f64)>], n_units: usize, k: usize) {
    let mut offsets = vec![0];
    for row in rows {
        offsets.push(offsets[offsets.len() - 1] + row.len());
    }
    let (units, weights): (Vec<u32>, Vec<f64>) = rows.iter().flatten().copied().unzip();
    let expected = reference::anchors::facility_location(rows, n_units, k);
    for n_threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
        let graph = Csr { offsets: &offsets, units: &units, weights: &weights };
        let found = pool.install(|| facility_location(&Device::cpu(), graph, n_units, k)).unwrap();
        let found: Vec<(u32, f64)> = found.candidates.into_iter().zip(found.gains).collect();
        assert_eq!(found, expected);
    }
    for device in others() {
        #[cfg(feature = "wgpu")]
        if matches!(device, Device::Wgpu(_)) {
            // Not there: it says so.
            continue;
        }
        let graph = Csr { offsets: &offsets, units: &units, weights: &weights };
        let found = facility_location(&device, graph, n_units, k).unwrap();
        let found: Vec<(u32, f64)> = found.candidates.into_iter().zip(found.gains).collect();
        assert_eq!(found, expected, "{device:?}");
    }
}

#[test]
fn facility_location_on_graphs_of_any_density() {
    for seed in 0..60 {
        let n_units = [1, 30, 64, 65, 200, 900][seed as usize % 6];
        let n_weights = [1, 2, 5, 1 << 20][seed as usize % 4];
        let rows = graph(1 + seed as usize % 37, n_units, 1 + seed as u32 % 5, n_weights, seed);
        check_facility(&rows, n_units as usize, [0, 1, 5, 40][seed as usize / 2 % 4]);
    }
    // Nothing to pick, nothing to cover.
    check_facility(&[], 0, 3);
    check_facility(&[vec![], vec![(0, 0.0)]], 1, 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Rows of every layout, in any order of units; weights of every range. Many picks, so that units are covered again
    /// and again.
    #[test]
    fn facility_location_with_weights_of_any_range(
        seed in any::<u64>(),
        n_candidates in 1usize..160,
        n_units in 1u32..400,
        most_step in 1u32..60,
        (base, spread) in prop::sample::select(vec![
            (0.8, 0.2), (0.0, 1.0), (0.0, 1e-300), (1e9, 1e-3), (1.0, 0.0), (0.0, 5e-324), (0.0, 1.7e308),
        ]),
        n_weights in prop::sample::select(vec![1u32, 3, 1 << 24]),
        shuffled in any::<bool>(),
        k in 1usize..50,
    ) {
        let mut draw = splitmix(seed);
        let mut rows = vec![vec![]; n_candidates];
        for row in &mut rows {
            let mut unit = draw(n_units);
            while unit < n_units {
                let share = f64::from(draw(n_weights)) / f64::from(n_weights);
                row.push((unit, base + spread * share));
                unit += 1 + draw(most_step);
            }
            if shuffled {
                for i in 1..row.len() {
                    row.swap(i, draw(i as u32 + 1) as usize);
                }
            }
        }
        check_facility(&rows, n_units as usize, k);
    }
}
