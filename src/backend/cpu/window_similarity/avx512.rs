//! The recurrence in AVX-512: one register holds a word of all eight lanes, and the state of up to 20 words stays in
//! registers over a line of text. Ternary logic saves two of the 7 instructions of AVX2; one instruction counts ones.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::bags::{Bag, N_BINS};
use super::best_lexical::Narrow;
use super::lanes::{Cut, Kernel, Lanes, Part};
use super::walk::Walker;
use super::{Sink, avx2, scalar};
use crate::backend::cpu::Simd;

/// Proof that the processor has all of [`Simd::Avx512`]; made by [`Avx512::detect`] alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        (Simd::detect() >= Simd::Avx512).then_some(Avx512(()))
    }
}

impl Kernel for Avx512 {
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
                    // SAFETY: `self` exists, so the processor has AVX-512.
                    $($n => unsafe { advance::<$n>(from, to, table, rows) },)*
                    _ => scalar::advance(words, from, to, table, rows),
                }
            };
        }
        by_words!(1 2 3 4 5 6 7 8 10 12 16 20 24 32);
    }

    #[inline(always)]
    fn lanes_at_least(self, state: &[Lanes], cut: Cut, least: u32) -> u32 {
        // SAFETY: `self` exists, so the processor has AVX-512.
        unsafe { lanes_at_least(state, cut, least) }
    }

    #[inline(always)]
    fn shared_at_most(self, a: &Bag, b: &Bag) -> u32 {
        // SAFETY: `self` exists, so the processor has AVX-512.
        unsafe { shared_at_most(a, b) }
    }

    #[inline(always)]
    fn matches(self, narrow: Narrow, lcs: &Part, m: &Part, n: u32) -> (Part, u32) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { avx2::matches(narrow, lcs, m, n) }
    }

    #[inline(always)]
    fn keep_best(self, found: &Part, b: u32, best: &mut Part, best_b: &mut Part) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { avx2::keep_best(found, b, best, best_b) }
    }

    fn dot_products(self, vector: &[i8], rows: &[i8], products: &mut [i32]) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { avx2::dot_products(vector, rows, products) }
    }

    #[inline(always)]
    fn reach(self, sums: &[i32], base: i32, roots: &[f32], least: f32, n_sums: usize) -> u64 {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { avx2::reach(sums, base, roots, least, n_sums) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,avx2,popcnt,bmi1,bmi2")]
fn walk_group(
    walker: &mut Walker<'_, Avx512>,
    block: &Range<usize>,
    group: Range<usize>,
    sink: &mut impl Sink,
) {
    walker.walk_group(block, group, sink);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(word: &Lanes) -> __m512i {
    // SAFETY: `Lanes` is 64 bytes, aligned to 64 (`repr(C, align(64))`), and the reference is valid for reads.
    unsafe { _mm512_load_si512(std::ptr::from_ref(word).cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut Lanes, value: __m512i) {
    // SAFETY: `Lanes` is 64 bytes, aligned to 64 (`repr(C, align(64))`), and the reference is valid for writes.
    unsafe { _mm512_store_si512(std::ptr::from_mut(to).cast(), value) }
}

#[target_feature(enable = "avx512f")]
fn advance<const W: usize>(from: &[Lanes], to: &mut [Lanes], table: &[Lanes], rows: &[u32]) {
    let (masks, _) = table.as_chunks::<W>();
    let mut state = [_mm512_setzero_si512(); W];
    for (z, word) in state.iter_mut().zip(&from[..W]) {
        *z = load(word);
    }
    for &row in rows {
        let masks = &masks[row as usize];
        let mut borrow = _mm512_setzero_si512();
        for w in 0..W {
            let z = state[w];
            let m = load(&masks[w]);
            let d = _mm512_sub_epi64(_mm512_sub_epi64(z, _mm512_andnot_si512(z, m)), borrow);
            borrow = _mm512_srli_epi64::<63>(d);
            // d & (z | m)
            state[w] = _mm512_ternarylogic_epi64::<0b1110_0000>(d, z, m);
        }
    }
    for (word, z) in to[..W].iter_mut().zip(state) {
        store(word, z);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn lanes_at_least(state: &[Lanes], cut: Cut, least: u32) -> u32 {
    let before = _mm512_set1_epi64(cut.before as i64);
    let (whole, rest) = state.split_at(cut.word as usize);
    let rest =
        rest.first().map_or(_mm512_setzero_si512(), |word| _mm512_and_si512(load(word), before));
    let mut ones = _mm512_popcnt_epi64(rest);
    for word in whole {
        ones = _mm512_add_epi64(ones, _mm512_popcnt_epi64(load(word)));
    }
    u32::from(_mm512_cmpge_epi64_mask(ones, _mm512_set1_epi64(i64::from(least))))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn shared_at_most(a: &Bag, b: &Bag) -> u32 {
    let zero = _mm512_setzero_si512();
    let mut sums = zero;
    let (a_parts, _) = a.bins.as_chunks::<64>();
    let (b_parts, _) = b.bins.as_chunks::<64>();
    const { assert!(N_BINS.is_multiple_of(64)) };
    for (x, y) in a_parts.iter().zip(b_parts) {
        // SAFETY: both arrays are 64 bytes, valid for unaligned reads.
        let (x, y) = unsafe {
            (_mm512_loadu_si512(x.as_ptr().cast()), _mm512_loadu_si512(y.as_ptr().cast()))
        };
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(_mm512_min_epu8(x, y), zero));
    }
    _mm512_reduce_add_epi64(sums) as u32 + a.excess.min(b.excess)
}
