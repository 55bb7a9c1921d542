//! The lexer: lines of code in, byte ranges of code tokens out, for any language.
//!
//! Linear in the bytes of a root diff (each byte is read a bounded number of times, however odd the text). What a
//! language's comments and strings look like comes from [`Syntax`]; all else is common:
//! - a token is a word (letters, digits, `_`, every byte beyond ASCII), a number, a string with its quotes and prefix,
//!   an operator (longest match of one table), or one byte of anything else;
//! - white space separates tokens and makes none, so indentation and trailing blanks never matter; a comment makes
//!   none;
//! - every byte that is neither white space nor in a comment is in exactly one token;
//! - a string that does not end on its line ends with it (in prose the quote is a token of its own), unless its
//!   language lets it go on: then its part on each line is one token, from the first to the last byte that is not
//!   white space, and a blank line inside gives none;
//! - block comments and such strings carry over the lines of one root. A root is often a piece of a file, so an
//!   opener may lack its end. When something is still open at the end of the root, lexing goes back to its opener,
//!   which then is an ordinary token, as is every later opener of its kind in this root: a stray `"""` or `/*` cannot
//!   swallow the rest. Each kind can cost one more pass at most;
//! - `#!/…` in the first line is a comment in every language, and a byte-order mark there is white space.
//!
//! Known limits: a string in ordinary quotes that its language would let go on (shell, SQL, Rust, CMake) is cut at the
//! line end all the same, since in a piece of a file one odd quote would turn all code into text and all text into
//! code; substitutions inside strings are not looked into (a quote of the same kind inside `${…}` ends the string);
//! here-documents are lexed as code; a regular expression is known only in JavaScript, by the token before it. Marks
//! that count in the first column only (`=begin`, `=pod`, `#!/`) are the one place where indentation matters.

use std::ops::Range;

use super::languages::MOST_RULES;
use super::open::{Close, KIND_LONG_COMMENT, KIND_LONG_STRING, N_KINDS, Open, close_of};
use super::scan;
use super::syntax::{At, Prefix, Syntax};

/// The tokens of some lines; reusable from root to root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lexed {
    /// Bytes of each token within its line, line by line, in order and disjoint.
    tokens: Vec<Range<usize>>,
    /// End of each line's tokens in `tokens`.
    line_ends: Vec<usize>,
}

impl Lexed {
    /// Lines that were lexed.
    pub fn n_lines(&self) -> usize {
        self.line_ends.len()
    }

    /// Bytes of each token of a line, counted inside the line; empty for a line of nothing but comment or white space,
    /// and for one that does not exist.
    pub fn line(&self, line_idx: usize) -> &[Range<usize>] {
        let Some(&end) = self.line_ends.get(line_idx) else { return &[] };
        let start = if line_idx == 0 { 0 } else { self.line_ends[line_idx - 1] };
        &self.tokens[start..end]
    }

    /// Tokens of all lines.
    pub fn n_tokens(&self) -> usize {
        self.tokens.len()
    }

    fn truncate(&mut self, n_lines: usize) {
        self.line_ends.truncate(n_lines);
        self.tokens.truncate(self.line_ends.last().copied().unwrap_or(0));
    }
}

/// Lexes the lines `0..n_lines` of one root diff, `line(i)` being the text of line `i`, into `lexed` (which is
/// emptied first).
pub fn lex<'a>(
    syntax: &Syntax,
    n_lines: usize,
    line: impl Fn(usize) -> &'a [u8],
    lexed: &mut Lexed,
) {
    lexed.truncate(0);
    let mut lexer = Lexer { syntax, open: None, barred: [None; N_KINDS] };
    // The state before the line on which the open construct began.
    let mut before_opener = None;
    let mut line_idx = 0;
    loop {
        while line_idx < n_lines {
            let before = lexer.open;
            lexer.line(line(line_idx), line_idx, lexed);
            if lexer.open.is_some_and(|open| open.line == line_idx) {
                before_opener = before;
            }
            line_idx += 1;
        }
        let Some(open) = lexer.open.take() else { return };
        // Everything before the opener stays as it is, so what is open at the next end, if anything, began behind it
        // and is of another kind: at most N_KINDS rounds.
        lexer.barred[open.kind] = Some((open.line, open.column));
        lexer.open = before_opener.take();
        lexed.truncate(open.line);
        line_idx = open.line;
    }
}

/// The lexer's state between two lines.
pub(super) struct Lexer<'s> {
    pub(super) syntax: &'s Syntax,
    open: Option<Open>,
    /// From here (line, column) on, openers of this kind are ordinary tokens.
    barred: [Option<(usize, usize)>; N_KINDS],
}

/// One line while it is lexed.
pub(super) struct Line<'t, 'o> {
    pub(super) text: &'t [u8],
    line_idx: usize,
    pub(super) pos: usize,
    first_token: usize,
    tokens: &'o mut Vec<Range<usize>>,
    /// Quotes of these strings, and a regular expression, were found to have no end on this line: not looked for again,
    /// so that the line stays linear.
    pub(super) endless: [bool; MOST_RULES],
    endless_regex: bool,
}

impl Line<'_, '_> {
    pub(super) fn token_to(&mut self, end: usize) {
        self.tokens.push(self.pos..end);
        self.pos = end;
    }

    pub(super) fn rest(&self) -> &[u8] {
        scan::from(self.text, self.pos)
    }

    /// The byte before the current one.
    pub(super) fn previous_byte(&self) -> Option<u8> {
        self.pos.checked_sub(1).and_then(|p| scan::at(self.text, p))
    }

    fn previous_token(&self) -> Option<&[u8]> {
        let token = self.tokens.get(self.first_token..)?.last()?;
        self.text.get(token.clone())
    }
}

impl Lexer<'_> {
    fn line(&mut self, text: &[u8], line_idx: usize, lexed: &mut Lexed) {
        let first_token = lexed.tokens.len();
        let mut line = Line {
            text,
            line_idx,
            pos: 0,
            first_token,
            tokens: &mut lexed.tokens,
            endless: [false; MOST_RULES],
            endless_regex: false,
        };
        if line_idx == 0 && self.open.is_none() {
            if text.starts_with(b"\xEF\xBB\xBF") {
                line.pos = 3;
            }
            let rest = line.rest();
            if rest.starts_with(b"#!") && rest.get(scan::skip_space(rest, 2)) == Some(&b'/') {
                line.pos = text.len();
            }
        }
        if self.open.is_some() {
            line.pos = scan::skip_space(text, 0);
            self.go_on(&mut line, 0, 0);
        }
        while line.pos < text.len() {
            self.step(&mut line);
        }
        lexed.line_ends.push(lexed.tokens.len());
    }

    /// One token, comment or stretch of white space, or the opening of something that goes over lines.
    fn step(&mut self, line: &mut Line) {
        let (text, pos) = (line.text, line.pos);
        let Some(byte) = scan::at(text, pos) else { return };
        if scan::is_space(byte) {
            line.pos = scan::skip_space(text, pos);
        } else if byte.is_ascii_digit() {
            let end = scan::number_end(text, pos, self.syntax.prefix == Prefix::Cpp);
            line.token_to(end);
        } else if scan::is_word(byte) {
            let end = scan::word_end(text, pos);
            if !self.prefixed_string(line, end) {
                line.token_to(end);
            }
        } else if !self.comment(line) && !self.string(line, pos) {
            self.sign(line, byte);
        }
    }

    /// An operator or any other byte that begins neither a comment nor a string.
    fn sign(&mut self, line: &mut Line, byte: u8) {
        let (text, pos) = (line.text, line.pos);
        let end = match byte {
            b'\'' if self.syntax.tick => {
                // After a name it is part of the name's notation (Haskell's `foldl'`, Julia's transpose).
                let after_word = line.previous_byte().is_some_and(scan::is_word);
                if after_word {
                    pos + 1
                } else {
                    scan::tick_end(text, pos, self.syntax.prefix == Prefix::Rust)
                }
            }
            b'.' if scan::at(text, pos + 1).is_some_and(|b| b.is_ascii_digit())
                && !line
                    .previous_byte()
                    .is_some_and(|b| scan::is_word(b) || matches!(b, b')' | b']' | b'.')) =>
            {
                scan::number_end(text, pos, false)
            }
            b'/' if self.syntax.regex
                && !line.endless_regex
                && scan::operand_is_due(line.previous_token()) =>
            {
                let end = scan::regex_end(text, pos);
                line.endless_regex = end.is_none();
                end.unwrap_or_else(|| pos + scan::operator_len(line.rest()))
            }
            b'@' | b'$' if self.syntax.prefix == Prefix::CSharp => {
                if self.sharp_string(line) {
                    return;
                }
                pos + scan::operator_len(line.rest())
            }
            _ => pos + scan::operator_len(line.rest()),
        };
        line.token_to(end);
    }

    /// Takes a comment at the current position.
    fn comment(&mut self, line: &mut Line) -> bool {
        let (text, pos) = (line.text, line.pos);
        for (rule, block) in self.syntax.block_comments.iter().enumerate() {
            if line.rest().starts_with(block.open) && (!block.first_column || pos == 0) {
                let inside = pos + block.open.len();
                self.open_at(line, pos, inside, Close::Block { rule, depth: 1 }, true, rule);
                return true;
            }
        }
        if self.syntax.long_brackets && self.long_bracket(line) {
            return true;
        }
        for comment in self.syntax.line_comments {
            if !line.rest().starts_with(comment.mark) {
                continue;
            }
            let previous = line.previous_byte();
            let begins = match comment.at {
                At::Anywhere => true,
                At::Word => previous.is_none_or(|b| scan::is_space(b) || b";&|()".contains(&b)),
                At::Line => line.tokens.len() == line.first_token,
            };
            if !begins {
                continue;
            }
            if let Some(&last) = comment.mark.last()
                && !comment.not_before.is_empty()
            {
                let run = scan::run_end(text, pos, last).max(pos + comment.mark.len());
                if scan::at(text, run).is_some_and(|b| comment.not_before.contains(&b)) {
                    line.token_to(run);
                    return true;
                }
            }
            line.pos = text.len();
            return true;
        }
        false
    }

    /// Takes Lua's `[==[` or `--[==[` at the current position.
    fn long_bracket(&mut self, line: &mut Line) -> bool {
        let (text, pos) = (line.text, line.pos);
        let comment = line.rest().starts_with(b"--[");
        let bracket = if comment { pos + 2 } else { pos };
        if scan::at(text, bracket) != Some(b'[') {
            return false;
        }
        let second = scan::run_end(text, bracket + 1, b'=');
        if scan::at(text, second) != Some(b'[') {
            return false;
        }
        let kind = if comment { KIND_LONG_COMMENT } else { KIND_LONG_STRING };
        self.open_at(line, pos, second + 1, Close::Level(second - bracket - 1), comment, kind);
        true
    }

    /// Opens a construct whose opener is `start..inside`, and takes it as far as it goes on this line. When its kind is
    /// barred from here on, the opener is an ordinary token.
    pub(super) fn open_at(
        &mut self,
        line: &mut Line,
        start: usize,
        inside: usize,
        close: Close,
        comment: bool,
        kind: usize,
    ) {
        line.pos = start;
        if self.barred[kind].is_some_and(|from| (line.line_idx, start) >= from) {
            line.token_to(inside);
            return;
        }
        self.open = Some(Open { close, comment, kind, line: line.line_idx, column: start });
        self.go_on(line, start, inside);
    }

    /// Goes on with the open construct: its part on this line begins at `start`, its end is looked for from `inside`.
    fn go_on(&mut self, line: &mut Line, start: usize, inside: usize) {
        let Some(open) = &mut self.open else { return };
        let comment = open.comment;
        let start = scan::skip_space(line.text, start);
        let end = match close_of(self.syntax, &mut open.close, line.text, inside) {
            Some(end) => {
                self.open = None;
                end
            }
            None => line.text.len(),
        };
        let token_end = if self.open.is_some() { scan::trimmed_end(line.text, start) } else { end };
        if !comment && start < token_end {
            line.tokens.push(start..token_end);
        }
        line.pos = end;
    }
}
