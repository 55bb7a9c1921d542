//! `kernels/bit_lcs.cuh`: which kernel a pattern takes.

/// Threads of a block, a text each.
pub(super) const THREADS: u32 = 128;
/// Tokens of a word of the bit vectors.
pub(super) const WORD: usize = 32;
/// Words of a strip: patterns with more take several.
pub(super) const STRIP_WORDS: usize = 16;
/// Pairs that there is room for at first; more when they are found.
pub(super) const FEW_PAIRS: u64 = 1 << 16;

/// The kernels of an operation, by the most words of their patterns.
pub(super) struct Kernels {
    pub(super) by_words: [(&'static str, usize); 4],
    /// For patterns in strips.
    pub(super) long: &'static str,
}

/// Patterns side by side that one launch takes.
pub(super) struct PatternLaunch {
    pub(super) kernel: &'static str,
    pub(super) first: usize,
    pub(super) n: usize,
    pub(super) shared_bytes: u32,
}

impl Kernels {
    /// The launches for patterns of these words, `blocks_of_pattern` blocks each.
    pub(super) fn launches(&self, words: &[usize], blocks_of_pattern: u64) -> Vec<PatternLaunch> {
        let of_pattern = |words: usize| {
            let short = self.by_words.iter().find(|(_, most)| words <= *most);
            *short.unwrap_or(&(self.long, STRIP_WORDS))
        };
        let most = (i32::MAX as u64 / blocks_of_pattern.max(1)).max(1) as usize;
        let (mut launches, mut first) = (vec![], 0);
        for of_kernel in words.chunk_by(|a, b| of_pattern(*a) == of_pattern(*b)) {
            let (kernel, n_words) = of_pattern(of_kernel[0]);
            // A strip leaves its carries to the next: patterns in strips come one after the other.
            let at_a_time = if kernel == self.long { 1 } else { most };
            for some in of_kernel.chunks(at_a_time) {
                let shared_bytes = masks_bytes(n_words);
                launches.push(PatternLaunch { kernel, first, n: some.len(), shared_bytes });
                first += some.len();
            }
        }
        launches
    }
}

/// Bytes of `Masks` of the kernels.
fn masks_bytes(words: usize) -> u32 {
    let tokens = WORD * words;
    (2 * tokens * (size_of::<u32>() + size_of::<u16>()) + (tokens + 1) * words * size_of::<u32>())
        as u32
}
