//! `shaders/policy_loss.wgsl`: tokens go up in tiles, what rows share is computed here in f64, results come down.

mod tile;

use bytemuck::{NoUninit, Pod, Zeroable};

use self::tile::{Tile, pieces, tiles};
use super::Wgpu;
use super::driver::Step;
use super::shader::{Binding, Shader};
use crate::error::Result;
use crate::params::arrays::{
    Advantages, FloatsMut, PolicyBatch, PolicyLoss, PolicyOutputs, Upstream,
};
use crate::params::loss::{
    Kl, NonFinite, PolicyLossConfig, RatioLevel, Reduction, RolloutCorrection, RolloutLevel,
    Surrogate,
};
use crate::params::metrics::LossMetrics;

pub(super) const SHADER: Shader = Shader {
    name: "policy_loss.wgsl",
    before: "",
    source: include_str!("../../../shaders/policy_loss.wgsl"),
    bindings: &[Binding::Parameters, Binding::Read, Binding::Read, Binding::Write],
    sizes: &[1],
};

/// Offset of what is not there.
const ABSENT: u32 = u32::MAX;

/// `Args` of the shader. Offsets are in words, in `words` for what is read and in `found` for what is written.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
struct Args {
    n_pieces: u32,
    log_prob: u32,
    old: u32,
    reference: u32,
    rollout: u32,
    entropy: u32,
    advantage: u32,
    upstream: u32,
    mask: u32,
    pieces: u32,
    spans: u32,
    grad_log_prob: u32,
    grad_entropy: u32,
    token_loss: u32,
    sums: u32,
    log_prob_dtype: u32,
    old_dtype: u32,
    reference_dtype: u32,
    rollout_dtype: u32,
    entropy_dtype: u32,
    advantage_dtype: u32,
    surrogate: u32,
    ratio: u32,
    kl: u32,
    correction: u32,
    weight_of_row: u32,
    poisons: u32,
    has_dual: u32,
    upstream_value: f32,
    least: f32,
    most: f32,
    dual: f32,
    max_log_ratio: f32,
    beta: f32,
    entropy_coef: f32,
    least_weight: f32,
    most_weight: f32,
    unused: [u32; 3],
}

/// `Row` of the shader.
#[derive(Debug, Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct Row {
    share: f32,
    log_ratio: f32,
    log_weight: f32,
    shared_grad: f32,
    is_poisoned: u32,
    episode: f32,
}

/// What the shader finds in a piece where something is that of a row.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Logs {
    n_finite: f32,
    log_ratio: f32,
    log_weight: f32,
}

/// The gradient through the row's ratio, and the tokens that have none.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ThroughRatio {
    sum: f32,
    n_bad: f32,
}

/// What the shader finds in a piece: counts and sums of its good tokens, and its tokens that are not.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Sums {
    value: f32,
    n_good: f32,
    k1: f32,
    k3: f32,
    ratio: f32,
    kl: f32,
    entropy: f32,
    weight: f32,
    weight_squared: f32,
    n_low: f32,
    n_high: f32,
    n_dual: f32,
    n_bad: f32,
    n_bound: f32,
    n_unscored: f32,
    ratio_min: f32,
    ratio_max: f32,
    weight_min: f32,
    weight_max: f32,
}

const TILE_FIELDS: usize = size_of::<Sums>() / size_of::<u32>();

/// What is known of a row before its losses.
#[derive(Debug, Clone, Copy, Default)]
struct RowSums {
    n_tokens: usize,
    n_known: usize,
    n_finite: f64,
    log_ratio: f64,
    log_weight: f64,
}

/// The losses of the configuration, from arrays of the host. Everything has been validated.
pub(crate) fn policy_loss(
    device: &Wgpu,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> Result<PolicyLoss> {
    policy_loss_of_known(device, batch, batch.mask, config, upstream, outputs)
}

/// [`policy_loss`] of the tokens whose log-prob is known, a part of those under the mask; the others keep their place
/// in every count and add nothing.
pub(super) fn policy_loss_of_known(
    device: &Wgpu,
    batch: &PolicyBatch<'_>,
    known: &[bool],
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> Result<PolicyLoss> {
    let parameters = parameters(config);
    let pieces = pieces(batch.layout);
    let of_known = PolicyBatch { mask: known, ..*batch };
    let mut tiles = tiles(device, &of_known, upstream, &outputs, &pieces, parameters)?;
    let call = Call { device, batch, known, config };

    let mut sums = call.count();
    if config.takes_whole_rows() {
        let rows = call.rows(&vec![RowSums::default(); sums.len()], 0.0);
        for tile in &tiles {
            let (found, _) = call.dispatch(tile, "policy_loss_logs", &rows)?;
            let found: &[Logs] = bytemuck::cast_slice(&found);
            for (piece, logs) in pieces[tile.pieces.clone()].iter().zip(found) {
                let row = &mut sums[piece.row];
                row.n_finite += f64::from(logs.n_finite);
                row.log_ratio += f64::from(logs.log_ratio);
                row.log_weight += f64::from(logs.log_weight);
            }
        }
    }
    let denominator = call.denominator(&sums);
    let mut rows = call.rows(&sums, denominator);
    if config.ratio == RatioLevel::Sequence {
        let mut totals = vec![(0.0, false); rows.len()];
        for tile in &tiles {
            let (found, _) = call.dispatch(tile, "policy_loss_ratio", &rows)?;
            let found: &[ThroughRatio] = bytemuck::cast_slice(&found);
            for (piece, through) in pieces[tile.pieces.clone()].iter().zip(found) {
                let (total, is_bad) = &mut totals[piece.row];
                *total += f64::from(through.sum);
                *is_bad |= through.n_bad > 0.0;
            }
        }
        for (row, ((total, is_bad), sums)) in rows.iter_mut().zip(totals.iter().zip(&sums)) {
            row.shared_grad = (total / sums.n_finite.max(1.0)) as f32;
            row.is_poisoned |= u32::from(*is_bad && config.non_finite == NonFinite::Poison);
        }
    }

    let mut values = vec![0.0; sums.len()];
    let mut metrics = LossMetrics::default();
    let mut outputs = outputs;
    for tile in &mut tiles {
        let (found, arrays) = call.dispatch(tile, "policy_loss_terms", &rows)?;
        let found: &[Sums] = bytemuck::cast_slice(&found);
        for (piece, sums) in pieces[tile.pieces.clone()].iter().zip(found) {
            let is_poisoned = sums.n_bad > 0.0 && config.non_finite == NonFinite::Poison;
            values[piece.row] += if is_poisoned { f64::NAN } else { f64::from(sums.value) };
            metrics = metrics.plus(call.metrics(sums));
        }
        tile.write(&arrays, &mut outputs);
    }
    for (value, row) in values.iter_mut().zip(&sums) {
        *value *= call.weight(row.n_tokens);
    }
    metrics.n_rows = sums.len();
    metrics.n_empty_rows = sums.iter().filter(|row| row.n_tokens == 0).count();
    metrics.n_tokens = sums.iter().map(|row| row.n_tokens).sum();
    metrics.n_skipped = metrics.n_tokens - sums.iter().map(|row| row.n_known).sum::<usize>();
    if batch.rollout.is_some() {
        metrics.n_weights = metrics.n_finite();
    }
    Ok(PolicyLoss { numerator: values.iter().sum(), denominator, rows: values, metrics })
}

struct Call<'a> {
    device: &'a Wgpu,
    batch: &'a PolicyBatch<'a>,
    known: &'a [bool],
    config: &'a PolicyLossConfig,
}

impl Call<'_> {
    fn count(&self) -> Vec<RowSums> {
        let of_row = |row| {
            let at = self.batch.layout.tokens(row);
            let count = |mask: &[bool]| mask.iter().filter(|is_token| **is_token).count();
            let n_tokens = count(&self.batch.mask[at.clone()]);
            RowSums { n_tokens, n_known: count(&self.known[at]), ..RowSums::default() }
        };
        (0..self.batch.layout.n_rows()).map(of_row).collect()
    }

    fn weight(&self, n_tokens: usize) -> f64 {
        match self.config.reduction {
            _ if n_tokens == 0 => 0.0,
            Reduction::TokenMean | Reduction::TokenSum | Reduction::SeqMeanTokenSum => 1.0,
            Reduction::SeqMeanTokenMean => 1.0 / n_tokens as f64,
            Reduction::SeqMeanTokenSumNorm { length } => 1.0 / f64::from(length),
        }
    }

    fn denominator(&self, rows: &[RowSums]) -> f64 {
        if let Some(denominator) = self.batch.denominator {
            return denominator;
        }
        let counts = |row: &&RowSums| self.config.count_empty_rows || row.n_tokens > 0;
        match self.config.reduction {
            Reduction::TokenMean => rows.iter().map(|row| row.n_tokens).sum::<usize>() as f64,
            Reduction::TokenSum => 1.0,
            _ => rows.iter().filter(counts).count() as f64,
        }
    }

    fn rows(&self, sums: &[RowSums], denominator: f64) -> Vec<Row> {
        let most = self.config.max_log_ratio as f32;
        let of_row = self.config.ratio != RatioLevel::Token;
        let poisons = of_row && self.config.non_finite == NonFinite::Poison;
        let row = |(i, sums): (usize, &RowSums)| Row {
            share: match denominator {
                0.0 => 0.0,
                _ => (self.weight(sums.n_tokens) / denominator) as f32,
            },
            log_ratio: ((sums.log_ratio / sums.n_finite.max(1.0)) as f32).clamp(-most, most),
            log_weight: (sums.log_weight as f32).clamp(-most, most),
            shared_grad: 0.0,
            is_poisoned: u32::from(poisons && sums.n_finite < sums.n_known as f64),
            episode: match self.batch.advantages {
                Advantages::Dense(_) => 0.0,
                Advantages::Rows(values) => values[i],
                Advantages::Spans { episode, .. } => episode[i],
            },
        };
        sums.iter().enumerate().map(row).collect()
    }

    /// Runs an entry point over a tile: the sums of its pieces, and the arrays of its tokens.
    fn dispatch(
        &self,
        tile: &Tile,
        entry: &'static str,
        rows: &[Row],
    ) -> Result<(Vec<u32>, Vec<u32>)> {
        let is_last = entry == "policy_loss_terms";
        let n_fields = match entry {
            "policy_loss_logs" => size_of::<Logs>() / 4,
            "policy_loss_ratio" => size_of::<ThroughRatio>() / 4,
            _ => TILE_FIELDS,
        };
        let n_array_words = if is_last { tile.n_array_words } else { 0 };
        let args = Args { sums: n_array_words as u32, ..tile.args };
        let n_words = n_array_words + n_fields * tile.pieces.len();
        let n_bytes = n_words as u64 * 4;
        let args = self.device.parameters(&args)?;
        let rows = self.device.upload(&rows[tile.rows.clone()])?;
        let found = self.device.zeros(n_bytes)?;
        let step = Step {
            shader: &SHADER,
            size: 1,
            entry,
            memory: &[&args, &tile.words, &rows, &found],
            workgroups: tile.pieces.len() as u32,
        };
        let mut read = self.device.run(&[step], &[(&found, n_bytes)])?;
        let mut arrays = read.pop().unwrap_or_default();
        let sums = arrays.split_off(n_array_words.min(arrays.len()));
        Ok((sums, arrays))
    }

    fn metrics(&self, sums: &Sums) -> LossMetrics {
        let wide = f64::from;
        let count = |n: f32| n as usize;
        // Bounds of no token are the shader's largest numbers.
        let bounds = |least: f32, most: f32| match sums.n_good > 0.0 {
            true => (wide(least), wide(most)),
            false => (f64::INFINITY, f64::NEG_INFINITY),
        };
        let (ratio_min, ratio_max) = bounds(sums.ratio_min, sums.ratio_max);
        let (weight_min, weight_max) = match self.batch.rollout {
            Some(_) => bounds(sums.weight_min, sums.weight_max),
            None => (f64::INFINITY, f64::NEG_INFINITY),
        };
        LossMetrics {
            n_non_finite: count(sums.n_bad),
            n_clipped_low: count(sums.n_low),
            n_clipped_high: count(sums.n_high),
            n_clipped_dual: count(sums.n_dual),
            sum_k1: wide(sums.k1),
            sum_k3: wide(sums.k3),
            sum_ratio: wide(sums.ratio),
            ratio_min,
            ratio_max,
            sum_kl: wide(sums.kl),
            sum_entropy: wide(sums.entropy),
            sum_weight: wide(sums.weight),
            sum_weight_squared: wide(sums.weight_squared),
            weight_min,
            weight_max,
            n_weights_bound: count(sums.n_bound),
            n_unscored: count(sums.n_unscored),
            ..LossMetrics::default()
        }
    }
}

/// The part of the arguments that the configuration makes.
fn parameters(config: &PolicyLossConfig) -> Args {
    let (surrogate, least, most, dual) = match config.surrogate {
        Surrogate::Clip { low, high, dual } => (0, 1.0 - low, 1.0 + high, dual),
        Surrogate::Cispo { min, max } => (1, min, max, None),
        Surrogate::Sapo { tau_positive, tau_negative } => (2, tau_positive, tau_negative, None),
    };
    // No infinity goes into a shader.
    let largest = f64::from(f32::MAX);
    let (correction, level, least_weight, most_weight) = match config.rollout {
        RolloutCorrection::None => (0, RolloutLevel::Token, 0.0, largest),
        RolloutCorrection::Truncate { level, max } => (1, level, 0.0, max),
        RolloutCorrection::Mask { level, min, max } => (2, level, min, max),
    };
    let narrow = |x: f64| x.min(largest) as f32;
    Args {
        n_pieces: 0,
        log_prob: ABSENT,
        old: ABSENT,
        reference: ABSENT,
        rollout: ABSENT,
        entropy: ABSENT,
        advantage: ABSENT,
        upstream: ABSENT,
        mask: ABSENT,
        pieces: ABSENT,
        spans: ABSENT,
        grad_log_prob: ABSENT,
        grad_entropy: ABSENT,
        token_loss: ABSENT,
        sums: ABSENT,
        log_prob_dtype: 0,
        old_dtype: 0,
        reference_dtype: 0,
        rollout_dtype: 0,
        entropy_dtype: 0,
        advantage_dtype: 0,
        surrogate,
        ratio: match config.ratio {
            RatioLevel::Token => 0,
            RatioLevel::Sequence => 1,
            RatioLevel::SequenceToken => 2,
        },
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
        poisons: u32::from(config.non_finite == NonFinite::Poison),
        has_dual: u32::from(dual.is_some()),
        upstream_value: 0.0,
        least: narrow(least),
        most: narrow(most),
        dual: narrow(dual.unwrap_or(0.0)),
        max_log_ratio: narrow(config.max_log_ratio),
        beta: narrow(config.beta),
        entropy_coef: narrow(config.entropy_coef),
        least_weight: narrow(least_weight),
        most_weight: narrow(most_weight),
        unused: [0; 3],
    }
}

/// Rounds and writes f32 bits.
fn write_floats(to: &mut FloatsMut<'_>, at: usize, bits: &[u32]) {
    let floats = bits.iter().map(|&bits| f32::from_bits(bits));
    match to {
        FloatsMut::F32(values) => {
            values[at..at + bits.len()].iter_mut().zip(floats).for_each(|(to, x)| *to = x);
        }
        FloatsMut::Bf16(values) => values[at..at + bits.len()]
            .iter_mut()
            .zip(floats)
            .for_each(|(to, x)| *to = half::bf16::from_f32(x)),
        FloatsMut::F16(values) => values[at..at + bits.len()]
            .iter_mut()
            .zip(floats)
            .for_each(|(to, x)| *to = half::f16::from_f32(x)),
    }
}
