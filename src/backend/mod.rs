//! One folder a device, one file an operation, the same stems in each. A backend sees slices and numbers, never the
//! types of a stage: it imports `params` and `error` and nothing else.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "wgpu")]
pub mod wgpu;
