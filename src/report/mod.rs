//! What people look at: the result, groups and diagnostics as JSON lines, a rollout's diff with its credit, and
//! what the credit costs.

mod files;
mod output;
mod profile;
mod show;

pub use crate::pipeline::{Advantages, Diagnostics, Distribution};
pub use files::write_whole;
pub use output::{write_credit, write_diagnostics, write_groups};
pub use profile::{Growth, MethodCost, Profile, StageCost, TraceSlice, write_profile, write_trace};
pub use show::{ShownLine, ShownRollout, ShownTurn, Sign, show_task};
