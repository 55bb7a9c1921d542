//! The adapters of a machine, and the choice among them.

use std::fmt;
use std::time::Duration;

use super::Limits;
use super::driver::now;
use crate::error::{Error, Result};

/// Takes the place of a choice that names no adapter.
const VARIABLE: &str = "HUNKWISE_WGPU_ADAPTER";

/// Longest wait for one dispatch: they are cut to take well below a second.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What an adapter is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AdapterKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the memory of the processor.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// Not told.
    Other,
    /// A program that plays a GPU on the processor: much slower than the CPU backend.
    Software,
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AdapterKind::Discrete => "discrete GPU",
            AdapterKind::Integrated => "integrated GPU",
            AdapterKind::Virtual => "virtual GPU",
            AdapterKind::Other => "other",
            AdapterKind::Software => "software",
        })
    }
}

/// An adapter, as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adapter {
    /// Name of the device.
    pub name: String,
    /// Vulkan, Metal or DirectX 12.
    pub backend: String,
    /// What it is made of.
    pub kind: AdapterKind,
    /// Name of the driver, and its version as it says it.
    pub driver: String,
    /// What one dispatch may take.
    pub limits: Limits,
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}, {})", self.name, self.backend, self.kind, self.driver)
    }
}

/// Which adapter to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AdapterChoice<'a> {
    /// The first one that is not software.
    #[default]
    Best,
    /// The first one; software where there is nothing else.
    BestOrSoftware,
    /// By its number in [`Wgpu::adapters`](super::Wgpu::adapters).
    Number(usize),
    /// The first one with this in its name, in either case.
    Named(&'a str),
}

/// All adapters, in the order of preference.
pub(super) fn all() -> Vec<(wgpu::Adapter, Adapter)> {
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let found = now(instance.enumerate_adapters(backends)).unwrap_or_default();
    let mut adapters: Vec<_> = found.into_iter().map(described).collect();
    adapters.sort_by_key(|(_, adapter)| adapter.kind);
    adapters
}

fn described(adapter: wgpu::Adapter) -> (wgpu::Adapter, Adapter) {
    let info = adapter.get_info();
    let limits = adapter.limits();
    let described = Adapter {
        name: info.name,
        backend: match info.backend {
            wgpu::Backend::Vulkan => "Vulkan".to_string(),
            wgpu::Backend::Metal => "Metal".to_string(),
            wgpu::Backend::Dx12 => "DirectX 12".to_string(),
            other => format!("{other:?}"),
        },
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Cpu => AdapterKind::Software,
            wgpu::DeviceType::Other => AdapterKind::Other,
        },
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        limits: Limits {
            // Shaders count words in 32 bits.
            binding_bytes: limits
                .max_storage_buffer_binding_size
                .min(limits.max_buffer_size)
                .min(u64::from(u32::MAX))
                & !3,
            workgroups: limits.max_compute_workgroups_per_dimension,
            timeout: TIMEOUT,
        },
    };
    (adapter, described)
}

/// The adapter of a choice.
pub(super) fn choose(choice: AdapterChoice<'_>) -> Result<(wgpu::Adapter, Adapter)> {
    let variable = std::env::var(VARIABLE).unwrap_or_default();
    let choice = match (choice, variable.as_str()) {
        (AdapterChoice::Best | AdapterChoice::BestOrSoftware, text) if !text.is_empty() => {
            text.parse().map_or(AdapterChoice::Named(text), AdapterChoice::Number)
        }
        (choice, _) => choice,
    };
    let mut adapters = all();
    let described: Vec<&Adapter> = adapters.iter().map(|(_, adapter)| adapter).collect();
    match position(&described, choice) {
        Some(at) => Ok(adapters.swap_remove(at)),
        None => Err(absent(&described, choice)),
    }
}

fn position(adapters: &[&Adapter], choice: AdapterChoice<'_>) -> Option<usize> {
    match choice {
        AdapterChoice::Best => adapters.iter().position(|a| a.kind != AdapterKind::Software),
        AdapterChoice::BestOrSoftware => (!adapters.is_empty()).then_some(0),
        AdapterChoice::Number(at) => (at < adapters.len()).then_some(at),
        AdapterChoice::Named(part) => {
            let part = part.to_lowercase();
            adapters.iter().position(|a| a.name.to_lowercase().contains(&part))
        }
    }
}

fn absent(adapters: &[&Adapter], choice: AdapterChoice<'_>) -> Error {
    let what = match choice {
        AdapterChoice::Best | AdapterChoice::BestOrSoftware => "a wgpu adapter".to_string(),
        AdapterChoice::Number(at) => format!("wgpu adapter {at}"),
        AdapterChoice::Named(part) => format!("a wgpu adapter named `{part}`"),
    };
    let reason = if adapters.is_empty() {
        "no adapter was found through Vulkan, Metal or DirectX 12; install the driver of the GPU"
            .to_string()
    } else {
        let numbered = adapters.iter().enumerate().map(|(i, a)| format!("{i}: {a}"));
        let list = numbered.collect::<Vec<_>>().join("; ");
        let hint = match choice {
            AdapterChoice::Best => {
                format!("; software is taken only when asked for, as with {VARIABLE}=0")
            }
            _ => String::new(),
        };
        format!("there are {list}{hint}")
    };
    Error::Unavailable { what, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, kind: AdapterKind) -> Adapter {
        let limits = Limits { binding_bytes: 1 << 27, workgroups: 65535, timeout: TIMEOUT };
        let (backend, driver) = ("Vulkan".to_string(), "1.0".to_string());
        Adapter { name: name.to_string(), backend, kind, driver, limits }
    }

    #[test]
    fn software_is_taken_only_when_asked_for() {
        let software = adapter("llvmpipe (LLVM 15)", AdapterKind::Software);
        let alone = [&software];
        assert_eq!(position(&alone, AdapterChoice::Best), None);
        assert_eq!(position(&alone, AdapterChoice::BestOrSoftware), Some(0));
        assert_eq!(position(&alone, AdapterChoice::Number(0)), Some(0));
        assert_eq!(position(&alone, AdapterChoice::Named("LLVMpipe")), Some(0));
        let error = absent(&alone, AdapterChoice::Best).to_string();
        assert!(error.contains("llvmpipe") && error.contains(VARIABLE), "{error}");

        let gpu = adapter("Radeon", AdapterKind::Integrated);
        let both = [&gpu, &software];
        assert_eq!(position(&both, AdapterChoice::Best), Some(0));
        assert_eq!(position(&both, AdapterChoice::Named("pipe")), Some(1));
        assert_eq!(position(&both, AdapterChoice::Number(2)), None);
        assert!(absent(&[], AdapterChoice::Best).to_string().contains("no adapter was found"));
    }
}
