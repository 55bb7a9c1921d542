//! Small cases checked by hand, and the public bug cases (each test carries the number of its case). Expectations are
//! literals.

mod advantage;
mod anchors;
mod code;
#[path = "../support/devices.rs"]
mod devices;
mod edits;
mod logits;
mod loss;
mod opcodes;
mod pairs;
mod rollout;
mod similarity;
mod tokens;
