//! Hunk-level credit assignment for coding-agent RL.
//!
//! rollout text -> edits -> root diffs -> lines and code tokens -> windows -> similarity -> occurrences
//! -> anchors -> groups -> token advantages

pub mod advantage;
pub mod anchors;
pub mod backend;
pub mod code;
pub mod device;
pub mod edits;
pub mod error;
pub mod params;
pub mod reference;
pub mod rollout;
pub mod similarity;

pub use device::Device;
pub use error::{Error, Result};
