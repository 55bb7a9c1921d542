//! The figures of a profile on the screen.

use std::fmt::Write as _;

use hunkwise::error::{Error, Result};
use hunkwise::report::{Growth, MethodCost, Profile};

use crate::summary::time;
use crate::text::{count, plain, wrap};

/// Columns of a method's name, of a figure, and of an exponent with its R^2.
const NAME: usize = 8;
const FIGURE: usize = 11;
const FIT: usize = 15;

/// To standard output, or to standard error when a file goes there.
pub(super) fn print(profile: &Profile, to_stderr: bool) -> Result<()> {
    let text = text_of(profile);
    let written = if to_stderr {
        std::io::Write::write_all(&mut anstream::stderr(), text.as_bytes())
    } else {
        std::io::Write::write_all(&mut anstream::stdout(), text.as_bytes())
    };
    written.map_err(|e| Error::io("standard output", e))
}

fn text_of(profile: &Profile) -> String {
    let mut text = String::new();
    let what = format!(
        "{}, {} rollouts, {}, {}, {} tokens; {}, median of {} after one to warm up",
        count(profile.n_tasks, "task"),
        profile.n_trajectories,
        count(profile.n_turns, "turn"),
        count(profile.n_lines, "code line"),
        profile.n_tokens,
        count(profile.threads as u64, "thread"),
        count(profile.repeat as u64, "run")
    );
    let _ = writeln!(text, "{}\n", wrap(&what, 0));

    line(&mut text, "", &["time", "over grpo", "of a step", "memory", "groups"].map(String::from));
    for method in &profile.methods {
        let groups = method.n_diff_groups + method.n_step_groups;
        let figures = [
            time(method.seconds),
            time(method.overhead_seconds),
            method.step_share.map_or("-".to_string(), |share| format!("{:.2} %", 100.0 * share)),
            memory(method.peak_bytes),
            groups.to_string(),
        ];
        line(&mut text, method.method, &figures);
    }

    text.push_str("\nwork of each stage\n");
    stages(&mut text, profile, |method, stage| match method.stages[stage].seconds {
        0.0 => "-".to_string(),
        seconds => time(seconds),
    });
    match &profile.memory_unknown {
        Some(reason) => {
            let _ = writeln!(text, "\nmemory is not known: {}", plain(reason));
        }
        None => {
            text.push_str("\npeak of memory in each stage, of the task that needs most\n");
            stages(&mut text, profile, |method, stage| memory(method.stages[stage].peak_bytes));
        }
    }
    if !profile.growth.is_empty() {
        text.push_str("\ntime grows as the size to the power of (with R^2 of the fit)\n");
        growth(&mut text, profile);
    }
    text
}

fn stages(text: &mut String, profile: &Profile, figure: impl Fn(&MethodCost, usize) -> String) {
    let Some(first) = profile.methods.first() else { return };
    let names: Vec<String> = first.stages.iter().map(|stage| stage.stage.to_string()).collect();
    line(text, "", &names);
    for method in &profile.methods {
        let figures: Vec<String> = (0..names.len()).map(|stage| figure(method, stage)).collect();
        line(text, method.method, &figures);
    }
}

fn growth(text: &mut String, profile: &Profile) {
    let by_axis: Vec<&[Growth]> = profile.growth.chunk_by(|a, b| a.axis == b.axis).collect();
    let names: Vec<String> = by_axis.iter().map(|of_axis| of_axis[0].axis.to_string()).collect();
    columns(text, "", &names, FIT);
    for (i, method) in profile.methods.iter().enumerate() {
        let figures: Vec<String> = by_axis
            .iter()
            .map(|of_axis| {
                of_axis
                    .get(i)
                    .map_or("-".to_string(), |g| format!("{:.2} ({:.3})", g.exponent, g.r_squared))
            })
            .collect();
        columns(text, method.method, &figures, FIT);
    }
    let sizes: Vec<String> = by_axis
        .iter()
        .map(|of_axis| {
            let sizes: Vec<String> =
                of_axis[0].points.iter().map(|(size, _)| size.to_string()).collect();
            format!("{} {}", of_axis[0].axis, sizes.join(" "))
        })
        .collect();
    let _ = writeln!(text, "{}", wrap(&format!("sizes: {}", sizes.join("; ")), 2));
}

fn line(text: &mut String, name: &str, figures: &[String]) {
    columns(text, name, figures, FIGURE);
}

fn columns(text: &mut String, name: &str, figures: &[String], width: usize) {
    let _ = write!(text, "{name:NAME$}");
    for figure in figures {
        let _ = write!(text, "{figure:>width$}");
    }
    text.push('\n');
}

fn memory(bytes: Option<u64>) -> String {
    match bytes {
        None => "-".to_string(),
        Some(bytes) if bytes < 10 << 20 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        Some(bytes) => format!("{} MiB", bytes >> 20),
    }
}
