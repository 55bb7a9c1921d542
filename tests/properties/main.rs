//! What must hold for any input: exact byte ranges, symmetry, bounds, order, no panic.

mod advantage;
mod anchors;
mod code;
mod edits;
mod logits;
mod loss;
#[path = "../support/losses.rs"]
mod losses;
mod pairs;
mod rollout;
mod similarity;
