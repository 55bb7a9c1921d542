//! Tool calls in JSON: objects with a name and arguments, in the shapes of the usual chat formats, or the bare arguments.
//!
//! An object is looked at wherever `{` and a key stand in the text, so the text around it (`<tool_call>`, a list, a
//! fence) does not matter. Arguments may be an object or a string that holds one. Linear up to the depth limit of
//! [`super::json`].

use std::rc::Rc;

use bstr::ByteSlice;

use super::call::{Arg, Args, Call, add_call, holds_patch};
use super::json::{self, Kind, State, Value};
use super::note;
use super::path::name_text;
use super::scan::{Outcome, Scan};
use super::text::{Map, Payload};

/// The next `{` before a quoted key.
pub(super) fn next(scan: &Scan, from: usize) -> Option<usize> {
    let text = scan.full_text();
    let rest = text.get(from..)?;
    memchr::memchr_iter(b'{', rest).map(|i| from + i).find(|at| {
        let after = &text[at + 1..];
        let space = after.iter().take_while(|b| b.is_ascii_whitespace()).count();
        after.get(space) == Some(&b'"')
    })
}

/// Reads the object at `at` and the calls in it.
pub(super) fn read<'t>(scan: &mut Scan<'t>, at: usize) -> Outcome<'t> {
    let text = scan.text();
    let document = json::read(text, at);
    let mut any = false;
    let source = Source { text, outer: None };
    let (end, broken) = (document.end, document.state == State::Broken);
    source.calls(scan, &document.value, !broken, document.state == State::Complete, &mut any);
    if broken && !any && source.names_an_edit(&document.value) {
        let what = format!("the JSON of a tool call cannot be read after {} bytes", end - at);
        scan.note(at..end, note::MALFORMED_JSON, what, true);
        any = true;
    }
    match any {
        true => Outcome::Done(end),
        // The objects inside were looked at with it. What is broken may go wrong from its last string on.
        false if broken => Outcome::NothingUntil(document.last_string),
        false => Outcome::NothingUntil(end),
    }
}

/// A text with JSON, and the way from it to the response when it is itself decoded.
struct Source<'t> {
    text: &'t [u8],
    outer: Option<Rc<Map>>,
}

const NAME: [&str; 4] = ["name", "tool", "tool_name", "recipient_name"];
const ARGUMENTS: [&str; 5] = ["arguments", "input", "parameters", "args", "params"];

impl<'t> Source<'t> {
    fn field<'a>(
        &self,
        entries: &'a [(std::ops::Range<usize>, Value)],
        names: &[&str],
    ) -> Option<&'a Value> {
        names.iter().find_map(|name| {
            let is_it =
                |key: &std::ops::Range<usize>| self.text.get(key.clone()) == Some(name.as_bytes());
            entries.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
        })
    }

    fn string(&self, value: &Value) -> Option<String> {
        let is_string = matches!(value.kind, Kind::String) && value.bytes.len() < 4096;
        is_string
            .then(|| name_text(json::decode(self.text, value, self.outer.as_ref()).text.trim()))
    }

    /// Adds every call in a value. `cut` says whether an object counts whose end is missing; `closed` is true when no
    /// end is missing.
    fn calls(&self, scan: &mut Scan, value: &Value, cut: bool, closed: bool, any: &mut bool) {
        match &value.kind {
            Kind::Array(values) => {
                for value in values {
                    self.calls(scan, value, cut, closed, any);
                }
            }
            Kind::Object(entries) => {
                if (cut || value.closed)
                    && let Some(edits) = self.call(scan, value, entries, closed)
                {
                    *any |= edits;
                    return;
                }
                for (_, value) in entries {
                    self.calls(scan, value, cut, closed, any);
                }
            }
            _ => {}
        }
    }

    /// Adds the edits of an object that is a call: true when there are any. `None` when it is no call, so that its
    /// values are worth a look.
    fn call(
        &self,
        scan: &mut Scan,
        value: &Value,
        entries: &[(std::ops::Range<usize>, Value)],
        closed: bool,
    ) -> Option<bool> {
        let name = self.field(entries, &NAME).and_then(|name| self.string(name));
        let bytes = match &self.outer {
            Some(map) => map.response_range(value.bytes.clone()),
            None => value.bytes.clone(),
        };
        let closed = closed || value.closed;
        let arguments = self.field(entries, &ARGUMENTS);
        let found = match (name, arguments) {
            (Some(name), Some(arguments)) => match &arguments.kind {
                Kind::Object(entries) => {
                    let args = self.args(entries);
                    return Some(add_call(scan, Call { name: Some(name), args, bytes, closed }));
                }
                Kind::String => {
                    let payload = json::decode(self.text, arguments, self.outer.as_ref());
                    let inner =
                        Source { text: &payload.text, outer: Some(Rc::clone(&payload.map)) };
                    let start = payload.text.iter().take_while(|b| b.is_ascii_whitespace()).count();
                    let document = json::read(&payload.text, start);
                    let args = match (&document.value.kind, document.state) {
                        (Kind::Object(entries), State::Complete | State::Truncated) => {
                            inner.args(entries)
                        }
                        (Kind::Object(_), State::Broken)
                            if inner.names_an_edit(&document.value) =>
                        {
                            let what = "the arguments of a tool call are a string that is no JSON"
                                .to_owned();
                            scan.note(bytes, note::MALFORMED_JSON, what, true);
                            return Some(true);
                        }
                        // A tool with free text as its input, such as apply_patch.
                        _ => vec![("input".to_owned(), Arg::Text(payload.clone()))],
                    };
                    let closed = closed && document.state == State::Complete;
                    return Some(add_call(scan, Call { name: Some(name), args, bytes, closed }));
                }
                _ => false,
            },
            (Some(_), None) if self.field(entries, &["command"]).is_none() => false,
            (name, None) => add_call(scan, Call { name, args: self.args(entries), bytes, closed }),
            // `{"command": …, "input": …}` and the like: arguments themselves.
            (None, Some(arguments)) => match &arguments.kind {
                Kind::String => {
                    add_call(scan, Call { name: None, args: self.args(entries), bytes, closed })
                }
                _ => false,
            },
        };
        found.then_some(true)
    }

    fn args(&self, entries: &[(std::ops::Range<usize>, Value)]) -> Args<'static> {
        let mut args = Vec::new();
        for (key, value) in entries {
            let key = name_text(self.text.get(key.clone()).unwrap_or_default());
            let arg = match &value.kind {
                Kind::String => Arg::Text(self.text_of(value)),
                Kind::Number(number) => Arg::Number(*number),
                Kind::Array(values) => self.list(values),
                Kind::Object(_) | Kind::Other => continue,
            };
            args.push((key, arg));
        }
        args
    }

    fn text_of(&self, value: &Value) -> Payload<'static> {
        let payload = json::decode(self.text, value, self.outer.as_ref());
        let text = std::borrow::Cow::Owned(payload.text.into_owned());
        Payload { text, map: payload.map, closed: payload.closed }
    }

    /// A list: of objects; or of the words of a command, of which the one with a patch in it counts.
    fn list(&self, values: &[Value]) -> Arg<'static> {
        let words = values.iter().filter(|value| matches!(value.kind, Kind::String));
        let patch = words.map(|word| self.text_of(word)).find(|word| holds_patch(&word.text));
        if let Some(patch) = patch {
            return Arg::Text(patch);
        }
        let entries = values.iter().filter_map(|value| match &value.kind {
            Kind::Object(entries) => {
                let bytes = match &self.outer {
                    Some(map) => map.response_range(value.bytes.clone()),
                    None => value.bytes.clone(),
                };
                Some((self.list_args(entries), bytes))
            }
            _ => None,
        });
        Arg::List(entries.collect())
    }

    /// Arguments of a list's entry: texts and numbers only, so that nesting ends here.
    fn list_args(&self, entries: &[(std::ops::Range<usize>, Value)]) -> Args<'static> {
        let flat = |value: &Value| matches!(value.kind, Kind::String | Kind::Number(_));
        entries
            .iter()
            .filter(|(_, value)| flat(value))
            .flat_map(|(key, value)| {
                let value = Value {
                    bytes: value.bytes.clone(),
                    closed: value.closed,
                    kind: scalar(&value.kind),
                };
                self.args(&[(key.clone(), value)])
            })
            .collect()
    }

    /// True when a broken object has the marks of an editing call.
    fn names_an_edit(&self, value: &Value) -> bool {
        let Kind::Object(entries) = &value.kind else { return false };
        let editing = |name: &str| {
            let name = name.to_ascii_lowercase();
            ["edit", "write", "replace", "create_file", "apply_patch", "insert"]
                .iter()
                .any(|word| name.contains(word))
        };
        let word = |names: &[&str]| self.field(entries, names).and_then(|value| self.string(value));
        if word(&NAME).is_some_and(|name| editing(&name))
            && self.field(entries, &ARGUMENTS).is_some()
        {
            return true;
        }
        let command = word(&["command"]);
        let commands = ["create", "str_replace", "insert"];
        if command.is_some_and(|command| commands.contains(&command.as_str())) {
            return true;
        }
        entries.iter().any(|(_, value)| self.names_an_edit(value))
    }
}

fn scalar(kind: &Kind) -> Kind {
    match kind {
        Kind::Number(number) => Kind::Number(*number),
        _ => Kind::String,
    }
}
