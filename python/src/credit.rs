//! From rollouts to credit.

use std::path::PathBuf;

use hunkwise::pipeline::Credit;
use hunkwise::rollout::{self, Batch, DumpFormat, ReadOptions};
use hunkwise::{Config, Device, report};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::Array;
use crate::error::raised;
use crate::threads;

/// Name of rows that came through the API.
const ROWS: &str = "rollouts";

/// A batch with its credit.
#[pyclass(frozen)]
pub(crate) struct RawCredit {
    batch: Batch,
    credit: Credit,
    config: Config,
}

/// Row of the input, from 0, or the row of the output where it came from files; tokens, -1 where not known.
type RowPlace = (String, u64, i64);

#[pymethods]
impl RawCredit {
    /// For each row of the output: file, line from 1, number of tokens or -1.
    fn places(&self) -> Vec<RowPlace> {
        self.sequences()
            .map(|sequence| {
                let n_tokens =
                    sequence.tokens.as_ref().map_or(-1, |tokens| tokens.mask.len() as i64);
                (sequence.place.file.to_string(), sequence.place.line, n_tokens)
            })
            .collect()
    }

    /// Advantages of all tokens, rows one after the other.
    fn dense(&self, py: Python<'_>, to: Array) -> PyResult<()> {
        let to = to.f32s_mut("advantages")?;
        py.detach(|| {
            let mut at = 0;
            let credits = self.credit.tasks.iter().flat_map(|task| &task.trajectories);
            let of_rows = credits.flat_map(|trajectory| &trajectory.sequences);
            for (sequence, of_row) in self.sequences().zip(of_rows) {
                let Some(tokens) = &sequence.tokens else { continue };
                let values = of_row.dense(tokens)?;
                to[at..at + values.len()].copy_from_slice(&values);
                at += values.len();
            }
            Ok(())
        })
        .map_err(raised)
    }

    /// The rows as JSON lines: those of the command line, byte for byte.
    fn rows_jsonl<'py>(
        &self,
        py: Python<'py>,
        dense: bool,
        source: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.written(py, |out| report::write_credit(out, &self.batch, &self.credit, dense, source))
    }

    fn groups_jsonl<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.written(py, |out| report::write_groups(out, &self.batch, &self.credit))
    }

    fn diagnostics_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.written(py, |out| {
            report::write_diagnostics(out, &self.batch, &self.credit, &self.config)
        })
    }

    /// Figures by flat name.
    fn metrics(&self) -> Vec<(String, f64)> {
        self.credit.diagnostics.metrics()
    }

    /// Place, line and reason of what was not taken.
    fn flagged(&self) -> Vec<(String, u64, String)> {
        let flagged = self.batch.flagged.iter();
        flagged.map(|one| (one.place.to_string(), one.place.line, one.reason.clone())).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.batch.notes.clone()
    }
}

impl RawCredit {
    fn sequences(&self) -> impl Iterator<Item = &rollout::Sequence> {
        let trajectories = self.batch.tasks.iter().flat_map(|task| &task.trajectories);
        trajectories.flat_map(|trajectory| &trajectory.sequences)
    }

    fn written<'py>(
        &self,
        py: Python<'py>,
        write: impl Send + FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let mut bytes = Vec::new();
            write(&mut bytes).map(|()| bytes)
        });
        let bytes = bytes.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

fn options(
    format: Option<&str>,
    tokenizer: Option<PathBuf>,
    strict: bool,
) -> PyResult<ReadOptions> {
    let format = match format {
        None => None,
        Some(name) => {
            let found = DumpFormat::all().find(|format| format.name() == name);
            Some(found.ok_or_else(|| {
                let names: Vec<&str> = DumpFormat::all().map(DumpFormat::name).collect();
                PyValueError::new_err(format!(
                    "format is {name:?}; it must be one of {}",
                    names.join(", ")
                ))
            })?)
        }
    };
    Ok(ReadOptions { format, tokenizer, strict, ..ReadOptions::default() })
}

fn config(json: &str) -> PyResult<Config> {
    let config: Config =
        serde_json::from_str(json).map_err(|e| PyValueError::new_err(format!("config: {e}")))?;
    config.validate().map_err(raised)?;
    Ok(config)
}

fn credit(
    py: Python<'_>,
    config_json: &str,
    n_threads: usize,
    read: impl Send + FnOnce() -> hunkwise::Result<Batch>,
) -> PyResult<RawCredit> {
    let config = config(config_json)?;
    threads::run(py, n_threads, || {
        let batch = read()?;
        let credit = hunkwise::credit(&Device::cpu(), &batch, &config)?;
        Ok(RawCredit { batch, credit, config })
    })?
    .map_err(raised)
}

/// Rollouts as JSON lines of hunkwise's own format.
#[pyfunction]
pub(crate) fn credit_rows(
    py: Python<'_>,
    lines: Vec<u8>,
    config_json: &str,
    tokenizer: Option<PathBuf>,
    strict: bool,
    n_threads: usize,
) -> PyResult<RawCredit> {
    let options = options(Some("hunkwise"), tokenizer, strict)?;
    credit(py, config_json, n_threads, || rollout::read_from(lines.as_slice(), ROWS, &options))
}

/// Rollouts of dumps.
#[pyfunction]
pub(crate) fn credit_files(
    py: Python<'_>,
    files: Vec<PathBuf>,
    config_json: &str,
    format: Option<&str>,
    tokenizer: Option<PathBuf>,
    strict: bool,
    n_threads: usize,
) -> PyResult<RawCredit> {
    let options = options(format, tokenizer, strict)?;
    credit(py, config_json, n_threads, || rollout::read_files(&files, &options, &mut |_| {}))
}

/// Every parameter with its default, as JSON.
#[pyfunction]
pub(crate) fn default_config() -> PyResult<String> {
    serde_json::to_string(&Config::default()).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}
