//! `shaders/token_advantage.wgsl`: advantages of segments in the f64 of the host bit for bit, and owners of tokens.

use bytemuck::NoUninit;

use super::Wgpu;
use super::driver::Step;
use super::shader::{Binding, F64, Shader};
use crate::backend::cpu::token_advantage as cpu;
use crate::error::{Error, Result};
use crate::params::{GroupCounts, GroupForm, NO_OWNER, Piece};

pub(super) const SHADER: Shader = Shader {
    name: "token_advantage.wgsl",
    before: F64,
    source: include_str!("../../../shaders/token_advantage.wgsl"),
    bindings: &[Binding::Parameters, Binding::Read, Binding::Write],
    sizes: &[1],
};

const THREADS: usize = 64;
/// Members that a thread adds in a dispatch.
const MOST_MEMBERS: usize = 20_000;
/// Pieces of a token that a thread looks at: each with each.
const MOST_PIECES: u32 = 100;
/// Words of a segment's state.
const STATE_WORDS: usize = 16;
const OP: &str = "token_advantage";
const ABSENT: u32 = u32::MAX;
/// Of the shader: a token with more pieces.
const LEFT_TO_HOST: u32 = u32::MAX - 1;

/// `Args` of the shader.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
struct Args {
    n_segments: u32,
    n_members: u32,
    first: u32,
    most: u32,
    offsets: u32,
    values: u32,
    weights: u32,
    divide: u32,
    leave_one_out: u32,
    n_pieces: u32,
    byte_ends: u32,
    pieces: u32,
    first_byte: u32,
    most_pieces: u32,
    eps: [u32; 2],
    ddof: [u32; 2],
    unused: [u32; 2],
}

impl Args {
    const NONE: Args = Args {
        n_segments: 0,
        n_members: 0,
        first: 0,
        most: MOST_MEMBERS as u32,
        offsets: 0,
        values: 0,
        weights: ABSENT,
        divide: 0,
        leave_one_out: 0,
        n_pieces: 0,
        byte_ends: 0,
        pieces: 0,
        first_byte: 0,
        most_pieces: MOST_PIECES,
        eps: [0; 2],
        ddof: [0; 2],
        unused: [0; 2],
    };
}

fn words_of(number: f64) -> [u32; 2] {
    let bits = number.to_bits();
    [bits as u32, (bits >> 32) as u32]
}

/// As on the host: advantages of the members of each segment.
pub(crate) fn segments(
    device: &Wgpu,
    values: &[Option<f64>],
    weights: Option<&[u32]>,
    offsets: &[usize],
    form: GroupForm,
    out: &mut [f32],
) -> Result<GroupCounts> {
    let limit = device.limits().binding_bytes;
    let n_segments = offsets.len().saturating_sub(1);
    let mut counts = GroupCounts::default();
    let mut first = 0;
    while first < n_segments {
        let bytes = |end: usize| {
            let (n, n_members) = (end - first, offsets[end] - offsets[first]);
            4 * (n + 1 + 4 * n_members).max(STATE_WORDS * n + n_members) as u64
        };
        let mut end = first;
        while end < n_segments && bytes(end + 1) <= limit {
            end += 1;
        }
        if end == first {
            return Err(too_large("one segment on the device (bytes)", bytes(first + 1), limit));
        }
        let members = offsets[first]..offsets[end];
        let tile = Segments {
            values: &values[members.clone()],
            weights: weights.map(|weights| &weights[members.clone()]),
            offsets: &offsets[first..=end],
        };
        counts = counts.plus(tile.run(device, form, &mut out[members.clone()])?);
        first = end;
    }
    Ok(counts)
}

fn too_large(what: &'static str, needed: u64, limit: u64) -> Error {
    Error::Limit { op: OP, what, needed, limit, advice: "use Device::cpu()" }
}

/// Segments that fit the device.
struct Segments<'a> {
    values: &'a [Option<f64>],
    weights: Option<&'a [u32]>,
    /// The first is that of the first value.
    offsets: &'a [usize],
}

impl Segments<'_> {
    fn run(&self, device: &Wgpu, form: GroupForm, out: &mut [f32]) -> Result<GroupCounts> {
        let (n, n_members) = (self.offsets.len() - 1, self.values.len());
        let base = self.offsets[0];
        let mut words: Vec<u32> =
            self.offsets.iter().map(|&offset| (offset - base) as u32).collect();
        let args = Args {
            n_segments: n as u32,
            n_members: n_members as u32,
            values: words.len() as u32,
            weights: match self.weights {
                Some(_) => (words.len() + 2 * n_members) as u32,
                None => ABSENT,
            },
            divide: u32::from(form.divide),
            leave_one_out: u32::from(form.leave_one_out),
            eps: words_of(form.eps),
            ddof: words_of(f64::from(form.ddof)),
            ..Args::NONE
        };
        let weight = |i: usize| self.weights.map_or(1, |weights| weights[i]);
        words.extend(self.values.iter().enumerate().flat_map(|(i, value)| {
            let scored = value.filter(|x| x.is_finite() && weight(i) > 0);
            words_of(scored.unwrap_or(f64::NAN))
        }));
        let weights = self.weights.unwrap_or(&[]);
        words.extend(weights.iter().flat_map(|&weight| words_of(f64::from(weight))));

        let longest = self.offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let words = device.upload(&words)?;
        let n_bytes = 4 * (STATE_WORDS * n + n_members) as u64;
        let found = device.zeros(n_bytes)?;
        let parts = (0..longest).step_by(MOST_MEMBERS);
        let args = parts.map(|first| device.parameters(&Args { first: first as u32, ..args }));
        let mut args = args.collect::<Result<Vec<_>>>()?;
        if args.is_empty() {
            args.push(device.parameters(&Args::NONE)?);
        }
        let memory: Vec<_> = args.iter().map(|args| [args, &words, &found]).collect();
        let step = |entry, part: usize, n: usize| Step {
            shader: &SHADER,
            size: 1,
            entry,
            memory: &memory[part],
            workgroups: n.div_ceil(THREADS) as u32,
        };
        let mut steps = vec![];
        steps.extend((0..args.len()).map(|part| step("token_advantage_sums", part, n)));
        steps.push(step("token_advantage_mean", 0, n));
        if form.divide {
            steps.extend((0..args.len()).map(|part| step("token_advantage_squares", part, n)));
            steps.push(step("token_advantage_scale", 0, n));
        }
        steps.push(step("token_advantage_members", 0, n_members));
        let read = device.run(&steps, &[(&found, n_bytes)])?;
        let (states, members) = read[0].split_at(STATE_WORDS * n);
        Ok(self.take(states, members, out))
    }

    /// Copies the advantages, and counts what has none.
    fn take(&self, states: &[u32], members: &[u32], out: &mut [f32]) -> GroupCounts {
        let mut counts = GroupCounts { n_members: self.values.len(), ..GroupCounts::default() };
        for (out, &bits) in out.iter_mut().zip(members) {
            let advantage = f32::from_bits(bits);
            counts.n_not_finite += usize::from(advantage.is_nan());
            *out = if advantage.is_nan() { 0.0 } else { advantage };
        }
        let states = states.as_chunks::<STATE_WORDS>().0;
        for (bounds, &[n_scored, status, ..]) in self.offsets.windows(2).zip(states) {
            let n = bounds[1] - bounds[0];
            counts.n_groups += usize::from(n > 0);
            counts.n_unscored += n - n_scored as usize;
            counts.n_singletons += usize::from(status == 2);
            counts.n_zero_spread += usize::from(status == 3);
        }
        counts
    }
}

/// As on the host: the owner of each token.
pub(crate) fn owners(
    device: &Wgpu,
    byte_ends: &[u32],
    pieces: &[Piece],
    n_members: usize,
) -> Result<Vec<u32>> {
    if pieces.is_empty() {
        return Ok(vec![NO_OWNER; byte_ends.len()]);
    }
    let limit = device.limits().binding_bytes;
    let start_of = |token: usize| if token == 0 { 0 } else { byte_ends[token - 1] };
    let pieces_of = |first: usize, end: usize| {
        let (start, end) = (start_of(first) as usize, byte_ends[end - 1] as usize);
        let from = pieces.partition_point(|piece| piece.end <= start);
        let to = pieces.partition_point(|piece| piece.start < end);
        &pieces[from..to.max(from)]
    };
    let mut result = Vec::with_capacity(byte_ends.len());
    let mut first = 0;
    while first < byte_ends.len() {
        let bytes = |end: usize| 4 * (end - first + 3 * pieces_of(first, end).len()) as u64;
        let mut end = byte_ends.len();
        while bytes(end) > limit && end > first + 1 {
            end = first + (end - first) / 2;
        }
        if bytes(end) > limit {
            return Err(too_large("the pieces of one token (bytes)", bytes(end), limit));
        }
        let of_tile = pieces_of(first, end);
        let narrow = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        let mut words = byte_ends[first..end].to_vec();
        words.extend(
            of_tile.iter().flat_map(|piece| [narrow(piece.start), narrow(piece.end), piece.member]),
        );
        let n = end - first;
        let args = device.parameters(&Args {
            n_members: n as u32,
            n_pieces: of_tile.len() as u32,
            pieces: n as u32,
            first_byte: start_of(first),
            ..Args::NONE
        })?;
        let words = device.upload(&words)?;
        let found = device.zeros(4 * n as u64)?;
        let step = Step {
            shader: &SHADER,
            size: 1,
            entry: "token_owners",
            memory: &[&args, &words, &found],
            workgroups: n.div_ceil(THREADS) as u32,
        };
        let read = device.run(&[step], &[(&found, 4 * n as u64)])?;
        for (token, &owner) in (first..end).zip(&read[0]) {
            result.push(match owner {
                LEFT_TO_HOST => {
                    let bytes = [start_of(token), byte_ends[token]];
                    cpu::owners(&bytes, pieces_of(token, token + 1), n_members)[1]
                }
                owner => owner,
            });
        }
        first = end;
    }
    Ok(result)
}
