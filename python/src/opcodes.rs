//! difflib's matching, and the groups that the authors' code makes of it.

use hunkwise::opcodes::{self as of_crate, Anchor, Form, Matcher, Root, Scratch, Settings, Unit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::Array;
use crate::error::raised;
use crate::threads;

type Opcode = (&'static str, usize, usize, usize, usize);
type Span = (i64, i64);
/// Row, edit type, lines, source, characters, tokens.
type RawRoot = (usize, String, Vec<String>, String, Span, Span);
/// sim_thresh, phi_s0, psi_count_ref, phi, psi, max_anchors, min_block_lines, max_pairs.
type RawSettings = (f64, f64, f64, String, String, i64, i64, i64);
/// Root, lines from, lines to, characters, tokens.
type RawOccurrence = (usize, usize, usize, Span, Span);
/// Occurrences, groupability, mean size, preview.
type RawAnchor = (Vec<RawOccurrence>, f64, f64, String);
/// Row, first token, one past the last, groupability, advantage, kind.
type RawUnit = (usize, i64, i64, f64, f64, usize);

/// `SequenceMatcher(None, a, b, autojunk).get_opcodes()`.
#[pyfunction]
pub(crate) fn opcodes(py: Python<'_>, a: Vec<u32>, b: Vec<u32>, autojunk: bool) -> Vec<Opcode> {
    let found = py.detach(|| of_crate::opcodes(&a, &b, autojunk));
    found.iter().map(|one| (one.tag.name(), one.a.0, one.a.1, one.b.0, one.b.1)).collect()
}

/// Opcodes of every pair of sequences, each second one made ready once: bytes of i64 offsets and of u32 opcodes.
///
/// `symbols`: bytes of u32, the sequences one after the other; `ends`: where each ends.
#[pyfunction]
pub(crate) fn opcodes_of_pairs<'py>(
    py: Python<'py>,
    symbols: &[u8],
    ends: Vec<usize>,
    autojunk: bool,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let symbols: Vec<u32> =
        symbols.as_chunks::<4>().0.iter().map(|&bytes| u32::from_ne_bytes(bytes)).collect();
    let mut start = 0;
    let mut sequences = Vec::with_capacity(ends.len());
    for end in ends {
        let sequence = symbols
            .get(start..end)
            .ok_or_else(|| PyValueError::new_err(format!("no symbols from {start} to {end}")))?;
        sequences.push(sequence);
        start = end;
    }
    let (offsets, opcodes) = py.detach(|| {
        let ready: Vec<Matcher> = sequences.iter().map(|b| Matcher::new(b, autojunk)).collect();
        let mut scratch = Scratch::default();
        let mut offsets = 0_i64.to_ne_bytes().to_vec();
        let mut opcodes: Vec<u8> = Vec::new();
        for (i, a) in sequences.iter().enumerate() {
            for matcher in &ready[i + 1..] {
                for one in matcher.opcodes(a, &mut scratch) {
                    let numbers = [one.tag as usize, one.a.0, one.a.1, one.b.0, one.b.1];
                    for number in numbers {
                        opcodes.extend_from_slice(&(number as u32).to_ne_bytes());
                    }
                }
                offsets.extend(((opcodes.len() / 20) as i64).to_ne_bytes());
            }
        }
        (offsets, opcodes)
    });
    Ok((PyBytes::new(py, &offsets), PyBytes::new(py, &opcodes)))
}

/// `SequenceMatcher(None, a, b, autojunk).ratio()`.
#[pyfunction]
pub(crate) fn ratio(py: Python<'_>, a: Vec<u32>, b: Vec<u32>, autojunk: bool) -> f64 {
    py.detach(|| of_crate::ratio(&a, &b, autojunk))
}

fn form(name: &str, field: &str) -> PyResult<Form> {
    Form::from_name(name).ok_or_else(|| {
        PyValueError::new_err(format!("{field} is {name:?}; it must be saturating, log or linear"))
    })
}

fn settings(raw: RawSettings) -> PyResult<Settings> {
    Ok(Settings {
        sim_thresh: raw.0,
        phi_s0: raw.1,
        psi_count_ref: raw.2,
        phi: form(&raw.3, "phi_form")?,
        psi: form(&raw.4, "psi_form")?,
        max_anchors: raw.5,
        min_block_lines: raw.6,
        max_pairs: raw.7,
    })
}

/// Anchors of each task.
#[pyfunction]
pub(crate) fn opcode_anchors(
    py: Python<'_>,
    tasks: Vec<Vec<RawRoot>>,
    given: RawSettings,
    n_threads: usize,
) -> PyResult<Vec<Vec<RawAnchor>>> {
    let settings = settings(given)?;
    let root = |(row, edit_type, lines, source, chars, tokens): RawRoot| Root {
        row,
        edit_type,
        lines,
        source,
        chars,
        tokens,
    };
    let tasks: Vec<Vec<Root>> =
        tasks.into_iter().map(|roots| roots.into_iter().map(root).collect()).collect();
    let found = threads::run(py, n_threads, || of_crate::anchors(&tasks, &settings))?;
    let plain = |anchor: Anchor| {
        let occurrences = anchor.occurrences.iter();
        let occurrences = occurrences
            .map(|one| (one.root, one.lines.0, one.lines.1, one.chars, one.tokens))
            .collect();
        (occurrences, anchor.gs, anchor.mean_size, anchor.preview)
    };
    Ok(found
        .map_err(raised)?
        .into_iter()
        .map(|anchors| anchors.into_iter().map(plain).collect())
        .collect())
}

/// Groupability of a size and a count.
#[pyfunction]
pub(crate) fn groupability(size: f64, count: usize, given: RawSettings) -> PyResult<f64> {
    Ok(of_crate::groupability(size, count, &settings(given)?))
}

/// For each text the number of its cluster.
#[pyfunction]
pub(crate) fn refine(py: Python<'_>, sources: Vec<String>, threshold: f64) -> Vec<usize> {
    py.detach(|| of_crate::refine(&sources, threshold))
}

/// Values minus their mean, as NumPy computes it.
#[pyfunction]
pub(crate) fn baselined(values: Vec<f64>, epsilon: f64, remove_std: bool) -> Vec<f64> {
    of_crate::baselined(&values, epsilon, remove_std)
}

/// Writes advantages to `to`, `[rows, n_tokens]`; gives the number of tokens by kind.
#[pyfunction]
pub(crate) fn fill(
    py: Python<'_>,
    units: Vec<RawUnit>,
    n_tokens: usize,
    to: Array,
) -> PyResult<Vec<usize>> {
    let to = to.f64s_mut("advantages")?;
    let unit = |(row, start, end, gs, advantage, kind): RawUnit| Unit {
        row,
        tokens: (start, end),
        gs,
        advantage,
        kind,
    };
    let units: Vec<Unit> = units.into_iter().map(unit).collect();
    Ok(py.detach(|| of_crate::fill(&units, n_tokens, to).tokens))
}
