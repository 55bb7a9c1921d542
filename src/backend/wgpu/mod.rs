//! GPUs of any make through Vulkan, Metal or DirectX 12: shaders of our own (`shaders/`), compiled by the driver.
//!
//! Nothing is needed to build. What WGSL does not promise is not used: no 64-bit numbers, no NaN in comparisons, no order
//! of atomics. Sums leave a shader as parts of a few thousand numbers, which the host adds in f64 in a fixed order.
//!
//! A shader reads its parameters from a uniform buffer and everything else from storage buffers; work is cut so that each
//! of them is within [`Limits::binding_bytes`].

mod adapter;
pub(crate) mod anchor_gain;
mod driver;
pub(crate) mod linear_loss;
pub(crate) mod logits_loss;
pub(crate) mod pair_similarity;
pub(crate) mod policy_loss;
mod shader;
pub(crate) mod token_advantage;
pub(crate) mod window_similarity;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::adapter::{Adapter, AdapterChoice, AdapterKind};
use self::driver::Driver;
pub use self::shader::{ShaderText, shader_texts};
use crate::error::Result;

/// A device of wgpu with its queue. Clones share both.
#[derive(Clone)]
pub struct Wgpu {
    driver: Arc<Driver>,
    limits: Limits,
}

/// What one dispatch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a storage buffer.
    pub binding_bytes: u64,
    /// Workgroups in each of two dimensions.
    pub workgroups: u32,
    /// Longest wait for a result; what takes longer is an error, and the device is given up.
    pub timeout: Duration,
}

impl Limits {
    fn least(self, other: Limits) -> Limits {
        Limits {
            binding_bytes: self.binding_bytes.min(other.binding_bytes),
            workgroups: self.workgroups.min(other.workgroups),
            timeout: self.timeout.min(other.timeout),
        }
    }
}

impl Wgpu {
    /// The adapters there are, in the order of preference: discrete, integrated, virtual, other, then software.
    pub fn adapters() -> Vec<Adapter> {
        adapter::all().into_iter().map(|(_, adapter)| adapter).collect()
    }

    /// Opens an adapter. The environment variable `HUNKWISE_WGPU_ADAPTER`, a number in [`adapters`](Self::adapters) or a
    /// part of a name, takes the place of [`AdapterChoice::Best`] and [`AdapterChoice::BestOrSoftware`].
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) with the adapters that there are.
    pub fn new(choice: AdapterChoice<'_>) -> Result<Self> {
        let driver = Driver::open(adapter::choose(choice)?)?;
        let limits = driver.limits();
        Ok(Wgpu { driver: Arc::new(driver), limits })
    }

    /// The same device within tighter limits. Results do not depend on them.
    pub fn with_limits(&self, limits: Limits) -> Self {
        Wgpu { driver: self.driver.clone(), limits: self.limits.least(limits) }
    }

    /// What one dispatch may take.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What was opened.
    pub fn adapter(&self) -> &Adapter {
        self.driver.adapter()
    }

    /// Gives the device up, in all clones: its memory is freed, and whatever is asked of it from now on is an error.
    pub fn close(&self) {
        self.driver.close();
    }
}

impl fmt::Debug for Wgpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wgpu").field(&self.adapter().name).finish()
    }
}
