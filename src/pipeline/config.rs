//! Every parameter of the pipeline.

use crate::advantage::AdvantageConfig;
use crate::anchors::AnchorConfig;
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
        self.similarity.validate()?;
        self.anchors.validate()?;
        self.advantage.validate()
    }
}
