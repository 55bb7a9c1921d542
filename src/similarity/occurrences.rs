//! Where each candidate occurs, and which candidates match.

use super::starts::{Starts, check_code, check_windows};
use super::{LineVectors, Match, Occurrence, Occurrences, SimilarityConfig};
use crate::backend::cpu::window_similarity as cpu;
#[cfg(feature = "cuda")]
use crate::backend::cuda::window_similarity as cuda;
#[cfg(feature = "wgpu")]
use crate::backend::wgpu::window_similarity as wgpu;
use crate::code::{TaskCode, Windows};
use crate::device::Device;
use crate::edits::EditType;
use crate::error::{Error, Result};
use crate::params::windows::{BestPlace, LineVectorTable, Threshold};

/// For every candidate, in each turn of the task the most similar window of the same edit type, if it matches.
///
/// Ties go to the smaller difference of token counts, then to the earlier place; so a candidate occurs in its own turns,
/// as itself or as an earlier window of equal tokens. The similarity is
/// `(1-w)·lex + w·emb` with `w = config.embedding_weight`, and lex alone for w = 0. emb is the cosine of the windows'
/// vectors, 0 if either is zero; a candidate's similarity to itself is 1.
///
/// # Errors
/// [`Error::Config`] for numbers out of range, or a weight without vectors; [`Error::Shape`] for arrays that do not fit
/// one another; [`Error::Limit`] when `config.memory_limit` is too small.
pub fn occurrences(
    device: &Device,
    code: &TaskCode,
    windows: &Windows,
    embedding: Option<&LineVectors>,
    config: &SimilarityConfig,
) -> Result<Occurrences> {
    let threshold = check(code, windows, embedding, config)?;
    let mut found = Vec::new();
    let mut ranges = vec![0..0; windows.len()];
    for starts in starts_by_type(code, windows) {
        let sink = |row: usize, best: &[BestPlace]| {
            let first = found.len();
            found.extend(best.iter().map(|place| Occurrence {
                turn: starts.turns[place.turn as usize],
                span: starts.spans[place.rank as usize],
                similarity: place.similarity,
            }));
            ranges[starts.candidates[row] as usize] = first..found.len();
        };
        match device {
            Device::Cpu(host) => {
                let set = starts.as_set(code);
                cpu::best_per_turn(host.simd(), &set, threshold, config.memory_limit, sink)?;
            }
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => {
                let set = starts.as_set(code);
                cuda::best_per_turn(gpu, &set, threshold, config.memory_limit, sink)?;
            }
            #[cfg(feature = "wgpu")]
            Device::Wgpu(gpu) => {
                let set = starts.as_set(code);
                wgpu::best_per_turn(gpu, &set, threshold, config.memory_limit, sink)?;
            }
        }
    }
    let mut result = Occurrences { offsets: vec![0], items: Vec::with_capacity(found.len()) };
    for range in ranges {
        result.items.extend_from_slice(&found[range]);
        result.offsets.push(result.items.len());
    }
    Ok(result)
}

/// Occurrences of equal windows alone (hash equality, `grouping = exact`): the first place in each turn.
///
/// # Errors
/// [`Error::Shape`] for arrays that do not fit one another; [`Error::Limit`] for more code than indices can count.
pub fn exact_occurrences(code: &TaskCode, windows: &Windows) -> Result<Occurrences> {
    check_code(code)?;
    check_windows(code, windows)?;
    let mut result = Occurrences { offsets: vec![0], items: vec![] };
    for candidate in 0..windows.len() {
        let first = result.items.len();
        for &span in windows.places(candidate as u32) {
            let turn = code.roots[span.root as usize].turn;
            if result.items[first..].last().is_none_or(|item| item.turn != turn) {
                result.items.push(Occurrence { turn, span, similarity: 1.0 });
            }
        }
        result.offsets.push(result.items.len());
    }
    Ok(result)
}

/// All pairs of distinct candidates of one edit type that match, sorted. The list can be long: of 16 000 windows, some
/// two million pairs; [`occurrences`] needs none of it.
///
/// # Errors
/// As [`occurrences`]; [`Error::Limit`] also when the list outgrows `config.memory_limit`, which it shares with all
/// edit types.
pub fn matches(
    device: &Device,
    code: &TaskCode,
    windows: &Windows,
    embedding: Option<&LineVectors>,
    config: &SimilarityConfig,
) -> Result<Vec<Match>> {
    let threshold = check(code, windows, embedding, config)?;
    let mut result: Vec<Match> = vec![];
    for starts in starts_by_type(code, windows) {
        let memory = config.memory_limit.saturating_sub(size_of_val(result.as_slice()) as u64);
        let of_type = match device {
            Device::Cpu(host) => {
                let set = starts.as_set(code);
                cpu::matching_pairs(host.simd(), &set, threshold, &starts.candidates, memory)?
            }
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => {
                let set = starts.as_set(code);
                cuda::matching_pairs(gpu, &set, threshold, &starts.candidates, memory)?
            }
            #[cfg(feature = "wgpu")]
            Device::Wgpu(gpu) => {
                let set = starts.as_set(code);
                wgpu::matching_pairs(gpu, &set, threshold, &starts.candidates, memory)?
            }
        };
        // Candidates are numbered by edit type first, so the matches of a type come after those of the type before.
        if result.is_empty() {
            result = of_type;
        } else {
            result.extend(of_type);
        }
    }
    Ok(result)
}

/// The windows of each edit type: a problem of its own, since types never match.
fn starts_by_type(code: &TaskCode, windows: &Windows) -> impl Iterator<Item = Starts> {
    [EditType::Add, EditType::Delete, EditType::Overwrite]
        .into_iter()
        .map(|edit_type| Starts::new(code, windows, edit_type))
        .filter(|starts| !starts.candidates.is_empty())
}

fn check<'a>(
    code: &TaskCode,
    windows: &Windows,
    embedding: Option<&'a LineVectors>,
    config: &SimilarityConfig,
) -> Result<Threshold<'a>> {
    config.validate()?;
    check_code(code)?;
    check_windows(code, windows)?;
    let weight = config.embedding_weight;
    if weight == 0.0 {
        return Ok(Threshold { eta: config.eta, embedding: None });
    }
    let op = "similarity";
    let Some(vectors) = embedding else {
        return Err(Error::Config {
            op,
            name: "embedding_weight",
            got: weight.to_string(),
            expected: "0 when no line vectors are given",
        });
    };
    let n_lines = code.line_ids.iter().max().map_or(0, |&id| id as usize + 1);
    if vectors.len() != n_lines {
        let what = format!("{} line vectors for {n_lines} distinct lines", vectors.len());
        return Err(Error::Shape { op, what });
    }
    // The squared length of the sum of all lines of a root is the largest integer that occurs.
    let most_lines = code.root_lines.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let largest = (u128::from(most_lines) * 128).pow(2) * vectors.dim() as u128;
    if largest > i64::MAX as u128 {
        return Err(Error::Limit {
            op,
            what: "a root diff with line vectors (lines)",
            needed: u64::from(most_lines),
            limit: ((i64::MAX as f64 / vectors.dim() as f64).sqrt() / 128.0) as u64,
            advice: "lower the dimension of the line vectors, or leave out generated files",
        });
    }
    let table = LineVectorTable { dim: vectors.dim(), data: vectors.as_slice() };
    Ok(Threshold { eta: config.eta, embedding: Some((weight, table)) })
}
