//! `kernels/window_similarity.cu`: the list of pairs that match, and of it the best window of each turn.

use bytemuck::{NoUninit, Pod, Zeroable};

use super::arrays::Uploads;
use super::bit_lcs::{FEW_PAIRS, Kernels, STRIP_WORDS, THREADS, WORD};
use super::driver::{Memory, Source};
use super::{Cuda, Grid};
use crate::error::{Error, Result};
use crate::params::Match;
use crate::params::limits::Limits;
use crate::params::windows::{BestPlace, Threshold, WindowSet, least_lexical};

const SOURCE: Source = Source {
    name: "window_similarity.cu",
    text: include_str!("../../../kernels/window_similarity.cu"),
};
/// Lines of a tile of products, and its threads.
const TILE: u32 = 16;
const KERNELS: Kernels = Kernels {
    by_words: [
        ("window_similarity_pairs_2", 2),
        ("window_similarity_pairs_4", 4),
        ("window_similarity_pairs_8", 8),
        ("window_similarity_pairs_16", 16),
    ],
    long: "window_similarity_pairs_long",
};

/// `Pair` of the kernels.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    a: u32,
    b: u32,
    lcs: u32,
    unused: u32,
    similarity: f64,
}

/// `Args` of the kernels.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct Args {
    tokens: u64,
    line_tokens: u64,
    line_ids: u64,
    starts: u64,
    start_rows: u64,
    row_lines: u64,
    row_tokens: u64,
    row_start: u64,
    least: u64,
    shortest: u64,
    longest: u64,
    row_places: u64,
    place_turns: u64,
    place_ranks: u64,
    vectors: u64,
    gram: u64,
    norms: u64,
    pairs: u64,
    n_pairs: u64,
    capacity: u64,
    best: u64,
    ties: u64,
    carries: u64,
    zeros: u64,
    carry_words: u32,
    zero_rows: u32,
    first_pattern: u32,
    n_patterns: u32,
    block_start: u32,
    block_end: u32,
    n_starts: u32,
    n_rows: u32,
    n_turns: u32,
    dim: u32,
    n_line_ids: u32,
    unused: u32,
    weight: f64,
    eta: f64,
}

/// For every row and turn, the most similar window of that turn if it matches: as the host's, with the same ties and the
/// same order. Holds at most `memory` bytes beside the windows and the pairs of one pass.
pub(crate) fn best_per_turn(
    device: &Cuda,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    memory: u64,
    mut sink: impl FnMut(usize, &[BestPlace]),
) -> Result<()> {
    let mut call = Call::new(device, set, threshold, memory)?;
    let n_starts = set.starts.len() as u32;
    let cell_bytes = 2 * size_of::<u64>() as u64 * set.n_turns as u64;
    let mut start = 0;
    while start < n_starts {
        let bytes_to =
            |end: u32| set.rows_of_starts(start as usize..end as usize).len() as u64 * cell_bytes;
        let mut end = start + 1;
        if bytes_to(end) > memory {
            return Err(Error::Limit {
                op: "window_similarity",
                what: "the table of best windows by turn, for the windows of one line (bytes)",
                needed: bytes_to(end),
                limit: memory,
                advice: "raise `memory_limit`, or lower `max_lines`",
            });
        }
        while end < n_starts && bytes_to(end + 1) <= memory {
            end += 1;
        }
        call.find(start, start..end)?;
        let rows = set.rows_of_starts(start as usize..end as usize);
        let (best, ties) = call.best(rows.len())?;
        let mut places = Vec::with_capacity(set.n_turns);
        for (row, cells) in
            rows.zip(best.chunks_exact(set.n_turns).zip(ties.chunks_exact(set.n_turns)))
        {
            places.clear();
            for (turn, (&best, &tie)) in cells.0.iter().zip(cells.1).enumerate() {
                if best != 0 {
                    let similarity = f64::from_bits(best - 1);
                    places.push(BestPlace { turn: turn as u32, rank: tie as u32, similarity });
                }
            }
            sink(row, &places);
        }
        start = end;
    }
    Ok(())
}

/// All pairs of rows that match, sorted, under the numbers of their rows.
pub(crate) fn matching_pairs(
    device: &Cuda,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    numbers: &[u32],
    memory: u64,
) -> Result<Vec<Match>> {
    let mut call = Call::new(device, set, threshold, memory)?;
    let n_starts = set.starts.len() as u32;
    call.find(0, 0..n_starts)?;
    let mut matches: Vec<Match> = call
        .pairs()?
        .iter()
        .filter(|pair| pair.similarity >= 0.0)
        .map(|pair| {
            let (a, b) = (numbers[pair.a as usize], numbers[pair.b as usize]);
            Match { a: a.min(b), b: a.max(b), lcs: pair.lcs }
        })
        .collect();
    let limit = memory / (size_of::<Match>() + size_of::<[u32; 3]>()) as u64;
    let needed = matches.len() as u64;
    if needed > limit {
        return Err(Error::Limit {
            op: "matches",
            what: "the list of matching pairs (pairs)",
            needed,
            limit,
            advice: "raise `memory_limit`, raise `eta`, or ask for the occurrences instead",
        });
    }
    matches.sort_unstable();
    Ok(matches)
}

/// A set on the device.
struct Call<'a> {
    device: &'a Cuda,
    args: Args,
    _arrays: Uploads,
    pairs: Memory,
    n_pairs: Memory,
    /// Pairs of the last [`find`](Self::find).
    n_found: u64,
    /// Words of the bit vector of each start.
    words: Vec<usize>,
}

impl<'a> Call<'a> {
    fn new(
        device: &'a Cuda,
        set: &WindowSet<'_>,
        threshold: Threshold<'_>,
        memory: u64,
    ) -> Result<Self> {
        let mut row_tokens = Vec::with_capacity(set.row_lines.len());
        let mut row_start = Vec::with_capacity(set.row_lines.len());
        for start in 0..set.starts.len() {
            let first = set.starts[start].first_line;
            for row in set.rows_of(start) {
                row_tokens.push(set.tokens_of_lines(first, set.row_lines[row]).len() as u32);
                row_start.push(start as u32);
            }
        }
        let longest_row = row_tokens.iter().copied().max().unwrap_or(0) as usize;
        let lexical_eta = match threshold.embedding {
            None => threshold.eta,
            Some((weight, _)) => least_lexical(threshold.eta, weight),
        };
        let limits = Limits::new(lexical_eta, longest_row);
        let shortest: Vec<u32> = limits.all().iter().map(|limit| limit.shortest).collect();
        let longest: Vec<u32> = limits.all().iter().map(|limit| limit.longest).collect();
        let tokens_of = |start: usize| set.tokens_of_start(start).len();
        let words: Vec<usize> =
            (0..set.starts.len()).map(|start| tokens_of(start).div_ceil(WORD)).collect();

        let mut arrays = Uploads::default();
        let mut args = Args {
            tokens: arrays.slice(device, set.tokens)?,
            line_tokens: arrays.slice(device, set.line_tokens)?,
            line_ids: arrays.slice(device, set.line_ids)?,
            starts: arrays.slice(device, set.starts)?,
            start_rows: arrays.slice(device, set.start_rows)?,
            row_lines: arrays.slice(device, set.row_lines)?,
            row_tokens: arrays.slice(device, &row_tokens)?,
            row_start: arrays.slice(device, &row_start)?,
            least: arrays.slice(device, limits.least_from(0))?,
            shortest: arrays.slice(device, &shortest)?,
            longest: arrays.slice(device, &longest)?,
            row_places: arrays.slice(device, set.row_places)?,
            place_turns: arrays.slice(device, set.place_turns)?,
            place_ranks: arrays.slice(device, set.place_ranks)?,
            n_starts: set.starts.len() as u32,
            n_rows: set.row_lines.len() as u32,
            n_turns: set.n_turns as u32,
            n_line_ids: set.n_line_ids as u32,
            eta: threshold.eta,
            ..Args::default()
        };
        if words.iter().any(|&n| n > STRIP_WORDS) {
            let most_tokens = (0..set.starts.len()).map(tokens_of).max().unwrap_or(0);
            let most_rows = (0..set.starts.len()).map(|start| set.rows_of(start).len()).max();
            args.carry_words = most_tokens.div_ceil(WORD) as u32;
            args.zero_rows = most_rows.unwrap_or(0) as u32;
            let of_texts = |n: u32| set.starts.len() * n as usize * size_of::<u32>();
            args.carries = arrays.room(device, of_texts(args.carry_words))?;
            args.zeros = arrays.room(device, of_texts(args.zero_rows))?;
        }
        if let Some((weight, vectors)) = threshold.embedding {
            let n = set.n_line_ids as u64;
            let needed = n * n * size_of::<i32>() as u64;
            if needed > memory {
                return Err(Error::Limit {
                    op: "window_similarity",
                    what: "the table of products of line vectors (bytes)",
                    needed,
                    limit: memory,
                    advice: "raise `memory_limit`, or set `embedding_weight` to 0",
                });
            }
            args.weight = weight;
            args.dim = vectors.dim as u32;
            args.vectors = arrays.slice(device, vectors.data)?;
            args.gram = arrays.room(device, needed as usize)?;
            args.norms = arrays.room(device, set.row_lines.len() * size_of::<i64>())?;
            let tiles = u64::from(args.n_line_ids.div_ceil(TILE));
            let grid = Grid::of(blocks(tiles * tiles)?, TILE * TILE);
            device.launch(&SOURCE, "window_similarity_gram", grid, &args)?;
            let of_rows = Grid::of(args.n_rows.div_ceil(THREADS), THREADS);
            device.launch(&SOURCE, "window_similarity_norms", of_rows, &args)?;
        }
        let pairs = device.allocate(FEW_PAIRS as usize * size_of::<Pair>())?;
        let n_pairs = device.allocate(size_of::<u64>())?;
        args.pairs = pairs.address();
        args.n_pairs = n_pairs.address();
        args.capacity = FEW_PAIRS;
        Ok(Call { device, args, _arrays: arrays, pairs, n_pairs, n_found: 0, words })
    }

    /// Finds the pairs of the patterns with all starts, each pair inside the patterns once, and their similarities. Starts
    /// before `block_start` are compared too.
    fn find(&mut self, block_start: u32, patterns: std::ops::Range<u32>) -> Result<()> {
        self.args.block_start = block_start;
        self.args.block_end = patterns.end;
        loop {
            self.device.driver.upload(self.n_pairs.address(), &0u64.to_le_bytes())?;
            self.walk(patterns.clone())?;
            let mut found = [0u64];
            self.device.download(&self.n_pairs, &mut found)?;
            [self.n_found] = found;
            if self.n_found <= self.args.capacity {
                break;
            }
            self.args.capacity = self.n_found.next_multiple_of(FEW_PAIRS);
            self.pairs = self.device.allocate(self.args.capacity as usize * size_of::<Pair>())?;
            self.args.pairs = self.pairs.address();
        }
        self.for_each_pair("window_similarity_judge")
    }

    /// Launches each kernel for the patterns that have its number of words.
    fn walk(&mut self, patterns: std::ops::Range<u32>) -> Result<()> {
        let texts = u64::from(self.args.n_starts.div_ceil(THREADS));
        let words = &self.words[patterns.start as usize..patterns.end as usize];
        for launch in KERNELS.launches(words, texts) {
            self.args.first_pattern = patterns.start + launch.first as u32;
            self.args.n_patterns = launch.n as u32;
            let grid = Grid {
                shared_bytes: launch.shared_bytes,
                ..Grid::of(blocks(launch.n as u64 * texts)?, THREADS)
            };
            self.device.launch(&SOURCE, launch.kernel, grid, &self.args)?;
        }
        Ok(())
    }

    fn for_each_pair(&self, kernel: &'static str) -> Result<()> {
        let grid = Grid::of(blocks(self.n_found.div_ceil(u64::from(THREADS)))?, THREADS);
        self.device.launch(&SOURCE, kernel, grid, &self.args)
    }

    fn pairs(&self) -> Result<Vec<Pair>> {
        let mut pairs = vec![Pair::default(); self.n_found as usize];
        self.device.download(&self.pairs, &mut pairs)?;
        Ok(pairs)
    }

    /// The best similarities and places of the `n_rows` rows of the block: for each row and turn its bits + 1, or 0, and the
    /// rank in the low half.
    fn best(&mut self, n_rows: usize) -> Result<(Vec<u64>, Vec<u64>)> {
        let n_cells = n_rows * self.args.n_turns as usize;
        let best = self.device.allocate(n_cells * size_of::<u64>())?;
        let ties = self.device.allocate(n_cells * size_of::<u64>())?;
        self.args.best = best.address();
        self.args.ties = ties.address();
        let of_rows = Grid::of((n_rows as u32).div_ceil(THREADS), THREADS);
        self.device.launch(&SOURCE, "window_similarity_own", of_rows, &self.args)?;
        self.for_each_pair("window_similarity_offer")?;
        self.for_each_pair("window_similarity_tie")?;
        let (mut of_best, mut of_ties) = (vec![0; n_cells], vec![0; n_cells]);
        self.device.download(&best, &mut of_best)?;
        self.device.download(&ties, &mut of_ties)?;
        Ok((of_best, of_ties))
    }
}

fn blocks(needed: u64) -> Result<u32> {
    let limit = i32::MAX as u64;
    u32::try_from(needed).ok().filter(|&n| u64::from(n) <= limit).ok_or(Error::Limit {
        op: "window_similarity",
        what: "the grid, in blocks of 128 starts or pairs,",
        needed,
        limit,
        advice: "raise `eta`, or lower `max_lines`",
    })
}
