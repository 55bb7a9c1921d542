//! Bit vectors of several patterns side by side.
//!
//! A state holds, for each lane, the bit vector Z of a bit-parallel LCS: after a text, the ones of Z below bit e count
//! the longest common subsequence of the pattern's first e tokens and the text. Z is the complement of V in Hyyrö's
//! recurrence (Bit-parallel LCS-length computation revisited, 2004), `V' = (V + (V & M)) | (V & !M)` with M the places
//! of the text's token in the pattern. With `V = -Z - 1` that becomes
//!
//! ```text
//! U = M & !Z,    Z' = (Z - U) & (Z | M)
//! ```
//!
//! A word carries 63 places of the pattern and bit 63 of Z and M is zero. Then Z and U are below 2^63, so with a borrow
//! c from the word below, `D = Z - U - c` is negative, that is has bit 63, exactly when it borrows from the word above.
//! Bits 0 to 62 of D are those of the difference either way, and the mask `Z | M` clears bit 63 again. So the borrow
//! costs one shift, where V needs the carry out of a 64-bit addition.

use std::ops::Range;

use super::Sink;
use super::bags::Bag;
use super::best_lexical::Narrow;
use super::walk::Walker;

/// Places of a pattern in a word.
pub(crate) const WORD_TOKENS: usize = 63;

/// Rows that are read out of a state together.
pub(super) const READ_ROWS: usize = 32;

/// Numbers of rows that are worked on together: as many as a register of AVX2 takes.
pub(super) type Part = [u32; PART_ROWS];
pub(super) const PART_ROWS: usize = 8;
pub(super) const N_PARTS: usize = READ_ROWS / PART_ROWS;

/// Patterns that are walked side by side: a register of AVX-512, two of AVX2.
pub(super) const N_LANES: usize = 8;

/// One word of each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Lanes(pub(super) [u64; N_LANES]);

impl Lanes {
    pub(super) const ZEROS: Self = Lanes([0; N_LANES]);
}

/// A place in a pattern: `word`, and the places of that word that come before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) word: u32,
    pub(super) before: u64,
}

impl Cut {
    pub(super) fn at(n_tokens: usize) -> Self {
        let (word, rest) = (n_tokens / WORD_TOKENS, n_tokens % WORD_TOKENS);
        Cut { word: word as u32, before: (1 << rest) - 1 }
    }
}

/// Instructions that run the recurrence; every kind gives the same bits.
pub(super) trait Kernel: Sized + Copy + Send + Sync {
    /// [`Walker::walk_group`], compiled for these instructions.
    fn walk_group(
        self,
        walker: &mut Walker<'_, Self>,
        block: &Range<usize>,
        group: Range<usize>,
        sink: &mut impl Sink,
    );

    /// Runs the recurrence over a line of text: `from` and `to` have `words` entries, `table` has `words` entries for
    /// every table row, and `rows` holds the table row of each token. `words` is a result of [`padded_words`].
    fn advance(self, words: usize, from: &[Lanes], to: &mut [Lanes], table: &[Lanes], rows: &[u32]);

    /// The lanes with at least `least` ones before the cut, as bits. The cut's word is one of the state.
    fn lanes_at_least(self, state: &[Lanes], cut: Cut, least: u32) -> u32;

    /// See [`Bag::shared_at_most`].
    fn shared_at_most(self, a: &Bag, b: &Bag) -> u32;

    /// The matches of rows of `m` tokens with a row of `n` tokens, 0 for none, and which there are as bits. See
    /// [`Narrow::of_match`].
    fn matches(self, narrow: Narrow, lcs: &Part, m: &Part, n: u32) -> (Part, u32);

    /// Where `found` is larger than `best`, takes it and sets `best_b` to `b`.
    fn keep_best(self, found: &Part, b: u32, best: &mut Part, best_b: &mut Part);

    /// The products of a vector with the vectors in `rows`, as long as it: one for each entry of `products`.
    fn dot_products(self, vector: &[i8], rows: &[i8], products: &mut [i32]);

    /// Bit i tells whether `sums[i] - base`, wrapping, is at least `least * roots[i]` in f32, for i below `n_sums`, at
    /// most 64. The slices go on for [`PART_ROWS`] more.
    fn reach(self, sums: &[i32], base: i32, roots: &[f32], least: f32, n_sums: usize) -> u64;
}

/// The number of words that the kernels are compiled for, at least `words`.
pub(super) fn padded_words(words: usize) -> usize {
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32]
        .into_iter()
        .find(|&n| n >= words)
        .unwrap_or(words)
}
