//! Equal bytes whatever the threads, the SIMD set and the order of rows.

use hunkwise::backend::cpu::{Cpu, Simd};
use hunkwise::pipeline::{Config, credit};
use hunkwise::rollout::Row;
use hunkwise::{Device, report};

use crate::devices::others;
use crate::rollouts::{Random, batch, rows};

fn bytes(rows: Vec<Row>, device: &Device, config: &Config, n_threads: usize) -> Vec<u8> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
    pool.install(|| {
        let batch = batch(rows);
        let credit = credit(device, &batch, config).unwrap();
        let mut out = Vec::new();
        report::write_credit(&mut out, &batch, &credit, true, false).unwrap();
        report::write_groups(&mut out, &batch, &credit).unwrap();
        out
    })
}

fn shuffled(mut rows: Vec<Row>, seed: u64) -> Vec<Row> {
    let mut random = Random(seed);
    for i in (1..rows.len()).rev() {
        rows.swap(i, random.below(i + 1));
    }
    rows
}

#[test]
fn same_bytes_for_threads_simd_sets_and_row_orders() {
    let mut embedded = Config::default();
    embedded.similarity.embedding_weight = 0.3;
    for (seed, config) in [(1, Config::default()), (2, embedded)] {
        let expected =
            bytes(rows(seed, 3, 6, 2), &Device::Cpu(Cpu::with_simd(Simd::Scalar)), &config, 1);
        assert!(
            String::from_utf8(expected.clone()).unwrap().contains("\"members\""),
            "no group to compare"
        );
        for simd in [Simd::Scalar, Simd::detect()] {
            for n_threads in [1, 2, 5] {
                let rows = shuffled(rows(seed, 3, 6, 2), n_threads as u64);
                let got = bytes(rows, &Device::Cpu(Cpu::with_simd(simd)), &config, n_threads);
                assert!(got == expected, "{simd:?}, {n_threads} threads");
            }
        }
        for device in others() {
            let got = bytes(rows(seed, 3, 6, 2), &device, &config, 2);
            assert!(got == expected, "{device:?}");
        }
    }
}

#[test]
fn rows_without_ids_give_the_same_bytes_in_any_order() {
    let strip = |rows: Vec<Row>| -> Vec<Row> {
        rows.into_iter().map(|row| Row { trajectory: None, order: None, ..row }).collect()
    };
    let device = Device::cpu();
    let expected = bytes(strip(rows(3, 2, 8, 1)), &device, &Config::default(), 1);
    for seed in 0..4 {
        let got = bytes(shuffled(strip(rows(3, 2, 8, 1)), seed), &device, &Config::default(), 2);
        assert!(got == expected, "shuffle {seed}");
    }
}
