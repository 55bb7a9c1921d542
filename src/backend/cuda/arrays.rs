//! Arrays of the host that a kernel reads or writes.

use bytemuck::NoUninit;

use super::Cuda;
use super::driver::Memory;
use crate::error::Result;
use crate::params::arrays::{Floats, FloatsMut};

/// The number that a kernel knows a dtype by.
pub(super) fn dtype_of(values: &Floats<'_>) -> u32 {
    match values {
        Floats::F32(_) => 0,
        Floats::Bf16(_) => 1,
        Floats::F16(_) => 2,
    }
}

/// Bytes of a value.
pub(super) fn size_of_value(values: &Floats<'_>) -> usize {
    match values {
        Floats::F32(_) => 4,
        Floats::Bf16(_) | Floats::F16(_) => 2,
    }
}

/// Copies on the device, kept as long as this is.
#[derive(Default)]
pub(super) struct Uploads {
    arrays: Vec<Memory>,
}

impl Uploads {
    fn keep(&mut self, memory: Memory) -> u64 {
        let address = memory.address();
        self.arrays.push(memory);
        address
    }

    /// The address of a copy.
    pub(super) fn slice<T: NoUninit>(&mut self, device: &Cuda, values: &[T]) -> Result<u64> {
        Ok(self.keep(device.upload(values)?))
    }

    /// The address of a copy and its dtype; zeros for no array.
    pub(super) fn floats(
        &mut self,
        device: &Cuda,
        values: Option<Floats<'_>>,
    ) -> Result<(u64, u32)> {
        let Some(values) = values else { return Ok((0, 0)) };
        let dtype = dtype_of(&values);
        let address = match values {
            Floats::F32(values) => self.slice(device, values)?,
            Floats::Bf16(values) => self.slice(device, values)?,
            Floats::F16(values) => self.slice(device, values)?,
        };
        Ok((address, dtype))
    }

    /// The address of memory with anything in it.
    pub(super) fn room(&mut self, device: &Cuda, n_bytes: usize) -> Result<u64> {
        Ok(self.keep(device.allocate(n_bytes)?))
    }
}

/// Arrays of the host with their places on the device.
#[derive(Default)]
pub(super) struct Downloads<'a> {
    memory: Vec<Memory>,
    arrays: Vec<(u64, FloatsMut<'a>)>,
}

impl<'a> Downloads<'a> {
    /// The address of memory that `download` copies to `array`, and its dtype; zeros for no array.
    pub(super) fn place(
        &mut self,
        device: &Cuda,
        array: Option<FloatsMut<'a>>,
    ) -> Result<(u64, u32)> {
        let Some(array) = array else { return Ok((0, 0)) };
        let values = array.as_floats();
        let dtype = dtype_of(&values);
        let memory = device.allocate(array.len() * size_of_value(&values))?;
        let address = memory.address();
        self.memory.push(memory);
        self.at(address, array);
        Ok((address, dtype))
    }

    /// Has `download` copy from memory that the caller keeps until then.
    pub(super) fn at(&mut self, address: u64, array: FloatsMut<'a>) {
        self.arrays.push((address, array));
    }

    pub(super) fn download(self, device: &Cuda) -> Result<()> {
        for (address, array) in self.arrays {
            let bytes: &mut [u8] = match array {
                FloatsMut::F32(values) => bytemuck::cast_slice_mut(values),
                FloatsMut::Bf16(values) => bytemuck::cast_slice_mut(values),
                FloatsMut::F16(values) => bytemuck::cast_slice_mut(values),
            };
            device.driver.download(address, bytes)?;
        }
        Ok(())
    }
}

/// Offsets as the kernels have them.
pub(super) fn wide(offsets: &[usize]) -> Vec<i64> {
    offsets.iter().map(|&offset| offset as i64).collect()
}
