//! Marginal gains on a weighted sparse graph: `gain(c) = sum over units u of c of max(0, w(c, u) - best(u))`.
//!
//! An edge costs 12 bytes, so dense graphs are bound by how often edges are read. The edges of a candidate are cut into
//! *parts*, and of each part the gain at its last evaluation is kept: an upper bound of its gain now. To lower the bound
//! of a candidate, only parts are read again in which a unit may have risen since, and only until the bound is far too
//! low to matter. What may have risen is told by 64 ranges of units, a bit each.
//!
//! The order of summation is part of the result: in a part, edge i goes to sum i mod 8, and the sums are added pairwise;
//! then the parts, first to last.

use rayon::prelude::*;

/// Edges of a part.
const PART_EDGES: usize = 64;
/// Sums of a part.
const N_SUMS: usize = 8;

/// Candidate `c` covers `units[e]` with weight `weights[e]`, for the edges e in `offsets[c]..offsets[c + 1]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edges<'a> {
    /// One more than candidates.
    pub(crate) offsets: &'a [usize],
    pub(crate) units: &'a [u32],
    pub(crate) weights: &'a [f64],
}

/// The first edge that is not allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BadEdge {
    /// Its unit is not below the number of units.
    Unit(usize),
    /// Its weight is negative or not finite.
    Weight(usize),
}

/// The parts of all candidates, as last evaluated.
#[derive(Debug)]
pub(crate) struct Bounds<'a> {
    edges: Edges<'a>,
    /// Where the parts of each candidate begin, and where the last ones end.
    first_parts: Vec<u32>,
    gains: Vec<f64>,
    /// Ranges of units of each part, as bits.
    ranges: Vec<u64>,
    /// Picks before the last evaluation of each part.
    evaluated_at: Vec<u32>,
    /// A range of units holds this power of two of them.
    range_bits: u32,
    /// Largest weight that covers each unit so far.
    best: Vec<f64>,
    /// For each number of picks, the ranges of units that have risen since.
    risen_since: Vec<u64>,
}

impl<'a> Bounds<'a> {
    /// Reads all edges once.
    pub(crate) fn new(edges: Edges<'a>, n_units: usize) -> Result<Self, BadEdge> {
        let n_parts_of = |range: &[usize]| (range[1] - range[0]).div_ceil(PART_EDGES);
        let mut first_parts = vec![0];
        let mut n_parts = 0;
        for range in edges.offsets.windows(2) {
            n_parts += n_parts_of(range);
            first_parts.push(n_parts as u32);
        }
        let mut range_bits = 0;
        while n_units.saturating_sub(1) >> range_bits >= u64::BITS as usize {
            range_bits += 1;
        }
        let (mut gains, mut ranges) = (vec![0.0; n_parts], vec![0; n_parts]);
        let mut rest = (gains.as_mut_slice(), ranges.as_mut_slice());
        let mut of_candidates = Vec::with_capacity(edges.offsets.len());
        for range in edges.offsets.windows(2) {
            let n_parts = n_parts_of(range);
            let (gains, other_gains) = rest.0.split_at_mut(n_parts);
            let (ranges, other_ranges) = rest.1.split_at_mut(n_parts);
            rest = (other_gains, other_ranges);
            of_candidates.push((range[0]..range[1], gains, ranges));
        }
        of_candidates.into_par_iter().with_min_len(64).try_for_each(
            |(of_candidate, gains, ranges)| {
                let units = edges.units[of_candidate.clone()].chunks(PART_EDGES);
                let weights = edges.weights[of_candidate.clone()].chunks(PART_EDGES);
                let parts = gains.iter_mut().zip(ranges).zip(units.zip(weights));
                for (at, ((gain, ranges), (units, weights))) in parts.enumerate() {
                    // Plain folds, for SIMD; which edge is bad is asked only then.
                    let first = of_candidate.start + at * PART_EDGES;
                    let (mut least, mut most) = (u32::MAX, 0);
                    for &unit in units {
                        (least, most) = (least.min(unit), most.max(unit));
                    }
                    if most as usize >= n_units {
                        let bad = units.iter().position(|&unit| unit as usize >= n_units);
                        return Err(BadEdge::Unit(first + bad.unwrap_or(0)));
                    }
                    let is_weight = |weight: f64| (0.0..f64::INFINITY).contains(&weight);
                    if !weights.iter().fold(true, |all, &weight| all & is_weight(weight)) {
                        let bad = weights.iter().position(|&weight| !is_weight(weight));
                        return Err(BadEdge::Weight(first + bad.unwrap_or(0)));
                    }
                    let (from, to) = (least >> range_bits, most >> range_bits);
                    *ranges = (u64::MAX >> (u64::BITS - 1 - (to - from))) << from;
                    *gain = sum(weights, |_, weight| weight);
                }
                Ok(())
            },
        )?;
        Ok(Bounds {
            edges,
            first_parts,
            gains,
            ranges,
            evaluated_at: vec![0; n_parts],
            range_bits,
            best: vec![0.0; n_units],
            risen_since: vec![0],
        })
    }

    pub(crate) fn n_candidates(&self) -> usize {
        self.first_parts.len() - 1
    }

    /// A bound of the gain of a candidate.
    pub(crate) fn bound(&self, candidate: usize) -> f64 {
        let parts = self.first_parts[candidate] as usize..self.first_parts[candidate + 1] as usize;
        // Not `sum`: that of no terms is -0, which is not in the order of the bits.
        self.gains[parts].iter().fold(0.0, |sum, part| sum + part)
    }

    /// Lowers the bound of a candidate to its gain, or to something far below `enough`; tells whether it is the gain.
    pub(crate) fn tighten(&mut self, candidate: usize, enough: f64) -> (f64, bool) {
        let parts = self.first_parts[candidate] as usize..self.first_parts[candidate + 1] as usize;
        let first_edge = self.edges.offsets[candidate];
        let end_edge = self.edges.offsets[candidate + 1];
        // Only tells when to look at the bound: it is summed anew below.
        let mut left = self.bound(candidate);
        let mut is_gain = true;
        for (at, part) in parts.enumerate() {
            if self.ranges[part] & self.risen_since[self.evaluated_at[part] as usize] == 0 {
                continue;
            }
            if left < enough / 2.0 {
                is_gain = false;
                break;
            }
            let first = first_edge + at * PART_EDGES;
            let edges = first..(first + PART_EDGES).min(end_edge);
            let units = &self.edges.units[edges.clone()];
            let gain = sum(&self.edges.weights[edges], |i, weight| {
                let rise = weight - self.best[units[i] as usize];
                if rise > 0.0 { rise } else { 0.0 }
            });
            left -= self.gains[part] - gain;
            self.gains[part] = gain;
            self.evaluated_at[part] = (self.risen_since.len() - 1) as u32;
        }
        (self.bound(candidate), is_gain)
    }

    /// Covers the units of a pick.
    pub(crate) fn pick(&mut self, candidate: usize) {
        let edges = self.edges.offsets[candidate]..self.edges.offsets[candidate + 1];
        let mut risen = 0;
        for (&unit, &weight) in
            self.edges.units[edges.clone()].iter().zip(&self.edges.weights[edges])
        {
            let best = &mut self.best[unit as usize];
            if weight > *best {
                *best = weight;
                risen |= 1 << (unit >> self.range_bits);
            }
        }
        for ranges in &mut self.risen_since {
            *ranges |= risen;
        }
        self.risen_since.push(0);
    }
}

/// The sum over a part of a term for each edge, of which it is given the place in the part and the weight.
#[inline(always)]
fn sum(weights: &[f64], term: impl Fn(usize, f64) -> f64) -> f64 {
    let mut sums = [0.0; N_SUMS];
    let (whole, rest) = weights.as_chunks::<N_SUMS>();
    for (at, weights) in whole.iter().enumerate() {
        for i in 0..N_SUMS {
            sums[i] += term(at * N_SUMS + i, weights[i]);
        }
    }
    for (i, &weight) in rest.iter().enumerate() {
        sums[i] += term(whole.len() * N_SUMS + i, weight);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gain of a candidate, every edge read anew.
    fn gain(edges: Edges<'_>, best: &[f64], candidate: usize) -> f64 {
        let range = edges.offsets[candidate]..edges.offsets[candidate + 1];
        let (units, weights) = (&edges.units[range.clone()], &edges.weights[range]);
        let parts = units.chunks(PART_EDGES).zip(weights.chunks(PART_EDGES));
        parts.fold(0.0, |gain, (units, weights)| {
            gain + sum(weights, |i, weight| (weight - best[units[i] as usize]).max(0.0))
        })
    }

    /// However early it stops, a bound is never below the gain, and when it says that it is the gain it is, bit for bit.
    #[test]
    fn a_bound_is_never_below_the_gain() {
        let mut state = 5u64;
        let mut next = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..40 {
            let n_units = [1, 40, 64, 65, 700, 5000][round % 6];
            let (mut offsets, mut units, mut weights) = (vec![0], vec![], vec![]);
            for _ in 0..30 {
                let share = 1 + next(4);
                for unit in 0..n_units as u32 {
                    if next(4) < share && (n_units < 1000 || next(9) == 0) {
                        units.push(unit);
                        weights.push(next(1 << 20) as f64 / 1e6);
                    }
                }
                offsets.push(units.len());
            }
            let edges = Edges { offsets: &offsets, units: &units, weights: &weights };
            let mut bounds = Bounds::new(edges, n_units).unwrap();
            for _ in 0..12 {
                for candidate in 0..30 {
                    let exact = gain(edges, &bounds.best, candidate);
                    assert!(bounds.bound(candidate) >= exact);
                    if next(3) == 0 {
                        let enough = exact * (next(40) as f64 / 20.0);
                        let (bound, is_gain) = bounds.tighten(candidate, enough);
                        assert!(bound >= exact && (!is_gain || bound == exact));
                        assert!(is_gain || bound < enough / 2.0 + 1e-6);
                        assert_eq!(bounds.tighten(candidate, 0.0), (exact, true));
                    }
                }
                bounds.pick(next(30) as usize);
            }
        }
    }
}
