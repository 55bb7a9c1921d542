//! What the operations need of a device, so that a GPU and the host can take its place.

use std::fmt;
use std::sync::Arc;

use super::Grid;
use crate::error::Result;

/// A device with a stream: work is done in the order that it is given.
pub(super) trait Driver: fmt::Debug + Send + Sync {
    fn name(&self) -> &str;
    fn allocate(&self, n_bytes: usize) -> Result<u64>;
    /// Takes memory back once the work given so far is done.
    fn free(&self, address: u64, n_bytes: usize);
    /// The bytes may be changed as soon as this returns.
    fn upload(&self, to: u64, bytes: &[u8]) -> Result<()>;
    /// Returns when the bytes are there.
    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<()>;
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;
    /// From now on the time of each launch is taken; what was taken before is forgotten.
    fn start_times(&self);
    /// Waits, and gives the times since then; no more are taken.
    fn take_times(&self) -> Result<Vec<KernelTime>>;
    /// Bytes of shared memory that a block may ask for at its launch.
    fn shared_bytes(&self) -> u32;
    /// Blocks of the largest cluster: 1 where there are no clusters.
    fn largest_cluster(&self) -> u32;
}

/// How long a launch took on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelTime {
    /// The kernel.
    pub kernel: &'static str,
    /// Between the events before and after it.
    pub seconds: f64,
}

/// A kernel with its arguments.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) source: &'static Source,
    pub(super) kernel: &'static str,
    pub(super) grid: Grid,
    /// The one struct that the kernel takes.
    pub(super) args: &'a [u8],
}

/// A file of `kernels/`.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

/// What the files of `kernels/` include.
pub(super) const HEADERS: [Source; 3] = [
    Source { name: "bit_lcs.cuh", text: include_str!("../../../kernels/bit_lcs.cuh") },
    Source { name: "common.cuh", text: include_str!("../../../kernels/common.cuh") },
    Source { name: "policy_loss.cuh", text: include_str!("../../../kernels/policy_loss.cuh") },
];

/// Memory of a device, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Memory {
    driver: Arc<dyn Driver>,
    address: u64,
    n_bytes: usize,
}

impl Memory {
    pub(super) fn new(driver: &Arc<dyn Driver>, n_bytes: usize) -> Result<Self> {
        // A kernel may be given the address of nothing, but not nothing.
        let n_bytes = n_bytes.max(16);
        Ok(Memory { driver: driver.clone(), address: driver.allocate(n_bytes)?, n_bytes })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.driver.free(self.address, self.n_bytes);
    }
}
