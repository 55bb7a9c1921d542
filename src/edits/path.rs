//! File names in responses: git's quoting, and names that a line of prose or a comment gives.

use bstr::ByteSlice;

use super::text::line_before;

/// Names without an extension that are files all the same.
const WELL_KNOWN: [&str; 12] = [
    "Makefile",
    "Dockerfile",
    "Containerfile",
    "Jenkinsfile",
    "Vagrantfile",
    "Procfile",
    "Gemfile",
    "Rakefile",
    "LICENSE",
    "README",
    "BUILD",
    "WORKSPACE",
];

/// Undoes git's C quoting: `text` starts at the opening quote. The decoded bytes and the length of the quoted text
/// with both quotes; `None` when it is not quoted or the quoting is broken.
pub(super) fn unquote(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    let mut at = 1;
    if text.first() != Some(&b'"') {
        return None;
    }
    loop {
        let byte = *text.get(at)?;
        at += 1;
        match byte {
            b'"' => return Some((bytes, at)),
            b'\\' => {
                let escape = *text.get(at)?;
                at += 1;
                bytes.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let digits = text.get(at - 1..at + 2)?;
                        at += 2;
                        digits.iter().try_fold(0u8, |value, digit| match digit {
                            b'0'..=b'7' => Some(value * 8 + (digit - b'0')),
                            _ => None,
                        })?
                    }
                    _ => return None,
                });
            }
            _ => bytes.push(byte),
        }
    }
}

/// A name as text: itself when it is UTF-8, else in git's quoted form, which loses nothing.
pub(super) fn name_text(name: &[u8]) -> String {
    if let Ok(name) = name.to_str() {
        return name.to_owned();
    }
    let mut quoted = String::from("\"");
    for &byte in name {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

/// True for a word that reads as the name of a file: its last part has an extension, or is a well-known name.
pub(super) fn is_path(word: &str) -> bool {
    if !is_word(word) {
        return false;
    }
    let last = word.rsplit(['/', '\\']).next().unwrap_or_default();
    if WELL_KNOWN.contains(&last) {
        return true;
    }
    match last.rsplit_once('.') {
        Some((stem, extension)) => {
            extension.len() <= 12
                && extension.starts_with(|c: char| c.is_ascii_alphabetic())
                && extension
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '+')
                && !stem.ends_with('.')
        }
        None => false,
    }
}

/// True for a word without the characters of prose and code.
fn is_word(word: &str) -> bool {
    let odd = |c: char| {
        c.is_whitespace() || c.is_control() || "<>\"|?*`(){}=,;\u{201c}\u{201d}".contains(c)
    };
    !word.is_empty()
        && word.len() <= 255
        && !word.contains(odd)
        && !word.contains("://")
        && !word.starts_with('-')
}

/// The file that a line names when it does nothing else: `path`, `` `path` ``, `**path**`, `# path`, `File: path`;
/// or a sentence that ends with a colon and has one name in backticks.
pub(super) fn path_of_line(line: &[u8]) -> Option<String> {
    if line.len() > 400 {
        return None;
    }
    let line = line.to_str().ok()?.trim();
    let decoration = |c: char| c.is_whitespace() || "#*`:'\"_[]".contains(c);
    let bare = line.trim_start_matches(decoration).trim_end_matches(decoration);
    let bare = strip_label(bare).trim_matches(decoration);
    // `_` may start or end a name, and was taken off with the decoration only around it.
    let bare = widen(line, bare);
    if is_path(bare) {
        return Some(bare.to_owned());
    }
    if !line.ends_with(':') {
        return None;
    }
    let mut named = line.split('`').skip(1).step_by(2).filter(|word| is_path(word));
    let path = named.next()?;
    named.next().is_none().then(|| path.to_owned())
}

/// Gives back underscores that belong to a name: `__init__.py` after `# `.
fn widen<'a>(line: &'a str, bare: &'a str) -> &'a str {
    let Some(start) = line.find(bare).filter(|_| !bare.is_empty()) else { return bare };
    let before = line.get(..start).unwrap_or_default();
    let underscores = before.len() - before.trim_end_matches('_').len();
    line.get(start - underscores..start + bare.len()).unwrap_or(bare)
}

/// The file that a comment line names when it does nothing else.
pub(super) fn path_of_comment(line: &[u8]) -> Option<String> {
    if line.len() > 400 {
        return None;
    }
    let line = line.to_str().ok()?.trim();
    let leaders: [(&str, &str); 7] =
        [("#", ""), ("//", ""), ("--", ""), (";", ""), ("%", ""), ("<!--", "-->"), ("/*", "*/")];
    leaders.iter().find_map(|(open, close)| {
        let inside = line.strip_prefix(open)?.trim();
        let inside = inside.strip_suffix(close).unwrap_or(inside).trim();
        let word = strip_label(inside).trim_matches(['`', '\'', '"', ' ']);
        is_path(word).then(|| word.to_owned())
    })
}

/// A line without `File:` and its like before the name.
fn strip_label(line: &str) -> &str {
    for label in ["file path", "filepath", "file name", "filename", "file", "path"] {
        if let Some(start) = line.get(..label.len())
            && start.eq_ignore_ascii_case(label)
        {
            let rest = line[label.len()..].trim_start_matches(['*', '`', ' ']);
            if let Some(rest) = rest.strip_prefix(':') {
                return rest.trim_start();
            }
        }
    }
    line
}

/// The file that the line before a SEARCH/REPLACE block names: there a lone word with a slash is a name too, such as
/// `bin/run`.
pub(super) fn block_path_of_line(line: &[u8]) -> Option<String> {
    path_of_line(line).or_else(|| {
        let line = line.get(..line.len().min(400))?.to_str().ok()?.trim();
        let decoration = |c: char| c.is_whitespace() || "#*`:'\"[]".contains(c);
        let word = strip_label(line.trim_matches(decoration)).trim_matches(decoration);
        let named = word.rsplit_once('/').is_some_and(|(_, last)| !last.is_empty());
        (named && is_word(word)).then(|| word.to_owned())
    })
}

/// The file named by the line before the line at `at`, over one blank line at most.
pub(super) fn path_before(text: &[u8], at: usize) -> Option<String> {
    named_before(text, at, path_of_line)
}

/// The same for a SEARCH/REPLACE block.
pub(super) fn block_path_before(text: &[u8], at: usize) -> Option<String> {
    named_before(text, at, block_path_of_line)
}

fn named_before(text: &[u8], at: usize, name: impl Fn(&[u8]) -> Option<String>) -> Option<String> {
    let (line, start) = line_before(text, at)?;
    if super::text::is_blank(line) {
        let (line, _) = line_before(text, start)?;
        return name(line);
    }
    name(line)
}
