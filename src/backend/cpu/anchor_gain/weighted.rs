//! Marginal gains on a weighted sparse graph: `gain(c) = sum over units u of c of max(0, w(c, u) - best(u))`.
//!
//! An edge costs 12 bytes, so dense graphs are bound by how often edges are read. All are read once, to check and to sum
//! them. Where picks will cover every unit several times, gains fall fast and most candidates must be looked at again and
//! again; then the first pass also writes rows of bytes ([`ByteRows`]), from which a bound close to the gain is read at a
//! fraction of the cost.
//!
//! The order of summation is part of the result. Edges of a candidate are cut into parts of 64; in a part, edge i goes to
//! sum i mod 8, and the sums are added pairwise; then the parts, first to last. A gain only falls, in rounded numbers too:
//! `best` only grows; rounding is monotone, so each term `fl(w - best(u))` or 0 can only fall, and `fl(a + b)` is monotone
//! in a and in b, so by induction over the fixed order the sum can only fall.

use rayon::prelude::*;

use super::byte_rows::{ByteRows, Levels, Scale};
use crate::params::cover::{BadEdge, Edges, check_edges};

/// Edges of a part.
const PART_EDGES: usize = 64;
/// Sums of a part.
const N_SUMS: usize = 8;
/// Candidates of a chunk: what one thread reads at a time.
const CHUNK_ROWS: usize = 64;
/// Rows of bytes pay from so many times on that the picks, were they average, cover each unit.
const FEW_COVERS: f64 = 2.0;

/// Gains of all candidates, given what has been picked.
#[derive(Debug)]
pub(crate) struct WeightedGains<'a> {
    edges: Edges<'a>,
    /// Largest weight that covers each unit so far.
    best: Vec<f64>,
    first_gains: Vec<f64>,
    /// Chunks of candidates and the levels of units, where they pay.
    bytes: Option<(Vec<ByteRows>, Levels)>,
}

impl<'a> WeightedGains<'a> {
    /// Reads all edges once. `k` picks are planned.
    pub(crate) fn new(edges: Edges<'a>, n_units: usize, k: usize) -> Result<Self, BadEdge> {
        let n_candidates = edges.offsets.len() - 1;
        let n_covers = edges.weights.len() as f64 * k.min(n_candidates) as f64
            / (n_candidates.max(1) as f64 * n_units.max(1) as f64);
        let pays = n_covers > FEW_COVERS && n_units <= u32::MAX as usize;
        let scale = if pays { Scale::new(edges.weights) } else { None };
        Self::with_scale(edges, n_units, scale)
    }

    fn with_scale(edges: Edges<'a>, n_units: usize, scale: Option<Scale>) -> Result<Self, BadEdge> {
        let n_candidates = edges.offsets.len() - 1;
        let chunks: Vec<Result<(Vec<f64>, ByteRows), BadEdge>> = (0..n_candidates
            .div_ceil(CHUNK_ROWS))
            .into_par_iter()
            .map(|chunk| {
                let first = chunk * CHUNK_ROWS;
                read(edges, first..(first + CHUNK_ROWS).min(n_candidates), n_units, scale)
            })
            .collect();
        let mut first_gains = Vec::with_capacity(n_candidates);
        let mut rows = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            // The first bad edge, whichever thread was faster.
            let (gains, bytes) = chunk?;
            first_gains.extend(gains);
            rows.push(bytes);
        }
        Ok(WeightedGains {
            edges,
            best: vec![0.0; n_units],
            first_gains,
            bytes: scale.map(|scale| (rows, Levels::new(scale, n_units))),
        })
    }

    /// Gains before the first pick.
    pub(crate) fn first_gains(&self) -> &[f64] {
        &self.first_gains
    }

    /// The gain of a candidate and true, or a bound of it below `enough` and false.
    pub(crate) fn tighten(&self, candidate: usize, enough: f64) -> (f64, bool) {
        if let Some((rows, levels)) = &self.bytes {
            let bound = rows[candidate / CHUNK_ROWS].bound(candidate % CHUNK_ROWS, levels);
            if bound < enough {
                return (bound, false);
            }
        }
        (self.gain(candidate), true)
    }

    /// The gain of a candidate, every edge read.
    fn gain(&self, candidate: usize) -> f64 {
        let (units, weights) = self.edges.of(candidate);
        let best = self.best.as_slice();
        let rise = |unit: u32, weight: f64| {
            let rise = weight - best[unit as usize];
            // Not `max`, whose care for NaN costs two more instructions: weights are finite.
            if rise > 0.0 { rise } else { 0.0 }
        };
        let mut gain = 0.0;
        for (units, weights) in units.chunks(PART_EDGES).zip(weights.chunks(PART_EDGES)) {
            let mut sums = [0.0; N_SUMS];
            let (units, last_units) = units.as_chunks::<N_SUMS>();
            let (weights, last_weights) = weights.as_chunks::<N_SUMS>();
            for (units, weights) in units.iter().zip(weights) {
                for i in 0..N_SUMS {
                    sums[i] += rise(units[i], weights[i]);
                }
            }
            for (sum, (&unit, &weight)) in sums.iter_mut().zip(last_units.iter().zip(last_weights))
            {
                *sum += rise(unit, weight);
            }
            gain += add(sums);
        }
        gain
    }

    /// Covers the units of a pick.
    pub(crate) fn pick(&mut self, candidate: usize) {
        let (units, weights) = self.edges.of(candidate);
        for (&unit, &weight) in units.iter().zip(weights) {
            let best = &mut self.best[unit as usize];
            if weight > *best {
                *best = weight;
                if let Some((_, levels)) = &mut self.bytes {
                    levels.cover(unit, weight);
                }
            }
        }
    }
}

/// First gains of some candidates, and their rows of bytes if there is a scale.
fn read(
    edges: Edges<'_>,
    candidates: std::ops::Range<usize>,
    n_units: usize,
    scale: Option<Scale>,
) -> Result<(Vec<f64>, ByteRows), BadEdge> {
    let mut gains = Vec::with_capacity(candidates.len());
    let mut rows = ByteRows::default();
    if scale.is_some() {
        rows.reserve(edges.offsets[candidates.end] - edges.offsets[candidates.start]);
    }
    for candidate in candidates {
        let (units, weights) = edges.of(candidate);
        let mut gain = 0.0;
        let parts = units.chunks(PART_EDGES).zip(weights.chunks(PART_EDGES));
        for (at, (units, weights)) in parts.enumerate() {
            let (sum, signs) = sum(weights);
            let last_unit = units.iter().fold(0, |most, &unit| most.max(unit));
            // A sum of an infinity or NaN is one, and so may be that of numbers that are allowed.
            if signs || !sum.is_finite() || last_unit as usize >= n_units {
                let first = edges.offsets[candidate] + at * PART_EDGES;
                check_edges(first, units, weights, n_units)?;
            }
            gain += sum;
            if let Some(scale) = scale {
                rows.extend(scale, units, weights);
            }
        }
        if scale.is_some() {
            rows.end(units.len());
        }
        gains.push(gain);
    }
    Ok((gains, rows))
}

/// The sum of a part, and whether a sign bit is set in it.
fn sum(weights: &[f64]) -> (f64, bool) {
    let mut sums = [0.0; N_SUMS];
    let mut bits = 0;
    let (eights, rest) = weights.as_chunks::<N_SUMS>();
    for eight in eights {
        for i in 0..N_SUMS {
            sums[i] += eight[i];
            bits |= eight[i].to_bits();
        }
    }
    for (sum, &weight) in sums.iter_mut().zip(rest) {
        *sum += weight;
        bits |= weight.to_bits();
    }
    (add(sums), bits >> 63 == 1)
}

fn add(sums: [f64; N_SUMS]) -> f64 {
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds are bounds at every moment, for rows of any shape and weights of any range, and lose to no rounding.
    #[test]
    fn no_bound_is_below_the_gain() {
        let mut state = 1u64;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut n_tight = 0;
        for case in 0..300 {
            let n_units = [1, 40, 300, 5000][case % 4];
            let step = 1 + draw(1 + n_units as u64 / 4);
            let (base, spread) = [
                (0.8, 0.2),
                (0.0, 1.0),
                (0.0, 1e-300),
                (1e9, 1e-3),
                (1.0, 0.0),
                (0.0, 1e300),
                (0.0, 5e-324),
            ][case % 7];
            let (mut offsets, mut units, mut weights) = (vec![0], vec![], vec![]);
            for _ in 0..30 {
                let mut unit = draw(n_units as u64);
                while (unit as usize) < n_units {
                    units.push(unit as u32);
                    weights.push(base + spread * (draw(1 << 30) as f64 / (1u64 << 30) as f64));
                    unit += 1 + draw(step);
                }
                if draw(8) == 0 {
                    units[*offsets.last().unwrap()..].reverse();
                }
                offsets.push(units.len());
            }
            // A scale from other weights than these: some are below its base, some above its top.
            let scale = if draw(2) == 0 {
                Scale::new(&weights)
            } else {
                Scale::new(&[base + spread * 0.3, base + spread * 0.6])
            };
            let edges = Edges { offsets: &offsets, units: &units, weights: &weights };
            let mut gains = WeightedGains::with_scale(edges, n_units, scale).unwrap();
            for _ in 0..12 {
                for candidate in 0..30 {
                    let gain = gains.gain(candidate);
                    let (bound, is_gain) = gains.tighten(candidate, f64::INFINITY);
                    assert!(bound >= gain, "case {case}: {bound} < {gain}");
                    n_tight += usize::from(!is_gain && bound > gain && bound < gain * 1.05);
                    assert_eq!(gains.tighten(candidate, 0.0), (gain, true));
                }
                gains.pick(draw(30) as usize);
            }
        }
        // Not in rows that are not stored, nor with a scale that does not suit.
        assert!(n_tight > 2000, "{n_tight} bounds are close to their gains");
    }
}
