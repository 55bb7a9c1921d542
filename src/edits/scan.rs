//! Finds where each notation starts, and reads the pieces in order.
//!
//! Every notation says where it may start next; the earliest place is read, by the notation that stands first in the
//! table when there are several. A place that is passed is never read again, so the whole is linear. Fences and blocks
//! of plain text are containers: another notation at the start of their body makes them its wrapper.

use std::ops::Range;

use bstr::ByteSlice;

use super::fence::Closings;
use super::tags::{Role, Tags};
use super::text::{Payload, is_blank, line_at, line_end};
use super::{Change, Edit, EditConfig, Format, Note, Parsed, SourceLine, fence, note};
use super::{apply_patch, search_replace, tool_call, tool_tags, unified_diff, xml};

/// A notation: where it may start at or after an offset, and how it is read there.
struct Notation {
    is_fence: bool,
    next: fn(&Scan, usize) -> Option<usize>,
    read: for<'t> fn(&mut Scan<'t>, usize) -> Outcome<'t>,
}

const NOTATIONS: [Notation; 7] = [
    Notation { is_fence: false, next: xml::next, read: xml::read },
    Notation { is_fence: false, next: tool_tags::next, read: tool_tags::read },
    Notation { is_fence: false, next: tool_call::next, read: tool_call::read },
    Notation { is_fence: false, next: apply_patch::next, read: apply_patch::read },
    Notation { is_fence: false, next: search_replace::next, read: search_replace::read },
    Notation { is_fence: false, next: unified_diff::next, read: unified_diff::read },
    Notation { is_fence: true, next: fence::next, read: fence::read },
];

/// Notations that a patch inside a tool call's argument is read in.
const PATCHES: [Notation; 3] = [
    Notation { is_fence: false, next: apply_patch::next, read: apply_patch::read },
    Notation { is_fence: false, next: search_replace::next, read: search_replace::read },
    Notation { is_fence: false, next: unified_diff::next, read: unified_diff::read },
];

/// What reading at a place gave.
pub(super) enum Outcome<'t> {
    /// It is not this notation.
    NotHere,
    /// It is not this notation, and nothing of it starts before this offset.
    NothingUntil(usize),
    /// Edits or notes were added; they end here.
    Done(usize),
    /// A block of text that is an edit unless it wraps another notation.
    Container(Container<'t>),
}

/// A block of text that is an edit unless another notation starts in it before `reach`.
pub(super) struct Container<'t> {
    /// Its inside.
    pub(super) body: Range<usize>,
    /// Where another notation must start at the latest to make it a wrapper.
    pub(super) reach: usize,
    /// Its end.
    pub(super) end: usize,
    /// The file that it names.
    pub(super) hint: Option<String>,
    /// Its fence, when it is one.
    pub(super) fence: Option<fence::Open>,
    /// Makes the edit that it is otherwise, if any, with notes to it. Not before it is needed: a body that is not closed goes on
    /// to the end of the text, and there may be many.
    pub(super) fallback: Box<dyn FnOnce() -> (Option<Found>, Vec<Note>) + 't>,
}

/// An edit, and what is known of its block when it is a fenced one.
pub(super) struct Found {
    /// The edit.
    pub(super) edit: Edit,
    /// Of a fenced block: what decides whether it counts.
    pub(super) block: Option<fence::Block>,
}

/// A wrapper around what is read now.
struct Wrapper {
    fence: Option<fence::Open>,
    hint: Option<String>,
    end: usize,
}

/// The state of reading one response.
pub(super) struct Scan<'t> {
    full: &'t [u8],
    limit: usize,
    tags: &'t Tags,
    closings: &'t Closings,
    found: Vec<Found>,
    notes: Vec<Note>,
    containers: Vec<Container<'t>>,
    wrapper: Option<Wrapper>,
}

impl<'t> Scan<'t> {
    fn new(full: &'t [u8], tags: &'t Tags, closings: &'t Closings) -> Self {
        Scan {
            full,
            limit: full.len(),
            tags,
            closings,
            found: vec![],
            notes: vec![],
            containers: vec![],
            wrapper: None,
        }
    }

    /// The text up to where reading may go.
    pub(super) fn text(&self) -> &'t [u8] {
        &self.full[..self.limit]
    }

    /// The whole text, to look ahead in.
    pub(super) fn full_text(&self) -> &'t [u8] {
        self.full
    }

    /// The tags of the whole text.
    pub(super) fn tags(&self) -> &'t Tags {
        self.tags
    }

    /// Where the line starts that closes a fence, looked for from the line at `from` on.
    pub(super) fn fence_end(&self, open: fence::Open, from: usize) -> Option<usize> {
        self.closings.find(open, from).filter(|&at| at < self.limit)
    }

    /// The file named by what stands around the place that is read.
    pub(super) fn hint(&self) -> Option<String> {
        let container = self.containers.iter().rev().find_map(|container| container.hint.clone());
        container.or_else(|| self.wrapper.as_ref().and_then(|wrapper| wrapper.hint.clone()))
    }

    /// The fence around the place that is read.
    pub(super) fn open_fence(&self) -> Option<fence::Open> {
        let container = self.containers.iter().rev().find_map(|container| container.fence);
        container.or_else(|| self.wrapper.as_ref().and_then(|wrapper| wrapper.fence))
    }

    /// The file of the last edit, when it has this notation.
    pub(super) fn last_path(&self, format: Format) -> Option<String> {
        let last = self.found.iter().rev().find(|found| found.block.is_none())?;
        (last.edit.format == format).then(|| last.edit.path.clone())
    }

    /// Edits so far.
    pub(super) fn n_edits(&self) -> usize {
        self.found.len()
    }

    /// Adds an edit.
    pub(super) fn edit(&mut self, edit: Edit) {
        self.found.push(Found { edit, block: None });
    }

    /// Sets the bytes of the last edit.
    pub(super) fn widen_last(&mut self, bytes: Range<usize>) {
        if let Some(found) = self.found.last_mut() {
            found.edit.bytes = bytes;
        }
    }

    /// Adds a note.
    pub(super) fn note(
        &mut self,
        bytes: Range<usize>,
        kind: &'static str,
        what: impl Into<String>,
        skipped: bool,
    ) {
        self.notes.push(Note { bytes, kind, what: what.into(), skipped });
    }

    /// Adds the edits of a patch that is spelled in a tool call's argument, with offsets in the response; each takes
    /// `bytes` when it is the only one. `hint` is the file that the call names. False when there are none.
    pub(super) fn add_nested(
        &mut self,
        patch: &Payload,
        hint: Option<String>,
        bytes: Range<usize>,
    ) -> bool {
        let (tags, closings) = (Tags::default(), Closings::default());
        let mut inner = Scan::new(&patch.text, &tags, &closings);
        inner.wrapper = Some(Wrapper { fence: None, hint, end: usize::MAX });
        inner.run(0, &PATCHES, None);
        let Scan { found, notes, .. } = inner;
        let any = !found.is_empty() || !notes.is_empty();
        let only = found.len() == 1;
        for Found { mut edit, .. } in found {
            map_edit(&mut edit, patch);
            if only {
                edit.bytes = bytes.clone();
            }
            edit.format = Format::ToolCall;
            self.edit(edit);
        }
        for mut note in notes {
            note.bytes = patch.map.response_range(note.bytes);
            self.notes.push(note);
        }
        any
    }

    /// Reads from `pos` on. `draft` is a thinking section at the start that no tag opens: where it ends, and where its
    /// closing tag does.
    fn run(&mut self, mut pos: usize, notations: &[Notation], draft: Option<(usize, usize)>) {
        // Where each notation may start next; `None` once there is nothing more.
        let mut heads: Vec<Option<usize>> =
            notations.iter().map(|notation| (notation.next)(self, pos)).collect();
        let mut think = self.next_think(pos);
        let mut drafts = draft.map(|(end, after)| (end, after, 0));
        if let Some((end, ..)) = drafts {
            self.limit = end;
        }
        loop {
            let mut best: Option<(usize, usize)> = None;
            for (i, notation) in notations.iter().enumerate() {
                if notation.is_fence && !self.containers.is_empty() {
                    continue;
                }
                if heads[i].is_some_and(|at| at < pos) {
                    heads[i] = (notation.next)(self, pos);
                }
                if let Some(at) = heads[i]
                    && best.is_none_or(|(first, _)| at < first)
                {
                    best = Some((at, i));
                }
            }
            let at = best.map_or(usize::MAX, |(at, _)| at);
            if let Some(reach) = self.containers.last().map(|container| container.reach)
                && at >= reach
            {
                pos = self.close_container(pos);
                continue;
            }
            if think.is_some_and(|at| at < pos) {
                think = self.next_think(pos);
            }
            if let Some(start) = think
                && start < at.min(self.limit)
                && drafts.is_none()
                && self.containers.is_empty()
            {
                think = self.next_think(start + 1);
                if let Some((end, after)) = self.think_end(start) {
                    drafts = Some((end, after, self.found.len()));
                    self.limit = end;
                    pos = pos.max(start);
                }
                continue;
            }
            if at >= self.limit {
                let Some((end, after, first)) = drafts.take() else { return };
                for Found { edit, .. } in self.found.drain(first..) {
                    let what = "an edit inside a thinking section".to_owned();
                    self.notes.push(Note {
                        bytes: edit.bytes,
                        kind: note::IN_THINKING,
                        what,
                        skipped: true,
                    });
                }
                self.limit = self.full.len();
                self.wrapper = None;
                pos = after.max(end).max(pos);
                continue;
            }
            let Some((_, i)) = best else { return };
            if self.wrapper.as_ref().is_some_and(|wrapper| at >= wrapper.end) {
                self.wrapper = None;
            }
            if notations[i].is_fence
                && let Some(open) = self.wrapper.as_ref().and_then(|wrapper| wrapper.fence)
            {
                let (line, next) = line_at(self.full, at);
                if open.closed_by(line) {
                    (self.wrapper, pos) = (None, next);
                    continue;
                }
                if !fence::read_opening(line).is_some_and(|opening| opening.has_info()) {
                    pos = next;
                    continue;
                }
                self.wrapper = None;
            }
            match (notations[i].read)(self, at) {
                Outcome::NotHere => heads[i] = (notations[i].next)(self, at + 1),
                Outcome::NothingUntil(end) => heads[i] = (notations[i].next)(self, end.max(at + 1)),
                Outcome::Done(end) => {
                    pos = end.max(at + 1);
                    self.open_wrapper();
                }
                Outcome::Container(container) => {
                    pos = container.body.start.max(at + 1);
                    heads[i] = (notations[i].next)(self, pos);
                    self.containers.push(container);
                }
            }
        }
    }

    /// The containers around what was just read are its wrappers.
    fn open_wrapper(&mut self) {
        for container in self.containers.drain(..) {
            let hint =
                container.hint.or_else(|| self.wrapper.take().and_then(|wrapper| wrapper.hint));
            let end = if container.fence.is_some() { usize::MAX } else { container.end };
            self.wrapper = Some(Wrapper { fence: container.fence, hint, end });
        }
    }

    /// The innermost container wraps nothing: it is the edit itself. The offset after it.
    fn close_container(&mut self, pos: usize) -> usize {
        let Some(container) = self.containers.pop() else { return pos };
        let (found, notes) = (container.fallback)();
        self.found.extend(found);
        self.notes.extend(notes);
        self.open_wrapper();
        container.end.max(pos)
    }

    fn next_think(&self, from: usize) -> Option<usize> {
        self.tags.next_opening(from, |role| role == Role::Think)
    }

    /// Start and end of the tag that closes the thinking section which opens at `start`.
    fn think_end(&self, start: usize) -> Option<(usize, usize)> {
        let opening = self.tags.get(self.tags.first_from(start))?;
        let closing = self.tags.next_closing(opening)?;
        Some((closing.start, closing.end))
    }
}

fn map_edit(edit: &mut Edit, patch: &Payload) {
    let map_lines = |lines: &mut Vec<SourceLine>| {
        for line in lines {
            line.bytes = patch.map.response_range(line.bytes.clone());
        }
    };
    edit.bytes = patch.map.response_range(edit.bytes.clone());
    match &mut edit.change {
        Change::Replace { old, new } => {
            map_lines(old);
            map_lines(new);
        }
        Change::Insert { new, .. } | Change::Write { new } => map_lines(new),
        Change::Hunks(hunks) => {
            for (_, line) in hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
                line.bytes = patch.map.response_range(line.bytes.clone());
            }
        }
        Change::Meta(_) => {}
    }
}

/// A first `</think>`, alone on its line, before any opening tag: where it starts and ends.
fn lone_think_end(text: &[u8], tags: &Tags) -> Option<(usize, usize)> {
    let tag = tags.first_with(|role| role == Role::Think).filter(|tag| tag.closing)?;
    let start = text[..tag.start].rfind_byte(b'\n').map_or(0, |i| i + 1);
    let after = &text[tag.end..line_end(text, tag.end)];
    let alone =
        is_blank(&text[start..tag.start]) && is_blank(after.strip_suffix(b"\n").unwrap_or(after));
    alone.then_some((tag.start, tag.end))
}

/// See [`super::parse`].
pub(super) fn parse(response: &[u8], config: &EditConfig) -> Parsed {
    let (tags, closings) = (Tags::new(response), Closings::new(response));
    let lone = lone_think_end(response, &tags);
    let mut scan = Scan::new(response, &tags, &closings);
    scan.run(0, &NOTATIONS, None);
    if let Some((end, after)) = lone {
        // Unless the tag is content of an edit that is whole, what stands before it is a draft.
        let is_content = scan.found.iter().any(|Found { edit, .. }| {
            let around =
                edit.bytes.start < end && end < edit.bytes.end && edit.format != Format::Fence;
            around
                && !scan
                    .notes
                    .iter()
                    .any(|n| n.kind == note::UNCLOSED && n.bytes.contains(&edit.bytes.start))
        });
        if !is_content {
            scan = Scan::new(response, &tags, &closings);
            scan.run(0, &NOTATIONS, Some((end, after)));
        }
    }
    let Scan { found, mut notes, .. } = scan;
    let mut edits = fence::choose(found, &mut notes, config);
    edits.sort_by_key(|edit| edit.bytes.start);
    notes.sort_by_key(|note| (note.bytes.start, note.bytes.end));
    Parsed { edits, notes }
}
