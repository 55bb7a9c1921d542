//! Headers of unified diffs: file names, the lines that git adds, and the line numbers of hunks.

use bstr::ByteSlice;

use super::HunkRange;
use super::path::{name_text, unquote};
use super::text::line_at;

/// What the lines before the first hunk of a file say.
#[derive(Debug, Default)]
pub(super) struct FileHeader {
    /// Name without prefix; the old one of a deleted file.
    pub(super) path: String,
    /// Name before a rename or copy.
    pub(super) old_path: Option<String>,
    /// What changes besides text: a name of [`super::Change::Meta`].
    pub(super) meta: Option<&'static str>,
    /// False for a bare `diff --git` line that nothing follows.
    pub(super) has_content: bool,
    /// Offset after the last line of the header.
    pub(super) end: usize,
}

/// The names of the two versions as the header has them, `None` for /dev/null.
type Names = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Reads the header at `at`: `diff --git` with what follows it, or a `---` and a `+++` line.
pub(super) fn read_header(text: &[u8], at: usize) -> Option<FileHeader> {
    let (line, mut end) = line_at(text, at);
    let line = trim_cr(line);
    let mut header = FileHeader::default();
    let mut git = None;
    let (mut from, mut to, mut created, mut deleted, mut submodule) =
        (None, None, false, false, false);
    if let Some(rest) = line.strip_prefix(b"diff --git ") {
        git = Some(split_git(rest)?);
    } else if let Some(rest) = combined_name(line) {
        let name = unquote(rest).map_or_else(|| rest.to_vec(), |(name, _)| name);
        git = Some((name.clone(), name));
    } else {
        end = at;
    }
    let mut marked: Option<Names> = None;
    while end < text.len() {
        let (line, next) = line_at(text, end);
        let line = trim_cr(line);
        if let Some(old) = line.strip_prefix(b"--- ") {
            let (new_line, after) = line_at(text, next);
            let Some(new) = trim_cr(new_line).strip_prefix(b"+++ ") else { break };
            marked = Some((marked_name(old), marked_name(new)));
            end = after;
            break;
        }
        git.as_ref()?;
        let name = |prefix: &[u8]| {
            let rest = line.strip_prefix(prefix)?;
            Some(unquote(rest).map_or_else(|| rest.to_vec(), |(name, _)| name))
        };
        if let Some(name) = name(b"rename from ").or_else(|| name(b"rename old ")) {
            (from, header.meta) = (Some(name), Some("rename"));
        } else if let Some(name) = name(b"rename to ").or_else(|| name(b"rename new ")) {
            (to, header.meta) = (Some(name), Some("rename"));
        } else if let Some(name) = name(b"copy from ") {
            (from, header.meta) = (Some(name), Some("copy"));
        } else if let Some(name) = name(b"copy to ") {
            (to, header.meta) = (Some(name), Some("copy"));
        } else if line.starts_with(b"new file mode ") {
            created = true;
            submodule |= line.ends_with(b" 160000");
        } else if line.starts_with(b"deleted file mode ") {
            deleted = true;
            submodule |= line.ends_with(b" 160000");
        } else if line.starts_with(b"old mode ")
            || line.starts_with(b"new mode ")
            || line.starts_with(b"mode ")
        {
            header.meta = header.meta.or(Some("mode"));
        } else if line.starts_with(b"index ") {
            submodule |= line.ends_with(b" 160000");
        } else if line.starts_with(b"Binary files ") && line.ends_with(b" differ") {
            header.meta = Some("binary");
        } else if line == b"GIT binary patch" {
            header.meta = Some("binary");
            end = skip_binary(text, next);
            header.has_content = true;
            break;
        } else if !(line.starts_with(b"similarity index ")
            || line.starts_with(b"dissimilarity index "))
        {
            break;
        }
        header.has_content = true;
        end = next;
    }
    header.end = end;
    header.has_content |= marked.is_some();
    if header.meta != Some("binary") && submodule {
        header.meta = Some("submodule");
    }
    let other = if created { "create" } else { "delete" };
    header.meta = header.meta.or((created || deleted).then_some(other));
    let (old, new) = match (marked, git) {
        (Some(names), _) => strip_prefixes(names),
        (None, Some((old, new))) => strip_prefixes((Some(old), Some(new))),
        (None, None) => return None,
    };
    let new = to.or(new);
    let moved =
        from.or_else(|| old.clone().filter(|old| new.as_ref().is_some_and(|new| new != old)));
    header.old_path = moved.filter(|_| new.is_some()).map(|name| name_text(&name));
    header.path = name_text(&new.or(old)?);
    Some(header)
}

fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The name in the first line of a combined diff.
fn combined_name(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(b"diff --cc ").or_else(|| line.strip_prefix(b"diff --combined "))
}

/// The name of a `---` or `+++` line: quoted, or up to a tab.
fn marked_name(rest: &[u8]) -> Option<Vec<u8>> {
    let name = match unquote(rest) {
        Some((name, _)) => name,
        None => rest.split_str("\t").next().unwrap_or_default().trim_end().to_vec(),
    };
    (name != b"/dev/null").then_some(name)
}

/// Both names without the prefixes that git puts before them, when both have them.
fn strip_prefixes((old, new): Names) -> Names {
    let strip = |name: &Option<Vec<u8>>, prefix: &[u8]| match name {
        None => Some(None),
        Some(name) => name.strip_prefix(prefix).map(|rest| Some(rest.to_vec())),
    };
    for (old_prefix, new_prefix) in
        [("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/")]
    {
        if let (Some(old), Some(new)) =
            (strip(&old, old_prefix.as_bytes()), strip(&new, new_prefix.as_bytes()))
        {
            return (old, new);
        }
    }
    (old, new)
}

/// The two names after `diff --git`. Each may be quoted; when neither is, the split that gives equal names after the
/// prefixes is the right one, or else, for a rename, the first place where the second prefix can stand.
fn split_git(rest: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if let Some((old, length)) = unquote(rest) {
        let new = rest.get(length..)?.strip_prefix(b" ")?;
        let new = unquote(new).map_or_else(|| new.to_vec(), |(new, _)| new);
        return Some((old, new));
    }
    if rest.ends_with(b"\"")
        && let Some(at) = rest.find(b" \"")
        && let Some((new, _)) = unquote(&rest[at + 1..])
    {
        return Some((rest[..at].to_vec(), new));
    }
    let after_prefix = |name: &[u8]| name.find_byte(b'/').map_or(0, |i| i + 1);
    let middle = rest.len() / 2;
    if rest.len() % 2 == 1 && rest[middle] == b' ' {
        let (old, new) = (&rest[..middle], &rest[middle + 1..]);
        if old == new || old.get(after_prefix(old)..) == new.get(after_prefix(new)..) {
            return Some((old.to_vec(), new.to_vec()));
        }
    }
    let at = rest.find(b" b/").or_else(|| rest.find_byte(b' '))?;
    Some((rest[..at].to_vec(), rest[at + 1..].to_vec()))
}

/// Offset after the data of a binary patch: blocks of a `literal` or `delta` line, lines of data and a blank line.
fn skip_binary(text: &[u8], mut at: usize) -> usize {
    loop {
        let (line, _) = line_at(text, at);
        if !(line.starts_with(b"literal ") || line.starts_with(b"delta ")) {
            return at;
        }
        while at < text.len() {
            let (line, next) = line_at(text, at);
            at = next;
            if trim_cr(line).is_empty() {
                break;
            }
        }
    }
}

/// First line and number of lines of a version in a hunk.
type StartAndCount = (usize, usize);

/// Line numbers of the versions of a hunk, old ones first, and the section title. A left-out count is 1. `None` for a
/// line that is no hunk header with numbers.
pub(super) fn read_ranges(line: &[u8]) -> Option<(Vec<StartAndCount>, &[u8])> {
    let ats = line.iter().take_while(|b| **b == b'@').count();
    let mut rest = line.get(ats..)?;
    if !(2..=64).contains(&ats) {
        return None;
    }
    let mut ranges = Vec::with_capacity(ats);
    for i in 0..ats {
        rest = rest.strip_prefix(b" ").unwrap_or(rest);
        rest = rest.strip_prefix(if i + 1 < ats { b"-" } else { b"+" })?;
        let start = take_number(&mut rest)?;
        let count = match rest.strip_prefix(b",") {
            Some(after) => {
                rest = after;
                take_number(&mut rest)?
            }
            None => 1,
        };
        ranges.push((start, count));
    }
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let section = rest.strip_prefix(&line[..ats])?;
    Some((ranges, trim_cr(section.strip_prefix(b" ").unwrap_or(section))))
}

/// The range of an ordinary hunk, and its section title.
pub(super) fn read_range(line: &[u8]) -> Option<(HunkRange, &[u8])> {
    let (ranges, section) = read_ranges(line)?;
    let [(old_start, old_count), (new_start, new_count)] = ranges[..] else { return None };
    Some((HunkRange { old_start, old_count, new_start, new_count }, section))
}

/// A number that fits; lengths beyond any text are no number.
fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let length = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, after) = rest.split_at(length);
    let number = std::str::from_utf8(digits).ok()?.parse::<u32>().ok()?;
    *rest = after;
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_header_only_entries() {
        let split = |rest: &str| {
            let (old, new) = split_git(rest.as_bytes()).expect("two names");
            (String::from_utf8(old).expect("UTF-8"), String::from_utf8(new).expect("UTF-8"))
        };
        assert_eq!(split("a/x b/y.txt b/x b/y.txt"), ("a/x b/y.txt".into(), "b/x b/y.txt".into()));
        assert_eq!(
            split("a/plain.txt \"b/na\\303\\257ve.txt\""),
            ("a/plain.txt".into(), "b/naïve.txt".into())
        );
        assert_eq!(split("\"a/\\tx\" b/y"), ("a/\tx".into(), "b/y".into()));
        assert_eq!(split("old new"), ("old".into(), "new".into()));
    }

    #[test]
    fn marked_names_end_at_a_tab() {
        assert_eq!(
            marked_name(b"a/f.c\t2024-01-02 03:04:05.000000000 +0000"),
            Some(b"a/f.c".to_vec())
        );
        assert_eq!(
            marked_name("\"b/中\\\".txt\"".as_bytes()),
            Some("b/中\".txt".as_bytes().to_vec())
        );
        assert_eq!(marked_name(b"/dev/null"), None);
    }

    #[test]
    fn huge_numbers_are_no_header() {
        assert_eq!(read_range(b"@@ -1,99999999999 +1 @@"), None);
        assert_eq!(read_range(b"@@ -1,+1 @@"), None);
        assert_eq!(read_range(b"@@ @@"), None);
    }
}
