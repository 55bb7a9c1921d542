//! What people look at: the result, groups and diagnostics as JSON lines, and a rollout's diff with its credit.

mod files;
mod output;
mod show;

pub use crate::pipeline::{Advantages, Diagnostics, Distribution};
pub use files::write_whole;
pub use output::{write_credit, write_diagnostics, write_groups};
pub use show::{ShownLine, ShownRollout, ShownTurn, Sign, show_task};
