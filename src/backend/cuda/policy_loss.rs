//! `kernels/policy_loss.cu`: checks are done, arrays go up, the kernels run, results come down.

use bytemuck::{NoUninit, Pod, Zeroable};

use super::arrays::{Downloads, Uploads, wide};
use super::driver::{Memory, Source};
use super::{Cuda, Grid};
use crate::error::{Error, Result};
use crate::params::arrays::{
    AdvantageSpan, Advantages, Layout, PolicyBatch, PolicyLoss, PolicyOutputs, Upstream,
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
pub(super) struct Args {
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
    if batch.layout.n_rows() == 0 {
        return Ok(of_no_row(batch, config));
    }
    let call = Call::new(device, batch, config, upstream, outputs, Known::default())?;
    call.share()?;
    call.terms()?;
    call.finish()
}

/// The result for a batch without rows.
pub(super) fn of_no_row(batch: &PolicyBatch<'_>, config: &PolicyLossConfig) -> PolicyLoss {
    PolicyLoss {
        numerator: 0.0,
        denominator: batch.denominator.unwrap_or(match config.reduction {
            Reduction::TokenSum => 1.0,
            _ => 0.0,
        }),
        rows: Vec::new(),
        metrics: LossMetrics::default(),
    }
}

/// What is on the device instead of in the batch: addresses of f32, 0 for what is not.
#[derive(Clone, Copy, Default)]
pub(super) struct Known<'a> {
    pub(super) log_prob: u64,
    pub(super) entropy: u64,
    pub(super) grad_log_prob: u64,
    pub(super) grad_entropy: u64,
    /// The tokens whose log-prob is known; `None` for all under the mask.
    pub(super) tokens: Option<&'a [bool]>,
}

/// A loss with its arrays on the device.
pub(super) struct Call<'a> {
    device: &'a Cuda,
    args: Args,
    n_pieces: u32,
    takes_ratio_pass: bool,
    has_rollout: bool,
    _inputs: Uploads,
    outputs: Downloads<'a>,
    row_values: Memory,
    totals: Memory,
}

impl<'a> Call<'a> {
    /// For at least one row.
    pub(super) fn new(
        device: &'a Cuda,
        batch: &PolicyBatch<'_>,
        config: &PolicyLossConfig,
        upstream: Upstream<'_>,
        outputs: PolicyOutputs<'a>,
        known: Known<'_>,
    ) -> Result<Self> {
        let n_rows = batch.layout.n_rows();
        let mut args = Args {
            n_rows: n_rows as i64,
            denominator: batch.denominator.unwrap_or(0.0),
            ..parameters(config)
        };
        let mut inputs = upload(device, batch, upstream, known, &mut args)?;
        let mut placed = Downloads::default();
        let PolicyOutputs { grad_log_prob, grad_entropy, token_loss } = outputs;
        (args.grad_log_prob, args.grad_log_prob_dtype) = match known.grad_log_prob {
            0 => placed.place(device, grad_log_prob)?,
            address => (address, 0),
        };
        (args.grad_entropy, args.grad_entropy_dtype) = match known.grad_entropy {
            0 => placed.place(device, grad_entropy)?,
            address => (address, 0),
        };
        (args.token_loss, args.token_loss_dtype) = placed.place(device, token_loss)?;

        let longest = (0..n_rows).map(|row| batch.layout.tokens(row).len()).max().unwrap_or(0);
        let pieces_per_row = longest.div_ceil(PIECE).max(1);
        let n_pieces = blocks(n_rows, pieces_per_row)?;
        args.pieces_per_row = pieces_per_row as u32;
        args.counts = inputs.room(device, n_pieces as usize * COUNT_BYTES)?;
        args.rows = inputs.room(device, n_rows * ROW_BYTES)?;
        args.pieces = inputs.room(device, n_pieces as usize * SUMS_BYTES)?;
        let row_values = device.allocate(n_rows * size_of::<f64>())?;
        let totals = device.allocate(size_of::<Totals>())?;
        args.row_values = row_values.address();
        args.totals = totals.address();
        Ok(Call {
            device,
            args,
            n_pieces,
            takes_ratio_pass: config.ratio == RatioLevel::Sequence,
            has_rollout: batch.rollout.is_some(),
            _inputs: inputs,
            outputs: placed,
            row_values,
            totals,
        })
    }

    /// The struct that the kernels take.
    pub(super) fn args(&self) -> &Args {
        &self.args
    }

    /// What the tokens of a row share: needs masks, and log-probs where whole rows are taken.
    pub(super) fn share(&self) -> Result<()> {
        let of_pieces = Grid::of(self.n_pieces, THREADS);
        self.device.launch(&SOURCE, "policy_loss_count", of_pieces, &self.args)?;
        self.device.launch(&SOURCE, "policy_loss_rows", Grid::of(1, THREADS), &self.args)
    }

    /// Values, gradients and sums of all tokens; needs [`share`](Self::share) and the log-probs.
    pub(super) fn terms(&self) -> Result<()> {
        let Call { device, args, .. } = self;
        let of_pieces = Grid::of(self.n_pieces, THREADS);
        if self.takes_ratio_pass {
            device.launch(&SOURCE, "policy_loss_ratio", of_pieces, args)?;
            let of_rows = Grid::of((args.n_rows as u32).div_ceil(THREADS), THREADS);
            device.launch(&SOURCE, "policy_loss_share_ratio", of_rows, args)?;
        }
        device.launch(&SOURCE, "policy_loss_terms", of_pieces, args)?;
        device.launch(&SOURCE, "policy_loss_join", Grid::of(1, THREADS), args)
    }

    /// Waits, and copies the results to the host.
    pub(super) fn finish(self) -> Result<PolicyLoss> {
        let n_rows = self.args.n_rows as usize;
        let mut found = [Totals::default()];
        self.device.download(&self.totals, &mut found)?;
        let mut rows = vec![0.0; n_rows];
        self.device.download(&self.row_values, &mut rows)?;
        self.outputs.download(self.device)?;
        let [found] = found;
        Ok(PolicyLoss {
            numerator: found.numerator,
            denominator: found.denominator,
            rows,
            metrics: metrics(&found, n_rows, self.has_rollout),
        })
    }
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

/// Copies the batch to the device, and puts the addresses into `args`.
fn upload(
    device: &Cuda,
    batch: &PolicyBatch<'_>,
    upstream: Upstream<'_>,
    known: Known<'_>,
    args: &mut Args,
) -> Result<Uploads> {
    let mut arrays = Uploads::default();
    (args.log_prob, args.log_prob_dtype) = match known.log_prob {
        0 => arrays.floats(device, Some(batch.log_prob))?,
        address => (address, 0),
    };
    (args.entropy, args.entropy_dtype) = match known.entropy {
        0 => arrays.floats(device, batch.entropy)?,
        address => (address, 0),
    };
    (args.old, args.old_dtype) = arrays.floats(device, batch.old)?;
    (args.reference, args.reference_dtype) = arrays.floats(device, batch.reference)?;
    (args.rollout, args.rollout_dtype) = arrays.floats(device, batch.rollout)?;
    match batch.advantages {
        Advantages::Dense(values) => {
            (args.advantage, args.advantage_dtype) = arrays.floats(device, Some(values))?;
        }
        Advantages::Rows(values) => args.episode = arrays.slice(device, values)?,
        Advantages::Spans { episode, spans, offsets } => {
            let span = |span: &AdvantageSpan| Span {
                start: span.tokens.start,
                end: span.tokens.end,
                advantage: span.advantage,
            };
            let spans: Vec<Span> = spans.iter().map(span).collect();
            args.episode = arrays.slice(device, episode)?;
            args.spans = arrays.slice(device, &spans)?;
            args.span_offsets = arrays.slice(device, &wide(offsets))?;
        }
    }
    match batch.layout {
        Layout::Padded { n_columns, .. } => args.n_columns = n_columns as i64,
        Layout::Packed { offsets } => args.offsets = arrays.slice(device, &wide(offsets))?,
    }
    args.trained = arrays.slice(device, batch.mask)?;
    args.known = match known.tokens {
        Some(tokens) => arrays.slice(device, tokens)?,
        None => args.trained,
    };
    match upstream {
        Upstream::Loss(value) => args.upstream_value = value,
        Upstream::Tokens { values, row_stride, token_stride } => {
            args.upstream = arrays.slice(device, values)?;
            args.upstream_row_stride = row_stride as i64;
            args.upstream_token_stride = token_stride as i64;
        }
    }
    Ok(arrays)
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
