//! Where an operation runs. A [`Device`] is the first argument of every operation; nothing falls back in silence.

use crate::backend::cpu::Cpu;

/// A device that can run the operations. Results do not depend on it: integers are equal on every device and thread
/// count, advantages bit-equal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Device {
    /// The host: rayon threads and the widest SIMD set that the processor has.
    Cpu(Cpu),
}

impl Device {
    /// The host with every thread of the global pool and the widest SIMD set detected.
    pub fn cpu() -> Self {
        Device::Cpu(Cpu::new())
    }
}
