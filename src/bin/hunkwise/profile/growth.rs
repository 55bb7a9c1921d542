//! How the time grows with rollouts, lines and tasks.

use hunkwise::error::Result;
use hunkwise::pipeline::Config;
use hunkwise::report::Growth;
use hunkwise::rollout::{self, Batch, Shape, Task};
use indicatif::ProgressBar;

use super::{METHODS, median, timed};
use crate::args::ProfileArgs;

/// Sizes are these parts of the whole, from an eighth on.
const DIVISORS: [u32; 4] = [8, 4, 2, 1];

/// A batch that is smaller along one axis.
pub(super) struct Grown {
    axis: &'static str,
    size: u64,
    batch: Batch,
}

/// Smaller batches along each axis, each size once, the whole last. An axis on which there are not two sizes is left
/// out, and so are the lines of files.
pub(super) fn batches(batch: &Batch, args: &ProfileArgs) -> Result<Vec<Grown>> {
    let mut all = Vec::new();
    let most = batch.tasks.iter().map(|task| task.trajectories.len()).max().unwrap_or(0);
    for size in sizes(most as u32) {
        let tasks = batch.tasks.iter().map(|task| {
            // The same part of every task, at least one rollout.
            let n = (task.trajectories.len() * size as usize).div_ceil(most.max(1));
            Task { id: task.id.clone(), trajectories: task.trajectories[..n].to_vec() }
        });
        let tasks = tasks.collect();
        all.push(Grown { axis: "rollouts", size: size.into(), batch: of_tasks(tasks) });
    }
    if let Some(shape) = args.synthetic {
        for n_lines in sizes(shape.n_lines) {
            let batch = rollout::synthetic(Shape { n_lines, ..shape }, args.seed)?;
            all.push(Grown { axis: "lines", size: n_lines.into(), batch });
        }
    }
    for size in sizes(batch.tasks.len() as u32) {
        let batch = of_tasks(batch.tasks[..size as usize].to_vec());
        all.push(Grown { axis: "tasks", size: size.into(), batch });
    }
    Ok(all)
}

fn of_tasks(tasks: Vec<Task>) -> Batch {
    Batch { tasks, ..Batch::default() }
}

/// Times every method on every batch and fits each axis.
pub(super) fn measure(
    grown: &[Grown],
    config: &Config,
    repeat: usize,
    bar: &ProgressBar,
) -> Result<Vec<Growth>> {
    let mut all: Vec<Growth> = Vec::new();
    for of_axis in grown.chunk_by(|a, b| a.axis == b.axis) {
        for method in METHODS {
            let mut points = Vec::new();
            for Grown { size, batch, .. } in of_axis {
                let runs = timed(batch, &method.config(config), repeat, bar)?;
                points.push((*size, median(runs.iter().map(|run| run.seconds.wall))));
            }
            let exponent = exponent(&points);
            all.push(Growth { axis: of_axis[0].axis, method: method.name, exponent, points });
        }
    }
    Ok(all)
}

/// Different parts of a whole, in order; none when there would be one alone.
fn sizes(whole: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = DIVISORS.iter().map(|divisor| whole.div_ceil(*divisor)).collect();
    sizes.dedup();
    if sizes.len() < 2 { Vec::new() } else { sizes }
}

/// Slope of the least-squares line through (ln size, ln seconds); 0 when the sizes are all the same.
fn exponent(points: &[(u64, f64)]) -> f64 {
    let logs = || {
        // A run below the clock's resolution counts as a nanosecond.
        points.iter().map(|&(size, seconds)| ((size as f64).ln(), seconds.max(1e-9).ln()))
    };
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        (logs().map(|(x, _)| x).sum::<f64>() / n, logs().map(|(_, y)| y).sum::<f64>() / n);
    let covariance: f64 = logs().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = logs().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_is_found() {
        let square = [(1, 0.5), (2, 2.0), (4, 8.0), (8, 32.0)];
        assert!((exponent(&square) - 2.0).abs() < 1e-12);
        // ln 2, ln 2, ln 4 at ln 1, ln 2, ln 4: slope 1/2.
        assert!((exponent(&[(1, 2.0), (2, 2.0), (4, 4.0)]) - 0.5).abs() < 1e-12);
        assert_eq!(exponent(&[(3, 1.0), (3, 2.0)]), 0.0);
    }

    #[test]
    fn sizes_are_different_parts() {
        assert_eq!(sizes(32), [4, 8, 16, 32]);
        assert_eq!(sizes(6), [1, 2, 3, 6]);
        assert_eq!(sizes(2), [1, 2]);
        assert!(sizes(1).is_empty() && sizes(0).is_empty());
    }
}
