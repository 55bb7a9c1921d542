//! `hunkwise loss-check`.

use std::path::Path;

use serde_json::{Value, json};

use super::{folder, hunkwise, text, write};

/// Two rows of a loss that is worked out by hand: ratios 1, `e^0.1`, 1 with A = 1, and 1 with A = -2.
fn file() -> Value {
    json!({
        "log_prob": [[-1.0, -0.9, -0.5], [-2.0, 0.0, 0.0]],
        "old_log_prob": [[-1.0, -1.0, -0.5], [-2.0, null, 0.0]],
        "response_mask": [[1, 1, 1], [true, false, 0]],
        "advantages": [1.0, -2.0],
    })
}

fn with(changes: Value) -> String {
    let mut file = file();
    for (name, value) in changes.as_object().expect("an object") {
        file[name] = value.clone();
    }
    file.to_string()
}

fn check(folder: &Path, content: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let input = write(folder, "in.json", content);
    let run = hunkwise(&[&["loss-check", &input, "--json", "-"], more].concat());
    (run.status.code(), serde_json::from_slice(&run.stdout).unwrap_or_default(), text(&run.stderr))
}

fn close(value: &Value, right: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value - right).abs() < 1e-6, "{value}, not {right}");
}

#[test]
fn values_are_those_of_the_formulas() {
    let folder = folder();
    let (code, check, _) = check(folder.path(), &file().to_string(), &["--preset", "bnpo"]);
    assert_eq!(code, Some(0));
    // -(1 + e^0.1 + 1) + 2, over 4 tokens.
    for way in ["reference", "fast"] {
        close(&check["loss"][way], (-2.0 - 0.1f64.exp() + 2.0) / 4.0);
        close(&check["numerator"][way], -0.1f64.exp());
        close(&check["denominator"][way], 4.0);
        close(&check["metrics"]["n_tokens"][way], 4.0);
        close(&check["metrics"]["ratio_max"][way], 0.1f64.exp());
        close(&check["tokens"][1]["grad_log_prob"][way], -0.1f64.exp() / 4.0);
        close(&check["tokens"][3]["token_loss"][way], 0.5);
    }
    let tokens = check["tokens"].as_array().expect("tokens");
    assert_eq!(tokens.len(), 4);
    assert_eq!((&tokens[3]["row"], &tokens[3]["token"]), (&json!(1), &json!(0)));
    assert_eq!(tokens[3]["advantage"], json!(-2.0));
}

#[test]
fn the_trainers_values_are_compared() {
    let folder = folder();
    let r = 0.1f64.exp();
    let right = json!({"preset": "bnpo"});
    let gradient = json!([[-0.25, -r / 4.0, -0.25], [0.5, 0.0, 0.0]]);
    let trainer = json!({"loss": -r / 4.0, "grad_log_prob": gradient, "token_loss": gradient});
    let (code, ..) = check(folder.path(), &with(json!({"config": right, "trainer": trainer})), &[]);
    assert_eq!(code, Some(0));

    // The trainer's gradient at a token that the mask leaves out.
    let gradient = json!([[-0.25, -r / 4.0, -0.25], [0.5, 0.0, 0.01]]);
    let trainer = json!({"grad_log_prob": gradient});
    let content = with(json!({"config": right, "trainer": trainer}));
    let (code, found, _) = check(folder.path(), &content, &[]);
    assert_eq!(code, Some(3));
    let wrong: Vec<&Value> = found["comparisons"]
        .as_array()
        .expect("comparisons")
        .iter()
        .filter(|comparison| comparison["is_equal"] == false)
        .collect();
    assert_eq!(wrong.len(), 1);
    assert_eq!((&wrong[0]["of"], &wrong[0]["what"]), (&json!("trainer"), &json!("grad_log_prob")));
    assert_eq!(wrong[0]["at"], json!([1, 2]));
    close(&wrong[0]["difference"], 0.01 / 0.5);
    let (code, ..) = check(folder.path(), &content, &["--tolerance", "0.1"]);
    assert_eq!(code, Some(0));
}

#[test]
fn layouts_and_ways_to_give_advantages_agree() {
    let folder = folder();
    let loss = |content: &str| {
        let (code, check, message) = check(folder.path(), content, &["--preset", "grpo"]);
        assert_eq!(code, Some(0), "{message}");
        check["loss"]["fast"].as_f64().expect("a loss")
    };
    let padded = loss(&file().to_string());
    let ragged = json!({
        "log_prob": [[-1.0, -0.9, -0.5], [-2.0]], "old": [[-1.0, -1.0, -0.5], [-2.0]],
        "mask": [[1, 1, 1], [1]], "advantages": {"episode": [1.0, -1.5], "spans": [[], [[0, 1, -0.5]]]},
    });
    let packed = json!({
        "logprobs": [-1.0, -0.9, -0.5, -2.0], "old": [-1.0, -1.0, -0.5, -2.0], "offsets": [0, 3, 4],
        "loss_mask": [1, 1, 1, 1], "advantages": [1.0, 1.0, 1.0, -2.0],
    });
    assert_eq!(loss(&ragged.to_string()), padded);
    assert_eq!(loss(&packed.to_string()), padded);
    assert_eq!(loss(&with(json!({"advantages": [[1.0], [-2.0]]}))), padded);
    let dense = json!([[1.0, 1.0, 1.0], [-2.0, 7.0, 7.0]]);
    assert_eq!(loss(&with(json!({"advantages": dense}))), padded);
    // Over the rows of all ranks instead of those of the file.
    let global = loss(&with(json!({"num_items_in_batch": 8})));
    assert!((global - padded / 4.0).abs() < 1e-12);
}

#[test]
fn a_preset_and_the_fields_beside_it_make_the_loss() {
    let folder = folder();
    let high = |changes: Value, more: &[&str]| {
        let (code, check, message) = check(folder.path(), &with(changes), more);
        assert_eq!(code, Some(0), "{message}");
        (check["config"]["surrogate"]["high"].clone(), check["config"]["reduction"]["type"].clone())
    };
    let given = json!({"config": {"preset": "dapo", "surrogate": {"high": 0.4}}});
    assert_eq!(high(json!({}), &[]), (json!(0.2), json!("seq_mean_token_mean")));
    assert_eq!(high(given.clone(), &[]), (json!(0.4), json!("token_mean")));
    assert_eq!(high(given.clone(), &["--preset", "grpo"]).0, json!(0.2));
    let toml = write(folder.path(), "loss.toml", "preset = \"dapo\"\nsurrogate = { high = 0.5 }\n");
    assert_eq!(high(given, &["--config", &toml]), (json!(0.5), json!("token_mean")));
}

#[test]
fn safetensors_are_read_in_their_dtypes() {
    let folder = folder();
    let bf16 = |value: f32| ((value.to_bits() >> 16) as u16).to_le_bytes();
    let mut data = Vec::new();
    for value in [-1.0f32, -0.5, -2.0] {
        data.extend(bf16(value));
    }
    data.extend([1u8, 1, 1]);
    data.extend([1.0f32, -2.0].iter().flat_map(|value| value.to_le_bytes()));
    data.extend([0i64, 2, 3].iter().flat_map(|value| value.to_le_bytes()));
    let header = json!({
        "__metadata__": {"config": "{\"preset\": \"bnpo\"}"},
        "log_prob": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]},
        "mask": {"dtype": "BOOL", "shape": [3], "data_offsets": [6, 9]},
        "advantages": {"dtype": "F32", "shape": [2], "data_offsets": [9, 17]},
        "cu_seqlens": {"dtype": "I64", "shape": [3], "data_offsets": [17, 41]},
    })
    .to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    let input = folder.path().join("in.safetensors");
    std::fs::write(&input, &bytes).expect("a file");
    let input = input.to_str().expect("a path");
    let run = hunkwise(&["loss-check", input, "--json", "-"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let check: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    // -(1 + 1) + 2.
    close(&check["numerator"]["reference"], 0.0);
    assert_eq!(check["dtype"], json!("bf16"));
    assert_eq!(check["tokens"][2]["advantage"], json!(-2.0));
    assert_eq!(check["layout"], json!("3 tokens packed in 2 rows"));

    std::fs::write(input, &bytes[..bytes.len() - 1]).expect("a file");
    let run = hunkwise(&["loss-check", input]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("is not safetensors"), "{}", text(&run.stderr));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let folder = folder();
    let cases = [
        // Advantages in the place of the mask: verl #2506.
        (
            with(json!({"response_mask": [[-1.0, 0.5, 1.0], [0, 0, 0]]})),
            "response_mask[0][0]`: is -1;",
        ),
        // Log-probs of one token less than the mask.
        (
            with(json!({"response_mask": [[0, 1, 1, 1], [1, 0, 0, 0]]})),
            "shape [2, 4], but log_prob has shape [2, 3]",
        ),
        (with(json!({"old_log_prob": [[1.0], [1.0]]})), "`old_log_prob`: has shape [2, 1]"),
        (with(json!({"advantages": [1.0, 2.0, 3.0]})), "for each token or each row"),
        (with(json!({"log_prob": [[1.0, "x", 2.0]]})), "`log_prob[0][1]`: is \"x\""),
        (with(json!({"log_prob": [[1.0], 2.0]})), "`log_prob[1]`"),
        (with(json!({"old": [[1.0]]})), "given twice"),
        (with(json!({"olds": [[1.0]]})), "`olds`: is not known"),
        (with(json!({"offsets": [0, 6]})), "must be one packed row"),
        (
            with(
                json!({"advantages": {"episode": [1.0, 2.0], "spans": [[[0, 2, 1.0], [1, 3, 1.0]], []]}}),
            ),
            "`advantages.spans[0][1]`: is 1..3",
        ),
        (with(json!({"config": {"preset": "gpro"}})), "gpro"),
        (with(json!({"config": {"surrogate": {"hihg": 0.3}}})), "hihg"),
        (with(json!({"config": {"beta": 0.1}})), "reference"),
        (with(json!({"log_prob": null})), "`log_prob`: is missing"),
        (
            "{\"log_prob\": [NaN]}".to_string(),
            "in.json:1: expected value at line 1 column 15; for NaN write null",
        ),
        ("[1]".to_string(), "an object with `log_prob`"),
        (String::new(), "in.json"),
    ];
    for (content, message) in cases {
        let (code, _, found) = check(folder.path(), &content, &[]);
        assert_eq!(code, Some(1), "{content}: {found}");
        assert!(found.contains(message), "{content}: {found}");
    }
}

#[test]
fn the_example_is_what_its_page_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/losses/dapo.json");
    let run = hunkwise(&["loss-check", file.to_str().expect("a path")]);
    assert_eq!(run.status.code(), Some(3), "{}", text(&run.stderr));
    let out = text(&run.stdout);
    for line in include_str!("../../docs/loss-check.md").lines() {
        if line.starts_with("loss  ") || line.starts_with("trainer loss") {
            assert!(out.lines().any(|printed| printed == line), "{line}\n{out}");
        }
    }
}

#[test]
fn the_table_shows_the_loss_and_the_first_tokens() {
    let folder = folder();
    let input = write(folder.path(), "in.json", &file().to_string());
    let run = hunkwise(&["loss-check", &input, "--preset", "bnpo", "--tokens", "2"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let out = text(&run.stdout);
    assert!(out.contains("in.json: shape [2, 3], 4 tokens under the mask, f32"), "{out}");
    assert!(out.contains("    0      1   -0.90000    1.00000  -2.762927e-1"), "{out}");
    assert!(out.contains("2 more; --tokens N prints more"), "{out}");
    assert!(out.contains("fast    grad_log_prob equal"), "{out}");
    assert!(out.lines().all(|line| line.starts_with(&input) || line.len() <= 80), "{out}");
}
