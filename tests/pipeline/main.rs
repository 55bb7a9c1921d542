//! The whole way, from response text to token credit. Expectations are literals.

mod figure2;
mod invariance;
mod make;
mod method;
mod reference;
