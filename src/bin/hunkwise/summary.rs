//! The summary table of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use comfy_table::{Table, presets};
use hunkwise::error::{Error, Result};
use hunkwise::pipeline::{Config, Grouping};
use hunkwise::report::{Advantages, Diagnostics, Distribution};

pub(crate) fn print(
    d: &Diagnostics,
    config: &Config,
    output: Option<&Path>,
    on_stdout: bool,
) -> Result<()> {
    let mut text = table(d, config).to_string();
    text.push('\n');
    for warning in warnings(d) {
        let _ = writeln!(text, "warning: {warning}");
    }
    match output {
        Some(path) if on_stdout => {
            let _ = writeln!(text, "wrote {} rows to {}", d.n_sequences, path.display());
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

fn table(d: &Diagnostics, config: &Config) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_string(), value]);
    };
    row(
        "rollouts",
        format!(
            "{} tasks, {} trajectories, {} turns in {} rows{}",
            d.n_tasks,
            d.n_trajectories,
            d.n_turns,
            d.n_sequences,
            aside(&[(d.n_unscored, "unscored"), (d.n_single_tasks, "tasks of one")])
        ),
    );
    row(
        "episode advantage",
        format!("|A^E| {}{}", mean_max(&d.episode.magnitude), fates(&d.episode)),
    );
    if config.grouping != Grouping::None {
        row(
            "edits",
            format!("{} in {} turns: {}", sum(&d.edits), d.n_turns_with_edits, counts(&d.edits)),
        );
        row("root diffs", counts(&d.roots));
        if !d.flagged_edits.is_empty() {
            row("flagged", counts(&d.flagged_edits));
        }
        if !d.skipped_edits.is_empty() {
            row("skipped", counts(&d.skipped_edits));
        }
        row(
            "windows",
            format!(
                "{} distinct, {} occurrences, {} eligible",
                d.n_candidates, d.n_occurrences, d.n_eligible
            ),
        );
        row(
            "groups",
            format!(
                "{} (picked {}, cut {}), size {}, lines {}, similarity {}{}",
                d.diff.counts.n_groups,
                d.n_picked,
                d.n_cut,
                mean_max(&d.diff.size),
                mean_max(&d.group_lines),
                mean(&d.similarity),
                fates(&d.diff)
            ),
        );
        row("turn spread", mean_max(&d.turn_spread));
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
            "not in the dump: credit is per byte range (--tokenizer gives tokens)".to_string(),
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
        out.push(format!(
            "{} input rows were not usable as they are; they are listed above",
            d.n_flagged_rows
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

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

fn part(part: u64, whole: u64) -> String {
    let percent = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
    format!("{part} of {whole} ({percent:.1} %)")
}

fn mean(d: &Distribution) -> String {
    number(d.mean, d.n)
}

fn number(value: f64, n: u64) -> String {
    if n == 0 { "-".to_string() } else { format!("{value:.3}") }
}

fn mean_max(d: &Distribution) -> String {
    if d.n == 0 { "-".to_string() } else { format!("mean {:.3} max {:.3}", d.mean, d.max) }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0} us", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
