//! NVIDIA GPUs: kernels of our own (`kernels/`), compiled at run time for the device at hand.
//!
//! Nothing of CUDA is needed to build. The driver and NVRTC are looked for when a device is opened; what is missing is an
//! error that says where it was looked for. With the feature `emulate` the same kernels run on the host, through the
//! same launches: for tests, not for speed.

pub(crate) mod anchor_gain;
mod arrays;
mod bit_lcs;
mod driver;
#[cfg(feature = "emulate")]
mod emulated;
mod gpu;
pub(crate) mod linear_loss;
pub(crate) mod logits_loss;
mod nvrtc;
pub(crate) mod pair_similarity;
pub(crate) mod policy_loss;
pub(crate) mod token_advantage;
pub(crate) mod window_similarity;

use std::fmt;
use std::sync::Arc;

use bytemuck::{NoUninit, Pod};

pub use self::driver::KernelTime;
use self::driver::{Driver, Launch, Memory, Source};
use crate::error::Result;

/// A CUDA device with the stream that its work goes to. Clones share both.
#[derive(Clone)]
pub struct Cuda {
    driver: Arc<dyn Driver>,
}

impl Cuda {
    /// Opens the device with this number, in the order that `CUDA_VISIBLE_DEVICES` leaves, with a stream of its own.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) without a driver, without NVRTC, or without the device.
    pub fn new(ordinal: usize) -> Result<Self> {
        Ok(Cuda { driver: Arc::new(gpu::Gpu::open(ordinal)?) })
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) without a driver.
    pub fn count() -> Result<usize> {
        gpu::count()
    }

    /// The kernels on the host, threads in an order drawn from `seed`: a test of the kernels.
    #[cfg(feature = "emulate")]
    pub fn emulated(seed: u64) -> Self {
        Cuda { driver: Arc::new(emulated::Emulated::new(seed)) }
    }

    /// The name that the driver gives the device.
    pub fn name(&self) -> &str {
        self.driver.name()
    }

    /// What `work` gives, and how long each of its kernels took. One measurement at a time for all clones of a device.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device fails.
    pub fn kernel_times<R>(&self, work: impl FnOnce() -> R) -> Result<(R, Vec<KernelTime>)> {
        self.driver.start_times();
        let result = work();
        Ok((result, self.driver.take_times()?))
    }

    /// A copy of an array on the device.
    fn upload<T: NoUninit>(&self, values: &[T]) -> Result<Memory> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let memory = self.allocate(bytes.len())?;
        self.driver.upload(memory.address(), bytes)?;
        Ok(memory)
    }

    /// Memory with anything in it.
    fn allocate(&self, n_bytes: usize) -> Result<Memory> {
        Memory::new(&self.driver, n_bytes)
    }

    /// Waits for the work given so far, and copies an array to the host.
    fn download<T: Pod>(&self, memory: &Memory, values: &mut [T]) -> Result<()> {
        self.driver.download(memory.address(), bytemuck::cast_slice_mut(values))
    }

    /// Starts a kernel; nothing where the grid has no block.
    fn launch<A: NoUninit>(
        &self,
        source: &'static Source,
        kernel: &'static str,
        grid: Grid,
        args: &A,
    ) -> Result<()> {
        if grid.blocks == 0 {
            return Ok(());
        }
        let args = bytemuck::bytes_of(args);
        self.driver.launch(&Launch { source, kernel, grid, args })
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cuda").field(&self.name()).finish()
    }
}

/// Blocks and threads of a launch.
#[derive(Debug, Clone, Copy)]
struct Grid {
    blocks: u32,
    threads: u32,
    /// Blocks that share their shared memory; 1 on devices before sm_90.
    cluster: u32,
    /// Bytes of dynamic shared memory of a block.
    shared_bytes: u32,
}

impl Grid {
    /// Blocks by themselves, without dynamic shared memory.
    fn of(blocks: u32, threads: u32) -> Self {
        Grid { blocks, threads, cluster: 1, shared_bytes: 0 }
    }
}
