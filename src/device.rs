//! Where an operation runs. A [`Device`] is the first argument of every operation; nothing falls back in silence.

use crate::backend::cpu::Cpu;
#[cfg(feature = "cuda")]
use crate::backend::cuda::Cuda;
#[cfg(feature = "cuda")]
use crate::error::{Error, Result};

/// A device that can run the operations. Results do not depend on it: integers are equal on every device and thread
/// count, advantages bit-equal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Device {
    /// The host: rayon threads and the widest SIMD set that the processor has.
    Cpu(Cpu),
    /// An NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda(Cuda),
}

impl Device {
    /// The host with every thread of the global pool and the widest SIMD set detected.
    pub fn cpu() -> Self {
        Device::Cpu(Cpu::new())
    }

    /// The CUDA device with this number.
    ///
    /// # Errors
    /// [`Error::Unavailable`], with what was looked for.
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Ok(Device::Cuda(Cuda::new(ordinal)?))
    }

    /// The error of an operation that runs on the host alone.
    #[cfg(feature = "cuda")]
    pub(crate) fn lacks(&self, op: &str) -> Error {
        Error::Unavailable {
            what: format!("{op} on {self:?}"),
            reason: "it runs on the host: give Device::cpu()".to_string(),
        }
    }
}
