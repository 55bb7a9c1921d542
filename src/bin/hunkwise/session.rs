//! What the commands do first: threads, configuration, reading, credit, with a progress bar on long work.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hunkwise::error::{Error, Result};
use hunkwise::pipeline::{Config, Credit, Extras};
use hunkwise::rollout::{self, Batch};
use hunkwise::{Device, pipeline};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{ConfigArgs, ReadArgs};
use crate::text::plain;

/// Rows that could not be taken are listed up to this many; the rest are counted.
const SHOWN_FLAGS: usize = 20;

pub(crate) fn configure(reading: &ReadArgs, args: &ConfigArgs) -> Result<Config> {
    rayon::ThreadPoolBuilder::new().num_threads(reading.threads.into()).build_global().map_err(
        |e| Error::Unavailable {
            what: format!("a pool of {} threads", reading.threads),
            reason: format!("{e}; give a smaller --threads"),
        },
    )?;
    args.resolve()
}

pub(crate) fn read(files: &[PathBuf], reading: &ReadArgs) -> Result<Batch> {
    let total = files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|m| m.len()).sum();
    let bar = bar(total, "reading {bar:30} {bytes}/{total_bytes} {eta}");
    let batch =
        rollout::read_files(files, &reading.options(), &mut |bytes| bar.set_position(bytes))?;
    bar.finish_and_clear();
    Ok(batch)
}

pub(crate) fn credit(
    reading: &ReadArgs,
    batch: &Batch,
    config: &Config,
    keep_roots: bool,
) -> Result<Credit> {
    let device = Device::named(&reading.device)?;
    let bar = bar(batch.tasks.len() as u64, "credit  {bar:30} {pos}/{len} tasks {eta}");
    let done = AtomicU64::new(0);
    let on_task_done = || bar.set_position(done.fetch_add(1, Ordering::Relaxed) + 1);
    let extras = Extras { keep_roots, on_task_done: Some(&on_task_done), ..Extras::default() };
    let credit = pipeline::credit_with(&device, batch, config, extras)?;
    bar.finish_and_clear();
    Ok(credit)
}

/// Says on standard error which rows were not usable, and what was noted while reading.
pub(crate) fn report_flagged(batch: &Batch) {
    for note in &batch.notes {
        anstream::eprintln!("note: {}", plain(note));
    }
    for flagged in batch.flagged.iter().take(SHOWN_FLAGS) {
        anstream::eprintln!(
            "flagged: {}: {}",
            plain(&flagged.place.to_string()),
            plain(&flagged.reason)
        );
    }
    if batch.flagged.len() > SHOWN_FLAGS {
        let more = batch.flagged.len() - SHOWN_FLAGS;
        anstream::eprintln!("flagged: {more} more; --diagnostics FILE lists them all");
    }
}

/// A bar on standard error, drawn only on a terminal and only once the work has taken a moment.
pub(crate) fn bar(total: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
