//! Whatever the response is: no panic, byte ranges in place and in order, lines that decode to their text; and
//! notations side by side do not disturb one another.

use hunkwise::edits::{
    Change, Edit, EditConfig, EditType, FileVersions, Format, HunkLine, SourceLine, note, parse,
};
use proptest::prelude::*;

const PIECES: &[&str] = &[
    "<edit path=\"src/a.py\">",
    "</edit>",
    "<search>",
    "</search>",
    "<replace>\n",
    "</replace>",
    "<old_text>",
    "</old_text>",
    "<new_text>",
    "</new_text>",
    "<insert line=\"2\">",
    "</insert>",
    "<file path=\"b\">",
    "</file>",
    "<think>",
    "</think>\n",
    "```python\n",
    "```\n",
    "````\n",
    "~~~ a.py\n",
    "~~~\n",
    "```diff\n",
    "diff --git a/x b/x\n",
    "index 1..2 100644\n",
    "rename from x\n",
    "rename to y\n",
    "new file mode 100644\n",
    "GIT binary patch\nliteral 3\n",
    "--- a/x\n",
    "+++ b/x\n",
    "--- \"a/\\303\\257\"\n",
    "@@ -1,3 +1,4 @@ fn\n",
    "@@ -1 +0,0 @@\n",
    "@@\n",
    "@@@ -1,3 -1,3 +1,3 @@@\n",
    "- a\n",
    "+ b\n",
    "  c\n",
    "\\ No newline\n",
    "-- \n",
    "<<<<<<< SEARCH\n",
    "=======\n",
    ">>>>>>> REPLACE\n",
    "*** Begin Patch\n",
    "*** Update File: a.py\n",
    "*** Add File: n.py\n",
    "*** Delete File: o.py\n",
    "*** Move to: m.py\n",
    "*** End of File\n",
    "*** End Patch\n",
    "{\"name\": \"str_replace_editor\", \"arguments\": ",
    "{\"command\": \"create\", \"path\": \"a\", \"file_text\": \"",
    "\\n",
    "\\u00e9",
    "\\ud83d",
    "\\\"",
    "\"",
    "}",
    "]",
    "[",
    ", ",
    "\"insert_line\": 3",
    "<function=edit>",
    "<parameter=path>",
    "</parameter>",
    "</function>",
    "src/a.py\n",
    "\n",
    "\r\n",
    "x",
    " ",
    "é",
];

fn response() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        9 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Whole responses in every notation.
const WHOLE: &[&str] = &[
    "<edit path=\"a.py\">\n<search>\nx\n</search>\n<replace>\ny\n</replace>\n</edit>\n",
    "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n x\n-y\n+Y\n z\n",
    "src/a.py\n```python\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```\n",
    "*** Begin Patch\n*** Update File: a.py\n@@ f\n x\n-y\n+z\n*** End Patch\n",
    "{\"name\": \"str_replace_editor\", \"arguments\": {\"command\": \"create\", \"path\": \"a\", \"file_text\": \"x\\ny\"}}\n",
    "{\"name\": \"Edit\", \"arguments\": \"{\\\"file_path\\\": \\\"a\\\", \\\"old_string\\\": \\\"x\\\\n\\\", \\\"new_string\\\": \\\"\\\"}\"}\n",
    "```python b.py\nx\n```\n",
    "<function=str_replace_editor><parameter=command>create</parameter><parameter=path>a</parameter><parameter=file_text>\nx\n</parameter></function>\n",
];

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop::collection::vec(prop::sample::select(WHOLE), 1..4);
    let cut = prop::collection::vec(
        (any::<prop::sample::Index>(), 0usize..8, prop::collection::vec(any::<u8>(), 0..3)),
        0..4,
    );
    (whole, cut).prop_map(|(whole, cuts)| {
        let mut text = whole.concat().into_bytes();
        for (index, length, insertion) in cuts {
            let at = index.index(text.len() + 1).min(text.len());
            let end = text.len().min(at + length);
            text.splice(at..end, insertion);
        }
        text
    })
}

/// All lines of an edit in the order of its parts.
fn lines(edit: &Edit) -> Vec<Vec<SourceLine>> {
    match &edit.change {
        Change::Replace { old, new } => vec![old.clone(), new.clone()],
        Change::Insert { new, .. } | Change::Write { new } => vec![new.clone()],
        Change::Hunks(hunks) => hunks
            .iter()
            .map(|hunk| hunk.lines.iter().map(|(_, line)| line.clone()).collect())
            .collect(),
        Change::Meta(_) => vec![],
    }
}

/// Undoes one level of JSON escapes, by the book and apart from the crate's own reader.
fn json_text(spelled: &[u8]) -> Option<Vec<u8>> {
    let quoted = [b"\"", spelled, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).ok().map(String::into_bytes)
}

fn check(response: &[u8]) -> Result<(), TestCaseError> {
    let config = EditConfig::default();
    let parsed = parse(response, &config);
    let mut end = 0;
    for edit in &parsed.edits {
        prop_assert!(edit.bytes.start >= end && edit.bytes.start <= edit.bytes.end, "{:?}", edit);
        prop_assert!(edit.bytes.end <= response.len());
        end = edit.bytes.end;
        for part in lines(edit) {
            let mut before = edit.bytes.start;
            for line in part {
                prop_assert!(
                    line.bytes.start >= before && line.bytes.start < line.bytes.end,
                    "{:?}",
                    edit
                );
                prop_assert!(line.bytes.end <= edit.bytes.end, "{:?}", edit);
                before = line.bytes.end;
                prop_assert!(!line.text.contains(&b'\n'));
                let spelled = &response[line.bytes.clone()];
                let verbatim = spelled.strip_suffix(b"\n").unwrap_or(spelled);
                if edit.format != Format::ToolCall {
                    prop_assert!(verbatim.ends_with(&line.text), "{:?}", edit);
                    prop_assert!(verbatim.len() - line.text.len() <= 64);
                } else if verbatim != line.text.as_slice() {
                    let once = json_text(spelled).or_else(|| json_text(verbatim));
                    let twice = once.as_deref().and_then(json_text);
                    let same = |text: &Option<Vec<u8>>| {
                        text.as_deref().is_none_or(|text| {
                            text.strip_suffix(b"\n").unwrap_or(text).ends_with(&line.text)
                        })
                    };
                    prop_assert!(same(&once) || same(&twice), "{:?}", edit);
                }
            }
        }
    }
    for note in &parsed.notes {
        prop_assert!(note.bytes.start <= note.bytes.end && note.bytes.end <= response.len());
        prop_assert!(note::ALL.contains(&note.kind));
    }
    let mut versions = FileVersions::new();
    for _ in 0..2 {
        let roots = versions.roots(&parsed.edits, &config);
        let mut before = 0;
        for root in &roots.roots {
            let start = root.lines.first().map(|line| line.bytes.start);
            prop_assert!(start.is_some_and(|start| start >= before));
            before = start.unwrap_or(before);
        }
        for note in &roots.notes {
            prop_assert!(note::ALL.contains(&note.kind));
        }
    }
    Ok(())
}

/// Beginnings without end, repeated: read again and again they would take minutes.
#[test]
fn hostile_repetitions_take_linear_time() {
    let start = std::time::Instant::now();
    let wrapped = "```diff\n<edit path=\"a\"><old>1</old><new>2</new></edit>\n";
    let more = [
        "<",
        "{",
        "`",
        "\n",
        "{\"",
        "<file path=\"a\">",
        "<edit \"<edit '",
        "{\"name\":[{\"name\":1},",
        "```x\n````\n",
        "````x\n```\n",
        "--- a\n+++ b\n",
        "<<<<<<< SEARCH\n=======\n",
        "@@ -1 +1 @@\n-a\n+b\n",
        "<think></think>",
        wrapped,
    ];
    for piece in PIECES.iter().chain(&more) {
        let response = piece.as_bytes().repeat(500_000 / piece.len());
        let config = EditConfig::default();
        let edits = parse(&response, &config).edits;
        FileVersions::new().roots(&edits, &config);
    }
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}

/// A line that no notation could take for its own.
fn plain_line() -> impl Strategy<Value = String> {
    "[a-z ]{0,3}[a-z]"
}

fn lcs(a: &[String], b: &[String]) -> usize {
    let mut table = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..a.len() {
        for j in 0..b.len() {
            table[i + 1][j + 1] =
                if a[i] == b[j] { table[i][j] + 1 } else { table[i][j + 1].max(table[i + 1][j]) };
        }
    }
    table[a.len()][b.len()]
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn texts(lines: &[SourceLine]) -> Vec<String> {
    lines.iter().map(|line| String::from_utf8_lossy(&line.text).into_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_are_read(response in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&response)?;
    }

    #[test]
    fn pieces_of_notations_are_read(response in response()) {
        check(&response)?;
    }

    #[test]
    fn damaged_responses_are_read(response in mutated()) {
        check(&response)?;
    }

    #[test]
    fn notations_side_by_side_give_the_same_edits(order in prop::collection::vec(prop::sample::select(WHOLE), 1..6)) {
        let config = EditConfig::default();
        let between = "\nThen this.\n\n";
        let (mut response, mut expected) = (String::new(), Vec::new());
        for whole in order {
            response.push_str(between);
            for edit in parse(whole.as_bytes(), &config).edits {
                expected.push((edit.format, edit.path, edit.bytes.start + response.len(), edit.bytes.end + response.len()));
            }
            response.push_str(whole);
        }
        let parsed = parse(response.as_bytes(), &config);
        prop_assert_eq!(&parsed.notes, &[]);
        let found: Vec<_> =
            parsed.edits.into_iter().map(|edit| (edit.format, edit.path, edit.bytes.start, edit.bytes.end)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn every_notation_carries_the_same_lines(
        old in prop::collection::vec(plain_line(), 1..8),
        new in prop::collection::vec(plain_line(), 1..8),
    ) {
        let (o, n) = (joined(&old), joined(&new));
        let json = |text: &str| serde_json::to_string(text).expect("text");
        let call = format!("{{\"path\": \"f\", \"old_str\": {}, \"new_str\": {}}}", json(&o), json(&n));
        for response in [
            format!("<edit path=\"f\">\n<search>\n{o}</search>\n<replace>\n{n}</replace>\n</edit>"),
            format!("f\n<<<<<<< SEARCH\n{o}=======\n{n}>>>>>>> REPLACE\n"),
            format!("{{\"name\": \"edit\", \"input\": {call}}}"),
            format!("{{\"name\": \"edit\", \"arguments\": {}}}", json(&call)),
        ] {
            let parsed = parse(response.as_bytes(), &EditConfig::default());
            prop_assert_eq!(&parsed.notes, &[]);
            prop_assert_eq!(parsed.edits.len(), 1);
            let Change::Replace { old: found_old, new: found_new } = &parsed.edits[0].change else {
                return Err(TestCaseError::fail(response));
            };
            prop_assert_eq!(texts(found_old), old.clone());
            prop_assert_eq!(texts(found_new), new.clone());
        }
    }

    #[test]
    fn replacements_leave_out_a_longest_common_subsequence(
        old in prop::collection::vec("[abc]", 1..30),
        new in prop::collection::vec("[abc]", 1..30),
    ) {
        let response = format!("<edit path=\"f\">\n<search>\n{}</search>\n<replace>\n{}</replace>\n</edit>", joined(&old), joined(&new));
        let config = EditConfig::default();
        let edits = parse(response.as_bytes(), &config).edits;
        let roots = FileVersions::new().roots(&edits, &config);
        let count = |wanted| {
            roots.roots.iter().filter(|root| root.edit_type == wanted).map(|root| root.lines.len()).sum::<usize>()
        };
        let common = lcs(&old, &new);
        prop_assert_eq!(count(EditType::Delete), old.len() - common);
        prop_assert_eq!(count(EditType::Add), new.len() - common);
    }

    #[test]
    fn a_diff_applied_gives_the_new_text(
        mut lines in prop::collection::vec((0u8..3, plain_line()), 0..20),
        bare_context in any::<bool>(),
    ) {
        lines.push((2, "end".to_owned()));
        let (mut body, mut old, mut new) = (String::new(), Vec::new(), Vec::new());
        for (kind, line) in &lines {
            match kind {
                0 => body.push_str(&format!("-{line}\n")),
                1 => body.push_str(&format!("+{line}\n")),
                _ if bare_context => body.push('\n'),
                _ => body.push_str(&format!(" {line}\n")),
            }
            let line = if *kind == 2 && bare_context { String::new() } else { line.clone() };
            if *kind != 1 {
                old.push(line.clone());
            }
            if *kind != 0 {
                new.push(line);
            }
        }
        let response = format!("--- a/f\n+++ b/f\n@@ -1,{} +1,{} @@\n{body}", old.len(), new.len());
        let config = EditConfig::default();
        let parsed = parse(response.as_bytes(), &config);
        prop_assert_eq!(&parsed.notes, &[]);
        let Change::Hunks(hunks) = &parsed.edits[0].change else { return Err(TestCaseError::fail(response)) };
        let kinds: Vec<u8> = hunks[0]
            .lines
            .iter()
            .map(|(kind, _)| match kind {
                HunkLine::Delete => 0,
                HunkLine::Add => 1,
                HunkLine::Context => 2,
            })
            .collect();
        prop_assert_eq!(kinds, lines.iter().map(|(kind, _)| *kind).collect::<Vec<_>>());
        let mut versions = FileVersions::new();
        versions.set("f", joined(&old).as_bytes());
        let notes = versions.roots(&parsed.edits, &config).notes;
        prop_assert!(notes.iter().all(|found| found.kind != note::NOT_APPLIED));
        let expected = joined(&new);
        prop_assert_eq!(versions.get("f"), Some(expected.as_bytes()));
    }
}
