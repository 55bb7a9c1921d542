//! What cannot be used is named with its place, and nothing else is lost.

use super::*;

#[test]
fn ids_without_tokenizer_are_refused_with_the_remedy() {
    for name in ["nemo_rl.jsonl", "prime_rl.jsonl"] {
        let error = read_files(&[fixture(name)], &ReadOptions::default(), &mut |_| {})
            .unwrap_err()
            .to_string();
        assert!(error.contains("field `token_ids` needs the tokenizer"), "{error}");
        assert!(error.contains("--tokenizer tokenizer.json"), "{error}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn damaged_parquet_is_an_error() {
    let whole = std::fs::read(fixture("trl_text.parquet")).unwrap();
    for n_kept in (4..whole.len()).step_by(97) {
        let mut damaged = whole[..n_kept].to_vec();
        assert!(matches!(
            read_from(&damaged[..], "in", &ReadOptions::default()),
            Err(Error::Input { .. })
        ));
        damaged.extend(&whole[n_kept..]);
        damaged[n_kept] ^= 0x55;
        // Any result is right that is not a panic: a flip inside a value cannot be seen.
        let _ = read_from(&damaged[..], "in", &ReadOptions::default());
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_names_the_feature() {
    let error = read_files(&[fixture("trl_text.parquet")], &ReadOptions::default(), &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }));
    assert!(error.to_string().contains("--features parquet"), "{error}");
}

#[test]
fn bad_rows_are_flagged_with_line_and_field_and_nothing_else_is_lost() {
    let cases = [
        ("{not json", "in:2: is not a JSON object: column 2: key must be a string"),
        ("{\"task\": \"x\", \"te", "in:2: is not JSON: the line ends in the middle of a value"),
        (
            "[1, 2]",
            "in:2: is not a JSON object: column 0: invalid type: sequence, expected an object",
        ),
        ("{\"text\": \"x\"}", "in:2, field `task`: is missing"),
        ("{\"task\": \"x\"}", "in:2, field `text`: is missing"),
        (
            "{\"task\": \"x\", \"text\": 5}",
            "in:2, field `text`: is an integer; it must be a string",
        ),
        (
            "{\"task\": \"x\", \"text\": \"a\", \"turn\": -1}",
            "in:2, field `turn`: is -1; it must be an integer from 0",
        ),
        (
            "{\"task\": \"x\", \"text\": \"a\", \"turn\": 0.5}",
            "in:2, field `turn`: is a number with a fraction",
        ),
        (
            "{\"task\": \"x\", \"text\": \"a\", \"turns\": 3}",
            "in:2, field `turns`: is an integer; it must be a list",
        ),
        (
            "{\"task\": \"x\", \"text\": \"a\", \"turns\": [3]}",
            "in:2, field `turns[0]`: is an integer; it must be an object",
        ),
        (
            "{\"task\": \"x\", \"text\": \"a\", \"turns\": [{\"end\": 1}]}",
            "in:2, field `turns[0].start`: is missing",
        ),
        (
            "{\"task\": \"x\", \"text\": \"a\", \"turns\": [{\"start\": 1, \"end\": 0}]}",
            "in:2, field `turns[0]`: ends at byte 0",
        ),
        (
            "{\"task\": \"x\", \"text\": \"abc\", \"turns\": [{\"start\": 0, \"end\": 2}, {\"start\": 1, \"end\": 3}]}",
            "in:2, field `turns[1]`: starts at byte 1, before the end of the turn before it at byte 2",
        ),
        (
            "{\"task\": \"x\", \"text\": \"a\", \"turns\": [], \"reward\": 1}",
            "in:2, field `reward`: stands beside `turns`",
        ),
        (
            "{\"task\": \"x\", \"text\": \"ab\", \"token_ends\": [1, 3]}",
            "in:2, field `token_ends`: ends at byte 3; the text has 2",
        ),
        (
            "{\"task\": \"x\", \"text\": \"ab\", \"token_ends\": [1]}",
            "in:2, field `token_ends`: ends at byte 1; the text has 2",
        ),
        (
            "{\"task\": \"x\", \"text\": \"ab\", \"token_ends\": []}",
            "in:2, field `token_ends`: ends at byte 0; the text has 2",
        ),
        (
            "{\"task\": \"x\", \"text\": \"ab\", \"token_ends\": [2, 1]}",
            "in:2, field `token_ends`: decreases from 2 to 1 at entry 1",
        ),
        (
            "{\"task\": \"x\", \"text\": \"ab\", \"token_ends\": [-1]}",
            "in:2, field `token_ends`: has -1 at entry 0",
        ),
        (
            "{\"task\": \"x\", \"text\": \"ab\", \"token_ends\": [1, \"2\"]}",
            "in:2, field `token_ends`: has a string at entry 1",
        ),
        (
            "{\"task\": \"x\", \"text\": \"ab\", \"token_ends\": [1, 2], \"token_ids\": [5]}",
            "in:2, field `token_ends`: has 2 entries for 1 of `token_ids`",
        ),
        (
            "{\"task\": \"x\", \"text\": \"ab\", \"mask\": [1]}",
            "in:2, field `mask`: needs `token_ends` or `token_ids`",
        ),
        (
            "{\"task\": \"x\", \"text_base64\": \"a*\"}",
            "in:2, field `text_base64`: has no base64 digit at byte 1",
        ),
        ("{\"task\": \"x\", \"token_ids\": [5]}", "in:2, field `token_ids`: needs the tokenizer"),
    ];
    for (line, expected) in cases {
        let found = flags(line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with(expected), "{line}\n got: {}\nwant: {expected}", found[0]);
    }
}

#[test]
fn rewards_that_are_no_numbers_leave_the_row_and_unscore_the_trajectory() {
    for (value, what) in [
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("\"1\"", "a string"),
        ("[1]", "a list"),
    ] {
        let batch = text(&format!(
            "{{\"task\": 1, \"trajectory\": 1, \"turn\": 0, \"text\": \"NaN\", \"reward\": {value}}}\n\
             {{\"task\": 1, \"trajectory\": 1, \"turn\": 1, \"text\": \"b\", \"reward\": 1, \"outcome\": 1}}"
        ));
        let trajectory = &batch.tasks[0].trajectories[0];
        assert_eq!(texts(trajectory), ["NaN", "b"]);
        assert_eq!(trajectory.outcome, None);
        assert!(trajectory.sequences.iter().all(|sequence| sequence.turns[0].reward.is_none()));
        assert_eq!(batch.flagged.len(), 1);
        assert_eq!(batch.flagged[0].place.to_string(), "in:1, field `reward`");
        assert!(
            batch.flagged[0].reason.starts_with(&format!("is {what}; ")),
            "{}",
            batch.flagged[0].reason
        );
    }
}

#[test]
fn files_without_a_usable_row_are_errors() {
    assert!(error(b"").contains("in: is empty"));
    assert!(error(b"\n\r\n  \n").contains("in: is empty"));
    let found = error(b"{\"task\": 1, \"txt\": \"a\"}\n");
    assert!(found.contains("the fields `task`, `txt`"), "{found}");
    assert!(found.contains("(hunkwise, verl, nemo-rl, prime-rl, areal, trl)"), "{found}");
    assert!(
        found.contains(
            "nearest is hunkwise, which also needs `text` or `text_base64` or `token_ids`"
        ),
        "{found}"
    );
    let found = error(b"hello\nworld\n");
    assert!(
        found.contains("none of its 2 rows can be used: row 1 is not a JSON object"),
        "{found}"
    );
    let missing =
        read_files(&[fixture("missing.jsonl")], &ReadOptions::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(missing, Error::Io { .. }));
    assert!(missing.to_string().contains("missing.jsonl"));
    let twice = read_files(
        &[fixture("verl.jsonl"), fixture("./verl.jsonl")],
        &ReadOptions::default(),
        &mut |_| {},
    );
    assert!(twice.unwrap_err().to_string().contains("is given twice"));
    let folder = read_files(&[fixture("")], &ReadOptions::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(folder, Error::Io { .. }));
}

#[test]
fn invalid_utf8_is_flagged_with_its_byte() {
    let batch = read_from(
        &b"{\"task\": 1, \"text\": \"\xFF\"}\n{\"task\": 1, \"text\": \"a\"}"[..],
        "in",
        &ReadOptions::default(),
    );
    let batch = batch.unwrap();
    assert_eq!(batch.flagged.len(), 1);
    assert_eq!(batch.flagged[0].place.to_string(), "in:1");
    assert_eq!(batch.flagged[0].reason, "is not UTF-8 at byte 21 of the line");
    assert_eq!(batch.tasks[0].trajectories.len(), 1);
}

#[test]
fn long_lines_are_passed_over_without_being_held() {
    // A line of 300 MiB from a reader that has no such memory.
    use std::io::Read;
    let start = &b"{\"task\": 1, \"text\": \"a\"}\n{\"task\": 2, \"text\": \""[..];
    let end = &b"\"}\n{\"task\": 3, \"text\": \"c\"}\n"[..];
    let stream =
        std::io::BufReader::new(start.chain(std::io::repeat(b'x').take(300 << 20)).chain(end));
    let batch = read_from(stream, "in", &ReadOptions::default()).unwrap();
    assert_eq!(ids(&batch), [("1", vec!["0"]), ("3", vec!["0"])]);
    assert_eq!(batch.flagged.len(), 1);
    assert_eq!(batch.flagged[0].place.to_string(), "in:2");
    assert!(
        batch.flagged[0]
            .reason
            .starts_with("is a line of 314572824 bytes; at most 268435456 are read")
    );
}

#[test]
fn lines_may_end_as_they_like() {
    let batch =
        text("\u{FEFF}{\"task\": 1, \"text\": \"a\"}\r\n\r\n{\"task\": 1, \"text\": \"b\"}");
    assert_eq!(ids(&batch), [("1", vec!["0", "1"])]);
    assert_eq!(batch.flagged, []);
}

#[test]
fn strict_reading_stops_at_the_first_flag() {
    let strict = |lines: &str| {
        let options = ReadOptions { strict: true, ..ReadOptions::default() };
        read_from(lines.as_bytes(), "in", &options)
            .map(|batch| batch.tasks.len())
            .map_err(|error| error.to_string())
    };
    let good = "{\"task\": 1, \"trajectory\": 1, \"turn\": 0, \"text\": \"a\"}\n";
    assert_eq!(strict(good), Ok(1));
    assert!(
        strict(&format!("{good}{{\"task\": 2}}\n"))
            .unwrap_err()
            .starts_with("in:2, field `text`: is missing")
    );
    let reward =
        strict(&format!("{good}{{\"task\": 2, \"text\": \"a\", \"reward\": NaN}}\n")).unwrap_err();
    assert!(reward.starts_with("in:2, field `reward`: is NaN"), "{reward}");
    let repeated = strict(&format!("{good}{good}")).unwrap_err();
    assert!(
        repeated
            .starts_with("in:2, field `turn`: repeats turn 0 of trajectory `1`, which in:1 holds"),
        "{repeated}"
    );
}

#[test]
fn rows_that_claim_one_place_are_flagged_by_content() {
    let lines = [
        "{\"task\": 1, \"trajectory\": 1, \"turn\": 0, \"text\": \"b\"}",
        "{\"task\": 1, \"trajectory\": 1, \"turn\": 0, \"text\": \"a\"}",
        "{\"task\": 1, \"trajectory\": 1, \"text\": \"c\"}",
    ];
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let batch = text(&order.map(|i| lines[i]).join("\n"));
        assert_eq!(texts(&batch.tasks[0].trajectories[0]), ["a"]);
        let line_of = |i: usize| order.iter().position(|&j| j == i).unwrap() as u64 + 1;
        let mut expected = [
            (line_of(0), format!("repeats turn 0 of trajectory `1`, which in:{} holds; this row is left out", line_of(1))),
            (
                line_of(2),
                "is missing; trajectory `1` has 3 rows, and each must give the index of its first turn".to_owned(),
            ),
        ];
        expected.sort();
        let found: Vec<_> =
            batch.flagged.into_iter().map(|flagged| (flagged.place.line, flagged.reason)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn rows_through_the_api_are_checked_too() {
    let sequence = |text: &str, reward: Option<f64>| Sequence {
        text: text.into(),
        tokens: None,
        turns: vec![Turn { bytes: 0..2, reward, observation: None }],
        first_turn: 0,
        place: Place::default(),
    };
    let rows = vec![
        Row::new("t", sequence("ab", Some(f64::NAN))),
        Row::new("t", sequence("a", None)),
        Row { outcome: Some(f64::INFINITY), ..Row::new(Key::from("t"), sequence("cd", None)) },
        Row { outcome: Some(2.0), ..Row::new("t", sequence("ef", Some(1.0))) },
    ];
    let batch = Batch::new(rows);
    let found: Vec<_> = batch.tasks[0]
        .trajectories
        .iter()
        .map(|t| (t.id.as_str(), texts(t)[0], t.outcome))
        .collect();
    assert_eq!(found, [("0", "ab", None), ("1", "cd", None), ("2", "ef", Some(2.0))]);
    let fields: Vec<_> = batch.flagged.iter().map(|flagged| flagged.place.field.as_str()).collect();
    assert_eq!(fields, ["outcome", "turns[0]", "turns[0].reward"]);
}
