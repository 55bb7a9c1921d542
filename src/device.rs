//! Where an operation runs. A [`Device`] is the first argument of every operation; nothing falls back in silence.

use std::fmt;

use crate::backend::cpu::Cpu;
#[cfg(feature = "cuda")]
use crate::backend::cuda::Cuda;
#[cfg(feature = "wgpu")]
use crate::backend::wgpu::{AdapterChoice, Wgpu};
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
    /// A GPU of any make through Vulkan, Metal or DirectX 12.
    #[cfg(feature = "wgpu")]
    Wgpu(Wgpu),
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

    /// The fastest device there is, and why it is that one: a CUDA device, else a wgpu adapter that is not software, else
    /// the host. An operation that the device lacks is an error still.
    pub fn best() -> (Self, String) {
        let mut missing: Vec<String> = vec![];
        #[cfg(feature = "cuda")]
        match Device::cuda(0) {
            Ok(device) => return (device, "the first CUDA device".to_string()),
            Err(error) => missing.push(error.to_string()),
        }
        #[cfg(feature = "wgpu")]
        match Device::wgpu() {
            Ok(device) => {
                missing.push("so the first wgpu adapter".to_string());
                return (device, missing.join("; "));
            }
            Err(error) => missing.push(error.to_string()),
        }
        if missing.is_empty() {
            missing.push("this build has no other".to_string());
        }
        (Device::cpu(), missing.join("; "))
    }

    /// The first wgpu adapter that is not software, or the one that `HUNKWISE_WGPU_ADAPTER` names.
    ///
    /// # Errors
    /// [`Error::Unavailable`], with the adapters that there are.
    #[cfg(feature = "wgpu")]
    pub fn wgpu() -> Result<Self> {
        Ok(Device::Wgpu(Wgpu::new(AdapterChoice::Best)?))
    }

    /// The device of a name: `cpu`, `cuda`, `cuda:1`, `wgpu`, or `best`, which is never an error.
    ///
    /// # Errors
    /// [`Error::Config`] for another name, [`Error::Unavailable`] for a device that is not there or whose feature is not
    /// built in.
    pub fn named(name: &str) -> Result<Self> {
        let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
        #[cfg(not(all(feature = "cuda", feature = "wgpu")))]
        let unbuilt = |feature: &str| Error::Unavailable {
            what: format!("the device `{name}`"),
            reason: format!("this build lacks the feature `{feature}`"),
        };
        match (kind, number.parse::<usize>()) {
            ("cpu", Ok(0)) => Ok(Device::cpu()),
            ("best", Ok(0)) => Ok(Device::best().0),
            #[cfg(feature = "cuda")]
            ("cuda", Ok(ordinal)) => Device::cuda(ordinal),
            #[cfg(not(feature = "cuda"))]
            ("cuda", Ok(_)) => Err(unbuilt("cuda")),
            #[cfg(feature = "wgpu")]
            ("wgpu", Ok(0)) => Device::wgpu(),
            #[cfg(not(feature = "wgpu"))]
            ("wgpu", Ok(0)) => Err(unbuilt("wgpu")),
            _ => Err(Error::Config {
                op: "device",
                name: "name",
                got: name.to_string(),
                expected: "cpu, cuda, cuda:NUMBER, wgpu or best",
            }),
        }
    }

    /// The error of an operation that runs on the host alone.
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    pub(crate) fn lacks(&self, op: &str) -> Error {
        Error::Unavailable {
            what: format!("{op} on {self:?}"),
            reason: "it runs on the host: give Device::cpu()".to_string(),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu(_) => f.write_str("cpu"),
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => write!(f, "cuda: {}", device.name()),
            #[cfg(feature = "wgpu")]
            Device::Wgpu(device) => write!(f, "wgpu: {}", device.adapter().name),
        }
    }
}
