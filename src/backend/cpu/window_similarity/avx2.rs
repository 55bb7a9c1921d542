//! The recurrence in AVX2: one register holds a word of all four lanes, and the state of up to 16 words stays in
//! registers or the first cache over a line of text. About 9 instructions for 256 cells of the dynamic program.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{Lanes, N_LANES};
use super::scalar;

/// Proof that the processor has AVX2; made by [`Avx2::detect`] alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }

    /// See [`super::lanes::Kernel::advance`].
    #[inline]
    pub(super) fn advance(
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
                    // SAFETY: `self` exists, so `detect` found AVX2 on this processor.
                    $($n => unsafe { advance::<$n>(from, to, table, rows) },)*
                    _ => scalar::advance(words, from, to, table, rows),
                }
            };
        }
        by_words!(1 2 3 4 5 6 7 8 10 12 16 20 24 32);
    }

    /// See [`super::lanes::Kernel::zeros_below`].
    #[inline]
    pub(super) fn zeros_below(self, state: &[Lanes], bits: usize) -> [u64; N_LANES] {
        // SAFETY: `self` exists, so `detect` found AVX2 on this processor.
        unsafe { zeros_below(state, bits) }
    }
}

#[target_feature(enable = "avx2")]
fn load(word: &Lanes) -> __m256i {
    // SAFETY: `Lanes` is 32 bytes, aligned to 32 (`repr(C, align(32))`), and the reference is valid for reads.
    unsafe { _mm256_load_si256(std::ptr::from_ref(word).cast()) }
}

#[target_feature(enable = "avx2")]
fn store(to: &mut Lanes, value: __m256i) {
    // SAFETY: `Lanes` is 32 bytes, aligned to 32 (`repr(C, align(32))`), and the reference is valid for writes.
    unsafe { _mm256_store_si256(std::ptr::from_mut(to).cast(), value) }
}

#[target_feature(enable = "avx2")]
fn advance<const W: usize>(from: &[Lanes], to: &mut [Lanes], table: &[Lanes], rows: &[u32]) {
    let (masks, _) = table.as_chunks::<W>();
    let mut state = [_mm256_setzero_si256(); W];
    for (v, word) in state.iter_mut().zip(&from[..W]) {
        *v = load(word);
    }
    for &row in rows {
        let masks = &masks[row as usize];
        let mut carry = _mm256_setzero_si256();
        for w in 0..W {
            let v = state[w];
            let m = load(&masks[w]);
            let both = _mm256_and_si256(v, m);
            let sum = _mm256_add_epi64(_mm256_add_epi64(v, both), carry);
            // `both` is a subset of `v`, so the carry out of the top bit is both | (v & !sum) there.
            let over = _mm256_or_si256(both, _mm256_andnot_si256(sum, v));
            carry = _mm256_srli_epi64::<63>(over);
            state[w] = _mm256_or_si256(sum, _mm256_andnot_si256(m, v));
        }
    }
    for (word, v) in to[..W].iter_mut().zip(state) {
        store(word, v);
    }
}

/// Ones of each 64-bit lane, by a table of nibbles.
#[target_feature(enable = "avx2")]
fn count_ones(x: __m256i) -> __m256i {
    let nibble = _mm256_set1_epi8(0x0f);
    let ones = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, //
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let low = _mm256_shuffle_epi8(ones, _mm256_and_si256(x, nibble));
    let high = _mm256_shuffle_epi8(ones, _mm256_and_si256(_mm256_srli_epi16::<4>(x), nibble));
    _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256())
}

#[target_feature(enable = "avx2")]
fn zeros_below(state: &[Lanes], bits: usize) -> [u64; N_LANES] {
    let all = _mm256_set1_epi64x(-1);
    let mut zeros = _mm256_setzero_si256();
    for word in &state[..bits / 64] {
        zeros = _mm256_add_epi64(zeros, count_ones(_mm256_xor_si256(load(word), all)));
    }
    if !bits.is_multiple_of(64) {
        let below = _mm256_set1_epi64x(((1u64 << (bits % 64)) - 1) as i64);
        zeros = _mm256_add_epi64(
            zeros,
            count_ones(_mm256_andnot_si256(load(&state[bits / 64]), below)),
        );
    }
    let mut counts = Lanes::ZEROS;
    store(&mut counts, zeros);
    counts.0
}
