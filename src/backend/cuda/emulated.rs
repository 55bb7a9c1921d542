//! The kernels on the host: `kernels/host`, linked in by the feature `emulate`.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rayon::prelude::*;

use super::driver::{Driver, KernelTime, Launch};
use crate::error::{Error, Result};

/// Bytes on either side of an array that nothing may write to.
const STRIP: usize = 256;
const SIGN: u8 = 0xA5;
/// What new memory holds: NaN as f32 and as f64.
const NOISE: u8 = 0xFF;
/// Room for the message of a launch that failed.
const MESSAGE: usize = 512;

#[repr(C)]
struct HostLaunch {
    kernel: *const c_char,
    args: *const c_void,
    args_size: u64,
    grid: u32,
    block: u32,
    cluster: u32,
    dynamic_shared: u32,
    seed: u64,
}

// SAFETY: the pointers are read only, and outlive the launch that they are made for.
unsafe impl Sync for HostLaunch {}

unsafe extern "C" {
    fn hunkwise_host_run(
        launch: *const HostLaunch,
        first: u32,
        n: u32,
        message: *mut c_char,
        size: u64,
    ) -> i32;
}

#[derive(Debug)]
pub(super) struct Emulated {
    seed: u64,
    n_launches: AtomicU64,
    /// By address.
    memory: Mutex<BTreeMap<u64, Array>>,
    times: Mutex<Option<Vec<KernelTime>>>,
}

/// An allocation with a strip on either side.
#[derive(Debug)]
struct Array {
    words: Box<[u128]>,
    n_bytes: usize,
}

impl Array {
    fn is_whole(&self) -> bool {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words);
        let mut strips = bytes[..STRIP].iter().chain(&bytes[STRIP + self.n_bytes..]);
        strips.all(|&byte| byte == SIGN)
    }
}

impl Emulated {
    pub(super) fn new(seed: u64) -> Self {
        Emulated {
            seed,
            n_launches: AtomicU64::new(0),
            memory: Mutex::default(),
            times: Mutex::default(),
        }
    }

    /// Calls `with` with the bytes of an allocation that hold `at`, and where `at` is in them.
    fn bytes<R>(
        &self,
        at: u64,
        n_bytes: usize,
        with: impl FnOnce(&mut [u8], Range<usize>) -> R,
    ) -> Result<R> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let found = memory.range_mut(..=at).next_back();
        let inside = found.and_then(|(start, array)| {
            let from = usize::try_from(at - start).ok()?;
            let is_inside = from + n_bytes <= array.n_bytes;
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut array.words);
            is_inside.then(|| with(bytes, STRIP + from..STRIP + from + n_bytes))
        });
        inside.ok_or_else(|| error(format!("{n_bytes} bytes at {at:#x} are not in one array")))
    }
}

fn error(what: String) -> Error {
    Error::Device { device: "emulated CUDA".to_string(), what }
}

impl Driver for Emulated {
    fn name(&self) -> &str {
        "emulated CUDA"
    }

    fn allocate(&self, n_bytes: usize) -> Result<u64> {
        let n_words = (2 * STRIP + n_bytes).div_ceil(16);
        let mut words = vec![0u128; n_words].into_boxed_slice();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        bytes.fill(SIGN);
        bytes[STRIP..STRIP + n_bytes].fill(NOISE);
        let address = bytes[STRIP..].as_ptr() as u64;
        let array = Array { words, n_bytes };
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).insert(address, array);
        Ok(address)
    }

    fn free(&self, address: u64, _n_bytes: usize) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }

    fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        self.bytes(to, bytes.len(), |memory, at| memory[at].copy_from_slice(bytes))
    }

    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<()> {
        self.bytes(from, bytes.len(), |memory, at| bytes.copy_from_slice(&memory[at]))
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let begun = Instant::now();
        let kernel = CString::new(launch.kernel).map_err(|e| error(e.to_string()))?;
        let grid = launch.grid;
        let call = HostLaunch {
            kernel: kernel.as_ptr(),
            args: launch.args.as_ptr().cast(),
            args_size: launch.args.len() as u64,
            grid: grid.blocks,
            block: grid.threads,
            cluster: grid.cluster,
            dynamic_shared: grid.shared_bytes,
            seed: self.seed.wrapping_add(self.n_launches.fetch_add(1, Ordering::Relaxed)),
        };
        (0..grid.blocks / grid.cluster).into_par_iter().try_for_each(|cluster| {
            let mut message = [0u8; MESSAGE];
            let call = &call;
            // SAFETY: every pointer of `call` is to a value that lives until after this loop; the message has the size
            // that is given. What the kernel does with the addresses in its arguments is what this tests.
            let status = unsafe {
                hunkwise_host_run(call, cluster, 1, message.as_mut_ptr().cast(), MESSAGE as u64)
            };
            if status == 0 {
                return Ok(());
            }
            let message = CStr::from_bytes_until_nul(&message).unwrap_or_default();
            Err(error(message.to_string_lossy().into_owned()))
        })?;
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = memory.values().find(|array| !array.is_whole()) {
            let what = format!("a store beside an array of {} bytes", array.n_bytes);
            return Err(error(format!("{}: {what}", launch.kernel)));
        }
        if let Some(times) = &mut *self.times.lock().unwrap_or_else(PoisonError::into_inner) {
            let seconds = begun.elapsed().as_secs_f64();
            times.push(KernelTime { kernel: launch.kernel, seconds });
        }
        Ok(())
    }

    fn start_times(&self) {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) = Some(vec![]);
    }

    fn take_times(&self) -> Result<Vec<KernelTime>> {
        Ok(self.times.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default())
    }

    /// Little, so that rows of a test's size take clusters.
    fn shared_bytes(&self) -> u32 {
        4096
    }

    fn largest_cluster(&self) -> u32 {
        8
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::driver::{Memory, Source};
    use super::super::{Cuda, Grid};
    use super::*;
    use crate::error::Error;

    const SOURCE: Source = Source { name: "faults.cpp", text: "" };
    const THREADS: u32 = 256;

    #[derive(Clone, Copy, bytemuck::NoUninit)]
    #[repr(C)]
    struct Args {
        from: u64,
        to: u64,
        fault: u32,
        unused: u32,
    }

    /// Sums of 256 numbers by two blocks, with a fault planted in the kernel: see kernels/host/faults.cpp.
    fn sums(fault: u32, seed: u64) -> Result<Vec<u32>> {
        let device = Cuda { driver: Arc::new(Emulated::new(seed)) };
        let numbers: Vec<u32> = (0..2 * THREADS).collect();
        let from = device.upload(&numbers)?;
        let to: Memory = device.allocate(size_of::<[u32; 2]>() * 2)?;
        let args = Args { from: from.address(), to: to.address(), fault, unused: 0 };
        device.launch(&SOURCE, "faults", Grid::of(2, THREADS), &args)?;
        let mut sums = vec![0; 2];
        device.download(&to, &mut sums)?;
        Ok(sums)
    }

    fn message(result: Result<Vec<u32>>) -> String {
        match result {
            Err(Error::Device { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_kernel_without_a_fault_gives_the_same_in_every_order_of_its_threads() {
        for seed in 0..20 {
            assert_eq!(sums(0, seed).unwrap(), [32_640, 98_176]);
        }
    }

    #[test]
    fn a_barrier_that_is_missing_changes_the_result() {
        let wrong = (0..20).filter(|&seed| sums(1, seed).unwrap() != [32_640, 98_176]).count();
        assert_eq!(wrong, 20);
    }

    #[test]
    fn stores_beside_an_array_are_seen() {
        assert!(message(sums(2, 1)).contains("faults: a store beside the shared variable `parts`"));
        assert!(message(sums(3, 1)).contains("faults: a store beside an array of 16 bytes"));
    }

    #[test]
    fn a_barrier_that_not_every_thread_reaches_is_seen() {
        assert!(message(sums(4, 1)).contains("threads wait for others that never come"));
        assert!(message(sums(5, 1)).contains("whose mask leaves out the thread itself"));
        assert!(message(sums(6, 1)).contains("wait at different operations"));
    }

    #[test]
    fn times_are_those_of_the_launches_in_between() {
        let device = Cuda::emulated(1);
        let run = || {
            let from = device.upload(&[0u32; 512]).unwrap();
            let to = device.allocate(16).unwrap();
            let args = Args { from: from.address(), to: to.address(), fault: 0, unused: 0 };
            device.launch(&SOURCE, "faults", Grid::of(2, THREADS), &args).unwrap();
        };
        run();
        let ((), times) = device.kernel_times(run).unwrap();
        assert_eq!(times.iter().map(|time| time.kernel).collect::<Vec<_>>(), ["faults"]);
        assert!(times[0].seconds > 0.0);
        assert_eq!(device.kernel_times(|| ()).unwrap().1, []);
    }

    #[test]
    fn a_launch_that_does_not_fit_its_kernel_is_refused() {
        let device = Cuda::emulated(1);
        let unknown = device.launch(&SOURCE, "nothing", Grid::of(1, 32), &0u64).unwrap_err();
        assert!(unknown.to_string().contains("no kernel `nothing`"));
        let short = device.launch(&SOURCE, "faults", Grid::of(1, 32), &0u64).unwrap_err();
        assert!(short.to_string().contains("arguments of 8 bytes, not 24"));
    }
}
