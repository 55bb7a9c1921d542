//! `shaders/anchor_gain.wgsl`: gains of all candidates, in the f64 of the host bit for bit.

use bytemuck::NoUninit;

use super::Wgpu;
use super::driver::Step;
use super::shader::{Binding, F64, Shader};
use crate::error::{Error, Result};
use crate::params::cover::UnitRanges;

pub(super) const SHADER: Shader = Shader {
    name: "anchor_gain.wgsl",
    before: F64,
    source: include_str!("../../../shaders/anchor_gain.wgsl"),
    bindings: &[Binding::Parameters, Binding::Read, Binding::Read, Binding::Write],
    sizes: &[1],
};

const THREADS: usize = 64;
/// Turns of a thread's loops in a dispatch.
const MOST_TURNS: u64 = 20_000;
/// Words of a candidate's state.
const STATE_WORDS: u64 = 6;
const OP: &str = "anchor_gain";

/// `Args` of the shader.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
struct Args {
    n_candidates: u32,
    offsets: u32,
    ranges: u32,
    gs: u32,
    most_turns: u32,
    unused: [u32; 3],
}

/// As on the host: gains of all candidates.
pub(crate) fn gains(
    device: &Wgpu,
    units: UnitRanges<'_>,
    gs: &[f64],
    best: &[f64],
) -> Result<Vec<f64>> {
    let limit = device.limits().binding_bytes;
    let best = device.upload(best)?;
    let mut result = Vec::with_capacity(gs.len());
    let mut first = 0;
    while first < gs.len() {
        // Offsets, ranges and scores; or the states.
        let bytes = |end: usize| {
            let n = (end - first) as u64;
            let n_ranges = (units.offsets[end] - units.offsets[first]) as u64;
            (4 * (1 + 3 * n + 2 * n_ranges)).max(4 * STATE_WORDS * n)
        };
        let mut end = first;
        while end < gs.len() && bytes(end + 1) <= limit {
            end += 1;
        }
        if end == first {
            return Err(Error::Limit {
                op: OP,
                what: "one candidate on the device (bytes)",
                needed: bytes(first + 1),
                limit,
                advice: "use Device::cpu()",
            });
        }
        let n = end - first;
        let base = units.offsets[first];
        let ranges = &units.ranges[base..units.offsets[end]];
        let mut words: Vec<u32> =
            units.offsets[first..=end].iter().map(|&offset| (offset - base) as u32).collect();
        words.extend(ranges.iter().flat_map(|&(start, end)| [start, end]));
        let args = Args {
            n_candidates: n as u32,
            offsets: 0,
            ranges: n as u32 + 1,
            gs: words.len() as u32,
            most_turns: MOST_TURNS as u32,
            unused: [0; 3],
        };
        words.extend_from_slice(bytemuck::cast_slice(&gs[first..end]));
        let turns = |candidate: usize| -> u64 {
            let ranges = &units.ranges[units.offsets[candidate]..units.offsets[candidate + 1]];
            ranges.iter().map(|&(start, end)| u64::from(end.saturating_sub(start)) + 1).sum()
        };
        // A dispatch ends at its last turn, or one before it.
        let n_dispatches = (first..end).map(turns).max().unwrap_or(0).div_ceil(MOST_TURNS - 1);
        let args = device.parameters(&args)?;
        let words = device.upload(&words)?;
        let n_bytes = 4 * STATE_WORDS * n as u64;
        let found = device.zeros(n_bytes)?;
        let memory = [&args, &words, &best, &found];
        let step = |_| Step {
            shader: &SHADER,
            size: 1,
            entry: "anchor_gain",
            memory: &memory,
            workgroups: n.div_ceil(THREADS) as u32,
        };
        let steps: Vec<Step<'_>> = (0..n_dispatches).map(step).collect();
        let read = device.run(&steps, &[(&found, n_bytes)])?;
        let gain = |state: &[u32; STATE_WORDS as usize]| {
            f64::from_bits(u64::from(state[0]) | u64::from(state[1]) << 32)
        };
        result.extend(read[0].as_chunks().0.iter().map(gain));
        first = end;
    }
    Ok(result)
}
