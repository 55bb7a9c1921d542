//! A GPU behind the CUDA driver, through cudarc.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::driver::{Driver, KernelTime, Launch};
use super::nvrtc;
use crate::error::{Error, Result};

/// Dynamic shared memory that a kernel may have without asking for more.
const SHARED_UNASKED: u32 = 48 << 10;

/// Blocks that a cluster may have on every device with clusters.
const PORTABLE_CLUSTER: u32 = 8;

#[derive(Debug)]
pub(super) struct Gpu {
    name: String,
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    architecture: String,
    shared_bytes: u32,
    largest_cluster: u32,
    /// Kernels by their name, with the module that each is in.
    kernels: Mutex<HashMap<&'static str, sys::CUfunction>>,
    modules: Mutex<HashMap<&'static str, sys::CUmodule>>,
    /// Of each launch its name and the events around it, while times are taken.
    times: Mutex<Option<Vec<Timed>>>,
}

type Timed = (&'static str, sys::CUevent, sys::CUevent);

// SAFETY: handles of the driver may be used from any thread; each call below makes the context current in its own.
unsafe impl Send for Gpu {}
// SAFETY: as above; what changes is behind mutexes.
unsafe impl Sync for Gpu {}

/// Starts the driver; an error where there is none, for cudarc would panic.
fn start() -> Result<()> {
    let unavailable = |reason: String| Error::Unavailable { what: "CUDA".to_string(), reason };
    // SAFETY: only opens the library.
    if !unsafe { sys::is_culib_present() } {
        let reason = "the driver's library was not found: libcuda.so, libcuda.so.1 or nvcuda.dll, where the system looks \
                      for libraries; install the NVIDIA driver, or add its folder to LD_LIBRARY_PATH";
        return Err(unavailable(reason.to_string()));
    }
    result::init().map_err(|e| unavailable(format!("the driver does not start: {}", words(e))))
}

fn words(e: DriverError) -> String {
    let name = e.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = e.error_string().map(|text| text.to_string_lossy().into_owned());
    format!("{} ({})", text.unwrap_or_default(), name.unwrap_or_else(|_| format!("{:?}", e.0)))
}

pub(super) fn count() -> Result<usize> {
    start()?;
    let n = result::device::get_count();
    n.map(|n| usize::try_from(n).unwrap_or(0))
        .map_err(|e| Error::Unavailable { what: "CUDA".to_string(), reason: words(e) })
}

impl Gpu {
    pub(super) fn open(ordinal: usize) -> Result<Self> {
        let n = count()?;
        if ordinal >= n {
            return Err(Error::Unavailable {
                what: format!("CUDA device {ordinal}"),
                reason: format!("there are {n}, numbered from 0"),
            });
        }
        let failed = |e| Error::Device { device: format!("CUDA device {ordinal}"), what: words(e) };
        let device = result::device::get(ordinal as i32).map_err(failed)?;
        let name = result::device::get_name(device).map_err(failed)?;
        // SAFETY: `device` is one of the driver's; the primary context is released in `drop`.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(failed)?;
        // SAFETY: the context was made just now.
        unsafe { result::ctx::set_current(context) }.map_err(failed)?;
        let stream =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(failed)?;
        use sys::CUdevice_attribute_enum as Attribute;
        let attribute = |which| {
            // SAFETY: `device` is one of the driver's.
            unsafe { result::device::get_attribute(device, which) }.map_err(failed)
        };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        if major < 8 {
            return Err(Error::Unavailable {
                what: format!("{name} (sm_{major}{minor})"),
                reason: "the kernels need sm_80 (Ampere) or later".to_string(),
            });
        }
        let shared_bytes =
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        // Clusters and wide copies are in the architecture's own set.
        let own = if major >= 9 { "a" } else { "" };
        Ok(Gpu {
            name,
            device,
            context,
            stream,
            architecture: format!("sm_{major}{minor}{own}"),
            shared_bytes: u32::try_from(shared_bytes).unwrap_or(SHARED_UNASKED),
            largest_cluster: if major >= 9 { PORTABLE_CLUSTER } else { 1 },
            kernels: Mutex::default(),
            modules: Mutex::default(),
            times: Mutex::default(),
        })
    }

    fn failed(&self, e: DriverError) -> Error {
        Error::Device { device: self.name.clone(), what: words(e) }
    }

    fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| self.failed(e))
    }

    /// A new event at this place of the stream.
    fn event(&self) -> Result<sys::CUevent> {
        let failed = |e| self.failed(e);
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(failed)?;
        // SAFETY: event and stream are this context's.
        unsafe { result::event::record(event, self.stream) }.map_err(failed)?;
        Ok(event)
    }

    fn kernel(&self, launch: &Launch<'_>) -> Result<sys::CUfunction> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(launch.kernel) {
            return Ok(*kernel);
        }
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let module = match modules.get(launch.source.name) {
            Some(module) => *module,
            None => {
                let cubin = nvrtc::cubin(launch.source, &self.architecture)?;
                // SAFETY: a whole cubin, with its length inside.
                let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
                    .map_err(|e| self.failed(e))?;
                modules.insert(launch.source.name, module);
                module
            }
        };
        let name = CString::new(launch.kernel)
            .map_err(|e| Error::Device { device: self.name.clone(), what: e.to_string() })?;
        // SAFETY: the module stays loaded as long as `self`.
        let found = unsafe { result::module::get_function(module, name) };
        let kernel = found.map_err(|e| self.failed(e))?;
        kernels.insert(launch.kernel, kernel);
        Ok(kernel)
    }
}

impl Driver for Gpu {
    fn name(&self) -> &str {
        &self.name
    }

    fn allocate(&self, n_bytes: usize) -> Result<u64> {
        self.enter()?;
        // SAFETY: the stream lives as long as `self`.
        match unsafe { result::malloc_async(self.stream, n_bytes) } {
            Ok(address) => Ok(address),
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                let (free, total) = result::mem_get_info().unwrap_or((0, 0));
                let what = format!(
                    "out of memory: {n_bytes} bytes asked for, {free} of {total} free; give fewer rows at a time"
                );
                Err(Error::Device { device: self.name.clone(), what })
            }
            Err(e) => Err(self.failed(e)),
        }
    }

    fn free(&self, address: u64, _n_bytes: usize) {
        if self.enter().is_ok() {
            // SAFETY: it came from `allocate`, and is freed once; the stream orders this after its use.
            let _ = unsafe { result::free_async(address, self.stream) };
        }
    }

    fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's memory is on this device and as long as `bytes`. From pageable memory the copy is staged
        // before this returns.
        unsafe { result::memcpy_htod_async(to, bytes, self.stream) }.map_err(|e| self.failed(e))
    }

    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's memory is on this device and as long as `bytes`, which is borrowed until the stream is done.
        unsafe {
            result::memcpy_dtoh_async(bytes, from, self.stream)
                .and_then(|()| result::stream::synchronize(self.stream))
        }
        .map_err(|e| self.failed(e))
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        self.enter()?;
        let kernel = self.kernel(launch)?;
        let grid = launch.grid;
        if grid.shared_bytes > SHARED_UNASKED {
            let attribute =
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the kernel is in a module that stays loaded.
            unsafe {
                result::function::set_function_attribute(
                    kernel,
                    attribute,
                    grid.shared_bytes as i32,
                )
            }
            .map_err(|e| self.failed(e))?;
        }
        let mut dimension = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { pad: [0; 64] },
        };
        dimension.value.clusterDim.x = grid.cluster;
        dimension.value.clusterDim.y = 1;
        dimension.value.clusterDim.z = 1;
        let config = sys::CUlaunchConfig {
            gridDimX: grid.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared_bytes,
            hStream: self.stream,
            attrs: &mut dimension,
            numAttrs: u32::from(grid.cluster > 1),
        };
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let started = if times.is_some() { Some(self.event()?) } else { None };
        let mut params = [launch.args.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the kernel takes one struct by value, whose bytes are `args` (the two layouts are compared when the
        // kernels run on the host); the driver copies them before it returns. The addresses in them are of memory on this
        // device that its owner keeps until the stream is done with it.
        unsafe {
            sys::cuLaunchKernelEx(&config, kernel, params.as_mut_ptr(), ptr::null_mut()).result()
        }
        .map_err(|e| self.failed(e))?;
        if let (Some(times), Some(started)) = (&mut *times, started) {
            times.push((launch.kernel, started, self.event()?));
        }
        Ok(())
    }

    fn start_times(&self) {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) = Some(vec![]);
    }

    fn take_times(&self) -> Result<Vec<KernelTime>> {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.enter()?;
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|e| self.failed(e))?;
        let mut found = vec![];
        for (kernel, started, ended) in times.unwrap_or_default() {
            // SAFETY: both events were recorded on the stream, which is done with them; each is destroyed once.
            let milliseconds = unsafe {
                let elapsed = result::event::elapsed(started, ended);
                let _ = result::event::destroy(started);
                let _ = result::event::destroy(ended);
                elapsed
            };
            let seconds = f64::from(milliseconds.map_err(|e| self.failed(e))?) / 1e3;
            found.push(KernelTime { kernel, seconds });
        }
        Ok(found)
    }

    fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    fn largest_cluster(&self) -> u32 {
        self.largest_cluster
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        // SAFETY: all of them are this device's, and nothing uses them any more.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            for module in self.modules.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
                let _ = result::module::unload(*module);
            }
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}
