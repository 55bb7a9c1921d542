//! The whole way, from response text to token credit. Expectations are literals, or the reference of each stage in a
//! chain.

#[path = "../support/chain.rs"]
mod chain;
#[path = "../support/devices.rs"]
mod devices;
mod figure2;
mod invariance;
mod method;
mod reference;
#[path = "../support/rollouts.rs"]
mod rollouts;
