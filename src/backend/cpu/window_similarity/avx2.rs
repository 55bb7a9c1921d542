//! The recurrence in AVX2: one register holds a word of four lanes, and the state of up to 16 words stays in registers
//! or the first cache over a line of text. 7 instructions for 252 cells of the dynamic program.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::bags::{Bag, N_BINS};
use super::best_lexical::Narrow;
use super::lanes::{Cut, Kernel, Lanes, N_LANES, Part};
use super::walk::Walker;
use super::{Sink, scalar};
use crate::backend::cpu::Simd;

/// Proof that the processor has all of [`Simd::Avx2`]; made by [`Avx2::detect`] alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        (Simd::detect() >= Simd::Avx2).then_some(Avx2(()))
    }
}

impl Kernel for Avx2 {
    fn walk_group(
        self,
        walker: &mut Walker<'_, Self>,
        block: &Range<usize>,
        group: Range<usize>,
        sink: &mut impl Sink,
    ) {
        // SAFETY: `self` exists, so the processor has these instructions.
        unsafe { walk_group(walker, block, group, sink) }
    }

    #[inline(always)]
    fn advance(
        self,
        words: usize,
        from: &[Lanes],
        to: &mut [Lanes],
        table: &[Lanes],
        rows: &[u32],
    ) {
        macro_rules! by_words {
            ($($n:literal)*) => {
                match words {
                    // SAFETY: `self` exists, so the processor has AVX2.
                    1 => unsafe { advance_both::<1>(from, to, table, rows) },
                    // SAFETY: as above.
                    2 => unsafe { advance_both::<2>(from, to, table, rows) },
                    // SAFETY: as above.
                    3 => unsafe { advance_both::<3>(from, to, table, rows) },
                    // SAFETY: as above.
                    $($n => unsafe { advance_each::<$n>(from, to, table, rows) },)*
                    _ => scalar::advance(words, from, to, table, rows),
                }
            };
        }
        by_words!(4 5 6 7 8 10 12 16 20 24 32);
    }

    #[inline(always)]
    fn lanes_at_least(self, state: &[Lanes], cut: Cut, least: u32) -> u32 {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { lanes_at_least(state, cut, least) }
    }

    #[inline(always)]
    fn shared_at_most(self, a: &Bag, b: &Bag) -> u32 {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { shared_at_most(a, b) }
    }

    #[inline(always)]
    fn matches(self, narrow: Narrow, lcs: &Part, m: &Part, n: u32) -> (Part, u32) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { matches(narrow, lcs, m, n) }
    }

    #[inline(always)]
    fn keep_best(self, found: &Part, b: u32, best: &mut Part, best_b: &mut Part) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { keep_best(found, b, best, best_b) }
    }

    fn dot_products(self, vector: &[i8], rows: &[i8], products: &mut [i32]) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { dot_products(vector, rows, products) }
    }

    #[inline(always)]
    fn reach(self, sums: &[i32], base: i32, roots: &[f32], least: f32, n_sums: usize) -> u64 {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { reach(sums, base, roots, least, n_sums) }
    }
}

#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
fn walk_group(
    walker: &mut Walker<'_, Avx2>,
    block: &Range<usize>,
    group: Range<usize>,
    sink: &mut impl Sink,
) {
    walker.walk_group(block, group, sink);
}

/// Lanes of a register.
const N_HALF: usize = N_LANES / 2;

/// Lanes 0 to 3 (half 0) or 4 to 7 (half 1).
#[inline]
#[target_feature(enable = "avx2")]
fn load(word: &Lanes, half: usize) -> __m256i {
    let lanes = &word.0[half * N_HALF..][..N_HALF];
    // SAFETY: `lanes` are 32 bytes, valid for reads; alignment is not needed.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut Lanes, half: usize, value: __m256i) {
    let lanes = &mut to.0[half * N_HALF..][..N_HALF];
    // SAFETY: `lanes` are 32 bytes, valid for writes; alignment is not needed.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), value) }
}

/// A few words: both halves at once, for the steps of one half wait for one another.
#[target_feature(enable = "avx2")]
fn advance_both<const W: usize>(from: &[Lanes], to: &mut [Lanes], table: &[Lanes], rows: &[u32]) {
    advance_halves::<W, 2>(0, from, to, table, rows);
}

/// Many words: one half after the other, so that a state stays in registers or close.
#[target_feature(enable = "avx2")]
fn advance_each<const W: usize>(from: &[Lanes], to: &mut [Lanes], table: &[Lanes], rows: &[u32]) {
    advance_halves::<W, 1>(0, from, to, table, rows);
    advance_halves::<W, 1>(1, from, to, table, rows);
}

#[inline]
#[target_feature(enable = "avx2")]
fn advance_halves<const W: usize, const N: usize>(
    first_half: usize,
    from: &[Lanes],
    to: &mut [Lanes],
    table: &[Lanes],
    rows: &[u32],
) {
    let (masks, _) = table.as_chunks::<W>();
    let mut state = [[_mm256_setzero_si256(); N]; W];
    for (halves, word) in state.iter_mut().zip(&from[..W]) {
        for (half, z) in halves.iter_mut().enumerate() {
            *z = load(word, first_half + half);
        }
    }
    for &row in rows {
        let masks = &masks[row as usize];
        let mut borrow = [_mm256_setzero_si256(); N];
        for w in 0..W {
            for half in 0..N {
                let z = state[w][half];
                let m = load(&masks[w], first_half + half);
                let d = _mm256_sub_epi64(z, _mm256_andnot_si256(z, m));
                let d = _mm256_sub_epi64(d, borrow[half]);
                borrow[half] = _mm256_srli_epi64::<63>(d);
                state[w][half] = _mm256_and_si256(d, _mm256_or_si256(z, m));
            }
        }
    }
    for (word, halves) in to[..W].iter_mut().zip(state) {
        for (half, z) in halves.into_iter().enumerate() {
            store(word, first_half + half, z);
        }
    }
}

/// Ones of each byte, by a table of nibbles.
#[inline]
#[target_feature(enable = "avx2")]
fn ones_of_bytes(x: __m256i) -> __m256i {
    let nibble = _mm256_set1_epi8(0x0f);
    let ones = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, //
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let low = _mm256_shuffle_epi8(ones, _mm256_and_si256(x, nibble));
    let high = _mm256_shuffle_epi8(ones, _mm256_and_si256(_mm256_srli_epi16::<4>(x), nibble));
    _mm256_add_epi8(low, high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn lanes_at_least(state: &[Lanes], cut: Cut, least: u32) -> u32 {
    half_at_least(state, 0, cut, least) | half_at_least(state, 1, cut, least) << N_HALF
}

#[inline]
#[target_feature(enable = "avx2")]
fn half_at_least(state: &[Lanes], half: usize, cut: Cut, least: u32) -> u32 {
    let zero = _mm256_setzero_si256();
    let before = _mm256_set1_epi64x(cut.before as i64);
    let (whole, rest) = state.split_at(cut.word as usize);
    let rest = rest.first().map_or(zero, |word| _mm256_and_si256(load(word, half), before));
    let mut ones = _mm256_sad_epu8(ones_of_bytes(rest), zero);
    // Up to 16 times 8 ones fit in a byte.
    for words in whole.chunks(16) {
        let mut of_bytes = zero;
        for word in words {
            of_bytes = _mm256_add_epi8(of_bytes, ones_of_bytes(load(word, half)));
        }
        ones = _mm256_add_epi64(ones, _mm256_sad_epu8(of_bytes, zero));
    }
    let enough = _mm256_cmpgt_epi64(ones, _mm256_set1_epi64x(i64::from(least) - 1));
    _mm256_movemask_pd(_mm256_castsi256_pd(enough)) as u32
}

#[inline]
#[target_feature(enable = "avx2")]
fn shared_at_most(a: &Bag, b: &Bag) -> u32 {
    let zero = _mm256_setzero_si256();
    let mut sums = zero;
    let (a_parts, _) = a.bins.as_chunks::<32>();
    let (b_parts, _) = b.bins.as_chunks::<32>();
    const { assert!(N_BINS.is_multiple_of(32)) };
    for (x, y) in a_parts.iter().zip(b_parts) {
        // SAFETY: both arrays are 32 bytes, valid for unaligned reads.
        let (x, y) = unsafe {
            (_mm256_loadu_si256(x.as_ptr().cast()), _mm256_loadu_si256(y.as_ptr().cast()))
        };
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_min_epu8(x, y), zero));
    }
    let halves = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let sum = _mm_add_epi64(halves, _mm_unpackhi_epi64(halves, halves));
    _mm_cvtsi128_si32(sum) as u32 + a.excess.min(b.excess)
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_part(part: &Part) -> __m256i {
    // SAFETY: `Part` is 32 bytes, valid for reads; alignment is not needed.
    unsafe { _mm256_loadu_si256(part.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_part(to: &mut Part, value: __m256i) {
    // SAFETY: `Part` is 32 bytes, valid for writes; alignment is not needed.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn matches(narrow: Narrow, lcs: &Part, m: &Part, n: u32) -> (Part, u32) {
    let (lcs, m) = (load_part(lcs), load_part(m));
    let n = _mm256_set1_epi32(n as i32);
    let count = |bits: u32| _mm_cvtsi32_si128(bits as i32);
    let sum = _mm256_cvtepi32_ps(_mm256_add_epi32(m, n));
    let quotient = _mm256_div_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(lcs, lcs)), sum);
    let similarity = _mm256_sub_epi32(
        _mm256_srl_epi32(_mm256_castps_si256(quotient), count(narrow.dropped)),
        _mm256_set1_epi32(narrow.floor as i32),
    );
    let difference = _mm256_sub_epi32(
        _mm256_set1_epi32(narrow.most_difference() as i32),
        _mm256_sub_epi32(_mm256_max_epu32(m, n), _mm256_min_epu32(m, n)),
    );
    let of_match =
        _mm256_or_si256(_mm256_sll_epi32(similarity, count(narrow.difference_bits)), difference);
    let is_match = _mm256_cmp_ps::<_CMP_GE_OQ>(quotient, _mm256_set1_ps(narrow.least));
    let mut found = Part::default();
    store_part(&mut found, _mm256_and_si256(of_match, _mm256_castps_si256(is_match)));
    (found, _mm256_movemask_ps(is_match) as u32)
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn keep_best(found: &Part, b: u32, best: &mut Part, best_b: &mut Part) {
    let (found, before) = (load_part(found), load_part(best));
    let after = _mm256_max_epu32(found, before);
    let is_same = _mm256_cmpeq_epi32(after, before);
    let b = _mm256_set1_epi32(b as i32);
    store_part(best_b, _mm256_blendv_epi8(b, load_part(best_b), is_same));
    store_part(best, after);
}

#[target_feature(enable = "avx2")]
pub(super) fn dot_products(vector: &[i8], rows: &[i8], products: &mut [i32]) {
    for (product, row) in products.iter_mut().zip(rows.chunks_exact(vector.len())) {
        let (x_parts, x_rest) = vector.as_chunks::<16>();
        let (y_parts, y_rest) = row.as_chunks::<16>();
        let mut sums = _mm256_setzero_si256();
        for (x, y) in x_parts.iter().zip(y_parts) {
            let [x, y] = [x, y].map(|part| part.as_ptr().cast());
            // SAFETY: both parts are 16 bytes, valid for unaligned reads.
            let (x, y) = unsafe { (_mm_loadu_si128(x), _mm_loadu_si128(y)) };
            let of_pairs = _mm256_madd_epi16(_mm256_cvtepi8_epi16(x), _mm256_cvtepi8_epi16(y));
            sums = _mm256_add_epi32(sums, of_pairs);
        }
        let sums = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b0100_1110>(sums));
        let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b1011_0001>(sums));
        let rest = x_rest.iter().zip(y_rest).map(|(&x, &y)| i32::from(x) * i32::from(y));
        *product = _mm_cvtsi128_si32(sums) + rest.sum::<i32>();
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn reach(sums: &[i32], base: i32, roots: &[f32], least: f32, n_sums: usize) -> u64 {
    let (base, least) = (_mm256_set1_epi32(base), _mm256_set1_ps(least));
    let (sums, _) = sums.as_chunks::<8>();
    let (roots, _) = roots.as_chunks::<8>();
    let mut reached = 0;
    for (i, (sums, roots)) in sums.iter().zip(roots).enumerate().take(n_sums.div_ceil(8)) {
        let (sums, roots) = (sums.as_ptr().cast(), roots.as_ptr());
        // SAFETY: both parts are 32 bytes, valid for unaligned reads.
        let (sums, roots) = unsafe { (_mm256_loadu_si256(sums), _mm256_loadu_ps(roots)) };
        let products = _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, base));
        let far = _mm256_cmp_ps::<_CMP_GE_OQ>(products, _mm256_mul_ps(least, roots));
        reached |= u64::from(_mm256_movemask_ps(far) as u32) << (8 * i);
    }
    reached & u64::MAX >> (u64::BITS as usize - n_sums)
}
