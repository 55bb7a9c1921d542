//! `hunkwise profile`.

use std::collections::BTreeSet;
use std::path::Path;

use hunkwise::Device;
use hunkwise::pipeline::{Config, Extras, StageLap, credit_with};
use hunkwise::rollout::{Batch, synthetic};
use serde_json::Value;

use super::{folder, hunkwise, rows, text, write};

pub(crate) const METHODS: [&str; 5] = ["grpo", "gigpo", "exact", "whole", "windows"];
pub(crate) const STAGES: [&str; 6] =
    ["edits", "code", "similarity", "anchors", "advantage", "projection"];

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
}

#[test]
fn stage_laps_add_up_to_the_diagnostics() {
    let batch: Batch = synthetic("2x3x2x10".parse().expect("a shape"), 1).expect("a batch");
    let laps = std::sync::Mutex::new(Vec::new());
    let on_stage = |lap: StageLap| laps.lock().expect("no panic").push(lap);
    let extras = Extras { on_stage: Some(&on_stage), ..Extras::default() };
    let run = credit_with(&Device::cpu(), &batch, &Config::default(), extras).expect("credit");
    let laps = laps.into_inner().expect("no panic");
    for (stage, seconds) in run.diagnostics.seconds.stages() {
        if stage == "wall" {
            continue;
        }
        let of_stage = || laps.iter().filter(|lap| lap.stage == stage);
        let summed: f64 = of_stage().map(|lap| (lap.ended - lap.began).as_secs_f64()).sum();
        assert!((summed - seconds).abs() < 1e-9, "{stage}: {summed} and {seconds}");
        assert_eq!(of_stage().map(|lap| lap.task).collect::<BTreeSet<_>>(), [0, 1].into());
    }
    assert_eq!(laps.iter().map(|lap| lap.stage).collect::<BTreeSet<_>>(), STAGES.into());
}

#[test]
fn json_has_every_method_stage_and_axis() {
    let folder = folder();
    let out = folder.path().join("profile.json");
    let run = hunkwise(&[
        "profile",
        "--synthetic",
        "2x4x2x10",
        "--repeat",
        "2",
        "--seed",
        "3",
        "--threads",
        "1",
        "--step-seconds",
        "0.5",
        "--growth",
        "--json",
        out.to_str().unwrap(),
    ]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let profile = json(&out);
    let shape = serde_json::json!({"n_tasks": 2, "n_rollouts": 4, "n_turns": 2, "n_lines": 10});
    assert_eq!(profile["synthetic"], shape);
    for (field, value) in [
        ("seed", 3.0),
        ("threads", 1.0),
        ("repeat", 2.0),
        ("n_tasks", 2.0),
        ("n_trajectories", 8.0),
        ("n_turns", 16.0),
        ("step_seconds", 0.5),
    ] {
        assert_eq!(profile[field].as_f64(), Some(value), "{field}");
    }
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let methods = list(&profile["methods"]);
    assert_eq!(methods.iter().map(|m| m["method"].as_str().unwrap()).collect::<Vec<_>>(), METHODS);
    let grpo = methods[0]["seconds"].as_f64().unwrap();
    for method in &methods {
        let number = |field: &str| method[field].as_f64().expect(field);
        assert!(number("seconds_min") > 0.0);
        assert!(number("seconds_min") <= number("seconds"));
        assert!(number("seconds") <= number("seconds_max"));
        let overhead = (number("seconds") - grpo).max(0.0);
        assert!((number("overhead_seconds") - overhead).abs() < 1e-12);
        assert!((number("step_share") - number("overhead_seconds") / 0.5).abs() < 1e-12);
        let stages = list(&method["stages"]);
        assert_eq!(stages.iter().map(|s| s["stage"].as_str().unwrap()).collect::<Vec<_>>(), STAGES);
        let work: f64 = stages.iter().map(|s| s["seconds"].as_f64().unwrap()).sum();
        // One thread: the stages fit into the run. Medians of two runs are their means, so they add up.
        assert!(work <= number("seconds") + 1e-9, "{method}");
    }
    let group_counts = |field: &str| -> Vec<bool> {
        methods.iter().map(|m| m[field].as_u64().unwrap() > 0).collect()
    };
    assert_eq!(group_counts("n_diff_groups"), [false, false, true, true, true]);
    assert_eq!(group_counts("n_step_groups"), [false, true, false, false, false]);

    let growth = list(&profile["growth"]);
    let mut rows = Vec::new();
    for (axis, sizes) in
        [("rollouts", &[1, 2, 4][..]), ("lines", &[2, 3, 5, 10]), ("tasks", &[1, 2])]
    {
        for method in METHODS {
            rows.push((axis, method, sizes));
        }
    }
    assert_eq!(growth.len(), rows.len());
    for (row, (axis, method, sizes)) in growth.iter().zip(rows) {
        assert_eq!((row["axis"].as_str(), row["method"].as_str()), (Some(axis), Some(method)));
        assert!(row["exponent"].as_f64().unwrap().is_finite());
        assert!((0.0..=1.0).contains(&row["r_squared"].as_f64().unwrap()), "{row}");
        let points = list(&row["points"]);
        assert_eq!(points.iter().map(|p| p[0].as_u64().unwrap()).collect::<Vec<_>>(), sizes);
        assert!(points.iter().all(|p| p[1].as_f64().unwrap() > 0.0));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_known_or_said_not_to_be() {
    let folder = folder();
    let out = folder.path().join("profile.json");
    let out = out.to_str().unwrap();
    let run = hunkwise(&["profile", "--synthetic", "1x24x4x60", "--repeat", "1", "--json", out]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let profile = json(Path::new(out));
    let table = text(&run.stdout);
    if let Some(reason) = profile["memory_unknown"].as_str() {
        assert!(table.contains("memory is not known"), "{reason}");
        assert!(profile["methods"][4]["peak_bytes"].is_null());
        return;
    }
    assert!(table.contains("peak of memory"), "{table}");
    let peak = |method: usize| profile["methods"][method]["peak_bytes"].as_u64().expect("a peak");
    // All windows of 96 turns of 60 lines, kept with their occurrences, are megabytes; GRPO keeps next to nothing.
    assert!(peak(4) > 4 << 20 && peak(4) > 2 * peak(0), "{} and {}", peak(4), peak(0));
    let stages = profile["methods"][4]["stages"].as_array().unwrap();
    let peaks: Vec<u64> = stages.iter().map(|s| s["peak_bytes"].as_u64().unwrap()).collect();
    assert_eq!(peaks.iter().max(), Some(&peak(4)));
    // Stages that GRPO does not have have no peak.
    assert!(profile["methods"][0]["stages"][0]["peak_bytes"].is_null());
}

#[test]
fn files_are_profiled_and_the_table_fits_a_terminal() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let run = hunkwise(&["profile", &input, "--repeat", "1", "--growth", "--step-seconds", "60"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let out = text(&run.stdout);
    assert!(out.contains("1 task, 3 rollouts, 3 turns"), "{out}");
    for name in METHODS.iter().chain(&STAGES) {
        assert!(out.contains(name), "{out}");
    }
    // One task and the lines of files cannot be made smaller; three rollouts can.
    assert!(out.contains("sizes: rollouts 1 2 3\n"), "{out}");
    for line in out.lines() {
        assert!(line.chars().count() <= 80 && line == line.trim_end(), "{line:?}");
    }
    // A flagged row is reported as by `credit`.
    let bad = write(folder.path(), "bad.jsonl", &(rows() + "{\"task\":7}\n"));
    let run = hunkwise(&["profile", &bad, "--repeat", "1"]);
    assert_eq!(run.status.code(), Some(3), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("bad.jsonl:4"));
}

#[test]
fn standard_input_is_profiled_without_memory() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_hunkwise"))
        .args(["profile", "-", "--repeat", "1", "--json", "-"])
        .stdin(std::fs::File::open(input).expect("a file"))
        .output()
        .expect("the binary runs");
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let profile: Value = serde_json::from_slice(&run.stdout).expect("JSON alone");
    assert!(profile["memory_unknown"].as_str().unwrap().contains("standard input"));
    assert!(profile["synthetic"].is_null() && profile["methods"][4]["peak_bytes"].is_null());
    assert!(text(&run.stderr).contains("memory is not known"));
}

#[test]
fn bad_arguments_are_errors_and_write_nothing() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let out = folder.path().join("out.json");
    let out = out.to_str().unwrap();
    let cases: [(&[&str], i32, &str); 11] = [
        (&["--json", out], 2, "FILES"),
        (&["--synthetic", "6x32x8", "--json", out], 2, "6x32x8x50"),
        (&["--synthetic", "0x1x1x1", "--json", out], 2, "from 1"),
        (&["--synthetic", "9999x9999x9x50", "--json", out], 2, "the limit is 50000000"),
        (&["--synthetic", "1x1x1x1", &input, "--json", out], 2, "cannot be used with"),
        (&[&input, "--repeat", "0", "--json", out], 2, "--repeat"),
        (&[&input, "--step-seconds", "0", "--json", out], 2, "above 0"),
        (&[&input, "--step-seconds", "nan", "--json", out], 2, "above 0"),
        (&[&input, "--grouping", "exact", "--json", out], 1, "each grouping is measured"),
        (&[&input, "--json", out, "--trace", out], 1, "two outputs"),
        (&[&input, "--json", &input], 1, "is an input"),
    ];
    for (args, code, word) in cases {
        let run = hunkwise(&[&["profile"], args].concat());
        let stderr = text(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(word), "{args:?} does not say {word}: {stderr}");
        assert!(!Path::new(out).exists(), "{args:?} wrote a file");
    }
    assert_eq!(std::fs::read_to_string(&input).unwrap(), rows());
}

#[test]
fn help_has_no_option_that_is_refused() {
    let help = text(&hunkwise(&["profile", "--help"]).stdout);
    for (option, is_listed) in [
        ("--grouping", false),
        ("--step ", false),
        ("--memory-of", false),
        ("--repeat", true),
        ("--step-seconds", true),
        ("--eta ", true),
    ] {
        assert_eq!(help.contains(option), is_listed, "{option}: {help}");
    }
    let help = text(&hunkwise(&["credit", "--help"]).stdout);
    assert!(help.contains("--grouping") && help.contains("--step "), "{help}");
}

#[test]
fn every_field_of_a_profile_is_documented() {
    fn names(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                into.extend(fields.keys().cloned());
                fields.values().for_each(|value| names(value, into));
            }
            Value::Array(items) => items.iter().for_each(|item| names(item, into)),
            _ => {}
        }
    }
    let run = hunkwise(&[
        "profile",
        "--synthetic",
        "1x2x1x5",
        "--repeat",
        "1",
        "--growth",
        "--json",
        "-",
    ]);
    let profile: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/output.md");
    let docs = std::fs::read_to_string(docs).expect("docs/output.md");
    let section = docs.split("## Profile").nth(1).expect("a section on profiles");
    let section = section.split("\n## ").next().expect("its text");
    let mut fields = BTreeSet::new();
    names(&profile, &mut fields);
    assert!(fields.len() > 25, "{fields:?}");
    for field in fields {
        let is_named = section.contains(&format!("`{field}`"))
            || ["methods", "stages", "growth", "synthetic"]
                .iter()
                .any(|list| section.contains(&format!("`{list}[].{field}`")));
        assert!(is_named, "docs/output.md lacks `{field}`");
    }
}
