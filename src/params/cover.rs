//! What candidates cover, for anchor_gain: ranges of units with one score each, or edges with a weight each.

/// Ranges of units of all candidates: candidate `c` covers the units `start..end` of each of
/// `ranges[offsets[c]..offsets[c + 1]]`. Ranges of one candidate are disjoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnitRanges<'a> {
    /// One more than candidates.
    pub(crate) offsets: &'a [usize],
    /// Start and end of each range, in units.
    pub(crate) ranges: &'a [(u32, u32)],
}

impl UnitRanges<'_> {
    pub(crate) fn of(&self, candidate: usize) -> &[(u32, u32)] {
        &self.ranges[self.offsets[candidate]..self.offsets[candidate + 1]]
    }
}

/// Candidate `c` covers `units[e]` with weight `weights[e]`, for the edges e in `offsets[c]..offsets[c + 1]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edges<'a> {
    /// One more than candidates.
    pub(crate) offsets: &'a [usize],
    pub(crate) units: &'a [u32],
    pub(crate) weights: &'a [f64],
}

impl Edges<'_> {
    pub(crate) fn of(&self, candidate: usize) -> (&[u32], &[f64]) {
        let edges = self.offsets[candidate]..self.offsets[candidate + 1];
        (&self.units[edges.clone()], &self.weights[edges])
    }
}

/// The first edge that is not allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BadEdge {
    /// Its unit is not below the number of units.
    Unit(usize),
    /// Its weight is negative or not finite.
    Weight(usize),
}

/// Whether edges are allowed; the first of them has the number `first`.
pub(crate) fn check_edges(
    first: usize,
    units: &[u32],
    weights: &[f64],
    n_units: usize,
) -> Result<(), BadEdge> {
    for (edge, (&unit, &weight)) in (first..).zip(units.iter().zip(weights)) {
        if unit as usize >= n_units {
            return Err(BadEdge::Unit(edge));
        }
        if !(0.0..f64::INFINITY).contains(&weight) {
            return Err(BadEdge::Weight(edge));
        }
    }
    Ok(())
}
