//! The invariants of [`TaskCode`], checked one by one.

use std::collections::HashMap;

use super::TaskCode;
use crate::error::{Error, Result};

impl TaskCode {
    /// Checks what every other stage relies on. Linear in the size of the task; for tests and for tasks that did not
    /// come from [`super::TaskCodeBuilder`].
    ///
    /// - `line_tokens` has one entry more than there are lines, `root_lines` one more than there are roots; both begin
    ///   with 0, rise strictly, and end with the number of tokens and of lines;
    /// - `line_ids` and `line_bytes` have an entry per line; no range of bytes is backwards;
    /// - tokens and line ids are numbered from 0 in order of first occurrence; there is a text in `vocabulary` for each
    ///   token and none more; texts are not empty and all different; two lines have equal ids iff they have equal tokens;
    /// - roots are in the order of their turns, and each turn is one of `turn_trajectory`, whose trajectories do not
    ///   descend.
    ///
    /// # Errors
    /// [`Error::Shape`] with the first invariant that does not hold, and where.
    pub fn validate(&self) -> Result<()> {
        let n_lines = self.line_ids.len();
        check_ends("line_tokens", &self.line_tokens, n_lines, "tokens", self.tokens.len())?;
        check_ends("root_lines", &self.root_lines, self.roots.len(), "line_ids", n_lines)?;
        if self.line_bytes.len() != n_lines {
            return fail(format!(
                "line_bytes has {} entries, line_ids {n_lines}",
                self.line_bytes.len()
            ));
        }
        if let Some(line) = self.line_bytes.iter().position(|bytes| bytes.start > bytes.end) {
            return fail(format!("line_bytes[{line}] ends before it begins"));
        }
        check_first_occurrence("tokens", &self.tokens, Some(self.vocabulary.len()))?;
        check_first_occurrence("line_ids", &self.line_ids, None)?;
        let mut texts = HashMap::new();
        for (id, text) in self.vocabulary.iter().enumerate() {
            if text.is_empty() {
                return fail(format!("vocabulary[{id}] is empty"));
            }
            if let Some(earlier) = texts.insert(text, id) {
                return fail(format!("vocabulary[{id}] is the same text as vocabulary[{earlier}]"));
            }
        }
        let mut of_tokens = HashMap::new();
        let mut of_id = HashMap::new();
        for (line, ends) in self.line_tokens.windows(2).enumerate() {
            let tokens = &self.tokens[ends[0] as usize..ends[1] as usize];
            let id = self.line_ids[line];
            if *of_tokens.entry(tokens).or_insert(id) != id
                || *of_id.entry(id).or_insert(tokens) != tokens
            {
                return fail(format!(
                    "line_ids[{line}] is {id}: equal ids and equal tokens must go together"
                ));
            }
        }
        for (root_idx, root) in self.roots.iter().enumerate() {
            if root.turn as usize >= self.turn_trajectory.len() {
                let turns = self.turn_trajectory.len();
                return fail(format!(
                    "roots[{root_idx}] is of turn {}, turn_trajectory has {turns}",
                    root.turn
                ));
            }
        }
        if !self.roots.is_sorted_by_key(|root| root.turn) {
            return fail("roots are not in the order of their turns".into());
        }
        if !self.turn_trajectory.is_sorted() {
            return fail("turn_trajectory is not in the order of the trajectories".into());
        }
        Ok(())
    }
}

fn fail(what: String) -> Result<()> {
    Err(Error::Shape { op: "code", what })
}

fn check_ends(name: &str, ends: &[u32], n: usize, of: &str, total: usize) -> Result<()> {
    if ends.len() != n + 1 {
        return fail(format!("{name} has {} entries, expected {}", ends.len(), n + 1));
    }
    if ends.first() != Some(&0) || ends.last().map(|&end| end as usize) != Some(total) {
        return fail(format!("{name} must begin with 0 and end with {total}, the length of {of}"));
    }
    match ends.windows(2).position(|pair| pair[0] >= pair[1]) {
        Some(at) => fail(format!("{name}[{}] is not above the entry before it", at + 1)),
        None => Ok(()),
    }
}

fn check_first_occurrence(name: &str, ids: &[u32], count: Option<usize>) -> Result<()> {
    let mut next = 0;
    for (at, &id) in ids.iter().enumerate() {
        if id > next {
            return fail(format!("{name}[{at}] is {id}, but {next} has not occurred yet"));
        }
        if id == next {
            next += 1;
        }
    }
    match count {
        Some(count) if count != next as usize => {
            fail(format!("{name} has {next} different entries, but {count} have a text"))
        }
        _ => Ok(()),
    }
}
