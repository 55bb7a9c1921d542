//! The command as a person runs it.

mod devices;
mod loss_check;
mod profile;
mod synthetic;
mod trace;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn hunkwise(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hunkwise")).args(args).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("messages are UTF-8")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("a file in a temporary folder");
    path.display().to_string()
}

fn rows() -> String {
    let edit = "<edit path=\\\"a.py\\\"><search>\\npass\\n</search><replace>\\ntotal = sum(prices)\\nreturn total\\n</replace></edit>";
    [("1", 1.0), ("2", 0.0), ("3", 0.0)]
        .iter()
        .map(|(id, outcome)| {
            format!("{{\"task\":\"shop\",\"trajectory\":\"{id}\",\"text\":\"{edit}\",\"outcome\":{outcome}}}\n")
        })
        .collect()
}

fn examples() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rollouts"))
            .expect("examples/rollouts")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
            .collect();
    files.sort();
    files
}

#[test]
fn credit_writes_one_row_per_sequence_and_prints_a_summary() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let out = folder.path().join("out.jsonl");
    let run = hunkwise(&["credit", &input, "-o", out.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(
        text(&run.stdout).contains("1 task, 3 trajectories, 3 turns in 3 rows"),
        "{}",
        text(&run.stdout)
    );
    let lines: Vec<serde_json::Value> = std::fs::read_to_string(&out)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["task"], "shop");
    assert_eq!(lines[0]["trajectory"], "1");
    // Scores 1, 0, 0 in the group: A^D of the first is 2/3, lambda 1.2.
    let advantages: Vec<f64> = lines[0]["byte_spans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["advantage"].as_f64().unwrap())
        .collect();
    assert!(advantages.iter().any(|a| (a - 0.8).abs() < 1e-6), "{advantages:?}");
}

#[test]
fn the_examples_all_have_credit() {
    let folder = folder();
    for file in examples() {
        let out = folder.path().join("out.jsonl");
        let run = hunkwise(&["credit", file.to_str().unwrap(), "-o", out.to_str().unwrap()]);
        assert_eq!(run.status.code(), Some(0), "{}: {}", file.display(), text(&run.stderr));
        let n_in = std::fs::read_to_string(&file)
            .unwrap()
            .lines()
            .filter(|l| !l.trim().is_empty())
            .count();
        let written = std::fs::read_to_string(&out).unwrap();
        assert_eq!(written.lines().count(), n_in, "{}", file.display());
        assert!(written.contains("\"anchor\":0"), "{}: no group", file.display());
    }
}

#[test]
fn output_to_standard_output_is_nothing_but_rows() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let run = hunkwise(&["credit", &input, "-o", "-"]);
    assert_eq!(run.status.code(), Some(0));
    let out = text(&run.stdout);
    assert_eq!(out.lines().count(), 3);
    for line in out.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("every line is JSON");
    }
}

#[test]
fn standard_input_is_read() {
    use std::io::Write;
    let mut child = Command::new(env!("CARGO_BIN_EXE_hunkwise"))
        .args(["credit", "-", "-o", "-", "--quiet"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(rows().as_bytes()).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(text(&run.stdout).lines().count(), 3);
}

#[test]
fn a_bad_row_is_flagged_with_its_place_and_the_rest_is_credited() {
    let folder = folder();
    let content = rows() + "{\"task\":\"shop\",\"trajectory\":\"4\",\"text\":7,\"outcome\":0}\n";
    let input = write(folder.path(), "in.jsonl", &content);
    let out = folder.path().join("out.jsonl");
    let run = hunkwise(&["credit", &input, "-o", out.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(3));
    let stderr = text(&run.stderr);
    assert!(stderr.contains("in.jsonl:4") && stderr.contains("`text`"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 3);

    let strict = folder.path().join("strict.jsonl");
    let run = hunkwise(&["credit", &input, "--strict", "-o", strict.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("in.jsonl:4"));
    assert!(!strict.exists());
}

#[test]
fn errors_say_where_and_write_nothing() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let out = folder.path().join("out.jsonl");
    let out = out.to_str().unwrap();
    let missing = folder.path().join("missing.jsonl").display().to_string();
    let config = write(folder.path(), "bad.toml", "max_lines = 32\n[similarity]\netta = 0.5\n");
    let nowhere = folder.path().join("no/such/folder.jsonl").display().to_string();
    let cases: [(&[&str], i32, &[&str]); 6] = [
        (&["credit", &missing, "-o", out], 1, &["missing.jsonl"]),
        (&["credit", &input, "-o", out, "--eta", "1.5"], 1, &["similarity: `eta`", "1.5"]),
        (&["credit", &input, "-o", out, "--eta", "high"], 2, &["--eta"]),
        (&["credit", &input, "-o", out, "--episode", "ppo"], 2, &["grpo", "rloo"]),
        (&["credit", &input, "-o", out, "--config", &config], 1, &["bad.toml:3", "etta"]),
        (&["credit", &input, "-o", &nowhere], 1, &["folder"]),
    ];
    for (args, code, words) in cases {
        let run = hunkwise(args);
        let stderr = text(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{args:?}: {stderr}");
        for word in words {
            assert!(stderr.contains(word), "{args:?} does not say {word}: {stderr}");
        }
        assert!(!Path::new(out).exists(), "{args:?} wrote a file");
    }
}

#[test]
fn flags_win_over_the_configuration_file() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let config = write(folder.path(), "c.toml", "[advantage]\nlambda = 3.0\ngamma = 0.5\n");
    let diagnostics = folder.path().join("d.json");
    let run = hunkwise(&[
        "credit",
        &input,
        "--config",
        &config,
        "--lambda",
        "0.5",
        "--diagnostics",
        diagnostics.to_str().unwrap(),
    ]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let d: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(diagnostics).unwrap()).unwrap();
    assert_eq!(d["config"]["advantage"]["lambda"], 0.5);
    assert_eq!(d["config"]["advantage"]["gamma"], 0.5);
    assert_eq!(d["metrics"]["hunkwise/trajectories"], 3.0);
}

#[test]
fn show_draws_lines_with_credit_and_group_labels() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let run = hunkwise(&["show", &input, "--task", "shop"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let out = text(&run.stdout);
    let line = out.lines().find(|l| l.contains("+ return total")).expect("the added line is drawn");
    // A^E of scores 1, 0, 0 is 1.1547; lambda * 2/3 is 0.8.
    assert!(line.contains("+1.955") && line.contains("G0"), "{line}");
    assert!(!out.contains('\u{1b}'), "no colours in a pipe");
    let run = hunkwise(&["show", &input, "--task", "shop", "--color", "always"]);
    assert!(text(&run.stdout).contains('\u{1b}'));
}

#[test]
fn show_lists_tasks_and_names_an_unknown_one() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let run = hunkwise(&["show", &input]);
    assert!(text(&run.stdout).contains("shop"));
    let run = hunkwise(&["show", &input, "--task", "shoe"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("`shoe`"));
}

#[test]
fn help_and_the_page_on_the_method_name_every_parameter() {
    let help = text(&hunkwise(&["credit", "--help"]).stdout);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/method.md");
    let page = std::fs::read_to_string(page).unwrap();
    let config = toml::Value::try_from(hunkwise::Config::default()).unwrap();
    let toml::Value::Table(config) = config else { panic!("a table") };
    let mut keys = Vec::new();
    for (name, value) in config {
        match value {
            toml::Value::Table(section) => {
                keys.extend(section.keys().map(|key| (key.clone(), format!("`{name}.{key}`"))));
            }
            _ => keys.push((name.clone(), format!("`{name}`"))),
        }
    }
    assert!(keys.len() > 20);
    for (key, full) in keys {
        assert!(help.contains(&format!("--{}", key.replace('_', "-"))), "no flag for {key}");
        assert!(page.contains(&full), "docs/method.md does not name {full}");
    }
}

#[test]
fn an_output_never_replaces_an_input_or_another_output() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let same = folder.path().join("same.jsonl").display().to_string();
    for (args, words) in [
        (["credit", &input, "-o", &input, "--quiet", "--strict"], "is an input"),
        (["credit", &input, "-o", &same, "--groups", &same], "two outputs"),
        (["credit", &input, "-o", "-", "--groups", "-"], "two outputs"),
    ] {
        let run = hunkwise(&args);
        assert_eq!(run.status.code(), Some(1), "{args:?}");
        assert!(text(&run.stderr).contains(words), "{}", text(&run.stderr));
    }
    assert_eq!(std::fs::read_to_string(&input).unwrap(), rows());
    assert!(!Path::new(&same).exists());
}

#[cfg(unix)]
#[test]
fn a_pipe_or_a_link_as_output_stays_what_it_is() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let reader = Command::new("cat")
        .arg(&pipe)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("cat runs");
    let run = hunkwise(&["credit", &input, "-q", "-o", pipe.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    // Had a file taken the place of the pipe, `cat` would wait without end.
    assert!(!std::fs::metadata(&pipe).unwrap().is_file());
    assert_eq!(text(&reader.wait_with_output().unwrap().stdout).lines().count(), 3);

    let (real, link) = (folder.path().join("real.jsonl"), folder.path().join("link.jsonl"));
    std::fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let run = hunkwise(&["credit", &input, "-q", "-o", link.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(0));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap().lines().count(), 3);
}

#[test]
fn a_batch_without_a_row_is_an_error() {
    let folder = folder();
    let row = rows().lines().next().unwrap().to_string() + "\n";
    let input = write(folder.path(), "twice.jsonl", &row.repeat(2));
    let run = hunkwise(&["credit", &input, "-o", "-"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("twice.jsonl:1, field `turn`"), "{}", text(&run.stderr));
    let good = write(folder.path(), "good.jsonl", &rows());
    let run = Command::new(env!("CARGO_BIN_EXE_hunkwise"))
        .args(["credit", "-", "-"])
        .stdin(std::fs::File::open(good).expect("a file"))
        .output()
        .expect("the binary runs");
    assert!(text(&run.stderr).contains("given twice"), "{}", text(&run.stderr));
}

#[test]
fn flags_of_many_lines_come_in_order_for_any_number_of_threads() {
    let folder = folder();
    // Two batches of lines and more.
    let filler = "x = 1\\n".repeat(40_000);
    let mut content = String::new();
    for i in 1..=40 {
        let text = if i % 9 == 0 { "7".to_string() } else { format!("\"{filler}\"") };
        content += &format!(
            "{{\"task\":\"t\",\"trajectory\":{i},\"text\":{text},\"outcome\":{}}}\n",
            i % 2
        );
    }
    assert!(content.len() > 9_000_000);
    let input = write(folder.path(), "in.jsonl", &content);
    let said = ["1", "3"].map(|threads| {
        let run = hunkwise(&["credit", &input, "-q", "--grouping", "none", "--threads", threads]);
        assert_eq!(run.status.code(), Some(3));
        let run_strict = hunkwise(&["credit", &input, "-q", "--strict", "--threads", threads]);
        assert!(text(&run_strict.stderr).contains("in.jsonl:9,"), "{}", text(&run_strict.stderr));
        text(&run.stderr)
    });
    assert_eq!(said[0], said[1]);
    let lines: Vec<bool> = said[0]
        .lines()
        .zip([9, 18, 27, 36])
        .map(|(line, number)| line.contains(&format!("in.jsonl:{number}, field `text`")))
        .collect();
    assert_eq!(lines, [true; 4], "{}", said[0]);
}

#[test]
fn text_of_a_rollout_cannot_steer_the_terminal() {
    let folder = folder();
    let content = rows().replace("total = sum(prices)", "total = \\u001b[2Jsum(prices)");
    let input = write(folder.path(), "in.jsonl", &content);
    let run = hunkwise(&["show", &input, "--task", "shop", "--color", "always"]);
    assert_eq!(run.status.code(), Some(0));
    assert!(text(&run.stdout).contains("total = \u{241b}[2Jsum(prices)"));
}

#[test]
fn numbers_of_flags_may_be_negative_and_have_limits() {
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    assert_eq!(hunkwise(&["credit", &input, "-q", "--lambda", "-1"]).status.code(), Some(0));
    let run = hunkwise(&["credit", &input, "--gamma", "-1"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("`gamma`"), "{}", text(&run.stderr));
    let run = hunkwise(&["credit", &input, "--threads", "1025"]);
    assert_eq!(run.status.code(), Some(2));
}

#[test]
fn the_summary_fits_a_terminal() {
    for file in examples() {
        let out = text(&hunkwise(&["credit", file.to_str().unwrap()]).stdout);
        for line in out.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert_eq!(line, line.trim_end());
        }
    }
}

#[test]
fn every_field_of_the_output_is_documented() {
    fn names(value: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    into.insert(name.clone());
                    names(value, into);
                }
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| names(item, into)),
            _ => {}
        }
    }
    let folder = folder();
    let input = write(folder.path(), "in.jsonl", &rows());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (out, groups, diagnostics) = (file("o"), file("g"), file("d"));
    let run = hunkwise(&[
        "credit",
        &input,
        "-q",
        "--source",
        "-o",
        &out,
        "--groups",
        &groups,
        "--diagnostics",
        &diagnostics,
    ]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let mut fields = std::collections::BTreeSet::new();
    for path in [&out, &groups, &diagnostics] {
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
            // Names in here are parameters, kinds and metrics, not fields.
            for open in ["config", "metrics"] {
                if let Some(object) = row.get_mut(open) {
                    fields.insert(open.to_string());
                    *object = serde_json::Value::Null;
                }
            }
            for counted in ["edits", "roots"] {
                if let Some(object) = row.pointer_mut(&format!("/diagnostics/{counted}")) {
                    *object = serde_json::Value::Null;
                }
            }
            names(&row, &mut fields);
        }
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/output.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    assert!(fields.len() > 50, "{fields:?}");
    for field in fields {
        let forms = [format!("`{field}`"), format!("`members[].{field}`"), format!("\"{field}\"")];
        assert!(forms.iter().any(|form| docs.contains(form)), "docs/output.md lacks `{field}`");
    }
}
