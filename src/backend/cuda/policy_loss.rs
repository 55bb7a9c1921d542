//! `kernels/policy_loss.cu`: checks are done, arrays go up, the kernels run, results come down.

use bytemuck::{NoUninit, Pod, Zeroable};

use super::driver::{Memory, Source};
use super::{Cuda, Grid};
use crate::error::{Error, Result};
use crate::params::arrays::{
    Advantages, Floats, FloatsMut, Layout, PolicyBatch, PolicyLoss, PolicyOutputs, Upstream,
};
use crate::params::loss::{
    Kl, NonFinite, PolicyLossConfig, RatioLevel, Reduction, RolloutCorrection, RolloutLevel,
    Surrogate,
};
use crate::params::metrics::LossMetrics;

const SOURCE: Source =
    Source { name: "policy_loss.cu", text: include_str!("../../../kernels/policy_loss.cu") };
const THREADS: u32 = 256;
/// Tokens of a block.
const PIECE: usize = 4096;

/// `Span` of the kernels.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Span {
    start: u32,
    end: u32,
    advantage: f32,
}

/// Bytes of `Count`, `Row` and `Sums` of the kernels.
const COUNT_BYTES: usize = 32;
const ROW_BYTES: usize = 40;
const SUMS_BYTES: usize = size_of::<Sums>();

/// `Sums` of the kernels.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Sums {
    value: f64,
    through_ratio: f64,
    k1: f64,
    k3: f64,
    ratio: f64,
    kl: f64,
    entropy: f64,
    weight: f64,
    weight_squared: f64,
    n_low: f64,
    n_high: f64,
    n_dual: f64,
    n_non_finite: f64,
    n_bound: f64,
    n_unscored: f64,
    ratio_min: f64,
    ratio_max: f64,
    weight_min: f64,
    weight_max: f64,
}

/// `Totals` of the kernels.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Totals {
    sums: Sums,
    numerator: f64,
    denominator: f64,
    n_tokens: u64,
    n_known: u64,
    n_empty_rows: u64,
}

/// `Args` of the kernels. Addresses are 0 for what is absent.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct Args {
    log_prob: u64,
    old: u64,
    reference: u64,
    rollout: u64,
    entropy: u64,
    advantage: u64,
    episode: u64,
    spans: u64,
    span_offsets: u64,
    offsets: u64,
    trained: u64,
    known: u64,
    upstream: u64,
    grad_log_prob: u64,
    grad_entropy: u64,
    token_loss: u64,
    counts: u64,
    rows: u64,
    pieces: u64,
    row_values: u64,
    totals: u64,
    n_rows: i64,
    n_columns: i64,
    upstream_row_stride: i64,
    upstream_token_stride: i64,
    denominator: f64,
    length: f64,
    pieces_per_row: u32,
    log_prob_dtype: u32,
    old_dtype: u32,
    reference_dtype: u32,
    rollout_dtype: u32,
    entropy_dtype: u32,
    advantage_dtype: u32,
    grad_log_prob_dtype: u32,
    grad_entropy_dtype: u32,
    token_loss_dtype: u32,
    surrogate: u32,
    ratio: u32,
    reduction: u32,
    kl: u32,
    correction: u32,
    weight_of_row: u32,
    count_empty_rows: u32,
    poisons: u32,
    upstream_value: f32,
    least: f32,
    most: f32,
    dual: f32,
    max_log_ratio: f32,
    beta: f32,
    entropy_coef: f32,
    least_weight: f32,
    most_weight: f32,
    unused: u32,
}

/// The losses of the configuration, from arrays of the host. Everything has been validated.
pub(crate) fn policy_loss(
    device: &Cuda,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> Result<PolicyLoss> {
    let n_rows = batch.layout.n_rows();
    if n_rows == 0 {
        return Ok(PolicyLoss {
            numerator: 0.0,
            denominator: batch.denominator.unwrap_or(match config.reduction {
                Reduction::TokenSum => 1.0,
                _ => 0.0,
            }),
            rows: Vec::new(),
            metrics: LossMetrics::default(),
        });
    }
    let mut args = Args {
        n_rows: n_rows as i64,
        denominator: batch.denominator.unwrap_or(0.0),
        ..parameters(config)
    };
    let inputs = Inputs::new(device, batch, upstream, &mut args)?;
    let outputs = Outputs::new(device, outputs, &mut args)?;

    let longest = (0..n_rows).map(|row| batch.layout.tokens(row).len()).max().unwrap_or(0);
    let pieces_per_row = longest.div_ceil(PIECE).max(1);
    let n_pieces = blocks(n_rows, pieces_per_row)?;
    args.pieces_per_row = pieces_per_row as u32;
    let counts = device.allocate(n_pieces as usize * COUNT_BYTES)?;
    let rows = device.allocate(n_rows * ROW_BYTES)?;
    let pieces = device.allocate(n_pieces as usize * SUMS_BYTES)?;
    let row_values = device.allocate(n_rows * size_of::<f64>())?;
    let totals = device.allocate(size_of::<Totals>())?;
    args.counts = counts.address();
    args.rows = rows.address();
    args.pieces = pieces.address();
    args.row_values = row_values.address();
    args.totals = totals.address();

    let of_pieces = Grid::of(n_pieces, THREADS);
    device.launch(&SOURCE, "policy_loss_count", of_pieces, &args)?;
    device.launch(&SOURCE, "policy_loss_rows", Grid::of(1, THREADS), &args)?;
    if config.ratio == RatioLevel::Sequence {
        device.launch(&SOURCE, "policy_loss_ratio", of_pieces, &args)?;
        let of_rows = Grid::of((n_rows as u32).div_ceil(THREADS), THREADS);
        device.launch(&SOURCE, "policy_loss_share_ratio", of_rows, &args)?;
    }
    device.launch(&SOURCE, "policy_loss_terms", of_pieces, &args)?;
    device.launch(&SOURCE, "policy_loss_join", Grid::of(1, THREADS), &args)?;

    let mut found = [Totals::default()];
    device.download(&totals, &mut found)?;
    let mut values = vec![0.0; n_rows];
    device.download(&row_values, &mut values)?;
    outputs.download(device)?;
    drop(inputs);
    let [found] = found;
    Ok(PolicyLoss {
        numerator: found.numerator,
        denominator: found.denominator,
        rows: values,
        metrics: metrics(&found, n_rows, batch.rollout.is_some()),
    })
}

/// Blocks of a grid, or what is too much of it.
fn blocks(n_rows: usize, pieces_per_row: usize) -> Result<u32> {
    let needed = n_rows as u64 * pieces_per_row as u64;
    let limit = i32::MAX as u64;
    u32::try_from(needed).ok().filter(|&n| u64::from(n) <= limit).ok_or(Error::Limit {
        op: "policy_loss",
        what: "the grid, in blocks of 4,096 tokens of a row,",
        needed,
        limit,
        advice: "give fewer rows at a time",
    })
}

/// The part of the arguments that the configuration makes.
fn parameters(config: &PolicyLossConfig) -> Args {
    let (surrogate, least, most, dual) = match config.surrogate {
        Surrogate::Clip { low, high, dual } => {
            (0, 1.0 - low, 1.0 + high, dual.unwrap_or(f64::INFINITY))
        }
        Surrogate::Cispo { min, max } => (1, min, max, 0.0),
        Surrogate::Sapo { tau_positive, tau_negative } => (2, tau_positive, tau_negative, 0.0),
    };
    let (correction, level, least_weight, most_weight) = match config.rollout {
        RolloutCorrection::None => (0, RolloutLevel::Token, 0.0, f64::INFINITY),
        RolloutCorrection::Truncate { level, max } => (1, level, 0.0, max),
        RolloutCorrection::Mask { level, min, max } => (2, level, min, max),
    };
    let (reduction, length) = match config.reduction {
        Reduction::TokenMean => (0, 1),
        Reduction::SeqMeanTokenMean => (1, 1),
        Reduction::SeqMeanTokenSum => (2, 1),
        Reduction::SeqMeanTokenSumNorm { length } => (3, length),
        Reduction::TokenSum => (4, 1),
    };
    Args {
        surrogate,
        least: least as f32,
        most: most as f32,
        dual: dual as f32,
        ratio: match config.ratio {
            RatioLevel::Token => 0,
            RatioLevel::Sequence => 1,
            RatioLevel::SequenceToken => 2,
        },
        reduction,
        length: f64::from(length),
        kl: match config.kl {
            Kl::K1 => 0,
            Kl::K2 => 1,
            Kl::K3 => 2,
            Kl::K1StraightThrough => 3,
            Kl::K3StraightThrough => 4,
            Kl::K3Corrected => 5,
        },
        correction,
        weight_of_row: u32::from(level == RolloutLevel::Sequence),
        least_weight: least_weight as f32,
        most_weight: most_weight as f32,
        count_empty_rows: u32::from(config.count_empty_rows),
        poisons: u32::from(config.non_finite == NonFinite::Poison),
        max_log_ratio: config.max_log_ratio as f32,
        beta: config.beta as f32,
        entropy_coef: config.entropy_coef as f32,
        ..Args::default()
    }
}

/// Keeps what was copied to the device there.
struct Inputs {
    _arrays: Vec<Memory>,
}

impl Inputs {
    fn new(
        device: &Cuda,
        batch: &PolicyBatch<'_>,
        upstream: Upstream<'_>,
        args: &mut Args,
    ) -> Result<Self> {
        let mut arrays = Vec::new();
        let mut keep = |memory: Memory| {
            arrays.push(memory);
            arrays[arrays.len() - 1].address()
        };
        let mut floats = |values: Option<Floats<'_>>| -> Result<(u64, u32)> {
            let Some(values) = values else { return Ok((0, 0)) };
            let (memory, dtype) = match values {
                Floats::F32(values) => (device.upload(values)?, 0),
                Floats::Bf16(values) => (device.upload(values)?, 1),
                Floats::F16(values) => (device.upload(values)?, 2),
            };
            Ok((keep(memory), dtype))
        };
        (args.log_prob, args.log_prob_dtype) = floats(Some(batch.log_prob))?;
        (args.old, args.old_dtype) = floats(batch.old)?;
        (args.reference, args.reference_dtype) = floats(batch.reference)?;
        (args.rollout, args.rollout_dtype) = floats(batch.rollout)?;
        (args.entropy, args.entropy_dtype) = floats(batch.entropy)?;
        match batch.advantages {
            Advantages::Dense(values) => {
                (args.advantage, args.advantage_dtype) = floats(Some(values))?;
            }
            Advantages::Rows(values) => args.episode = keep(device.upload(values)?),
            Advantages::Spans { episode, spans, offsets } => {
                let span = |span: &crate::params::arrays::AdvantageSpan| Span {
                    start: span.tokens.start,
                    end: span.tokens.end,
                    advantage: span.advantage,
                };
                let spans: Vec<Span> = spans.iter().map(span).collect();
                args.episode = keep(device.upload(episode)?);
                args.spans = keep(device.upload(&spans)?);
                args.span_offsets = keep(device.upload(&wide(offsets))?);
            }
        }
        match batch.layout {
            Layout::Padded { n_columns, .. } => args.n_columns = n_columns as i64,
            Layout::Packed { offsets } => args.offsets = keep(device.upload(&wide(offsets))?),
        }
        args.trained = keep(device.upload(batch.mask)?);
        args.known = args.trained;
        match upstream {
            Upstream::Loss(value) => args.upstream_value = value,
            Upstream::Tokens { values, row_stride, token_stride } => {
                args.upstream = keep(device.upload(values)?);
                args.upstream_row_stride = row_stride as i64;
                args.upstream_token_stride = token_stride as i64;
            }
        }
        Ok(Inputs { _arrays: arrays })
    }
}

fn wide(offsets: &[usize]) -> Vec<i64> {
    offsets.iter().map(|&offset| offset as i64).collect()
}

/// Arrays of the host with their places on the device.
struct Outputs<'a> {
    arrays: Vec<(Memory, FloatsMut<'a>)>,
}

impl<'a> Outputs<'a> {
    fn new(device: &Cuda, outputs: PolicyOutputs<'a>, args: &mut Args) -> Result<Self> {
        let mut arrays = Vec::new();
        let mut place = |array: Option<FloatsMut<'a>>| -> Result<(u64, u32)> {
            let Some(array) = array else { return Ok((0, 0)) };
            let (bytes, dtype) = match array {
                FloatsMut::F32(_) => (4, 0),
                FloatsMut::Bf16(_) => (2, 1),
                FloatsMut::F16(_) => (2, 2),
            };
            let memory = device.allocate(array.len() * bytes)?;
            let address = memory.address();
            arrays.push((memory, array));
            Ok((address, dtype))
        };
        (args.grad_log_prob, args.grad_log_prob_dtype) = place(outputs.grad_log_prob)?;
        (args.grad_entropy, args.grad_entropy_dtype) = place(outputs.grad_entropy)?;
        (args.token_loss, args.token_loss_dtype) = place(outputs.token_loss)?;
        Ok(Outputs { arrays })
    }

    fn download(self, device: &Cuda) -> Result<()> {
        for (memory, array) in self.arrays {
            match array {
                FloatsMut::F32(values) => device.download(&memory, values)?,
                FloatsMut::Bf16(values) => device.download(&memory, values)?,
                FloatsMut::F16(values) => device.download(&memory, values)?,
            }
        }
        Ok(())
    }
}

fn metrics(totals: &Totals, n_rows: usize, has_rollout: bool) -> LossMetrics {
    let Totals { sums, .. } = totals;
    let n_tokens = totals.n_tokens as usize;
    let n_skipped = (totals.n_tokens - totals.n_known) as usize;
    let n_non_finite = sums.n_non_finite as usize;
    LossMetrics {
        n_rows,
        n_empty_rows: totals.n_empty_rows as usize,
        n_tokens,
        n_non_finite,
        n_skipped,
        n_clipped_low: sums.n_low as usize,
        n_clipped_high: sums.n_high as usize,
        n_clipped_dual: sums.n_dual as usize,
        sum_k1: sums.k1,
        sum_k3: sums.k3,
        sum_ratio: sums.ratio,
        ratio_min: sums.ratio_min,
        ratio_max: sums.ratio_max,
        sum_kl: sums.kl,
        sum_entropy: sums.entropy,
        n_weights: if has_rollout { n_tokens - n_non_finite - n_skipped } else { 0 },
        sum_weight: sums.weight,
        sum_weight_squared: sums.weight_squared,
        weight_min: sums.weight_min,
        weight_max: sums.weight_max,
        n_weights_bound: sums.n_bound as usize,
        n_unscored: sums.n_unscored as usize,
    }
}
