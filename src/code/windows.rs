//! Windows of a task's code: stand-in until the stage's own file is merged.

use std::collections::HashMap;

use super::{Span, TaskCode};
use crate::edits::EditType;
use crate::error::Result;

/// The distinct windows of a task.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    places: Vec<Vec<Span>>,
    by_span: HashMap<Span, u32>,
    max_lines: u32,
}

impl TaskCode {
    /// Code tokens of a window.
    pub fn tokens_of(&self, span: Span) -> &[u32] {
        let first = (self.root_lines[span.root as usize] + span.start) as usize;
        let last = first + span.len as usize;
        &self.tokens[self.line_tokens[first] as usize..self.line_tokens[last] as usize]
    }
}

impl Windows {
    /// Every contiguous run of 1 to `max_lines` lines, and every whole root.
    pub fn all(code: &TaskCode, max_lines: u32) -> Result<Windows> {
        Ok(Self::collect(code, max_lines))
    }

    /// The whole roots alone.
    pub fn whole(code: &TaskCode) -> Windows {
        Self::collect(code, 0)
    }

    fn collect(code: &TaskCode, max_lines: u32) -> Windows {
        let mut spans = vec![];
        for root in 0..code.roots.len() {
            let n = code.root_lines[root + 1] - code.root_lines[root];
            for start in 0..n {
                for len in 1..=max_lines.min(n - start) {
                    spans.push(Span { root: root as u32, start, len });
                }
                if start == 0 && n > max_lines {
                    spans.push(Span { root: root as u32, start, len: n });
                }
            }
        }
        let mut by_key: HashMap<(EditType, &[u32]), usize> = HashMap::new();
        let mut found: Vec<(EditType, Vec<Span>)> = vec![];
        for span in spans {
            let first = (code.root_lines[span.root as usize] + span.start) as usize;
            let edit_type = code.roots[span.root as usize].edit_type;
            let key = (edit_type, &code.line_ids[first..first + span.len as usize]);
            let slot = *by_key.entry(key).or_insert(found.len());
            if slot == found.len() {
                found.push((edit_type, vec![]));
            }
            found[slot].1.push(span);
        }
        found.sort_by_key(|(edit_type, places)| (*edit_type, places[0]));
        let places: Vec<Vec<Span>> = found.into_iter().map(|(_, places)| places).collect();
        let by_span = places
            .iter()
            .enumerate()
            .flat_map(|(c, p)| p.iter().map(move |s| (*s, c as u32)))
            .collect();
        Windows { places, by_span, max_lines }
    }

    /// Number of candidates.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True when there is no candidate.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Places of a candidate, sorted.
    pub fn places(&self, candidate: usize) -> &[Span] {
        &self.places[candidate]
    }

    /// First place of a candidate.
    pub fn first(&self, candidate: usize) -> Span {
        self.places[candidate][0]
    }

    /// The candidate that a window is.
    pub fn candidate_of(&self, span: Span) -> Option<u32> {
        self.by_span.get(&span).copied()
    }

    /// Most lines of a window that is not a whole root.
    pub fn max_lines(&self) -> u32 {
        self.max_lines
    }
}
