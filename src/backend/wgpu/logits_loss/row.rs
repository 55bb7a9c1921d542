//! One row of logits, on both sides.

use bytemuck::NoUninit;
use half::{bf16, f16};

use crate::params::arrays::LogitsRows;

/// Parts of a row's sums.
const PARTS: usize = 16;

/// Column of a target that is not there.
const ABSENT: u32 = u32::MAX;

/// `Row` of the shader.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
pub(in crate::backend::wgpu) struct Row {
    wanted: u32,
    inverse: f32,
    largest: f32,
    inverse_sum: f32,
    constant: f32,
    slope: f32,
    of_target: u32,
    mode: u32,
}

impl Row {
    /// A row whose logits are read.
    pub(in crate::backend::wgpu) fn to_read(rows: &LogitsRows<'_>, i: usize) -> Row {
        Row {
            wanted: target_of(rows, i).unwrap_or(ABSENT),
            inverse: 1.0 / rows.temperature.of(i),
            largest: 0.0,
            inverse_sum: 0.0,
            constant: 0.0,
            slope: 0.0,
            of_target: 0,
            mode: 0,
        }
    }
}

/// The target's column, if it is one of the vocabulary.
fn target_of(rows: &LogitsRows<'_>, i: usize) -> Option<u32> {
    let target = usize::try_from(rows.targets[i]).ok().filter(|&target| target < rows.n_vocab)?;
    u32::try_from(target).ok()
}

/// What the shader finds in a row.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::wgpu) struct Fields<'a>(&'a [u32; Fields::WORDS]);

impl<'a> Fields<'a> {
    pub(in crate::backend::wgpu) const WORDS: usize = 3 + 2 * PARTS;

    pub(in crate::backend::wgpu) fn all(words: &'a [u32]) -> impl Iterator<Item = Fields<'a>> {
        words.as_chunks().0.iter().map(Fields)
    }

    fn is_bad(self) -> bool {
        self.0[1] != 0
    }

    /// Sums of exp(d), and of that times d.
    fn sums(self) -> (f64, f64) {
        let sum = |words: &[u32]| words.iter().map(|&bits| f64::from(f32::from_bits(bits))).sum();
        (sum(&self.0[3..3 + PARTS]), sum(&self.0[3 + PARTS..]))
    }
}

/// The token's log-prob, and all that its row's gradient needs. All NaN where the row has NaN, +inf, nothing finite or no
/// target.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::wgpu) struct Token {
    pub(in crate::backend::wgpu) log_prob: f64,
    /// In nats.
    pub(in crate::backend::wgpu) entropy: f64,
    largest: f32,
    log_sum: f64,
}

impl Token {
    /// A token whose row is not read.
    pub(in crate::backend::wgpu) const UNREAD: Token =
        Token { log_prob: 0.0, entropy: 0.0, largest: 0.0, log_sum: 0.0 };

    const NAN: Token =
        Token { log_prob: f64::NAN, entropy: f64::NAN, largest: f32::NAN, log_sum: f64::NAN };

    pub(in crate::backend::wgpu) fn new(
        fields: Fields<'_>,
        rows: &LogitsRows<'_>,
        i: usize,
    ) -> Token {
        let (sum, weighted) = fields.sums();
        if fields.is_bad() || sum == 0.0 || target_of(rows, i).is_none() {
            return Token::NAN;
        }
        let (largest, z) = (f32::from_bits(fields.0[0]), f32::from_bits(fields.0[2]));
        let log_sum = sum.ln();
        let d = f64::from(z) - f64::from(largest);
        Token {
            log_prob: d / f64::from(rows.temperature.of(i)) - log_sum,
            entropy: log_sum - weighted / sum,
            largest,
            log_sum,
        }
    }

    /// The row whose gradient is written, from the gradients by log-prob and entropy.
    pub(in crate::backend::wgpu) fn to_write(
        self,
        rows: &LogitsRows<'_>,
        i: usize,
        dtype: u32,
        (by_log_prob, by_entropy): (f32, f32),
    ) -> Row {
        let row = Row::to_read(rows, i);
        if by_log_prob == 0.0 && by_entropy == 0.0 {
            return row;
        }
        if by_log_prob.is_nan() || !self.log_prob.is_finite() {
            return Row { mode: 1, ..row };
        }
        // dz = -p/T · (g + h·(log p + H)), log p = d - log_sum.
        let constant =
            f64::from(by_log_prob) + f64::from(by_entropy) * (self.entropy - self.log_sum);
        // 1 - p without cancellation, rounded to the dtype once.
        let of_entropy =
            f64::from(by_entropy) * self.log_prob.exp() * (self.log_prob + self.entropy);
        let of_target = f64::from(by_log_prob) * -self.log_prob.exp_m1() - of_entropy;
        let of_target = (of_target / f64::from(rows.temperature.of(i))) as f32;
        Row {
            largest: self.largest,
            inverse_sum: (-self.log_sum).exp() as f32,
            constant: -constant as f32 * row.inverse,
            slope: -by_entropy * row.inverse,
            of_target: match dtype {
                0 => of_target.to_bits(),
                1 => u32::from(bf16::from_f32(of_target).to_bits()),
                _ => u32::from(f16::from_f32(of_target).to_bits()),
            },
            mode: 2,
            ..row
        }
    }
}
