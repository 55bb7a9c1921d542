//! The policy loss: every token is read once, or twice where ratios are those of rows.
//!
//! Rows are cut into pieces of [`PIECE`] tokens, counted from the row's first token, so that a row's value does not
//! depend on what is beside it; pieces are computed in parallel and joined in order.

mod block;
mod sums;
mod surrogates;
mod terms;

use std::ops::Range;

use rayon::prelude::*;

use self::block::{BLOCK, Buffers, Lane, place, settle, write_zeros};
use self::sums::{RowLogTotals, RowLogs, Totals};
use self::surrogates::{Cispo, Clip, LaneLoss, Own, Sapo};
use self::terms::{Block, Constants, Places, RowTerms};
use super::Cpu;
use super::vectorized::{self, Lanes, Vectorized};
use crate::params::arrays::{FloatsMut, PolicyBatch, PolicyLoss, PolicyOutputs, Upstream};
use crate::params::loss::{
    NonFinite, PolicyLossConfig, RatioLevel, Reduction, RolloutCorrection, RolloutLevel, Surrogate,
    TokenLoss,
};
use crate::params::metrics::LossMetrics;

/// Tokens that one thread computes at a time.
const PIECE: usize = 4096;

/// The losses of the configuration. Everything has been validated.
pub(crate) fn policy_loss(
    device: &Cpu,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> PolicyLoss {
    policy_loss_of_known(device, batch, batch.mask, config, upstream, outputs)
}

/// [`policy_loss`] of the tokens whose log-prob is known, a part of those under the mask; the others keep their place
/// in every count and add nothing.
pub(super) fn policy_loss_of_known(
    device: &Cpu,
    batch: &PolicyBatch<'_>,
    known: &[bool],
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> PolicyLoss {
    match config.surrogate {
        Surrogate::Clip { low, high, dual } => {
            let dual = dual.map_or(f32::INFINITY, |dual| dual as f32);
            let loss = Clip { least: (1.0 - low) as f32, most: (1.0 + high) as f32, dual };
            run(device, &loss, batch, known, config, upstream, outputs)
        }
        Surrogate::Cispo { min, max } => {
            let loss = Cispo { min: min as f32, max: max as f32 };
            run(device, &loss, batch, known, config, upstream, outputs)
        }
        Surrogate::Sapo { tau_positive, tau_negative } => {
            let loss =
                Sapo { tau_positive: tau_positive as f32, tau_negative: tau_negative as f32 };
            run(device, &loss, batch, known, config, upstream, outputs)
        }
    }
}

/// Whether the loss of a token depends on other tokens of its row.
pub(in crate::backend) fn takes_whole_rows(config: &PolicyLossConfig) -> bool {
    weighs_rows(config) || config.ratio != RatioLevel::Token
}

/// Whether the importance weight is that of the row.
fn weighs_rows(config: &PolicyLossConfig) -> bool {
    match config.rollout {
        RolloutCorrection::None => false,
        RolloutCorrection::Truncate { level, .. } | RolloutCorrection::Mask { level, .. } => {
            level == RolloutLevel::Sequence
        }
    }
}

/// Any token loss. Everything has been validated.
pub(crate) fn policy_loss_with<L: TokenLoss>(
    device: &Cpu,
    loss: &L,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> PolicyLoss {
    run(device, &Own(loss), batch, batch.mask, config, upstream, outputs)
}

fn run<L: LaneLoss>(
    device: &Cpu,
    loss: &L,
    batch: &PolicyBatch<'_>,
    known: &[bool],
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    outputs: PolicyOutputs<'_>,
) -> PolicyLoss {
    let call = Call {
        device,
        loss,
        batch: PolicyBatch { mask: known, ..*batch },
        trained: batch.mask,
        config,
        upstream,
        constants: Constants::new(config, batch.entropy.is_some()),
    };
    match (batch.reference.is_some(), batch.rollout.is_some()) {
        (false, false) => call.run::<false, false>(outputs),
        (false, true) => call.run::<false, true>(outputs),
        (true, false) => call.run::<true, false>(outputs),
        (true, true) => call.run::<true, true>(outputs),
    }
}

struct Call<'a, L> {
    device: &'a Cpu,
    loss: &'a L,
    /// Its mask is that of the known tokens.
    batch: PolicyBatch<'a>,
    /// The tokens that count.
    trained: &'a [bool],
    config: &'a PolicyLossConfig,
    upstream: Upstream<'a>,
    constants: Constants,
}

/// Tokens of a row: at most [`PIECE`].
struct Piece {
    row: usize,
    at: Range<usize>,
}

impl Piece {
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let end = self.at.end;
        self.at.clone().step_by(BLOCK).map(move |start| start..end.min(start + BLOCK))
    }
}

/// What a row's weight and ratio are made of.
#[derive(Clone, Copy, Default)]
struct RowSums {
    n_tokens: usize,
    n_known: usize,
    /// All 0 unless something is that of a row.
    logs: RowLogs,
}

/// The parts of [`PolicyOutputs`] that belong to a piece.
#[derive(Default)]
struct PieceOutputs<'a> {
    grad_log_prob: Option<FloatsMut<'a>>,
    grad_entropy: Option<FloatsMut<'a>>,
    token_loss: Option<FloatsMut<'a>>,
}

/// What becomes of a piece.
struct PieceResult {
    value: f64,
    /// Sum of the gradients, for a pass that computes those through the row's ratio alone.
    through_ratio: f64,
    metrics: LossMetrics,
}

impl<L: LaneLoss> Call<'_, L> {
    fn run<const REFERENCE: bool, const ROLLOUT: bool>(
        &self,
        outputs: PolicyOutputs<'_>,
    ) -> PolicyLoss {
        let n_rows = self.batch.layout.n_rows();
        let pieces = self.pieces();
        let at_least = pieces_at_a_time(&pieces);

        let counted: Vec<RowSums> =
            pieces.par_iter().with_min_len(at_least).map(|piece| self.count(piece)).collect();
        let mut sums = vec![RowSums::default(); n_rows];
        for (piece, counted) in pieces.iter().zip(&counted) {
            let row = &mut sums[piece.row];
            row.n_tokens += counted.n_tokens;
            row.n_known += counted.n_known;
            row.logs.n_finite += counted.logs.n_finite;
            row.logs.log_ratio += counted.logs.log_ratio;
            row.logs.log_weight += counted.logs.log_weight;
        }
        let denominator = self.denominator(&sums);
        let mut rows: Vec<RowTerms> =
            sums.iter().map(|row| self.row_terms(row, denominator)).collect();
        if self.config.ratio == RatioLevel::Sequence {
            self.share_ratio_gradient::<REFERENCE, ROLLOUT>(&pieces, at_least, &sums, &mut rows);
        }

        let work: Vec<_> = pieces.iter().zip(split(outputs, &pieces)).collect();
        let results: Vec<PieceResult> = work
            .into_par_iter()
            .with_min_len(at_least)
            .map(|(piece, outputs)| {
                self.compute::<REFERENCE, ROLLOUT>(piece, rows[piece.row], Some(outputs))
            })
            .collect();
        let mut values = vec![0.0; n_rows];
        let mut metrics = LossMetrics::default();
        for (piece, result) in pieces.iter().zip(&results) {
            values[piece.row] += result.value;
            metrics = metrics.plus(result.metrics);
        }
        for (value, row) in values.iter_mut().zip(&sums) {
            *value *= self.weight(row);
        }
        metrics.n_rows = n_rows;
        metrics.n_empty_rows = sums.iter().filter(|row| row.n_tokens == 0).count();
        metrics.n_tokens = sums.iter().map(|row| row.n_tokens).sum();
        metrics.n_skipped = metrics.n_tokens - sums.iter().map(|row| row.n_known).sum::<usize>();
        if ROLLOUT {
            metrics.n_weights = metrics.n_finite();
        }
        PolicyLoss { numerator: values.iter().sum(), denominator, rows: values, metrics }
    }

    fn pieces(&self) -> Vec<Piece> {
        let layout = self.batch.layout;
        (0..layout.n_rows())
            .flat_map(|row| {
                let tokens = layout.tokens(row);
                let end = tokens.end;
                tokens
                    .step_by(PIECE)
                    .map(move |start| Piece { row, at: start..end.min(start + PIECE) })
            })
            .collect()
    }

    /// Tokens under the mask; and, where something is that of a row, the sums that it is made of.
    fn count(&self, piece: &Piece) -> RowSums {
        let n_tokens = count_true(&self.trained[piece.at.clone()]);
        let n_known = match std::ptr::eq(self.trained, self.batch.mask) {
            true => n_tokens,
            false => count_true(&self.batch.mask[piece.at.clone()]),
        };
        if !takes_whole_rows(self.config) {
            return RowSums { n_tokens, n_known, ..RowSums::default() };
        }
        let logs = vectorized::run(self.device.simd(), LogPass { call: self, piece });
        RowSums { n_tokens, n_known, logs }
    }

    fn denominator(&self, rows: &[RowSums]) -> f64 {
        if let Some(denominator) = self.batch.denominator {
            return denominator;
        }
        match self.config.reduction {
            Reduction::TokenMean => rows.iter().map(|row| row.n_tokens).sum::<usize>() as f64,
            Reduction::TokenSum => 1.0,
            Reduction::SeqMeanTokenMean
            | Reduction::SeqMeanTokenSum
            | Reduction::SeqMeanTokenSumNorm { .. } => {
                let counts = |row: &&RowSums| self.config.count_empty_rows || row.n_tokens > 0;
                rows.iter().filter(counts).count() as f64
            }
        }
    }

    /// The row's weight; 0 without tokens.
    fn weight(&self, row: &RowSums) -> f64 {
        match self.config.reduction {
            _ if row.n_tokens == 0 => 0.0,
            Reduction::TokenMean | Reduction::TokenSum | Reduction::SeqMeanTokenSum => 1.0,
            Reduction::SeqMeanTokenMean => 1.0 / row.n_tokens as f64,
            Reduction::SeqMeanTokenSumNorm { length } => 1.0 / f64::from(length),
        }
    }

    fn row_terms(&self, row: &RowSums, denominator: f64) -> RowTerms {
        let share = if denominator == 0.0 { 0.0 } else { self.weight(row) / denominator };
        let of_row = self.config.ratio != RatioLevel::Token;
        let most = self.constants.max_log_ratio;
        let n_finite = row.logs.n_finite.max(1) as f64;
        let poisoned = of_row
            && self.config.non_finite == NonFinite::Poison
            && row.logs.n_finite < row.n_known;
        RowTerms {
            share: share as f32,
            log_ratio: of_row.then(|| ((row.logs.log_ratio / n_finite) as f32).clamp(-most, most)),
            log_weight: weighs_rows(self.config)
                .then(|| (row.logs.log_weight as f32).clamp(-most, most)),
            shared_grad: if poisoned { f32::NAN } else { 0.0 },
            through_ratio: true,
            direct: true,
        }
    }

    /// Gives each row the mean of its tokens' gradients by the row's ratio.
    fn share_ratio_gradient<const REFERENCE: bool, const ROLLOUT: bool>(
        &self,
        pieces: &[Piece],
        at_least: usize,
        sums: &[RowSums],
        rows: &mut [RowTerms],
    ) {
        let gradients: Vec<f64> = pieces
            .par_iter()
            .with_min_len(at_least)
            .map(|piece| {
                let row = RowTerms { direct: false, ..rows[piece.row] };
                self.compute::<REFERENCE, ROLLOUT>(piece, row, None).through_ratio
            })
            .collect();
        let mut totals = vec![0.0; rows.len()];
        for (piece, gradient) in pieces.iter().zip(gradients) {
            totals[piece.row] += gradient;
        }
        for (row, (total, sums)) in rows.iter_mut().zip(totals.iter().zip(sums)) {
            row.shared_grad += (total / sums.logs.n_finite.max(1) as f64) as f32;
            row.through_ratio = false;
        }
    }

    fn compute<const REFERENCE: bool, const ROLLOUT: bool>(
        &self,
        piece: &Piece,
        row: RowTerms,
        outputs: Option<PieceOutputs<'_>>,
    ) -> PieceResult {
        vectorized::run(
            self.device.simd(),
            Pass::<'_, '_, L, REFERENCE, ROLLOUT> { call: self, piece, row, outputs },
        )
    }
}

/// The first pass over a piece, where something is that of a row.
struct LogPass<'a, L> {
    call: &'a Call<'a, L>,
    piece: &'a Piece,
}

impl<L: LaneLoss> Vectorized for LogPass<'_, L> {
    type Output = RowLogs;

    #[inline(always)]
    fn run<V: Lanes>(self) -> RowLogs {
        let batch = &self.call.batch;
        let mut buffers = Buffers::new(Upstream::default());
        let mut totals = RowLogTotals::<V>::new();
        for at in self.piece.blocks() {
            if let Some(inputs) = buffers.load(batch, Upstream::default(), self.piece.row, at) {
                let (has_reference, has_rollout) =
                    (batch.reference.is_some(), batch.rollout.is_some());
                totals.add(&inputs, has_reference, has_rollout, batch.entropy.is_some());
            }
        }
        totals.get()
    }
}

/// The pass over a piece that computes everything.
struct Pass<'a, 'b, L, const REFERENCE: bool, const ROLLOUT: bool> {
    call: &'a Call<'a, L>,
    piece: &'a Piece,
    row: RowTerms,
    outputs: Option<PieceOutputs<'b>>,
}

impl<L: LaneLoss, const REFERENCE: bool, const ROLLOUT: bool> Vectorized
    for Pass<'_, '_, L, REFERENCE, ROLLOUT>
{
    type Output = PieceResult;

    #[inline(always)]
    fn run<V: Lanes>(self) -> PieceResult {
        let Call { batch, upstream, constants, loss, .. } = self.call;
        let mut outputs = self.outputs.unwrap_or_default();
        let mut buffers = Buffers::new(*upstream);
        let [mut grad, mut grad_entropy, mut share]: [Lane; 3] = [[0.0; BLOCK]; 3];
        let mut totals = Totals::<V>::new();
        for at in self.piece.blocks() {
            let start = self.piece.at.start;
            let to = at.start - start..at.end - start;
            let Some(inputs) = buffers.load(batch, *upstream, self.piece.row, at) else {
                outputs.each(|output| write_zeros(output, to.clone()));
                continue;
            };
            let wants_share = outputs.token_loss.is_some();
            let share_at = place(&mut outputs.token_loss, &to, &mut share);
            let mut places = Places {
                grad: place(&mut outputs.grad_log_prob, &to, &mut grad),
                grad_entropy: place(&mut outputs.grad_entropy, &to, &mut grad_entropy),
                share: wants_share.then_some(share_at),
            };
            let block = Block { inputs, row: self.row, constants, loss: *loss };
            block.compute::<V, REFERENCE, ROLLOUT>(&mut totals, &mut places);
            settle(&mut outputs.grad_log_prob, to.clone(), &grad);
            match &mut outputs.grad_entropy {
                Some(output) if !constants.has_entropy => write_zeros(output, to.clone()),
                output => settle(output, to.clone(), &grad_entropy),
            }
            settle(&mut outputs.token_loss, to, &share);
        }
        PieceResult {
            value: totals.value(),
            through_ratio: totals.grad(),
            metrics: totals.metrics(),
        }
    }
}

impl PieceOutputs<'_> {
    fn each(&mut self, mut f: impl FnMut(&mut FloatsMut<'_>)) {
        let PieceOutputs { grad_log_prob, grad_entropy, token_loss } = self;
        [grad_log_prob, grad_entropy, token_loss].into_iter().flatten().for_each(&mut f);
    }
}

/// How many are true, summed in bytes: that is fast in any instructions.
fn count_true(mask: &[bool]) -> usize {
    let of_chunk = |chunk: &[bool]| chunk.iter().fold(0u8, |n, live| n + u8::from(*live));
    mask.chunks(128).map(|chunk| usize::from(of_chunk(chunk))).sum()
}

/// The outputs of each piece; the pieces tile the arrays in order.
fn split<'a>(mut outputs: PolicyOutputs<'a>, pieces: &[Piece]) -> Vec<PieceOutputs<'a>> {
    fn take<'a>(rest: &mut Option<FloatsMut<'a>>, n: usize) -> Option<FloatsMut<'a>> {
        let (head, tail) = rest.take()?.split_at(n);
        *rest = Some(tail);
        Some(head)
    }
    pieces
        .iter()
        .map(|piece| PieceOutputs {
            grad_log_prob: take(&mut outputs.grad_log_prob, piece.at.len()),
            grad_entropy: take(&mut outputs.grad_entropy, piece.at.len()),
            token_loss: take(&mut outputs.token_loss, piece.at.len()),
        })
        .collect()
}

/// Pieces that together are about [`PIECE`] tokens: short rows are not worth a task each.
fn pieces_at_a_time(pieces: &[Piece]) -> usize {
    let n_tokens: usize = pieces.iter().map(|piece| piece.at.len()).sum();
    (PIECE * pieces.len()).checked_div(n_tokens).unwrap_or(1).clamp(1, pieces.len().max(1))
}
