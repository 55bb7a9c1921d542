//! Calls of editing tools, however they are spelled: the arguments say what is edited.
//!
//! Understood: `command` create, str_replace and insert with `path`, `file_text`, `old_str`, `new_str`, `insert_line`,
//! `insert_text`; the same without a command under the other usual names (`file_path`, `old_string`, `content`, …);
//! a list `edits`; and a patch in apply_patch's notation, a unified diff or SEARCH/REPLACE blocks in the value of `patch`,
//! `diff`, `input` or `command`, whole or in a shell command's here-document.

use std::ops::Range;

use bstr::ByteSlice;

use super::scan::Scan;
use super::text::{Payload, next_line_where};
use super::{Change, Edit, Format, SourceLine, note, search_replace, unified_diff};

/// An argument.
#[derive(Debug)]
pub(super) enum Arg<'t> {
    /// A text.
    Text(Payload<'t>),
    /// A whole number.
    Number(usize),
    /// A list of objects.
    List(Vec<(Args<'t>, Range<usize>)>),
}

/// Arguments by name, in order.
pub(super) type Args<'t> = Vec<(String, Arg<'t>)>;

/// A call.
#[derive(Debug)]
pub(super) struct Call<'t> {
    /// The tool's name, when it is given.
    pub(super) name: Option<String>,
    /// Its arguments.
    pub(super) args: Args<'t>,
    /// Bytes of the response.
    pub(super) bytes: Range<usize>,
    /// False when its end is missing.
    pub(super) closed: bool,
}

const PATH: &[&str] =
    &["path", "file_path", "filepath", "filename", "file", "target_file", "relative_path"];
const OLD: &[&str] = &["old_str", "old_string", "old_text", "old_code", "search", "old"];
const NEW: &[&str] = &["new_str", "new_string", "new_text", "new_code", "replace", "new"];
const INSERTED: &[&str] = &["insert_text", "new_str", "new_string", "text", "content"];
const CONTENT: &[&str] = &["file_text", "content", "contents", "file_content", "code"];
const PATCH: &[&str] = &["patch", "diff", "input", "patch_text", "command", "cmd"];

fn text<'a, 't>(args: &'a Args<'t>, names: &[&str]) -> Option<&'a Payload<'t>> {
    names.iter().find_map(|name| {
        args.iter().find_map(|(key, arg)| match arg {
            Arg::Text(payload) if key == name => Some(payload),
            _ => None,
        })
    })
}

fn number(args: &Args, names: &[&str]) -> Option<usize> {
    args.iter().find_map(|(key, arg)| match arg {
        Arg::Number(number) if names.contains(&key.as_str()) => Some(*number),
        Arg::Text(payload) if names.contains(&key.as_str()) => payload.word()?.parse().ok(),
        _ => None,
    })
}

/// True when a tool's name says that it changes files.
fn is_editing_tool(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let changes = ["edit", "write", "replace", "create", "insert", "patch", "update"];
    let looks = ["read", "view", "list_"];
    changes.iter().any(|word| name.contains(word)) && !looks.iter().any(|word| name.contains(word))
}

/// What a call turned out to be.
enum Meaning {
    /// No edit, and none meant.
    Nothing,
    /// An edit without this.
    Lacks(&'static str),
    /// An edit.
    Change(Change),
}

/// Adds the edits of a call, or the note that says why it gives none. False when the call edits nothing.
pub(super) fn add_call(scan: &mut Scan, call: Call) -> bool {
    let path = text(&call.args, PATH).map(|path| super::path::name_text(path.text.trim()));
    if let Some(patch) = text(&call.args, PATCH).filter(|patch| holds_patch(&patch.text))
        && scan.add_nested(patch, path.clone(), call.bytes.clone())
    {
        return true;
    }
    if let Some((_, Arg::List(edits))) =
        call.args.iter().find(|(key, _)| key == "edits" || key == "replacements")
    {
        let known = call.name.as_deref().is_none_or(is_editing_tool);
        let mut any = false;
        for (args, bytes) in edits.iter().filter(|_| known) {
            let own = text(args, PATH).map(|path| super::path::name_text(path.text.trim()));
            let path = own.or_else(|| path.clone());
            let meaning = meaning(None, args);
            any |= add(scan, meaning, path, bytes.clone(), call.closed);
        }
        if any {
            return true;
        }
    }
    let meaning = meaning(call.name.as_deref(), &call.args);
    add(scan, meaning, path, call.bytes, call.closed)
}

/// True for a text with a patch in it.
pub(super) fn holds_patch(text: &[u8]) -> bool {
    text.contains_str("*** Begin Patch")
        || next_line_where(text, 0, |line, next| {
            unified_diff::is_header(text, line, next) || search_replace::is_opening(line)
        })
        .is_some()
}

fn lines(payload: Option<&Payload>) -> Vec<SourceLine> {
    payload.map(Payload::lines).unwrap_or_default()
}

fn meaning(name: Option<&str>, args: &Args) -> Meaning {
    let command = text(args, &["command"]).map(|command| command.word().unwrap_or_default());
    let (old, new, content) = (text(args, OLD), text(args, NEW), text(args, CONTENT));
    match command {
        Some("create" | "write" | "overwrite") => match content {
            Some(content) => Meaning::Change(Change::Write { new: content.lines() }),
            None => Meaning::Lacks("file_text"),
        },
        Some("str_replace" | "replace" | "edit") => match old {
            Some(old) => Meaning::Change(Change::Replace { old: old.lines(), new: lines(new) }),
            None => Meaning::Lacks("old_str"),
        },
        Some("insert") => insertion(args),
        Some(_) => Meaning::Nothing,
        None => {
            if name.is_some_and(|name| !is_editing_tool(name)) {
                return Meaning::Nothing;
            }
            let has_path = text(args, PATH).is_some();
            // Without a tool's name, the names of the arguments must say enough.
            let telling =
                name.is_some() || has_path || text(args, &["old_str", "old_string"]).is_some();
            if let (Some(old), Some(new)) = (old, new)
                && telling
            {
                return Meaning::Change(Change::Replace { old: old.lines(), new: new.lines() });
            }
            if number(args, &["insert_line"]).is_some() {
                return insertion(args);
            }
            let named = if name.is_some() {
                has_path
            } else {
                text(args, &["path", "file_path"]).is_some()
            };
            if let Some(content) = content
                && (named || text(args, &["file_text"]).is_some())
            {
                return Meaning::Change(Change::Write { new: content.lines() });
            }
            match name {
                Some(_) if old.is_some() && has_path => Meaning::Lacks("new_str"),
                Some(_) if new.is_some() && has_path => Meaning::Lacks("old_str"),
                Some(_) if has_path => Meaning::Lacks("content"),
                _ => Meaning::Nothing,
            }
        }
    }
}

fn insertion(args: &Args) -> Meaning {
    match text(args, INSERTED) {
        Some(new) => Meaning::Change(Change::Insert {
            new: new.lines(),
            after: number(args, &["insert_line", "line"]),
        }),
        None => Meaning::Lacks("new_str"),
    }
}

fn add(
    scan: &mut Scan,
    meaning: Meaning,
    path: Option<String>,
    bytes: Range<usize>,
    closed: bool,
) -> bool {
    let what = match meaning {
        Meaning::Nothing => return false,
        Meaning::Lacks(what) => what,
        Meaning::Change(change) => {
            if !closed {
                scan.note(bytes.clone(), note::UNCLOSED, "the tool call is cut off", false);
            }
            let path = path.unwrap_or_default();
            scan.edit(Edit { format: Format::ToolCall, path, old_path: None, change, bytes });
            return true;
        }
    };
    scan.note(
        bytes,
        note::INCOMPLETE_CALL,
        format!("the call of an editing tool lacks `{what}`"),
        true,
    );
    true
}
