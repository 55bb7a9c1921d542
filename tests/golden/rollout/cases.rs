//! Public bug cases of ids, masks and token spans, and the alignment of ids with text.

use super::*;

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

#[cfg(feature = "tokenizers")]
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

#[cfg(feature = "tokenizers")]
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

#[cfg(feature = "tokenizers")]
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

#[cfg(feature = "tokenizers")]
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

#[cfg(feature = "tokenizers")]
#[test]
fn turns_cannot_be_bytes_of_a_text_with_replacement_characters() {
    let row = "{\"task\": 1, \"text\": \"i \u{FFFD}\", \"token_ids\": [105, 32, 226], \"turns\": [{\"start\": 0, \"end\": 3}]}";
    let error = read_from(row.as_bytes(), "in", &with_tokenizer("byte_level.json"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("text_base64"), "{error}");
}
