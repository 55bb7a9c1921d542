//! Lexing is total and blind to indentation; interning is equality; windows are those of the definition.

use hunkwise::code::lexer::{self, Lexed};
use hunkwise::code::syntax::syntax_of;
use hunkwise::code::{Span, TaskCode, TaskCodeBuilder, Windows};
use hunkwise::edits::{EditType, Format, RootDiff, SourceLine};
use hunkwise::reference;
use proptest::prelude::*;

const PATHS: &[&str] = &[
    "a.py",
    "a.c",
    "a.rs",
    "a.java",
    "a.go",
    "a.js",
    "a.vue",
    "a.sh",
    "a.rb",
    "a.sql",
    "a.lua",
    "a.html",
    "a.css",
    "a.scss",
    "a.yaml",
    "a.toml",
    "a.ini",
    "a.json",
    "a.cs",
    "a.kt",
    "a.swift",
    "a.php",
    "a.scala",
    "a.hs",
    "a.r",
    "a.jl",
    "a.pl",
    "Makefile",
    "Dockerfile",
    "CMakeLists.txt",
    "a.ps1",
    "a.nix",
    "a.clj",
    "a.ml",
    "a.nim",
    "a.tex",
    "a.md",
    "a.ex",
    "",
];

/// Pieces in which every syntax finds its marks.
const PIECES: &[&str] = &[
    "\"", "'", "`", "\"\"\"", "'''", "''", "\\", "/", "*", "/*", "*/", "//", "#", "#!", "#=", "=#",
    "#[[", "]]", "#[", "]#", "<!--", "-->", "--", "--[[", "--[=[", "[=[", "]=]", "{-", "-}", "(*",
    "*)", "<#", "#>", "#|", "|#", ";", "%", "=begin", "=end", "=pod", "=cut", "r#\"", "\"#",
    "R\"(", "R\"ab(", ")ab\"", ")\"", "@\"", "$\"", "b'", "r", "R", "x", "yz", "_1", "0", "12",
    ".5", "0x", "1e-3", ".", "..", "(", ")", "[", "{", "}", "=", "<", ">>>=", "$", "@", "return",
    "é", " ", "  ", "\t", "\r",
];

fn line() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..10);
    prop_oneof![
        9 => pieces.prop_map(|p| p.concat().into_bytes()),
        1 => prop::collection::vec(any::<u8>().prop_filter("no line feed", |b| *b != b'\n'), 0..12),
    ]
}

/// Multi-line openers, each with a file that knows it.
const OPENERS: &[(&str, &str)] = &[
    ("a.py", "\"\"\""),
    ("a.py", "f'''"),
    ("a.c", "/*"),
    ("a.cc", "R\"ab("),
    ("a.rs", "/*"),
    ("a.rs", "br##\""),
    ("a.js", "`"),
    ("a.go", "`"),
    ("a.lua", "[=["),
    ("a.lua", "--[["),
    ("a.html", "<!--"),
    ("a.cs", "@\""),
    ("a.hs", "{-"),
    ("a.jl", "#="),
    ("a.nix", "''"),
    ("a.toml", "'''"),
    ("a.kt", "\"\"\""),
    ("a.ps1", "<#"),
];

/// A line without any mark, with a blank at its end.
fn plain_line() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(&["x", "yz", "12", "+", "(", "==", ",", " "][..]);
    prop::collection::vec(piece, 0..6).prop_map(|p| format!("{} ", p.concat()).into_bytes())
}

fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(line(), 0..8)
}

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(PATHS)
}

fn lex(path: &str, lines: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let mut lexed = Lexed::default();
    lexer::lex(&syntax_of(path), lines.len(), |i| &lines[i], &mut lexed);
    (0..lines.len())
        .map(|i| lexed.line(i).iter().map(|r| lines[i][r.clone()].to_vec()).collect())
        .collect()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0B | 0x0C)
}

fn source(lines: &[Vec<u8>]) -> Vec<SourceLine> {
    let mut at = 0;
    let line = |text: &Vec<u8>| {
        let bytes = at..at + text.len() + 1;
        at = bytes.end;
        SourceLine { text: text.clone(), bytes }
    };
    lines.iter().map(line).collect()
}

/// Roots of several turns; few distinct lines, so that windows repeat.
fn task() -> impl Strategy<Value = TaskCode> {
    let line = prop::sample::select(&["a", "b", "a b", "a  b", "# c", "", "'x'"][..]);
    let edit_type =
        prop::sample::select(&[EditType::Add, EditType::Delete, EditType::Overwrite][..]);
    let root = (edit_type, prop::collection::vec(line, 0..12));
    prop::collection::vec(prop::collection::vec(root, 0..4), 0..5).prop_map(|turns| {
        let mut builder = TaskCodeBuilder::new();
        for (turn, roots) in turns.iter().enumerate() {
            builder.begin_turn(turn as u32);
            for (edit_type, lines) in roots {
                let lines: Vec<Vec<u8>> = lines.iter().map(|l| l.as_bytes().to_vec()).collect();
                let lines = source(&lines);
                let root = RootDiff {
                    path: "a.py".into(),
                    edit_type: *edit_type,
                    lines,
                    format: Format::Fence,
                };
                builder.push_root(&root, 0);
            }
        }
        builder.finish().expect("a small task")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn tokens_are_ordered_disjoint_and_without_outer_space(path in path(), lines in lines()) {
        let mut lexed = Lexed::default();
        lexer::lex(&syntax_of(path), lines.len(), |i| &lines[i], &mut lexed);
        prop_assert_eq!(lexed.n_lines(), lines.len());
        let mut n_tokens = 0;
        for (i, line) in lines.iter().enumerate() {
            let mut end = 0;
            for token in lexed.line(i) {
                prop_assert!(end <= token.start && token.start < token.end && token.end <= line.len());
                prop_assert!(!is_space(line[token.start]) && !is_space(line[token.end - 1]), "{:?}", token);
                end = token.end;
                n_tokens += 1;
            }
        }
        prop_assert_eq!(lexed.n_tokens(), n_tokens);
    }

    /// JSON has no comments at all: there every byte but white space is in exactly one token.
    #[test]
    fn every_byte_is_in_one_token_without_comments(lines in lines()) {
        for (tokens, line) in lex("a.json", &lines).iter().zip(&lines) {
            let solid = |bytes: &[u8]| bytes.iter().copied().filter(|&b| !is_space(b)).collect::<Vec<_>>();
            // A byte-order mark and a `#!/` line are none of the pieces' business.
            if !line.starts_with(b"\xEF\xBB\xBF") && !line.starts_with(b"#!") {
                prop_assert_eq!(solid(&tokens.concat()), solid(line));
            }
        }
    }

    /// With comments, what no token has begins with white space or a comment's mark, or goes on with a comment of an
    /// earlier line.
    #[test]
    fn bytes_outside_tokens_are_comments(lines in lines()) {
        let mut lexed = Lexed::default();
        lexer::lex(&syntax_of("a.py"), lines.len(), |i| &lines[i], &mut lexed);
        for (i, line) in lines.iter().enumerate() {
            if i == 0 && line.starts_with(b"\xEF\xBB\xBF") {
                continue;
            }
            let ends = lexed.line(i).iter().map(|r| r.end);
            let starts = lexed.line(i).iter().map(|r| r.start).chain([line.len()]);
            for (gap_start, gap_end) in [0].into_iter().chain(ends).zip(starts) {
                let gap: Vec<u8> = line[gap_start..gap_end].iter().copied().skip_while(|&b| is_space(b)).collect();
                // A comment of Python goes to the end of its line.
                prop_assert!(gap.is_empty() || (gap[0] == b'#' && gap_end == line.len()), "{:?} in {:?}", gap, line);
            }
        }
    }

    #[test]
    fn indentation_and_trailing_space_do_not_matter(
        path in path(),
        lines in lines(),
        spaces in prop::collection::vec((" {0,4}|\t", "[ \t\r]{0,3}"), 8),
    ) {
        // Marks that count in the first column only.
        let in_column = |l: &Vec<u8>| l.starts_with(b"=") || l.starts_with(b"#!") || l.starts_with(b"\xEF\xBB\xBF");
        let moved: Vec<Vec<u8>> = lines.iter().zip(&spaces).map(|(line, (before, behind))| {
            let before = if in_column(line) { "" } else { before };
            [before.as_bytes(), line, behind.as_bytes()].concat()
        }).collect();
        prop_assert_eq!(lex(path, &lines), lex(path, &moved));
    }

    /// An opener without an end is an ordinary token: no other line changes.
    #[test]
    fn stray_opener_stays_alone(
        (path, opener) in prop::sample::select(OPENERS),
        lines in prop::collection::vec(plain_line(), 1..8),
        at in any::<prop::sample::Index>(),
    ) {
        let at = at.index(lines.len());
        let mut odd = lines.clone();
        odd[at].extend_from_slice(opener.as_bytes());
        let mut expected = lex(path, &lines);
        expected[at].push(opener.as_bytes().to_vec());
        prop_assert_eq!(lex(path, &odd), expected);
    }

    #[test]
    fn interning_is_equality(path in path(), lines in lines()) {
        let root = RootDiff { path: path.into(), edit_type: EditType::Add, lines: source(&lines), format: Format::Fence };
        let mut builder = TaskCodeBuilder::new();
        builder.begin_turn(0);
        let first = builder.push_root(&root, 0);
        builder.begin_turn(1);
        let second = builder.push_root(&root, 10);
        let code = builder.finish().expect("a small task");
        code.validate().expect("the invariants");
        let kept: Vec<(usize, Vec<Vec<u8>>)> =
            lex(path, &lines).into_iter().enumerate().filter(|(_, tokens)| !tokens.is_empty()).collect();
        prop_assert_eq!(code.n_roots(), if kept.is_empty() { 0 } else { 2 });
        prop_assert_eq!((first, second), if kept.is_empty() { (None, None) } else { (Some(0), Some(1)) });
        prop_assert_eq!(code.n_lines(), 2 * kept.len());
        for (at, (line_idx, tokens)) in kept.iter().enumerate() {
            for (of_root, offset) in [(0, 0), (1, 10)] {
                let span = Span { root: of_root, start: at as u32, len: 1 };
                let text: Vec<Vec<u8>> =
                    code.tokens_of(span).iter().map(|&t| code.vocabulary[t as usize].to_vec()).collect();
                prop_assert_eq!(&text, tokens);
                let bytes = &root.lines[*line_idx].bytes;
                let bytes = bytes.start + offset..bytes.end + offset;
                prop_assert_eq!(code.bytes_of(span).collect::<Vec<_>>(), vec![bytes]);
            }
            for (other, (_, other_tokens)) in kept.iter().enumerate() {
                prop_assert_eq!(code.line_ids[at] == code.line_ids[other], tokens == other_tokens);
            }
        }
    }

    #[test]
    fn windows_are_those_of_the_definition(code in task(), max_lines in 0..8_u32) {
        let windows =
            if max_lines == 0 { Windows::whole(&code) } else { Windows::all(&code, max_lines) }.expect("a small task");
        let expected = reference::windows::windows(&code, max_lines);
        prop_assert_eq!(windows.len(), expected.len());
        prop_assert_eq!(windows.is_empty(), expected.is_empty());
        prop_assert_eq!(windows.n_places(), expected.iter().map(Vec::len).sum::<usize>());
        for (candidate, places) in (0..).zip(&expected) {
            prop_assert_eq!(windows.places(candidate), places.as_slice());
            prop_assert_eq!(windows.first(candidate), places[0]);
            for &place in places {
                prop_assert_eq!(windows.candidate_of(place), Some(candidate));
            }
        }
        // Any other span has none.
        for root in 0..code.n_roots() as u32 + 1 {
            for start in 0..14 {
                for len in 0..14 {
                    let span = Span { root, start, len };
                    if !expected.iter().any(|places| places.contains(&span)) {
                        prop_assert_eq!(windows.candidate_of(span), None);
                    }
                }
            }
        }
    }
}
