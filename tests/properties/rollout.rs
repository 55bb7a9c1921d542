//! Readers never panic, lose no row in silence, and give the same batch for rows in any order; token bytes are exact.

use std::path::PathBuf;

use hunkwise::rollout::{Batch, ReadOptions, read_from};
use proptest::prelude::*;

fn read(lines: &[u8], options: &ReadOptions) -> hunkwise::Result<Batch> {
    read_from(lines, "in", options)
}

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", "rollout", name].iter().collect()
}

/// A JSON string, written without help from the code under test.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            char if (char as u32) < 0x20 => quoted += &format!("\\u{:04x}", char as u32),
            char => quoted.push(char),
        }
    }
    quoted + "\""
}

/// Pieces of which broken JSON lines of every format are made.
fn soup() -> impl Strategy<Value = String> {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\"",
        "\\",
        " ",
        "\r\n",
        "NaN",
        "-Infinity",
        "null",
        "true",
        "1",
        "-1",
        "1e999",
        "0.5",
        "\"task\"",
        "\"text\"",
        "\"turns\"",
        "\"mask\"",
        "\"token_ids\"",
        "\"token_ends\"",
        "\"loss_mask\"",
        "\"a\"",
        "\"score\"",
        "\"input\"",
        "\"output\"",
        "\"prompt\"",
        "\"completion\"",
        "\"step\"",
        "\"rewards\"",
        "\"content\"",
        "\"input_lengths\"",
        "\"\\ud800\"",
        "é",
        "\u{FEFF}",
        "{\"task\": 1, \"text\": \"x\"",
        "{\"task\": 1, \"text\": \"x\"}\n",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..60)
        .prop_map(|pieces| pieces.concat())
}

/// A JSON value of any kind.
fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("NaN".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        (0..6i64).prop_map(|value| value.to_string()),
        Just("18446744073709551615".to_owned()),
        (-2.0..2.0f64).prop_map(|value| format!("{value:?}")),
        ".{0,6}".prop_map(|text| quoted(&text)),
        Just("\"assistant\"".to_owned()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let names = prop::sample::select(vec![
            "start",
            "end",
            "role",
            "content",
            "text",
            "function",
            "arguments",
            "len",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((names, inner), 0..4).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// Rows that have the right field names of one format and any values.
fn any_row() -> impl Strategy<Value = String> {
    let formats: Vec<&[&str]> = vec![
        &[
            "task",
            "trajectory",
            "turn",
            "text",
            "token_ends",
            "token_ids",
            "mask",
            "turns",
            "reward",
            "outcome",
        ],
        &["input", "output", "score", "step", "uid"],
        &[
            "content",
            "rewards",
            "input_lengths",
            "token_ids",
            "token_loss_mask",
            "sample_loss_mask",
        ],
        &[
            "token_ids",
            "loss_mask",
            "rewards",
            "advantages",
            "step",
            "sample_id",
            "export_sequence_idx",
        ],
        &["prompt", "completion", "reward", "task_id", "sample_idx", "segments"],
        &["prompt", "completion", "step", "r1", "r2"],
    ];
    prop::sample::select(formats).prop_flat_map(|names| {
        prop::collection::vec(any_value(), names.len()).prop_map(move |values| {
            let fields: Vec<String> = names
                .iter()
                .zip(values)
                .map(|(name, value)| format!("\"{name}\": {value}"))
                .collect();
            format!("{{{}}}", fields.join(", "))
        })
    })
}

/// A row that is right, as a line and its text.
fn good_row() -> impl Strategy<Value = (String, String)> {
    let text = prop_oneof![".{0,12}", "[ab]{0,2}"];
    (0..3u8, prop::option::of(0..3u8), text, prop::option::of(0..3i8), any::<bool>()).prop_map(
        |(task, trajectory, text, outcome, task_is_text)| {
            let task = if task_is_text { format!("\"{task}\"") } else { task.to_string() };
            let mut line = format!("{{\"task\": {task}, \"text\": {}", quoted(&text));
            if let Some(trajectory) = trajectory {
                line += &format!(", \"trajectory\": {trajectory}");
            }
            if let Some(outcome) = outcome {
                line += &format!(", \"outcome\": {outcome}");
            }
            (line, text)
        },
    )
}

fn all_texts(batch: &Batch) -> Vec<Vec<u8>> {
    let trajectories = batch.tasks.iter().flat_map(|task| &task.trajectories);
    trajectories
        .flat_map(|trajectory| &trajectory.sequences)
        .map(|sequence| sequence.text.clone())
        .collect()
}

/// The batch without the lines at which its rows stood.
fn without_places(mut batch: Batch) -> Batch {
    for task in &mut batch.tasks {
        for sequence in
            task.trajectories.iter_mut().flat_map(|trajectory| &mut trajectory.sequences)
        {
            sequence.place.line = 0;
        }
    }
    batch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_batch_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes, &ReadOptions::default());
        let mut after_a_row = b"{\"task\": 1, \"text\": \"x\"}\n".to_vec();
        after_a_row.extend(&bytes);
        let batch = read(&after_a_row, &ReadOptions::default()).unwrap();
        prop_assert_eq!(&all_texts(&batch)[0], b"x");
    }

    #[test]
    fn broken_lines_give_a_batch_or_an_error(lines in soup(), max_line_bytes in 0..80usize) {
        let _ = read(lines.as_bytes(), &ReadOptions::default());
        let _ = read(lines.as_bytes(), &ReadOptions { max_line_bytes, ..ReadOptions::default() });
    }

    #[test]
    fn every_row_is_taken_or_flagged(rows in prop::collection::vec(any_row(), 1..5), with_tokenizer in any::<bool>()) {
        let tokenizer = (with_tokenizer && cfg!(feature = "tokenizers")).then(|| fixture("byte_fallback.json"));
        let options = ReadOptions { tokenizer, ..ReadOptions::default() };
        for row in &rows {
            let format_of_row = read(row.as_bytes(), &options);
            if let Ok(batch) = format_of_row {
                prop_assert_eq!(all_texts(&batch).len(), 1);
                for task in &batch.tasks {
                    for sequence in task.trajectories.iter().flat_map(|trajectory| &trajectory.sequences) {
                        prop_assert!(sequence.validate().is_ok());
                    }
                }
            }
        }
        if let Ok(batch) = read(rows.join("\n").as_bytes(), &options) {
            let n_lines_flagged = batch.flagged.iter().map(|f| f.place.line).collect::<std::collections::BTreeSet<_>>().len();
            prop_assert!(all_texts(&batch).len() + n_lines_flagged >= rows.len());
        }
    }

    #[test]
    fn good_rows_survive_in_any_order(
        rows in prop::collection::vec(good_row(), 1..12),
        shuffle in any::<prop::sample::Index>(),
    ) {
        // Each row gets a turn of its own, so that none repeats another.
        let lines: Vec<String> =
            rows.iter().enumerate().map(|(i, (line, _))| format!("{line}, \"turn\": {i}}}")).collect();
        let batch = read(lines.join("\n").as_bytes(), &ReadOptions::default()).unwrap();
        let mut found = all_texts(&batch);
        found.sort();
        let mut expected: Vec<Vec<u8>> = rows.iter().map(|(_, text)| text.clone().into_bytes()).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
        prop_assert!(batch.flagged.iter().all(|flagged| flagged.place.field == "outcome"));

        let mut shuffled = lines.clone();
        shuffled.rotate_left(shuffle.index(lines.len()));
        let half = shuffled.len() / 2;
        shuffled[half..].reverse();
        let other = read(shuffled.join("\r\n").as_bytes(), &ReadOptions::default()).unwrap();
        prop_assert_eq!(without_places(batch).tasks, without_places(other).tasks);
    }

    #[test]
    fn ids_are_unique(rows in prop::collection::vec(good_row(), 1..12)) {
        let lines: Vec<String> = rows.iter().enumerate().map(|(i, (line, _))| format!("{line}, \"turn\": {i}}}")).collect();
        let batch = read(lines.join("\n").as_bytes(), &ReadOptions::default()).unwrap();
        let tasks: std::collections::BTreeSet<&str> = batch.tasks.iter().map(|task| task.id.as_str()).collect();
        prop_assert_eq!(tasks.len(), batch.tasks.len());
        for task in &batch.tasks {
            let ids: std::collections::BTreeSet<&str> = task.trajectories.iter().map(|t| t.id.as_str()).collect();
            prop_assert_eq!(ids.len(), task.trajectories.len());
        }
    }
}

#[cfg(feature = "tokenizers")]
mod tokens {
    use hunkwise::rollout::TokenBytes;
    use hunkwise::rollout::token_bytes::{Specials, Start};
    use proptest::prelude::*;

    use super::fixture;

    /// Number of ids of each fixture.
    const VOCABULARIES: [(&str, u32); 3] =
        [("byte_level.json", 266), ("byte_fallback.json", 274), ("metaspace.json", 6)];

    fn ids() -> impl Strategy<Value = (&'static str, Vec<u32>)> {
        prop::sample::select(VOCABULARIES.to_vec()).prop_flat_map(|(name, n_ids)| {
            prop::collection::vec(0..n_ids, 0..24).prop_map(move |ids| (name, ids))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn byte_ends_cut_the_text_into_the_bytes_of_the_tokens((name, ids) in ids()) {
            let tokenizer = TokenBytes::from_file(&fixture(name)).unwrap();
            let (text, byte_ends) = tokenizer.decode(&ids, Specials::Shown, Start::Continuation).unwrap();
            prop_assert_eq!(byte_ends.len(), ids.len());
            let mut start = 0;
            for (&id, &end) in ids.iter().zip(&byte_ends) {
                prop_assert_eq!(&text[start..end as usize], tokenizer.bytes_of(id).unwrap());
                start = end as usize;
            }
            prop_assert_eq!(start, text.len());
        }

        /// What the `tokenizers` crate decodes, with its replacement characters, is found again in the exact bytes.
        #[test]
        fn ids_align_with_what_the_peer_decodes((name, ids) in ids(), hide_specials in any::<bool>()) {
            let tokenizer = TokenBytes::from_file(&fixture(name)).unwrap();
            let peer = tokenizers::Tokenizer::from_file(fixture(name)).unwrap();
            let shown = peer.decode(&ids, hide_specials).unwrap();
            let (bytes, byte_ends) = tokenizer.align(&ids, shown.as_bytes()).unwrap();
            prop_assert_eq!(byte_ends.len(), ids.len());
            prop_assert_eq!(byte_ends.last().map_or(0, |&end| end as usize), bytes.len());
            if !shown.contains('\u{FFFD}') {
                prop_assert_eq!(&bytes[..], shown.as_bytes());
            }
            prop_assert!(byte_ends.windows(2).all(|pair| pair[0] <= pair[1]));
        }

        #[test]
        fn encoded_text_is_covered_by_its_tokens(name in prop::sample::select(VOCABULARIES.to_vec()), text in "[ahelo中é▁ \n⭢w]{0,16}") {
            let (name, _) = name;
            let tokenizer = TokenBytes::from_file(&fixture(name)).unwrap();
            let mut peer = tokenizers::Tokenizer::from_file(fixture(name)).unwrap();
            peer.with_truncation(None).unwrap();
            let encoding = peer.encode(text.as_str(), false).unwrap();
            match tokenizer.encode(text.as_bytes()) {
                Ok(byte_ends) => {
                    prop_assert_eq!(byte_ends.len(), encoding.get_ids().len());
                    prop_assert_eq!(byte_ends.last().map_or(0, |&end| end as usize), text.len());
                    prop_assert!(byte_ends.windows(2).all(|pair| pair[0] <= pair[1]));
                    if name == "byte_level.json" {
                        // A byte-level token has as many bytes as its spelling has characters.
                        let lengths: Vec<u32> = encoding.get_tokens().iter().map(|token| token.chars().count() as u32).collect();
                        let found: Vec<u32> = byte_ends.iter().scan(0, |last, &end| Some(end - std::mem::replace(last, end))).collect();
                        prop_assert_eq!(found, lengths);
                    }
                }
                Err(_) => prop_assert!(encoding.get_ids().is_empty() && !text.is_empty()),
            }
        }

        #[test]
        fn unknown_ids_are_errors(id in 274..u32::MAX) {
            let tokenizer = TokenBytes::from_file(&fixture("byte_fallback.json")).unwrap();
            prop_assert!(tokenizer.bytes_of(id).is_err());
            let error = tokenizer.decode(&[5, id], Specials::Shown, Start::OfText).unwrap_err().to_string();
            prop_assert!(error.contains(&format!("token id {id} at position 1")), "{}", error);
        }
    }
}
