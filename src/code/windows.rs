//! Stand-in for the windows of a task: plain maps, no speed.

use std::collections::BTreeMap;

use super::{Span, TaskCode};
use crate::error::Result;

/// Distinct windows of a task.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    places: Vec<Vec<Span>>,
}

impl Windows {
    /// All windows up to `max_lines` and every whole root.
    pub fn all(code: &TaskCode, max_lines: u32) -> Result<Windows> {
        let mut found: BTreeMap<(crate::edits::EditType, Vec<u32>), Vec<Span>> = BTreeMap::new();
        for (root, what) in code.roots.iter().enumerate() {
            let (from, to) = (code.root_lines[root], code.root_lines[root + 1]);
            for start in 0..to - from {
                for len in 1..=to - from - start {
                    if len <= max_lines || len == to - from {
                        let at = (from + start) as usize;
                        let ids = code.line_ids[at..at + len as usize].to_vec();
                        found.entry((what.edit_type, ids)).or_default().push(Span {
                            root: root as u32,
                            start,
                            len,
                        });
                    }
                }
            }
        }
        let mut places: Vec<_> =
            found.into_iter().map(|((edit_type, _), spans)| (edit_type, spans)).collect();
        places.sort_by_key(|(edit_type, spans)| (*edit_type, spans[0]));
        Ok(Windows { places: places.into_iter().map(|(_, spans)| spans).collect() })
    }

    /// Number of candidates.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True when there is no candidate.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All places of a candidate, sorted.
    pub fn places(&self, candidate: u32) -> &[Span] {
        &self.places[candidate as usize]
    }

    /// First place of a candidate.
    pub fn first(&self, candidate: u32) -> Span {
        self.places[candidate as usize][0]
    }
}
