//! Tokens of a block: what is read of them as f32, whatever the dtype and the form of the advantages.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;

use crate::params::arrays::{
    AdvantageSpan, Advantages, Floats, FloatsMut, Layout, PolicyBatch, Upstream,
};

/// Tokens of a block. All buffers of a block stay in the first-level cache.
pub(super) const BLOCK: usize = 512;

/// One number for each token of a block.
pub(super) type Lane = [f32; BLOCK];

/// What a block reads. Tokens past its end have a mask of false.
pub(super) struct Inputs<'a> {
    /// Tokens of the block.
    pub(super) len: usize,
    pub(super) mask: &'a [bool; BLOCK],
    pub(super) log_prob: &'a Lane,
    pub(super) old: &'a Lane,
    /// Here and below: anything where the array is absent.
    pub(super) reference: &'a Lane,
    pub(super) rollout: &'a Lane,
    pub(super) entropy: &'a Lane,
    pub(super) advantage: &'a Lane,
    pub(super) upstream: &'a Lane,
}

/// Room for what cannot be read where it lies: another dtype than f32, the last tokens of a row, values made here.
pub(super) struct Buffers {
    mask: [bool; BLOCK],
    log_prob: Lane,
    old: Lane,
    reference: Lane,
    rollout: Lane,
    entropy: Lane,
    advantage: Lane,
    upstream: Lane,
}

impl Buffers {
    pub(super) fn new(upstream: Upstream<'_>) -> Self {
        let upstream = match upstream {
            Upstream::Loss(value) => value,
            Upstream::Tokens { .. } => 0.0,
        };
        Buffers {
            mask: [false; BLOCK],
            log_prob: [0.0; BLOCK],
            old: [0.0; BLOCK],
            reference: [0.0; BLOCK],
            rollout: [0.0; BLOCK],
            entropy: [0.0; BLOCK],
            advantage: [0.0; BLOCK],
            upstream: [upstream; BLOCK],
        }
    }

    /// The tokens at `at` of the arrays, all of row `row`, and the upstream gradient that `new` had. `None` if none is under the mask.
    #[inline(always)]
    pub(super) fn load<'a>(
        &'a mut self,
        batch: &PolicyBatch<'a>,
        upstream: Upstream<'a>,
        row: usize,
        at: Range<usize>,
    ) -> Option<Inputs<'a>> {
        let mask = &batch.mask[at.clone()];
        if !mask.contains(&true) {
            return None;
        }
        let mask = mask.try_into().unwrap_or_else(|_| {
            self.mask.fill(false);
            self.mask[..at.len()].copy_from_slice(mask);
            &self.mask
        });
        let log_prob = read(batch.log_prob, &at, &mut self.log_prob);
        let first = at.start - batch.layout.tokens(row).start;
        Some(Inputs {
            len: at.len(),
            mask,
            log_prob,
            old: batch.old.map_or(log_prob, |old| read(old, &at, &mut self.old)),
            reference: batch
                .reference
                .map_or(log_prob, |values| read(values, &at, &mut self.reference)),
            rollout: batch.rollout.map_or(log_prob, |values| read(values, &at, &mut self.rollout)),
            entropy: batch.entropy.map_or(log_prob, |values| read(values, &at, &mut self.entropy)),
            advantage: match batch.advantages {
                Advantages::Dense(values) => read(values, &at, &mut self.advantage),
                Advantages::Rows(values) => {
                    self.advantage.fill(values[row]);
                    &self.advantage
                }
                Advantages::Spans { episode, spans, offsets } => {
                    let spans = &spans[offsets[row]..offsets[row + 1]];
                    fill_spans(episode[row], spans, first..first + at.len(), &mut self.advantage);
                    &self.advantage
                }
            },
            upstream: match upstream {
                Upstream::Loss(_) => &self.upstream,
                Upstream::Tokens { values, row_stride, token_stride } => {
                    let from = match batch.layout {
                        Layout::Padded { .. } => row * row_stride + first * token_stride,
                        Layout::Packed { .. } => at.start * token_stride,
                    };
                    for i in 0..at.len() {
                        self.upstream[i] = values[from + i * token_stride];
                    }
                    &self.upstream
                }
            },
        })
    }
}

/// The advantages of the tokens `at` of a row.
fn fill_spans(episode: f32, spans: &[AdvantageSpan], at: Range<usize>, to: &mut Lane) {
    to.fill(episode);
    let first = spans.partition_point(|span| span.tokens.end as usize <= at.start);
    for span in &spans[first..] {
        let start = (span.tokens.start as usize).max(at.start);
        let end = (span.tokens.end as usize).min(at.end);
        if start >= at.end {
            break;
        }
        to[start - at.start..end - at.start].fill(episode + span.advantage);
    }
}

#[inline(always)]
fn read<'a>(from: Floats<'a>, at: &Range<usize>, buffer: &'a mut Lane) -> &'a Lane {
    let n = at.len();
    match from {
        Floats::F32(values) => match values[at.clone()].try_into() {
            Ok(block) => return block,
            Err(_) => buffer[..n].copy_from_slice(&values[at.clone()]),
        },
        Floats::Bf16(values) => {
            for (to, value) in buffer.iter_mut().zip(&values[at.clone()]) {
                *to = f32::from_bits(u32::from(value.to_bits()) << 16);
            }
        }
        Floats::F16(values) => values[at.clone()].convert_to_f32_slice(&mut buffer[..n]),
    }
    buffer
}

/// Gives `compute` a block to write, which becomes the tokens `at` of an output: where they lie if that can be, else by
/// way of `buffer`.
#[inline(always)]
pub(super) fn place<'a>(
    output: &'a mut Option<FloatsMut<'_>>,
    at: &Range<usize>,
    buffer: &'a mut Lane,
) -> &'a mut Lane {
    match output {
        Some(FloatsMut::F32(to)) if at.len() == BLOCK => {
            <&mut Lane>::try_from(&mut to[at.clone()]).unwrap_or(buffer)
        }
        _ => buffer,
    }
}

/// Writes what [`place`] left in the buffer.
#[inline(always)]
pub(super) fn settle(output: &mut Option<FloatsMut<'_>>, at: Range<usize>, buffer: &Lane) {
    let from = &buffer[..at.len()];
    match output {
        Some(FloatsMut::F32(to)) if at.len() < BLOCK => to[at].copy_from_slice(from),
        Some(FloatsMut::Bf16(to)) => to[at].convert_from_f32_slice(from),
        Some(FloatsMut::F16(to)) => to[at].convert_from_f32_slice(from),
        _ => {}
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
