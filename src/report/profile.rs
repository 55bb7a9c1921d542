//! What credit costs beside GRPO's: as JSON, and as a trace in the Chrome trace event format, which Perfetto opens.
//! docs/output.md describes every field.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::rollout::Shape;

/// Costs of every method on one batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Version of hunkwise.
    pub version: &'static str,
    /// Shape of the made-up rollouts; `None` for rollouts from files.
    pub synthetic: Option<Shape>,
    /// Their seed.
    pub seed: Option<u64>,
    /// Threads of the timed runs.
    pub threads: usize,
    /// Timed runs of each method.
    pub repeat: usize,
    /// Tasks.
    pub n_tasks: u64,
    /// Trajectories.
    pub n_trajectories: u64,
    /// Turns.
    pub n_turns: u64,
    /// Code lines of all root diffs.
    pub n_lines: u64,
    /// Tokens, where they are known.
    pub n_tokens: u64,
    /// Seconds of a training step without credit, as given.
    pub step_seconds: Option<f64>,
    /// Why memory is not known, when it is not.
    pub memory_unknown: Option<String>,
    /// GRPO first; the others are compared with it.
    pub methods: Vec<MethodCost>,
    /// Growth of each method along each axis; empty when not asked for.
    pub growth: Vec<Growth>,
}

/// What one method costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MethodCost {
    /// Name.
    pub method: &'static str,
    /// Median seconds of a run on the clock.
    pub seconds: f64,
    /// Shortest run.
    pub seconds_min: f64,
    /// Longest run.
    pub seconds_max: f64,
    /// Median less GRPO's, at least 0.
    pub overhead_seconds: f64,
    /// `overhead_seconds` by [`Profile::step_seconds`].
    pub step_share: Option<f64>,
    /// Peak of resident memory in bytes above what was resident before, of the task that needs most.
    pub peak_bytes: Option<u64>,
    /// Groups of the diff advantage.
    pub n_diff_groups: u64,
    /// Groups of the step advantage.
    pub n_step_groups: u64,
    /// Stages, in their order.
    pub stages: Vec<StageCost>,
}

/// What one stage of a method costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageCost {
    /// Name.
    pub stage: &'static str,
    /// Median seconds of work, added up over the tasks.
    pub seconds: f64,
    /// As [`MethodCost::peak_bytes`], while this stage ran; `None` also for a stage that does not run.
    pub peak_bytes: Option<u64>,
}

/// How the time of a method grows along one axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    /// `rollouts` (of each task), `lines` (of each turn) or `tasks`.
    pub axis: &'static str,
    /// Name of the method.
    pub method: &'static str,
    /// Slope of the least-squares line through (log size, log seconds); 1 is linear.
    pub exponent: f64,
    /// R^2 of that line, from 0 to 1: the part of the variance of log seconds that it explains.
    pub r_squared: f64,
    /// (size, median seconds).
    pub points: Vec<(u64, f64)>,
}

/// A stretch of time on one task, or on one of its stages.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSlice {
    /// Index into [`Profile::methods`].
    pub method: usize,
    /// Id of the task.
    pub task: String,
    /// Index of the task.
    pub task_idx: usize,
    /// Name of the stage; `None` for the task as a whole, from its first stage to its last.
    pub stage: Option<&'static str>,
    /// Nanoseconds from the beginning of the traced runs.
    pub began_ns: u64,
    /// Nanoseconds that it took.
    pub took_ns: u64,
}

/// Writes a profile as one JSON object.
///
/// # Errors
/// Whatever the writer returns.
pub fn write_profile(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    serde_json::to_writer(&mut *out, profile)?;
    out.write_all(b"\n")
}

/// Writes slices as a Chrome trace: a process for each method, a track for each task, a complete event for each slice.
/// Times are in microseconds, as the format has it, with three decimals. Give the slice of a task before those of its
/// stages: of events that begin together the outer one comes first. `run_ns` is the length of all traced runs.
///
/// # Errors
/// Whatever the writer returns.
pub fn write_trace(
    out: &mut dyn Write,
    methods: &[&str],
    slices: &[TraceSlice],
    run_ns: u64,
) -> io::Result<()> {
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    let mut events = Vec::new();
    let mut describe = |what: &str, pid: usize, tid: usize, args: Value| {
        events
            .push(json!({"name": what, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": args}));
    };
    // Perfetto takes process 0 for the idle process.
    for (method, name) in methods.iter().enumerate() {
        describe("process_name", method + 1, 0, json!({ "name": name }));
        describe("process_sort_index", method + 1, 0, json!({ "sort_index": method }));
    }
    let mut named = std::collections::BTreeSet::new();
    for slice in slices {
        if named.insert((slice.method, slice.task_idx)) {
            let args = json!({ "name": slice.task });
            describe("thread_name", slice.method + 1, slice.task_idx + 1, args);
        }
    }
    for slice in slices {
        events.push(json!({
            "name": slice.stage.unwrap_or("task"),
            "cat": if slice.stage.is_some() { "stage" } else { "task" },
            "ph": "X",
            "ts": microseconds(slice.began_ns),
            "dur": microseconds(slice.took_ns),
            "pid": slice.method + 1,
            "tid": slice.task_idx + 1,
            "args": {"task": slice.task},
        }));
    }
    let other = json!({"hunkwise": env!("CARGO_PKG_VERSION"), "run_us": microseconds(run_ns)});
    let trace = json!({"displayTimeUnit": "ms", "otherData": other, "traceEvents": events});
    serde_json::to_writer(&mut *out, &trace)?;
    out.write_all(b"\n")
}
