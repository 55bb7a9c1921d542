//! Every operation on every device against src/reference.

mod advantage;
mod anchors;
#[path = "../support/devices.rs"]
mod devices;
mod linear;
mod logits;
mod loss;
#[path = "../support/losses.rs"]
mod losses;
mod opcodes;
mod pairs;
mod similarity;
#[path = "../support/tasks.rs"]
mod tasks;
#[cfg(feature = "wgpu")]
mod wgpu;
