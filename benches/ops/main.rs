//! Every operation by itself. Each bench checks its result against the reference on a small shape before it times.

mod credit;
mod loss;
#[path = "../../tests/support/losses.rs"]
#[allow(dead_code)]
mod losses;
mod similarity;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    similarity::window_similarity,
    similarity::pair_similarity_of_a_list,
    credit::anchors,
    credit::facilities,
    credit::groups,
    credit::projection,
    loss::policy_losses
);
criterion_main!(benches);
