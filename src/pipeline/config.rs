//! Every parameter of the pipeline.

use crate::advantage::AdvantageConfig;
use crate::anchors::{AnchorConfig, Groupability};
use crate::edits::EditConfig;
use crate::error::{Error, Result};
use crate::similarity::SimilarityConfig;

/// How the groups of the diff advantage are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    /// Every window of every root diff is a candidate: DiDPO.
    Windows,
    /// Only whole root diffs are candidates.
    Whole,
    /// Every window is a candidate, and only equal windows match.
    Exact,
    /// Runs of equal lines of each pair of root diffs, and replaced runs with similar text, as difflib lines them up: the
    /// authors' code on all pairs.
    Opcodes,
    /// No groups: the episode advantage alone, GRPO.
    None,
}

/// Every parameter of the pipeline. The default is the paper's method with the authors' constants.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How groups are made.
    pub grouping: Grouping,
    /// Longest window in lines, at least 1; whole root diffs are windows at any length.
    pub max_lines: u32,
    /// How edits are found.
    pub edits: EditConfig,
    /// When windows match.
    pub similarity: SimilarityConfig,
    /// How anchors are selected.
    pub anchors: AnchorConfig,
    /// How advantages are computed.
    pub advantage: AdvantageConfig,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            grouping: Grouping::Windows,
            max_lines: 32,
            edits: EditConfig::default(),
            similarity: SimilarityConfig::default(),
            anchors: AnchorConfig::default(),
            advantage: AdvantageConfig::default(),
        }
    }
}

impl Config {
    /// Checks every parameter against its range.
    ///
    /// # Errors
    /// [`Error::Config`] with the name, the value and the range of the first one that is outside.
    pub fn validate(&self) -> Result<()> {
        if self.max_lines == 0 {
            return Err(Error::Config {
                op: "config",
                name: "max_lines",
                got: "0".to_string(),
                expected: "at least 1",
            });
        }
        if self.grouping == Grouping::Opcodes {
            let refused = |name, got, expected| {
                Err(Error::Config { op: "grouping = opcodes", name, got, expected })
            };
            if self.anchors.groupability != Groupability::Exponential {
                let got = format!("{:?}", self.anchors.groupability).to_lowercase();
                return refused("groupability", got, "exponential");
            }
            if self.similarity.embedding_weight != 0.0 {
                let got = self.similarity.embedding_weight.to_string();
                return refused("embedding_weight", got, "0: texts are compared by characters");
            }
        }
        self.similarity.validate()?;
        self.anchors.validate()?;
        self.advantage.validate()
    }
}
