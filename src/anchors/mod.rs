//! Anchors: which candidates become the centres of advantage groups.
//!
//! Every window that occurs in two trajectories may become an anchor. [`select`] takes the few that cover most:
//! greedy facility location over code lines (or occurrences), each unit worth the best groupability that covers it,
//! and then cuts the groups apart so that no line earns credit twice. [`facility_location`] is the same greedy selection
//! on any weighted sparse graph.

use crate::code::Span;
use crate::error::{Error, Result};
use crate::similarity::Occurrence;

mod cut;
mod facility;
mod groupability;
mod lazy;
mod select;
mod units;

pub use facility::{Csr, Picks, facility_location};
pub use groupability::groupability;
pub use select::{Selection, select};

/// How anchors are scored and selected.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnchorConfig {
    /// Form of the groupability score.
    pub groupability: Groupability,
    /// Scale of the mean size in lines, above 0. 8 in the authors' code (the paper prints 1).
    pub s0: f64,
    /// Scale of the number of occurrences, above 0. 8 in the authors' code (the paper prints 1).
    pub g0: f64,
    /// Most anchors per task, K.
    pub max_anchors: usize,
    /// What the selection covers.
    pub unit: Unit,
}

impl Default for AnchorConfig {
    fn default() -> Self {
        AnchorConfig {
            groupability: Groupability::Exponential,
            s0: 8.0,
            g0: 8.0,
            max_anchors: 64,
            unit: Unit::Line,
        }
    }
}

impl AnchorConfig {
    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// [`Error::Config`] with the name of the first one that is out of its range.
    pub fn validate(&self) -> Result<()> {
        for (name, scale) in [("s0", self.s0), ("g0", self.g0)] {
            if !(scale.is_finite() && scale > 0.0) {
                let expected = "finite and above 0";
                return Err(Error::Config {
                    op: "anchors",
                    name,
                    got: scale.to_string(),
                    expected,
                });
            }
        }
        Ok(())
    }
}

/// Forms of the groupability score GS of a candidate with mean size L lines and n occurrences; 0 for n < 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Groupability {
    /// `(1 - exp(-L/s0)) · (1 - exp(-(n-1)/g0))`, the paper's.
    Exponential,
    /// `L/s0 + (n-1)/g0`.
    Additive,
    /// `ln(1 + L/s0) · ln(1 + (n-1)/g0)`.
    Log,
    /// `(L/s0) · ((n-1)/g0)`.
    Linear,
}

/// What the selection covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Lines of root diffs: overlapping windows of one place count once.
    Line,
    /// Occurrences (windows), the paper's wording.
    Occurrence,
}

/// A selected window and its group after the cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Anchor {
    /// Candidate it was selected as.
    pub candidate: u32,
    /// First place of the candidate.
    pub span: Span,
    /// Groupability score after the cut.
    pub score: f64,
    /// Members of the group, by turn; pairwise from different turns, and disjoint from those of other anchors.
    pub members: Vec<Occurrence>,
}
