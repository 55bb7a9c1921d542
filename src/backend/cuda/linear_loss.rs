//! `kernels/linear_loss.cu` and `kernels/logits_loss.cu`: the policy loss from hidden states, logits one chunk at a time.
//!
//! Where a token's gradient is known from its own log-prob, a chunk goes forward and back at once. Where it takes the
//! whole row, every chunk is read first, and those with a gradient are multiplied once more.

use bytemuck::NoUninit;

use super::arrays::{Downloads, Uploads, dtype_of};
use super::driver::Source;
use super::logits_loss::Rows;
use super::policy_loss::{self, Call};
use super::{Cuda, Grid};
use crate::error::{Error, Result};
use crate::params::arrays::{
    FloatsMut, Head, LinearGradients, LogitsRows, PolicyBatch, PolicyLoss, PolicyOutputs, Upstream,
};
use crate::params::loss::PolicyLossConfig;

const SOURCE: Source =
    Source { name: "linear_loss.cu", text: include_str!("../../../kernels/linear_loss.cu") };
const THREADS: u32 = 256;
/// Rows and columns that a block multiplies.
const TILE: usize = 64;
/// Bytes of logits in a chunk, unless [`TILE`] rows have more.
const CHUNK_BYTES: usize = 512 << 20;

/// `Args` of the kernel.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct Args {
    a: u64,
    b: u64,
    c: u64,
    a_rows: u64,
    b_rows: u64,
    c_rows: u64,
    by_log_prob: u64,
    by_entropy: u64,
    tokens: u64,
    m: i64,
    n: i64,
    k: i64,
    a_m: i64,
    a_k: i64,
    b_k: i64,
    b_n: i64,
    c_m: i64,
    a_dtype: u32,
    b_dtype: u32,
    c_dtype: u32,
    adds: u32,
    tokens_are: u32,
    unused: u32,
}

/// The policy loss of the targets' log-probs, and these: 0 without mask, NaN where none was computed. `batch.log_prob` and
/// `batch.entropy` are not looked at. Everything has been validated.
pub(crate) fn linear_loss(
    device: &Cuda,
    head: Head<'_>,
    rows: &LogitsRows<'_>,
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    upstream: Upstream<'_>,
    gradients: LinearGradients<'_>,
) -> Result<(PolicyLoss, Vec<f32>)> {
    if batch.layout.n_rows() == 0 {
        return Ok((policy_loss::of_no_row(batch, config), Vec::new()));
    }
    let n = rows.targets.len();
    let known = head.contributing;
    let wanted: Vec<i64> = (0..n).filter(|&i| known[i]).map(|i| i as i64).collect();
    let has_gradient = gradients.hidden.is_some() || gradients.weight.is_some();
    let at_once = has_gradient && !config.takes_whole_rows();

    let dense = LogitsRows { n_columns: rows.n_vocab, ..*rows };
    let mut call = Rows::new(device, &dense, None, 0)?;
    let start: Vec<f32> =
        (0..n).map(|i| if batch.mask[i] && !known[i] { f32::NAN } else { 0.0 }).collect();
    call.start_with(device, &start, &vec![0.0; n])?;
    call.prepare_write(device, n)?;
    let mut known = call.known();
    known.tokens = Some(head.contributing);
    if has_gradient && !at_once {
        known.grad_log_prob = call.args.by_log_prob;
        known.grad_entropy = call.args.by_entropy;
    }
    let policy = Call::new(device, batch, config, upstream, PolicyOutputs::default(), known)?;
    call.args.policy = *policy.args();

    let mut outputs = Downloads::default();
    let mut products = Products::new(device, head, rows, wanted.len(), gradients, &mut outputs)?;
    call.args.logits = products.logits;
    call.args.grad = products.logits;
    let indices = products.arrays.slice(device, &wanted)?;
    if at_once {
        policy.share()?;
    }
    for (tokens, n_tokens) in chunks(indices, wanted.len(), products.most_rows) {
        products.forward(tokens, n_tokens)?;
        call.take(tokens, n_tokens);
        call.read(device)?;
        if at_once {
            call.by(device)?;
            call.write(device)?;
            products.backward(&call, tokens, n_tokens)?;
        }
    }
    if !at_once {
        policy.share()?;
    }
    policy.terms()?;
    if has_gradient && !at_once {
        let moved = moved(device, &call, &wanted, n)?;
        let indices = products.arrays.slice(device, &moved)?;
        for (tokens, n_tokens) in chunks(indices, moved.len(), products.most_rows) {
            products.forward(tokens, n_tokens)?;
            call.take(tokens, n_tokens);
            call.write(device)?;
            products.backward(&call, tokens, n_tokens)?;
        }
    }
    let result = policy.finish()?;
    let log_prob = call.log_probs(device, n)?;
    outputs.download(device)?;
    Ok((result, log_prob))
}

/// Pieces of an array of indices: where each begins, and its length.
fn chunks(indices: u64, n: usize, of: usize) -> impl Iterator<Item = (u64, usize)> {
    (0..n).step_by(of).map(move |at| (indices + (at * size_of::<i64>()) as u64, of.min(n - at)))
}

/// The tokens with a gradient; NaN is one.
fn moved(device: &Cuda, call: &Rows, wanted: &[i64], n: usize) -> Result<Vec<i64>> {
    let (mut by_log_prob, mut by_entropy) = (vec![0f32; n], vec![0f32; n]);
    device.driver.download(call.args.by_log_prob, bytemuck::cast_slice_mut(&mut by_log_prob))?;
    device.driver.download(call.args.by_entropy, bytemuck::cast_slice_mut(&mut by_entropy))?;
    let has_gradient = |i: &&i64| {
        let i = **i as usize;
        by_log_prob[i] != 0.0 || by_entropy[i] != 0.0
    };
    Ok(wanted.iter().filter(has_gradient).copied().collect())
}

/// The products between hidden states, weight and one chunk of logits.
struct Products<'a> {
    device: &'a Cuda,
    arrays: Uploads,
    hidden: (u64, u32),
    weight: (u64, u32),
    /// `[most_rows, n_vocab]` in f32.
    logits: u64,
    grad_hidden: (u64, u32),
    grad_weight: u64,
    n_hidden: i64,
    n_vocab: i64,
    most_rows: usize,
}

impl<'a> Products<'a> {
    fn new<'b>(
        device: &'a Cuda,
        head: Head<'_>,
        rows: &LogitsRows<'_>,
        n_wanted: usize,
        gradients: LinearGradients<'b>,
        outputs: &mut Downloads<'b>,
    ) -> Result<Self> {
        let mut arrays = Uploads::default();
        let most_rows = CHUNK_BYTES / (size_of::<f32>() * rows.n_vocab);
        let most_rows = most_rows.max(TILE).min(n_wanted.max(1));
        let logits = arrays.room(device, most_rows * rows.n_vocab * size_of::<f32>())?;
        let grad_hidden = match gradients.hidden {
            None => (0, 0),
            Some(grad) => {
                // Zeros of any dtype: tokens without gradient are not written.
                let zeros =
                    vec![0u8; head.hidden.len() * super::arrays::size_of_value(&grad.as_floats())];
                let dtype = dtype_of(&grad.as_floats());
                let address = arrays.slice(device, &zeros)?;
                outputs.at(address, grad);
                (address, dtype)
            }
        };
        let grad_weight = match gradients.weight {
            None => 0,
            Some(grad) => {
                let address = arrays.slice(device, grad)?;
                outputs.at(address, FloatsMut::F32(grad));
                address
            }
        };
        Ok(Products {
            device,
            hidden: arrays.floats(device, Some(head.hidden))?,
            weight: arrays.floats(device, Some(head.weight))?,
            arrays,
            logits,
            grad_hidden,
            grad_weight,
            n_hidden: head.n_hidden as i64,
            n_vocab: rows.n_vocab as i64,
            most_rows,
        })
    }

    /// Makes the logits of the tokens.
    fn forward(&self, tokens: u64, n_tokens: usize) -> Result<()> {
        self.product(Args {
            a: self.hidden.0,
            a_dtype: self.hidden.1,
            a_rows: tokens,
            a_m: self.n_hidden,
            a_k: 1,
            b: self.weight.0,
            b_dtype: self.weight.1,
            b_k: 1,
            b_n: self.n_hidden,
            c: self.logits,
            c_m: self.n_vocab,
            m: n_tokens as i64,
            n: self.n_vocab,
            k: self.n_hidden,
            ..Args::default()
        })
    }

    /// Makes the gradients of the tokens from those by the logits.
    fn backward(&self, call: &Rows, tokens: u64, n_tokens: usize) -> Result<()> {
        let given = Args {
            a: self.logits,
            by_log_prob: call.args.by_log_prob,
            by_entropy: call.args.by_entropy,
            tokens,
            ..Args::default()
        };
        if self.grad_hidden.0 != 0 {
            self.product(Args {
                a_m: self.n_vocab,
                a_k: 1,
                b: self.weight.0,
                b_dtype: self.weight.1,
                b_k: self.n_hidden,
                b_n: 1,
                c: self.grad_hidden.0,
                c_dtype: self.grad_hidden.1,
                c_rows: tokens,
                c_m: self.n_hidden,
                m: n_tokens as i64,
                n: self.n_hidden,
                k: self.n_vocab,
                tokens_are: 1,
                ..given
            })?;
        }
        if self.grad_weight != 0 {
            self.product(Args {
                a_m: 1,
                a_k: self.n_vocab,
                b: self.hidden.0,
                b_dtype: self.hidden.1,
                b_rows: tokens,
                b_k: self.n_hidden,
                b_n: 1,
                c: self.grad_weight,
                c_m: self.n_hidden,
                m: self.n_vocab,
                n: self.n_hidden,
                k: n_tokens as i64,
                adds: 1,
                tokens_are: 2,
                ..given
            })?;
        }
        Ok(())
    }

    fn product(&self, args: Args) -> Result<()> {
        let tiles = |n: i64| (n as u64).div_ceil(TILE as u64);
        let needed = tiles(args.m).saturating_mul(tiles(args.n));
        let limit = i32::MAX as u64;
        if needed > limit {
            return Err(Error::Limit {
                op: "linear_loss",
                what: "the grid, in blocks of 64 by 64 values of a product,",
                needed,
                limit,
                advice: "give fewer rows at a time",
            });
        }
        self.device.launch(&SOURCE, "linear_loss_product", Grid::of(needed as u32, THREADS), &args)
    }
}
