//! The whole way from response text to token credit, checked against the chained reference before it is timed.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hunkwise::pipeline::{Config, Grouping, credit};
use hunkwise::rollout::Batch;
use hunkwise::{Device, report};

#[path = "../tests/support/chain.rs"]
mod chain;
#[path = "../tests/support/rollouts.rs"]
mod rollouts;

fn pipeline(criterion: &mut Criterion) {
    let device = Device::cpu();
    let config = Config::default();
    let small = Batch::new(rollouts::rows(1, 1, 4, 2));
    let got = credit(&device, &small, &config).expect("a valid batch");
    chain::check_task(&small.tasks[0], &got.tasks[0], &config);

    let batch = Batch::new(rollouts::rows(2, 6, 16, 4));
    let n_turns = credit(&device, &batch, &config).expect("a valid batch").diagnostics.n_turns;
    let mut group = criterion.benchmark_group("pipeline");
    group.sample_size(10).throughput(Throughput::Elements(n_turns));
    for grouping in [Grouping::None, Grouping::Whole, Grouping::Exact, Grouping::Windows] {
        let config = Config { grouping, ..config.clone() };
        group.bench_function(format!("6x16x4_{grouping:?}"), |bencher| {
            bencher.iter(|| credit(&device, &batch, &config).expect("a valid batch"));
        });
    }
    let of_batch = credit(&device, &batch, &config).expect("a valid batch");
    group.bench_function("write_credit", |bencher| {
        bencher.iter(|| report::write_credit(&mut std::io::sink(), &batch, &of_batch, true, false));
    });
    group.finish();
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
