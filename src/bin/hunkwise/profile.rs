//! `hunkwise profile`: what the method costs beside GRPO.

mod growth;
mod memory;
mod table;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hunkwise::advantage::StepGroups;
use hunkwise::error::{Error, Result};
use hunkwise::pipeline::{self, Config, Extras, Grouping, Seconds, StageLap};
use hunkwise::report::{self, Diagnostics, MethodCost, Profile, StageCost, TraceSlice};
use hunkwise::rollout::{self, Batch};
use hunkwise::{Device, credit};
use indicatif::ProgressBar;

use crate::args::ProfileArgs;
use crate::credit::check_outputs;
use crate::session;

/// A way to credit, by the two parameters in which the ways differ.
#[derive(Clone, Copy)]
struct Method {
    name: &'static str,
    grouping: Grouping,
    step: StepGroups,
}

/// GRPO comes first: the others are compared with it.
const METHODS: [Method; 5] = [
    Method { name: "grpo", grouping: Grouping::None, step: StepGroups::Off },
    Method { name: "gigpo", grouping: Grouping::None, step: StepGroups::Exact },
    Method { name: "exact", grouping: Grouping::Exact, step: StepGroups::Off },
    Method { name: "whole", grouping: Grouping::Whole, step: StepGroups::Off },
    Method { name: "windows", grouping: Grouping::Windows, step: StepGroups::Off },
];

impl Method {
    fn config(self, base: &Config) -> Config {
        let mut config = Config { grouping: self.grouping, ..base.clone() };
        config.advantage.step = self.step;
        config
    }
}

/// Returns how many input rows could not be taken.
pub(crate) fn run(args: &ProfileArgs) -> Result<usize> {
    if args.config.names_a_method() {
        let (got, expected) =
            ("given".to_string(), "left out with --step: each grouping is measured");
        return Err(Error::Config { op: "profile", name: "grouping", got, expected });
    }
    let config = session::configure(&args.reading, &args.config)?;
    let outputs: Vec<&Path> =
        [&args.json, &args.trace].into_iter().flatten().map(PathBuf::as_path).collect();
    check_outputs(&outputs, &args.files)?;
    let batch = match args.synthetic {
        Some(shape) => rollout::synthetic(shape, args.seed)?,
        None => session::read(&args.files, &args.reading)?,
    };
    if let Some(name) = &args.memory_of {
        let method = METHODS.iter().find(|method| method.name == name).ok_or_else(|| {
            let (got, expected) = (name.clone(), "grpo, gigpo, exact, whole or windows");
            Error::Config { op: "profile", name: "memory_of", got, expected }
        })?;
        memory::print_peaks(batch, &method.config(&config))?;
        return Ok(0);
    }
    session::report_flagged(&batch);

    let plans = if args.growth { growth::plan(&batch, args) } else { Vec::new() };
    let n_batches = 1 + plans.iter().map(growth::Plan::n_batches).sum::<usize>();
    let n_runs = n_batches * METHODS.len() * (1 + usize::from(args.repeat));
    let bar = session::bar(n_runs as u64, "timing  {bar:30} {pos}/{len} runs {eta}");
    let mut profile = costs(&batch, &config, args, &bar)?;
    profile.growth = growth::measure(&plans, &batch, &profile.methods, &config, args, &bar)?;
    bar.finish_and_clear();

    if let Some(path) = &args.trace {
        let (slices, run_ns) = trace(&Device::named(&args.reading.device)?, &batch, &config)?;
        let names = METHODS.map(|method| method.name);
        report::write_whole(path, |out| report::write_trace(out, &names, &slices, run_ns))?;
    }
    if let Some(path) = &args.json {
        report::write_whole(path, |out| report::write_profile(out, &profile))?;
    }
    table::print(&profile, outputs.contains(&Path::new("-")))?;
    Ok(batch.flagged.len())
}

fn costs(batch: &Batch, config: &Config, args: &ProfileArgs, bar: &ProgressBar) -> Result<Profile> {
    let peaks = memory::peaks_of_all(&args.files);
    let mut methods: Vec<MethodCost> = Vec::new();
    let mut found = Diagnostics::default();
    let device = Device::named(&args.reading.device)?;
    let runs_of_all = timed(&device, batch, config, args.repeat.into(), bar)?;
    for (method_idx, (method, runs)) in METHODS.iter().zip(runs_of_all).enumerate() {
        let of_memory = peaks.as_ref().ok().and_then(|peaks| peaks.get(method_idx));
        let stages = stages()
            .map(|(stage_idx, stage)| StageCost {
                stage,
                seconds: median(runs.iter().map(|run| run.seconds.stages()[stage_idx].1)),
                peak_bytes: of_memory.and_then(|peaks| peaks.get(stage).copied()),
            })
            .collect();
        let walls = || runs.iter().map(|run| run.seconds.wall);
        let seconds = median(walls());
        let of_grpo = methods.first().map_or(seconds, |grpo| grpo.seconds);
        let overhead_seconds = (seconds - of_grpo).max(0.0);
        let (seconds_min, seconds_max) =
            (walls().fold(f64::INFINITY, f64::min), walls().fold(0.0, f64::max));
        found = runs.into_iter().next_back().unwrap_or_default();
        methods.push(MethodCost {
            method: method.name,
            seconds,
            seconds_min,
            seconds_max,
            overhead_seconds,
            step_share: args.step_seconds.map(|step| overhead_seconds / step),
            peak_bytes: of_memory.and_then(|peaks| peaks.values().max().copied()),
            n_diff_groups: found.diff.counts.n_groups as u64,
            n_step_groups: found.step.counts.n_groups as u64,
            stages,
        });
    }
    Ok(Profile {
        version: env!("CARGO_PKG_VERSION"),
        synthetic: args.synthetic,
        seed: args.synthetic.map(|_| args.seed),
        threads: rayon::current_num_threads(),
        repeat: args.repeat.into(),
        n_tasks: found.n_tasks,
        n_trajectories: found.n_trajectories,
        n_turns: found.n_turns,
        n_lines: found.n_lines,
        n_tokens: found.n_tokens,
        step_seconds: args.step_seconds,
        memory_unknown: peaks.err(),
        methods,
        growth: Vec::new(),
    })
}

/// The stages with their index in [`Seconds::stages`], the whole left out.
fn stages() -> impl Iterator<Item = (usize, &'static str)> {
    let all = Seconds::default().stages();
    all.into_iter().map(|(stage, _)| stage).enumerate().filter(|(_, stage)| *stage != "wall")
}

/// The runs of every method. Each runs once off the clock, to fill caches and the heap; then they take turns, so that a
/// machine that grows slower or faster meanwhile does so for all.
fn timed(
    device: &Device,
    batch: &Batch,
    config: &Config,
    repeat: usize,
    bar: &ProgressBar,
) -> Result<Vec<Vec<Diagnostics>>> {
    let mut runs: Vec<Vec<Diagnostics>> = vec![Vec::new(); METHODS.len()];
    for round in 0..=repeat {
        for (method, runs) in METHODS.iter().zip(&mut runs) {
            let run = credit(device, batch, &method.config(config))?;
            bar.inc(1);
            if round > 0 {
                runs.push(run.diagnostics);
            }
        }
    }
    Ok(runs)
}

/// The middle value, the mean of the two middle ones of an even number; 0 for none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// One more run of each method with every stage of every task on the clock, and the nanoseconds of all of them. The
/// slice of a task comes before those of its stages, which lie inside.
fn trace(device: &Device, batch: &Batch, config: &Config) -> Result<(Vec<TraceSlice>, u64)> {
    let started = Instant::now();
    let mut slices = Vec::new();
    for (method, way) in METHODS.iter().enumerate() {
        let laps: Mutex<Vec<StageLap>> = Mutex::new(Vec::new());
        let on_stage = |lap| laps.lock().unwrap_or_else(PoisonError::into_inner).push(lap);
        let extras = Extras { on_stage: Some(&on_stage), ..Extras::default() };
        pipeline::credit_with(device, batch, &way.config(config), extras)?;
        let laps = laps.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (task_idx, task) in batch.tasks.iter().enumerate() {
            let laps: Vec<&StageLap> = laps.iter().filter(|lap| lap.task == task_idx).collect();
            let began = laps.iter().map(|lap| lap.began).min();
            let (Some(began), Some(ended)) = (began, laps.iter().map(|lap| lap.ended).max()) else {
                continue;
            };
            let mut at = nanoseconds(began - started);
            let mut slice = |stage, began_ns, took_ns| {
                let task = task.id.clone();
                slices.push(TraceSlice { method, task, task_idx, stage, began_ns, took_ns });
            };
            slice(None, at, nanoseconds(ended - began));
            for (_, stage) in stages() {
                let mut of_stage = laps.iter().filter(|lap| lap.stage == stage).peekable();
                if of_stage.peek().is_none() {
                    continue;
                }
                let took = of_stage.map(|lap| nanoseconds(lap.ended - lap.began)).sum();
                slice(Some(stage), at, took);
                at += took;
            }
        }
    }
    Ok((slices, nanoseconds(started.elapsed())))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }
}
