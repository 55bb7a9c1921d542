//! Every operation on every device against src/reference.

mod advantage;
mod anchors;
mod pairs;
mod similarity;
#[path = "../support/tasks.rs"]
mod tasks;
