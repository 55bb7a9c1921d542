//! Edits in every notation, read from literal responses; and the root diffs they make.

use hunkwise::edits::{
    Change, Edit, EditConfig, EditType, Fences, FileVersions, Format, HunkLine, Parsed, Roots,
    SourceLine, note, parse,
};

fn read(response: &str) -> Parsed {
    parse(response.as_bytes(), &EditConfig::default())
}

/// The only edit of a response that gives no note.
fn only(response: &str) -> Edit {
    let mut parsed = read(response);
    assert_eq!(parsed.notes, []);
    assert_eq!(parsed.edits.len(), 1, "{:?}", parsed.edits);
    parsed.edits.remove(0)
}

fn texts(lines: &[SourceLine]) -> Vec<String> {
    lines.iter().map(|line| String::from_utf8(line.text.clone()).expect("UTF-8")).collect()
}

/// How the response spells each line.
fn spelled<'a>(response: &'a str, lines: &[SourceLine]) -> Vec<&'a str> {
    lines.iter().map(|line| &response[line.bytes.clone()]).collect()
}

fn kinds(parsed: &Parsed) -> Vec<&'static str> {
    parsed.notes.iter().map(|note| note.kind).collect()
}

fn replace(edit: &Edit) -> (Vec<String>, Vec<String>) {
    match &edit.change {
        Change::Replace { old, new } => (texts(old), texts(new)),
        other => panic!("no replacement: {other:?}"),
    }
}

fn write(edit: &Edit) -> Vec<String> {
    match &edit.change {
        Change::Write { new } => texts(new),
        other => panic!("no write: {other:?}"),
    }
}

/// The lines of each hunk with a sign before them.
fn hunks(edit: &Edit) -> Vec<Vec<String>> {
    let Change::Hunks(hunks) = &edit.change else { panic!("no hunks: {:?}", edit.change) };
    let sign = |kind| match kind {
        HunkLine::Context => ' ',
        HunkLine::Add => '+',
        HunkLine::Delete => '-',
    };
    let line = |(kind, line): &(HunkLine, SourceLine)| {
        format!("{}{}", sign(*kind), String::from_utf8(line.text.clone()).expect("UTF-8"))
    };
    hunks.iter().map(|hunk| hunk.lines.iter().map(line).collect()).collect()
}

fn roots_of(responses: &[&str]) -> Vec<Roots> {
    let config = EditConfig::default();
    let mut versions = FileVersions::new();
    responses
        .iter()
        .map(|response| versions.roots(&parse(response.as_bytes(), &config).edits, &config))
        .collect()
}

fn summary(roots: &Roots) -> Vec<(String, EditType, Vec<String>)> {
    roots.roots.iter().map(|root| (root.path.clone(), root.edit_type, texts(&root.lines))).collect()
}

// Public bug cases.

#[test]
fn case_25_offsets_are_bytes() {
    let response = "\u{201c}ab\u{201d} \u{1F680}\n<edit path=\"a\"><search>cd</search><replace>\u{1F680}x</replace></edit>";
    let edit = only(response);
    let Change::Replace { old, new } = &edit.change else { panic!("{edit:?}") };
    assert_eq!(old[0].bytes, 37..39);
    assert_eq!(new[0].bytes, 57..62);
    assert_eq!(&response.as_bytes()[old[0].bytes.clone()], b"cd");
    assert_eq!(edit.bytes, 14..79);
}

#[test]
fn case_29_an_omitted_count_is_one() {
    let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n@@ -0,0 +1 @@\n+c\n@@ -10,2 +12 @@ fn x()\n d\n-e\n";
    let edit = only(patch);
    assert_eq!(hunks(&edit), [vec!["-a", "+b"], vec!["+c"], vec![" d", "-e"]]);
    let Change::Hunks(hunks) = &edit.change else { panic!("{edit:?}") };
    let ranges: Vec<_> = hunks
        .iter()
        .map(|hunk| hunk.range.expect("numbers"))
        .map(|range| (range.old_start, range.old_count, range.new_start, range.new_count))
        .collect();
    assert_eq!(ranges, [(1, 1, 1, 1), (0, 0, 1, 1), (10, 2, 12, 1)]);
    let sections: Vec<&[u8]> = hunks.iter().map(|hunk| hunk.section.as_slice()).collect();
    assert_eq!(sections, [b"".as_slice(), b"", b"fn x()"]);
}

#[test]
fn case_30_a_bare_blank_line_is_context_while_lines_are_due() {
    let parsed = read(
        "--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n x\n\n-y\n+Y\n z\n\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-1\n+2\n",
    );
    assert_eq!(parsed.notes, []);
    let paths: Vec<&str> = parsed.edits.iter().map(|edit| edit.path.as_str()).collect();
    assert_eq!(paths, ["f", "g"]);
    assert_eq!(hunks(&parsed.edits[0]), [[" x", " ", "-y", "+Y", " z"]]);
    assert_eq!(hunks(&parsed.edits[1]), [["-1", "+2"]]);
}

#[test]
fn case_31_a_backslash_line_marks_the_line_before() {
    let patch = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n k\n-a\n\\ Pas de fin de ligne à la fin du fichier\n+a\n";
    let edit = only(patch);
    assert_eq!(hunks(&edit), [[" k", "-a", "+a"]]);
    let Change::Hunks(hunks) = &edit.change else { panic!("{edit:?}") };
    assert!(hunks[0].old_ends_bare);
    assert!(!hunks[0].new_ends_bare);
    let mut versions = FileVersions::new();
    versions.set("f", b"k\na");
    let roots = versions.roots(&[edit], &EditConfig::default());
    assert_eq!(roots.notes, []);
    assert_eq!(versions.get("f"), Some(b"k\na\n".as_slice()));
}

#[test]
fn case_32_lines_end_at_line_feeds_only() {
    let edit =
        only("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n p\u{c}q\n-r\u{2028}s\n+r\u{2028}S\n t\rU\n");
    assert_eq!(hunks(&edit), [[" p\u{c}q", "-r\u{2028}s", "+r\u{2028}S", " t\rU"]]);
    let edit = only("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n");
    assert_eq!(hunks(&edit), [[" a\r", "-b\r", "+B\r"]]);
}

#[test]
fn case_33_quoted_paths_are_bytes_first() {
    let path = |header: &str| only(&format!("{header}@@ -1 +1 @@\n-a\n+b\n")).path;
    assert_eq!(path("--- \"a/na\\303\\257ve.txt\"\n+++ \"b/na\\303\\257ve.txt\"\n"), "naïve.txt");
    assert_eq!(path("--- \"a/中\\\".txt\"\n+++ \"b/中\\\".txt\"\n"), "中\".txt");
    let edit =
        only("diff --git a/plain.txt \"b/na\\303\\257ve.txt\"\nold mode 100644\nnew mode 100755\n");
    assert_eq!((edit.path.as_str(), edit.old_path.as_deref()), ("naïve.txt", Some("plain.txt")));
    // Not UTF-8: git's form is kept.
    assert_eq!(path("--- \"a/x\\377\"\n+++ \"b/x\\377\"\n"), "\"x\\377\"");
}

#[test]
fn case_34_names_with_blanks_and_time_stamps() {
    let hunk = "@@ -1 +1 @@\n-a\n+b\n";
    let edit = only(&format!("--- a/x b/y.txt\t\n+++ b/x b/y.txt\t\n{hunk}"));
    assert_eq!((edit.path.as_str(), edit.old_path), ("x b/y.txt", None));
    let edit = only("diff --git a/x b/y.txt b/x b/y.txt\nold mode 100644\nnew mode 100755\n");
    assert_eq!((edit.path.as_str(), edit.old_path), ("x b/y.txt", None));
    assert_eq!(edit.change, Change::Meta("mode"));
    let stamp = "\t2024-01-02 03:04:05.000000000 +0000";
    let edit = only(&format!("--- a/f.c{stamp}\n+++ b/f.c{stamp}\n{hunk}"));
    assert_eq!(edit.path, "f.c");
}

#[test]
fn case_35_entries_without_hunks_are_kept() {
    let parsed = read(concat!(
        "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n",
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n",
        "diff --git a/l.png b/l.png\nindex 1111111..2222222 100644\nBinary files a/l.png and b/l.png differ\n",
    ));
    assert_eq!(parsed.notes, []);
    let entries: Vec<_> = parsed
        .edits
        .iter()
        .map(|edit| (&edit.change, edit.path.as_str(), edit.old_path.as_deref()))
        .collect();
    assert_eq!(
        entries,
        [
            (&Change::Meta("rename"), "new.py", Some("old.py")),
            (&Change::Meta("mode"), "run.sh", None),
            (&Change::Meta("binary"), "l.png", None),
        ]
    );
}

#[test]
fn case_36_combined_diffs_have_a_column_for_each_parent() {
    let parsed = read(concat!(
        "diff --cc f.txt\nindex 1111111,2222222..3333333\n--- a/f.txt\n+++ b/f.txt\n",
        "@@@ -1,3 -1,3 +1,3 @@@\n  a\n- Y\n -X\n++Z\n  c\n",
    ));
    assert_eq!(kinds(&parsed), [note::COMBINED_DIFF]);
    assert_eq!(parsed.edits[0].path, "f.txt");
    assert_eq!(hunks(&parsed.edits[0]), [[" a", "-Y", "-X", "+Z", " c"]]);
}

#[test]
fn case_37_short_hunks_are_kept_and_flagged() {
    let parsed = read("--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n-a\n+b\n+c\n");
    assert_eq!(kinds(&parsed), [note::SHORT_HUNK]);
    assert_eq!(parsed.notes[0].what, "hunk 1 declares 3/4, has 1/2");
    assert!(!parsed.notes[0].skipped);
    assert_eq!(hunks(&parsed.edits[0]), [["-a", "+b", "+c"]]);
}

#[test]
fn case_38_fences_close_on_a_fence_at_least_as_long() {
    let reply = "````markdown\n# T\n```py\nx\n```\nend\n````\n";
    let edit = only(reply);
    assert_eq!(edit.bytes, 0..reply.len());
    assert_eq!(write(&edit), ["# T", "```py", "x", "```", "end"]);
}

#[test]
fn case_40_separators_are_whole_lines_and_never_guessed() {
    let edit = only(concat!(
        "<<<<<<< SEARCH\ndef a():\n    pass\n# =========\ndef b():\n=======\n",
        "def a():\n    return 1\n# =========\ndef b():\n>>>>>>> REPLACE\n",
    ));
    let (old, new) = replace(&edit);
    assert_eq!(old, ["def a():", "    pass", "# =========", "def b():"]);
    assert_eq!(new, ["def a():", "    return 1", "# =========", "def b():"]);
    let parsed = read(
        "<<<<<<< SEARCH\nSummary\n=======\nold\n=======\nSummary\n=======\nnew\n>>>>>>> REPLACE\n",
    );
    assert_eq!(kinds(&parsed), [note::AMBIGUOUS_SEPARATOR]);
    assert_eq!(parsed.notes[0].what, "3 lines could separate search and replacement");
    assert!(parsed.notes[0].skipped && parsed.edits.is_empty());
}

#[test]
fn case_41_a_missing_end_tag_swallows_nothing() {
    let parsed = read(concat!(
        "<edit path=\"a\"><search>1</search><replace>2\n",
        "<edit path=\"b\"><search>3</search><replace>4</replace></edit>",
    ));
    assert_eq!(kinds(&parsed), [note::UNCLOSED]);
    assert_eq!(parsed.notes[0].bytes, parsed.edits[0].bytes);
    assert_eq!(parsed.edits[0].path, "a");
    assert_eq!(replace(&parsed.edits[0]), (vec!["1".into()], vec!["2".into()]));
    assert_eq!(parsed.edits[1].path, "b");
    assert_eq!(replace(&parsed.edits[1]), (vec!["3".into()], vec!["4".into()]));
    let edit = only(
        "<old_text><new_text></new_text></old_text><new_text><old_text></old_text></new_text>",
    );
    assert_eq!(
        replace(&edit),
        (vec!["<new_text></new_text>".into()], vec!["<old_text></old_text>".into()])
    );
    let open =
        only("<think>I would\n<edit path=\"b\"><search>3</search><replace>4</replace></edit>");
    assert_eq!(open.path, "b");
}

#[test]
fn case_42_places_are_those_of_the_text_as_it_is() {
    let config = EditConfig::default();
    let edit = only("<edit path=\"f\"><search>\nb  \n</search><replace>\nB\n</replace></edit>");
    let mut versions = FileVersions::new();
    versions.set("f", b"a   \r\nb\r\nc\n");
    assert_eq!(versions.roots(&[edit], &config).notes, []);
    assert_eq!(versions.get("f"), Some(b"a   \r\nB\nc\n".as_slice()));
    // Nothing but blanks to look for: not found, at once.
    let edit = only("<edit path=\"f\"><search>\n\r\n   \n\n</search><replace>x</replace></edit>");
    let notes = versions.roots(&[edit], &config).notes;
    assert_eq!(notes.iter().map(|note| note.kind).collect::<Vec<_>>(), [note::NOT_APPLIED]);
}

// XML edits.

#[test]
fn xml_lines_are_spelled_as_in_the_response() {
    let response = "I fix it.\n<edit path='src/a.py'>\n<search>\nx = 1\ny = 2\n</search>\n<replace>\nx = 3\r\n\ny = 2</replace>\n</edit>\nDone.";
    let edit = only(response);
    assert_eq!((edit.format, edit.path.as_str()), (Format::Xml, "src/a.py"));
    assert_eq!(&response[edit.bytes.clone()], &response[10..response.len() - 6]);
    let Change::Replace { old, new } = &edit.change else { panic!("{edit:?}") };
    assert_eq!(spelled(response, old), ["x = 1\n", "y = 2\n"]);
    assert_eq!(spelled(response, new), ["x = 3\r\n", "\n", "y = 2"]);
    assert_eq!(texts(new), ["x = 3\r", "", "y = 2"]);
    assert_eq!(old[0].bytes, 42..48);
}

#[test]
fn xml_blocks_hold_several_pairs_and_other_parts() {
    let response = concat!(
        "<edit file=\"a.py\"><old>1</old><new>2</new><old_str>3</old_str><new_str></new_str></edit>\n",
        "<edit filename=\"b.py\"><insert line=\"4\">\nz\n</insert></edit>\n",
        "<edit path=\"c.py\"><code>\n```python\nq\n```\n</code></edit>\n",
        "<file path=\"d.py\">\nw\n  </file>\n",
        "<edit><path>e.py</path><content>v</content></edit>",
    );
    let parsed = read(response);
    assert_eq!(parsed.notes, []);
    let paths: Vec<&str> = parsed.edits.iter().map(|edit| edit.path.as_str()).collect();
    assert_eq!(paths, ["a.py", "a.py", "b.py", "c.py", "d.py", "e.py"]);
    assert_eq!(&response[parsed.edits[0].bytes.clone()], "<old>1</old><new>2</new>");
    assert_eq!(&response[parsed.edits[1].bytes.clone()], "<old_str>3</old_str><new_str></new_str>");
    assert_eq!(replace(&parsed.edits[1]), (vec!["3".into()], vec![]));
    let Change::Insert { new, after } = &parsed.edits[2].change else { panic!() };
    assert_eq!((texts(new), *after), (vec!["z".to_owned()], Some(4)));
    assert_eq!(write(&parsed.edits[3]), ["q"]);
    assert_eq!(write(&parsed.edits[4]), ["w"]);
    assert_eq!(write(&parsed.edits[5]), ["v"]);
}

#[test]
fn xml_that_lacks_a_part_is_noted() {
    let parsed =
        read("<edit path=\"a\"><search>1</search></edit><edit path=\"b\"><new>2</new></edit>");
    assert_eq!(parsed.edits, []);
    assert_eq!(kinds(&parsed), [note::INCOMPLETE_PAIR, note::INCOMPLETE_PAIR]);
    let parsed = read("Use <edit path=\"…\"> tags, or <edit>.");
    assert_eq!(parsed.edits, []);
    assert_eq!(kinds(&parsed), [note::UNCLOSED]);
}

#[test]
fn xml_cut_off_in_a_body_keeps_what_is_there() {
    let parsed = read("<edit path=\"a\"><search>1</search><replace>\n2\n3");
    assert_eq!(kinds(&parsed), [note::UNCLOSED]);
    assert_eq!(replace(&parsed.edits[0]), (vec!["1".into()], vec!["2".into(), "3".into()]));
}

#[test]
fn xml_bodies_may_name_the_block_itself() {
    let edit = only(
        "<edit path=\"a\"><search>s</search><replace>use <edit path=\"x\"> now</replace></edit>",
    );
    assert_eq!(
        (edit.path.as_str(), replace(&edit).1),
        ("a", vec!["use <edit path=\"x\"> now".to_owned()])
    );
}

// Thinking.

#[test]
fn edits_in_a_closed_thinking_section_are_drafts() {
    let edit = "<edit path=\"a\"><search>1</search><replace>2</replace></edit>";
    let parsed = read(&format!("<think>\nFirst {edit}\n```python\nx\n```\n</think>\n{edit}"));
    assert_eq!(parsed.edits.len(), 1);
    assert_eq!(kinds(&parsed), [note::IN_THINKING, note::IN_THINKING]);
    assert_eq!(parsed.edits[0].bytes.start, 14 + edit.len() + 17 + 9);
    // The opening tag was part of the prompt.
    let parsed = read(&format!("First {edit}\n</think>\n{edit}"));
    assert_eq!(parsed.edits.len(), 1);
    assert_eq!(kinds(&parsed), [note::IN_THINKING]);
    assert_eq!(parsed.edits[0].bytes.start, 6 + edit.len() + 10);
    // A closing tag inside an edit is content.
    let edit = only("<edit path=\"a\"><search>1</search><replace>\n</think>\n</replace></edit>");
    assert_eq!(replace(&edit).1, ["</think>"]);
}

// Fences.

#[test]
fn fences_name_their_file_in_many_ways() {
    let path = |response: &str| only(response).path;
    assert_eq!(path("```python src/a.py\nx\n```\n"), "src/a.py");
    assert_eq!(path("```python:src/a.py\nx\n```\n"), "src/a.py");
    assert_eq!(path("```src/a.py\nx\n```\n"), "src/a.py");
    assert_eq!(path("```python title=\"src/a.py\"\nx\n```\n"), "src/a.py");
    assert_eq!(path("~~~python file=src/a.py\nx\n~~~\n"), "src/a.py");
    assert_eq!(path("`src/a.py`\n```python\nx\n```\n"), "src/a.py");
    assert_eq!(path("**src/a.py**\n\n```python\nx\n```\n"), "src/a.py");
    assert_eq!(path("### src/a.py\n```\nx\n```\n"), "src/a.py");
    assert_eq!(path("File: src/a.py\n```\nx\n```\n"), "src/a.py");
    assert_eq!(path("Here is the new `src/__init__.py`:\n```\nx\n```\n"), "src/__init__.py");
    assert_eq!(path("Here it is:\n```python\n# src/a.py\nx\n```\n"), "src/a.py");
    assert_eq!(path("Here it is:\n```rust\n// File: src/a.rs\nx\n```\n"), "src/a.rs");
    assert_eq!(path("Here it is.\n```rust\nx\n```\n"), "");
}

#[test]
fn fence_lines_are_spelled_as_in_the_response() {
    let response = "So:\n\n  ```py\n  a\n    b\n c\n  ```\nend";
    let edit = only(response);
    let Change::Write { new } = &edit.change else { panic!() };
    assert_eq!(texts(new), ["a", "  b", "c"]);
    assert_eq!(spelled(response, new), ["  a\n", "    b\n", " c\n"]);
    assert_eq!(edit.bytes, 5..response.len() - 3);
}

#[test]
fn unnamed_fences_count_only_alone() {
    let parsed = read("```bash\nls\n```\n```python\nx\n```\n");
    assert_eq!(kinds(&parsed), [note::UNNAMED_FENCE]);
    assert_eq!(write(&parsed.edits[0]), ["x"]);
    // One block of any language is what the response has to give.
    assert_eq!(write(&only("```json\n{}\n```\n")), ["{}"]);
    let parsed = read(
        "```python\nx\n```\n<edit path=\"a\"><old>1</old><new>2</new></edit>\n```py b.py\ny\n```\n",
    );
    assert_eq!(kinds(&parsed), [note::UNNAMED_FENCE]);
    let formats: Vec<Format> = parsed.edits.iter().map(|edit| edit.format).collect();
    assert_eq!(formats, [Format::Xml, Format::Fence]);
    let config = |fences| EditConfig { fences, ..EditConfig::default() };
    let response = b"```bash\nls\n```\n```py a.py\nx\n```\n";
    assert_eq!(parse(response, &config(Fences::Always)).edits.len(), 2);
    assert_eq!(parse(response, &config(Fences::Never)).edits.len(), 0);
    assert_eq!(
        kinds(&parse(response, &config(Fences::Never))),
        [note::FENCES_OFF, note::FENCES_OFF]
    );
}

#[test]
fn an_unclosed_fence_goes_on_to_the_end() {
    let parsed = read("```python a.py\nx\n```py\ny");
    assert_eq!(kinds(&parsed), [note::UNCLOSED]);
    assert_eq!(write(&parsed.edits[0]), ["x", "```py", "y"]);
}

#[test]
fn fences_around_other_notations_are_wrappers() {
    let diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
    let edit = only(&format!("```diff\n{diff}```\n"));
    assert_eq!((edit.format, edit.bytes), (Format::UnifiedDiff, 8..8 + diff.len()));
    assert_eq!(only(&format!("```\nSome words.\n{diff}```\n")).format, Format::UnifiedDiff);
    let edit = only("```python a.py\n<<<<<<< SEARCH\n1\n=======\n2\n>>>>>>> REPLACE\n```\n");
    assert_eq!((edit.format, edit.path.as_str()), (Format::SearchReplace, "a.py"));
    let edit = only("```xml\n<edit path=\"a\"><old>1</old><new>2</new></edit>\n```\n");
    assert_eq!(edit.format, Format::Xml);
    let edit =
        only("```json\n{\"command\": \"create\", \"path\": \"a\", \"file_text\": \"x\"}\n```\n");
    assert_eq!(edit.format, Format::ToolCall);
    // Code that mentions a diff further down is still code.
    let edit = only(&format!("```python t.py\nimport os\nimport sys\nD = '''\n{diff}'''\n```\n"));
    assert_eq!((edit.format, write(&edit).len()), (Format::Fence, 9));
}

#[test]
fn a_fence_after_a_wrapper_is_read_again() {
    let parsed = read(
        "```\n<edit path=\"a\"><old>1</old><new>2</new></edit>\n```\nText\n```py b.py\nx\n```\n",
    );
    assert_eq!(parsed.notes, []);
    let paths: Vec<&str> = parsed.edits.iter().map(|edit| edit.path.as_str()).collect();
    assert_eq!(paths, ["a", "b.py"]);
    assert_eq!(write(&parsed.edits[1]), ["x"]);
}

// Unified diffs.

#[test]
fn diff_lines_are_spelled_with_their_prefix() {
    let response = "See:\n\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n\nDone.";
    let edit = only(response);
    let Change::Hunks(hunks) = &edit.change else { panic!() };
    let lines: Vec<SourceLine> = hunks[0].lines.iter().map(|(_, line)| line.clone()).collect();
    assert_eq!(spelled(response, &lines), [" a\n", "-b\n", "+B\n"]);
    assert_eq!(texts(&lines), ["a", "b", "B"]);
    assert_eq!(edit.bytes, 6..response.len() - 6);
}

#[test]
fn removed_lines_may_look_like_a_header() {
    let edit = only("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n x\n");
    assert_eq!(hunks(&edit), [["--- old", "+++ new", " x"]]);
    // Two such lines as the last of their hunk, and a hunk after them.
    let edit =
        only("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n x\n--- old\n+++ new\n@@ -9 +9 @@\n-y\n+z\n");
    assert_eq!(hunks(&edit), [vec![" x", "--- old", "+++ new"], vec!["-y", "+z"]]);
    // The next file while the counts still want lines.
    let parsed =
        read("--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n-x\n+y\n--- a/g\n+++ b/g\n@@ -9 +9 @@\n-y\n+z\n");
    assert_eq!(kinds(&parsed), [note::SHORT_HUNK]);
    assert_eq!(parsed.edits[1].path, "g");
}

#[test]
fn hunks_with_wrong_counts_go_by_their_prefixes() {
    let parsed = read("--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+b\n+c\n-d\n\nText.\n");
    assert_eq!(kinds(&parsed), [note::WRONG_COUNT]);
    assert_eq!(parsed.notes[0].what, "hunk 1 declares 1/1, has 2/2");
    assert_eq!(hunks(&parsed.edits[0]), [["-a", "+b", "+c", "-d"]]);
}

#[test]
fn hunks_without_line_numbers() {
    let edit = only("--- a/f\n+++ b/f\n@@ ... @@\n a\n-b\n\n+c\n@@ def g():\n-d\n\nText.\n");
    assert_eq!(hunks(&edit), [vec![" a", "-b", " ", "+c"], vec!["-d"]]);
    let edit = only("--- a/f\n+++ b/f\n-b\n+c\n");
    assert_eq!(hunks(&edit), [["-b", "+c"]]);
    let parsed = read("`f.py`:\n```diff\n a\n-b\n+c\n```\n");
    assert_eq!(kinds(&parsed), [note::NO_FILE_HEADER]);
    assert_eq!(
        (parsed.edits[0].path.as_str(), hunks(&parsed.edits[0])),
        ("f.py", vec![vec![" a".to_owned(), "-b".into(), "+c".into()]])
    );
    let parsed = read("f.py\n```diff\n@@ -1,3 +1,3 @@\n a\n-b\n+c\nunprefixed\n```\n");
    assert_eq!(kinds(&parsed), [note::UNPREFIXED_LINE, note::NO_FILE_HEADER]);
    assert_eq!((parsed.edits[0].path.as_str(), hunks(&parsed.edits[0])[0].len()), ("f.py", 4));
}

#[test]
fn files_made_and_removed() {
    let parsed = read(concat!(
        "diff --git a/n b/n\nnew file mode 100644\nindex 000..111\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n+y\n",
        "diff --git a/o b/o\ndeleted file mode 100644\nindex 111..000\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n",
        "diff --git a/e b/e\nnew file mode 100644\nindex 000..e69de29\n",
        "diff --git a/sub b/sub\nindex 111..222 160000\n--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n",
    ));
    assert_eq!(parsed.notes, []);
    let paths: Vec<&str> = parsed.edits.iter().map(|edit| edit.path.as_str()).collect();
    assert_eq!(paths, ["n", "o", "e", "sub"]);
    assert_eq!(parsed.edits[2].change, Change::Meta("create"));
    assert_eq!(parsed.edits[3].change, Change::Meta("submodule"));
    let mut versions = FileVersions::new();
    let roots = versions.roots(&parsed.edits, &EditConfig::default());
    assert_eq!(
        summary(&roots),
        [
            ("n".into(), EditType::Add, vec!["x".into(), "y".into()]),
            ("o".into(), EditType::Delete, vec!["z".into()]),
        ]
    );
    assert_eq!(versions.get("n"), Some(b"x\ny\n".as_slice()));
}

#[test]
fn a_diff_without_hunks_is_noted() {
    let parsed = read("--- a/f\n+++ b/f\n\nNothing.");
    assert_eq!((parsed.edits.len(), kinds(&parsed)), (0, vec![note::NO_HUNKS]));
    assert_eq!(read("Text\n---\n\n--- a line\nMore\n"), Parsed::default());
}

// SEARCH/REPLACE blocks.

#[test]
fn search_replace_takes_its_path_from_before() {
    let block = "<<<<<<< SEARCH\n1\n=======\n2\n>>>>>>> REPLACE\n";
    assert_eq!(only(&format!("src/a.py\n{block}")).path, "src/a.py");
    assert_eq!(only(&format!("src/a.py\n```python\n{block}```\n")).path, "src/a.py");
    assert_eq!(only(&format!("```python\nsrc/a.py\n{block}```\n")).path, "src/a.py");
    assert_eq!(only(&format!("```python src/a.py\n{block}```\n")).path, "src/a.py");
    let parsed = read(&format!(
        "src/a.py\n```python\n{block}\n{block}```\nThen b.py:\n\nsrc/b.py\n```\n{block}```\n"
    ));
    let paths: Vec<&str> = parsed.edits.iter().map(|edit| edit.path.as_str()).collect();
    assert_eq!(paths, ["src/a.py", "src/a.py", "src/b.py"]);
}

#[test]
fn search_replace_lines_and_bytes() {
    let response = "a.py\n<<<<<<< SEARCH\nx\n  y\n=======\n>>>>>>> REPLACE\nrest";
    let edit = only(response);
    let Change::Replace { old, new } = &edit.change else { panic!() };
    assert_eq!(spelled(response, old), ["x\n", "  y\n"]);
    assert_eq!(new, &[]);
    assert_eq!(edit.bytes, 5..response.len() - 4);
    // Nine marks, and a separator of as many.
    let edit = only("<<<<<<<<< SEARCH\n=======\n=========\n2\n>>>>>>>>> REPLACE\n");
    assert_eq!(replace(&edit), (vec!["=======".into()], vec!["2".into()]));
}

#[test]
fn search_replace_cut_off() {
    let parsed = read("<<<<<<< SEARCH\n1\n=======\n2\n");
    assert_eq!(kinds(&parsed), [note::UNCLOSED]);
    assert_eq!(replace(&parsed.edits[0]), (vec!["1".into()], vec!["2".into()]));
    let parsed = read("```\n<<<<<<< SEARCH\n1\n=======\n2\n```\nMore.\n");
    assert_eq!(replace(&parsed.edits[0]).1, ["2"]);
    let parsed = read("<<<<<<< SEARCH\n1\n2\n");
    assert_eq!((parsed.edits.len(), kinds(&parsed)), (0, vec![note::NO_SEPARATOR]));
    let parsed =
        read("<<<<<<< SEARCH\n1\n=======\n2\n<<<<<<< SEARCH\n3\n=======\n4\n>>>>>>> REPLACE\n");
    assert_eq!((parsed.edits.len(), kinds(&parsed)), (2, vec![note::UNCLOSED]));
}

// apply_patch blocks.

#[test]
fn apply_patch_sections() {
    let response = concat!(
        "*** Begin Patch\n*** Update File: src/a.py\n@@ def f():\n x\n-y\n+Y\n\n z\n@@\n-q\n*** End of File\n",
        "*** Add File: src/new.py\n+one\n+two\n*** Delete File: src/old.py\n",
        "*** Update File: src/m.py\n*** Move to: src/n.py\n@@\n-a\n+b\n*** End Patch\nDone.",
    );
    let parsed = read(response);
    assert_eq!(parsed.notes, []);
    let paths: Vec<&str> = parsed.edits.iter().map(|edit| edit.path.as_str()).collect();
    assert_eq!(paths, ["src/a.py", "src/new.py", "src/old.py", "src/n.py"]);
    assert_eq!(hunks(&parsed.edits[0]), [vec![" x", "-y", "+Y", " ", " z"], vec!["-q"]]);
    let Change::Hunks(first) = &parsed.edits[0].change else { panic!() };
    assert_eq!(first[0].section, b"def f():");
    assert_eq!(hunks(&parsed.edits[1]), [["+one", "+two"]]);
    assert_eq!(parsed.edits[2].change, Change::Meta("delete"));
    assert_eq!(parsed.edits[3].old_path.as_deref(), Some("src/m.py"));
    assert_eq!(&response[parsed.edits[1].bytes.clone()], "*** Add File: src/new.py\n+one\n+two\n");
}

#[test]
fn apply_patch_odd_blocks() {
    let parsed = read("```\n*** Begin Patch\n*** Update File: a.py\n@@\nx\n-y\n```\nText\n");
    assert_eq!(kinds(&parsed), [note::UNCLOSED, note::UNPREFIXED_LINE]);
    assert_eq!(hunks(&parsed.edits[0]), [[" x", "-y"]]);
    let parsed = read("*** Update File: a.py\n@@\n-y\n+z\n\nText\n");
    assert_eq!(kinds(&parsed), [note::NO_BEGIN]);
    assert_eq!(hunks(&parsed.edits[0]), [["-y", "+z"]]);
}

// Tool calls.

#[test]
fn tool_call_lines_are_spelled_with_their_escapes() {
    let response = r#"<tool_call>{"name": "str_replace_editor", "arguments": {"command": "str_replace", "path": "/a.py", "old_str": "x\n\ty\n", "new_str": "\u00e9\\n\n\"q\""}}</tool_call>"#;
    let edit = only(response);
    assert_eq!((edit.format, edit.path.as_str()), (Format::ToolCall, "/a.py"));
    assert_eq!(&response[edit.bytes.clone()], &response[11..response.len() - 12]);
    let Change::Replace { old, new } = &edit.change else { panic!() };
    assert_eq!(texts(old), ["x", "\ty"]);
    assert_eq!(spelled(response, old), [r"x\n", r"\ty\n"]);
    assert_eq!(texts(new), ["é\\n", "\"q\""]);
    assert_eq!(spelled(response, new), [r"\u00e9\\n\n", r#"\"q\""#]);
}

#[test]
fn tool_call_arguments_in_a_string_map_through_both_levels() {
    let response = r#"{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "str_replace_editor", "arguments": "{\"command\": \"create\", \"path\": \"a.py\", \"file_text\": \"x = \\\"1\\\"\\ny\\n\"}"}}]}"#;
    let edit = only(response);
    let Change::Write { new } = &edit.change else { panic!() };
    assert_eq!(texts(new), ["x = \"1\"", "y"]);
    assert_eq!(spelled(response, new), [r#"x = \\\"1\\\"\\n"#, r"y\\n"]);
}

#[test]
fn tool_call_shapes() {
    let edit = only(
        r#"{"type": "tool_use", "name": "str_replace_based_edit_tool", "input": {"command": "insert", "path": "a", "insert_line": 3, "insert_text": "z"}}"#,
    );
    let Change::Insert { new, after } = &edit.change else { panic!() };
    assert_eq!((texts(new), *after), (vec!["z".to_owned()], Some(3)));
    assert_eq!(write(&only(r#"{"command":"create","path":"a","file_text":"x"}"#)), ["x"]);
    assert_eq!(write(&only(r#"{"name":"Write","input":{"file_path":"a","content":"x"}}"#)), ["x"]);
    let edit =
        only(r#"{"name":"Edit","arguments":{"file_path":"a","old_string":"1","new_string":"2"}}"#);
    assert_eq!(replace(&edit), (vec!["1".into()], vec!["2".into()]));
    let response = r#"{"name":"MultiEdit","input":{"file_path":"a","edits":[{"old_string":"1","new_string":"2"},{"old_string":"3","new_string":"4"}]}}"#;
    let parsed = read(response);
    assert_eq!((parsed.edits.len(), parsed.notes.len()), (2, 0));
    assert_eq!(parsed.edits[1].path, "a");
    assert_eq!(&response[parsed.edits[1].bytes.clone()], r#"{"old_string":"3","new_string":"4"}"#);
    let response = r#"{"name":"apply_patch","arguments":{"input":"*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch\n"}}"#;
    let edit = only(response);
    assert_eq!(
        (edit.path.as_str(), hunks(&edit)),
        ("a.py", vec![vec!["-x".to_owned(), "+y".to_owned()]])
    );
    let Change::Hunks(hunks) = &edit.change else { panic!() };
    assert_eq!(&response[hunks[0].lines[1].1.bytes.clone()], r"+y\n");
}

#[test]
fn calls_that_edit_nothing_are_no_edits() {
    for response in [
        r#"{"name":"bash","arguments":{"command":"ls"}}"#,
        r#"{"name":"str_replace_editor","arguments":{"command":"view","path":"a.py"}}"#,
        r#"{"name":"send_message","arguments":{"path":"a.py","content":"x"}}"#,
        r#"{"name":"read_file","arguments":{"path":"a.py"}}"#,
        r#"{"a": {"b": [1, 2, {"c": null}]}}"#,
        r#"{"old": "a", "new": "b"}"#,
        "{\"a\" 1} {'name': 2} {\"",
    ] {
        assert_eq!(read(response), Parsed::default(), "{response}");
    }
}

#[test]
fn calls_that_are_broken_or_cut_off() {
    let parsed = read(r#"{"command": "create", "path": "a.py", "file_text": "x\ny"#);
    assert_eq!(kinds(&parsed), [note::UNCLOSED]);
    assert_eq!(write(&parsed.edits[0]), ["x", "y"]);
    let parsed = read(r#"{"command": "create", "path": "a.py", "file_text": "x" oops}"#);
    assert_eq!((parsed.edits.len(), kinds(&parsed)), (0, vec![note::MALFORMED_JSON]));
    let parsed = read(r#"{"command": "create", "path": "a.py"}"#);
    assert_eq!((parsed.edits.len(), kinds(&parsed)), (0, vec![note::INCOMPLETE_CALL]));
}

#[test]
fn calls_in_tags() {
    let response = "<function=str_replace_editor>\n<parameter=command>str_replace</parameter>\n<parameter=path>/a.py</parameter>\n<parameter=old_str>\nx\n</parameter>\n<parameter=new_str>\ny\nz\n</parameter>\n</function>";
    let edit = only(response);
    assert_eq!((edit.path.as_str(), edit.bytes.clone()), ("/a.py", 0..response.len()));
    let Change::Replace { old, new } = &edit.change else { panic!() };
    assert_eq!((spelled(response, old), spelled(response, new)), (vec!["x\n"], vec!["y\n", "z\n"]));
    let edit = only(
        "<invoke name=\"create_file\"><parameter name=\"path\">a</parameter><parameter name=\"content\">x</parameter></invoke>",
    );
    assert_eq!(write(&edit), ["x"]);
    assert_eq!(
        read("<function=bash><parameter=command>ls</parameter></function>"),
        Parsed::default()
    );
}

// Mixing.

#[test]
fn notations_mix_in_one_response() {
    let parsed = read(concat!(
        "<edit path=\"a\"><old>1</old><new>2</new></edit>\n",
        "```diff\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-1\n+2\n```\n",
        "c.py\n```python\n<<<<<<< SEARCH\n1\n=======\n2\n>>>>>>> REPLACE\n```\n",
        "```python d.py\nx\n```\n",
        "*** Begin Patch\n*** Update File: e\n@@\n-1\n+2\n*** End Patch\n",
        "{\"command\":\"create\",\"path\":\"f\",\"file_text\":\"x\"}\n",
    ));
    assert_eq!(parsed.notes, []);
    let found: Vec<(Format, &str)> =
        parsed.edits.iter().map(|edit| (edit.format, edit.path.as_str())).collect();
    assert_eq!(
        found,
        [
            (Format::Xml, "a"),
            (Format::UnifiedDiff, "b"),
            (Format::SearchReplace, "c.py"),
            (Format::Fence, "d.py"),
            (Format::ApplyPatch, "e"),
            (Format::ToolCall, "f"),
        ]
    );
}

// Root diffs.

#[test]
fn a_replacement_gives_the_lines_that_differ() {
    let response = "<edit path=\"f\"><old>\na\nb\nc\n</old><new>\na\nB\nc\nd\n</new></edit>";
    let roots = roots_of(&[response]);
    assert_eq!(
        summary(&roots[0]),
        [
            ("f".into(), EditType::Delete, vec!["b".into()]),
            ("f".into(), EditType::Add, vec!["B".into(), "d".into()]),
        ]
    );
    assert_eq!(spelled(response, &roots[0].roots[1].lines), ["B\n", "d\n"]);
    let config = EditConfig { keep_context: true, ..EditConfig::default() };
    let kept = FileVersions::new().roots(&read(response).edits, &config);
    assert_eq!(kept.roots.iter().map(|root| root.lines.len()).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_write_of_a_known_file_gives_its_changed_lines() {
    let roots = roots_of(&[
        "```py f.py\na\nb\nc\n```\n",
        "```py f.py\na\nX\nc\n```\n",
        "```py f.py\na\nX\n```\n",
    ]);
    let all = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(summary(&roots[0]), [("f.py".into(), EditType::Overwrite, all(&["a", "b", "c"]))]);
    assert_eq!(summary(&roots[1]), [("f.py".into(), EditType::Add, all(&["X"]))]);
    assert_eq!(summary(&roots[2]), []);
    assert_eq!(roots[2].notes[0].kind, note::NO_CHANGE);
}

#[test]
fn edits_are_followed_so_that_later_writes_compare_right() {
    let roots = roots_of(&[
        "```py f.py\na\nb\nc\nd\n```\n",
        "f.py\n<<<<<<< SEARCH\nb\n=======\nB\nB2\n>>>>>>> REPLACE\n",
        "--- a/f.py\n+++ b/f.py\n@@ -4,2 +4,2 @@\n c\n-d\n+D\n",
        "{\"command\":\"insert\",\"path\":\"f.py\",\"insert_line\":1,\"new_str\":\"i\"}",
        "```py f.py\na\ni\nB\nB2\nc\nD\ne\n```\n",
    ]);
    assert!(roots.iter().all(|roots| roots.notes.is_empty()), "{roots:?}");
    assert_eq!(summary(&roots[4]), [("f.py".into(), EditType::Add, vec!["e".into()])]);
}

#[test]
fn an_edit_that_does_not_fit_leaves_the_version_alone() {
    let roots = roots_of(&[
        "```py f.py\na\n```\n",
        "f.py\n<<<<<<< SEARCH\nz\n=======\ny\n>>>>>>> REPLACE\n",
    ]);
    assert_eq!(
        roots[1].notes.iter().map(|note| note.kind).collect::<Vec<_>>(),
        [note::NOT_APPLIED]
    );
    assert_eq!(roots[1].roots.len(), 2);
}

#[test]
fn an_empty_search_text_creates_or_appends() {
    let block = |line: &str| format!("f.py\n<<<<<<< SEARCH\n=======\n{line}\n>>>>>>> REPLACE\n");
    let roots = roots_of(&[&block("a"), &block("b")]);
    assert_eq!(summary(&roots[0]), [("f.py".into(), EditType::Overwrite, vec!["a".into()])]);
    assert_eq!(summary(&roots[1]), [("f.py".into(), EditType::Add, vec!["b".into()])]);
}

#[test]
fn hunks_give_two_roots_each_in_byte_order() {
    let roots = roots_of(&[
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n+a\n-b\n c\n@@ -9,2 +9,2 @@\n-d\n+e\n+f\n-g\n",
    ]);
    let summary: Vec<_> = summary(&roots[0])
        .into_iter()
        .map(|(_, edit_type, lines)| (edit_type, lines.concat()))
        .collect();
    assert_eq!(
        summary,
        [
            (EditType::Add, "a".into()),
            (EditType::Delete, "b".into()),
            (EditType::Delete, "dg".into()),
            (EditType::Add, "ef".into()),
        ]
    );
}

#[test]
fn a_re_emission_gets_no_root() {
    let edit = |old: &str, new: &str| {
        format!("<edit path=\"f\"><old>{old}</old><new>\n{new}\n</new></edit>")
    };
    let turns = [edit("a", "x"), edit("a", "  x\n"), edit("a", "y"), edit("a", "x")];
    let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
    let roots = roots_of(&turns);
    let added =
        |roots: &Roots| roots.roots.iter().filter(|root| root.edit_type == EditType::Add).count();
    assert_eq!(roots.iter().map(added).collect::<Vec<_>>(), [1, 0, 1, 1]);
    assert_eq!(
        roots[1].notes.iter().map(|note| note.kind).collect::<Vec<_>>(),
        [note::RE_EMISSION, note::RE_EMISSION]
    );
    // A diff of two hunks said again, and equal hunks inside one diff.
    let diff = "--- a/g\n+++ b/g\n@@ -1 +1,2 @@\n a\n+x\n@@ -5 +6,2 @@\n b\n+x\n";
    let roots = roots_of(&[diff, diff]);
    assert_eq!(roots.iter().map(added).collect::<Vec<_>>(), [2, 0]);
    let config = EditConfig { diff_gate: false, ..EditConfig::default() };
    let mut versions = FileVersions::new();
    let edits = read(diff).edits;
    assert_eq!(
        (0..2).map(|_| versions.roots(&edits, &config).roots.len()).collect::<Vec<_>>(),
        [2, 2]
    );
}

#[test]
fn renames_carry_the_version_along() {
    let mut versions = FileVersions::new();
    versions.set("a", b"1\n2\n");
    let config = EditConfig::default();
    let edit = only("diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n");
    versions.roots(&[edit], &config);
    assert_eq!((versions.get("a"), versions.get("b")), (None, Some(b"1\n2\n".as_slice())));
}

#[test]
fn every_note_has_a_listed_kind() {
    let mut kinds = note::ALL.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), note::ALL.len());
}

// What agents write.

const PATCH: &str = "*** Begin Patch\n*** Update File: src/a.py\n@@ def f():\n-    return \"1\"\n+    return \"2\"\n*** End Patch\n";

/// A text as the inside of a JSON string.
fn json_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[test]
fn patches_in_commands_of_tool_calls() {
    let patch = json_text(PATCH);
    let inner = format!(
        "{{\"command\": [\"bash\", \"-lc\", \"cd /r && apply_patch <<'EOF'\\n{patch}EOF\\n\"]}}"
    );
    let responses = [
        format!("{{\"cmd\": [\"apply_patch\", \"{patch}\"]}}"),
        format!(
            "{{\"name\": \"shell\", \"arguments\": {{\"command\": [\"apply_patch\", \"{patch}\"], \"workdir\": \"/r\"}}}}"
        ),
        format!(
            "{{\"type\": \"local_shell_call\", \"action\": {{\"command\": [\"apply_patch\", \"{patch}\"]}}}}"
        ),
        format!("{{\"name\": \"shell\", \"arguments\": \"{}\"}}", json_text(&inner)),
    ];
    for response in &responses {
        let edit = only(response);
        assert_eq!((edit.format, edit.path.as_str()), (Format::ToolCall, "src/a.py"));
        assert_eq!(hunks(&edit), [["-    return \"1\"", "+    return \"2\""]]);
    }
    let Change::Hunks(hunks) = only(&responses[0]).change else { panic!("no hunks") };
    let bytes = hunks[0].lines[1].1.bytes.clone();
    assert_eq!(&responses[0][bytes], "+    return \\\"2\\\"\\n");
    // A command without a patch is no edit.
    assert_eq!(read("{\"command\": [\"bash\", \"-lc\", \"cat a.py\"]}"), Parsed::default());
}

#[test]
fn diffs_in_here_documents_of_tool_calls() {
    let command = "cd /r && git apply <<'EOF'\\n--- a/x.py\\n+++ b/x.py\\n@@ -1,2 +1,2 @@\\n-a\\n+b\\n c\\nEOF\\npytest";
    let edit =
        only(&format!("{{\"name\": \"bash\", \"arguments\": {{\"command\": \"{command}\"}}}}"));
    assert_eq!((edit.format, edit.path.as_str()), (Format::ToolCall, "x.py"));
    assert_eq!(hunks(&edit), [["-a", "+b", " c"]]);
}

#[test]
fn search_replace_blocks_in_tool_calls() {
    let blocks = "<<<<<<< SEARCH\\nx\\n=======\\ny\\n>>>>>>> REPLACE\\n";
    let response = format!(
        "{{\"name\": \"replace_in_file\", \"arguments\": {{\"path\": \"src/b.py\", \"diff\": \"{blocks}{blocks}\"}}}}"
    );
    let parsed = read(&response);
    assert_eq!(parsed.notes, []);
    assert_eq!(parsed.edits.len(), 2);
    for edit in &parsed.edits {
        assert_eq!((edit.format, edit.path.as_str()), (Format::ToolCall, "src/b.py"));
        assert_eq!(replace(edit), (vec!["x".to_owned()], vec!["y".to_owned()]));
    }
}

#[test]
fn tags_that_are_tool_calls() {
    let edit = only(
        "<write_to_file>\n<path>src/a.py</path>\n<content>\nx = 1\n</content>\n<line_count>1</line_count>\n</write_to_file>",
    );
    assert_eq!((edit.path.as_str(), write(&edit)), ("src/a.py", vec!["x = 1".to_owned()]));
    let block = "<<<<<<< SEARCH\n:start_line:3\n-------\nx\n=======\ny\n>>>>>>> REPLACE\n";
    for (name, end) in [("replace_in_file", "</diff>\n</replace_in_file>"), ("apply_diff", "")] {
        let parsed =
            read(&format!("<{name}>\n<path>src/b.py</path>\n<diff>\n{block}\n{block}{end}"));
        assert_eq!(parsed.notes, [], "{name}");
        assert_eq!(parsed.edits.len(), 2, "{name}");
        for edit in &parsed.edits {
            assert_eq!(edit.path, "src/b.py");
            assert_eq!(replace(edit), (vec!["x".to_owned()], vec!["y".to_owned()]));
        }
    }
}

#[test]
fn a_diff_tag_without_a_diff_writes_no_file() {
    for end in ["", "x\n</diff>\n</replace_in_file>"] {
        let parsed = read(&format!("<replace_in_file>\n<path>a.py</path>\n<diff>\n{end}"));
        assert_eq!((parsed.edits.len(), kinds(&parsed)), (0, vec![note::NO_HUNKS]), "{end}");
    }
}

#[test]
fn names_without_an_extension_before_a_search_block() {
    let block =
        |word: &str| format!("```\n<<<<<<< SEARCH\n{word}\n=======\nz\n>>>>>>> REPLACE\n```\n");
    let parsed = read(&format!(
        "a.py\n{}\n**bin/run**\n\n{}\nThen:\n{}",
        block("x"),
        block("y"),
        block("w")
    ));
    let paths: Vec<&str> = parsed.edits.iter().map(|edit| edit.path.as_str()).collect();
    // Prose names no file: the block goes on with the one before.
    assert_eq!(paths, ["a.py", "bin/run", "bin/run"]);
}

#[test]
fn an_escape_that_is_cut_off_is_no_text() {
    for tail in ["\\", "\\u", "\\u00e"] {
        let response = format!("{{\"path\": \"a.py\", \"old_str\": \"x\", \"new_str\": \"y{tail}");
        let parsed = read(&response);
        assert_eq!(kinds(&parsed), [note::UNCLOSED], "{tail}");
        assert_eq!(replace(&parsed.edits[0]).1, ["y"], "{tail}");
    }
}

#[test]
fn equal_changes_at_two_places_of_a_turn_are_no_re_emission() {
    let block = |name: &str| {
        format!(
            "<edit path=\"f\"><old>\ndef {name}:\n  1\n</old><new>\ndef {name}:\n  2\n</new></edit>\n"
        )
    };
    let (f, g) = (block("f"), block("g"));
    let roots = &roots_of(&[&format!("{f}{g}")])[0];
    assert_eq!((roots.roots.len(), roots.notes.len()), (4, 0));
    // The same block twice is one, whatever notation says it again.
    let diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n def f:\n-  1\n+  2\n";
    for again in [f.as_str(), diff] {
        let roots = &roots_of(&[&format!("{f}{again}")])[0];
        let kinds: Vec<&str> = roots.notes.iter().map(|note| note.kind).collect();
        assert_eq!((roots.roots.len(), kinds), (2, vec![note::RE_EMISSION; 2]));
    }
    // A new turn with the same lines is one as before.
    let roots = roots_of(&[&f, &g]);
    assert_eq!((roots[1].roots.len(), roots[1].notes.len()), (0, 2));
}

#[test]
fn a_change_without_lines_has_its_reason() {
    for response in [
        "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n",
        "*** Begin Patch\n*** Delete File: a\n*** End Patch\n",
        "*** Begin Patch\n*** Add File: a\n*** End Patch\n",
    ] {
        let roots = &roots_of(&[response])[0];
        assert!(roots.roots.is_empty());
        let notes: Vec<_> = roots.notes.iter().map(|note| (note.kind, note.skipped)).collect();
        assert_eq!(notes, [(note::NO_CHANGE, true)], "{response}");
    }
}
