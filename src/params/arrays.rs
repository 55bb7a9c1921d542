//! Arrays that go into a policy loss and come out of it.

use std::ops::Range;

use half::{bf16, f16};

use super::metrics::LossMetrics;

/// Read-only numbers of one of the dtypes that models are trained in. Arithmetic is f32 whatever the dtype.
#[derive(Debug, Clone, Copy)]
pub enum Floats<'a> {
    /// IEEE single precision.
    F32(&'a [f32]),
    /// bfloat16: the upper half of an f32.
    Bf16(&'a [bf16]),
    /// IEEE half precision.
    F16(&'a [f16]),
}

impl Floats<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Floats::F32(values) => values.len(),
            Floats::Bf16(values) => values.len(),
            Floats::F16(values) => values.len(),
        }
    }

    /// True when there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Value `at`, as f32 (exact).
    pub fn get(&self, at: usize) -> f32 {
        match self {
            Floats::F32(values) => values[at],
            Floats::Bf16(values) => values[at].to_f32(),
            Floats::F16(values) => values[at].to_f32(),
        }
    }
}

impl<'a> From<&'a [f32]> for Floats<'a> {
    fn from(values: &'a [f32]) -> Self {
        Floats::F32(values)
    }
}

impl<'a> From<&'a Vec<f32>> for Floats<'a> {
    fn from(values: &'a Vec<f32>) -> Self {
        Floats::F32(values)
    }
}

/// Numbers to be written, of one of the dtypes that models are trained in; rounded to nearest, ties to even.
#[derive(Debug)]
pub enum FloatsMut<'a> {
    /// IEEE single precision.
    F32(&'a mut [f32]),
    /// bfloat16.
    Bf16(&'a mut [bf16]),
    /// IEEE half precision; a value beyond 65,504 becomes infinite.
    F16(&'a mut [f16]),
}

impl<'a> FloatsMut<'a> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.as_floats().len()
    }

    /// True when there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same numbers, to be read.
    pub fn as_floats(&self) -> Floats<'_> {
        match self {
            FloatsMut::F32(values) => Floats::F32(values),
            FloatsMut::Bf16(values) => Floats::Bf16(values),
            FloatsMut::F16(values) => Floats::F16(values),
        }
    }

    /// The first `n` values, and the others.
    pub(crate) fn split_at(self, n: usize) -> (FloatsMut<'a>, FloatsMut<'a>) {
        match self {
            FloatsMut::F32(values) => {
                let (head, tail) = values.split_at_mut(n);
                (FloatsMut::F32(head), FloatsMut::F32(tail))
            }
            FloatsMut::Bf16(values) => {
                let (head, tail) = values.split_at_mut(n);
                (FloatsMut::Bf16(head), FloatsMut::Bf16(tail))
            }
            FloatsMut::F16(values) => {
                let (head, tail) = values.split_at_mut(n);
                (FloatsMut::F16(head), FloatsMut::F16(tail))
            }
        }
    }
}

/// How sequences lie in the arrays of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout<'a> {
    /// `[n_rows, n_columns]`, row after row; the mask says which columns are tokens of the row.
    Padded {
        /// Sequences.
        n_rows: usize,
        /// Tokens of the longest one.
        n_columns: usize,
    },
    /// One sequence after the other: row `i` has the tokens `offsets[i]..offsets[i + 1]` (`cu_seqlens`).
    Packed {
        /// From 0 to the number of tokens, in order.
        offsets: &'a [usize],
    },
}

impl Layout<'_> {
    /// Positions of a row in the arrays of tokens.
    pub fn tokens(&self, row: usize) -> Range<usize> {
        match self {
            Layout::Padded { n_columns, .. } => row * n_columns..(row + 1) * n_columns,
            Layout::Packed { offsets } => offsets[row]..offsets[row + 1],
        }
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        match self {
            Layout::Padded { n_rows, .. } => *n_rows,
            Layout::Packed { offsets } => offsets.len().saturating_sub(1),
        }
    }
}

/// Tokens of a row whose advantage differs from that of the row.
#[derive(Debug, Clone, PartialEq)]
pub struct AdvantageSpan {
    /// Positions in the row, from 0.
    pub tokens: Range<u32>,
    /// Added to the advantage of the row, in f32.
    pub advantage: f32,
}

/// Advantages of tokens.
#[derive(Debug, Clone, Copy)]
pub enum Advantages<'a> {
    /// One per token, in the layout of the log-probs.
    Dense(Floats<'a>),
    /// One per row, the same for all its tokens.
    Rows(&'a [f32]),
    /// One per row, and spans that differ: a token has `episode[row] + span.advantage`.
    Spans {
        /// A^E of each row.
        episode: &'a [f32],
        /// Spans of all rows: sorted and disjoint inside each.
        spans: &'a [AdvantageSpan],
        /// Row `i` has the spans `offsets[i]..offsets[i + 1]`.
        offsets: &'a [usize],
    },
}

/// The gradient that comes from above.
#[derive(Debug, Clone, Copy)]
pub enum Upstream<'a> {
    /// Of the loss.
    Loss(f32),
    /// Of each token's share of the loss, `w_i·m·l / denominator`: any strides, 0 for a value that is broadcast.
    Tokens {
        /// Every value that the strides reach.
        values: &'a [f32],
        /// Distance of two rows.
        row_stride: usize,
        /// Distance of two tokens: of neighbours in a padded row, or in the packed array.
        token_stride: usize,
    },
}

impl Default for Upstream<'_> {
    fn default() -> Self {
        Upstream::Loss(1.0)
    }
}

/// What a policy loss reads. Every array of tokens has the layout and the length of `log_prob`.
#[derive(Debug, Clone, Copy)]
pub struct PolicyBatch<'a> {
    /// Log-prob of each token under the policy that is trained.
    pub log_prob: Floats<'a>,
    /// Log-probs under the policy that the ratio is taken to; `None` for the policy itself: the ratio is 1 and its
    /// gradient is kept.
    pub old: Option<Floats<'a>>,
    /// Log-probs under the reference policy of the KL.
    pub reference: Option<Floats<'a>>,
    /// Log-probs that the rollout engine gave; NaN for a token that it did not score.
    pub rollout: Option<Floats<'a>>,
    /// Entropy of each token's distribution, in nats.
    pub entropy: Option<Floats<'a>>,
    /// True where the token is trained. Nothing is read where it is false, and the gradient there is 0.
    pub mask: &'a [bool],
    /// Advantages.
    pub advantages: Advantages<'a>,
    /// Which tokens make a sequence.
    pub layout: Layout<'a>,
    /// Divides the numerator instead of the count of this call: the count over all micro-batches and ranks.
    pub denominator: Option<f64>,
}

/// What a policy loss writes beside its result, each of the length of `log_prob`. What is `None` is not computed.
#[derive(Debug, Default)]
pub struct PolicyOutputs<'a> {
    /// Gradient of the loss by the log-probs, times the upstream gradient.
    pub grad_log_prob: Option<FloatsMut<'a>>,
    /// Gradient by the entropies, times the upstream gradient.
    pub grad_entropy: Option<FloatsMut<'a>>,
    /// Each token's share of the loss: `w_i·m·l / denominator`.
    pub token_loss: Option<FloatsMut<'a>>,
}

/// Where the gradients of a loss from hidden states go. What is `None` is not computed.
#[derive(Debug, Default)]
pub struct LinearGradients<'a> {
    /// By the hidden states, of their shape, in any dtype: written, 0 for a token without gradient.
    pub hidden: Option<FloatsMut<'a>>,
    /// By the weight, of its shape: added to what is there, so that micro-batches accumulate.
    pub weight: Option<&'a mut [f32]>,
}

/// A policy loss, in parts that add up: numerators, denominators and metrics of micro-batches and ranks may be summed.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyLoss {
    /// Sum of [`rows`](Self::rows).
    pub numerator: f64,
    /// What divides it: the batch's `denominator`, or the count that the reduction names.
    pub denominator: f64,
    /// `w_i · sum_t m·l` of each row: independent of the rows beside it, bit for bit.
    pub rows: Vec<f64>,
    /// Counts and sums over the trained tokens.
    pub metrics: LossMetrics,
}

impl PolicyLoss {
    /// `numerator / denominator`, or 0 where there is no token.
    pub fn loss(&self) -> f64 {
        if self.denominator == 0.0 { 0.0 } else { self.numerator / self.denominator }
    }
}

/// What logits are divided by before the softmax.
#[derive(Debug, Clone, Copy)]
pub enum Temperature<'a> {
    /// The same for all rows.
    One(f32),
    /// One for each row.
    Rows(&'a [f32]),
}

impl Temperature<'_> {
    /// That of a row.
    pub fn of(&self, row: usize) -> f32 {
        match self {
            Temperature::One(value) => *value,
            Temperature::Rows(values) => values[row],
        }
    }
}

/// How logits are read: `[targets.len(), n_columns]`, one row for each token.
#[derive(Debug, Clone, Copy)]
pub struct LogitsRows<'a> {
    /// The sampled token of each row. One outside `0..n_vocab` makes its row NaN.
    pub targets: &'a [i64],
    /// Columns of the array, padding included.
    pub n_columns: usize,
    /// Tokens of the vocabulary: columns from here on are padding, never read.
    pub n_vocab: usize,
    /// Divides the logits.
    pub temperature: Temperature<'a>,
}

/// Logits, and where their gradient goes.
#[derive(Debug)]
pub enum Logits<'a> {
    /// Only the loss is computed.
    Read(Floats<'a>),
    /// The gradient is written over the logits, which are lost: no memory of their size is taken.
    Overwrite(FloatsMut<'a>),
    /// The gradient is written to an array of the same shape and dtype.
    Into {
        /// The logits, left as they are.
        logits: Floats<'a>,
        /// Their gradient.
        grad: FloatsMut<'a>,
    },
}

impl Logits<'_> {
    /// Number of logits.
    pub fn len(&self) -> usize {
        match self {
            Logits::Read(logits) | Logits::Into { logits, .. } => logits.len(),
            Logits::Overwrite(logits) => logits.len(),
        }
    }

    /// True when there are no logits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Hidden states `[n, n_hidden]` and the weight `[n_columns, n_hidden]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) hidden: Floats<'a>,
    pub(crate) weight: Floats<'a>,
    pub(crate) n_hidden: usize,
    /// The tokens that are multiplied.
    pub(crate) contributing: &'a [bool],
}
