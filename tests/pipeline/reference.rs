//! Random rollouts through the pipeline and through the chained reference.

use hunkwise::Device;
use hunkwise::advantage::DiffForm;
use hunkwise::pipeline::{Config, credit};

use crate::chain::check_task;
use crate::rollouts::{batch, rows};

#[test]
fn credit_equals_the_chained_reference() {
    let mut n_groups = 0;
    for seed in 0..6 {
        let mut config = Config::default();
        config.similarity.eta = [0.8, 0.6, 0.95][seed as usize % 3];
        config.max_lines = [32, 4][seed as usize % 2];
        config.anchors.max_anchors = [64, 3][seed as usize % 2];
        if seed % 2 == 1 {
            config.advantage.diff = DiffForm::Contrast;
        }
        let batch = batch(rows(seed, 2, 4, 2));
        let got = credit(&Device::cpu(), &batch, &config).unwrap();
        for (task, of_task) in batch.tasks.iter().zip(&got.tasks) {
            check_task(task, of_task, &config);
            n_groups += of_task.groups.len();
        }
    }
    assert!(
        n_groups > 20,
        "only {n_groups} groups: the rollouts share too little to test anything"
    );
}
