//! Small cases checked by hand, and the public bug cases (each test carries the number of its case). Expectations are
//! literals.

mod advantage;
mod anchors;
mod code;
mod edits;
mod loss;
mod opcodes;
mod pairs;
mod rollout;
mod similarity;
mod tokens;
