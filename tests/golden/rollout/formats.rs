//! Each format from a small file.

use super::*;

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
fn turns_of_a_row_that_names_none_are_the_runs_of_its_mask() {
    // Tool output "TT" between two answers, an empty trained token inside the first, padding at the end.
    let line = r#"{"task":"t","text":"aabTTccP","token_ends":[2,2,3,5,7,8],"mask":[1,1,1,0,1,0],"reward":0.5,"observation":"go"}"#;
    let batch = read_from(line.as_bytes(), "x.jsonl", &ReadOptions::default()).unwrap();
    assert_eq!(batch.flagged, []);
    let sequence = &batch.tasks[0].trajectories[0].sequences[0];
    assert_eq!(
        sequence.turns,
        [
            Turn { bytes: 0..3, reward: None, observation: Some("go".into()) },
            Turn { bytes: 5..7, reward: Some(0.5), observation: None },
        ]
    );
    // Nothing trained: the row is kept whole, for comparison.
    let line = r#"{"task":"t","text":"ab","token_ends":[1,2],"mask":[0,0],"reward":0.5}"#;
    let batch = read_from(line.as_bytes(), "x.jsonl", &ReadOptions::default()).unwrap();
    let turns = &batch.tasks[0].trajectories[0].sequences[0].turns;
    assert_eq!(turns[..], [Turn { bytes: 0..2, reward: Some(0.5), observation: None }]);
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

#[cfg(feature = "tokenizers")]
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

#[cfg(feature = "tokenizers")]
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

#[cfg(feature = "tokenizers")]
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
fn rows_without_trajectory_keep_clear_of_named_ones() {
    let batch = text(
        "{\"task\": 1, \"text\": \"z\"}\n{\"task\": 1, \"trajectory\": 0, \"text\": \"y\"}\n{\"task\": 1, \"text\": \"a\"}",
    );
    let found: Vec<_> =
        batch.tasks[0].trajectories.iter().map(|t| (t.id.as_str(), texts(t)[0])).collect();
    assert_eq!(found, [("0", "y"), ("1", "a"), ("2", "z")]);
}
