//! The kernels in AVX2: one register holds a limb of all four lanes, or 32 bins. Six instructions and a load for 252
//! cells of the dynamic program, four times (load, min, sum of bytes) for two histograms.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{Bins, Lanes, Masks, N_BINS, Partners, Prefix};
use super::scalar;

/// Proof that the processor has AVX2 and POPCNT; made by [`Avx2::detect`] alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")).then_some(Avx2(()))
    }

    /// See [`super::lanes::Kernel::advance`].
    #[inline]
    pub(super) fn advance(self, state: &mut [Lanes], masks: Masks<'_>, text: &[u32]) {
        macro_rules! by_limbs {
            ($($n:literal)*) => {
                match state.len() {
                    // SAFETY: `self` exists, so `detect` found AVX2 on this processor.
                    $($n => unsafe { advance::<$n>(state, masks, text) },)*
                    // SAFETY: as above.
                    _ => unsafe { advance_long(state, masks, text) },
                }
            };
        }
        by_limbs!(1 2 3 4 5 6 7 8 9 10 11 12);
    }

    /// See [`super::lanes::Kernel::ones`].
    #[inline]
    pub(super) fn ones(
        self,
        state: &[Lanes],
        prefixes: &[Prefix],
        wanted: u64,
        ones: &mut [u32; 64],
    ) {
        // SAFETY: `self` exists, so `detect` found POPCNT on this processor.
        unsafe { count_ones(state, prefixes, wanted, ones) }
    }

    /// See [`super::lanes::Kernel::keep`].
    #[inline]
    pub(super) fn keep(
        self,
        bins: &Bins,
        excess: u32,
        partners: Partners<'_>,
        least: &[u32],
        kept: &mut [u32],
    ) -> usize {
        // SAFETY: `self` exists, so `detect` found AVX2 and POPCNT on this processor.
        unsafe { keep(bins, excess, partners, least, kept) }
    }

    /// See [`super::lanes::Kernel::shared`].
    #[inline]
    pub(super) fn shared(self, a: &Bins, b: &Bins) -> u32 {
        // SAFETY: `self` exists, so `detect` found AVX2 on this processor.
        unsafe { shared(a, b) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(limb: &Lanes) -> __m256i {
    // SAFETY: `Lanes` is 32 bytes, aligned to 32 (`repr(C, align(32))`), and the reference is valid for reads.
    unsafe { _mm256_load_si256(std::ptr::from_ref(limb).cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut Lanes, value: __m256i) {
    // SAFETY: `Lanes` is 32 bytes, aligned to 32 (`repr(C, align(32))`), and the reference is valid for writes.
    unsafe { _mm256_store_si256(std::ptr::from_mut(to).cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_bins(bins: &Bins) -> [__m256i; N_BINS / 32] {
    let first: *const __m256i = std::ptr::from_ref(bins).cast();
    // SAFETY: `Bins` is N_BINS bytes, aligned to 32 (`repr(C, align(32))`), the reference is valid for reads, and k is
    // below N_BINS / 32.
    std::array::from_fn(|k| unsafe { _mm256_load_si256(first.add(k)) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_four(numbers: &[u32; 4]) -> __m128i {
    // SAFETY: the reference is valid for reads of 16 bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(numbers).cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_four(to: &mut [u32; 4], value: __m128i) {
    // SAFETY: the reference is valid for writes of 16 bytes, and the store needs no alignment.
    unsafe { _mm_storeu_si128(std::ptr::from_mut(to).cast(), value) }
}

/// One step of a limb; gives Z' and the borrow.
#[inline]
#[target_feature(enable = "avx2")]
fn step(z: __m256i, m: __m256i, borrow: __m256i) -> (__m256i, __m256i) {
    let u = _mm256_andnot_si256(z, m);
    let difference = _mm256_sub_epi64(_mm256_sub_epi64(z, u), borrow);
    (_mm256_and_si256(difference, _mm256_or_si256(z, m)), _mm256_srli_epi64::<63>(difference))
}

#[target_feature(enable = "avx2")]
fn advance<const N: usize>(state: &mut [Lanes], masks: Masks<'_>, text: &[u32]) {
    let mut limbs = [_mm256_setzero_si256(); N];
    for (z, limb) in limbs.iter_mut().zip(&state[..N]) {
        *z = load(limb);
    }
    for &symbol in text {
        let masks = &masks.of(symbol)[..N];
        let mut borrow = _mm256_setzero_si256();
        for k in 0..N {
            (limbs[k], borrow) = step(limbs[k], load(&masks[k]), borrow);
        }
    }
    for (limb, z) in state[..N].iter_mut().zip(limbs) {
        store(limb, z);
    }
}

/// With more limbs than registers, the state stays in the first cache.
#[target_feature(enable = "avx2")]
fn advance_long(state: &mut [Lanes], masks: Masks<'_>, text: &[u32]) {
    for &symbol in text {
        let mut borrow = _mm256_setzero_si256();
        for (limb, mask) in state.iter_mut().zip(masks.of(symbol)) {
            let z;
            (z, borrow) = step(load(limb), load(mask), borrow);
            store(limb, z);
        }
    }
}

#[target_feature(enable = "popcnt")]
fn count_ones(state: &[Lanes], prefixes: &[Prefix], wanted: u64, ones: &mut [u32; 64]) {
    scalar::ones(state, prefixes, wanted, ones);
}

/// The sums of bytes of the smaller bins, in the four words of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn sums(own: &[__m256i; N_BINS / 32], other: &Bins) -> __m256i {
    let zero = _mm256_setzero_si256();
    let other = load_bins(other);
    let part = |k: usize| _mm256_sad_epu8(_mm256_min_epu8(own[k], other[k]), zero);
    _mm256_add_epi64(_mm256_add_epi64(part(0), part(1)), _mm256_add_epi64(part(2), part(3)))
}

#[target_feature(enable = "avx2")]
fn shared(a: &Bins, b: &Bins) -> u32 {
    let sums = sums(&load_bins(a), b);
    let halves = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    (_mm_cvtsi128_si64(halves) + _mm_extract_epi64::<1>(halves)) as u32
}

/// For each set of four bits, the bytes that move the 32-bit numbers of the set ones to the front.
const TO_FRONT: [[u8; 16]; 16] = {
    let mut table = [[0; 16]; 16];
    let mut mask = 0;
    while mask < 16 {
        let (mut from, mut to) = (0, 0);
        while from < 4 {
            if mask >> from & 1 == 1 {
                let mut byte = 0;
                while byte < 4 {
                    table[mask][4 * to + byte] = (4 * from + byte) as u8;
                    byte += 1;
                }
                to += 1;
            }
            from += 1;
        }
        mask += 1;
    }
    table
};

#[target_feature(enable = "avx2,popcnt")]
fn keep(
    bins: &Bins,
    excess: u32,
    partners: Partners<'_>,
    least: &[u32],
    kept: &mut [u32],
) -> usize {
    let own = load_bins(bins);
    let own_excess = _mm_set1_epi32(excess.cast_signed());
    let (others, rest) = partners.bins.as_chunks::<4>();
    let (excesses, _) = partners.excess.as_chunks::<4>();
    let (lens, _) = partners.lens.as_chunks::<4>();
    let mut n_kept = 0;
    let mut places = _mm_setr_epi32(0, 1, 2, 3);
    for ((others, excesses), lens) in others.iter().zip(excesses).zip(lens) {
        // Two registers of 4 words, each word two sums of 32 bits: those of partner 0 below those of 1, 2 below 3.
        let pair = |a: &Bins, b: &Bins| {
            _mm256_or_si256(sums(&own, a), _mm256_slli_epi64::<32>(sums(&own, b)))
        };
        let (low, high) = (pair(&others[0], &others[1]), pair(&others[2], &others[3]));
        let both =
            _mm256_add_epi32(_mm256_unpacklo_epi64(low, high), _mm256_unpackhi_epi64(low, high));
        let in_bins =
            _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
        let most = _mm_add_epi32(in_bins, _mm_min_epu32(own_excess, load_four(excesses)));
        let needed = load_four(&lens.map(|len| least[len as usize]));
        // All are below 2^31: no item has more than 2^31 tokens to share.
        let too_few = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(needed, most)));
        let mask = (!too_few & 0xf) as usize;
        let front = &TO_FRONT[mask];
        // SAFETY: the reference is valid for reads of 16 bytes, and the load needs no alignment.
        let front = unsafe { _mm_loadu_si128(std::ptr::from_ref(front).cast()) };
        if let Some(room) = kept[n_kept..].first_chunk_mut() {
            store_four(room, _mm_shuffle_epi8(places, front));
        }
        n_kept += mask.count_ones() as usize;
        places = _mm_add_epi32(places, _mm_set1_epi32(4));
    }
    let n_done = others.len() * 4;
    for (k, other) in rest.iter().enumerate() {
        let place = n_done + k;
        let most = shared(bins, other) + excess.min(partners.excess[place]);
        kept[n_kept] = place as u32;
        n_kept += usize::from(most >= least[partners.lens[place] as usize]);
    }
    n_kept
}
