//! `kernels/pair_similarity.cu`: items by length, every pair that can match by length.

use bytemuck::{NoUninit, Pod, Zeroable};

use super::arrays::Uploads;
use super::bit_lcs::{FEW_PAIRS, Kernels, STRIP_WORDS, THREADS, WORD};
use super::driver::Source;
use super::{Cuda, Grid};
use crate::error::{Error, Result};
use crate::params::limits::Limits;

const SOURCE: Source = Source {
    name: "pair_similarity.cu",
    text: include_str!("../../../kernels/pair_similarity.cu"),
};
const KERNELS: Kernels = Kernels {
    by_words: [
        ("pair_similarity_pairs_2", 2),
        ("pair_similarity_pairs_4", 4),
        ("pair_similarity_pairs_8", 8),
        ("pair_similarity_pairs_16", 16),
    ],
    long: "pair_similarity_pairs_long",
};

/// `Pair` of the kernels.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    a: u32,
    b: u32,
    lcs: u32,
}

/// `Args` of the kernels.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct Args {
    tokens: u64,
    offsets: u64,
    least: u64,
    longest: u64,
    pairs: u64,
    n_pairs: u64,
    capacity: u64,
    carries: u64,
    zeros: u64,
    carry_words: u32,
    first_pattern: u32,
    n_patterns: u32,
    n_items: u32,
    blocks_of_pattern: u32,
    unused: u32,
}

/// All pairs a < b of items that match, as (a, b, LCS), sorted; in at most `memory` bytes.
///
/// Item `i` has the tokens `offsets[i]..offsets[i + 1]`.
pub(crate) fn matching_pairs(
    device: &Cuda,
    tokens: &[u32],
    offsets: &[u32],
    eta: f64,
    memory: u64,
) -> Result<Vec<(u32, u32, u32)>> {
    let n_items = offsets.len().saturating_sub(1);
    let tokens_of = |item: usize| &tokens[offsets[item] as usize..offsets[item + 1] as usize];
    let mut by_length: Vec<u32> = (0..n_items as u32).collect();
    by_length.sort_by_key(|&item| tokens_of(item as usize).len());
    let mut sorted = Vec::with_capacity(tokens.len());
    let mut bounds = vec![0u64];
    for &item in &by_length {
        sorted.extend_from_slice(tokens_of(item as usize));
        bounds.push(sorted.len() as u64);
    }
    let len = |place: usize| (bounds[place + 1] - bounds[place]) as usize;
    let most_tokens = if n_items == 0 { 0 } else { len(n_items - 1) };
    let limits = Limits::new(eta, most_tokens);
    let longest: Vec<u32> = limits.all().iter().map(|limit| limit.longest).collect();
    let words: Vec<usize> = (0..n_items).map(|place| len(place).div_ceil(WORD)).collect();

    let mut arrays = Uploads::default();
    let n_pairs = device.allocate(size_of::<u64>())?;
    let mut pairs = device.allocate(FEW_PAIRS as usize * size_of::<Pair>())?;
    let mut args = Args {
        tokens: arrays.slice(device, &sorted)?,
        offsets: arrays.slice(device, &bounds)?,
        least: arrays.slice(device, limits.least_from(0))?,
        longest: arrays.slice(device, &longest)?,
        pairs: pairs.address(),
        n_pairs: n_pairs.address(),
        capacity: FEW_PAIRS,
        n_items: n_items as u32,
        ..Args::default()
    };
    if words.last().is_some_and(|&n| n > STRIP_WORDS) {
        args.carry_words = most_tokens.div_ceil(WORD) as u32;
        let carry_bytes = n_items * args.carry_words as usize * size_of::<u32>();
        args.carries = arrays.room(device, carry_bytes)?;
        args.zeros = arrays.room(device, n_items * size_of::<u32>())?;
    }
    // Each pair is in the list of the device, and once more in the result.
    let limit = memory / (2 * size_of::<Pair>() as u64);
    let n_found = loop {
        device.driver.upload(n_pairs.address(), &0u64.to_le_bytes())?;
        walk(device, &mut args, &words, &longest, &bounds)?;
        let mut found = [0u64];
        device.download(&n_pairs, &mut found)?;
        let [found] = found;
        if found > limit {
            return Err(Error::Limit {
                op: "pair_similarity",
                what: "the list of matching pairs (pairs)",
                needed: found,
                limit,
                advice: "raise `memory_limit` or `eta`, or drop equal items",
            });
        }
        if found <= args.capacity {
            break found as usize;
        }
        args.capacity = found;
        pairs = device.allocate(found as usize * size_of::<Pair>())?;
        args.pairs = pairs.address();
    };
    let mut found = vec![Pair::default(); n_found];
    device.download(&pairs, &mut found)?;
    let item = |place: u32| by_length[place as usize];
    let named = |pair: &Pair| {
        let (a, b) = (item(pair.a), item(pair.b));
        (a.min(b), a.max(b), pair.lcs)
    };
    let mut result: Vec<_> = found.iter().map(named).collect();
    result.sort_unstable();
    Ok(result)
}

/// Launches each kernel for the patterns that have its number of words.
fn walk(
    device: &Cuda,
    args: &mut Args,
    words: &[usize],
    longest: &[u32],
    bounds: &[u64],
) -> Result<()> {
    let n_items = words.len();
    let len = |place: usize| bounds[place + 1] - bounds[place];
    // Blocks for the pattern with the most texts of a length that can match.
    let mut end = 0;
    let mut most_texts = 0;
    for place in 0..n_items {
        while end < n_items && len(end) <= u64::from(longest[len(place) as usize]) {
            end += 1;
        }
        most_texts = most_texts.max(end - place);
    }
    args.blocks_of_pattern = (most_texts as u32).div_ceil(THREADS).max(1);
    for launch in KERNELS.launches(words, u64::from(args.blocks_of_pattern)) {
        args.first_pattern = launch.first as u32;
        args.n_patterns = launch.n as u32;
        let blocks = launch.n as u32 * args.blocks_of_pattern;
        let grid = Grid { shared_bytes: launch.shared_bytes, ..Grid::of(blocks, THREADS) };
        device.launch(&SOURCE, launch.kernel, grid, &*args)?;
    }
    Ok(())
}
