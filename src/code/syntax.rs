//! What a language's comments and strings look like, by the name of its file.
//!
//! The lexer is the same for every language; a [`Syntax`] only tells it which marks begin comments and strings. All of
//! it is a table. [`syntax_of`] costs one pass over the table's names, once per root diff.

use super::languages::{PYTHON, TABLE};

/// Comments and strings of a language, as far as the lexer needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// Name of the language or family.
    pub name: &'static str,
    /// Marks of comments that end with their line.
    pub(crate) line_comments: &'static [LineComment],
    /// Marks of comments that end with a mark of their own. Tried before line comments.
    pub(crate) block_comments: &'static [BlockComment],
    /// Strings, longest opener first.
    pub(crate) strings: &'static [StringRule],
    /// Strings with letters or signs before the quote.
    pub(crate) prefix: Prefix,
    /// A `'` begins a character literal only where one follows (`'x'`, `'\n'`); before a name it makes one token with
    /// it (Rust's lifetimes), else it stands alone.
    pub(crate) tick: bool,
    /// `/…/` is a regular expression where an operand is due.
    pub(crate) regex: bool,
    /// Mostly prose or unquoted text: a quote begins a string only when no word stands before it and it is closed on
    /// its line; apostrophes are then no strings.
    pub(crate) prose: bool,
    /// Lua's `[==[ … ]==]` strings and `--[==[ … ]==]` comments.
    pub(crate) long_brackets: bool,
}

/// A comment that ends with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineComment {
    /// Its first bytes.
    pub(crate) mark: &'static [u8],
    /// Where it can begin.
    pub(crate) at: At,
    /// No comment when one of these follows the mark (and further repetitions of its last byte).
    pub(crate) not_before: &'static [u8],
}

/// Where a line comment can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// Outside strings, anywhere.
    Anywhere,
    /// At the start of a line, after white space, or after one of `;&|()`.
    Word,
    /// Where no token is before it on the line.
    Line,
}

/// A comment with a closing mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockComment {
    /// Opening mark.
    pub(crate) open: &'static [u8],
    /// Closing mark.
    pub(crate) close: &'static [u8],
    /// Comments of this kind can stand inside each other.
    pub(crate) nested: bool,
    /// Both marks count at the first byte of a line only, and the rest of the closing line belongs to the comment.
    pub(crate) first_column: bool,
}

/// A string between two equal marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StringRule {
    /// The mark at both ends.
    pub(crate) quote: &'static [u8],
    /// A backslash takes the next byte with it.
    pub(crate) escapes: bool,
    /// It goes on over line ends. A string without this ends with its line at the latest.
    pub(crate) multi_line: bool,
}

/// Families of string prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// None.
    No,
    /// Up to two letters of `rbuft` in either case.
    Python,
    /// `b`, `c`, and raw `r`, `br`, `cr` with any number of `#`.
    Rust,
    /// `L`, `u`, `U`, `u8`, each also raw with `R"delimiter( … )delimiter"`; and `'` between digits.
    Cpp,
    /// `$"…"`, and verbatim `@"…"` in which `""` is a quote.
    CSharp,
}

/// Suffixes that say nothing about the language: the extension before them counts.
const WRAPPERS: &[&str] = &["j2", "jinja", "jinja2", "erb", "in", "tmpl", "tpl", "bak", "orig"];

/// The syntax of a file, by its name: first the whole name, then the extension, letter case ignored. Python's for an
/// empty path and for anything unknown.
pub fn syntax_of(path: &str) -> Syntax {
    let name = path.trim().rsplit(['/', '\\']).next().unwrap_or("").to_ascii_lowercase();
    let mut rest = name.as_str();
    loop {
        if let Some(row) = TABLE.iter().find(|row| row.2.contains(&rest)) {
            return row.0;
        }
        let Some((stem, extension)) = rest.rsplit_once('.') else {
            return PYTHON;
        };
        if let Some(row) = TABLE.iter().find(|row| row.1.contains(&extension)) {
            return row.0;
        }
        // `Dockerfile.dev` is told by its stem too.
        if stem != "dockerfile" && !WRAPPERS.contains(&extension) {
            return PYTHON;
        }
        rest = stem;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_syntax() {
        for (path, name) in [
            ("", "python"),
            ("a/b/c.py", "python"),
            ("weird.zzz", "python"),
            ("noextension", "python"),
            ("src/lib.rs", "rust"),
            ("SRC\\MAIN.CPP", "c"),
            ("x.tsx", "javascript"),
            ("deploy/Dockerfile", "docker"),
            ("Dockerfile.dev", "docker"),
            ("Makefile", "make"),
            ("values.yaml.j2", "yaml"),
            ("CMakeLists.txt", "cmake"),
            ("notes.txt", "text"),
            ("requirements.txt", "python"),
            (".gitignore", "ignore list"),
            ("a.b/c", "python"),
            ("schema.SQL", "sql"),
            ("App.vue", "vue"),
            ("..", "python"),
            (".", "python"),
            ("x.in.in.in", "python"),
        ] {
            assert_eq!(syntax_of(path).name, name, "{path}");
        }
    }
}
