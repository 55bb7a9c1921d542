//! Rows cut into pieces, and pieces put together to tiles that fit the device.

use std::ops::Range;

use super::{ABSENT, Args, Row, TILE_FIELDS, write_floats};
use crate::backend::wgpu::Wgpu;
use crate::backend::wgpu::driver::Memory;
use crate::error::{Error, Result};
use crate::params::arrays::{
    AdvantageSpan, Advantages, Floats, Layout, PolicyBatch, PolicyOutputs, Upstream,
};

/// Tokens of a piece.
const PIECE_TOKENS: usize = 1024;

/// Words of a piece and of a span in the shader's `words`.
const PIECE_WORDS: usize = 5;
const SPAN_WORDS: usize = 3;

/// Bytes of a tile that the host copies at a time, whatever the device could take.
const MOST_BYTES: u64 = 64 << 20;

/// Tokens of one row.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) row: usize,
    tokens: Range<usize>,
    /// Of its first token in the row.
    position: usize,
}

pub(super) fn pieces(layout: Layout<'_>) -> Vec<Piece> {
    let of_row = |row| {
        let tokens = layout.tokens(row);
        tokens.clone().step_by(PIECE_TOKENS).map(move |start| Piece {
            row,
            tokens: start..tokens.end.min(start + PIECE_TOKENS),
            position: start - tokens.start,
        })
    };
    (0..layout.n_rows()).flat_map(of_row).collect()
}

/// Neighbouring pieces on the device.
#[derive(Debug)]
pub(super) struct Tile {
    pub(super) pieces: Range<usize>,
    pub(super) rows: Range<usize>,
    tokens: Range<usize>,
    pub(super) args: Args,
    pub(super) words: Memory,
    /// Words of the arrays that the shader writes.
    pub(super) n_array_words: usize,
}

/// Copies everything to the device.
pub(super) fn tiles(
    device: &Wgpu,
    batch: &PolicyBatch<'_>,
    upstream: Upstream<'_>,
    outputs: &PolicyOutputs<'_>,
    pieces: &[Piece],
    parameters: Args,
) -> Result<Vec<Tile>> {
    let most_bytes = device.limits().binding_bytes.min(MOST_BYTES);
    let size = Size::new(batch, upstream, outputs);
    let mut tiles = vec![];
    let mut first = 0;
    while first < pieces.len() {
        let mut end = first;
        let mut bytes = size.none();
        while end < pieces.len() {
            let is_new_row = end == first || pieces[end].row != pieces[end - 1].row;
            let more = bytes.with(&size, &pieces[end], spans_of(batch, &pieces[end]), is_new_row);
            if more.most() > most_bytes {
                break;
            }
            bytes = more;
            end += 1;
        }
        if end == first {
            let spans = spans_of(batch, &pieces[first]);
            return Err(Error::Limit {
                op: "policy_loss",
                what: "1,024 tokens on the device (bytes)",
                needed: size.none().with(&size, &pieces[first], spans, true).most(),
                limit: most_bytes,
                advice: "use Device::cpu()",
            });
        }
        tiles.push(tile(device, batch, upstream, outputs, pieces, first..end, parameters)?);
        first = end;
    }
    Ok(tiles)
}

/// Bytes of a token, read and written.
struct Size {
    read: u64,
    written: u64,
    n_arrays: u64,
}

/// Bytes of the three buffers of a tile.
#[derive(Clone, Copy)]
struct Bytes {
    words: u64,
    rows: u64,
    found: u64,
}

impl Size {
    fn new(batch: &PolicyBatch<'_>, upstream: Upstream<'_>, outputs: &PolicyOutputs<'_>) -> Size {
        let dense = match batch.advantages {
            Advantages::Dense(values) => Some(values),
            _ => None,
        };
        let arrays =
            [Some(batch.log_prob), batch.old, batch.reference, batch.rollout, batch.entropy, dense];
        let bytes = |values: &Floats<'_>| if matches!(values, Floats::F32(_)) { 4 } else { 2 };
        let of_upstream = if matches!(upstream, Upstream::Tokens { .. }) { 4 } else { 0 };
        let written = [
            outputs.grad_log_prob.is_some(),
            outputs.grad_entropy.is_some(),
            outputs.token_loss.is_some(),
        ];
        Size {
            read: arrays.iter().flatten().map(bytes).sum::<u64>() + of_upstream + 1,
            written: written.iter().map(|is_there| 4 * u64::from(*is_there)).sum(),
            n_arrays: arrays.len() as u64 + 2,
        }
    }

    fn none(&self) -> Bytes {
        // Each array begins at a word.
        Bytes { words: 4 * self.n_arrays, rows: 0, found: 0 }
    }
}

impl Bytes {
    fn with(self, size: &Size, piece: &Piece, spans: &[AdvantageSpan], is_new_row: bool) -> Bytes {
        let n = piece.tokens.len() as u64;
        let table = PIECE_WORDS + SPAN_WORDS * spans.len();
        Bytes {
            words: self.words + n * size.read + 4 * table as u64,
            rows: self.rows + u64::from(is_new_row) * size_of::<Row>() as u64,
            found: self.found + n * size.written + 4 * TILE_FIELDS as u64,
        }
    }

    fn most(self) -> u64 {
        self.words.max(self.rows).max(self.found)
    }
}

/// The spans that reach into a piece.
fn spans_of<'a>(batch: &PolicyBatch<'a>, piece: &Piece) -> &'a [AdvantageSpan] {
    let Advantages::Spans { spans, offsets, .. } = batch.advantages else { return &[] };
    let spans = &spans[offsets[piece.row]..offsets[piece.row + 1]];
    let (start, end) = (piece.position, piece.position + piece.tokens.len());
    let first = spans.partition_point(|span| span.tokens.end as usize <= start);
    let last = spans.partition_point(|span| (span.tokens.start as usize) < end);
    &spans[first..last.max(first)]
}

fn tile(
    device: &Wgpu,
    batch: &PolicyBatch<'_>,
    upstream: Upstream<'_>,
    outputs: &PolicyOutputs<'_>,
    all: &[Piece],
    range: Range<usize>,
    parameters: Args,
) -> Result<Tile> {
    let pieces = &all[range.clone()];
    let tokens = pieces[0].tokens.start..pieces[pieces.len() - 1].tokens.end;
    let rows = pieces[0].row..pieces[pieces.len() - 1].row + 1;
    let mut words = Words::default();
    let mut args = Args { n_pieces: pieces.len() as u32, ..parameters };
    let mut floats = |values: Option<Floats<'_>>| match values {
        None => (ABSENT, 0),
        Some(Floats::F32(values)) => (words.push(&values[tokens.clone()]), 0),
        Some(Floats::Bf16(values)) => (words.push(&values[tokens.clone()]), 1),
        Some(Floats::F16(values)) => (words.push(&values[tokens.clone()]), 2),
    };
    (args.log_prob, args.log_prob_dtype) = floats(Some(batch.log_prob));
    (args.old, args.old_dtype) = floats(batch.old);
    (args.reference, args.reference_dtype) = floats(batch.reference);
    (args.rollout, args.rollout_dtype) = floats(batch.rollout);
    (args.entropy, args.entropy_dtype) = floats(batch.entropy);
    if let Advantages::Dense(values) = batch.advantages {
        (args.advantage, args.advantage_dtype) = floats(Some(values));
    }
    args.mask = words.push(&batch.mask[tokens.clone()]);
    match upstream {
        Upstream::Loss(value) => args.upstream_value = value,
        Upstream::Tokens { values, row_stride, token_stride } => {
            let of_piece = |piece: &Piece| {
                let first = match batch.layout {
                    Layout::Padded { .. } => piece.row * row_stride + piece.position * token_stride,
                    Layout::Packed { .. } => piece.tokens.start * token_stride,
                };
                (0..piece.tokens.len()).map(move |i| values[first + i * token_stride])
            };
            args.upstream = words.push(&pieces.iter().flat_map(of_piece).collect::<Vec<f32>>());
        }
    }
    let (mut of_pieces, mut of_spans) = (vec![], vec![]);
    for piece in pieces {
        let spans = spans_of(batch, piece);
        of_pieces.extend([
            (piece.row - rows.start) as u32,
            (piece.tokens.start - tokens.start) as u32,
            piece.tokens.len() as u32,
            (of_spans.len() / SPAN_WORDS) as u32,
            spans.len() as u32,
        ]);
        for span in spans {
            let from_piece = |token: u32| token.saturating_sub(piece.position as u32);
            of_spans.extend([
                from_piece(span.tokens.start),
                from_piece(span.tokens.end),
                span.advantage.to_bits(),
            ]);
        }
    }
    args.pieces = words.push(&of_pieces);
    args.spans = words.push(&of_spans);

    let mut n_array_words = 0;
    let mut place = |is_wanted: bool| {
        let at = n_array_words;
        n_array_words += if is_wanted { tokens.len() } else { 0 };
        if is_wanted { at as u32 } else { ABSENT }
    };
    args.grad_log_prob = place(outputs.grad_log_prob.is_some());
    args.grad_entropy = place(outputs.grad_entropy.is_some());
    args.token_loss = place(outputs.token_loss.is_some());
    let words = device.upload(&words.0)?;
    Ok(Tile { pieces: range, rows, tokens, args, words, n_array_words })
}

/// Arrays one after the other.
#[derive(Default)]
struct Words(Vec<u32>);

impl Words {
    /// Appends an array from a new word on; gives where it begins.
    fn push<T: bytemuck::NoUninit>(&mut self, values: &[T]) -> u32 {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let at = self.0.len();
        self.0.resize(at + bytes.len().div_ceil(4), 0);
        bytemuck::cast_slice_mut::<u32, u8>(&mut self.0[at..])[..bytes.len()]
            .copy_from_slice(bytes);
        at as u32
    }
}

impl Tile {
    /// Copies what the shader wrote into the caller's arrays.
    pub(super) fn write(&self, arrays: &[u32], outputs: &mut PolicyOutputs<'_>) {
        let n = self.tokens.len();
        let outputs = [
            (&mut outputs.grad_log_prob, self.args.grad_log_prob),
            (&mut outputs.grad_entropy, self.args.grad_entropy),
            (&mut outputs.token_loss, self.args.token_loss),
        ];
        for (output, at) in outputs {
            if let Some(output) = output {
                write_floats(output, self.tokens.start, &arrays[at as usize..at as usize + n]);
            }
        }
    }
}
