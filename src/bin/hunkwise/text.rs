//! Words for a terminal: counts with their noun, lines that wrap, and text of rollouts that cannot steer the terminal.

use std::borrow::Cow;

/// Columns of everything that is not code.
pub(crate) const WIDTH: usize = 80;

/// `1 task`, `2 tasks`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// The pieces of a text, broken after commas and semicolons so that `indent` and a line stay within [`WIDTH`] columns;
/// a piece that is longer stands on a line by itself. Later lines begin with `indent` spaces, the first does not.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for piece in text.split_inclusive([',', ';']) {
        let is_joined = !piece.starts_with(' ');
        let piece = piece.trim_start();
        let n_columns = piece.chars().count();
        if out.is_empty() || is_joined {
        } else if column + 1 + n_columns > WIDTH {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(piece);
        column += n_columns;
    }
    out
}

/// The text without anything that a terminal would obey: control characters and changes of direction are drawn as
/// symbols, tabs as four spaces.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            '\u{7F}' => out.push('\u{2421}'),
            '\0'..='\u{1F}' => out.push(char::from_u32(0x2400 + c as u32).unwrap_or('\u{FFFD}')),
            _ if is_command(c) => out.push('\u{FFFD}'),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree() {
        assert_eq!(
            [count(0, "turn"), count(1, "turn"), count(2, "turn")],
            ["0 turns", "1 turn", "2 turns"]
        );
    }

    #[test]
    fn lines_break_after_commas() {
        let word = "x".repeat(30);
        assert_eq!(
            wrap(&format!("{word}, {word}; {word}"), 4),
            format!("{word}, {word};\n    {word}")
        );
        assert_eq!(wrap("a, b", 4), "a, b");
        assert_eq!(wrap("1,5 of 2", 4), "1,5 of 2");
        let long = "y".repeat(100);
        assert_eq!(wrap(&format!("a, {long}, b"), 2), format!("a,\n  {long},\n  b"));
        assert_eq!(wrap("", 2), "");
    }

    #[test]
    fn a_text_cannot_steer_the_terminal() {
        assert_eq!(plain("a\tb é"), "a    b é");
        assert_eq!(plain("\u{1b}[2J\u{7}\0\r\u{7f}"), "␛[2J␇␀␍␡");
        assert_eq!(plain("a\u{9b}b\u{202e}c"), "a\u{FFFD}b\u{FFFD}c");
    }
}
