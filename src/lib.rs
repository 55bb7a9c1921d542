//! Hunk-level credit assignment for coding-agent RL.
//!
//! A coding agent edits several places of a program in one action, and the tests say only pass or fail. DiDPO
//! (arXiv 2608.07147) looks inside each code diff: sub-diffs that recur across the rollouts of a task become the
//! centres of groups, each with a group-relative advantage of its own beside GRPO's. This crate is the engine:
//!
//! ```text
//! rollout text -> edits -> root diffs -> lines and code tokens -> windows -> similarity -> occurrences
//! -> anchors -> groups -> token advantages
//! ```
//!
//! [`rollout::read_files`] makes a [`rollout::Batch`] of a trainer's dump; [`credit`] goes the whole way from there to
//! a [`pipeline::Credit`], task by task and row by row parallel to the batch. Each row has
//! [`advantage::SequenceCredit`]: spans of bytes and tokens, and with [`dense`](advantage::SequenceCredit::dense) one
//! f32 for each token. [`Config`] has every parameter (docs/method.md says what each does). Each stage is a module of
//! its own and can be called by itself. [`loss`] takes the result into training: policy losses over log-probs, logits or
//! hidden states, with their gradients and metrics (docs/losses.md).
//!
//! ```
//! use hunkwise::rollout::{ReadOptions, read_from};
//! use hunkwise::{Config, Device};
//!
//! let edit = r"<edit path='shop.py'><search>pass</search><replace>return sum(prices)</replace></edit>";
//! let dump = format!(
//!     "{}\n{}\n",
//!     serde_json::json!({"task": "shop", "trajectory": "a", "text": edit, "outcome": 1.0}),
//!     serde_json::json!({"task": "shop", "trajectory": "b", "text": edit, "outcome": 0.0}),
//! );
//! let batch = read_from(dump.as_bytes(), "dump.jsonl", &ReadOptions::default())?;
//! let credit = hunkwise::credit(&Device::cpu(), &batch, &Config::default())?;
//! let added = credit.tasks[0].groups.iter().find(|g| g.edit_type == hunkwise::edits::EditType::Add).unwrap();
//! assert_eq!(added.members.len(), 2);
//! assert_eq!(added.members[0].advantage, 0.5); // return 1 against a group mean of 0.5
//! # Ok::<(), hunkwise::Error>(())
//! ```
//!
//! Offsets are bytes, `end` not included; tokens count from 0 in their row. Rewards are in the units of the dump.
//! Whatever cannot be used is an [`Error`] that says where and what to do, or a flagged row of the batch.
//!
//! Numbers do not move: integers are equal on every device, thread count and order of equal rows; advantages are
//! accumulated in f64 in a fixed order and returned as f32.

pub mod advantage;
pub mod anchors;
pub mod backend;
pub mod code;
pub mod device;
pub mod edits;
pub mod error;
pub mod loss;
pub mod opcodes;
pub mod params;
pub mod pipeline;
pub mod reference;
pub mod report;
pub mod rollout;
pub mod similarity;

pub use device::Device;
pub use error::{Error, Result};
pub use pipeline::{Config, credit};

/// Compiles the example of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
