//! The table of languages: a new one is a row here, and nothing else.

use super::syntax::{At, BlockComment, LineComment, Prefix, StringRule, Syntax};

const fn line(mark: &'static str, at: At) -> LineComment {
    LineComment { mark: mark.as_bytes(), at, not_before: b"" }
}

const fn block(open: &'static str, close: &'static str, nested: bool) -> BlockComment {
    BlockComment { open: open.as_bytes(), close: close.as_bytes(), nested, first_column: false }
}

const fn column_block(open: &'static str, close: &'static str) -> BlockComment {
    BlockComment {
        open: open.as_bytes(),
        close: close.as_bytes(),
        nested: false,
        first_column: true,
    }
}

const fn string(quote: &'static str, escapes: bool, multi_line: bool) -> StringRule {
    StringRule { quote: quote.as_bytes(), escapes, multi_line }
}

const DOUBLE: StringRule = string("\"", true, false);
const SINGLE: StringRule = string("'", true, false);
const SINGLE_PLAIN: StringRule = string("'", false, false);
const TRIPLE_DOUBLE: StringRule = string("\"\"\"", true, true);
const TRIPLE_DOUBLE_RAW: StringRule = string("\"\"\"", false, true);
const TRIPLE_SINGLE: StringRule = string("'''", true, true);
const TEMPLATE: StringRule = string("`", true, true);
const RAW_BACKTICK: StringRule = string("`", false, true);

const QUOTES: &[StringRule] = &[DOUBLE, SINGLE];
const QUOTES_TRIPLE: &[StringRule] = &[TRIPLE_DOUBLE, DOUBLE, SINGLE];
const ONLY_DOUBLE: &[StringRule] = &[DOUBLE];

const SLASHES: &[LineComment] = &[line("//", At::Anywhere)];
const HASH: &[LineComment] = &[line("#", At::Anywhere)];
const HASH_WORD: &[LineComment] = &[line("#", At::Word)];
const HASH_LINE: &[LineComment] = &[line("#", At::Line)];
const C_BLOCK: &[BlockComment] = &[block("/*", "*/", false)];
const C_BLOCK_NESTED: &[BlockComment] = &[block("/*", "*/", true)];

/// No comments, ordinary quotes: what the others differ from.
const BASE: Syntax = Syntax {
    name: "plain",
    line_comments: &[],
    block_comments: &[],
    strings: QUOTES,
    prefix: Prefix::No,
    tick: false,
    regex: false,
    prose: false,
    long_brackets: false,
};

pub(crate) const PYTHON: Syntax = Syntax {
    name: "python",
    line_comments: HASH,
    strings: &[TRIPLE_DOUBLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
    prefix: Prefix::Python,
    ..BASE
};
const SLASH_FAMILY: Syntax =
    Syntax { name: "slash comments", line_comments: SLASHES, block_comments: C_BLOCK, ..BASE };
const TRIPLE_FAMILY: Syntax =
    Syntax { name: "slash comments, triple quotes", strings: QUOTES_TRIPLE, ..SLASH_FAMILY };
const NESTED_FAMILY: Syntax = Syntax {
    name: "nested slash comments",
    line_comments: SLASHES,
    block_comments: C_BLOCK_NESTED,
    strings: &[TRIPLE_DOUBLE_RAW, DOUBLE, SINGLE],
    ..BASE
};
const TEXT: Syntax = Syntax { name: "text", prose: true, ..BASE };
const HASH_FAMILY: Syntax = Syntax { name: "hash comments", line_comments: HASH, ..BASE };
const HASH_WORD_FAMILY: Syntax =
    Syntax { name: "hash comments at words", line_comments: HASH_WORD, ..BASE };
const MARKUP: Syntax =
    Syntax { name: "markup", block_comments: &[block("<!--", "-->", false)], prose: true, ..BASE };

/// A syntax, the extensions it goes with (lower case, without the dot), and whole file names (lower case).
pub(crate) type Row = (Syntax, &'static [&'static str], &'static [&'static str]);

pub(crate) const TABLE: &[Row] = &[
    (
        PYTHON,
        &["py", "pyi", "pyx", "pxd", "pyw", "bzl", "star", "gd", "sage"],
        &["build", "workspace", "sconstruct", "snakefile", "requirements.txt"],
    ),
    (
        Syntax { name: "c", prefix: Prefix::Cpp, ..SLASH_FAMILY },
        &[
            "c", "h", "cc", "cpp", "cxx", "c++", "hpp", "hh", "hxx", "h++", "inl", "ipp", "tpp",
            "cu", "cuh", "m", "mm", "ino", "cl", "glsl", "vert", "frag", "comp", "hlsl", "wgsl",
            "metal",
        ],
        &[],
    ),
    (
        Syntax {
            name: "rust",
            block_comments: C_BLOCK_NESTED,
            strings: ONLY_DOUBLE,
            prefix: Prefix::Rust,
            tick: true,
            ..SLASH_FAMILY
        },
        &["rs", "ron"],
        &[],
    ),
    (Syntax { name: "java", ..TRIPLE_FAMILY }, &["java", "groovy", "gradle"], &["jenkinsfile"]),
    (
        Syntax { name: "go", strings: &[DOUBLE, SINGLE, RAW_BACKTICK], ..SLASH_FAMILY },
        &["go", "mod"],
        &[],
    ),
    (
        Syntax {
            name: "javascript",
            strings: &[DOUBLE, SINGLE, TEMPLATE],
            regex: true,
            ..SLASH_FAMILY
        },
        &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "es6"],
        &[],
    ),
    (
        Syntax {
            name: "vue",
            line_comments: &[line("//", At::Word)],
            block_comments: &[block("<!--", "-->", false), block("/*", "*/", false)],
            strings: &[DOUBLE, SINGLE, TEMPLATE],
            ..MARKUP
        },
        &["vue", "svelte", "astro"],
        &[],
    ),
    (
        Syntax { name: "shell", strings: &[DOUBLE, SINGLE_PLAIN], ..HASH_WORD_FAMILY },
        &["sh", "bash", "zsh", "ksh", "ash", "fish", "bats", "envrc"],
        &[".bashrc", ".bash_profile", ".zshrc", ".profile", "pkgbuild"],
    ),
    (
        Syntax {
            name: "ruby",
            block_comments: &[column_block("=begin", "=end")],
            ..HASH_WORD_FAMILY
        },
        &["rb", "rake", "gemspec", "ru", "cr"],
        &["gemfile", "rakefile", "vagrantfile", "podfile"],
    ),
    (
        Syntax {
            name: "sql",
            line_comments: &[line("--", At::Anywhere)],
            block_comments: C_BLOCK,
            strings: &[SINGLE_PLAIN, string("\"", false, false), string("`", false, false)],
            ..BASE
        },
        &["sql", "psql", "ddl", "hql"],
        &[],
    ),
    (
        Syntax {
            name: "lua",
            line_comments: &[line("--", At::Anywhere)],
            long_brackets: true,
            ..BASE
        },
        &["lua", "luau"],
        &[],
    ),
    (
        MARKUP,
        &["html", "htm", "xhtml", "xml", "svg", "xsd", "xsl", "xslt", "plist", "csproj", "rss"],
        &[],
    ),
    (Syntax { name: "css", block_comments: C_BLOCK, ..BASE }, &["css"], &[]),
    (
        Syntax {
            name: "scss",
            line_comments: &[line("//", At::Word)],
            block_comments: C_BLOCK,
            ..BASE
        },
        &["scss", "sass", "less", "styl"],
        &[],
    ),
    (
        Syntax { name: "yaml", strings: &[DOUBLE, SINGLE_PLAIN], prose: true, ..HASH_WORD_FAMILY },
        &["yaml", "yml"],
        &[],
    ),
    (
        Syntax {
            name: "toml",
            strings: &[TRIPLE_DOUBLE, string("'''", false, true), DOUBLE, SINGLE_PLAIN],
            ..HASH_FAMILY
        },
        &["toml"],
        &["pipfile", "cargo.lock", "poetry.lock"],
    ),
    (
        Syntax { name: "ini", line_comments: &[line("#", At::Line), line(";", At::Line)], ..TEXT },
        &["ini", "cfg", "conf", "properties", "env", "desktop", "service"],
        &[".env", ".gitconfig", ".editorconfig"],
    ),
    (
        Syntax { name: "ignore list", line_comments: HASH_LINE, ..TEXT },
        &[],
        &[".gitignore", ".dockerignore", ".gitattributes", "codeowners"],
    ),
    (
        Syntax { name: "json", strings: ONLY_DOUBLE, ..BASE },
        &["json", "ipynb", "geojson", "jsonl"],
        &[],
    ),
    (
        SLASH_FAMILY,
        &["jsonc", "json5", "proto", "thrift", "sol", "zig", "d", "v", "sv", "fbs"],
        &[],
    ),
    (
        Syntax {
            name: "c#",
            strings: &[TRIPLE_DOUBLE_RAW, DOUBLE, SINGLE],
            prefix: Prefix::CSharp,
            ..SLASH_FAMILY
        },
        &["cs", "csx"],
        &[],
    ),
    (Syntax { name: "kotlin", ..NESTED_FAMILY }, &["kt", "kts"], &[]),
    (
        Syntax {
            name: "scala",
            tick: true,
            strings: &[TRIPLE_DOUBLE_RAW, DOUBLE],
            ..NESTED_FAMILY
        },
        &["scala", "sc", "sbt"],
        &[],
    ),
    (Syntax { name: "swift", strings: &[TRIPLE_DOUBLE, DOUBLE], ..NESTED_FAMILY }, &["swift"], &[]),
    (
        Syntax {
            name: "dart",
            strings: &[TRIPLE_DOUBLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
            ..NESTED_FAMILY
        },
        &["dart"],
        &[],
    ),
    (
        Syntax {
            name: "php",
            line_comments: &[
                line("//", At::Anywhere),
                LineComment { mark: b"#", at: At::Anywhere, not_before: b"[" },
            ],
            ..SLASH_FAMILY
        },
        &["php", "phtml"],
        &[],
    ),
    (
        Syntax {
            name: "haskell",
            line_comments: &[LineComment {
                mark: b"--",
                at: At::Anywhere,
                not_before: b"!#$%&*+./<=>?@\\^|~:",
            }],
            block_comments: &[block("{-", "-}", true)],
            strings: ONLY_DOUBLE,
            tick: true,
            ..BASE
        },
        &["hs", "elm", "purs", "agda", "idr"],
        &[],
    ),
    (
        Syntax {
            name: "ocaml",
            block_comments: &[block("(*", "*)", true)],
            strings: ONLY_DOUBLE,
            tick: true,
            ..BASE
        },
        &["ml", "mli"],
        &[],
    ),
    (
        Syntax {
            name: "f#",
            line_comments: SLASHES,
            block_comments: &[block("(*", "*)", true)],
            strings: &[TRIPLE_DOUBLE_RAW, DOUBLE],
            tick: true,
            ..BASE
        },
        &["fs", "fsx", "fsi"],
        &[],
    ),
    (HASH_FAMILY, &["r", "graphql", "gql", "awk", "pp", "tcl", "coffee"], &[]),
    (
        Syntax {
            name: "julia",
            block_comments: &[block("#=", "=#", true)],
            strings: &[TRIPLE_DOUBLE, DOUBLE],
            tick: true,
            ..HASH_FAMILY
        },
        &["jl"],
        &[],
    ),
    (
        Syntax {
            name: "nim",
            block_comments: &[block("#[", "]#", true)],
            strings: &[TRIPLE_DOUBLE_RAW, DOUBLE],
            tick: true,
            ..HASH_FAMILY
        },
        &["nim", "nims"],
        &[],
    ),
    (
        Syntax {
            name: "elixir",
            strings: &[TRIPLE_DOUBLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
            ..HASH_WORD_FAMILY
        },
        &["ex", "exs"],
        &[],
    ),
    (
        Syntax {
            name: "perl",
            block_comments: &[
                column_block("=pod", "=cut"),
                column_block("=head", "=cut"),
                column_block("=over", "=cut"),
                column_block("=begin", "=cut"),
            ],
            ..HASH_WORD_FAMILY
        },
        &["pl", "pm", "t"],
        &[],
    ),
    (
        Syntax { name: "make", strings: &[DOUBLE, SINGLE_PLAIN], ..HASH_WORD_FAMILY },
        &["mk", "mak", "make"],
        &["makefile", "gnumakefile"],
    ),
    (
        Syntax {
            name: "docker",
            strings: &[DOUBLE, SINGLE_PLAIN],
            line_comments: HASH_LINE,
            ..BASE
        },
        &[],
        &["dockerfile", "containerfile"],
    ),
    (
        Syntax {
            name: "cmake",
            block_comments: &[block("#[[", "]]", false)],
            strings: ONLY_DOUBLE,
            ..HASH_FAMILY
        },
        &["cmake"],
        &["cmakelists.txt"],
    ),
    (
        Syntax {
            name: "powershell",
            block_comments: &[block("<#", "#>", false)],
            ..HASH_WORD_FAMILY
        },
        &["ps1", "psm1", "psd1"],
        &[],
    ),
    (
        Syntax {
            name: "terraform",
            line_comments: &[line("#", At::Anywhere), line("//", At::Anywhere)],
            strings: ONLY_DOUBLE,
            ..SLASH_FAMILY
        },
        &["tf", "tfvars", "hcl"],
        &[],
    ),
    (
        Syntax {
            name: "nix",
            block_comments: C_BLOCK,
            strings: &[string("''", false, true), DOUBLE],
            ..HASH_FAMILY
        },
        &["nix"],
        &[],
    ),
    (
        Syntax {
            name: "lisp",
            line_comments: &[line(";", At::Anywhere)],
            block_comments: &[block("#|", "|#", true)],
            strings: ONLY_DOUBLE,
            tick: true,
            ..BASE
        },
        &["clj", "cljs", "cljc", "edn", "lisp", "el", "scm", "rkt"],
        &[],
    ),
    (
        Syntax {
            name: "percent comments",
            line_comments: &[line("%", At::Word)],
            prose: true,
            ..BASE
        },
        &["tex", "sty", "cls", "bib", "erl", "hrl"],
        &[],
    ),
    (
        Syntax { name: "fortran", line_comments: &[line("!", At::Anywhere)], ..BASE },
        &["f90", "f95", "f03", "f08"],
        &[],
    ),
    (
        TEXT,
        &[
            "md", "markdown", "rst", "txt", "text", "adoc", "csv", "tsv", "log", "diff", "patch",
            "po", "pot",
        ],
        &["license", "readme", "changelog", "authors", "copying"],
    ),
];

/// The most entries a syntax has in each of its lists; the lexer numbers its multi-line constructs by them.
pub(crate) const MOST_RULES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_well_formed() {
        let mut names = std::collections::BTreeSet::new();
        for (syntax, extensions, files) in TABLE {
            assert!(syntax.block_comments.len() <= MOST_RULES, "{}", syntax.name);
            assert!(syntax.strings.len() <= MOST_RULES, "{}", syntax.name);
            for name in extensions.iter().chain(files.iter()) {
                assert!(names.insert(*name), "{name} stands twice in the table");
                assert_eq!(*name, name.to_ascii_lowercase());
            }
            let marks = syntax.line_comments.iter().map(|c| c.mark);
            for mark in marks.chain(syntax.block_comments.iter().flat_map(|b| [b.open, b.close])) {
                assert!(mark.iter().all(|b| b.is_ascii() && !b.is_ascii_whitespace()));
                assert!(
                    mark.first().is_some_and(|b| b.is_ascii_punctuation()),
                    "the lexer tries marks at punctuation"
                );
            }
            // A longer opener that begins with a shorter one must be tried first.
            for (i, rule) in syntax.strings.iter().enumerate() {
                assert!(
                    syntax.strings[..i]
                        .iter()
                        .all(|earlier| !rule.quote.starts_with(earlier.quote))
                );
            }
        }
    }
}
