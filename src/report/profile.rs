//! What credit costs beside GRPO's: as JSON, and as a trace in the Chrome trace event format, which Perfetto opens.
//! docs/output.md describes every field.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;

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
    /// (size, median seconds).
    pub points: Vec<(u64, f64)>,
}

/// A stretch of time on one stage of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSlice {
    /// Index into [`Profile::methods`].
    pub method: usize,
    /// Id of the task.
    pub task: String,
    /// Index of the task.
    pub task_idx: usize,
    /// Name of the stage.
    pub stage: &'static str,
    /// Microseconds from the beginning of the traced runs.
    pub began: f64,
    /// Microseconds that it took.
    pub took: f64,
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
/// `run_us` is the length of all traced runs in microseconds.
///
/// # Errors
/// Whatever the writer returns.
pub fn write_trace(
    out: &mut dyn Write,
    methods: &[&str],
    slices: &[TraceSlice],
    run_us: f64,
) -> io::Result<()> {
    // Perfetto takes process 0 for the idle process.
    let mut events = Vec::new();
    for (method, name) in methods.iter().enumerate() {
        let args = json!({ "name": name });
        events.push(json!({"name": "process_name", "ph": "M", "pid": method + 1, "args": args}));
        let args = json!({ "sort_index": method });
        events.push(
            json!({"name": "process_sort_index", "ph": "M", "pid": method + 1, "args": args}),
        );
    }
    let mut named = std::collections::BTreeSet::new();
    for slice in slices {
        let (pid, tid) = (slice.method + 1, slice.task_idx + 1);
        if named.insert((pid, tid)) {
            let args = json!({ "name": slice.task });
            events.push(
                json!({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": args}),
            );
        }
        events.push(json!({
            "name": slice.stage, "cat": "stage", "ph": "X", "pid": pid, "tid": tid,
            "ts": slice.began, "dur": slice.took, "args": {"task": slice.task},
        }));
    }
    let other = json!({"hunkwise": env!("CARGO_PKG_VERSION"), "run_us": run_us});
    let trace = json!({"displayTimeUnit": "ms", "otherData": other, "traceEvents": events});
    serde_json::to_writer(&mut *out, &trace)?;
    out.write_all(b"\n")
}
