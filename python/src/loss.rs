//! Policy losses over arrays of Python's.

use std::collections::BTreeMap;

use hunkwise::Device;
use hunkwise::loss::{
    self, AdvantageSpan, Advantages, Floats, Layout, LinearGradients, Logits, LogitsBatch,
    LogitsRows, LossMetrics, PolicyBatch, PolicyLoss, PolicyLossConfig, PolicyOutputs, Temperature,
    Upstream,
};
use hunkwise::reference;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Array;
use crate::error::raised;
use crate::threads;

/// Numerator, denominator, value of each row, metrics.
type Result4 = (f64, f64, Vec<f64>, BTreeMap<&'static str, f64>);

/// Names of the metrics, in their order.
pub(crate) fn metric_names() -> Vec<&'static str> {
    LossMetrics::default().named().map(|(name, _)| name).to_vec()
}

fn result(loss: PolicyLoss) -> Result4 {
    (loss.numerator, loss.denominator, loss.rows, loss.metrics.named().into())
}

/// A configuration (the name of a preset, or an object as JSON) with every field, as JSON.
#[pyfunction]
pub(crate) fn loss_config(json: &str) -> PyResult<String> {
    serde_json::to_string(&config(json)?).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

fn config(json: &str) -> PyResult<PolicyLossConfig> {
    let value =
        serde_json::from_str(json).map_err(|e| PyValueError::new_err(format!("config: {e}")))?;
    PolicyLossConfig::from_json(&value).map_err(raised)
}

/// Arrays by name, each given once.
struct Arrays<'py>(Bound<'py, PyDict>);

impl Arrays<'_> {
    fn get(&self, name: &str) -> PyResult<Option<Array>> {
        match self.0.get_item(name)? {
            Some(value) if !value.is_none() => Ok(Some(value.extract()?)),
            _ => Ok(None),
        }
    }

    fn required(&self, name: &str) -> PyResult<Array> {
        self.get(name)?.ok_or_else(|| PyValueError::new_err(format!("{name} is missing")))
    }

    fn floats<'a>(&self, name: &str) -> PyResult<Option<Floats<'a>>> {
        self.get(name)?.map(|array| array.floats(name)).transpose()
    }
}

/// What the layout and the advantages are made of, owned.
struct Owned {
    shape: (usize, usize),
    offsets: Option<Vec<usize>>,
    spans: Option<(Vec<AdvantageSpan>, Vec<usize>)>,
}

impl Owned {
    /// Spans come as three arrays of one length, `span_starts`, `span_ends` and `span_advantages`, and their `span_offsets`.
    fn new(arrays: &Arrays<'_>, shape: (usize, usize)) -> PyResult<Self> {
        let offsets = arrays.get("offsets")?.map(|array| array.offsets("offsets")).transpose()?;
        let spans = match arrays.get("span_offsets")? {
            None => None,
            Some(of_rows) => {
                let starts = arrays.required("span_starts")?.offsets("span_starts")?;
                let ends = arrays.required("span_ends")?.offsets("span_ends")?;
                let advantages = arrays.required("span_advantages")?.f32s("span_advantages")?;
                if starts.len() != ends.len() || starts.len() != advantages.len() {
                    return Err(PyValueError::new_err(
                        "spans: starts, ends and advantages differ in number",
                    ));
                }
                let narrow = |at: usize| {
                    u32::try_from(at).map_err(|_| {
                        PyValueError::new_err(format!("spans: token {at} is past 2^32"))
                    })
                };
                let mut spans = Vec::with_capacity(starts.len());
                for i in 0..starts.len() {
                    let tokens = narrow(starts[i])?..narrow(ends[i])?;
                    spans.push(AdvantageSpan { tokens, advantage: advantages[i] });
                }
                Some((spans, of_rows.offsets("span_offsets")?))
            }
        };
        Ok(Owned { shape, offsets, spans })
    }

    fn layout(&self) -> Layout<'_> {
        match &self.offsets {
            Some(offsets) => Layout::Packed { offsets },
            None => Layout::Padded { n_rows: self.shape.0, n_columns: self.shape.1 },
        }
    }

    /// `advantages` has one for each token, `episode` one for each row.
    fn advantages<'a>(&'a self, arrays: &Arrays<'_>) -> PyResult<Advantages<'a>> {
        if let Some(values) = arrays.floats("advantages")? {
            return Ok(Advantages::Dense(values));
        }
        let episode = arrays.required("episode")?.f32s("advantages")?;
        Ok(match &self.spans {
            None => Advantages::Rows(episode),
            Some((spans, offsets)) => Advantages::Spans { episode, spans, offsets },
        })
    }
}

fn policy_batch<'a>(
    arrays: &Arrays<'_>,
    owned: &'a Owned,
    denominator: Option<f64>,
) -> PyResult<PolicyBatch<'a>> {
    Ok(PolicyBatch {
        log_prob: arrays.required("log_prob")?.floats("log_prob")?,
        old: arrays.floats("old")?,
        reference: arrays.floats("reference")?,
        rollout: arrays.floats("rollout")?,
        entropy: arrays.floats("entropy")?,
        mask: arrays.required("mask")?.bools("mask")?,
        advantages: owned.advantages(arrays)?,
        layout: owned.layout(),
        denominator,
    })
}

/// `outputs` has `grad_log_prob`, `grad_entropy` and `token_loss`, or some of them.
#[pyfunction]
#[expect(clippy::too_many_arguments)]
pub(crate) fn policy_loss(
    py: Python<'_>,
    arrays: Bound<'_, PyDict>,
    shape: (usize, usize),
    config_json: &str,
    denominator: Option<f64>,
    upstream: f32,
    outputs: Bound<'_, PyDict>,
    n_threads: usize,
) -> PyResult<Result4> {
    let (config, arrays, outputs) = (config(config_json)?, Arrays(arrays), Arrays(outputs));
    let owned = Owned::new(&arrays, shape)?;
    let batch = policy_batch(&arrays, &owned, denominator)?;
    let written = |name: &str| outputs.get(name)?.map(|array| array.floats_mut(name)).transpose();
    let outputs = PolicyOutputs {
        grad_log_prob: written("grad_log_prob")?,
        grad_entropy: written("grad_entropy")?,
        token_loss: written("token_loss")?,
    };
    threads::run(py, n_threads, || {
        loss::policy_loss(&Device::cpu(), &batch, &config, Upstream::Loss(upstream), outputs)
    })?
    .map(result)
    .map_err(raised)
}

/// The same in f64 from the formulas; outputs are float64.
#[pyfunction]
pub(crate) fn reference_policy_loss(
    py: Python<'_>,
    arrays: Bound<'_, PyDict>,
    shape: (usize, usize),
    config_json: &str,
    denominator: Option<f64>,
    outputs: Bound<'_, PyDict>,
) -> PyResult<Result4> {
    let (config, arrays, outputs) = (config(config_json)?, Arrays(arrays), Arrays(outputs));
    let owned = Owned::new(&arrays, shape)?;
    let batch = policy_batch(&arrays, &owned, denominator)?;
    // The reference trusts its input; the fast path checks it.
    let nothing = PolicyOutputs::default();
    threads::run(py, 1, || {
        loss::policy_loss(&Device::cpu(), &batch, &config, Upstream::Loss(1.0), nothing)
    })?
    .map_err(raised)?;
    let found = py.detach(|| reference::loss::policy_loss(&batch, &config));
    let results = [
        ("grad_log_prob", &found.grad_log_prob),
        ("grad_entropy", &found.grad_entropy),
        ("token_loss", &found.token_loss),
    ];
    for (name, values) in results {
        if let Some(array) = outputs.get(name)? {
            let to = array.f64s_mut(name)?;
            if to.len() != values.len() {
                return Err(PyValueError::new_err(format!(
                    "{name} has {} values, not {}",
                    to.len(),
                    values.len()
                )));
            }
            to.copy_from_slice(values);
        }
    }
    Ok((found.numerator, found.denominator, found.rows, found.metrics.named().into()))
}

/// The loss at log-probs in f64, where what stands under a stop-gradient is taken at `stop`: for finite differences.
#[pyfunction]
pub(crate) fn reference_loss_at(
    py: Python<'_>,
    arrays: Bound<'_, PyDict>,
    shape: (usize, usize),
    config_json: &str,
    denominator: Option<f64>,
    log_prob: Vec<f64>,
    stop: Vec<f64>,
) -> PyResult<f64> {
    let (config, arrays) = (config(config_json)?, Arrays(arrays));
    let owned = Owned::new(&arrays, shape)?;
    let batch = policy_batch(&arrays, &owned, denominator)?;
    if [log_prob.len(), stop.len()] != [batch.log_prob.len(); 2] {
        return Err(PyValueError::new_err("log_prob and stop have one value for each token"));
    }
    let nothing = PolicyOutputs::default();
    threads::run(py, 1, || {
        loss::policy_loss(&Device::cpu(), &batch, &config, Upstream::Loss(1.0), nothing)
    })?
    .map_err(raised)?;
    Ok(py.detach(|| reference::loss::loss_at(&batch, &config, &log_prob, &stop)))
}

/// One temperature, or one for each row.
struct Heat {
    one: f32,
    rows: Option<Array>,
}

impl Heat {
    fn new(arrays: &Arrays<'_>, one: f32) -> PyResult<Self> {
        Ok(Heat { one, rows: arrays.get("temperature")? })
    }

    fn temperature<'a>(&self) -> PyResult<Temperature<'a>> {
        match &self.rows {
            None => Ok(Temperature::One(self.one)),
            Some(rows) => Ok(Temperature::Rows(rows.f32s("temperature")?)),
        }
    }
}

fn logits_rows<'a>(
    arrays: &Arrays<'_>,
    n_columns: usize,
    n_vocab: usize,
    temperature: f32,
) -> PyResult<LogitsRows<'a>> {
    Ok(LogitsRows {
        targets: arrays.required("targets")?.i64s("targets")?,
        n_columns,
        n_vocab,
        temperature: Heat::new(arrays, temperature)?.temperature()?,
    })
}

/// `arrays`: `logits`, `targets`, and optional `mask`, `temperature`. Written: `log_prob` and optional `entropy`.
#[pyfunction]
pub(crate) fn token_logprob(
    py: Python<'_>,
    arrays: Bound<'_, PyDict>,
    n_columns: usize,
    n_vocab: usize,
    temperature: f32,
    outputs: Bound<'_, PyDict>,
    n_threads: usize,
) -> PyResult<()> {
    let (arrays, outputs) = (Arrays(arrays), Arrays(outputs));
    let logits = arrays.required("logits")?.floats("logits")?;
    let rows = logits_rows(&arrays, n_columns, n_vocab, temperature)?;
    let mask = arrays.get("mask")?.map(|array| array.bools("mask")).transpose()?;
    let log_prob = outputs.required("log_prob")?.f32s_mut("log_prob")?;
    let entropy = outputs.get("entropy")?.map(|array| array.f32s_mut("entropy")).transpose()?;
    threads::run(py, n_threads, || {
        loss::token_logprob(&Device::cpu(), logits, &rows, mask, log_prob, entropy)
    })?
    .map_err(raised)
}

fn logits_batch<'a>(
    arrays: &Arrays<'_>,
    owned: &'a Owned,
    rows: LogitsRows<'a>,
    denominator: Option<f64>,
) -> PyResult<LogitsBatch<'a>> {
    Ok(LogitsBatch {
        rows,
        old: arrays.floats("old")?,
        reference: arrays.floats("reference")?,
        rollout: arrays.floats("rollout")?,
        mask: arrays.required("mask")?.bools("mask")?,
        advantages: owned.advantages(arrays)?,
        layout: owned.layout(),
        denominator,
    })
}

/// Without `grad` in `outputs` only the loss; with `in_place` the gradient is written over the logits. Written:
/// `log_prob`.
#[pyfunction]
#[expect(clippy::too_many_arguments)]
pub(crate) fn logits_loss(
    py: Python<'_>,
    arrays: Bound<'_, PyDict>,
    shape: (usize, usize),
    n_columns: usize,
    n_vocab: usize,
    temperature: f32,
    config_json: &str,
    denominator: Option<f64>,
    upstream: f32,
    in_place: bool,
    outputs: Bound<'_, PyDict>,
    n_threads: usize,
) -> PyResult<Result4> {
    let (config, arrays, outputs) = (config(config_json)?, Arrays(arrays), Arrays(outputs));
    let owned = Owned::new(&arrays, shape)?;
    let rows = logits_rows(&arrays, n_columns, n_vocab, temperature)?;
    let batch = logits_batch(&arrays, &owned, rows, denominator)?;
    let given = arrays.required("logits")?;
    let logits = match (in_place, outputs.get("grad")?) {
        (true, _) => Logits::Overwrite(given.floats_mut("logits")?),
        (false, None) => Logits::Read(given.floats("logits")?),
        (false, Some(grad)) => {
            Logits::Into { logits: given.floats("logits")?, grad: grad.floats_mut("grad")? }
        }
    };
    let to = outputs.required("log_prob")?.f32s_mut("log_prob")?;
    let (found, log_prob) = threads::run(py, n_threads, || {
        loss::logits_loss(&Device::cpu(), logits, &batch, &config, Upstream::Loss(upstream))
    })?
    .map_err(raised)?;
    copy(&log_prob, to)?;
    Ok(result(found))
}

/// Written: `log_prob`, and optional `grad_hidden` (set) and `grad_weight` (added to).
#[pyfunction]
#[expect(clippy::too_many_arguments)]
pub(crate) fn linear_loss(
    py: Python<'_>,
    arrays: Bound<'_, PyDict>,
    shape: (usize, usize),
    n_columns: usize,
    n_vocab: usize,
    temperature: f32,
    config_json: &str,
    denominator: Option<f64>,
    upstream: f32,
    outputs: Bound<'_, PyDict>,
    n_threads: usize,
) -> PyResult<Result4> {
    let (config, arrays, outputs) = (config(config_json)?, Arrays(arrays), Arrays(outputs));
    let owned = Owned::new(&arrays, shape)?;
    let rows = logits_rows(&arrays, n_columns, n_vocab, temperature)?;
    let batch = logits_batch(&arrays, &owned, rows, denominator)?;
    let hidden = arrays.required("hidden")?.floats("hidden")?;
    let weight = arrays.required("weight")?.floats("weight")?;
    let gradients = LinearGradients {
        hidden: outputs
            .get("grad_hidden")?
            .map(|array| array.floats_mut("grad_hidden"))
            .transpose()?,
        weight: outputs
            .get("grad_weight")?
            .map(|array| array.f32s_mut("grad_weight"))
            .transpose()?,
    };
    let to = outputs.required("log_prob")?.f32s_mut("log_prob")?;
    let (found, log_prob) = threads::run(py, n_threads, || {
        let upstream = Upstream::Loss(upstream);
        loss::linear_loss(&Device::cpu(), hidden, weight, &batch, &config, upstream, gradients)
    })?
    .map_err(raised)?;
    copy(&log_prob, to)?;
    Ok(result(found))
}

fn copy(from: &[f32], to: &mut [f32]) -> PyResult<()> {
    if from.len() != to.len() {
        return Err(PyValueError::new_err(format!(
            "log_prob has {} values, not {}",
            to.len(),
            from.len()
        )));
    }
    to.copy_from_slice(from);
    Ok(())
}
