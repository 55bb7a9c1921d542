//! How the time grows with rollouts, lines and tasks.

use hunkwise::Device;
use hunkwise::error::Result;
use hunkwise::pipeline::Config;
use hunkwise::report::{Growth, MethodCost};
use hunkwise::rollout::{self, Batch, Shape, Task};
use indicatif::ProgressBar;

use super::{METHODS, median, timed};
use crate::args::ProfileArgs;

/// Sizes are these parts of the whole, from an eighth on.
const DIVISORS: [u32; 4] = [8, 4, 2, 1];

/// What is made smaller.
#[derive(Clone, Copy)]
enum Axis {
    Rollouts,
    Lines(Shape),
    Tasks,
}

/// An axis and its sizes, the whole last.
pub(super) struct Plan {
    axis: Axis,
    sizes: Vec<u32>,
}

impl Plan {
    /// Smaller sizes, a batch each.
    pub(super) fn n_batches(&self) -> usize {
        self.sizes.len() - 1
    }
}

/// The axes on which there are two sizes or more; the lines of files cannot be fewer.
pub(super) fn plan(batch: &Batch, args: &ProfileArgs) -> Vec<Plan> {
    let mut plans = vec![(Axis::Rollouts, most_rollouts(batch) as u32)];
    plans.extend(args.synthetic.map(|shape| (Axis::Lines(shape), shape.n_lines)));
    plans.push((Axis::Tasks, batch.tasks.len() as u32));
    let plans = plans.into_iter().map(|(axis, whole)| Plan { axis, sizes: sizes(whole) });
    plans.filter(|plan| plan.sizes.len() > 1).collect()
}

fn most_rollouts(batch: &Batch) -> usize {
    batch.tasks.iter().map(|task| task.trajectories.len()).max().unwrap_or(0)
}

fn smaller(batch: &Batch, axis: Axis, size: u32, seed: u64) -> Result<Batch> {
    let tasks = match axis {
        Axis::Lines(shape) => return rollout::synthetic(Shape { n_lines: size, ..shape }, seed),
        Axis::Tasks => batch.tasks.iter().take(size as usize).cloned().collect(),
        Axis::Rollouts => {
            // The same part of every task, at least one rollout.
            let most = most_rollouts(batch).max(1);
            let part = |task: &Task| {
                let n_kept = (task.trajectories.len() * size as usize).div_ceil(most);
                let trajectories = task.trajectories.iter().take(n_kept).cloned().collect();
                Task { id: task.id.clone(), trajectories }
            };
            batch.tasks.iter().map(part).collect()
        }
    };
    Ok(Batch { tasks, ..Batch::default() })
}

/// Times every method on smaller batches, one at a time, and fits each axis. The times of the whole are in `methods`.
pub(super) fn measure(
    plans: &[Plan],
    batch: &Batch,
    methods: &[MethodCost],
    config: &Config,
    args: &ProfileArgs,
    bar: &ProgressBar,
) -> Result<Vec<Growth>> {
    let mut all = Vec::new();
    for Plan { axis, sizes } in plans {
        let mut points: Vec<Vec<(u64, f64)>> = vec![Vec::new(); METHODS.len()];
        let (whole, parts) = sizes.split_last().unwrap_or((&0, &[]));
        for &size in parts {
            let batch = smaller(batch, *axis, size, args.seed)?;
            let device = Device::named(&args.reading.device)?;
            let runs_of_all = timed(&device, &batch, config, args.repeat.into(), bar)?;
            for (runs, points) in runs_of_all.iter().zip(&mut points) {
                let seconds = median(runs.iter().map(|run| run.seconds.wall));
                points.push((size.into(), seconds));
            }
        }
        let axis = match axis {
            Axis::Rollouts => "rollouts",
            Axis::Lines(_) => "lines",
            Axis::Tasks => "tasks",
        };
        for (method, mut points) in methods.iter().zip(points) {
            points.push((u64::from(*whole), method.seconds));
            let (exponent, r_squared) = fit(&points);
            all.push(Growth { axis, method: method.method, exponent, r_squared, points });
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

/// Slope of the least-squares line through (ln size, ln seconds), and R^2: the part of the variance of ln seconds that it
/// explains, 1 where there is none. 0 and 0 when the sizes are all the same.
fn fit(points: &[(u64, f64)]) -> (f64, f64) {
    let logs = || {
        // A run below the clock's resolution counts as a nanosecond.
        points.iter().map(|&(size, seconds)| ((size as f64).ln(), seconds.max(1e-9).ln()))
    };
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        (logs().map(|(x, _)| x).sum::<f64>() / n, logs().map(|(_, y)| y).sum::<f64>() / n);
    let covariance: f64 = logs().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = logs().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    if variance <= 0.0 {
        return (0.0, 0.0);
    }
    let exponent = covariance / variance;
    let total: f64 = logs().map(|(_, y)| (y - mean_y) * (y - mean_y)).sum();
    let rest: f64 = logs().map(|(x, y)| (y - mean_y - exponent * (x - mean_x)).powi(2)).sum();
    let r_squared = if total > 0.0 { (1.0 - rest / total).clamp(0.0, 1.0) } else { 1.0 };
    (exponent, r_squared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_is_found() {
        let near = |(exponent, r_squared): (f64, f64), expected: (f64, f64)| {
            (exponent - expected.0).abs() < 1e-12 && (r_squared - expected.1).abs() < 1e-12
        };
        assert!(near(fit(&[(1, 0.5), (2, 2.0), (4, 8.0), (8, 32.0)]), (2.0, 1.0)));
        // ln 2, ln 2, ln 4 at ln 1, ln 2, ln 4: slope 1/2; of the variance 2/3 ln^2 2 it leaves 1/6 ln^2 2.
        assert!(near(fit(&[(1, 2.0), (2, 2.0), (4, 4.0)]), (0.5, 0.75)));
        // Up and down again: the line is flat and explains nothing.
        assert!(near(fit(&[(1, 1.0), (2, 2.0), (4, 1.0)]), (0.0, 0.0)));
        assert!(near(fit(&[(1, 3.0), (2, 3.0)]), (0.0, 1.0)));
        assert_eq!(fit(&[(3, 1.0), (3, 2.0)]), (0.0, 0.0));
    }

    #[test]
    fn sizes_are_different_parts() {
        assert_eq!(sizes(32), [4, 8, 16, 32]);
        assert_eq!(sizes(6), [1, 2, 3, 6]);
        assert_eq!(sizes(2), [1, 2]);
        assert!(sizes(1).is_empty() && sizes(0).is_empty());
    }
}
