//! The devices that a test runs on.

use hunkwise::Device;

/// The host, the CUDA kernels on the host where they are built (`--features emulate`), a CUDA device where there is one,
/// and a wgpu adapter where there is one, software included. With `HUNKWISE_REQUIRE_CUDA=1` or `HUNKWISE_REQUIRE_WGPU=1`
/// a device that is missing fails the test.
pub(crate) fn devices() -> Vec<Device> {
    #[allow(unused_mut)]
    let mut devices = vec![Device::cpu()];
    #[cfg(feature = "emulate")]
    devices.push(Device::Cuda(hunkwise::backend::cuda::Cuda::emulated(1)));
    #[cfg(feature = "cuda")]
    match Device::cuda(0) {
        Ok(device) => devices.push(device),
        Err(reason) => {
            assert!(std::env::var_os("HUNKWISE_REQUIRE_CUDA").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
        }
    }
    #[cfg(feature = "wgpu")]
    match wgpu() {
        Ok(device) => devices.push(Device::Wgpu(device)),
        Err(reason) => {
            assert!(std::env::var_os("HUNKWISE_REQUIRE_WGPU").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
        }
    }
    devices
}

/// One device for all tests of a process: each has shaders to compile.
#[cfg(feature = "wgpu")]
pub(crate) fn wgpu() -> Result<hunkwise::backend::wgpu::Wgpu, String> {
    use hunkwise::backend::wgpu::{AdapterChoice, Wgpu};
    static DEVICE: std::sync::OnceLock<Result<Wgpu, String>> = std::sync::OnceLock::new();
    let open = || Wgpu::new(AdapterChoice::BestOrSoftware).map_err(|e| e.to_string());
    DEVICE.get_or_init(open).clone()
}
