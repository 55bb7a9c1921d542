//! Policy losses on 192 rows of 4,096 tokens, with reference log-probs, gradient and metrics. Each is checked against
//! the reference on a small shape before it is timed.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use hunkwise::loss::{
    FloatsMut, Layout, PolicyBatch, PolicyLossConfig, PolicyOutputs, Upstream, policy_loss,
};
use hunkwise::{Device, reference};

use crate::losses::Made;

/// What the whole of a step costs: several of the presets that differ in kind.
const PRESETS: [&str; 5] = ["dapo", "ppo", "gspo", "cispo_verl", "sapo"];

fn padded(made: &Made, n_rows: usize) -> PolicyBatch<'_> {
    PolicyBatch {
        layout: Layout::Padded { n_rows, n_columns: made.len() / n_rows },
        ..made.batch()
    }
}

pub(crate) fn policy_losses(c: &mut Criterion) {
    let device = Device::cpu();
    let mut group = c.benchmark_group("policy_loss");
    for name in PRESETS {
        let config =
            PolicyLossConfig { beta: 0.01, ..PolicyLossConfig::preset(name).expect("a preset") };
        let run = |made: &Made, n_rows: usize, grad: &mut [f32]| {
            let outputs =
                PolicyOutputs { grad_log_prob: Some(FloatsMut::F32(grad)), ..Default::default() };
            policy_loss(&device, &padded(made, n_rows), &config, Upstream::Loss(1.0), outputs)
                .expect("a valid batch")
        };
        let [small, large] = [(4, 300), (192, 4096)].map(|(n_rows, n_columns)| {
            let mut made = Made::new(1, &vec![n_columns; n_rows], 0.05);
            made.has_rollout = false;
            made.has_entropy = false;
            made
        });
        let loss = run(&small, 4, &mut vec![0.0; small.len()]).loss();
        let exact = reference::loss::policy_loss(&padded(&small, 4), &config).loss();
        assert!((loss - exact).abs() < 1e-5, "{name}: {loss}, reference {exact}");

        let mut grad = vec![0.0; large.len()];
        group.throughput(Throughput::Elements(large.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| black_box(run(&large, 192, &mut grad)));
        });
    }
    group.finish();
    let mut group = c.benchmark_group("copy");
    let from = vec![1f32; 50_000_000];
    let mut to = vec![0f32; from.len()];
    group.throughput(Throughput::Bytes(8 * from.len() as u64));
    group.sample_size(10);
    group.bench_function("two threads", |b| {
        use rayon::prelude::*;
        b.iter(|| {
            to.par_chunks_mut(1 << 20)
                .zip(from.par_chunks(1 << 20))
                .for_each(|(to, from)| to.copy_from_slice(from));
            black_box(&mut to);
        });
    });
    group.finish();
}
