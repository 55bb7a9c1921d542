//! The devices that a test runs on.

use hunkwise::Device;

/// The host, the CUDA kernels on the host where they are built (`--features emulate`), and a CUDA device where there is
/// one. With `HUNKWISE_REQUIRE_CUDA=1` a device that is missing fails the test.
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
    devices
}
