//! Lexing, normalisation, interning and windows on small texts, token by token.

use hunkwise::code::lexer::{self, Lexed};
use hunkwise::code::syntax::syntax_of;
use hunkwise::code::{Root, Span, TaskCode, TaskCodeBuilder, Windows};
use hunkwise::edits::{EditType, Format, RootDiff, SourceLine};
use hunkwise::error::Error;

/// Tokens of each line, joined by `·`; a line without tokens is empty.
fn lexed_bytes(path: &str, lines: &[&[u8]]) -> Vec<String> {
    let mut lexed = Lexed::default();
    lexer::lex(&syntax_of(path), lines.len(), |i| lines[i], &mut lexed);
    assert_eq!(lexed.n_lines(), lines.len());
    let text = |i: usize| {
        let tokens = lexed
            .line(i)
            .iter()
            .map(|r| String::from_utf8_lossy(&lines[i][r.clone()]).into_owned());
        tokens.collect::<Vec<_>>().join("·")
    };
    (0..lines.len()).map(text).collect()
}

#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    let lines: Vec<&[u8]> = text.split('\n').map(str::as_bytes).collect();
    assert_eq!(lexed_bytes(path, &lines), expected, "{path}: {text:?}");
}

#[test]
fn python() {
    check("a.py", "x = f(1, 'a # b')  # c", &["x·=·f·(·1·,·'a # b'·)"]);
    check("a.py", "# only a comment\n\n   \t\ny", &["", "", "", "y"]);
    check("a.py", "a // b ** c != d -> e := f", &["a·//·b·**·c·!=·d·->·e·:=·f"]);
    check("a.py", "s = rb'\\'#' + f\"{x}\" + u''", &["s·=·rb'\\'#'·+·f\"{x}\"·+·u''"]);
    check("a.py", "xs[::-1]", &["xs·[·::·-·1·]"]);
    check("a.py", "bar'x'", &["bar·'x'"]);
    check("a.py", "#!/usr/bin/env python3\nx", &["", "x"]);
}

#[test]
fn python_docstring_stays_and_its_lines_are_tokens() {
    check(
        "a.py",
        "def f():\n    \"\"\"Say  hi. # not a comment\n\n      More.   \n    \"\"\"  # comment\n    return 1",
        &["def·f·(·)·:", "\"\"\"Say  hi. # not a comment", "", "More.", "\"\"\"", "return·1"],
    );
    check("a.py", "'''one'''; x", &["'''one'''·;·x"]);
    check("a.py", "r'''a\\'''b'''", &["r'''a\\'''b'''"]);
}

#[test]
fn unterminated_quote_ends_with_its_line() {
    check("a.py", "x = 'abc # d  \ny", &["x·=·'abc # d", "y"]);
    check("a.c", "char *s = \"abc // d\nint y;", &["char·*·s·=·\"abc // d", "int·y·;"]);
}

#[test]
fn stray_opener_does_not_swallow_the_root() {
    // The end of a docstring whose beginning is not in the diff.
    check("a.py", "text\"\"\"\nx = 1 # c\ny = 2", &["text·\"\"\"", "x·=·1", "y·=·2"]);
    // The beginning of a comment whose end is not in the diff; complete comments before it are still comments.
    check("a.c", "a /* b */ c\n/* d\ne // f\ng", &["a·c", "/*·d", "e", "g"]);
    // Two kinds, one after the other.
    check("a.js", "a `b\nc /* d\ne", &["a·`·b", "c·/*·d", "e"]);
    // The opener stands on the line where an earlier comment ends.
    check("a.c", "a /* b\nc */ d /* e\nf", &["a", "d·/*·e", "f"]);
    // Nested comments: the outer one lacks its end.
    check("a.rs", "a /* b /* c */\nd", &["a·/*·b·/*·c·*·/", "d"]);
    check("a.rs", "r#\"a\nb", &["r#\"·a", "b"]);
    check("a.py", "x = rb\"\"\"a\n  # b", &["x·=·rb\"\"\"·a", ""]);
}

#[test]
fn c_family() {
    check("a.c", "#include <stdio.h> // io", &["#·include·<·stdio·.·h·>"]);
    check("a.cpp", "x = a/*b*/+c; /* d", &["x·=·a·+·c·;·/*·d"]);
    check("a.cpp", "a /* one\n two // */ b\nc", &["a", "b", "c"]);
    check(
        "a.cc",
        "auto s = R\"x(a)\" // )x\"; n = 1'000u;",
        &["auto·s·=·R\"x(a)\" // )x\"·;·n·=·1'000u·;"],
    );
    check("a.cc", "u8R\"(a\n  b )\" c", &["u8R\"(a", "b )\"·c"]);
    check("a.cu", "k<<<1, 2>>>(p); L'x' u8\"y\"", &["k·<<<·1·,·2·>>>·(·p·)·;·L'x'·u8\"y\""]);
    check("a.h", "p->q += *r++ >>= 3", &["p·->·q·+=·*·r·++·>>=·3"]);
}

#[test]
fn rust() {
    check("a.rs", "let x = 'a'; // b", &["let·x·=·'a'·;"]);
    check("a.rs", "fn f<'a>(s: &'a str) {}", &["fn·f·<·'a·>·(·s·:·&·'a·str·)·{·}"]);
    check(
        "a.rs",
        "r#\"a \" // b\"# + br\"c\\\" + b'\\'' + b\"d\" + c\"e\"",
        &["r#\"a \" // b\"#·+·br\"c\\\"·+·b'\\''·+·b\"d\"·+·c\"e\""],
    );
    check("a.rs", "/* a /* b */ c */ d", &["d"]);
    check("a.rs", "/// doc\n//! doc\n#![allow(x)]", &["", "", "#·!·[·allow·(·x·)·]"]);
    check("a.rs", "r##\"a\n  \"# b\n  c\"## d", &["r##\"a", "\"# b", "c\"##·d"]);
    check(
        "a.rs",
        "0..=n 1..2 1.5e-3 0xff_u8 r#type '\"' '\\''",
        &["0·..=·n·1·..·2·1.5e-3·0xff_u8·r·#·type·'\"'·'\\''"],
    );
    check("a.rs", "x.0 + y(.5)", &["x·.·0·+·y·(·.5·)"]);
}

#[test]
fn java_go_kotlin_swift_scala_csharp_php() {
    check(
        "A.java",
        "/** doc */ String s = \"\"\"\n   a // b\n   \"\"\"; // c",
        &["String·s·=·\"\"\"", "a // b", "\"\"\"·;"],
    );
    check("a.go", "s := `a\\` // b\nx <- c /* d */", &["s·:=·`a\\`", "x·<-·c"]);
    check("a.kt", "/* a /* b */ */ val s = \"\"\"c\\\"\"\" // d", &["val·s·=·\"\"\"c\\\"\"\""]);
    check("a.swift", "x ?? y // z", &["x·??·y"]);
    check("a.scala", "'sym => 'c' // d", &["'·sym·=>·'c'"]);
    check(
        "a.cs",
        "@\"a\\\" + $\"b\" + $@\"c\"\"//\" + @id // d",
        &["@\"a\\\"·+·$\"b\"·+·$@\"c\"\"//\"·+·@·id"],
    );
    check("a.cs", "@\"a\n  b\"; c", &["@\"a", "b\"·;·c"]);
    check("a.php", "#[Attr] # a\n$x = 'it\\'s'; // b", &["#·[·Attr·]", "$·x·=·'it\\'s'·;"]);
}

#[test]
fn javascript() {
    check("a.js", "const u = 'http://x'; // c", &["const·u·=·'http://x'·;"]);
    check("a.ts", "a === b && c?.d ?? e => f", &["a·===·b·&&·c·?.·d·??·e·=>·f"]);
    check("a.js", "s = `a // b\n  ${c} \\` d\n  e` + f", &["s·=·`a // b", "${c} \\` d", "e`·+·f"]);
    check(
        "a.js",
        "x = y.replace(/[/\"]\\/'/g, '') / 2 / z",
        &["x·=·y·.·replace·(·/[/\"]\\/'/g·,·''·)·/·2·/·z"],
    );
    check("a.jsx", "<b>{/* c */}</b><i/>", &["<·b·>·{·}·<·/·b·>·<·i·/>"]);
    check("a.mjs", "#!/usr/bin/env node\nimport x", &["", "import·x"]);
}

#[test]
fn shell_make_docker() {
    check("a.sh", "#!/bin/sh\necho $# ${#x} a#b # c", &["", "echo·$·#·$·{·#·x·}·a·#·b"]);
    check("a.sh", "echo 'it\\' \"a # \\\" b\";# c", &["echo·'it\\'·\"a # \\\" b\"·;"]);
    check("Makefile", "all: a.o # b\n\tcc $@ $<", &["all·:·a·.·o", "cc·$·@·$·<"]);
    check("Dockerfile", "# a\nRUN x # b", &["", "RUN·x·#·b"]);
}

#[test]
fn ruby_perl() {
    check("a.rb", "=begin\nx\n=end y\nputs \"#{a} b\" # c", &["", "", "", "puts·\"#{a} b\""]);
    check("a.rb", " =begin\nx", &["=·begin", "x"]);
    check("a.rb", "=begin\nx", &["=begin", "x"]);
    check("a.pl", "=head1 NAME\n\na\n\n=cut\n$#x; # y", &["", "", "", "", "", "$·#·x·;"]);
}

#[test]
fn sql_lua_haskell() {
    check(
        "a.sql",
        "SELECT 'a--b', \"c\" -- d\nFROM t /* e\nf */ WHERE x<>'it''s'",
        &["SELECT·'a--b'·,·\"c\"", "FROM·t", "WHERE·x·<>·'it'·'s'"],
    );
    check("a.lua", "x = 1 -- c\n--[==[ a\n]] b ]==] y", &["x·=·1", "", "y"]);
    check(
        "a.lua",
        "s = [[a -- b\n  c]] .. [=[d]=] -- e\nt[i] --[ f",
        &["s·=·[[a -- b", "c]]·..·[=[d]=]", "t·[·i·]"],
    );
    check("a.hs", "a --> b -- c\n{- d {- e -} -} f' 'x' |-- g", &["a·--·>·b", "f·'·'x'·|"]);
}

#[test]
fn markup_and_styles() {
    check(
        "a.html",
        "<a href=\"http://x\">don't</a><!-- b\nc --> d",
        &["<·a·href·=·\"http://x\"·>·don·'·t·<·/·a·>", "d"],
    );
    check("a.css", "a { b: 'c/*d*/'; } /* e */ f", &["a·{·b·:·'c/*d*/'·;·}·f"]);
    check("a.scss", "a: url(http://b); // c", &["a·:·url·(·http·:·//·b·)·;"]);
    check("a.xml", "<!-- a --><b c='d'/>", &["<·b·c·=·'d'·/>"]);
    check("a.vue", "<p>it's</p> <!-- a -->\nx = 1 // b", &["<·p·>·it·'·s·<·/·p·>", "x·=·1"]);
}

#[test]
fn configuration_and_text() {
    check(
        "a.yaml",
        "a: don't # b\nc: 'd # e'\nf: g#h",
        &["a·:·don·'·t", "c·:·'d # e'", "f·:·g·#·h"],
    );
    check(
        "a.toml",
        "a = \"\"\"\n# b\n\"\"\" # c\nd = 'e\\' # f",
        &["a·=·\"\"\"", "# b", "\"\"\"", "d·=·'e\\'"],
    );
    check("a.ini", "; a\n# b\nc = d ; e", &["", "", "c·=·d·;·e"]);
    check("a.json", "{\"a\": \"# // b\"}", &["{·\"a\"·:·\"# // b\"·}"]);
    check("a.md", "# Title\nit's \"one\" \"two", &["#·Title", "it·'·s·\"one\"·\"·two"]);
}

#[test]
fn others() {
    check("a.r", "x <- 1 # a", &["x·<-·1"]);
    check("a.jl", "#= a #= b =# =# y' |> z # c", &["y·'·|>·z"]);
    check("CMakeLists.txt", "#[[ a\nb ]] set(x) # c", &["", "set·(·x·)"]);
    check("a.ps1", "<# a #> $x # b", &["$·x"]);
    check("a.clj", "(f 'x) ; a", &["(·f·'·x·)"]);
    check("a.tf", "a = 1 # b\nc // d", &["a·=·1", "c"]);
    check("a.ml", "(* a (* b *) *) let x", &["let·x"]);
}

#[test]
fn unknown_file_is_like_python() {
    check("", "x = 1 # c", &["x·=·1"]);
    check("what.ever", "x = '''a\nb''' # c", &["x·=·'''a", "b'''"]);
}

#[test]
fn carriage_returns_tabs_form_feeds_and_byte_order_mark() {
    check("a.py", "\tx = 1\r\n\x0cy\r\n\r", &["x·=·1", "y", ""]);
    check("a.py", "\u{feff}x = 1\ny", &["x·=·1", "y"]);
    check("a.py", "'''a\r\nb\r\n'''", &["'''a", "b", "'''"]);
    check("a.py", "x = 'a\r\ny", &["x·=·'a", "y"]);
}

#[test]
fn bytes_beyond_ascii_are_letters() {
    check("a.py", "naïve = größe1 + 'é' # ü", &["naïve·=·größe1·+·'é'"]);
    check("a.rs", "'é' 'ö", &["'é'·'ö"]);
    assert_eq!(
        lexed_bytes("a.py", &[b"a\xff\xfe = \x80+\x001"]),
        ["a\u{fffd}\u{fffd}·=·\u{fffd}·+·\0·1"]
    );
    assert_eq!(lexed_bytes("a.rs", &[b"'\xf0\x9f'"]), ["'\u{fffd}·'"]);
}

/// A line with its bytes; bytes are counted as if the lines stood one after another from `at`.
fn source(lines: &[&str], mut at: usize) -> Vec<SourceLine> {
    let line = |text: &&str| {
        let bytes = at..at + text.len() + 1;
        at = bytes.end;
        SourceLine { text: text.as_bytes().to_vec(), bytes }
    };
    lines.iter().map(line).collect()
}

fn root(path: &str, edit_type: EditType, lines: &[&str]) -> RootDiff {
    RootDiff { path: path.into(), edit_type, lines: source(lines, 0), format: Format::UnifiedDiff }
}

#[test]
fn task_code_of_two_turns() {
    let mut builder = TaskCodeBuilder::new();
    assert_eq!(builder.begin_turn(0), 0);
    let first = root("a.py", EditType::Add, &["x = 1", "", "# c", "\ty = x  # d", "x=1"]);
    assert_eq!(builder.push_root(&first, 100), Some(0));
    assert_eq!(builder.push_root(&root("a.py", EditType::Add, &["# nothing", " "]), 0), None);
    assert_eq!(builder.begin_turn(0), 1);
    assert_eq!(builder.begin_turn(2), 2);
    assert_eq!(builder.push_root(&root("b.c", EditType::Delete, &["# x", "y = x;"]), 7), Some(1));
    let code = builder.finish().unwrap();
    code.validate().unwrap();
    let text = |s: &str| s.as_bytes().to_vec().into_boxed_slice();
    assert_eq!(
        code,
        TaskCode {
            tokens: vec![0, 1, 2, 3, 1, 0, 0, 1, 2, 4, 0, 3, 1, 0, 5],
            line_tokens: vec![0, 3, 6, 9, 11, 15],
            line_ids: vec![0, 1, 0, 2, 3],
            line_bytes: vec![100..106, 111..123, 123..127, 7..11, 11..18],
            root_lines: vec![0, 3, 5],
            roots: vec![
                Root { turn: 0, edit_type: EditType::Add, path: "a.py".into() },
                Root { turn: 2, edit_type: EditType::Delete, path: "b.c".into() },
            ],
            vocabulary: ["x", "=", "1", "y", "#", ";"].map(text).to_vec(),
            turn_trajectory: vec![0, 0, 2],
        }
    );
    assert_eq!((code.n_roots(), code.n_lines(), code.n_turns()), (2, 5, 3));
    assert_eq!((code.lines_of(0), code.lines_of(1)), (0..3, 3..5));
    let whole = Span { root: 0, start: 0, len: 3 };
    assert_eq!(code.tokens_of(whole), [0, 1, 2, 3, 1, 0, 0, 1, 2]);
    assert_eq!(code.tokens_of(Span { root: 1, start: 1, len: 1 }), [3, 1, 0, 5]);
    // The blank line and the comment between the first two lines are not the window's.
    assert_eq!(code.bytes_of(whole).collect::<Vec<_>>(), [100..106, 111..127]);
    let mut touching = code.bytes_of(Span { root: 1, start: 0, len: 2 });
    assert_eq!((touching.next(), touching.next()), (Some(7..18), None));
}

#[test]
fn empty_task() {
    let code = TaskCodeBuilder::new().finish().unwrap();
    code.validate().unwrap();
    for windows in [Windows::all(&code, 32).unwrap(), Windows::whole(&code).unwrap()] {
        assert!(windows.is_empty());
        assert_eq!((windows.len(), windows.n_places()), (0, 0));
        assert_eq!(windows.candidate_of(Span { root: 0, start: 0, len: 1 }), None);
    }
    // The default has no ends at all, and still no windows.
    assert!(Windows::all(&TaskCode::default(), 1).unwrap().is_empty());
    assert!(TaskCode::default().validate().is_err());
}

/// Roots of one-letter lines, one per turn.
fn letters(roots: &[(EditType, &str)]) -> TaskCode {
    let mut builder = TaskCodeBuilder::new();
    for (edit_type, lines) in roots {
        builder.begin_turn(0);
        let lines: Vec<&str> = lines.split("").filter(|l| !l.is_empty()).collect();
        builder.push_root(&root("", *edit_type, &lines), 0);
    }
    builder.finish().unwrap()
}

fn span(root: u32, start: u32, len: u32) -> Span {
    Span { root, start, len }
}

fn all_places(windows: &Windows) -> Vec<Vec<Span>> {
    (0..windows.len() as u32).map(|c| windows.places(c).to_vec()).collect()
}

#[test]
fn windows_of_up_to_two_lines_and_whole_roots() {
    use EditType::{Add, Delete};
    let code = letters(&[(Delete, "ab"), (Add, "abab"), (Delete, "b"), (Add, "ba"), (Add, "abab")]);
    let windows = Windows::all(&code, 2).unwrap();
    assert_eq!(
        all_places(&windows),
        [
            // Additions first, in the order of their first places.
            vec![span(1, 0, 1), span(1, 2, 1), span(3, 1, 1), span(4, 0, 1), span(4, 2, 1)],
            vec![span(1, 0, 2), span(1, 2, 2), span(4, 0, 2), span(4, 2, 2)],
            vec![span(1, 0, 4), span(4, 0, 4)],
            vec![span(1, 1, 1), span(1, 3, 1), span(3, 0, 1), span(4, 1, 1), span(4, 3, 1)],
            vec![span(1, 1, 2), span(3, 0, 2), span(4, 1, 2)],
            vec![span(0, 0, 1)],
            vec![span(0, 0, 2)],
            vec![span(0, 1, 1), span(2, 0, 1)],
        ]
    );
    assert_eq!((windows.len(), windows.n_places(), windows.max_lines()), (8, 23, 2));
    assert_eq!(windows.first(4), span(1, 1, 2));
    assert_eq!(windows.candidate_of(span(4, 1, 2)), Some(4));
    assert_eq!(windows.candidate_of(span(4, 0, 4)), Some(2));
    for none in [
        span(1, 0, 3),
        span(1, 3, 2),
        span(1, 4, 1),
        span(1, 0, 0),
        span(5, 0, 1),
        span(1, 1, u32::MAX),
    ] {
        assert_eq!(windows.candidate_of(none), None, "{none:?}");
    }
}

#[test]
fn whole_roots_only() {
    use EditType::{Add, Overwrite};
    let code = letters(&[(Overwrite, "abc"), (Add, "abc"), (Add, "a"), (Add, "abc")]);
    let windows = Windows::whole(&code).unwrap();
    assert_eq!(
        all_places(&windows),
        [vec![span(1, 0, 3), span(3, 0, 3)], vec![span(2, 0, 1)], vec![span(0, 0, 3)]]
    );
    assert_eq!(windows.max_lines(), 0);
    assert_eq!(windows.candidate_of(span(1, 0, 3)), Some(0));
    assert_eq!(windows.candidate_of(span(1, 0, 1)), None);
}

#[test]
fn no_lines_per_window_is_an_error() {
    assert!(matches!(
        Windows::all(&TaskCode::default(), 0),
        Err(Error::Config { name: "max_lines", .. })
    ));
}

#[test]
fn too_many_windows_are_an_error() {
    // 100 000 lines, all of their windows: 5 000 050 000. Made by hand: every line is the token 0.
    let n: u32 = 100_000;
    let code = TaskCode {
        tokens: vec![0; n as usize],
        line_tokens: (0..=n).collect(),
        line_ids: vec![0; n as usize],
        line_bytes: vec![0..1; n as usize],
        root_lines: vec![0, n],
        roots: vec![Root { turn: 0, edit_type: EditType::Add, path: String::new() }],
        vocabulary: vec![b"x".as_slice().into()],
        turn_trajectory: vec![0],
    };
    code.validate().unwrap();
    match Windows::all(&code, u32::MAX) {
        Err(Error::Limit { needed, .. }) => assert_eq!(needed, 5_000_050_001),
        other => panic!("{:?}", other.map(|w| w.len())),
    }
    // Few are no trouble, though all lines are equal.
    let windows = Windows::all(&code, 3).unwrap();
    assert_eq!((windows.len(), windows.n_places()), (4, 299_998));
}

#[test]
fn validate_names_what_is_broken() {
    let good = letters(&[(EditType::Add, "aba"), (EditType::Add, "c")]);
    good.validate().unwrap();
    type Break = fn(&mut TaskCode);
    let breaks: [(&str, Break); 12] = [
        ("line_tokens", |c| c.line_tokens[1] = 0),
        ("line_tokens", |c| c.line_tokens.truncate(1)),
        ("root_lines", |c| c.root_lines[0] = 1),
        ("line_bytes", |c| c.line_bytes.truncate(1)),
        ("line_bytes[0]", |c| c.line_bytes[0] = std::ops::Range { start: 2, end: 1 }),
        ("tokens[0]", |c| c.tokens[0] = 1),
        ("line_ids[3]", |c| c.line_ids[3] = 0),
        ("tokens has 3", |c| c.vocabulary.push(b"d".as_slice().into())),
        ("vocabulary[2]", |c| c.vocabulary[2] = b"a".as_slice().into()),
        ("vocabulary[1] is empty", |c| c.vocabulary[1] = Box::default()),
        ("of turn 9", |c| c.roots[1].turn = 9),
        ("turn_trajectory", |c| c.turn_trajectory = vec![1, 0]),
    ];
    for (name, break_it) in breaks {
        let mut code = good.clone();
        break_it(&mut code);
        let message = code.validate().unwrap_err().to_string();
        assert!(message.contains(name), "{name}: {message}");
    }
}
