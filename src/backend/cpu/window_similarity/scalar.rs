//! The recurrence in plain Rust.

use std::ops::Range;

use super::Sink;
use super::bags::Bag;
use super::best_lexical::Narrow;
use super::lanes::{Cut, Kernel, Lanes, N_LANES, Part};
use super::walk::Walker;

#[derive(Debug, Clone, Copy)]
pub(super) struct Scalar;

impl Kernel for Scalar {
    fn walk_group(
        self,
        walker: &mut Walker<'_, Self>,
        block: &Range<usize>,
        group: Range<usize>,
        sink: &mut impl Sink,
    ) {
        walker.walk_group(block, group, sink);
    }

    #[inline]
    fn advance(
        self,
        words: usize,
        from: &[Lanes],
        to: &mut [Lanes],
        table: &[Lanes],
        rows: &[u32],
    ) {
        advance(words, from, to, table, rows);
    }

    #[inline]
    fn lanes_at_least(self, state: &[Lanes], cut: Cut, least: u32) -> u32 {
        lanes_at_least(state, cut, least)
    }

    #[inline]
    fn shared_at_most(self, a: &Bag, b: &Bag) -> u32 {
        a.shared_at_most(b)
    }

    #[inline]
    fn matches(self, narrow: Narrow, lcs: &Part, m: &Part, n: u32) -> (Part, u32) {
        let found: Part = std::array::from_fn(|i| narrow.of_match(lcs[i], m[i], n));
        let bits = found.iter().enumerate().map(|(i, &found)| u32::from(found != 0) << i);
        (found, bits.sum())
    }

    #[inline]
    fn keep_best(self, found: &Part, b: u32, best: &mut Part, best_b: &mut Part) {
        for ((&found, best), best_b) in found.iter().zip(best).zip(best_b) {
            if found > *best {
                (*best, *best_b) = (found, b);
            }
        }
    }

    fn dot_products(self, vector: &[i8], rows: &[i8], products: &mut [i32]) {
        for (product, row) in products.iter_mut().zip(rows.chunks_exact(vector.len())) {
            *product = vector.iter().zip(row).map(|(&x, &y)| i32::from(x) * i32::from(y)).sum();
        }
    }

    #[inline]
    fn reach(self, sums: &[i32], base: i32, roots: &[f32], least: f32, n_sums: usize) -> u64 {
        let mut reached = 0;
        for (i, (sum, root)) in sums.iter().zip(roots).take(n_sums).enumerate() {
            reached |= u64::from(sum.wrapping_sub(base) as f32 >= least * root) << i;
        }
        reached
    }
}

/// See [`Kernel::advance`].
pub(super) fn advance(
    words: usize,
    from: &[Lanes],
    to: &mut [Lanes],
    table: &[Lanes],
    rows: &[u32],
) {
    to[..words].copy_from_slice(&from[..words]);
    for &row in rows {
        let masks = &table[row as usize * words..][..words];
        for lane in 0..N_LANES {
            let mut borrow = 0;
            for (state, mask) in to.iter_mut().zip(masks) {
                let (z, m) = (state.0[lane], mask.0[lane]);
                let d = z.wrapping_sub(m & !z).wrapping_sub(borrow);
                borrow = d >> 63;
                state.0[lane] = d & (z | m);
            }
        }
    }
}

/// See [`Kernel::lanes_at_least`].
fn lanes_at_least(state: &[Lanes], cut: Cut, least: u32) -> u32 {
    let (whole, rest) = state.split_at(cut.word as usize);
    let mut lanes = 0;
    for lane in 0..N_LANES {
        let ones = whole.iter().map(|word| word.0[lane].count_ones()).sum::<u32>()
            + rest.first().map_or(0, |word| (word.0[lane] & cut.before).count_ones());
        lanes |= u32::from(ones >= least) << lane;
    }
    lanes
}
