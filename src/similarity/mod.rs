//! Similarity of windows: which windows match, and where each candidate occurs.

use crate::code::Span;

/// When two windows match.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimilarityConfig {
    /// Least similarity of a match, in (0, 1]. The paper's eta.
    pub eta: f64,
    /// Weight w of the embedding part in `sim = (1-w)·lex + w·emb`, in [0, 1]; 0 uses the code tokens alone.
    pub embedding_weight: f64,
    /// Dimension of the built-in hashed n-gram line vectors, at least 8.
    pub embedding_dim: usize,
    /// Most bytes the operation may hold beyond its input; more is an error, never a truncated result.
    pub memory_limit: u64,
}

impl Default for SimilarityConfig {
    fn default() -> Self {
        SimilarityConfig {
            eta: 0.8,
            embedding_weight: 0.0,
            embedding_dim: 256,
            memory_limit: 4 << 30,
        }
    }
}

/// The best-matching window of one turn for one candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Occurrence {
    /// Turn, numbered through the task.
    pub turn: u32,
    /// The window.
    pub span: Span,
    /// Similarity to the candidate, at least eta.
    pub similarity: f64,
}

/// Occurrences of every candidate of a task, in the order of the candidates; each candidate's by turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Occurrences {
    /// Candidate `c` has the items `offsets[c]..offsets[c+1]`.
    pub offsets: Vec<usize>,
    /// At most one per candidate and turn.
    pub items: Vec<Occurrence>,
}

impl Occurrences {
    /// Occurrences of one candidate.
    pub fn of(&self, candidate: usize) -> &[Occurrence] {
        &self.items[self.offsets[candidate]..self.offsets[candidate + 1]]
    }

    /// Number of candidates.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// True when there is no candidate.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
