//! Tokens of a block: what is read of them as f32, whatever the dtype and the form of the advantages.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;

use crate::params::arrays::{Advantages, Floats, FloatsMut, Layout, PolicyBatch, Upstream};

/// Tokens of a block. All buffers of a block stay in the first-level cache.
pub(super) const BLOCK: usize = 256;

/// One number for each token of a block.
pub(super) type Lane = [f32; BLOCK];

/// What a block reads. Tokens past its end have a mask of false.
pub(super) struct Inputs {
    pub(super) mask: [bool; BLOCK],
    pub(super) log_prob: Lane,
    pub(super) old: Lane,
    pub(super) reference: Lane,
    pub(super) rollout: Lane,
    pub(super) entropy: Lane,
    pub(super) advantage: Lane,
    pub(super) upstream: Lane,
}

impl Inputs {
    pub(super) fn new() -> Self {
        Inputs {
            mask: [false; BLOCK],
            log_prob: [0.0; BLOCK],
            old: [0.0; BLOCK],
            reference: [0.0; BLOCK],
            rollout: [0.0; BLOCK],
            entropy: [0.0; BLOCK],
            advantage: [0.0; BLOCK],
            upstream: [0.0; BLOCK],
        }
    }

    /// Reads the tokens at `at` of the arrays, all of row `row`. False, with nothing read, if none is under the mask.
    #[inline(always)]
    pub(super) fn load(
        &mut self,
        batch: &PolicyBatch<'_>,
        upstream: Upstream<'_>,
        row: usize,
        at: Range<usize>,
    ) -> bool {
        let n = at.len();
        self.mask[..n].copy_from_slice(&batch.mask[at.clone()]);
        self.mask[n..].fill(false);
        if !self.mask[..n].contains(&true) {
            return false;
        }
        read(batch.log_prob, &at, &mut self.log_prob);
        match batch.old {
            Some(old) => read(old, &at, &mut self.old),
            None => self.old = self.log_prob,
        }
        if let Some(reference) = batch.reference {
            read(reference, &at, &mut self.reference);
        }
        if let Some(rollout) = batch.rollout {
            read(rollout, &at, &mut self.rollout);
        }
        if let Some(entropy) = batch.entropy {
            read(entropy, &at, &mut self.entropy);
        }
        let in_row = at.start - batch.layout.tokens(row).start;
        match batch.advantages {
            Advantages::Dense(values) => read(values, &at, &mut self.advantage),
            Advantages::Rows(values) => self.advantage.fill(values[row]),
            Advantages::Spans { episode, spans, offsets } => {
                self.advantage.fill(episode[row]);
                let spans = &spans[offsets[row]..offsets[row + 1]];
                let first = spans.partition_point(|span| span.tokens.end as usize <= in_row);
                for span in &spans[first..] {
                    let start = (span.tokens.start as usize).max(in_row) - in_row;
                    let end = (span.tokens.end as usize).min(in_row + n).saturating_sub(in_row);
                    if start >= n {
                        break;
                    }
                    self.advantage[start..end].fill(episode[row] + span.advantage);
                }
            }
        }
        match upstream {
            Upstream::Loss(value) => self.upstream.fill(value),
            Upstream::Tokens { values, row_stride, token_stride } => {
                let first = match batch.layout {
                    Layout::Padded { .. } => row * row_stride + in_row * token_stride,
                    Layout::Packed { .. } => at.start * token_stride,
                };
                for i in 0..n {
                    self.upstream[i] = values[first + i * token_stride];
                }
            }
        }
        true
    }
}

#[inline(always)]
fn read(from: Floats<'_>, at: &Range<usize>, to: &mut Lane) {
    let to = &mut to[..at.len()];
    match from {
        Floats::F32(values) => to.copy_from_slice(&values[at.clone()]),
        Floats::Bf16(values) => {
            for (to, value) in to.iter_mut().zip(&values[at.clone()]) {
                *to = f32::from_bits(u32::from(value.to_bits()) << 16);
            }
        }
        Floats::F16(values) => values[at.clone()].convert_to_f32_slice(to),
    }
}

/// Writes the first numbers of `from` to the tokens `at` of an output.
#[inline(always)]
pub(super) fn write(from: &Lane, to: &mut FloatsMut<'_>, at: Range<usize>) {
    let from = &from[..at.len()];
    match to {
        FloatsMut::F32(to) => to[at].copy_from_slice(from),
        FloatsMut::Bf16(to) => to[at].convert_from_f32_slice(from),
        FloatsMut::F16(to) => to[at].convert_from_f32_slice(from),
    }
}

/// Writes zeros to the tokens `at` of an output.
pub(super) fn write_zeros(to: &mut FloatsMut<'_>, at: Range<usize>) {
    match to {
        FloatsMut::F32(to) => to[at].fill(0.0),
        FloatsMut::Bf16(to) => to[at].fill(half::bf16::ZERO),
        FloatsMut::F16(to) => to[at].fill(half::f16::ZERO),
    }
}
