//! `shaders/logits_loss.wgsl`: rows of logits go up in tiles, their log-probs are finished here in f64, and gradients come
//! down.

mod row;

use std::ops::Range;

pub(super) use self::row::{Fields, Row, Token};
use super::Wgpu;
use super::driver::{Memory, Step};
use super::policy_loss::policy_loss;
use super::shader::{Binding, Shader};
use crate::error::{Error, Result};
use crate::params::arrays::{
    Floats, FloatsMut, Logits, LogitsRows, PolicyBatch, PolicyLoss, PolicyOutputs, Upstream,
};
use crate::params::loss::PolicyLossConfig;

pub(super) const SHADER: Shader = Shader {
    name: "logits_loss.wgsl",
    before: "",
    source: include_str!("../../../shaders/logits_loss.wgsl"),
    bindings: &[Binding::Parameters, Binding::Read, Binding::Write, Binding::Write],
    sizes: &[1],
};

/// Most columns: a thread then makes some 32,000 turns of its loops.
const MOST_COLUMNS: usize = 1 << 21;
/// Bytes of logits that the host copies at a time.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of logits that stay on the device between the loss and the gradient; what is beyond goes up twice.
const MOST_KEPT_BYTES: u64 = 1 << 30;

/// `Args` of the shader.
#[derive(Debug, Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
pub(super) struct Args {
    pub(super) n_rows: u32,
    pub(super) n_vocab: u32,
    pub(super) row_words: u32,
    pub(super) dtype: u32,
}

/// Number of a dtype in shaders.
pub(super) fn dtype_of(values: Floats<'_>) -> u32 {
    match values {
        Floats::F32(_) => 0,
        Floats::Bf16(_) => 1,
        Floats::F16(_) => 2,
    }
}

/// Fails for rows over which a thread would loop for long: drivers may end such loops without a word.
pub(super) fn check_columns(op: &'static str, rows: &LogitsRows<'_>) -> Result<()> {
    if rows.n_columns <= MOST_COLUMNS {
        return Ok(());
    }
    Err(Error::Limit {
        op,
        what: "a row of logits on the device (columns)",
        needed: rows.n_columns as u64,
        limit: MOST_COLUMNS as u64,
        advice: "use Device::cpu()",
    })
}

/// The bytes of some values.
pub(super) fn bytes_of(values: Floats<'_>, at: Range<usize>) -> &[u8] {
    match values {
        Floats::F32(values) => bytemuck::cast_slice(&values[at]),
        Floats::Bf16(values) => bytemuck::cast_slice(&values[at]),
        Floats::F16(values) => bytemuck::cast_slice(&values[at]),
    }
}

fn bytes_of_mut<'a>(values: &'a mut FloatsMut<'_>, at: Range<usize>) -> &'a mut [u8] {
    match values {
        FloatsMut::F32(values) => bytemuck::cast_slice_mut(&mut values[at]),
        FloatsMut::Bf16(values) => bytemuck::cast_slice_mut(&mut values[at]),
        FloatsMut::F16(values) => bytemuck::cast_slice_mut(&mut values[at]),
    }
}

/// As on the host: log-probs and entropies.
pub(crate) fn token_logprob(
    device: &Wgpu,
    logits: Floats<'_>,
    rows: &LogitsRows<'_>,
    mask: Option<&[bool]>,
    log_prob: &mut [f32],
    entropy: Option<&mut [f32]>,
) -> Result<()> {
    let tokens = Call::new(device, rows, logits)?.read_all(logits, mask)?;
    for (to, token) in log_prob.iter_mut().zip(&tokens) {
        *to = token.log_prob as f32;
    }
    for (to, token) in entropy.into_iter().flatten().zip(&tokens) {
        *to = token.entropy as f32;
    }
    Ok(())
}

/// As on the host: the policy loss of the targets' log-probs, and these.
pub(crate) fn logits_loss(
    device: &Wgpu,
    gradient: Logits<'_>,
    rows: &LogitsRows<'_>,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
) -> Result<(PolicyLoss, Vec<f32>)> {
    let logits = match &gradient {
        Logits::Read(logits) | Logits::Into { logits, .. } => *logits,
        Logits::Overwrite(logits) => logits.as_floats(),
    };
    let mut call = Call::new(device, rows, logits)?;
    call.keeps = !matches!(gradient, Logits::Read(_));
    let tokens = call.read_all(logits, Some(batch.mask))?;
    let log_prob: Vec<f32> = tokens.iter().map(|token| token.log_prob as f32).collect();
    let entropy: Vec<f32> = tokens.iter().map(|token| token.entropy as f32).collect();
    let batch = PolicyBatch {
        log_prob: Floats::F32(&log_prob),
        entropy: Some(Floats::F32(&entropy)),
        ..*batch
    };
    let n = rows.targets.len();
    let (mut by_log_prob, mut by_entropy) = (vec![0.0; n], vec![0.0; n]);
    let outputs = match call.keeps {
        true => PolicyOutputs {
            grad_log_prob: Some(FloatsMut::F32(&mut by_log_prob)),
            grad_entropy: Some(FloatsMut::F32(&mut by_entropy)),
            token_loss: None,
        },
        false => PolicyOutputs::default(),
    };
    let result = policy_loss(device, &batch, config, upstream, outputs)?;
    let (from, mut grad) = match gradient {
        Logits::Read(_) => return Ok((result, log_prob)),
        Logits::Overwrite(grad) => (None, grad),
        Logits::Into { logits, grad } => (Some(logits), grad),
    };
    call.write_all(from, &mut grad, &tokens, &by_log_prob, &by_entropy)?;
    Ok((result, log_prob))
}

/// Rows on the device.
struct Tile {
    tokens: Vec<usize>,
    /// `None` where they go up again.
    logits: Option<Memory>,
}

/// One call, and its rows.
struct Call<'a> {
    device: &'a Wgpu,
    rows: &'a LogitsRows<'a>,
    dtype: u32,
    row_words: usize,
    rows_per_tile: usize,
    /// Whether logits stay for their gradient.
    keeps: bool,
    tiles: Vec<Tile>,
}

impl<'a> Call<'a> {
    fn new(device: &'a Wgpu, rows: &'a LogitsRows<'a>, logits: Floats<'_>) -> Result<Self> {
        check_columns("logits_loss", rows)?;
        let dtype = dtype_of(logits);
        let row_words = if dtype == 0 { rows.n_columns } else { rows.n_columns.div_ceil(2) };
        let limit = device.limits().binding_bytes;
        let row_bytes = 4 * (row_words as u64).max(Fields::WORDS as u64);
        if row_bytes > limit {
            return Err(Error::Limit {
                op: "logits_loss",
                what: "one row of logits on the device (bytes)",
                needed: row_bytes,
                limit,
                advice: "use Device::cpu()",
            });
        }
        let rows_per_tile = (limit.min(MOST_BYTES) / row_bytes).max(1) as usize;
        Ok(Call { device, rows, dtype, row_words, rows_per_tile, keeps: false, tiles: vec![] })
    }

    fn upload(&self, logits: Floats<'_>, tokens: &[usize]) -> Result<Memory> {
        let n_columns = self.rows.n_columns;
        let mut words = vec![0u32; tokens.len() * self.row_words];
        for (to, &i) in words.chunks_exact_mut(self.row_words).zip(tokens) {
            let from = bytes_of(logits, i * n_columns..(i + 1) * n_columns);
            bytemuck::cast_slice_mut::<u32, u8>(to)[..from.len()].copy_from_slice(from);
        }
        self.device.upload(&words)
    }

    /// Runs an entry point; gives what it finds, or the logits that it has changed.
    fn dispatch(
        &self,
        entry: &'static str,
        logits: &Memory,
        rows: &[Row],
        is_changed: bool,
    ) -> Result<Vec<u32>> {
        let args = self.device.parameters(&Args {
            n_rows: rows.len() as u32,
            n_vocab: self.rows.n_vocab as u32,
            row_words: self.row_words as u32,
            dtype: self.dtype,
        })?;
        let n_found = 4 * (Fields::WORDS * rows.len()) as u64;
        let n_logits = 4 * (self.row_words * rows.len()) as u64;
        let found = self.device.zeros(n_found)?;
        let workgroups = rows.len() as u32;
        let rows = self.device.upload(rows)?;
        let step = Step {
            shader: &SHADER,
            size: 1,
            entry,
            memory: &[&args, &rows, logits, &found],
            workgroups,
        };
        let read = if is_changed { (logits, n_logits) } else { (&found, n_found) };
        Ok(self.device.run(&[step], &[read])?.swap_remove(0))
    }

    /// Reads the rows whose mask is true; the others are 0.
    fn read_all(&mut self, logits: Floats<'_>, mask: Option<&[bool]>) -> Result<Vec<Token>> {
        let n = self.rows.targets.len();
        let is_live = |i: &usize| mask.is_none_or(|mask| mask[*i]);
        let live: Vec<usize> = (0..n).filter(is_live).collect();
        let mut tokens = vec![Token::UNREAD; n];
        let mut n_kept = 0;
        for at in live.chunks(self.rows_per_tile) {
            let memory = self.upload(logits, at)?;
            let rows: Vec<Row> = at.iter().map(|&i| Row::to_read(self.rows, i)).collect();
            let found = self.dispatch("logits_read", &memory, &rows, false)?;
            for (&i, fields) in at.iter().zip(Fields::all(&found)) {
                tokens[i] = Token::new(fields, self.rows, i);
            }
            n_kept += 4 * (at.len() * self.row_words) as u64;
            let stays = self.keeps && n_kept <= MOST_KEPT_BYTES;
            self.tiles.push(Tile { tokens: at.to_vec(), logits: stays.then_some(memory) });
        }
        Ok(tokens)
    }

    /// Makes `grad` the gradient; the logits are `logits`, or stand in `grad`.
    fn write_all(
        &self,
        logits: Option<Floats<'_>>,
        grad: &mut FloatsMut<'_>,
        tokens: &[Token],
        by_log_prob: &[f32],
        by_entropy: &[f32],
    ) -> Result<()> {
        let n_columns = self.rows.n_columns;
        let mut is_done = vec![false; tokens.len()];
        for tile in &self.tiles {
            let again;
            let memory = match &tile.logits {
                Some(memory) => memory,
                None => {
                    again = self.upload(logits.unwrap_or(grad.as_floats()), &tile.tokens)?;
                    &again
                }
            };
            let row = |&i: &usize| {
                tokens[i].to_write(self.rows, i, self.dtype, (by_log_prob[i], by_entropy[i]))
            };
            let rows: Vec<Row> = tile.tokens.iter().map(row).collect();
            let words = self.dispatch("logits_write", memory, &rows, true)?;
            for (from, &i) in words.chunks_exact(self.row_words).zip(&tile.tokens) {
                let to = bytes_of_mut(grad, i * n_columns..(i + 1) * n_columns);
                to.copy_from_slice(&bytemuck::cast_slice(from)[..to.len()]);
                is_done[i] = true;
            }
        }
        for i in (0..tokens.len()).filter(|&i| !is_done[i]) {
            bytes_of_mut(grad, i * n_columns..(i + 1) * n_columns).fill(0);
        }
        Ok(())
    }
}
