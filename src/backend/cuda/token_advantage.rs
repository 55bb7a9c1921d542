//! `kernels/token_advantage.cu`: a thread for each segment, a thread for each token.

use bytemuck::{NoUninit, Pod, Zeroable};

use super::arrays::Uploads;
use super::driver::Source;
use super::{Cuda, Grid};
use crate::error::{Error, Result};
use crate::params::{GroupCounts, GroupForm, Piece};

const SOURCE: Source = Source {
    name: "token_advantage.cu",
    text: include_str!("../../../kernels/token_advantage.cu"),
};
const THREADS: u32 = 128;

/// `Counts` of the kernels.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Counts {
    n_groups: u32,
    n_singletons: u32,
    n_zero_spread: u32,
    unused: u32,
    n_members: u64,
    n_unscored: u64,
    n_not_finite: u64,
}

/// `SegmentArgs` of the kernels.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct SegmentArgs {
    values: u64,
    weights: u64,
    offsets: u64,
    advantages: u64,
    counts: u64,
    n_segments: u64,
    eps: f64,
    ddof: f64,
    divides: u32,
    leaves_one_out: u32,
}

/// `Piece` of the kernels.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct WidePiece {
    start: u64,
    end: u64,
    member: u32,
    unused: u32,
}

/// `OwnerArgs` of the kernels.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct OwnerArgs {
    byte_ends: u64,
    pieces: u64,
    owners: u64,
    n_tokens: u64,
    n_pieces: u64,
}

/// Advantages of the members of each segment: as the host's, bit for bit.
pub(crate) fn segments(
    device: &Cuda,
    values: &[Option<f64>],
    weights: Option<&[u32]>,
    offsets: &[usize],
    form: GroupForm,
    out: &mut [f32],
) -> Result<GroupCounts> {
    let n_segments = offsets.len().saturating_sub(1) as u64;
    if n_segments == 0 {
        return Ok(GroupCounts::default());
    }
    let mut arrays = Uploads::default();
    let values: Vec<f64> = values.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    let offsets: Vec<u64> = offsets.iter().map(|&offset| offset as u64).collect();
    let advantages = device.allocate(size_of_val(out))?;
    let counts = device.upload(&[Counts::default()])?;
    let args = SegmentArgs {
        values: arrays.slice(device, &values)?,
        weights: match weights {
            Some(weights) => arrays.slice(device, weights)?,
            None => 0,
        },
        offsets: arrays.slice(device, &offsets)?,
        advantages: advantages.address(),
        counts: counts.address(),
        n_segments,
        eps: form.eps,
        ddof: f64::from(form.ddof),
        divides: u32::from(form.divide),
        leaves_one_out: u32::from(form.leave_one_out),
    };
    let grid = Grid::of(blocks("group_advantage", n_segments)?, THREADS);
    device.launch(&SOURCE, "token_advantage_segments", grid, &args)?;
    device.download(&advantages, out)?;
    let mut found = [Counts::default()];
    device.download(&counts, &mut found)?;
    let [found] = found;
    Ok(GroupCounts {
        n_groups: found.n_groups as usize,
        n_members: found.n_members as usize,
        n_singletons: found.n_singletons as usize,
        n_zero_spread: found.n_zero_spread as usize,
        n_unscored: found.n_unscored as usize,
        n_not_finite: found.n_not_finite as usize,
    })
}

/// Owner of each token: the member with the most bytes in it, the lowest number among equals.
pub(crate) fn owners(device: &Cuda, byte_ends: &[u32], pieces: &[Piece]) -> Result<Vec<u32>> {
    let mut owners = vec![0; byte_ends.len()];
    if owners.is_empty() {
        return Ok(owners);
    }
    let mut arrays = Uploads::default();
    let wide = |piece: &Piece| WidePiece {
        start: piece.start as u64,
        end: piece.end as u64,
        member: piece.member,
        unused: 0,
    };
    let pieces: Vec<WidePiece> = pieces.iter().map(wide).collect();
    let memory = device.allocate(size_of_val(owners.as_slice()))?;
    let args = OwnerArgs {
        byte_ends: arrays.slice(device, byte_ends)?,
        pieces: arrays.slice(device, &pieces)?,
        owners: memory.address(),
        n_tokens: byte_ends.len() as u64,
        n_pieces: pieces.len() as u64,
    };
    let grid = Grid::of(blocks("project", byte_ends.len() as u64)?, THREADS);
    device.launch(&SOURCE, "token_advantage_owners", grid, &args)?;
    device.download(&memory, &mut owners)?;
    Ok(owners)
}

fn blocks(op: &'static str, n_threads: u64) -> Result<u32> {
    let needed = n_threads.div_ceil(u64::from(THREADS));
    let limit = i32::MAX as u64;
    u32::try_from(needed).ok().filter(|&n| u64::from(n) <= limit).ok_or(Error::Limit {
        op,
        what: "the grid, in blocks of 128 segments or tokens,",
        needed,
        limit,
        advice: "give fewer at a time",
    })
}
