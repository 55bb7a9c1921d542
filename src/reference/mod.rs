//! The specification: every operation as plain loops in f64. Never optimised; the fast paths are tested against it.

pub mod advantage;
pub mod anchors;
pub mod logits;
pub mod loss;
pub mod opcodes;
pub mod similarity;
pub mod windows;
