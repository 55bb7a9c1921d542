//! Edits in tags: `<edit path="…">` with pairs of `<search>` and `<replace>` (or `<old>`, `<old_text>`, …), `<insert>`,
//! or `<code>`/`<content>`; `<file path="…">` with a file's content; the same in the tags of tool calls, such as
//! `<write_to_file>` and `<replace_in_file>` with a `<path>` inside; and bare pairs like `<old_text>…</old_text>
//! <new_text>…</new_text>`.
//!
//! Bodies end at the closing tag that matches by depth, so tag names inside a body are text. A block without its
//! end is ended by the next opening tag of its kind, flagged, and kept. Linear: the tags were matched beforehand.

use std::ops::Range;

use bstr::ByteSlice;

use super::scan::{Container, Found, Outcome, Scan};
use super::tags::{Role, Tag, Tags, attribute};
use super::text::{is_blank, line_at, line_end, lines_of, tag_body};
use super::{Change, Edit, Format, Note, fence, note};

const PATH_ATTRIBUTES: [&str; 5] = ["path", "file", "filename", "file_path", "name"];
const LINE_ATTRIBUTES: [&str; 5] = ["line", "after_line", "insert_line", "after", "at"];

/// The next tag that starts an edit.
pub(super) fn next(scan: &Scan, from: usize) -> Option<usize> {
    scan.tags().next_opening(from, |role| matches!(role, Role::Edit | Role::File | Role::Old))
}

/// Reads the edit whose tag starts at `at`.
pub(super) fn read<'t>(scan: &mut Scan<'t>, at: usize) -> Outcome<'t> {
    let tags = scan.tags();
    let number = tags.first_from(at);
    match tags.get(number).filter(|tag| tag.end <= scan.text().len()) {
        Some(tag) if tag.role() == Role::Old => read_pair(scan, tag),
        Some(tag) => read_block(scan, number, tag),
        None => Outcome::NotHere,
    }
}

/// A part of a block: a tag inside it with its body.
struct Part {
    tag: Tag,
    body: Range<usize>,
    end: usize,
    closed: bool,
}

/// The end of a body by depth, when it lies in the text.
fn mate(tags: &Tags, tag: Tag, limit: usize) -> Option<(usize, Tag)> {
    let number = tags.mate(tag)?;
    Some((number, tags.get(number)?)).filter(|(_, closing)| closing.end <= limit)
}

/// A pair outside of a block: the second tag follows the first with nothing between.
fn read_pair<'t>(scan: &mut Scan<'t>, old: Tag) -> Outcome<'t> {
    let (text, tags) = (scan.text(), scan.tags());
    let Some((number, old_end)) = mate(tags, old, text.len()) else { return Outcome::NotHere };
    let Some(new) = tags.get(number + 1).filter(|tag| !tag.closing && tag.role() == Role::New)
    else {
        return Outcome::NotHere;
    };
    let Some((_, new_end)) = mate(tags, new, text.len()) else { return Outcome::NotHere };
    if !text.get(old_end.end..new.start).is_some_and(|between| between.trim_ascii().is_empty()) {
        return Outcome::NotHere;
    }
    let change = Change::Replace {
        old: lines_of(text, tag_body(text, old.end..old_end.start)),
        new: lines_of(text, tag_body(text, new.end..new_end.start)),
    };
    let path = scan.hint().unwrap_or_default();
    scan.edit(Edit {
        format: Format::Xml,
        path,
        old_path: None,
        change,
        bytes: old.start..new_end.end,
    });
    Outcome::Done(new_end.end)
}

/// The parts of the block that the tag `number` opens, where it ends, and whether its end is there.
fn parts(tags: &Tags, number: usize, block: Tag, limit: usize) -> (Vec<Part>, Range<usize>, bool) {
    let mut parts = Vec::new();
    let mut at = number + 1;
    while let Some(tag) = tags.get(at).filter(|tag| tag.end <= limit) {
        at += 1;
        if tag.same_name(block) {
            return match tag.closing {
                true => (parts, tag.bytes(), true),
                false => (parts, tag.start..tag.start, false),
            };
        }
        let is_name = block.role() == Role::Edit && tag.role() == Role::File;
        if tag.closing || !(is_part(tag.role()) || is_name) {
            continue;
        }
        if let Some((number, closing)) = mate(tags, tag, limit) {
            at = number + 1;
            parts.push(Part { tag, body: tag.end..closing.start, end: closing.end, closed: true });
            continue;
        }
        // No end by depth: up to the first closing tag of its name, or else the next tag of the block's kind.
        let (mut stop, mut end, mut closed) = (limit, limit, false);
        while let Some(next) = tags.get(at).filter(|next| next.end <= limit) {
            if next.same_name(block) {
                (stop, end) = (next.start, next.start);
                break;
            }
            at += 1;
            if next.closing && next.same_name(tag) {
                (stop, end, closed) = (next.start, next.end, true);
                break;
            }
        }
        parts.push(Part { tag, body: tag.end..stop, end, closed });
    }
    (parts, limit..limit, false)
}

fn is_part(role: Role) -> bool {
    matches!(role, Role::Old | Role::New | Role::Insert | Role::Code | Role::Path)
}

fn read_block<'t>(scan: &mut Scan<'t>, number: usize, block: Tag) -> Outcome<'t> {
    let (text, tags) = (scan.text(), scan.tags());
    let (parts, closing, closed) = parts(tags, number, block, text.len());
    let end = closing.end;
    let bytes = block.start..end;
    let attribute_path = attribute(text, block, &PATH_ATTRIBUTES);
    let named =
        parts.iter().find(|part| matches!(part.tag.role(), Role::Path | Role::File) && part.closed);
    let child_path = named
        .and_then(|part| text.get(part.body.clone()))
        .map(|name| super::path::name_text(name.trim()));
    let path = attribute_path.or(child_path);
    if !parts
        .iter()
        .any(|part| matches!(part.tag.role(), Role::Old | Role::New | Role::Insert | Role::Code))
    {
        return match path {
            Some(path) if closed || block.role() == Role::File => {
                let start = named.map_or(block.end, |part| part.end);
                plain_block(text, path, start..closing.start.max(start), bytes, closed)
            }
            Some(_) => {
                scan.note(
                    bytes,
                    note::UNCLOSED,
                    "an edit without content and without its end",
                    true,
                );
                Outcome::NotHere
            }
            None => Outcome::NotHere,
        };
    }
    let path = path.or_else(|| scan.hint()).unwrap_or_default();
    let before = scan.n_edits();
    let mut search: Option<&Part> = None;
    for part in &parts {
        let lines = |part: &Part| lines_of(text, tag_body(text, part.body.clone()));
        let unwrapped =
            |part: &Part| lines_of(text, fence::unwrap(text, tag_body(text, part.body.clone())));
        let edit = |change: Change, start: usize| Edit {
            format: Format::Xml,
            path: path.clone(),
            old_path: None,
            change,
            bytes: start..part.end,
        };
        match (part.tag.role(), search.take()) {
            (Role::Old, lone) => {
                if let Some(lone) = lone {
                    lacks(scan, lone, "a search text without its replacement");
                }
                search = Some(part);
            }
            (Role::New, Some(old)) => {
                scan.edit(edit(
                    Change::Replace { old: lines(old), new: lines(part) },
                    old.tag.start,
                ));
            }
            (Role::New, None) => {
                lacks(scan, part, "a replacement without the text that it replaces")
            }
            (Role::Insert, anchor) => {
                let after =
                    attribute(text, part.tag, &LINE_ATTRIBUTES).and_then(|line| line.parse().ok());
                let start = anchor.map_or(part.tag.start, |anchor| anchor.tag.start);
                scan.edit(edit(Change::Insert { new: unwrapped(part), after }, start));
            }
            (Role::Code, _) => {
                scan.edit(edit(Change::Write { new: unwrapped(part) }, part.tag.start))
            }
            (_, search_text) => search = search_text,
        }
    }
    if let Some(lone) = search {
        lacks(scan, lone, "a search text without its replacement");
    }
    // A block with one edit is that edit.
    if scan.n_edits() == before + 1 {
        scan.widen_last(bytes.clone());
    }
    if !closed || parts.iter().any(|part| !part.closed) {
        let skipped = scan.n_edits() == before;
        scan.note(bytes, note::UNCLOSED, "an edit without its end", skipped);
    }
    Outcome::Done(end.max(block.end))
}

fn lacks(scan: &mut Scan, part: &Part, what: &str) {
    scan.note(part.tag.start..part.end, note::INCOMPLETE_PAIR, what, true);
}

/// A block that holds nothing but text: the file's content, or a wrapper around another notation.
fn plain_block<'t>(
    text: &'t [u8],
    path: String,
    body: Range<usize>,
    bytes: Range<usize>,
    closed: bool,
) -> Outcome<'t> {
    let inner = tag_body(text, body.clone());
    let inside = text.get(..body.end).unwrap_or(text);
    let (first, second) = line_at(inside, inner.start);
    let is_diff = first.trim_start().starts_with(b"<diff>");
    let heading = is_blank(first) || is_diff;
    let reach =
        if heading || fence::looks_like_fence(first) { line_end(inside, second) } else { second };
    let (end, hint) = (bytes.end, Some(path.clone()));
    let fallback = Box::new(move || {
        if is_diff {
            let what = format!("the diff of `{path}` has neither hunks nor blocks");
            return (None, vec![Note { bytes, kind: note::NO_HUNKS, what, skipped: true }]);
        }
        let change = Change::Write { new: lines_of(text, fence::unwrap(text, inner)) };
        let what = "a file without its end".to_owned();
        let note = Note { bytes: bytes.clone(), kind: note::UNCLOSED, what, skipped: false };
        let notes = if closed { Vec::new() } else { vec![note] };
        (
            Some(Found {
                edit: Edit { format: Format::Xml, path, old_path: None, change, bytes },
                block: None,
            }),
            notes,
        )
    });
    Outcome::Container(Container {
        reach: reach.min(body.end),
        body,
        end,
        hint,
        fence: None,
        fallback,
    })
}
