//! Windows of a task, by the definition.

use std::collections::BTreeMap;

use crate::code::{Span, TaskCode};

/// The places of each candidate: all windows of 1 to `max_lines` lines and each whole root, equal ones (same edit type,
/// same line ids) together, places ascending, candidates by edit type and then by first place. Only whole roots for
/// `max_lines` 0.
///
/// Every window's content is copied: time and memory of O(windows · lines).
pub fn windows(code: &TaskCode, max_lines: u32) -> Vec<Vec<Span>> {
    let mut by_content: BTreeMap<_, Vec<Span>> = BTreeMap::new();
    for root in 0..code.n_roots() {
        let first = code.root_lines[root] as usize;
        let n = code.root_lines[root + 1] as usize - first;
        for start in 0..n {
            for len in 1..=n - start {
                if len <= max_lines as usize || len == n {
                    let content = code.line_ids[first + start..first + start + len].to_vec();
                    let span = Span { root: root as u32, start: start as u32, len: len as u32 };
                    by_content.entry((code.roots[root].edit_type, content)).or_default().push(span);
                }
            }
        }
    }
    let mut candidates: Vec<_> =
        by_content.into_iter().map(|((edit_type, _), places)| (edit_type, places)).collect();
    for (_, places) in &mut candidates {
        places.sort();
    }
    candidates.sort_by_key(|(edit_type, places)| (*edit_type, places[0]));
    candidates.into_iter().map(|(_, places)| places).collect()
}
