//! The lexer's strings: quotes, and what may stand before them.

use super::lexer::{Lexer, Line};
use super::open::{Close, KIND_RAW, KIND_STRING, MOST_DELIMITER, find_quote};
use super::scan;
use super::syntax::Prefix;

impl Lexer<'_> {
    /// Takes a string whose quote stands at `quote`; its token begins at the current position, where a prefix may be.
    pub(super) fn string(&mut self, line: &mut Line, quote: usize) -> bool {
        let text = line.text;
        let rest = scan::from(text, quote);
        let Some((rule, string)) =
            self.syntax.strings.iter().enumerate().find(|(_, rule)| rest.starts_with(rule.quote))
        else {
            return false;
        };
        let inside = quote + string.quote.len();
        if string.multi_line {
            self.open_at(line, line.pos, inside, Close::Quote { rule }, false, KIND_STRING + rule);
            return true;
        }
        if self.syntax.prose
            && (line.endless[rule] || line.previous_byte().is_some_and(scan::is_word))
        {
            line.token_to(inside);
            return true;
        }
        let end = match find_quote(text, inside, string.quote, string.escapes) {
            Some(end) => end,
            None if self.syntax.prose => {
                line.endless[rule] = true;
                inside
            }
            None => scan::trimmed_end(text, inside),
        };
        line.token_to(end);
        true
    }

    /// Takes a string with the word from the current position to `word_end` as its prefix.
    pub(super) fn prefixed_string(&mut self, line: &mut Line, word_end: usize) -> bool {
        let text = line.text;
        let next = scan::at(text, word_end);
        if !matches!(next, Some(b'"' | b'\'' | b'#')) {
            return false;
        }
        let start = line.pos;
        let word = &text[start..word_end];
        match self.syntax.prefix {
            Prefix::Python => {
                let letters = word.len() <= 2 && word.iter().all(|b| b"rbuftRBUFT".contains(b));
                letters && next != Some(b'#') && self.string(line, word_end)
            }
            Prefix::Rust => match (word, next) {
                (b"r" | b"br" | b"cr", Some(b'"' | b'#')) => {
                    let quote = scan::run_end(text, word_end, b'#');
                    if scan::at(text, quote) != Some(b'"') {
                        return false;
                    }
                    self.open_at(
                        line,
                        start,
                        quote + 1,
                        Close::Hashes(quote - word_end),
                        false,
                        KIND_RAW,
                    );
                    true
                }
                (b"b" | b"c", Some(b'"')) => self.string(line, word_end),
                (b"b", Some(b'\'')) => {
                    let end = scan::tick_end(text, word_end, false);
                    let literal = end > word_end + 1;
                    if literal {
                        line.token_to(end);
                    }
                    literal
                }
                _ => false,
            },
            Prefix::Cpp => match (word, next) {
                (b"R" | b"LR" | b"uR" | b"UR" | b"u8R", Some(b'"')) => {
                    let mut delimiter = [0; MOST_DELIMITER];
                    let name = scan::from(text, word_end + 1);
                    let len = name
                        .iter()
                        .take_while(|&&b| !scan::is_space(b) && !b"()\\\"".contains(&b))
                        .count();
                    let (Some(slot), Some(b'(')) = (delimiter.get_mut(..len), name.get(len)) else {
                        return false;
                    };
                    slot.copy_from_slice(&name[..len]);
                    let inside = word_end + 1 + len + 1;
                    self.open_at(
                        line,
                        start,
                        inside,
                        Close::Delimiter(delimiter, len),
                        false,
                        KIND_RAW,
                    );
                    true
                }
                (b"L" | b"u" | b"U" | b"u8", Some(b'"' | b'\'')) => self.string(line, word_end),
                _ => false,
            },
            Prefix::No | Prefix::CSharp => false,
        }
    }

    /// Takes C#'s `$"…"`, `@"…"`, `$@"…"` at the current position.
    pub(super) fn sharp_string(&mut self, line: &mut Line) -> bool {
        let signs = line.rest().iter().take(2).take_while(|b| b"@$".contains(b)).count();
        let quote = line.pos + signs;
        if scan::at(line.text, quote) != Some(b'"') {
            return false;
        }
        if line.rest()[..signs].contains(&b'@') {
            self.open_at(line, line.pos, quote + 1, Close::Doubled, false, KIND_RAW);
            return true;
        }
        self.string(line, quote)
    }
}
