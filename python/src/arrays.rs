//! Memory of Python's as slices. `python/hunkwise/_arrays.py` makes the triples: it has checked that the memory is
//! contiguous, of the dtype that is named, on the host, and (for outputs) writable, and keeps its owner alive until the
//! call is over.

#![allow(unsafe_code)]

use half::{bf16, f16};
use hunkwise::loss::{Floats, FloatsMut};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Address, number of values, dtype.
#[derive(FromPyObject)]
pub(crate) struct Array(usize, usize, String);

impl Array {
    /// # Safety
    /// See the module.
    unsafe fn slice<'a, T>(&self) -> &'a [T] {
        if self.1 == 0 {
            return &[];
        }
        // SAFETY: the triple describes live memory of `T`, as the module says.
        unsafe { std::slice::from_raw_parts(self.0 as *const T, self.1) }
    }

    /// # Safety
    /// See the module; no other slice of this memory is in use.
    unsafe fn slice_mut<'a, T>(&self) -> &'a mut [T] {
        if self.1 == 0 {
            return &mut [];
        }
        // SAFETY: as above, and Python gives an output to one call at a time.
        unsafe { std::slice::from_raw_parts_mut(self.0 as *mut T, self.1) }
    }

    fn expect(&self, name: &str, dtype: &str, bytes: usize) -> PyResult<()> {
        if self.2 != dtype {
            return Err(PyValueError::new_err(format!("{name} is {}, not {dtype}", self.2)));
        }
        if self.1 > 0 && (self.0 == 0 || !self.0.is_multiple_of(bytes)) {
            return Err(PyValueError::new_err(format!("{name} is not aligned to {bytes} bytes")));
        }
        Ok(())
    }

    fn other_dtype(&self, name: &str) -> PyErr {
        PyValueError::new_err(format!(
            "{name} is {}; float32, bfloat16 and float16 are read",
            self.2
        ))
    }

    pub(crate) fn floats<'a>(&self, name: &str) -> PyResult<Floats<'a>> {
        // SAFETY: the dtype is the one that the array has, as the module says.
        Ok(unsafe {
            match self.2.as_str() {
                "float32" => Floats::F32(self.slice::<f32>()),
                "bfloat16" => Floats::Bf16(self.slice::<bf16>()),
                "float16" => Floats::F16(self.slice::<f16>()),
                _ => return Err(self.other_dtype(name)),
            }
        })
    }

    pub(crate) fn floats_mut<'a>(&self, name: &str) -> PyResult<FloatsMut<'a>> {
        // SAFETY: as in `floats`; outputs are made for the call, or named once by the caller.
        Ok(unsafe {
            match self.2.as_str() {
                "float32" => FloatsMut::F32(self.slice_mut::<f32>()),
                "bfloat16" => FloatsMut::Bf16(self.slice_mut::<bf16>()),
                "float16" => FloatsMut::F16(self.slice_mut::<f16>()),
                _ => return Err(self.other_dtype(name)),
            }
        })
    }

    pub(crate) fn f32s<'a>(&self, name: &str) -> PyResult<&'a [f32]> {
        self.expect(name, "float32", 4)?;
        // SAFETY: checked just now, and what the module says.
        Ok(unsafe { self.slice() })
    }

    pub(crate) fn f32s_mut<'a>(&self, name: &str) -> PyResult<&'a mut [f32]> {
        self.expect(name, "float32", 4)?;
        // SAFETY: checked just now, and what the module says.
        Ok(unsafe { self.slice_mut() })
    }

    pub(crate) fn f64s_mut<'a>(&self, name: &str) -> PyResult<&'a mut [f64]> {
        self.expect(name, "float64", 8)?;
        // SAFETY: checked just now, and what the module says.
        Ok(unsafe { self.slice_mut() })
    }

    pub(crate) fn i64s<'a>(&self, name: &str) -> PyResult<&'a [i64]> {
        self.expect(name, "int64", 8)?;
        // SAFETY: checked just now, and what the module says.
        Ok(unsafe { self.slice() })
    }

    /// Bytes of 0 and 1 as booleans.
    pub(crate) fn bools<'a>(&self, name: &str) -> PyResult<&'a [bool]> {
        self.expect(name, "uint8", 1)?;
        // SAFETY: checked just now, and what the module says.
        let bytes: &[u8] = unsafe { self.slice() };
        if let Some(at) = bytes.iter().position(|&byte| byte > 1) {
            let what = format!("{name}[{at}] is {}; a mask is 0 or 1", bytes[at]);
            return Err(PyValueError::new_err(what));
        }
        // SAFETY: every byte is 0 or 1, and the memory is as long as `bytes`.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Numbers of tokens or positions.
    pub(crate) fn offsets(&self, name: &str) -> PyResult<Vec<usize>> {
        self.i64s(name)?
            .iter()
            .map(|&offset| {
                usize::try_from(offset).map_err(|_| {
                    PyValueError::new_err(format!("{name} has {offset}; offsets are not below 0"))
                })
            })
            .collect()
    }
}
