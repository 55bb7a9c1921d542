//! Exact bytes of tokens.

use std::path::Path;

use hunkwise::rollout::token_bytes::{self, Specials, Start};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raised;

/// The bytes of every token of a tokenizer.
#[pyclass(frozen)]
pub(crate) struct RawTokenBytes(token_bytes::TokenBytes);

/// The bytes of a text, and the byte at which each token ends.
type Spelt<'py> = (Bound<'py, PyBytes>, Vec<u32>);

#[pymethods]
impl RawTokenBytes {
    #[staticmethod]
    fn from_file(path: std::path::PathBuf) -> PyResult<Self> {
        token_bytes::TokenBytes::from_file(Path::new(&path)).map(Self).map_err(raised)
    }

    #[staticmethod]
    fn from_json(json: &str, name: &str) -> PyResult<Self> {
        token_bytes::TokenBytes::from_bytes(json.as_bytes(), name).map(Self).map_err(raised)
    }

    fn n_tokens(&self) -> usize {
        self.0.n_tokens()
    }

    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<u32>,
        shows_specials: bool,
        is_start: bool,
    ) -> PyResult<Spelt<'py>> {
        let specials = if shows_specials { Specials::Shown } else { Specials::ZeroWidth };
        let start = if is_start { Start::OfText } else { Start::Continuation };
        let (text, ends) = self.0.decode(&ids, specials, start).map_err(raised)?;
        Ok((PyBytes::new(py, &text), ends))
    }

    fn align<'py>(&self, py: Python<'py>, ids: Vec<u32>, text: Vec<u8>) -> PyResult<Spelt<'py>> {
        let (text, ends) = self.0.align(&ids, &text).map_err(raised)?;
        Ok((PyBytes::new(py, &text), ends))
    }
}
