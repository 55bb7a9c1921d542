//! What holds for every selection: the greedy guarantee, disjoint groups, independence of threads.

use hunkwise::Device;
use hunkwise::anchors::{
    AnchorConfig, Csr, Groupability, Selection, Unit, facility_location, groupability, select,
};
use hunkwise::code::{Root, Span, TaskCode, Windows};
use hunkwise::edits::EditType;
use hunkwise::similarity::{Occurrence, Occurrences};
use proptest::prelude::*;

/// `n_turns` trajectories of one turn with one root of `n_lines` distinct lines each.
fn code(n_turns: u32, n_lines: u32) -> TaskCode {
    let n = n_turns * n_lines;
    TaskCode {
        tokens: (0..n).collect(),
        line_tokens: (0..=n).collect(),
        line_ids: (0..n).collect(),
        line_bytes: (0..n as usize).map(|line| line..line + 1).collect(),
        root_lines: (0..=n_turns).map(|root| root * n_lines).collect(),
        roots: (0..n_turns)
            .map(|turn| Root { turn, edit_type: EditType::Add, path: String::new() })
            .collect(),
        vocabulary: (0..n).map(|line| line.to_string().into_bytes().into()).collect(),
        turn_trajectory: (0..n_turns).collect(),
    }
}

/// Candidate `c` occurs where `table[c]` has a window for a turn.
fn occurrences(
    table: &[Vec<Option<(u32, u32)>>],
    n_candidates: usize,
    n_lines: u32,
) -> Occurrences {
    let mut occurrences = Occurrences { offsets: vec![0], items: Vec::new() };
    for candidate in 0..n_candidates {
        for (turn, window) in table.get(candidate).into_iter().flatten().enumerate() {
            if let Some((start, len)) = *window {
                let span = Span { root: turn as u32, start, len: len.min(n_lines - start) };
                occurrences.items.push(Occurrence { turn: turn as u32, span, similarity: 1.0 });
            }
        }
        occurrences.offsets.push(occurrences.items.len());
    }
    occurrences
}

fn table(
    n_candidates: usize,
    n_turns: usize,
) -> impl Strategy<Value = Vec<Vec<Option<(u32, u32)>>>> {
    let window = prop::option::weighted(0.7, (0u32..6, 1u32..5));
    prop::collection::vec(prop::collection::vec(window, n_turns), n_candidates)
}

fn run(code: &TaskCode, occurrences: &Occurrences, config: &AnchorConfig) -> Selection {
    let windows = Windows::all(code, 32).unwrap();
    select(&Device::cpu(), code, &windows, occurrences, config).unwrap()
}

/// F of a set of candidates by its definition, lines as units.
fn value(
    code: &TaskCode,
    occurrences: &Occurrences,
    chosen: &[usize],
    config: &AnchorConfig,
) -> f64 {
    let mut total = 0.0;
    for line in 0..code.line_ids.len() as u32 {
        let mut best: f64 = 0.0;
        for &candidate in chosen {
            let members = occurrences.of(candidate);
            let covers = members.iter().any(|member| {
                let start = code.root_lines[member.span.root as usize] + member.span.start;
                (start..start + member.span.len).contains(&line)
            });
            if covers && members.len() > 1 {
                let lines: u32 = members.iter().map(|member| member.span.len).sum();
                best = best.max(groupability(
                    config,
                    f64::from(lines) / members.len() as f64,
                    members.len(),
                ));
            }
        }
        total += best;
    }
    total
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn greedy_reaches_its_guarantee(table in table(7, 4), k in 1usize..4) {
        let code = code(4, 6);
        let n = Windows::all(&code, 32).unwrap().len();
        let occurrences = occurrences(&table, n, 6);
        let config = AnchorConfig { max_anchors: k, ..AnchorConfig::default() };
        let found = run(&code, &occurrences, &config);
        let mut optimum: f64 = 0.0;
        for set in 0u32..1 << 7 {
            if set.count_ones() as usize <= k {
                let chosen: Vec<usize> = (0..7).filter(|c| set >> c & 1 == 1).collect();
                optimum = optimum.max(value(&code, &occurrences, &chosen, &config));
            }
        }
        prop_assert!(found.gain <= optimum + 1e-9);
        prop_assert!(found.gain >= (1.0 - (1.0 - 1.0 / k as f64).powi(k as i32)) * optimum - 1e-9);
    }

    #[test]
    fn groups_are_disjoint_and_span_trajectories(table in table(20, 5), by_occurrence in any::<bool>()) {
        let code = code(5, 6);
        let n = Windows::all(&code, 32).unwrap().len();
        let occurrences = occurrences(&table, n, 6);
        let unit = if by_occurrence { Unit::Occurrence } else { Unit::Line };
        let found = run(&code, &occurrences, &AnchorConfig { unit, ..AnchorConfig::default() });
        let mut taken = std::collections::BTreeSet::new();
        let mut n_lines = 0;
        for anchor in &found.anchors {
            prop_assert!(anchor.members.len() >= 2);
            prop_assert!(anchor.members.windows(2).all(|pair| pair[0].turn < pair[1].turn));
            prop_assert!(anchor.score > 0.0 && anchor.score < 1.0);
            for member in &anchor.members {
                prop_assert!(occurrences.of(anchor.candidate as usize).contains(member));
                for line in member.span.start..member.span.start + member.span.len {
                    prop_assert!(taken.insert((member.span.root, line)), "line {} of {} twice", line, member.span.root);
                    n_lines += 1;
                }
            }
        }
        prop_assert_eq!(found.n_covered_lines, n_lines);
        prop_assert_eq!(found.n_picked, found.anchors.len() + found.n_dropped);
        prop_assert!(found.n_covered_units >= n_lines || unit == Unit::Occurrence);
    }

    #[test]
    fn threads_change_nothing(table in table(150, 6)) {
        let code = code(6, 10);
        let n = Windows::all(&code, 32).unwrap().len();
        let occurrences = occurrences(&table, n, 10);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| run(&code, &occurrences, &AnchorConfig::default()))
        };
        let (one, two) = (with(1), with(2));
        prop_assert_eq!(one.gain.to_bits(), two.gain.to_bits());
        prop_assert_eq!(one, two);
    }

    /// Gains fall, none is 0, each is what the pick adds to those before it, and nothing is left when picks end early.
    #[test]
    fn facility_location_gains_are_what_they_add(
        rows in prop::collection::vec(
            prop::collection::btree_map(0u32..40, 0.0f64..1.0, 0..40),
            0..30,
        ),
        k in 0usize..35,
    ) {
        let mut offsets = vec![0];
        for row in &rows {
            offsets.push(offsets[offsets.len() - 1] + row.len());
        }
        let (units, weights): (Vec<u32>, Vec<f64>) = rows.iter().flatten().unzip();
        let graph = Csr { offsets: &offsets, units: &units, weights: &weights };
        let found = facility_location(&Device::cpu(), graph, 40, k).unwrap();
        let value = |picks: &[u32]| -> f64 {
            let best = |unit| {
                let weights = picks.iter().filter_map(|&pick| rows[pick as usize].get(&unit));
                weights.fold(0.0f64, |best, &weight| best.max(weight))
            };
            (0..40).map(best).sum()
        };
        prop_assert!(found.candidates.len() <= k.min(rows.len()));
        prop_assert_eq!(found.candidates.len(), found.gains.len());
        prop_assert!(found.gains.windows(2).all(|pair| pair[0] >= pair[1] && pair[1] > 0.0));
        for n in 0..found.candidates.len() {
            let gain = value(&found.candidates[..=n]) - value(&found.candidates[..n]);
            prop_assert!((found.gains[n] - gain).abs() < 1e-9, "{} for {}", found.gains[n], gain);
        }
        if found.candidates.len() < k {
            let all: Vec<u32> = (0..rows.len() as u32).collect();
            prop_assert!((value(&found.candidates) - value(&all)).abs() < 1e-9);
        }
    }

    #[test]
    fn odd_input_is_an_error_or_harmless(
        table in table(12, 4),
        which in 0usize..8,
        at in any::<usize>(),
        value in prop_oneof![0u32..12, Just(u32::MAX), any::<u32>()],
        scale in prop_oneof![Just(8.0), Just(0.0), Just(-1.0), Just(f64::NAN), Just(1e-300), Just(1e300)],
        form in 0usize..4,
        by_occurrence in any::<bool>(),
        max_anchors in prop_oneof![Just(64), Just(0), Just(usize::MAX)],
    ) {
        let mut code = code(4, 6);
        let windows = Windows::all(&code, 32).unwrap();
        let mut occurrences = occurrences(&table, windows.len(), 6);
        let n_items = occurrences.items.len();
        let mut item = |change: &dyn Fn(&mut Occurrence)| {
            if n_items > 0 {
                change(&mut occurrences.items[at % n_items]);
            }
        };
        match which {
            0 => item(&|item| item.turn = value),
            1 => item(&|item| item.span.root = value),
            2 => item(&|item| item.span.start = value),
            3 => item(&|item| item.span.len = value),
            4 => {
                let n = occurrences.offsets.len();
                occurrences.offsets[at % n] = value as usize;
            }
            5 => {
                let n = code.root_lines.len();
                code.root_lines[at % n] = value;
            }
            6 => code.turn_trajectory.truncate(value as usize),
            _ => code.roots.truncate(value as usize),
        }
        let forms =
            [Groupability::Exponential, Groupability::Additive, Groupability::Log, Groupability::Linear];
        let unit = if by_occurrence { Unit::Occurrence } else { Unit::Line };
        let config = AnchorConfig { groupability: forms[form], s0: scale, g0: scale, max_anchors, unit };
        if let Ok(found) = select(&Device::cpu(), &code, &windows, &occurrences, &config) {
            prop_assert!(found.gain.is_finite());
            prop_assert!(found.anchors.iter().all(|anchor| anchor.score.is_finite() && anchor.members.len() > 1));
        }
    }
}
