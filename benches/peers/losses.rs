//! Our side of the losses: arrays that stay, and one call on the clock.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use half::bf16;
use hunkwise::Device;
use hunkwise::loss::*;
use rayon::ThreadPool;
use serde::Deserialize;
use serde_json::{Value, json};

/// The loss of [`Arrays`]; each takes those that it reads.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// `log_prob`, `old`, `reference`, `advantage`, `mask`: forward, gradient, metrics.
    PolicyLoss,
    /// `logits` in bf16: log-probs and entropies.
    TokenLogprob,
    /// `logits`, `old`, `advantage`: the gradient over the logits.
    LogitsLoss,
    /// `hidden`, `weight`, `old`, `advantage`: both gradients.
    LinearLoss,
}

#[derive(Default)]
pub(crate) struct Arrays {
    f32: BTreeMap<String, Vec<f32>>,
    mask: Vec<bool>,
    targets: Vec<i64>,
    logits_bf16: Vec<bf16>,
}

fn numbers<const N: usize>(path: &Path) -> std::io::Result<Vec<[u8; N]>> {
    super::read::<N>(path)
}

impl Arrays {
    /// Takes `<name>.f32` for each name, and `targets.i64` where it is there.
    pub(crate) fn load(folder: &Path, names: &[String]) -> Result<Self, Box<dyn Error>> {
        let mut arrays = Arrays::default();
        for name in names {
            let values = numbers::<4>(&folder.join(format!("{name}.f32")))?;
            let values: Vec<f32> = values.into_iter().map(f32::from_le_bytes).collect();
            arrays.f32.insert(name.clone(), values);
        }
        if let Some(mask) = arrays.f32.get("mask") {
            arrays.mask = mask.iter().map(|x| *x == 1.0).collect();
        }
        let targets = folder.join("targets.i64");
        if targets.exists() {
            arrays.targets = numbers::<8>(&targets)?.into_iter().map(i64::from_le_bytes).collect();
            arrays.mask = vec![true; arrays.targets.len()];
        }
        Ok(arrays)
    }

    fn get(&self, name: &str) -> Result<&[f32], String> {
        self.f32.get(name).map(Vec::as_slice).ok_or_else(|| format!("`{name}` was not loaded"))
    }

    /// One call; answers the seconds, the loss and the bytes that it took at most beyond its arguments.
    pub(crate) fn run(
        &mut self,
        device: &Device,
        pool: &ThreadPool,
        operation: Operation,
        columns: usize,
        config: &PolicyLossConfig,
        out: Option<&PathBuf>,
    ) -> Result<Value, Box<dyn Error>> {
        let n = self.mask.len();
        let batch = |rows, advantage| -> Result<LogitsBatch<'_>, String> {
            Ok(LogitsBatch {
                rows,
                old: Some(Floats::F32(self.get("old")?)),
                reference: None,
                rollout: None,
                mask: &self.mask,
                advantages: Advantages::Dense(Floats::F32(advantage)),
                layout: Layout::Padded { n_rows: 1, n_columns: n },
                denominator: None,
            })
        };
        let rows = LogitsRows {
            targets: &self.targets,
            n_columns: columns,
            n_vocab: columns,
            temperature: Temperature::One(1.0),
        };
        let mut memory = Memory::default();
        let mut outputs: Vec<(&str, Vec<f32>)> = vec![];
        let (seconds, loss) = match operation {
            Operation::PolicyLoss => {
                // Written, so that the memory is there before the clock starts.
                let mut grad = vec![1f32; n];
                let batch = PolicyBatch {
                    log_prob: Floats::F32(self.get("log_prob")?),
                    old: Some(Floats::F32(self.get("old")?)),
                    reference: Some(Floats::F32(self.get("reference")?)),
                    rollout: None,
                    entropy: None,
                    mask: &self.mask,
                    advantages: Advantages::Dense(Floats::F32(self.get("advantage")?)),
                    layout: Layout::Padded { n_rows: n / columns, n_columns: columns },
                    denominator: None,
                };
                let outputs_of = PolicyOutputs {
                    grad_log_prob: Some(FloatsMut::F32(&mut grad)),
                    ..Default::default()
                };
                memory.begin();
                let (seconds, result) = timed(pool, || {
                    policy_loss(device, &batch, config, Upstream::default(), outputs_of)
                });
                memory.end();
                outputs.push(("grad", grad));
                (seconds, result?.loss())
            }
            Operation::TokenLogprob => {
                if self.logits_bf16.is_empty() {
                    self.logits_bf16 =
                        self.get("logits")?.iter().map(|z| bf16::from_f32(*z)).collect();
                }
                let (mut log_prob, mut entropy) = (vec![0f32; n], vec![0f32; n]);
                let rows = LogitsRows { targets: &self.targets, ..rows };
                let logits = Floats::Bf16(&self.logits_bf16);
                memory.begin();
                let (seconds, result) = timed(pool, || {
                    token_logprob(device, logits, &rows, None, &mut log_prob, Some(&mut entropy))
                });
                memory.end();
                result?;
                outputs.extend([("log_prob", log_prob), ("entropy", entropy)]);
                (seconds, 0.0)
            }
            Operation::LogitsLoss => {
                let mut logits = self.get("logits")?.to_vec();
                let batch = batch(rows, self.get("advantage")?)?;
                let over = Logits::Overwrite(FloatsMut::F32(&mut logits));
                memory.begin();
                let (seconds, result) =
                    timed(pool, || logits_loss(device, over, &batch, config, Upstream::default()));
                memory.end();
                outputs.push(("grad", logits));
                (seconds, result?.0.loss())
            }
            Operation::LinearLoss => {
                let (hidden, weight) = (self.get("hidden")?, self.get("weight")?);
                let batch = batch(rows, self.get("advantage")?)?;
                // Written, so that the memory is there before the clock starts.
                let mut by_hidden = vec![1f32; hidden.len()];
                let mut by_weight = vec![1f32; weight.len()];
                by_weight.fill(0.0);
                let gradients = LinearGradients {
                    hidden: Some(FloatsMut::F32(&mut by_hidden)),
                    weight: Some(&mut by_weight),
                };
                let (hidden, weight) = (Floats::F32(hidden), Floats::F32(weight));
                memory.begin();
                let (seconds, result) = timed(pool, || {
                    let upstream = Upstream::default();
                    linear_loss(device, hidden, weight, &batch, config, upstream, gradients)
                });
                memory.end();
                outputs.extend([("grad_hidden", by_hidden), ("grad_weight", by_weight)]);
                (seconds, result?.0.loss())
            }
        };
        if let Some(out) = out {
            for (name, values) in outputs {
                let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
                std::fs::write(out.join(format!("{name}.f32")), bytes)?;
            }
        }
        Ok(json!({"seconds": seconds, "loss": loss, "extra_bytes": memory.extra}))
    }
}

fn timed<T: Send>(pool: &ThreadPool, run: impl FnOnce() -> T + Send) -> (f64, T) {
    pool.install(|| {
        let began = Instant::now();
        let result = run();
        (began.elapsed().as_secs_f64(), result)
    })
}

/// Resident memory of this process, where the system tells (Linux).
#[derive(Default)]
struct Memory {
    before: u64,
    extra: Option<u64>,
}

impl Memory {
    fn begin(&mut self) {
        // 5 sets the peak back to what is resident.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        self.before = status("VmRSS:").unwrap_or(0);
    }

    fn end(&mut self) {
        self.extra = status("VmHWM:").map(|peak| peak.saturating_sub(self.before));
    }
}

fn status(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}
