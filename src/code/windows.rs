//! Windows: the candidates of a task, duplicates collapsed, with all their places.
//!
//! With N lines and W windows, N log N comparisons of at most `max_lines` numbers and O(W) besides; about 20 bytes per
//! window. Lines are sorted by the line ids that follow them (a suffix order cut at `max_lines`); windows of one content
//! then are a node of a trie over neighbours in that order, found through common prefixes, and no window is hashed or
//! stored by content.

use rustc_hash::FxHashMap;

use super::{Span, TaskCode};
use crate::edits::EditType;
use crate::error::{Error, Result};

/// All distinct windows of a task.
///
/// Two windows are one candidate iff they have the same edit type and the same line ids in the same order. Candidates
/// are numbered by edit type, then by their first place in the order of [`Span`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    max_lines: u32,
    /// Places of all candidates; those of candidate `c` are `place_ends[c]..place_ends[c + 1]`, ascending.
    places: Vec<Span>,
    place_ends: Vec<u32>,
    /// Candidate of each window of up to `max_lines` lines: those that begin at line `i` are
    /// `line_windows[i]..line_windows[i + 1]`, by length from 1.
    candidates: Vec<u32>,
    line_windows: Vec<u32>,
    /// Candidate of each root as a whole.
    whole: Vec<u32>,
    /// First line of each root, and its end.
    root_lines: Vec<u32>,
}

const EDIT_TYPES: [EditType; 3] = [EditType::Add, EditType::Delete, EditType::Overwrite];

impl Windows {
    /// All windows of 1 to `max_lines` lines of a root, and each root as a whole.
    ///
    /// # Errors
    /// [`Error::Config`] when `max_lines` is 0; [`Error::Limit`] when there are more windows than fit `u32`.
    pub fn all(code: &TaskCode, max_lines: u32) -> Result<Windows> {
        if max_lines == 0 {
            return Err(Error::Config {
                op: "windows",
                name: "max_lines",
                got: "0".into(),
                expected: "at least 1 line",
            });
        }
        Windows::build(code, max_lines)
    }

    /// Each root as a whole, and nothing else.
    ///
    /// # Errors
    /// [`Error::Limit`] as for [`Windows::all`].
    pub fn whole(code: &TaskCode) -> Result<Windows> {
        Windows::build(code, 0)
    }

    /// Candidates.
    pub fn len(&self) -> usize {
        self.place_ends.len() - 1
    }

    /// True when the task has no code.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Windows, equal ones counted each.
    pub fn n_places(&self) -> usize {
        self.places.len()
    }

    /// Most lines of a window that is not a whole root; 0 when there are only whole roots.
    pub fn max_lines(&self) -> u32 {
        self.max_lines
    }

    /// All places of a candidate, ascending, at least one.
    ///
    /// # Panics
    /// If there is no such candidate, as with a slice.
    #[inline]
    pub fn places(&self, candidate: u32) -> &[Span] {
        let candidate = candidate as usize;
        &self.places[self.place_ends[candidate] as usize..self.place_ends[candidate + 1] as usize]
    }

    /// First place of a candidate.
    ///
    /// # Panics
    /// If there is no such candidate, as with a slice.
    #[inline]
    pub fn first(&self, candidate: u32) -> Span {
        self.places[self.place_ends[candidate as usize] as usize]
    }

    /// The candidate of a place; `None` when there is no window at it.
    #[inline]
    pub fn candidate_of(&self, span: Span) -> Option<u32> {
        let root = span.root as usize;
        let (&first, &end) =
            (self.root_lines.get(root)?, self.root_lines.get(root.checked_add(1)?)?);
        let lines = end - first;
        if span.len == 0 || span.start >= lines || span.len > lines - span.start {
            return None;
        }
        if span.len > self.max_lines {
            return if span.len == lines { self.whole.get(root).copied() } else { None };
        }
        let at = self.line_windows.get((first + span.start) as usize)? + (span.len - 1);
        self.candidates.get(at as usize).copied()
    }

    fn build(code: &TaskCode, max_lines: u32) -> Result<Windows> {
        let line_windows = count_windows(code, max_lines)?;
        let n_short = line_windows.last().copied().unwrap_or(0) as usize;
        let (mut candidates, n_nodes) = short_nodes(code, max_lines, &line_windows, n_short);
        let (mut whole, n_nodes) =
            whole_nodes(code, max_lines, &candidates, &line_windows, n_nodes);

        // Nodes become candidates in the order of their first places.
        let mut number = vec![u32::MAX; n_nodes];
        let mut n_candidates = 0;
        for edit_type in EDIT_TYPES {
            for_each_window(
                code,
                max_lines,
                Some(edit_type),
                &candidates,
                &whole,
                &line_windows,
                |_, node| {
                    if number[node as usize] == u32::MAX {
                        number[node as usize] = n_candidates;
                        n_candidates += 1;
                    }
                },
            );
        }
        for node in candidates.iter_mut().chain(&mut whole) {
            *node = number[*node as usize];
        }
        drop(number);

        // Counting sort of the windows by candidate; taken in the order of spans, so each candidate's stay in it.
        let mut ends = vec![0_u32; n_candidates as usize + 1];
        for_each_window(
            code,
            max_lines,
            None,
            &candidates,
            &whole,
            &line_windows,
            |_, candidate| {
                ends[candidate as usize] += 1;
            },
        );
        let mut n_places = 0;
        for end in &mut ends {
            n_places += std::mem::replace(end, n_places);
        }
        let mut places = vec![Span { root: 0, start: 0, len: 0 }; n_places as usize];
        for_each_window(
            code,
            max_lines,
            None,
            &candidates,
            &whole,
            &line_windows,
            |span, candidate| {
                let slot = &mut ends[candidate as usize];
                places[*slot as usize] = span;
                *slot += 1;
            },
        );
        // Each entry has moved from its candidate's begin to its end.
        ends.rotate_right(1);
        ends[0] = 0;
        Ok(Windows {
            max_lines,
            places,
            place_ends: ends,
            candidates,
            line_windows,
            whole,
            root_lines: code.root_lines.clone(),
        })
    }
}

/// Number of windows that begin at each line, up to `max_lines` lines long, as offsets.
fn count_windows(code: &TaskCode, max_lines: u32) -> Result<Vec<u32>> {
    let mut offsets = Vec::with_capacity(code.n_lines() + 1);
    let mut total = 0_u64;
    offsets.push(0);
    for root in 0..code.n_roots() {
        let lines = code.lines_of(root as u32);
        for line in lines.clone() {
            total += ((lines.end - line) as u64).min(u64::from(max_lines));
            // Cut off only when the check below fails.
            offsets.push(total as u32);
        }
    }
    let needed = total + code.n_roots() as u64;
    // One number is kept for "none".
    let limit = u64::from(u32::MAX) - 1;
    if needed > limit {
        return Err(Error::Limit {
            op: "windows",
            what: "the number of windows of a task",
            needed,
            limit,
            advice: "lower max_lines",
        });
    }
    Ok(offsets)
}

/// The node of each window of up to `max_lines` lines (indexed like `Windows::candidates`), and the number of
/// nodes.
fn short_nodes(
    code: &TaskCode,
    max_lines: u32,
    line_windows: &[u32],
    n_short: usize,
) -> (Vec<u32>, usize) {
    if max_lines == 0 {
        return (Vec::new(), 0);
    }
    let mut order = Vec::with_capacity(code.n_lines());
    for (root_idx, root) in code.roots.iter().enumerate() {
        order.extend(code.lines_of(root_idx as u32).map(|line| (root.edit_type, line as u32)));
    }
    let suffix = |line: u32| {
        let line = line as usize;
        let len = (line_windows[line + 1] - line_windows[line]) as usize;
        &code.line_ids[line..line + len]
    };
    order.sort_unstable_by(|a, b| {
        let by_content = a.0.cmp(&b.0).then_with(|| suffix(a.1).cmp(suffix(b.1)));
        by_content.then_with(|| a.1.cmp(&b.1))
    });

    let mut nodes = vec![0; n_short];
    // Nodes on the path to the current start, by length.
    let mut path: Vec<u32> = Vec::new();
    let mut n_nodes = 0;
    let mut previous: Option<(EditType, &[u32])> = None;
    for &(edit_type, line) in &order {
        let lines = suffix(line);
        let common = match previous {
            Some((t, before)) if t == edit_type => {
                before.iter().zip(lines).take_while(|(a, b)| a == b).count()
            }
            _ => 0,
        };
        path.truncate(common);
        for _ in common..lines.len() {
            path.push(n_nodes);
            n_nodes += 1;
        }
        let first = line_windows[line as usize] as usize;
        nodes[first..first + lines.len()].copy_from_slice(&path);
        previous = Some((edit_type, lines));
    }
    (nodes, n_nodes as usize)
}

/// The node of each root as a whole, and the number of nodes then. Roots of more than `max_lines` lines get new ones.
fn whole_nodes(
    code: &TaskCode,
    max_lines: u32,
    nodes: &[u32],
    line_windows: &[u32],
    mut n_nodes: usize,
) -> (Vec<u32>, usize) {
    let mut long: FxHashMap<(EditType, &[u32]), u32> = FxHashMap::default();
    let mut whole = Vec::with_capacity(code.n_roots());
    for (root_idx, root) in code.roots.iter().enumerate() {
        let lines = code.lines_of(root_idx as u32);
        if lines.len() <= max_lines as usize {
            whole.push(nodes[line_windows[lines.start] as usize + lines.len() - 1]);
            continue;
        }
        let node = *long.entry((root.edit_type, &code.line_ids[lines])).or_insert_with(|| {
            n_nodes += 1;
            n_nodes as u32 - 1
        });
        whole.push(node);
    }
    (whole, n_nodes)
}

/// Calls `f` with each window, in the order of spans, and its entry in `candidates` or `whole`.
fn for_each_window(
    code: &TaskCode,
    max_lines: u32,
    edit_type: Option<EditType>,
    candidates: &[u32],
    whole: &[u32],
    line_windows: &[u32],
    mut f: impl FnMut(Span, u32),
) {
    for (root_idx, root) in code.roots.iter().enumerate() {
        if edit_type.is_some_and(|t| t != root.edit_type) {
            continue;
        }
        let lines = code.lines_of(root_idx as u32);
        let root = root_idx as u32;
        for line in lines.clone() {
            let start = (line - lines.start) as u32;
            let here = line_windows[line] as usize..line_windows[line + 1] as usize;
            for (len, &entry) in (1..).zip(&candidates[here]) {
                f(Span { root, start, len }, entry);
            }
            if start == 0 && lines.len() > max_lines as usize {
                f(Span { root, start, len: lines.len() as u32 }, whole[root_idx]);
            }
        }
    }
}
