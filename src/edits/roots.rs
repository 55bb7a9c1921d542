//! Root diffs: the lines that each edit puts into, takes from, or overwrites in its file.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::line_diff::shared_lines;
use super::text::line_at;
use super::{
    Change, Edit, EditConfig, EditType, FileVersions, HunkLine, Note, RootDiff, SourceLine, note,
};

/// The root diffs of one turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roots {
    /// In the order of their first bytes in the response.
    pub roots: Vec<RootDiff>,
    /// What was dropped or could not be followed.
    pub notes: Vec<Note>,
}

impl FileVersions {
    /// The root diffs of the edits of one turn, and the versions of the files after them. Turns come in order.
    ///
    /// - A replacement gives a delete root (lines only in the old text) and an add root (lines only in the new text); with
    ///   `keep_context` both have all their lines. An empty search text creates a file that is not known, and appends to
    ///   one that is.
    /// - A write of a known file gives an add root of the lines that it changes; of another, an overwrite root.
    /// - An insertion gives an add root; each hunk an add root and a delete root.
    ///
    /// With `diff_gate`, a root equal to one that the last turn with this path and type gave, or to the last one of an
    /// earlier edit of this turn at the same place, is a re-emission: dropped with a note. Equal hunks of one diff are
    /// none, nor are equal changes with other lines around them: they stand at two places. Lines are compared without
    /// surrounding white space, blank ones left out.
    pub fn roots(&mut self, edits: &[Edit], config: &EditConfig) -> Roots {
        let size: usize = edits.iter().map(|edit| edit.bytes.len()).sum();
        self.work = self.total_bytes().saturating_add(size).saturating_mul(64).max(1 << 28);
        let mut roots = Roots::default();
        let mut gate = Gate::default();
        for edit in edits {
            let mut made = self.roots_of_edit(edit, config, &mut roots.notes);
            made.sort_by_key(|made| made.root.lines.first().map_or(0, |line| line.bytes.start));
            if config.diff_gate {
                made = gate.pass(self, made, &mut roots.notes);
            }
            roots.roots.extend(made.into_iter().map(|made| made.root));
        }
        self.emitted.extend(gate.turn);
        roots
    }

    fn roots_of_edit(
        &mut self,
        edit: &Edit,
        config: &EditConfig,
        notes: &mut Vec<Note>,
    ) -> Vec<Made> {
        let mut note = |kind, what: &str, skipped| {
            notes.push(Note { bytes: edit.bytes.clone(), kind, what: what.to_owned(), skipped });
        };
        let mut roots = Vec::new();
        let mut root = |edit_type, lines: Vec<SourceLine>, place: &Rc<[u8]>| {
            if !lines.is_empty() {
                let root =
                    RootDiff { path: edit.path.clone(), edit_type, lines, format: edit.format };
                roots.push(Made { root, place: Rc::clone(place) });
            }
        };
        let nowhere: Rc<[u8]> = Rc::from([]);
        if let Some(old) = &edit.old_path {
            match edit.change {
                Change::Meta("copy") => self.copy(old, &edit.path),
                Change::Meta("rename") | Change::Hunks(_) => self.rename(old, &edit.path),
                _ => {}
            }
        }
        let path = edit.path.as_str();
        let fitted = match &edit.change {
            Change::Replace { old, new } if old.is_empty() && self.get(path).is_some() => {
                root(EditType::Add, new.clone(), &nowhere);
                self.append(path, new);
                Ok(())
            }
            Change::Replace { old, new } if old.is_empty() => {
                root(EditType::Overwrite, new.clone(), &nowhere);
                self.write(path, new);
                Ok(())
            }
            Change::Replace { old, new } => {
                let place = place(old, new);
                if config.keep_context {
                    root(EditType::Delete, old.clone(), &place);
                    root(EditType::Add, new.clone(), &place);
                } else {
                    let texts = |lines: &[SourceLine]| -> Vec<Vec<u8>> {
                        lines.iter().map(|line| line.text.clone()).collect()
                    };
                    let (old_texts, new_texts) = (texts(old), texts(new));
                    let shared = shared_lines(&slices(&old_texts), &slices(&new_texts));
                    if !shared.is_exact {
                        note(
                            note::COARSE_DIFF,
                            "the texts are too long for an exact line diff",
                            false,
                        );
                    }
                    root(EditType::Delete, without(old, &shared.old), &place);
                    root(EditType::Add, without(new, &shared.new), &place);
                }
                self.replace(path, old, new)
            }
            Change::Insert { new, after } => {
                let place =
                    Rc::from(after.map_or_else(Vec::new, |line| line.to_string().into_bytes()));
                root(EditType::Add, new.clone(), &place);
                self.insert(path, new, *after)
            }
            Change::Write { new } => {
                match self.get(path) {
                    None => root(EditType::Overwrite, new.clone(), &nowhere),
                    Some(known) => {
                        let new_texts: Vec<&[u8]> =
                            new.iter().map(|line| line.text.as_slice()).collect();
                        let shared = shared_lines(&split(known), &new_texts);
                        if !shared.is_exact {
                            note(
                                note::COARSE_DIFF,
                                "the file is too long for an exact line diff",
                                false,
                            );
                        }
                        root(EditType::Add, without(new, &shared.new), &nowhere);
                    }
                }
                self.write(path, new);
                Ok(())
            }
            Change::Hunks(hunks) => {
                for hunk in hunks {
                    let lines = |wanted: &[HunkLine]| -> Vec<SourceLine> {
                        let of_kind = hunk.lines.iter().filter(|(kind, _)| wanted.contains(kind));
                        of_kind.map(|(_, line)| line.clone()).collect()
                    };
                    let place = place(
                        &lines(&[HunkLine::Context, HunkLine::Delete]),
                        &lines(&[HunkLine::Context, HunkLine::Add]),
                    );
                    root(EditType::Delete, lines(&[HunkLine::Delete]), &place);
                    root(EditType::Add, lines(&[HunkLine::Add]), &place);
                }
                self.apply(path, hunks)
            }
            Change::Meta(what) => {
                if *what == "delete" {
                    self.remove(path);
                }
                note(note::NO_CHANGE, &format!("a change without lines: {what}"), true);
                return roots;
            }
        };
        if let Err(reason) = fitted {
            note(note::NOT_APPLIED, reason, false);
        }
        if roots.is_empty() {
            note(note::NO_CHANGE, "an edit that puts in and takes out no line", true);
        }
        roots
    }
}

/// A root diff, and where its lines stand as far as the edit says: what it replaces and what it puts there, normalised.
struct Made {
    root: RootDiff,
    place: Rc<[u8]>,
}

fn place(old: &[SourceLine], new: &[SourceLine]) -> Rc<[u8]> {
    let mut place = normalised(old);
    // No normalised line is empty, so this tells the two apart.
    place.push(b'\n');
    place.extend(normalised(new));
    Rc::from(place)
}

fn slices(texts: &[Vec<u8>]) -> Vec<&[u8]> {
    texts.iter().map(Vec::as_slice).collect()
}

fn split(content: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut at) = (Vec::new(), 0);
    while at < content.len() {
        let (line, next) = line_at(content, at);
        lines.push(line);
        at = next;
    }
    lines
}

/// The lines that the other side does not share.
fn without(lines: &[SourceLine], shared: &[bool]) -> Vec<SourceLine> {
    lines.iter().zip(shared).filter(|(_, shared)| !**shared).map(|(line, _)| line.clone()).collect()
}

/// Path and edit type: what a re-emission must agree in.
type Key = (String, EditType);

/// A root's text and what stands around it.
type Emitted = (Vec<u8>, Rc<[u8]>);

/// Finds re-emissions in one turn.
#[derive(Default)]
struct Gate {
    /// The roots of this turn.
    turn: FxHashMap<Key, FxHashSet<Vec<u8>>>,
    /// The last root of the edits so far.
    last: FxHashMap<Key, Emitted>,
}

impl Gate {
    /// The roots of one edit that are no re-emissions; a note for each other one.
    fn pass(
        &mut self,
        versions: &FileVersions,
        roots: Vec<Made>,
        notes: &mut Vec<Note>,
    ) -> Vec<Made> {
        let mut kept = Vec::with_capacity(roots.len());
        let mut emitted = Vec::with_capacity(roots.len());
        for Made { root, place } in roots {
            let key = (root.path.clone(), root.edit_type);
            let text = normalised(&root.lines);
            let before = versions.emitted.get(&key).is_some_and(|texts| texts.contains(&text));
            let just_now =
                self.last.get(&key).is_some_and(|last| last.0 == text && last.1 == place);
            if !text.is_empty() && (before || just_now) {
                let start = root.lines.first().map_or(0, |line| line.bytes.start);
                let bytes = start..root.lines.last().map_or(start, |line| line.bytes.end);
                let what = "the same lines as before at this path and type".to_owned();
                notes.push(Note { bytes, kind: note::RE_EMISSION, what, skipped: true });
            } else {
                kept.push(Made { root, place: Rc::clone(&place) });
            }
            emitted.push((key, text, place));
        }
        for (key, text, place) in emitted {
            self.turn.entry(key.clone()).or_default().insert(text.clone());
            self.last.insert(key, (text, place));
        }
        kept
    }
}

/// The lines without surrounding white space, blank ones left out.
fn normalised(lines: &[SourceLine]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines.iter().map(|line| line.text.trim_ascii()).filter(|line| !line.is_empty()) {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text
}
