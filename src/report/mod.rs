//! What people look at: diagnostics of a run, flat metrics for loggers, the result as JSON lines, and a rollout's diff
//! with its credit.

mod diagnostics;
mod files;
mod output;
mod show;

pub use diagnostics::{Advantages, Diagnostics, Distribution, Seconds, TaskDiagnostics};
pub use files::write_whole;
pub use output::{write_credit, write_diagnostics, write_groups};
pub use show::{ShownLine, ShownRollout, ShownTurn, Sign, show_task};
