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

/// Stand-in: Indel similarity `2·L/(m+n)`, 1 for two empty sequences.
pub fn indel_similarity(a: &[u32], b: &[u32]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let mut row = vec![0u32; b.len() + 1];
    for &x in a {
        let mut diagonal = 0;
        for (j, &y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    2.0 * f64::from(row[b.len()]) / (a.len() + b.len()) as f64
}
