//! Similarity of token sequences: one pair, and all pairs of a list.

use rustc_hash::FxHashMap;

use super::{Match, check_eta};
use crate::backend::cpu::pair_similarity as cpu;
#[cfg(feature = "cuda")]
use crate::backend::cuda::pair_similarity as cuda;
#[cfg(feature = "wgpu")]
use crate::backend::wgpu::pair_similarity as wgpu;
use crate::device::Device;
use crate::error::{Error, Result};

/// A list of sequences, flat: item `i` is `tokens[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, Copy)]
pub struct Ragged<'a> {
    /// Tokens of all items; any numbers.
    pub tokens: &'a [u32],
    /// One more than there are items, ascending from 0 to the number of tokens.
    pub offsets: &'a [u32],
}

impl Ragged<'_> {
    fn check(&self) -> Result<()> {
        let what = if self.offsets.first() != Some(&0) {
            "`offsets` must begin with 0".to_owned()
        } else if let Some(i) = self.offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            format!(
                "`offsets` falls from {} to {} at entry {}",
                self.offsets[i],
                self.offsets[i + 1],
                i + 1
            )
        } else if self.offsets.last().map(|&last| last as usize) != Some(self.tokens.len()) {
            let last = self.offsets.last().copied().unwrap_or(0);
            format!("`offsets` ends with {last}, but `tokens` has {} entries", self.tokens.len())
        } else {
            return Ok(());
        };
        Err(Error::Shape { op: "pair_similarity", what })
    }
}

/// All pairs of items whose Indel similarity is at least `eta`, sorted by (a, b); equal items match too.
///
/// The list form, for sequences that are not windows of one another. Equal items are compared once; exact filters by
/// length and by shared tokens come before a bit-parallel LCS in the band that a match can lie in, four items side by
/// side. Memory: the result, held twice, which `memory_limit` bounds; beyond that a copy of the tokens, about 400 bytes
/// an item, and for each thread about 35 bytes an item and at most 1 KiB a token of the longest item.
///
/// # Errors
/// [`Error::Config`] for an `eta` outside (0, 1], [`Error::Shape`] for offsets that do not fit the tokens,
/// [`Error::Limit`] when the pairs take more than `memory_limit` bytes.
pub fn pair_similarity(
    device: &Device,
    items: Ragged<'_>,
    eta: f64,
    memory_limit: u64,
) -> Result<Vec<Match>> {
    check_eta("pair_similarity", eta)?;
    items.check()?;
    let (tokens, n_symbols) = intern(items.tokens);
    let pairs = match device {
        Device::Cpu(device) => {
            let simd = device.simd();
            cpu::matching_pairs(simd, &tokens, items.offsets, n_symbols, eta, memory_limit)?
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            cuda::matching_pairs(device, &tokens, items.offsets, eta, memory_limit)?
        }
        #[cfg(feature = "wgpu")]
        Device::Wgpu(gpu) => {
            wgpu::matching_pairs(gpu, &tokens, items.offsets, n_symbols, eta, memory_limit)?
        }
    };
    Ok(pairs.into_iter().map(|(a, b, lcs)| Match { a, b, lcs }).collect())
}

/// Length of the longest common subsequence. O(m·n/64) time, O(m + n) memory.
pub fn lcs(a: &[u32], b: &[u32]) -> u32 {
    // What both ends share is in every longest common subsequence.
    let n_before = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[n_before..], &b[n_before..]);
    let n_after = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - n_after], &b[..b.len() - n_after]);
    let n_ends = (n_before + n_after) as u32;
    if a.is_empty() || b.is_empty() {
        return n_ends;
    }
    let both = [a, b].concat();
    let (both, n_symbols) = intern(&both);
    let (a, b) = both.split_at(a.len());
    n_ends + cpu::strips::StripLcs::new(n_symbols).lcs(a, b)
}

/// Indel similarity `2·LCS / (m + n)`; 1 for two empty sequences.
pub fn indel_similarity(a: &[u32], b: &[u32]) -> f64 {
    let sum = a.len() + b.len();
    if sum == 0 { 1.0 } else { 2.0 * f64::from(lcs(a, b)) / sum as f64 }
}

/// Numbers tokens from 0 in the order of their first occurrence; gives also how many there are.
fn intern(tokens: &[u32]) -> (Vec<u32>, usize) {
    let mut numbers = FxHashMap::default();
    let interned = tokens
        .iter()
        .map(|&token| {
            let next = numbers.len() as u32;
            *numbers.entry(token).or_insert(next)
        })
        .collect();
    (interned, numbers.len())
}
