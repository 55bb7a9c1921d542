//! The check on the screen.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use hunkwise::error::{Error, Result};
use serde_json::Value;

use super::compare::{Check, Comparison, Values};
use crate::text::{count, plain};

/// To standard output, or to standard error when the JSON goes there.
pub(super) fn print(check: &Check, file: &Path, n_shown: usize, on_stdout: bool) -> Result<()> {
    let text = text_of(check, file, n_shown);
    let written = if on_stdout {
        anstream::stdout().write_all(text.as_bytes())
    } else {
        anstream::stderr().write_all(text.as_bytes())
    };
    written.map_err(|e| Error::io("standard output", e))
}

fn text_of(check: &Check, file: &Path, n_shown: usize) -> String {
    let mut text = String::new();
    let n_tokens = count(check.tokens.len() as u64, "token");
    let file = plain(&file.display().to_string()).into_owned();
    let _ =
        writeln!(text, "{file}: {}, {n_tokens} under the mask, {}\n", check.layout, check.dtype);
    config(&mut text, check);
    numbers(&mut text, check);
    tokens(&mut text, check, n_shown);
    comparisons(&mut text, check);
    text
}

fn config(text: &mut String, check: &Check) {
    let Ok(Value::Object(fields)) = serde_json::to_value(&check.config) else { return };
    for (name, value) in fields {
        let value = match value {
            Value::Object(mut parts) => {
                let kind = parts.remove("type").map(word).unwrap_or_default();
                let parts: Vec<String> = parts
                    .into_iter()
                    .map(|(name, value)| format!("{name} {}", word(value)))
                    .collect();
                format!("{kind} {}", parts.join(" "))
            }
            other => word(other),
        };
        let _ = writeln!(text, "{name:22}{}", value.trim_end());
    }
}

fn word(value: Value) -> String {
    match value {
        Value::String(word) => word,
        Value::Null => "none".to_string(),
        other => other.to_string(),
    }
}

fn numbers(text: &mut String, check: &Check) {
    let trainer = if check.loss.trainer.is_some() { "trainer" } else { "" };
    let names = format!("{:22}{:>18}{:>18}{trainer:>18}", "", "reference (f64)", "fast");
    let _ = writeln!(text, "\n{}", names.trim_end());
    let mut line = |name: &str, values: &Values| {
        let trainer = values.trainer.map(number).unwrap_or_default();
        let (reference, fast) = (number(values.reference), number(values.fast));
        let line = format!("{name:22}{reference:>18}{fast:>18}{trainer:>18}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line("loss", &check.loss);
    line("numerator", &check.numerator);
    line("denominator", &check.denominator);
    for (name, values) in &check.metrics {
        // An extreme over no token.
        if !values.reference.is_infinite() {
            line(name, values);
        }
    }
}

/// Nine digits: an f32 in full.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e9 {
        format!("{value}")
    } else {
        format!("{value:.8e}")
    }
}

fn tokens(text: &mut String, check: &Check, n_shown: usize) {
    let shown = &check.tokens[..n_shown.min(check.tokens.len())];
    if shown.is_empty() {
        return;
    }
    let has_trainer = shown[0].token_loss.trainer.or(shown[0].grad_log_prob.trainer).is_some();
    let other = if has_trainer { "trainer" } else { "fast" };
    let _ = writeln!(
        text,
        "\n{:>5}{:>7}{:>11}{:>11}{:>14}{:>9}{:>14}{:>9}",
        "row", "token", "log_prob", "advantage", "loss", other, "gradient", other
    );
    for token in shown {
        let _ = write!(text, "{:>5}{:>7}", token.row, token.token);
        let _ = write!(text, "{:>11.5}{:>11.5}", token.log_prob, token.advantage);
        for values in [token.token_loss, token.grad_log_prob] {
            let theirs = if has_trainer { values.trainer } else { Some(values.fast) };
            let difference = match theirs {
                None => "-".to_string(),
                Some(theirs) if theirs == values.reference => "=".to_string(),
                Some(theirs) => format!("{:+.0e}", theirs - values.reference),
            };
            let _ = write!(text, "{:>14.6e}{difference:>9}", values.reference);
        }
        text.push('\n');
    }
    let n_more = check.tokens.len() - shown.len();
    if n_more > 0 {
        let _ = writeln!(text, "{n_more} more; --tokens N prints more, --json OUT has all");
    }
    let _ = writeln!(text, "columns `{other}`: what is there less the reference");
}

fn comparisons(text: &mut String, check: &Check) {
    text.push('\n');
    for comparison in &check.comparisons {
        let Comparison { of, what, difference, at, is_equal } = comparison;
        let verdict = if *is_equal { "equal" } else { "DIFFERENT" };
        let place =
            at.map_or(String::new(), |(row, token)| format!(" at row {row}, token {token}"));
        let line =
            format!("{of:8}{what:14}{verdict:10} largest difference {difference:.1e}{place}");
        let _ = writeln!(text, "{line}");
    }
}
