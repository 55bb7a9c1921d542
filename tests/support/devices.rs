//! The devices that a test runs on.

use hunkwise::Device;

/// The host, and the [`others`].
#[allow(dead_code)]
pub(crate) fn devices() -> Vec<Device> {
    [Device::cpu()].into_iter().chain(others()).collect()
}

/// The CUDA kernels on the host where they are built (`--features emulate`), a CUDA device where there is one, and a wgpu
/// adapter where there is one, software included. With `HUNKWISE_REQUIRE_CUDA=1` or `HUNKWISE_REQUIRE_WGPU=1` a device that
/// is missing fails the test.
pub(crate) fn others() -> Vec<Device> {
    #[allow(unused_mut)]
    let mut devices = vec![];
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
    devices.extend(wgpu().map(Device::Wgpu));
    devices
}

/// A wgpu adapter, or `None` with a message. One device for all tests of a process: each has shaders to compile.
#[cfg(feature = "wgpu")]
pub(crate) fn wgpu() -> Option<hunkwise::backend::wgpu::Wgpu> {
    use hunkwise::backend::wgpu::{AdapterChoice, Wgpu};
    static DEVICE: std::sync::OnceLock<Result<Wgpu, String>> = std::sync::OnceLock::new();
    let open = || Wgpu::new(AdapterChoice::BestOrSoftware).map_err(|e| e.to_string());
    match DEVICE.get_or_init(open) {
        Ok(device) => Some(device.clone()),
        Err(reason) => {
            assert!(std::env::var_os("HUNKWISE_REQUIRE_WGPU").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
            None
        }
    }
}
