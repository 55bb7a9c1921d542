//! Similarity of windows: which windows match, and where each candidate occurs.
//!
//! Lexical similarity is the Indel similarity of the code tokens, `2·LCS / (m + n)`; rapidfuzz's
//! `Indel.normalized_similarity` on the same lists. With [`LineVectors`] it is blended with a cosine (DESIGN 3.3). Both
//! are exact: no hashing of neighbourhoods, no sampling, no budget of pairs.
//!
//! [`occurrences`] works on all windows at once; [`pair_similarity`] on any list of token sequences.

mod embedding;
mod occurrences;
mod pairs;
mod starts;

pub use embedding::LineVectors;
pub use occurrences::{exact_occurrences, matches, occurrences};
pub use pairs::{Ragged, indel_similarity, lcs, pair_similarity};

use crate::code::Span;
use crate::error::{Error, Result};
pub use crate::params::Match;

/// When two windows match.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimilarityConfig {
    /// Least similarity of a match, in (0, 1]. The paper's eta.
    pub eta: f64,
    /// Weight w of the embedding part in `sim = (1-w)·lex + w·emb`, in [0, 1]; 0 uses the code tokens alone.
    pub embedding_weight: f64,
    /// Dimension of the built-in hashed n-gram line vectors, from 8 to 65536.
    pub embedding_dim: usize,
    /// Most bytes for what grows faster than the input: tables of windows by turns, products of line vectors, lists of
    /// pairs. Work that can be cut into passes is; the rest is an error, never a truncated result. Copies of the input
    /// and the occurrences that are returned come on top.
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

impl SimilarityConfig {
    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// [`Error::Config`] with the name of the first one that is out of its range.
    pub fn validate(&self) -> Result<()> {
        check_eta("similarity", self.eta)?;
        if !(0.0..=1.0).contains(&self.embedding_weight) {
            return Err(Error::Config {
                op: "similarity",
                name: "embedding_weight",
                got: self.embedding_weight.to_string(),
                expected: "a number from 0 to 1",
            });
        }
        embedding::check_dim(self.embedding_dim)
    }
}

fn check_eta(op: &'static str, eta: f64) -> Result<()> {
    if eta > 0.0 && eta <= 1.0 {
        return Ok(());
    }
    let expected = "above 0 and at most 1";
    Err(Error::Config { op, name: "eta", got: eta.to_string(), expected })
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
    ///
    /// # Panics
    /// If there is no such candidate, or the offsets do not fit the items, as with a slice.
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
