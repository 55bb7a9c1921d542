//! `shaders/window_similarity.wgsl`: the device finds the LCS of all pairs that pass the lexical bound; the host, which
//! has f64, judges them.

mod finder;

use std::ops::Range;

pub(super) use self::finder::{Code, Finder};
use super::Wgpu;
use super::shader::{Binding, Shader};
use crate::backend::cpu::window_similarity::{self as cpu, RowPair, Search};
use crate::error::Result;
use crate::params::Match;
use crate::params::windows::{BestPlace, Threshold, WindowSet};

pub(super) const SHADER: Shader = Shader {
    name: "window_similarity.wgsl",
    before: "",
    source: include_str!("../../../shaders/window_similarity.wgsl"),
    bindings: &[Binding::Parameters, Binding::Read, Binding::Read, Binding::Write, Binding::Write],
    sizes: &[0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64],
};

/// As on the host: [`cpu::best_per_turn`].
pub(crate) fn best_per_turn(
    device: &Wgpu,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    memory: u64,
    sink: impl FnMut(usize, &[BestPlace]),
) -> Result<()> {
    let find =
        |search: &Search<'_>, take: &mut dyn FnMut(&mut [RowPair])| find(device, search, take);
    cpu::best_per_turn_of_found(&find, set, threshold, memory, sink)
}

/// As on the host: [`cpu::matching_pairs`].
pub(crate) fn matching_pairs(
    device: &Wgpu,
    set: &WindowSet<'_>,
    threshold: Threshold<'_>,
    numbers: &[u32],
    memory: u64,
) -> Result<Vec<Match>> {
    let find =
        |search: &Search<'_>, take: &mut dyn FnMut(&mut [RowPair])| find(device, search, take);
    cpu::matching_pairs_of_found(&find, set, threshold, numbers, memory)
}

fn find(device: &Wgpu, search: &Search<'_>, take: &mut dyn FnMut(&mut [RowPair])) -> Result<()> {
    let set = search.set;
    let tokens_of = |start: usize| -> Range<usize> {
        let first = set.starts[start].first_line as usize;
        let last = first + set.starts[start].n_lines as usize;
        set.line_tokens[first] as usize..set.line_tokens[last] as usize
    };
    let code = Code {
        op: "window_similarity",
        tokens: set.tokens,
        n_symbols: set.n_symbols,
        start_tokens: (0..set.starts.len()).map(tokens_of).collect(),
        start_rows: set.start_rows,
        row_tokens: search.row_tokens,
        limits: search.limits,
        block: search.block.clone(),
    };
    Finder::new(device, &code)?.find(take)
}
