//! Tool calls in tags: `<function=name><parameter=path>…</parameter>…</function>`, and
//! `<invoke name="name"><parameter name="path">…</parameter>…</invoke>`.
//!
//! A call ends at its closing tag, or unclosed at the next opening tag of its kind or the end of the text.

use super::call::{Arg, Call, add_call};
use super::scan::{Outcome, Scan};
use super::tags::{Role, call_name};
use super::text::{Payload, tag_body};

/// The next opening tag of a call.
pub(super) fn next(scan: &Scan, from: usize) -> Option<usize> {
    scan.tags().next_opening(from, |role| matches!(role, Role::Function | Role::Invoke))
}

/// Reads the call at `at`.
pub(super) fn read<'t>(scan: &mut Scan<'t>, at: usize) -> Outcome<'t> {
    let text = scan.text();
    let tags = scan.tags();
    let mut number = tags.first_from(at);
    let Some(opening) = tags.get(number).filter(|tag| tag.end <= text.len()) else {
        return Outcome::NotHere;
    };
    let Some(name) = call_name(text, opening) else { return Outcome::NotHere };
    let mut args = Vec::new();
    let mut end = text.len();
    let mut closed = false;
    number += 1;
    while let Some(tag) = tags.get(number).filter(|tag| tag.end <= text.len()) {
        number += 1;
        if tag.same_name(opening) {
            closed = tag.closing;
            end = if closed { tag.end } else { tag.start };
            break;
        }
        if tag.closing || tag.role() != Role::Parameter {
            continue;
        }
        let Some(key) = call_name(text, tag) else { continue };
        let mate = tags
            .mate(tag)
            .filter(|&mate| tags.get(mate).is_some_and(|mate| mate.end <= text.len()));
        let (body, is_closed) = match mate.and_then(|mate| Some((mate, tags.get(mate)?))) {
            Some((mate, closing)) => {
                number = mate + 1;
                (tag.end..closing.start, true)
            }
            None => {
                // No closing tag: up to the next tag of a parameter or of the call.
                let mut stop = text.len();
                while let Some(next) = tags.get(number).filter(|next| next.end <= text.len()) {
                    if next.same_name(tag) || next.same_name(opening) {
                        stop = next.start;
                        break;
                    }
                    number += 1;
                }
                (tag.end..stop, false)
            }
        };
        args.push((key, Arg::Text(Payload::verbatim(text, tag_body(text, body), is_closed))));
    }
    let complete =
        closed && args.iter().all(|(_, arg)| matches!(arg, Arg::Text(text) if text.closed));
    if add_call(scan, Call { name: Some(name), args, bytes: at..end, closed: complete }) {
        Outcome::Done(end)
    } else if closed {
        Outcome::NothingUntil(end)
    } else {
        Outcome::NotHere
    }
}
