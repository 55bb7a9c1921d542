//! `kernels/logits_loss.cu`: log-probs from logits, and the policy loss with its gradient by the logits.

use bytemuck::NoUninit;

use super::arrays::{Downloads, Uploads, dtype_of, size_of_value};
use super::driver::{Memory, Source};
use super::policy_loss::{self, Call, Known};
use super::{Cuda, Grid};
use crate::error::{Error, Result};
use crate::params::arrays::{
    Floats, Logits, LogitsRows, PolicyBatch, PolicyLoss, PolicyOutputs, Temperature, Upstream,
};
use crate::params::loss::PolicyLossConfig;

const SOURCE: Source =
    Source { name: "logits_loss.cu", text: include_str!("../../../kernels/logits_loss.cu") };
const THREADS: u32 = 512;
/// The kernels that keep a row in shared memory, by dtype.
const RESIDENT: [&str; 3] =
    ["logits_loss_resident_f32", "logits_loss_resident_bf16", "logits_loss_resident_f16"];
/// Columns that a block writes.
const PART: usize = 16384;
/// Bytes of `Softmax` of the kernels.
const SOFTMAX_BYTES: usize = 32;
/// A slice begins where it does in 16 bytes of global memory.
const PACK_BYTES: usize = 16;
/// Shared memory of a block that its arrays of fixed size take.
const FIXED_SHARED: usize = 1536;

/// `Args` of the kernels.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
pub(super) struct Args {
    pub(super) logits: u64,
    pub(super) grad: u64,
    targets: u64,
    tokens: u64,
    temperatures: u64,
    mask: u64,
    log_prob: u64,
    entropy: u64,
    softmax: u64,
    pub(super) by_log_prob: u64,
    pub(super) by_entropy: u64,
    n_rows: i64,
    n_columns: i64,
    n_vocab: i64,
    slice: i64,
    temperature: f32,
    dtype: u32,
    pub(super) policy: policy_loss::Args,
}

/// Log-probs and entropies of rows of logits, and what a gradient by the logits is made of: all on the device.
pub(super) struct Rows {
    pub(super) args: Args,
    pub(super) arrays: Uploads,
    log_prob: Memory,
    entropy: Memory,
}

impl Rows {
    /// Makes room for all tokens, and copies targets, temperatures and mask. The logits are those of all tokens.
    pub(super) fn new(
        device: &Cuda,
        rows: &LogitsRows<'_>,
        mask: Option<&[bool]>,
        dtype: u32,
    ) -> Result<Self> {
        let n = rows.targets.len();
        let mut arrays = Uploads::default();
        let log_prob = device.allocate(n * size_of::<f32>())?;
        let entropy = device.allocate(n * size_of::<f32>())?;
        let mut args = Args {
            targets: arrays.slice(device, rows.targets)?,
            log_prob: log_prob.address(),
            entropy: entropy.address(),
            n_rows: n as i64,
            n_columns: rows.n_columns as i64,
            n_vocab: rows.n_vocab as i64,
            dtype,
            ..Args::default()
        };
        match rows.temperature {
            Temperature::One(temperature) => args.temperature = temperature,
            Temperature::Rows(values) => args.temperatures = arrays.slice(device, values)?,
        }
        if let Some(mask) = mask {
            args.mask = arrays.slice(device, mask)?;
        }
        Ok(Rows { args, arrays, log_prob, entropy })
    }

    /// What the policy loss reads here instead of in its batch.
    pub(super) fn known(&self) -> Known<'static> {
        Known { log_prob: self.args.log_prob, entropy: self.args.entropy, ..Known::default() }
    }

    /// Gives the log-probs and entropies values for tokens that are not read.
    pub(super) fn start_with(
        &self,
        device: &Cuda,
        log_prob: &[f32],
        entropy: &[f32],
    ) -> Result<()> {
        device.driver.upload(self.args.log_prob, bytemuck::cast_slice(log_prob))?;
        device.driver.upload(self.args.entropy, bytemuck::cast_slice(entropy))
    }

    /// From now on the logits are those of `n` tokens, whose numbers are at the address.
    pub(super) fn take(&mut self, tokens: u64, n: usize) {
        self.args.tokens = tokens;
        self.args.n_rows = n as i64;
    }

    /// Log-probs and entropies of the rows of `args.logits`.
    pub(super) fn read(&self, device: &Cuda) -> Result<()> {
        let grid = Grid::of(blocks(self.args.n_rows as usize, 1)?, THREADS);
        device.launch(&SOURCE, "logits_loss_read", grid, &self.args)
    }

    /// Room for what [`write`](Self::write) needs, for all `n` tokens; before [`read`](Self::read).
    pub(super) fn prepare_write(&mut self, device: &Cuda, n: usize) -> Result<()> {
        self.args.softmax = self.arrays.room(device, n * SOFTMAX_BYTES)?;
        self.args.by_log_prob = self.arrays.room(device, n * size_of::<f32>())?;
        self.args.by_entropy = self.arrays.room(device, n * size_of::<f32>())?;
        Ok(())
    }

    /// Gradients by log-probs and entropies, where a token needs nothing of others but `args.policy.rows`.
    pub(super) fn by(&self, device: &Cuda) -> Result<()> {
        let blocks = (self.args.n_rows as u64).div_ceil(u64::from(THREADS));
        device.launch(&SOURCE, "logits_loss_by", Grid::of(blocks as u32, THREADS), &self.args)
    }

    /// The gradient of the rows from those by log-probs and entropies.
    pub(super) fn write(&self, device: &Cuda) -> Result<()> {
        let parts = (self.args.n_columns as usize).div_ceil(PART);
        let grid = Grid::of(blocks(self.args.n_rows as usize, parts)?, THREADS);
        device.launch(&SOURCE, "logits_loss_write", grid, &self.args)
    }

    /// The log-probs of all tokens.
    pub(super) fn log_probs(&self, device: &Cuda, n: usize) -> Result<Vec<f32>> {
        let mut log_prob = vec![0.0; n];
        device.download(&self.log_prob, &mut log_prob)?;
        Ok(log_prob)
    }
}

/// Blocks of a grid, or what is too much of it.
fn blocks(n_rows: usize, of_row: usize) -> Result<u32> {
    let needed = n_rows as u64 * of_row as u64;
    let limit = i32::MAX as u64;
    u32::try_from(needed).ok().filter(|&n| u64::from(n) <= limit).ok_or(Error::Limit {
        op: "logits_loss",
        what: "the grid, in blocks of 16,384 columns of a row,",
        needed,
        limit,
        advice: "give fewer rows at a time",
    })
}

/// Log-probs and entropies. Everything has been validated; rows without mask get 0.
pub(crate) fn token_logprob(
    device: &Cuda,
    logits: Floats<'_>,
    rows: &LogitsRows<'_>,
    mask: Option<&[bool]>,
    log_prob: &mut [f32],
    entropy: Option<&mut [f32]>,
) -> Result<()> {
    let mut call = Rows::new(device, rows, mask, dtype_of(&logits))?;
    (call.args.logits, _) = call.arrays.floats(device, Some(logits))?;
    call.read(device)?;
    device.download(&call.log_prob, log_prob)?;
    match entropy {
        Some(entropy) => device.download(&call.entropy, entropy),
        None => Ok(()),
    }
}

/// The policy loss of the targets' log-probs, and these. `batch.log_prob` and `batch.entropy` are not looked at. Everything
/// has been validated.
pub(crate) fn logits_loss(
    device: &Cuda,
    logits: Logits<'_>,
    rows: &LogitsRows<'_>,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
) -> Result<(PolicyLoss, Vec<f32>)> {
    if batch.layout.n_rows() == 0 {
        return Ok((policy_loss::of_no_row(batch, config), Vec::new()));
    }
    let (given, has_gradient) = match &logits {
        Logits::Read(logits) => (*logits, false),
        Logits::Into { logits, .. } => (*logits, true),
        Logits::Overwrite(logits) => (logits.as_floats(), true),
    };
    let value_bytes = size_of_value(&given);
    let mut call = Rows::new(device, rows, Some(batch.mask), dtype_of(&given))?;
    let mut outputs = Downloads::default();
    (call.args.logits, _) = call.arrays.floats(device, Some(given))?;
    match logits {
        Logits::Read(_) => {}
        Logits::Into { grad, .. } => (call.args.grad, _) = outputs.place(device, Some(grad))?,
        Logits::Overwrite(logits) => {
            call.args.grad = call.args.logits;
            outputs.at(call.args.grad, logits);
        }
    }
    let n = rows.targets.len();
    let mut known = call.known();
    let resident = if has_gradient && !config.takes_whole_rows() {
        resident_grid(device, rows, value_bytes)?
    } else {
        None
    };
    if has_gradient && resident.is_none() {
        call.prepare_write(device, n)?;
        known.grad_log_prob = call.args.by_log_prob;
        known.grad_entropy = call.args.by_entropy;
    }
    let none = PolicyOutputs::default();
    let policy = Call::new(device, batch, config, upstream, none, known)?;
    match resident {
        Some((grid, slice)) => {
            call.args.slice = slice as i64;
            call.args.policy = *policy.args();
            policy.share()?;
            device.launch(&SOURCE, RESIDENT[call.args.dtype as usize], grid, &call.args)?;
            policy.terms()?;
        }
        None => {
            call.read(device)?;
            policy.share()?;
            policy.terms()?;
            if has_gradient {
                call.write(device)?;
            }
        }
    }
    let result = policy.finish()?;
    let log_prob = call.log_probs(device, n)?;
    outputs.download(device)?;
    Ok((result, log_prob))
}

/// The launch that keeps a row in the shared memory of a cluster and the columns of a block, where one fits.
fn resident_grid(
    device: &Cuda,
    rows: &LogitsRows<'_>,
    value_bytes: usize,
) -> Result<Option<(Grid, usize)>> {
    let room = device.driver.shared_bytes() as usize;
    let fitting = |room: usize| {
        let clusters = (0..).map(|power| 1 << power);
        clusters.take_while(|&cluster| cluster <= device.driver.largest_cluster()).find_map(
            |cluster| {
                let slice = rows.n_columns.div_ceil(cluster as usize).next_multiple_of(PACK_BYTES);
                let shared_bytes = slice * value_bytes + PACK_BYTES;
                (shared_bytes + FIXED_SHARED <= room).then_some((
                    cluster,
                    slice,
                    shared_bytes as u32,
                ))
            },
        )
    };
    // Two blocks to a multiprocessor, where that can be: one reads while the other writes.
    let Some((cluster, slice, shared_bytes)) = fitting(room / 2).or_else(|| fitting(room)) else {
        return Ok(None);
    };
    let blocks = blocks(rows.targets.len(), cluster as usize)?;
    Ok(Some((Grid { blocks, threads: THREADS, cluster, shared_bytes }, slice)))
}
