//! All tags of a response that any notation knows, found in one pass, each opening tag with the closing tag that
//! matches it by depth.
//!
//! Linear: a stack per tag name; a tag is at most [`MAX_TAG`] bytes long.

use std::ops::Range;

use bstr::ByteSlice;

/// Longest tag that is looked at.
const MAX_TAG: usize = 2048;

/// What a tag is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// An edit of a file.
    Edit,
    /// A file to write.
    File,
    /// Text looked for.
    Old,
    /// Text put in its place.
    New,
    /// Text put in.
    Insert,
    /// A whole content.
    Code,
    /// The file's name.
    Path,
    /// A draft.
    Think,
    /// A tool call: `<function=name>`.
    Function,
    /// A tool call: `<invoke name="name">`.
    Invoke,
    /// An argument of a tool call: `<parameter=name>` or `<parameter name="name">`.
    Parameter,
}

const NAMES: [(&[u8], Role); 30] = [
    (b"edit", Role::Edit),
    (b"file", Role::File),
    (b"write_to_file", Role::Edit),
    (b"create_file", Role::Edit),
    (b"search_and_replace", Role::Edit),
    (b"replace_in_file", Role::File),
    (b"apply_diff", Role::File),
    (b"search", Role::Old),
    (b"replace", Role::New),
    (b"old", Role::Old),
    (b"new", Role::New),
    (b"old_text", Role::Old),
    (b"new_text", Role::New),
    (b"old_str", Role::Old),
    (b"new_str", Role::New),
    (b"old_string", Role::Old),
    (b"new_string", Role::New),
    (b"old_code", Role::Old),
    (b"new_code", Role::New),
    (b"insert", Role::Insert),
    (b"code", Role::Code),
    (b"content", Role::Code),
    (b"path", Role::Path),
    (b"file_path", Role::Path),
    (b"filename", Role::Path),
    (b"think", Role::Think),
    (b"thinking", Role::Think),
    (b"function", Role::Function),
    (b"invoke", Role::Invoke),
    (b"parameter", Role::Parameter),
];

/// A tag of the response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag {
    /// Offset of its `<`.
    pub(super) start: usize,
    /// Offset after its `>`.
    pub(super) end: usize,
    /// For an opening tag, the number of its closing tag, or `u32::MAX`.
    mate: u32,
    name: u8,
    /// True for `</name>`.
    pub(super) closing: bool,
}

impl Tag {
    /// What it is for.
    pub(super) fn role(self) -> Role {
        NAMES[usize::from(self.name)].1
    }

    /// True when both have the same name.
    pub(super) fn same_name(self, other: Tag) -> bool {
        self.name == other.name
    }

    /// Bytes of the tag.
    pub(super) fn bytes(self) -> Range<usize> {
        self.start..self.end
    }
}

/// The tags of a response in order.
#[derive(Debug, Default)]
pub(super) struct Tags {
    tags: Vec<Tag>,
    /// By name, the numbers of its closing tags.
    closing: Vec<Vec<u32>>,
}

impl Tags {
    /// Finds them.
    pub(super) fn new(text: &[u8]) -> Self {
        let mut tags: Vec<Tag> = Vec::new();
        let mut open: Vec<Vec<u32>> = vec![Vec::new(); NAMES.len()];
        let mut closing: Vec<Vec<u32>> = vec![Vec::new(); NAMES.len()];
        for start in memchr::memchr_iter(b'<', text) {
            let Some(tag) = read_tag(text, start) else { continue };
            // Numbers of tags fit in u32 for texts up to 12 GiB; beyond, tags are left out.
            let Some(number) = u32::try_from(tags.len()).ok().filter(|&n| n < u32::MAX) else {
                break;
            };
            let stack = &mut open[usize::from(tag.name)];
            if !tag.closing {
                stack.push(number);
            } else {
                closing[usize::from(tag.name)].push(number);
                if let Some(opening) = stack.pop() {
                    tags[opening as usize].mate = number;
                }
            }
            tags.push(tag);
        }
        Tags { tags, closing }
    }

    /// A tag by its number.
    pub(super) fn get(&self, number: usize) -> Option<Tag> {
        self.tags.get(number).copied()
    }

    /// Number of the first tag that starts at or after `from`.
    pub(super) fn first_from(&self, from: usize) -> usize {
        self.tags.partition_point(|tag| tag.start < from)
    }

    /// The first opening tag at or after `from` that passes the test: where it starts.
    pub(super) fn next_opening(&self, from: usize, test: impl Fn(Role) -> bool) -> Option<usize> {
        let tags = &self.tags[self.first_from(from)..];
        tags.iter().find(|tag| !tag.closing && test(tag.role())).map(|tag| tag.start)
    }

    /// The first tag for this purpose, opening or closing.
    pub(super) fn first_with(&self, test: impl Fn(Role) -> bool) -> Option<Tag> {
        self.tags.iter().find(|tag| test(tag.role())).copied()
    }

    /// The first closing tag of the same name after an opening tag.
    pub(super) fn next_closing(&self, opening: Tag) -> Option<Tag> {
        let closing = self.closing.get(usize::from(opening.name))?;
        let next =
            closing.partition_point(|&number| self.tags[number as usize].start < opening.end);
        closing.get(next).map(|&number| self.tags[number as usize])
    }

    /// The number of the closing tag that matches an opening tag.
    pub(super) fn mate(&self, tag: Tag) -> Option<usize> {
        (tag.mate != u32::MAX).then_some(tag.mate as usize)
    }
}

fn read_tag(text: &[u8], start: usize) -> Option<Tag> {
    let window = &text[start..text.len().min(start + MAX_TAG)];
    let closing = window.get(1) == Some(&b'/');
    let from = if closing { 2 } else { 1 };
    let rest = window.get(from..)?;
    // Names are 18 bytes at most: a look at 19 says whether it is one.
    let length = rest.iter().take(19).take_while(|b| b.is_ascii_lowercase() || **b == b'_').count();
    let name = NAMES.iter().position(|(name, _)| *name == &rest[..length])?;
    let role = NAMES[name].1;
    let valued = matches!(role, Role::Function | Role::Parameter);
    let mut at = from + length;
    match window.get(at)? {
        b'>' => {}
        b' ' | b'\t' | b'\r' | b'\n' => {}
        b'=' if valued && !closing => {}
        _ => return None,
    }
    loop {
        match window.get(at)? {
            b'>' => break,
            b'<' => return None,
            quote @ (b'"' | b'\'') => at += window.get(at + 1..)?.find_byte(*quote)? + 2,
            _ => at += 1,
        }
    }
    Some(Tag {
        start,
        end: start + at + 1,
        mate: u32::MAX,
        name: u8::try_from(name).ok()?,
        closing,
    })
}

/// The value of the first attribute that has one of the names; quoted, or bare up to white space.
pub(super) fn attribute(text: &[u8], tag: Tag, names: &[&str]) -> Option<String> {
    let inside = text.get(tag.start + 1..tag.end.checked_sub(1)?)?;
    let mut rest = inside;
    // The tag's own name.
    rest = rest.get(rest.iter().take_while(|b| b.is_ascii_lowercase() || **b == b'_').count()..)?;
    loop {
        rest = rest.trim_start();
        let length = rest
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
            .count();
        let name = rest.get(..length)?;
        rest = rest.get(length..)?.trim_start();
        let Some(after) = rest.strip_prefix(b"=") else {
            if length == 0 {
                rest = rest.get(1..)?;
            }
            continue;
        };
        rest = after.trim_start();
        let value = match rest.first()? {
            quote @ (b'"' | b'\'') => {
                let close = rest.get(1..)?.find_byte(*quote)?;
                let value = &rest[1..1 + close];
                rest = &rest[close + 2..];
                value
            }
            _ => {
                let length = rest.iter().take_while(|b| !b.is_ascii_whitespace()).count();
                let value = &rest[..length];
                rest = &rest[length..];
                value
            }
        };
        if names.iter().any(|wanted| wanted.as_bytes() == name) {
            return Some(super::path::name_text(value.trim()));
        }
    }
}

/// The value of `<function=value>` and `<parameter=value>`, or else of the attribute `name`.
pub(super) fn call_name(text: &[u8], tag: Tag) -> Option<String> {
    let inside = text.get(tag.start + 1..tag.end.checked_sub(1)?)?;
    match inside.split_once_str(b"=") {
        Some((b"function" | b"parameter", value)) => Some(super::path::name_text(
            value.trim_with(|c| c.is_whitespace() || c == '"' || c == '\''),
        )),
        _ => attribute(text, tag, &["name"]),
    }
}
