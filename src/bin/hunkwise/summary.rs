//! The summary table of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use hunkwise::error::{Error, Result};
use hunkwise::pipeline::{Config, Grouping};
use hunkwise::report::{Advantages, Diagnostics, Distribution};

use crate::text::{self, count};

/// Columns of the names.
const NAME_WIDTH: usize = 19;

pub(crate) fn print(
    d: &Diagnostics,
    config: &Config,
    output: Option<&Path>,
    on_stdout: bool,
) -> Result<()> {
    let mut text = table(d, config);
    for warning in warnings(d) {
        let _ = writeln!(text, "warning: {warning}");
    }
    match output {
        Some(path) if on_stdout => {
            let _ = writeln!(text, "wrote {} to {}", count(d.n_sequences, "row"), path.display());
        }
        Some(_) => {}
        None => text.push_str("nothing written: give -o OUT for the advantages\n"),
    }
    let written = if on_stdout {
        std::io::Write::write_all(&mut anstream::stdout(), text.as_bytes())
    } else {
        std::io::Write::write_all(&mut anstream::stderr(), text.as_bytes())
    };
    written.map_err(|e| Error::io("standard output", e))
}

fn table(d: &Diagnostics, config: &Config) -> String {
    let mut table = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(table, "{name:NAME_WIDTH$}{}", text::wrap(&value, NAME_WIDTH));
    };
    row(
        "rollouts",
        format!(
            "{}, {}, {} in {}{}",
            count(d.n_tasks, "task"),
            trajectories(d.n_trajectories),
            count(d.n_turns, "turn"),
            count(d.n_sequences, "row"),
            aside(&[(d.n_unscored, "unscored"), (d.n_single_tasks, "alone in their task")])
        ),
    );
    row(
        "episode advantage",
        format!("|A^E| {}{}", mean_max(&d.episode.magnitude), fates(&d.episode)),
    );
    if config.grouping != Grouping::None {
        row(
            "edits",
            format!(
                "{} in {}: {}",
                count(sum(&d.edits), "edit"),
                count(d.n_turns_with_edits, "turn"),
                counts(&d.edits)
            ),
        );
        row("root diffs", counts(&d.roots));
        if !d.flagged_edits.is_empty() {
            row("edits flagged", counts(&d.flagged_edits));
        }
        if !d.skipped_edits.is_empty() {
            row("edits skipped", counts(&d.skipped_edits));
        }
        row(
            "windows",
            format!(
                "{} distinct, {} occurrences, {} recur in two trajectories",
                d.n_candidates, d.n_occurrences, d.n_eligible
            ),
        );
        row(
            "groups",
            format!(
                "{} of {} picked, {} lost to the cut{}",
                d.diff.counts.n_groups,
                d.n_picked,
                d.n_cut,
                fates(&d.diff)
            ),
        );
        if d.diff.counts.n_groups > 0 {
            row("  members", mean_max(&d.diff.size));
            row("  lines", mean_max(&d.group_lines));
            row(
                "  similarity",
                format!("mean {:.3} min {:.3}", d.similarity.mean, d.similarity.min),
            );
            row("  turn spread", mean_max(&d.turn_spread));
        }
        row(
            "diff advantage",
            format!(
                "|A^D| {}; within {}, contrast {}",
                mean_max(&d.diff.magnitude),
                number(d.diff_within, d.diff.magnitude.n),
                number(d.diff_contrast, d.diff.magnitude.n)
            ),
        );
        row("covered lines", part(d.n_covered_lines, d.n_lines));
    }
    if d.step.counts.n_groups > 0 {
        row(
            "step advantage",
            format!(
                "{} groups, |A^S| {}{}",
                d.step.counts.n_groups,
                mean_max(&d.step.magnitude),
                fates(&d.step)
            ),
        );
    }
    if d.n_tokens > 0 {
        row("trained tokens", part(d.n_trained_tokens, d.n_tokens));
        row("covered tokens", part(d.n_covered_tokens, d.n_trained_tokens));
    } else {
        row(
            "tokens",
            "not in the dump; credit is per byte range (--tokenizer gives tokens)".to_string(),
        );
    }
    let stages: Vec<String> = d
        .seconds
        .stages()
        .iter()
        .filter(|(name, seconds)| *name != "wall" && *seconds > 0.0)
        .map(|(name, seconds)| format!("{name} {}", time(*seconds)))
        .collect();
    row("time", format!("{} ({})", time(d.seconds.wall), stages.join(", ")));
    table
}

fn warnings(d: &Diagnostics) -> Vec<String> {
    let mut out = Vec::new();
    if d.n_flagged_rows > 0 {
        out.push(format!("{}; the list is above", count(d.n_flagged_rows as u64, "input flaw")));
    }
    let n_not_finite =
        d.episode.counts.n_not_finite + d.diff.counts.n_not_finite + d.step.counts.n_not_finite;
    if n_not_finite > 0 {
        out.push(format!(
            "{} left at 0, since a sum of rewards is beyond the range of numbers; scale the rewards down",
            count(n_not_finite as u64, "advantage")
        ));
    }
    if d.n_tasks > 1 && d.n_single_tasks == d.n_tasks {
        out.push(
            "every task has one trajectory, so every advantage is 0: is the task id an id of the trajectory?".to_string(),
        );
    }
    if d.n_trajectories > 0 && d.n_unscored == d.n_trajectories {
        out.push("no trajectory has a score, so every advantage is 0".to_string());
    }
    out
}

fn fates(a: &Advantages) -> String {
    aside(&[
        (a.counts.n_singletons as u64, "singletons"),
        (a.counts.n_zero_spread as u64, "without spread"),
        (a.counts.n_not_finite as u64, "not finite"),
    ])
}

fn aside(counts: &[(u64, &str)]) -> String {
    let parts: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!("{n} {name}")).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "none".to_string();
    }
    counts.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
}

fn trajectories(n: u64) -> String {
    format!("{n} trajector{}", if n == 1 { "y" } else { "ies" })
}

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

fn part(part: u64, whole: u64) -> String {
    let percent = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
    format!("{part} of {whole} ({percent:.1} %)")
}

fn number(value: f64, n: u64) -> String {
    if n == 0 { "-".to_string() } else { format!("{value:.3}") }
}

fn mean_max(d: &Distribution) -> String {
    if d.n == 0 { "-".to_string() } else { format!("mean {:.3} max {:.3}", d.mean, d.max) }
}

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0} us", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
