//! Anchor selection, group advantages and projection. Each is checked against the reference on a small shape before it
//! is timed.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use hunkwise::Device;
use hunkwise::advantage::{Cover, Estimator, group_advantage, project};
use hunkwise::anchors::{AnchorConfig, Csr, facility_location, select};
use hunkwise::code::{Root, Span, TaskCode, Windows};
use hunkwise::edits::EditType;
use hunkwise::error::Place;
use hunkwise::reference;
use hunkwise::rollout::{Sequence, Tokens, Turn};
use hunkwise::similarity::{Occurrence, Occurrences};

fn splitmix(mut state: u64) -> impl FnMut(u32) -> u32 {
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(below.max(1))) as u32
    }
}

/// `n_turns` rollouts of one root of `n_lines` lines; every window occurs in about `share` of 8 of the other turns,
/// near its own place and about as long.
fn task(n_turns: u32, n_lines: u32, share: u32) -> (TaskCode, Windows, Occurrences) {
    let n = n_turns * n_lines;
    let code = TaskCode {
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
    };
    let windows = Windows::all(&code, 32).expect("a small task");
    let mut draw = splitmix(7);
    let mut occurrences = Occurrences { offsets: vec![0], items: Vec::new() };
    for candidate in 0..windows.len() as u32 {
        let own = windows.first(candidate);
        for turn in 0..n_turns {
            let span = if turn == own.root {
                own
            } else if draw(8) < share {
                let start = (own.start + draw(3)).saturating_sub(1).min(n_lines - 1);
                let len = (own.len + draw(3)).saturating_sub(1).clamp(1, n_lines - start);
                Span { root: turn, start, len }
            } else {
                continue;
            };
            occurrences.items.push(Occurrence { turn, span, similarity: 0.9 });
        }
        occurrences.offsets.push(occurrences.items.len());
    }
    (code, windows, occurrences)
}

pub(crate) fn anchors(c: &mut Criterion) {
    let config = AnchorConfig::default();
    let device = Device::cpu();

    let (code, windows, occurrences) = task(4, 8, 4);
    let expected = reference::anchors::select(&code, &occurrences, &config);
    let found = select(&device, &code, &windows, &occurrences, &config).expect("a valid task");
    assert_eq!(found.n_picked, expected.picks.len());
    assert_eq!(found.anchors.len(), expected.anchors.len());
    for (anchor, (candidate, score, members)) in found.anchors.iter().zip(&expected.anchors) {
        assert_eq!(
            (anchor.candidate, anchor.score, &anchor.members),
            (*candidate, *score, members)
        );
    }

    let mut group = c.benchmark_group("anchor_gain");
    for (name, n_turns, share) in [("n20k_sparse", 26, 2), ("n20k_dense", 26, 8)] {
        let (code, windows, occurrences) = task(n_turns, 40, share);
        let nnz: u64 = occurrences.items.iter().map(|item| u64::from(item.span.len)).sum();
        let found = select(&device, &code, &windows, &occurrences, &config).expect("a valid task");
        eprintln!(
            "{name}: {} candidates, nnz {nnz}, {} picks, {} evaluations",
            windows.len(),
            found.n_picked,
            found.n_evaluations
        );
        group.throughput(Throughput::Elements(nnz));
        group.bench_function(name, |b| {
            b.iter(|| select(&device, &code, black_box(&windows), &occurrences, &config));
        });
    }
    group.finish();
}

/// Items on a ring, each joined to about half of the `reach` next on each side, with weights from 0.8 to 1.
fn ring(n: u32, reach: u32) -> Vec<Vec<(u32, f64)>> {
    let mut draw = splitmix(11);
    let mut rows: Vec<Vec<(u32, f64)>> = (0..n).map(|item| vec![(item, 1.0)]).collect();
    for item in 0..n {
        for step in 1..=reach {
            if draw(2) == 0 {
                let weight = 0.8 + 0.2 * f64::from(draw(1 << 30)) / f64::from(1 << 30);
                let other = (item + step) % n;
                rows[item as usize].push((other, weight));
                rows[other as usize].push((item, weight));
            }
        }
    }
    for row in &mut rows {
        row.sort_by_key(|edge| edge.0);
    }
    rows
}

pub(crate) fn facilities(c: &mut Criterion) {
    let device = Device::cpu();
    let mut group = c.benchmark_group("facility_location");
    for (name, n, reach, k) in
        [("small", 300, 40, 20), ("n20k_sparse", 20_000, 125, 64), ("n20k_dense", 20_000, 1235, 64)]
    {
        let rows = ring(n, reach);
        let mut offsets = vec![0];
        for row in &rows {
            offsets.push(offsets[offsets.len() - 1] + row.len());
        }
        let (units, weights): (Vec<u32>, Vec<f64>) = rows.iter().flatten().copied().unzip();
        let graph = Csr { offsets: &offsets, units: &units, weights: &weights };
        let run = || facility_location(&device, black_box(graph), n as usize, k);
        if n < 1000 {
            let found = run().expect("a valid graph");
            let expected = reference::anchors::facility_location(&rows, n as usize, k);
            let found: Vec<(u32, f64)> = found.candidates.into_iter().zip(found.gains).collect();
            assert_eq!(found, expected);
        }
        drop(rows);
        group.sample_size(10);
        group.throughput(Throughput::Elements(units.len() as u64));
        group.bench_function(name, |b| b.iter(run));
    }
    group.finish();
}

pub(crate) fn groups(c: &mut Criterion) {
    let device = Device::cpu();
    let mut draw = splitmix(3);
    let values: Vec<Option<f64>> = (0..80_000)
        .map(|_| if draw(20) == 0 { None } else { Some(f64::from(draw(3)) / 2.0) })
        .collect();
    let offsets: Vec<usize> = (0..=10_000).map(|group| group * 8).collect();
    let run = || group_advantage(&device, black_box(&values), &offsets, Estimator::Grpo, 1e-6, 1);
    let found = run().expect("valid groups");
    for group in 0..50 {
        let range = offsets[group]..offsets[group + 1];
        let expected =
            reference::advantage::group(&values[range.clone()], &[1; 8], Estimator::Grpo, 1e-6, 1);
        assert_eq!(found.values[range], expected);
    }
    let mut group = c.benchmark_group("group_advantage");
    group.throughput(Throughput::Elements(values.len() as u64));
    group.bench_function("10k_groups_of_8", |b| b.iter(run));
    group.finish();
}

/// A sequence of `n_tokens` tokens of about four bytes, with a cover on each of `n_covers` runs of bytes.
fn sequence(n_tokens: u32, n_covers: u32, seed: u64) -> (Sequence, Vec<Cover>) {
    let mut draw = splitmix(seed);
    let mut byte_ends = Vec::new();
    let mut end = 0;
    for _ in 0..n_tokens {
        end += draw(8);
        byte_ends.push(end);
    }
    let mask = (0..n_tokens).map(|_| draw(10) > 0).collect();
    let covers = (0..n_covers)
        .map(|member| {
            let start = draw(end + 1) as usize;
            let bytes = start..(start + draw(400) as usize).min(end as usize);
            let score = f64::from(draw(100)) / 100.0;
            Cover { bytes, member, advantage: draw(9) as f32 - 4.0, anchor: member, score }
        })
        .collect();
    let sequence = Sequence {
        text: vec![b'x'; end as usize],
        tokens: Some(Tokens { byte_ends, mask }),
        turns: vec![Turn { bytes: 0..end as usize, reward: None, observation: None }],
        first_turn: 0,
        place: Place::default(),
    };
    (sequence, covers)
}

pub(crate) fn projection(c: &mut Criterion) {
    let device = Device::cpu();
    for seed in 0..20 {
        let (sequence, covers) = sequence(100, 6, seed);
        let found = project(&device, &sequence, 0.5, &covers, None).expect("valid covers");
        let dense =
            found.dense(sequence.tokens.as_ref().expect("tokens")).expect("the same tokens");
        assert_eq!(dense, reference::advantage::dense(&sequence, 0.5, &covers, None));
    }
    let batch: Vec<_> = (0..192).map(|seed| sequence(4096, 32, seed)).collect();
    let mut group = c.benchmark_group("token_advantage");
    group.throughput(Throughput::Elements(192 * 4096));
    group.bench_function("spans_192x4096", |b| {
        b.iter(|| {
            for (sequence, covers) in &batch {
                black_box(project(&device, sequence, 0.5, covers, None).expect("valid covers"));
            }
        });
    });
    group.bench_function("dense_192x4096", |b| {
        b.iter(|| {
            for (sequence, covers) in &batch {
                let found = project(&device, sequence, 0.5, covers, None).expect("valid covers");
                black_box(
                    found
                        .dense(sequence.tokens.as_ref().expect("tokens"))
                        .expect("the same tokens"),
                );
            }
        });
    });
    group.finish();
}
