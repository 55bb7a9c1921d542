//! Facility location on a weighted sparse graph.

use super::lazy::{Gains, lazy_greedy};
use crate::backend::cpu::anchor_gain::weighted::WeightedGains;
#[cfg(feature = "cuda")]
use crate::backend::cuda::anchor_gain as cuda;
use crate::device::Device;
use crate::error::{Error, Result};
#[cfg(feature = "cuda")]
use crate::params::cover::check_edges;
use crate::params::cover::{BadEdge, Edges};

/// A sparse graph in compressed rows: candidate `c` covers `units[e]` with `weights[e]`, for e in
/// `offsets[c]..offsets[c + 1]`. The layout of a SciPy CSR matrix: `indptr`, `indices`, `data`.
#[derive(Debug, Clone, Copy)]
pub struct Csr<'a> {
    /// One more than candidates, ascending from 0 to the number of edges.
    pub offsets: &'a [usize],
    /// Unit of each edge. In one row no unit stands twice.
    pub units: &'a [u32],
    /// Weight of each edge: how well the candidate represents the unit. Finite and not negative.
    pub weights: &'a [f64],
}

/// What greedy selection picks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picks {
    /// Candidates, in the order they were picked.
    pub candidates: Vec<u32>,
    /// By how much each raised the objective.
    pub gains: Vec<f64>,
}

/// Greedy facility location: up to `k` candidates that maximise
/// `F(C) = sum over units u of max over c in C of w(c, u)`, each the largest marginal gain, the lower index among equals,
/// until no gain is left. Within 1 - 1/e of the best F (Nemhauser, Wolsey and Fisher 1978).
///
/// Equal to naive greedy pick for pick and bit for bit. Beside the graph it takes 24 bytes for each candidate and 11 for
/// each unit; and, where picks cover units several times over, at most 4 bytes for each edge of a row. It is fastest when
/// the units of a row ascend and lie close together.
///
/// # Errors
/// [`Error::Shape`] for arrays that do not fit one another, units of `n_units` or more, and weights that are negative or
/// not finite.
pub fn facility_location(
    device: &Device,
    graph: Csr<'_>,
    n_units: usize,
    k: usize,
) -> Result<Picks> {
    let Csr { offsets, units, weights } = graph;
    let shape = |what: String| Err(Error::Shape { op: "facility_location", what });
    if offsets.first() != Some(&0) || offsets.last() != Some(&units.len()) || !offsets.is_sorted() {
        return shape(format!(
            "`offsets` must ascend from 0 to {}, the number of edges",
            units.len()
        ));
    }
    if units.len() != weights.len() {
        return shape(format!("{} units, but {} weights", units.len(), weights.len()));
    }
    if offsets.len() - 1 > u32::MAX as usize || n_units > 1 << u32::BITS {
        return shape("candidates and units are counted in 32 bits".to_owned());
    }
    let row_of = |edge: usize| offsets.partition_point(|&offset| offset <= edge) - 1;
    let mut picks = Picks::default();
    let take = |candidate: u32, gain: f64| {
        picks.candidates.push(candidate);
        picks.gains.push(gain);
    };
    let edges = Edges { offsets, units, weights };
    let done = match device {
        Device::Cpu(_) => WeightedGains::new(edges, n_units, k).map(|mut gains| {
            lazy_greedy(&mut gains, k, take);
        }),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => match check_edges(0, units, weights, n_units) {
            Ok(()) => {
                cuda::greedy_edges(device, edges, n_units, k, take)?;
                Ok(())
            }
            Err(bad) => Err(bad),
        },
        #[cfg(feature = "wgpu")]
        Device::Wgpu(_) => return Err(device.lacks("facility_location")),
    };
    match done {
        Ok(()) => Ok(picks),
        Err(BadEdge::Unit(edge)) => {
            let (unit, row) = (units[edge], row_of(edge));
            shape(format!("edge {edge}, of candidate {row}, has unit {unit} of {n_units}"))
        }
        Err(BadEdge::Weight(edge)) => {
            let (weight, row) = (weights[edge], row_of(edge));
            let rule = "weights are finite and not negative";
            shape(format!("edge {edge}, of candidate {row}, has weight {weight}; {rule}"))
        }
    }
}

impl Gains for WeightedGains<'_> {
    fn first_gains(&self) -> Vec<f64> {
        WeightedGains::first_gains(self).to_vec()
    }

    fn tighten(&mut self, candidate: usize, enough: f64) -> (f64, bool) {
        WeightedGains::tighten(self, candidate, enough)
    }

    fn pick(&mut self, candidate: usize) {
        WeightedGains::pick(self, candidate);
    }
}
