//! Every operation on every device against src/reference.

mod advantage;
mod anchors;
mod similarity;
