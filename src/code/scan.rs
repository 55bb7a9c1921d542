//! Where single tokens end: identifiers, numbers, operators, character and regular-expression literals.
//!
//! Each function looks at one line and reads each byte at most a constant number of times.

/// White space between tokens: blank, tab, CR, LF, form feed, vertical tab.
#[inline]
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Letters, digits, underscore, and every byte of a character beyond ASCII.
#[inline]
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The byte at `pos`, if the line is that long.
#[inline]
pub(crate) fn at(text: &[u8], pos: usize) -> Option<u8> {
    text.get(pos).copied()
}

/// `text` from `pos` on; empty past the end.
#[inline]
pub(crate) fn from(text: &[u8], pos: usize) -> &[u8] {
    text.get(pos..).unwrap_or(&[])
}

/// First position at or after `pos` that is no white space.
pub(crate) fn skip_space(text: &[u8], pos: usize) -> usize {
    pos + from(text, pos).iter().take_while(|&&b| is_space(b)).count()
}

/// End of `text` without the white space behind it, but not before `least`.
pub(crate) fn trimmed_end(text: &[u8], least: usize) -> usize {
    let behind = from(text, least).iter().rev().take_while(|&&b| is_space(b)).count();
    text.len().saturating_sub(behind).max(least.min(text.len()))
}

/// End of the word that begins at `pos`.
pub(crate) fn word_end(text: &[u8], pos: usize) -> usize {
    pos + from(text, pos).iter().take_while(|&&b| is_word(b)).count()
}

/// End of the run of `byte` that begins at `pos`.
pub(crate) fn run_end(text: &[u8], pos: usize, byte: u8) -> usize {
    pos + from(text, pos).iter().take_while(|&&b| b == byte).count()
}

/// End of the number that begins at `pos` with a digit, or with a point before a digit.
///
/// Digits, letters and underscores belong to it (`0xff`, `1_000`, `1u8`, `3j`), one decimal point before a digit
/// (`1.5`, but not `1..5` or `1.max`), the sign of an exponent (`1e-3`, `0x1p+2`), and with `quotes` the `'` of C++
/// between digits.
pub(crate) fn number_end(text: &[u8], pos: usize, quotes: bool) -> usize {
    let hex = matches!(from(text, pos), [b'0', b'x' | b'X', ..]);
    let is_digit = |p: usize| at(text, p).is_some_and(|b| b.is_ascii_digit());
    let mut point = false;
    let mut end = pos;
    while let Some(byte) = at(text, end) {
        let exponent = if hex { matches!(byte, b'p' | b'P') } else { matches!(byte, b'e' | b'E') };
        if exponent && matches!(at(text, end + 1), Some(b'+' | b'-')) && is_digit(end + 2) {
            end += 2;
        } else if is_word(byte) {
            end += 1;
        } else if byte == b'.' && !point && is_digit(end + 1) {
            point = true;
            end += 1;
        } else if byte == b'\''
            && quotes
            && at(text, end + 1).is_some_and(|b| b.is_ascii_alphanumeric())
        {
            end += 1;
        } else {
            break;
        }
    }
    end
}

/// Operators of two bytes.
const TWO: &[&[u8; 2]] = &[
    b"==", b"!=", b"<=", b">=", b"->", b"=>", b"::", b"&&", b"||", b"<<", b">>", b"+=", b"-=",
    b"*=", b"/=", b"%=", b"&=", b"|=", b"^=", b"**", b"//", b"++", b"--", b"..", b":=", b"<-",
    b"??", b"?.", b"?:", b"|>", b"=~", b"!~", b"~=", b"<>", b"@=", b"/>", b"!!",
];

/// Operators of three bytes.
const THREE: &[&[u8; 3]] = &[
    b"===", b"!==", b"<=>", b"**=", b"//=", b"<<=", b">>=", b">>>", b"...", b"..=", b"..<", b"&&=",
    b"||=", b"??=", b"<<<", b"->*",
];

/// Length of the operator at the start of `rest`: the longest of the table, else one byte. 0 for an empty `rest`.
pub(crate) fn operator_len(rest: &[u8]) -> usize {
    let is_operator = |b: &u8| b"=!<>-:&|+*/%^.?@~".contains(b);
    match rest {
        [] => return 0,
        [a, b, ..] if is_operator(a) && is_operator(b) => {}
        _ => return 1,
    }
    if rest.starts_with(b">>>=") {
        4
    } else if rest.first_chunk::<3>().is_some_and(|head| THREE.contains(&head)) {
        3
    } else if rest.first_chunk::<2>().is_some_and(|head| TWO.contains(&head)) {
        2
    } else {
        1
    }
}

/// The longest escape in a character literal: `'\u{10FFFF}'` and a little.
const MOST_ESCAPE: usize = 12;

/// End of what begins with the `'` at `pos` in a language with ticks: a character literal, else with `names` the tick
/// and the name behind it (a lifetime), else the tick alone.
pub(crate) fn tick_end(text: &[u8], pos: usize, names: bool) -> usize {
    let inside = pos + 1;
    match at(text, inside) {
        None | Some(b'\'') => inside,
        Some(b'\\') => {
            // The byte after the backslash is part of the escape, even when it is a quote.
            let rest = from(text, inside + 2);
            let close = rest.iter().take(MOST_ESCAPE).position(|&b| b == b'\'');
            close.map_or(inside, |offset| inside + 2 + offset + 1)
        }
        Some(first) => {
            let width = match first {
                0xC0..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0..=0xF7 => 4,
                _ => 1,
            };
            if at(text, inside + width) == Some(b'\'') {
                inside + width + 1
            } else if names && is_word(first) {
                word_end(text, inside)
            } else {
                inside
            }
        }
    }
}

/// End of the regular expression that begins with the `/` at `pos`, flags included; `None` when the line has no end
/// for it.
pub(crate) fn regex_end(text: &[u8], pos: usize) -> Option<usize> {
    let mut in_class = false;
    let mut end = pos + 1;
    while let Some(byte) = at(text, end) {
        match byte {
            b'\\' => end += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'/' if !in_class => {
                let flags =
                    from(text, end + 1).iter().take_while(|b| b.is_ascii_alphabetic()).count();
                return Some(end + 1 + flags);
            }
            _ => {}
        }
        end += 1;
    }
    None
}

/// Can a regular expression begin after this token (`None` at the start of a line)?
pub(crate) fn operand_is_due(previous: Option<&[u8]>) -> bool {
    match previous {
        None => true,
        Some(
            b"return" | b"typeof" | b"case" | b"in" | b"of" | b"do" | b"else" | b"void" | b"delete"
            | b"=>",
        ) => true,
        Some(token) => token.last().is_some_and(|b| b"(,=:[!&|?{;+-*%~^".contains(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, end) in [
            ("1_000+", 5),
            ("0xff;", 4),
            ("1.5e-3,", 6),
            ("1u8)", 3),
            ("1..5", 1),
            ("1.max", 1),
            (".5f ", 3),
            ("0x1p+2", 6),
            ("0xe-3", 3),
            ("1e+x", 2),
            ("1.2.3", 3),
            ("7", 1),
        ] {
            assert_eq!(number_end(text.as_bytes(), 0, false), end, "{text}");
        }
        assert_eq!(number_end(b"1'000'000u;", 0, true), 10);
        assert_eq!(number_end(b"1'000", 0, false), 1);
    }

    #[test]
    fn operators_are_longest_match() {
        for (text, len) in [
            (">>>=1", 4),
            (">>>1", 3),
            (">>1", 2),
            (">1", 1),
            ("**=", 3),
            ("**", 2),
            ("()", 1),
            ("", 0),
            ("=(", 1),
        ] {
            assert_eq!(operator_len(text.as_bytes()), len, "{text}");
        }
    }

    #[test]
    fn ticks() {
        for (text, end) in [
            ("'a'", 3),
            ("'a>", 2),
            ("'static ", 7),
            ("'\\n'", 4),
            ("'\\''", 4),
            ("'\\u{10FFFF}'", 12),
            ("'\u{e9}'", 4),
            ("'", 1),
            ("'\\", 1),
            ("' '", 3),
            ("'(1)", 1),
        ] {
            assert_eq!(tick_end(text.as_bytes(), 0, true), end, "{text}");
        }
        assert_eq!(tick_end(b"'name", 0, false), 1);
    }

    #[test]
    fn regular_expressions() {
        assert_eq!(regex_end(b"/a[/]\\/b/gi)", 0), Some(11));
        assert_eq!(regex_end(b"/ 2", 0), None);
        assert!(operand_is_due(Some(b"=")) && operand_is_due(None) && !operand_is_due(Some(b"x")));
    }
}
