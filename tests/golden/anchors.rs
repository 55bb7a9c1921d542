//! Anchor selection worked out by hand.

use hunkwise::anchors::{
    AnchorConfig, Csr, Groupability, Unit, facility_location, groupability, select,
};
use hunkwise::code::{Root, Span, TaskCode, Windows};
use hunkwise::edits::EditType;
use hunkwise::similarity::{Occurrence, Occurrences};
use hunkwise::{Device, Error};

/// One root per turn and one turn per trajectory; a line is its letter.
fn code(roots: &[&str]) -> TaskCode {
    let mut code = TaskCode { line_tokens: vec![0], root_lines: vec![0], ..TaskCode::default() };
    for (turn, lines) in roots.iter().enumerate() {
        for letter in lines.bytes() {
            let id = match code.vocabulary.iter().position(|known| known[0] == letter) {
                Some(id) => id,
                None => {
                    code.vocabulary.push(Box::new([letter]));
                    code.vocabulary.len() - 1
                }
            };
            code.tokens.push(id as u32);
            code.line_ids.push(id as u32);
            let at = code.line_ids.len();
            code.line_tokens.push(at as u32);
            code.line_bytes.push(at - 1..at);
        }
        code.root_lines.push(code.line_ids.len() as u32);
        code.roots.push(Root { turn: turn as u32, edit_type: EditType::Add, path: String::new() });
        code.turn_trajectory.push(turn as u32);
    }
    code
}

/// Occurrences of each candidate where its lines stand exactly, the first place in each turn.
fn exact(code: &TaskCode, windows: &Windows) -> Occurrences {
    let mut occurrences = Occurrences { offsets: vec![0], items: Vec::new() };
    for candidate in 0..windows.len() as u32 {
        let mut last = None;
        for &span in windows.places(candidate) {
            let turn = code.roots[span.root as usize].turn;
            if last != Some(turn) {
                occurrences.items.push(Occurrence { turn, span, similarity: 1.0 });
                last = Some(turn);
            }
        }
        occurrences.offsets.push(occurrences.items.len());
    }
    occurrences
}

fn span(root: u32, start: u32, len: u32) -> Span {
    Span { root, start, len }
}

#[test]
fn groupability_forms() {
    let form = |groupability| AnchorConfig { groupability, ..AnchorConfig::default() };
    let near =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-15, "{found} {expected}");
    // L/s0 = 1/2 and (n-1)/g0 = 1/4.
    near(groupability(&form(Groupability::Exponential), 4.0, 3), 0.08703510995697641);
    near(groupability(&form(Groupability::Additive), 4.0, 3), 0.75);
    near(groupability(&form(Groupability::Log), 4.0, 3), 0.09047692415725579);
    near(groupability(&form(Groupability::Linear), 4.0, 3), 0.125);
    for kind in
        [Groupability::Exponential, Groupability::Additive, Groupability::Log, Groupability::Linear]
    {
        assert_eq!(
            (groupability(&form(kind), 4.0, 1), groupability(&form(kind), 4.0, 0)),
            (0.0, 0.0)
        );
    }
}

#[test]
fn the_shared_part_of_two_diffs_is_the_only_anchor() {
    let code = code(&["abcXYZ", "PQabcRS"]);
    let windows = Windows::all(&code, 32).unwrap();
    let occurrences = exact(&code, &windows);
    let found =
        select(&Device::cpu(), &code, &windows, &occurrences, &AnchorConfig::default()).unwrap();
    assert_eq!(found.n_eligible, 6);
    // abc covers its six lines at the largest score; nothing is left to gain.
    assert_eq!((found.n_picked, found.n_dropped, found.anchors.len()), (1, 0, 1));
    let anchor = &found.anchors[0];
    assert_eq!(anchor.span, span(0, 0, 3));
    assert_eq!(
        anchor.members.iter().map(|member| member.span).collect::<Vec<_>>(),
        [span(0, 0, 3), span(1, 2, 3)]
    );
    // (1 - exp(-3/8))·(1 - exp(-1/8)), and six times that.
    assert!((anchor.score - 0.0367444783370658).abs() < 1e-15);
    assert!((found.gain - 6.0 * 0.0367444783370658).abs() < 1e-14);
    assert_eq!((found.n_covered_units, found.n_covered_lines), (6, 6));
}

#[test]
fn occurrences_as_units_count_shifted_windows_again() {
    let code = code(&["abcXYZ", "PQabcRS"]);
    let windows = Windows::all(&code, 32).unwrap();
    let occurrences = exact(&code, &windows);
    let config = AnchorConfig { unit: Unit::Occurrence, ..AnchorConfig::default() };
    let found = select(&Device::cpu(), &code, &windows, &occurrences, &config).unwrap();
    // All six windows inside abc are picked; the cut leaves the longest.
    assert_eq!((found.n_picked, found.n_dropped, found.anchors.len()), (6, 5, 1));
    assert_eq!(found.anchors[0].span, span(0, 0, 3));
}

#[test]
fn one_trajectory_is_no_group() {
    let mut code = code(&["ab", "ab"]);
    code.turn_trajectory = vec![0, 0];
    let windows = Windows::all(&code, 32).unwrap();
    let occurrences = exact(&code, &windows);
    let found =
        select(&Device::cpu(), &code, &windows, &occurrences, &AnchorConfig::default()).unwrap();
    assert_eq!((found.n_candidates, found.n_eligible, found.anchors.len()), (3, 0, 0));
}

#[test]
fn equal_gains_take_the_lower_candidate_and_k_limits_the_picks() {
    // Lines a and b never stand together, and are equally common.
    let code = code(&["aXb", "bYa"]);
    let windows = Windows::all(&code, 32).unwrap();
    let occurrences = exact(&code, &windows);
    let first = windows.first(0);
    assert_eq!(first, span(0, 0, 1));
    let config = AnchorConfig { max_anchors: 1, ..AnchorConfig::default() };
    let found = select(&Device::cpu(), &code, &windows, &occurrences, &config).unwrap();
    assert_eq!((found.anchors.len(), found.anchors[0].candidate), (1, 0));
    let none = AnchorConfig { max_anchors: 0, ..AnchorConfig::default() };
    let found = select(&Device::cpu(), &code, &windows, &occurrences, &none).unwrap();
    assert_eq!((found.n_picked, found.n_evaluations), (0, 0));
}

#[test]
fn the_cut_gives_shared_lines_to_the_larger_score() {
    // "ab" in all four; "bc" in the first three only, overlapping "ab" at b. The larger group keeps b and the other
    // is left without members.
    let code = code(&["abcP", "abcQ", "abcR", "abS"]);
    let windows = Windows::all(&code, 32).unwrap();
    let all = exact(&code, &windows);
    let keep: Vec<u32> = (0..windows.len() as u32)
        .filter(|&c| [span(0, 0, 2), span(0, 1, 2)].contains(&windows.first(c)))
        .collect();
    let mut occurrences = Occurrences { offsets: vec![0], items: Vec::new() };
    for candidate in 0..windows.len() as u32 {
        if keep.contains(&candidate) {
            occurrences.items.extend_from_slice(all.of(candidate as usize));
        }
        occurrences.offsets.push(occurrences.items.len());
    }
    let found =
        select(&Device::cpu(), &code, &windows, &occurrences, &AnchorConfig::default()).unwrap();
    assert_eq!((found.n_picked, found.n_dropped), (2, 1));
    assert_eq!((found.n_occurrences, found.n_members), (7, 4));
    assert_eq!(found.anchors[0].span, span(0, 0, 2));
    assert_eq!(found.n_covered_units, 4 * 2 + 3);
}

#[test]
fn input_that_does_not_fit_is_refused() {
    let code = code(&["ab", "ab"]);
    let windows = Windows::all(&code, 32).unwrap();
    let good = exact(&code, &windows);
    let config = AnchorConfig::default();
    let shape = |change: &dyn Fn(&mut Occurrences)| {
        let mut bad = good.clone();
        change(&mut bad);
        let found = select(&Device::cpu(), &code, &windows, &bad, &config);
        assert!(matches!(found, Err(Error::Shape { op: "anchors", .. })), "{found:?}");
    };
    shape(&|bad| bad.offsets.truncate(2));
    shape(&|bad| bad.offsets[1] = 99);
    shape(&|bad| bad.items.truncate(1));
    shape(&|bad| bad.items[0].span.len = 0);
    shape(&|bad| bad.items[0].span.start = u32::MAX);
    shape(&|bad| bad.items[0].span.root = 9);
    shape(&|bad| bad.items[0].turn = 1);
    shape(&|bad| bad.items[1] = bad.items[0]);
    for (s0, g0) in [(0.0, 8.0), (8.0, f64::NAN), (-1.0, 8.0)] {
        let config = AnchorConfig { s0, g0, ..config.clone() };
        assert!(matches!(
            select(&Device::cpu(), &code, &windows, &good, &config),
            Err(Error::Config { .. })
        ));
    }
    let tiny = AnchorConfig {
        s0: 1e-300,
        g0: 1e-300,
        groupability: Groupability::Linear,
        ..config.clone()
    };
    assert!(matches!(
        select(&Device::cpu(), &code, &windows, &good, &tiny),
        Err(Error::Config { .. })
    ));
    // Every score is finite, but four lines of them are not.
    let sum = AnchorConfig { s0: 2e-308, g0: 1.0, ..tiny };
    let found = select(&Device::cpu(), &code, &windows, &good, &sum);
    assert!(matches!(found, Err(Error::Config { name: "s0", .. })), "{found:?}");
    let empty = TaskCode::default();
    let none = select(
        &Device::cpu(),
        &empty,
        &Windows::all(&empty, 32).unwrap(),
        &Occurrences::default(),
        &config,
    );
    assert_eq!(none.unwrap().anchors, []);
}

/// Three facilities, four customers. First 0 (3 + 2 + 1); then 2 adds 0 + 0 + 3 - 1 + 2 = 4, and 1 adds 3 - 2 = 1.
#[test]
fn facility_location_by_hand() {
    let graph = Csr {
        offsets: &[0, 3, 5, 8],
        units: &[0, 1, 2, 0, 1, 1, 2, 3],
        weights: &[3.0, 2.0, 1.0, 1.0, 3.0, 1.0, 3.0, 2.0],
    };
    let pick = |k| facility_location(&Device::cpu(), graph, 4, k).unwrap();
    assert_eq!(pick(3).candidates, [0, 2, 1]);
    assert_eq!(pick(3).gains, [6.0, 4.0, 1.0]);
    assert_eq!(pick(2).candidates, [0, 2]);
    assert_eq!(pick(0).candidates, [0u32; 0]);
    // Equal gains: the lower index. Nothing left to gain: no pick.
    let graph = Csr { offsets: &[0, 1, 2, 3], units: &[0, 0, 0], weights: &[0.5, 1.0, 1.0] };
    let found = facility_location(&Device::cpu(), graph, 1, 3).unwrap();
    assert_eq!((found.candidates, found.gains), (vec![1], vec![1.0]));
}

#[test]
fn facility_location_says_what_is_wrong_with_a_graph() {
    let run = |offsets: &[usize], units: &[u32], weights: &[f64]| {
        facility_location(&Device::cpu(), Csr { offsets, units, weights }, 2, 1)
            .unwrap_err()
            .to_string()
    };
    for offsets in [&[][..], &[1, 2], &[0, 2, 1, 2], &[0, 1]] {
        let message = run(offsets, &[0, 1], &[1.0, 1.0]);
        assert!(message.contains("`offsets` must ascend from 0 to 2"), "{message}");
    }
    assert!(run(&[0, 2], &[0, 1], &[1.0]).contains("2 units, but 1 weights"));
    let message = run(&[0, 1, 2], &[0, 2], &[1.0, 1.0]);
    assert!(message.contains("edge 1, of candidate 1, has unit 2 of 2"), "{message}");
    for (weight, text) in [(-1.0, "-1"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let message = run(&[0, 0, 2], &[0, 1], &[1.0, weight]);
        let expected = format!("edge 1, of candidate 1, has weight {text}");
        assert!(message.contains(&expected), "{message}");
    }
}

/// A graph of 60 rows whose 12 picks cover each unit several times. Picks and gains are those of apricot-select 0.6.1 (lazy,
/// precomputed similarities); the closest second is 0.002 behind.
#[test]
fn facility_location_of_a_dense_graph() {
    let (mut offsets, mut units, mut weights) = (vec![0], vec![], vec![]);
    for i in 0..60u32 {
        for j in 0..60u32 {
            if i.abs_diff(j) <= 20 {
                let number = (i * 7919 + j * 104_729 + i * j * 13) % 9973;
                units.push(j);
                weights.push(0.5 + f64::from(number) / 20_000.0);
            }
        }
        offsets.push(units.len());
    }
    let graph = Csr { offsets: &offsets, units: &units, weights: &weights };
    let found = facility_location(&Device::cpu(), graph, 60, 12).unwrap();
    assert_eq!(found.candidates, [20, 41, 44, 23, 16, 3, 39, 43, 6, 42, 45, 40]);
    let gains = [
        31.2317, 16.3814, 3.1681, 2.8411, 1.12845, 0.8487, 0.80515, 0.69095, 0.31185, 0.22585,
        0.1631, 0.1538,
    ];
    for (found, gain) in found.gains.iter().zip(gains) {
        assert!((found - gain).abs() < 1e-9, "{found} for {gain}");
    }
}
