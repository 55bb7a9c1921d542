//! `kernels/anchor_gain.cu`: greedy selection in rounds that do not wait for the host.

use bytemuck::{NoUninit, Pod, Zeroable};

use super::arrays::Uploads;
use super::driver::Source;
use super::{Cuda, Grid};
use crate::error::Result;
use crate::params::cover::{Edges, UnitRanges};

const SOURCE: Source =
    Source { name: "anchor_gain.cu", text: include_str!("../../../kernels/anchor_gain.cu") };
const THREADS: u32 = 256;
/// Candidates of a block, a warp each.
const WARPS: u32 = 8;
const COVER_BLOCKS: u32 = 64;
/// Rounds that are started before their picks are looked at.
const ROUNDS: usize = 32;

/// `Pick` of the kernels.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Pick {
    gain: f64,
    candidate: u32,
    n_new: u32,
}

/// `Args` of the kernels.
#[derive(Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct Args {
    offsets: u64,
    ranges: u64,
    units: u64,
    weights: u64,
    best: u64,
    of_blocks: u64,
    picks: u64,
    n_candidates: u32,
    n_blocks: u32,
    round: u32,
    unused: u32,
}

/// Picks of candidates that cover ranges of units with one score each. Gives how many gains were evaluated, and how many
/// units are covered with a score above 0.
pub(crate) fn greedy_ranges(
    device: &Cuda,
    units: UnitRanges<'_>,
    scores: &[f64],
    n_units: usize,
    k: usize,
    sink: impl FnMut(u32, f64),
) -> Result<(usize, usize)> {
    let mut arrays = Uploads::default();
    let ranges: Vec<[u32; 2]> = units.ranges.iter().map(|&(start, end)| [start, end]).collect();
    let args = Args {
        offsets: arrays.slice(device, &wide(units.offsets))?,
        ranges: arrays.slice(device, &ranges)?,
        weights: arrays.slice(device, scores)?,
        n_candidates: scores.len() as u32,
        ..Args::default()
    };
    greedy(device, arrays, args, n_units, k, sink)
}

/// Picks of candidates that cover edges with a weight each. The edges have been checked.
pub(crate) fn greedy_edges(
    device: &Cuda,
    edges: Edges<'_>,
    n_units: usize,
    k: usize,
    sink: impl FnMut(u32, f64),
) -> Result<(usize, usize)> {
    let mut arrays = Uploads::default();
    let args = Args {
        offsets: arrays.slice(device, &wide(edges.offsets))?,
        units: arrays.slice(device, edges.units)?,
        weights: arrays.slice(device, edges.weights)?,
        n_candidates: (edges.offsets.len() - 1) as u32,
        ..Args::default()
    };
    greedy(device, arrays, args, n_units, k, sink)
}

fn wide(offsets: &[usize]) -> Vec<u64> {
    offsets.iter().map(|&offset| offset as u64).collect()
}

fn greedy(
    device: &Cuda,
    mut arrays: Uploads,
    mut args: Args,
    n_units: usize,
    k: usize,
    mut sink: impl FnMut(u32, f64),
) -> Result<(usize, usize)> {
    let n_candidates = args.n_candidates as usize;
    args.n_blocks = args.n_candidates.div_ceil(WARPS);
    args.best = arrays.slice(device, &vec![0f64; n_units])?;
    args.of_blocks = arrays.room(device, args.n_blocks as usize * size_of::<Pick>())?;
    let picks = device.allocate(ROUNDS * size_of::<Pick>())?;
    args.picks = picks.address();
    let (mut n_evaluations, mut n_covered) = (0, 0);
    // A candidate is picked once at most: then its gain is 0.
    let mut n_left = k.min(n_candidates);
    while n_left > 0 {
        let n_rounds = n_left.min(ROUNDS);
        for round in 0..n_rounds {
            args.round = round as u32;
            device.launch(&SOURCE, "anchor_gain_gains", Grid::of(args.n_blocks, THREADS), &args)?;
            device.launch(&SOURCE, "anchor_gain_pick", Grid::of(1, THREADS), &args)?;
            device.launch(&SOURCE, "anchor_gain_cover", Grid::of(COVER_BLOCKS, THREADS), &args)?;
        }
        let mut found = vec![Pick::default(); n_rounds];
        device.download(&picks, &mut found)?;
        for pick in found {
            n_evaluations += n_candidates;
            if pick.gain == 0.0 {
                return Ok((n_evaluations, n_covered));
            }
            n_covered += pick.n_new as usize;
            sink(pick.candidate, pick.gain);
        }
        n_left -= n_rounds;
    }
    Ok((n_evaluations, n_covered))
}
