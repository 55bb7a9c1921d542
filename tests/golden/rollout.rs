//! Readers of dumps, on small files written by hand, and bad input. Text and offsets are literals; what tokens spell was
//! taken from the Python package `tokenizers` 0.23.3 on the same files.

use std::path::PathBuf;

use hunkwise::Error;
use hunkwise::error::Place;
use hunkwise::rollout::{
    Batch, DumpFormat, Key, ReadOptions, Row, Sequence, Tokens, Trajectory, Turn, read_files,
    read_from,
};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", "rollout", name].iter().collect()
}

fn with_tokenizer(name: &str) -> ReadOptions {
    ReadOptions { tokenizer: Some(fixture(name)), ..ReadOptions::default() }
}

fn file(name: &str, options: &ReadOptions) -> Batch {
    read_files(&[fixture(name)], options, &mut |_| {}).unwrap()
}

fn text(lines: &str) -> Batch {
    read_from(lines.as_bytes(), "in", &ReadOptions::default()).unwrap()
}

fn error(lines: &[u8]) -> String {
    read_from(lines, "in", &ReadOptions::default()).unwrap_err().to_string()
}

/// One usable row before the given ones, so that a bad row is flagged and not the whole file refused.
fn flags(lines: &str) -> Vec<String> {
    let batch = text(&format!("{{\"task\": \"good\", \"text\": \"g\"}}\n{lines}\n"));
    assert_eq!(
        batch.tasks.iter().filter(|task| task.id == "good").count(),
        1,
        "the good row is lost"
    );
    batch.flagged.iter().map(|flagged| format!("{}: {}", flagged.place, flagged.reason)).collect()
}

fn ids(batch: &Batch) -> Vec<(&str, Vec<&str>)> {
    batch
        .tasks
        .iter()
        .map(|task| {
            (
                task.id.as_str(),
                task.trajectories.iter().map(|trajectory| trajectory.id.as_str()).collect(),
            )
        })
        .collect()
}

fn texts(trajectory: &Trajectory) -> Vec<&str> {
    trajectory
        .sequences
        .iter()
        .map(|sequence| std::str::from_utf8(&sequence.text).unwrap())
        .collect()
}

fn turn_texts(sequence: &Sequence) -> Vec<&str> {
    sequence
        .turns
        .iter()
        .map(|turn| std::str::from_utf8(&sequence.text[turn.bytes.clone()]).unwrap())
        .collect()
}

fn observations(sequence: &Sequence) -> Vec<&str> {
    sequence.turns.iter().map(|turn| turn.observation.as_deref().unwrap()).collect()
}

fn tokens(sequence: &Sequence) -> (&[u32], Vec<u8>) {
    let Tokens { byte_ends, mask } = sequence.tokens.as_ref().unwrap();
    (byte_ends, mask.iter().map(|&bit| bit.into()).collect())
}

#[test]
fn hunkwise_lines() {
    let batch = file("hunkwise.jsonl", &ReadOptions::default());
    assert_eq!(batch.flagged, []);
    assert_eq!(ids(&batch), [("2", vec!["0"]), ("fix-2", vec!["a", "b"]), ("fix-10", vec!["0"])]);
    let [a, b] = &batch.tasks[1].trajectories[..] else { panic!() };
    assert_eq!(texts(b), ["x = 1", "now x = 2"]);
    assert_eq!(b.outcome, Some(1.0));
    let rewards: Vec<_> = b.sequences.iter().map(|sequence| sequence.turns[0].reward).collect();
    assert_eq!(rewards, [Some(0.25), Some(1.0)]);
    assert_eq!(b.sequences[1].turns[0].observation.as_deref(), Some("tests fail"));
    assert_eq!((b.sequences[1].place.line, b.sequences[0].place.line), (1, 2));

    let a = &a.sequences[0];
    assert_eq!(turn_texts(a), ["say é", "done"]);
    assert_eq!(
        a.turns[1],
        Turn { bytes: 11..15, reward: Some(-1.0), observation: Some("OUT".into()) }
    );
    // No mask in the row: what shares a byte with a turn is trained, and so is the empty token at the end of one.
    assert_eq!(tokens(a), (&[3, 4, 5, 6, 11, 15, 15][..], vec![1, 1, 1, 1, 0, 1, 1]));

    let cut = &batch.tasks[2].trajectories[0].sequences[0];
    assert_eq!(cut.text, b"ab\xE2");
    assert_eq!(tokens(cut), (&[0, 1, 3][..], vec![0, 1, 1]));
    assert_eq!(batch.notes.len(), 1);
    assert!(
        batch.notes[0].ends_with("hunkwise.jsonl: the field `colour` is not known and was ignored")
    );
}

#[test]
fn verl_with_uid_has_several_rows_a_trajectory() {
    let batch = file("verl.jsonl", &ReadOptions::default());
    assert_eq!(ids(&batch), [("7/9f3c-aa", vec!["0", "1"])]);
    let [first, second] = &batch.tasks[0].trajectories[..] else { panic!() };
    assert_eq!(texts(first), ["try 1", "try 2"]);
    assert_eq!(observations(&first.sequences[1]), ["user\nfix f\nit failed"]);
    assert_eq!((first.outcome, second.outcome), (Some(1.0), Some(0.0)));
    // The two rows of the first trajectory disagree; the last turn's score holds, and this is said.
    assert_eq!(batch.flagged.len(), 1);
    assert_eq!(
        (batch.flagged[0].place.line, batch.flagged[0].place.field.as_str()),
        (1, "outcome")
    );
}

#[test]
fn verl_without_uid_groups_by_step_and_prompt() {
    let batch = file("verl_old.jsonl", &ReadOptions::default());
    let found: Vec<_> = batch
        .tasks
        .iter()
        .map(|task| task.trajectories.iter().map(texts).collect::<Vec<_>>())
        .collect();
    assert_eq!(found, [vec![vec!["a"], vec!["b"]], vec![vec!["d"]], vec![vec!["c"]]]);
    let outcomes: Vec<_> = batch
        .tasks
        .iter()
        .flat_map(|task| &task.trajectories)
        .map(|trajectory| trajectory.outcome)
        .collect();
    assert_eq!(outcomes, [Some(1.0), None, None, Some(1.0)]);
    let flagged: Vec<_> = batch
        .flagged
        .iter()
        .map(|f| (f.place.line, f.place.field.as_str(), &f.reason[..12]))
        .collect();
    assert_eq!(flagged, [(2, "score", "is NaN; a re"), (4, "score", "is a string;")]);
}

#[test]
fn nemo_rl_ids_with_prompt_tools_and_padding() {
    let batch = file("nemo_rl.jsonl", &with_tokenizer("byte_level.json"));
    assert_eq!(batch.flagged, []);
    assert_eq!(batch.tasks.len(), 1);
    let [hello, cut] = &batch.tasks[0].trajectories[..] else { panic!() };
    assert_eq!((hello.outcome, cut.outcome), (Some(1.0), Some(0.0)));
    let hello = &hello.sequences[0];
    assert_eq!(texts(&batch.tasks[0].trajectories[0]), ["hellonook"]);
    assert_eq!(turn_texts(hello), ["hello", "ok"]);
    assert_eq!(observations(hello), ["fix", "no"]);
    let ends = [0, 0, 0, 0, 2, 5, 5, 5, 6, 7, 7, 8, 9, 9, 9, 9];
    assert_eq!(tokens(hello), (&ends[..], vec![0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0]));
    // Cut inside a character, and left out of the loss: its reward still counts in the group.
    let cut = &cut.sequences[0];
    assert_eq!(cut.text, b"i \xE2\xAD");
    assert_eq!(tokens(cut), (&[0, 0, 0, 0, 1, 2, 3, 4, 4, 4][..], vec![0; 10]));
    assert_eq!(cut.turns[0].bytes, 0..4);
}

#[test]
fn nemo_rl_messages_without_ids() {
    let batch = file("nemo_rl_old.jsonl", &ReadOptions::default());
    let trajectory = &batch.tasks[0].trajectories[0];
    assert_eq!((texts(trajectory), trajectory.outcome), (vec!["hellonook"], Some(0.5)));
    assert_eq!(turn_texts(&trajectory.sequences[0]), ["hello", "ok"]);
    assert_eq!(observations(&trajectory.sequences[0]), ["fix", "no"]);
    assert_eq!(batch.notes.len(), 1);
}

#[test]
fn prime_rl_exports() {
    let batch = file("prime_rl.jsonl", &with_tokenizer("byte_level.json"));
    assert_eq!(batch.flagged, []);
    assert_eq!(batch.tasks.len(), 1);
    let [sampled, anonymous] = &batch.tasks[0].trajectories[..] else { panic!() };
    assert_eq!(
        (sampled.id.as_str(), sampled.outcome, texts(sampled)),
        ("s1", Some(1.0), vec!["hello"])
    );
    assert_eq!(tokens(&sampled.sequences[0]), (&[0, 0, 0, 0, 2, 5][..], vec![0, 0, 0, 0, 1, 1]));
    // No rewards in the second row: its advantage stands for them.
    assert_eq!((anonymous.outcome, texts(anonymous)), (Some(-0.5), vec!["ab"]));
    assert!(batch.notes[0].ends_with("has no rewards; its advantages stand for them"));
}

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

#[test]
fn areal_rows_and_segments() {
    let batch = file("areal.jsonl", &ReadOptions::default());
    assert_eq!(batch.flagged, []);
    // The same task id with another prompt is another task.
    assert_eq!(batch.tasks.len(), 2);
    let task = batch.tasks.iter().find(|task| task.trajectories.len() == 2).unwrap();
    assert!(task.id.starts_with("42/prompt-"));
    let [nine, ten] = &task.trajectories[..] else { panic!() };
    assert_eq!((nine.id.as_str(), ten.id.as_str()), ("9", "10"));
    assert_eq!((nine.outcome, ten.outcome), (Some(0.0), Some(1.0)));
    assert_eq!(texts(ten), ["done<|end|>"]);
    assert_eq!(texts(nine), ["run<|end|>outend"]);
    assert_eq!(turn_texts(&nine.sequences[0]), ["run<|end|>", "end"]);
    assert_eq!(observations(&nine.sequences[0]), ["<|user|>fix", "out"]);
}

#[test]
fn trl_columns_as_lines() {
    let batch = text(
        r#"{"step": 1, "prompt": "p", "completion": "a", "r": 1, "advantage": 9, "kind": "x"}
{"step": 1, "prompt": "p", "completion": [{"role": "assistant", "content": "b"}], "r": 0, "advantage": -9}"#,
    );
    assert_eq!(batch.tasks.len(), 1);
    let found: Vec<_> =
        batch.tasks[0].trajectories.iter().map(|t| (texts(t)[0], t.outcome)).collect();
    assert_eq!(found, [("a", Some(1.0)), ("b", Some(0.0))]);
}

#[cfg(feature = "parquet")]
#[test]
fn trl_parquet() {
    let batch = file("trl_text.parquet", &ReadOptions::default());
    assert_eq!(batch.flagged, []);
    let found: Vec<Vec<_>> = batch
        .tasks
        .iter()
        .map(|task| task.trajectories.iter().map(|t| (texts(t)[0], t.outcome)).collect())
        .collect();
    let mut found = found;
    found.sort_by_key(Vec::len);
    // A reward that does not apply is null or NaN there, and the other one counts.
    assert_eq!(
        found,
        [vec![("return 3", Some(0.25))], vec![("return 1", Some(1.5)), ("return 2", Some(0.0))]]
    );
    assert!(batch.notes[0].ends_with("the reward is their sum: `format_reward`, `tests_reward`"));

    let batch = file("trl_messages.parquet", &ReadOptions::default());
    assert_eq!((batch.flagged.len(), batch.tasks.len()), (0, 1));
    let [look, no] = &batch.tasks[0].trajectories[..] else { panic!() };
    let look = &look.sequences[0];
    let call = "Look.\n{\"name\": \"view\", \"arguments\": {\"path\": \"a.py\"}}";
    assert_eq!(turn_texts(look), [call, "Done."]);
    assert_eq!(observations(look), ["You edit.Fix f.", "x = 1"]);
    assert_eq!((texts(no), no.outcome), (vec!["No."], Some(0.0)));
    // The same from a stream.
    let stream =
        std::io::BufReader::new(std::fs::File::open(fixture("trl_messages.parquet")).unwrap());
    assert_eq!(
        read_from(stream, "in", &ReadOptions::default()).unwrap().tasks[0].trajectories.len(),
        2
    );
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
fn files_of_different_formats_make_one_batch_in_any_order() {
    let names = ["hunkwise.jsonl", "verl.jsonl", "areal.jsonl", "prime_rl.jsonl"];
    let options = with_tokenizer("byte_level.json");
    let mut paths: Vec<PathBuf> = names.iter().map(|name| fixture(name)).collect();
    let mut n_bytes = 0;
    let forward = read_files(&paths, &options, &mut |n| n_bytes = n).unwrap();
    assert_eq!(n_bytes, paths.iter().map(|path| path.metadata().unwrap().len()).sum::<u64>());
    paths.reverse();
    let backward = read_files(&paths, &options, &mut |_| {}).unwrap();
    assert_eq!(forward.tasks.len(), 7);
    assert_eq!((forward.tasks, forward.flagged), (backward.tasks, backward.flagged));
}

#[test]
fn format_is_chosen_by_name() {
    for format in DumpFormat::all() {
        assert_eq!(format.name().parse::<DumpFormat>().unwrap(), format);
    }
    assert!("verl2".parse::<DumpFormat>().unwrap_err().to_string().contains("nemo-rl"));
    let row = r#"{"task": 1, "text": "t", "input": "i", "output": "o", "score": 1}"#;
    let options = ReadOptions { format: Some(DumpFormat::Verl), ..ReadOptions::default() };
    let batch = read_from(row.as_bytes(), "in", &options).unwrap();
    assert_eq!(texts(&batch.tasks[0].trajectories[0]), ["o"]);
    assert_eq!(texts(&text(row).tasks[0].trajectories[0]), ["t"]);
}

#[test]
fn case_01_rollouts_of_one_task_are_one_group() {
    let mut lines = String::new();
    for (trajectory, reward) in [("a", 1), ("b", 0), ("c", 1), ("d", 0)] {
        lines += &format!(
            "{{\"task\": \"t\", \"trajectory\": {trajectory:?}, \"text\": \"x\", \"outcome\": {reward}}}\n"
        );
    }
    let batch = text(&lines);
    assert_eq!(ids(&batch), [("t", vec!["a", "b", "c", "d"])]);
    let outcomes: Vec<_> =
        batch.tasks[0].trajectories.iter().map(|trajectory| trajectory.outcome).collect();
    assert_eq!(outcomes, [Some(1.0), Some(0.0), Some(1.0), Some(0.0)]);
}

#[test]
fn case_11_keys_are_typed_and_never_joined() {
    let batch = text(
        r#"{"task": "a", "trajectory": "b:c", "text": "x"}
{"task": "a:b", "trajectory": "c", "text": "x"}
{"task": 1, "text": "x"}
{"task": "1", "text": "x"}
{"task": true, "text": "x"}
{"task": 1.0, "text": "x"}
{"task": "t1", "text": "x=1"}
{"task": "t2", "text": "x=1"}"#,
    );
    let names: Vec<_> = batch.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(names, ["1", "\"1\"", "a", "a:b", "t1", "t2"]);
    let flagged: Vec<_> =
        batch.flagged.iter().map(|f| (f.place.to_string(), f.reason.as_str())).collect();
    assert_eq!(
        flagged,
        [
            ("in:5, field `task`".into(), "is a boolean; an id must be a string or an integer"),
            (
                "in:6, field `task`".into(),
                "is a number with a fraction or exponent; an id must be a string or an integer"
            ),
        ]
    );
}

#[test]
fn case_14_a_row_without_trained_tokens_is_reported() {
    // Padding on the left, and a pad id that is the end-of-text id: only the mask says what the response is.
    let row = |mask: &str| {
        format!(
            "{{\"step\": 1, \"token_ids\": [263, 263, 105, 106, 263], \"loss_mask\": {mask}, \"rewards\": [9, 9, 9, 9, 1]}}"
        )
    };
    let lines = format!("{}\n{}\n", row("[0, 0, 0, 1, 1]"), row("[0, 0, 0, 0, 0]"));
    let batch = read_from(lines.as_bytes(), "in", &with_tokenizer("byte_level.json")).unwrap();
    let trajectory = &batch.tasks[0].trajectories[0];
    assert_eq!((trajectory.outcome, texts(trajectory)), (Some(1.0), vec!["j"]));
    assert_eq!(batch.tasks.iter().map(|task| task.trajectories.len()).sum::<usize>(), 1);
    assert_eq!(batch.flagged.len(), 1);
    assert_eq!(batch.flagged[0].place.to_string(), "in:2, field `loss_mask`");
    assert!(batch.flagged[0].reason.contains("no trained token"));
}

#[test]
fn case_21_masks_are_exactly_0_or_1_and_as_long_as_the_tokens() {
    let row = |mask: &str| {
        format!(
            "{{\"task\": 1, \"text\": \"abcd\", \"token_ends\": [1, 2, 3, 4], \"mask\": {mask}}}"
        )
    };
    assert_eq!(
        flags(&row("[-1.0, 0.5, 1.0, 0.0]")),
        [
            "in:2, field `mask`: has -1 at entry 0; a mask holds nothing but 0 and 1, or false and true"
        ]
    );
    assert_eq!(
        flags(&row("[0, 0, 2, 1]")),
        [
            "in:2, field `mask`: has 2 at entry 2; a mask holds nothing but 0 and 1, or false and true"
        ]
    );
    assert_eq!(
        flags(&row("[0, 1, 1]")),
        ["in:2, field `mask`: has 3 entries for 4 tokens; it must have one for each"]
    );
    assert_eq!(flags(&row("[0, 0.0, 1.0, true]")), [""; 0]);
}

#[test]
fn case_23_tokens_of_a_split_character_have_exact_bytes() {
    let options = with_tokenizer("byte_level.json");
    let row =
        "{\"task\": 1, \"text\": \"i ⭢ j\", \"token_ids\": [105, 32, 226, 173, 162, 32, 106]}";
    let batch = read_from(row.as_bytes(), "in", &options).unwrap();
    let sequence = &batch.tasks[0].trajectories[0].sequences[0];
    assert_eq!(tokens(sequence).0, [1, 2, 3, 4, 5, 6, 7]);
    // Encoded from text, where the tokenizer reports the same character offsets for both parts of `⭢`.
    let batch = read_from("{\"task\": 1, \"text\": \"i ⭢ j\"}".as_bytes(), "in", &options).unwrap();
    let sequence = &batch.tasks[0].trajectories[0].sequences[0];
    assert_eq!(tokens(sequence).0, [1, 2, 4, 5, 6, 7]);
    assert!(batch.notes[0].contains("need not be the sampled ones"));
    // A word marker that stands for nothing in the text owns no byte.
    let row = "{\"task\": 1, \"text\": \"中 w\"}";
    let batch = read_from(row.as_bytes(), "in", &with_tokenizer("byte_fallback.json")).unwrap();
    assert_eq!(tokens(&batch.tasks[0].trajectories[0].sequences[0]).0, [0, 3, 5]);
}

#[test]
fn case_25_offsets_are_bytes_and_may_stand_anywhere() {
    let row = "{\"task\": 1, \"text\": \"“ab” cd\", \"turns\": [{\"start\": 1, \"end\": 5}, {\"start\": 9, \"end\": 11}]}";
    let batch = text(row);
    let sequence = &batch.tasks[0].trajectories[0].sequences[0];
    assert_eq!(&sequence.text[sequence.turns[1].bytes.clone()], b"cd");
    assert_eq!(&sequence.text[sequence.turns[0].bytes.clone()], b"\x80\x9Cab");
    assert_eq!(
        flags("{\"task\": 1, \"text\": \"🚀x\", \"turns\": [{\"start\": 4, \"end\": 6}]}"),
        ["in:2, field `turns[0]`: ends at byte 6; the text has 5 bytes"]
    );
}

#[test]
fn case_26_sampled_ids_are_the_truth() {
    let options = with_tokenizer("byte_level.json");
    let row = |ids: &str, mask: &str| {
        format!("{{\"task\": 1, \"text\": \"hello\", \"token_ids\": {ids}, \"mask\": {mask}}}")
    };
    // `hello` is one token when encoded; the two that were sampled stay two.
    let batch = read_from(row("[256, 258]", "[1, 1]").as_bytes(), "in", &options).unwrap();
    assert_eq!(tokens(&batch.tasks[0].trajectories[0].sequences[0]), (&[2, 5][..], vec![1, 1]));
    let replaced =
        read_from(row("[259]", "[1, 1]").as_bytes(), "in", &options).unwrap_err().to_string();
    assert!(replaced.contains("has 2 entries for 1 tokens"), "{replaced}");
    let other =
        read_from(row("[256, 257]", "[1, 1]").as_bytes(), "in", &options).unwrap_err().to_string();
    assert!(
        other.contains(
            "the 2 token ids spell 4 bytes that differ from the text of 5 bytes from byte 4 on"
        ),
        "{other}"
    );
    let unknown =
        read_from(row("[256, 999]", "[1, 1]").as_bytes(), "in", &options).unwrap_err().to_string();
    assert!(unknown.contains("token id 999 at position 1"), "{unknown}");
    let negative =
        read_from(row("[256, -1]", "[1, 1]").as_bytes(), "in", &options).unwrap_err().to_string();
    assert!(negative.contains("has -1 at entry 1"), "{negative}");
}

#[test]
fn ids_and_text_are_aligned_over_special_tokens_and_cut_characters() {
    let aligned = |tokenizer: &str, text: &str, ids: &str| {
        let row = format!("{{\"task\": 1, \"text\": {text:?}, \"token_ids\": {ids}}}");
        let batch = read_from(row.as_bytes(), "in", &with_tokenizer(tokenizer)).unwrap();
        let sequence = batch.tasks[0].trajectories[0].sequences[0].clone();
        (sequence.text.clone(), tokens(&sequence).0.to_vec())
    };
    let own = |text: &[u8], ends: &[u32]| (text.to_vec(), ends.to_vec());
    // The texts are what the tokenizers package shows for these ids, without and with special tokens.
    assert_eq!(aligned("byte_level.json", "hello", "[256, 258, 263]"), own(b"hello", &[2, 5, 5]));
    assert_eq!(
        aligned("byte_level.json", "hello<|end|>", "[256, 258, 263]"),
        own(b"hello<|end|>", &[2, 5, 12])
    );
    assert_eq!(
        aligned("byte_level.json", "hello<tool>", "[259, 265]"),
        own(b"hello<tool>", &[5, 11])
    );
    let (cut, ends) =
        aligned("byte_level.json", "hello<|end|>\u{FFFD}", "[256, 258, 263, 226, 173]");
    assert_eq!((&cut[..], &ends[..]), (&b"hello<|end|>\xE2\xAD"[..], &[2, 5, 12, 13, 14][..]));
    // Byte fallback: the decoder drops one leading space, and shows U+FFFD for every byte of a run that is cut.
    assert_eq!(
        aligned("byte_fallback.json", "helhe", "[272, 262, 270]"),
        own(b"helhe", &[2, 3, 5])
    );
    assert_eq!(aligned("byte_fallback.json", " he", "[259, 272]"), own(b" he", &[0, 3]));
    assert_eq!(aligned("byte_fallback.json", " he", "[272]"), own(b" he", &[3]));
    assert_eq!(
        aligned("byte_fallback.json", "h中", "[260, 231, 187, 176]"),
        own("h中".as_bytes(), &[1, 2, 3, 4])
    );
    let (cut, ends) = aligned(
        "byte_fallback.json",
        "h\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}",
        "[260, 231, 187, 176, 229, 176]",
    );
    assert_eq!((&cut[..], &ends[..]), (&b"h\xE4\xB8\xAD\xE2\xAD"[..], &[1, 2, 3, 4, 5, 6][..]));
    assert_eq!(aligned("metaspace.json", "a ab", "[2, 2, 4]").1.len(), 3);
}

#[test]
fn turns_cannot_be_bytes_of_a_text_with_replacement_characters() {
    let row = "{\"task\": 1, \"text\": \"i \u{FFFD}\", \"token_ids\": [105, 32, 226], \"turns\": [{\"start\": 0, \"end\": 3}]}";
    let error = read_from(row.as_bytes(), "in", &with_tokenizer("byte_level.json"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("text_base64"), "{error}");
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

#[test]
fn rows_without_trajectory_keep_clear_of_named_ones() {
    let batch = text(
        "{\"task\": 1, \"text\": \"z\"}\n{\"task\": 1, \"trajectory\": 0, \"text\": \"y\"}\n{\"task\": 1, \"text\": \"a\"}",
    );
    let found: Vec<_> =
        batch.tasks[0].trajectories.iter().map(|t| (t.id.as_str(), texts(t)[0])).collect();
    assert_eq!(found, [("0", "y"), ("1", "a"), ("2", "z")]);
}
