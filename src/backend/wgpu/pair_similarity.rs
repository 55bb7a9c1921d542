//! Pairs of a list: items in the order of their length are starts of one row each for `shaders/window_similarity.wgsl`.

use super::Wgpu;
use super::window_similarity::{Code, Finder};
use crate::backend::cpu::window_similarity::RowPair;
use crate::error::{Error, Result};
use crate::params::limits::Limits;

/// Indices of two items and their LCS.
type Pair = (u32, u32, u32);

/// As on the host: all pairs a < b of items that match, sorted, in at most `memory` bytes.
pub(crate) fn matching_pairs(
    device: &Wgpu,
    tokens: &[u32],
    offsets: &[u32],
    n_symbols: usize,
    eta: f64,
    memory: u64,
) -> Result<Vec<Pair>> {
    const OP: &str = "pair_similarity";
    let n_items = offsets.len().saturating_sub(1);
    let length = |item: u32| offsets[item as usize + 1] - offsets[item as usize];
    let mut by_length: Vec<u32> = (0..n_items as u32).collect();
    by_length.sort_by_key(|&item| (length(item), item));
    let row_tokens: Vec<u32> = by_length.iter().map(|&item| length(item)).collect();
    let start_rows: Vec<u32> = (0..=n_items as u32).collect();
    let tokens_of =
        |&item: &u32| offsets[item as usize] as usize..offsets[item as usize + 1] as usize;
    let limits = Limits::new(eta, row_tokens.last().copied().unwrap_or(0) as usize);
    let code = Code {
        op: OP,
        tokens,
        n_symbols,
        start_tokens: by_length.iter().map(tokens_of).collect(),
        start_rows: &start_rows,
        row_tokens: &row_tokens,
        limits: &limits,
        block: 0..n_items,
    };

    // The list that is found, and the result.
    let limit = memory / (2 * size_of::<Pair>() as u64);
    let mut n_pairs = 0;
    let mut pairs: Vec<Pair> = vec![];
    let mut take = |found: &mut [RowPair]| {
        n_pairs += found.len() as u64;
        if n_pairs <= limit {
            pairs.extend(found.iter().map(|pair| {
                let (x, y) = (by_length[pair.a as usize], by_length[pair.b as usize]);
                (x.min(y), x.max(y), pair.lcs)
            }));
        }
    };
    Finder::new(device, &code)?.find(&mut take)?;
    if n_pairs > limit {
        return Err(Error::Limit {
            op: OP,
            what: "the list of matching pairs (pairs)",
            needed: n_pairs,
            limit,
            advice: "raise `memory_limit` or `eta`, or drop equal items",
        });
    }
    pairs.sort_unstable();
    Ok(pairs)
}
