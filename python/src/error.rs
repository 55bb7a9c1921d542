//! Errors as Python's own exceptions, so that a caller needs to know none of ours.

use hunkwise::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};

/// ValueError for what was given, OSError (FileNotFoundError and so on) for files, MemoryError for a limit,
/// RuntimeError for a device.
pub(crate) fn raised(e: Error) -> PyErr {
    let text = e.to_string();
    match e {
        Error::Input { .. } | Error::Config { .. } | Error::Shape { .. } => {
            PyValueError::new_err(text)
        }
        Error::Io { path, source } => match source.raw_os_error() {
            // Python picks the subclass by the number.
            Some(number) => PyOSError::new_err((number, source.to_string(), path)),
            None => PyOSError::new_err(text),
        },
        Error::Limit { .. } => PyMemoryError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}
