//! Peaks of memory. Each method runs once in a process of its own, on one thread, task by task, so that no run finds the
//! pages that another has left behind; the system says how much was resident at most while each stage ran.
//!
//! The figure is that of the task that needs most: resident memory above what was resident before the task (the
//! rollouts, and pages that reading them left free). A stage's peak holds what earlier stages still keep. These
//! processes ask the GNU allocator to give freed memory back at once; another allocator may keep it, and later stages
//! then show it too. Pages and the system's counting make it right to some hundred kilobytes. Linux alone has the
//! counter and the way to reset it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use hunkwise::error::{Error, Result};
use hunkwise::pipeline::{self, Config, Extras, StageLap};
use hunkwise::rollout::Batch;
use hunkwise::{Device, report};

use super::METHODS;

/// What makes the GNU allocator give memory back: blocks of this many bytes at once, the end of its heap always.
const GIVE_BACK: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", "32768"),
    ("MALLOC_TRIM_THRESHOLD_", "0"),
    ("MALLOC_TOP_PAD_", "0"),
];

/// Peak in bytes by stage.
pub(super) type Peaks = BTreeMap<String, u64>;

/// The peaks of every method, or why they are not known.
pub(super) fn peaks_of_all(files: &[PathBuf]) -> std::result::Result<Vec<Peaks>, String> {
    if files.iter().any(|file| file.as_os_str() == "-") {
        return Err("standard input cannot be read again by the runs that measure it".to_string());
    }
    METHODS.iter().map(|method| peaks_of(method.name)).collect()
}

/// Runs this command once more, for one method.
fn peaks_of(method: &str) -> std::result::Result<Peaks, String> {
    let program = std::env::current_exe().map_err(|e| format!("the program is not found: {e}"))?;
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let subcommand = args.iter().position(|arg| arg == "profile").map_or(0, |at| at + 1);
    args.insert(subcommand, format!("--memory-of={method}").into());
    let run = Command::new(program)
        .args(args)
        .envs(GIVE_BACK)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("the run of {method} did not begin: {e}"))?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        return Err(format!("the run of {method} failed: {}", said.trim()));
    }
    serde_json::from_slice(&run.stdout)
        .map_err(|e| format!("the run of {method} said nothing: {e}"))
}

/// What the process of one method does: prints its peaks.
pub(super) fn print_peaks(batch: Batch, config: &Config) -> Result<()> {
    let unavailable = |reason: std::io::Error| Error::Unavailable {
        what: "the peak of resident memory".to_string(),
        reason: format!("{reason}; it needs Linux with /proc/self/clear_refs"),
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .map_err(|e| Error::Unavailable { what: "a thread".to_string(), reason: e.to_string() })?;
    let mut peaks = Peaks::new();
    for task in batch.tasks {
        let batch = Batch { tasks: vec![task], ..Batch::default() };
        let before = reset().and_then(|()| highest()).map_err(unavailable)?;
        let seen = Mutex::new(Vec::new());
        let on_stage = |lap: StageLap| {
            let now = highest().and_then(|now| reset().map(|()| now));
            seen.lock().unwrap_or_else(PoisonError::into_inner).push((lap.stage, now));
        };
        let extras = Extras { on_stage: Some(&on_stage), ..Extras::default() };
        pool.install(|| pipeline::credit_with(&Device::cpu(), &batch, config, extras))?;
        for (stage, now) in seen.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let now = now.map_err(unavailable)?;
            let peak: &mut u64 = peaks.entry(stage.to_string()).or_default();
            *peak = (*peak).max(now.saturating_sub(before));
        }
    }
    report::write_whole("-".as_ref(), |out| Ok(serde_json::to_writer(out, &peaks)?))
}

/// Most bytes resident since the last reset.
fn highest() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kilobytes
        .map(|kilobytes| kilobytes << 10)
        .ok_or_else(|| std::io::Error::other("/proc/self/status has no VmHWM"))
}

fn reset() -> std::io::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}
