//! `devices`: what there is to compute on, and why something is not there.

use std::io::{self, Write};

use hunkwise::Device;
use hunkwise::backend::cpu::Simd;
use hunkwise::error::{Error, Result};
use serde_json::{Value, json};

use crate::args::DevicesArgs;
use crate::text::{count, plain, wrap};

/// Devices of one kind, or why there are none.
struct Kind {
    /// A line for a person, and the same as fields.
    devices: Vec<(String, Value)>,
    reason: Option<String>,
}

/// Lists the devices; gives 0, for nothing is flagged.
pub(crate) fn run(args: &DevicesArgs) -> Result<usize> {
    let (best, why) = Device::best();
    let best = best.to_string();
    let (cuda, wgpu) = (cuda(), wgpu());
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let simd = match Simd::detect() {
        Simd::Scalar => "none",
        Simd::Avx2 => "AVX2",
        Simd::Avx512 => "AVX-512",
        _ => "other",
    };
    let out = if args.json {
        let fields = |kind: &Kind| {
            let devices: Vec<&Value> = kind.devices.iter().map(|(_, fields)| fields).collect();
            json!({ "devices": devices, "reason": kind.reason })
        };
        let all = json!({
            "cpu": { "simd": simd, "threads": n_threads },
            "cuda": fields(&cuda),
            "wgpu": fields(&wgpu),
            "best": { "device": best, "reason": why },
        });
        format!("{all}\n")
    } else {
        let wrapped = |text: &str| wrap(&plain(text), 6);
        let mut lines = vec![format!("cpu   {}, SIMD: {simd}", count(n_threads as u64, "thread"))];
        for (name, kind) in [("cuda", &cuda), ("wgpu", &wgpu)] {
            let devices = kind.devices.iter().enumerate();
            let numbered = devices.map(|(i, (line, _))| format!("{i}: {line}"));
            let reason = kind.reason.iter().cloned();
            lines.extend(numbered.chain(reason).map(|text| format!("{name}  {}", wrapped(&text))));
        }
        lines.push(format!("best  {}", wrapped(&format!("{best}; {why}"))));
        lines.join("\n") + "\n"
    };
    io::stdout().lock().write_all(out.as_bytes()).map_err(|e| Error::io("standard output", e))?;
    Ok(0)
}

#[cfg(not(feature = "cuda"))]
fn cuda() -> Kind {
    Kind { devices: vec![], reason: Some(not_built("cuda")) }
}

#[cfg(feature = "cuda")]
fn cuda() -> Kind {
    use hunkwise::backend::cuda::Cuda;
    let n = match Cuda::count() {
        Ok(0) => return Kind { devices: vec![], reason: Some("the driver has no device".into()) },
        Ok(n) => n,
        Err(error) => return Kind { devices: vec![], reason: Some(error.to_string()) },
    };
    let describe = |number: usize| match Cuda::new(number) {
        Ok(device) => (device.name().to_string(), json!({ "name": device.name() })),
        Err(error) => (error.to_string(), json!({ "error": error.to_string() })),
    };
    Kind { devices: (0..n).map(describe).collect(), reason: None }
}

#[cfg(not(feature = "wgpu"))]
fn wgpu() -> Kind {
    Kind { devices: vec![], reason: Some(not_built("wgpu")) }
}

#[cfg(feature = "wgpu")]
fn wgpu() -> Kind {
    use hunkwise::backend::wgpu::{Adapter, Wgpu};
    let describe = |adapter: Adapter| {
        let mib = adapter.limits.binding_bytes >> 20;
        let line = format!("{adapter}, arrays of up to {mib} MiB");
        let fields = json!({
            "name": adapter.name,
            "backend": adapter.backend,
            "kind": adapter.kind.to_string(),
            "driver": adapter.driver,
            "binding_bytes": adapter.limits.binding_bytes,
            "workgroups": adapter.limits.workgroups,
        });
        (line, fields)
    };
    let devices: Vec<_> = Wgpu::adapters().into_iter().map(describe).collect();
    let none =
        "no adapter was found through Vulkan, Metal or DirectX 12; install the driver of the GPU";
    let reason = devices.is_empty().then(|| none.to_string());
    Kind { devices, reason }
}

#[cfg(not(all(feature = "cuda", feature = "wgpu")))]
fn not_built(feature: &str) -> String {
    format!("not in this build; it comes with `cargo install hunkwise --features {feature}`")
}
