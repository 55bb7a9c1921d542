//! Similarity of windows: every pair of candidates by the textbook dynamic program, O(n² · m²).

use std::cmp::Ordering;

use crate::code::{Span, TaskCode, Windows};
use crate::similarity::{LineVectors, Match, Occurrence, Occurrences, SimilarityConfig};

/// Length of the longest common subsequence, in two rows of the table.
pub fn lcs(a: &[u32], b: &[u32]) -> u32 {
    let mut before = vec![0; b.len() + 1];
    for &x in a {
        let mut row = vec![0; b.len() + 1];
        for (j, &y) in b.iter().enumerate() {
            row[j + 1] = if x == y { before[j] + 1 } else { before[j + 1].max(row[j]) };
        }
        before = row;
    }
    before[b.len()]
}

/// `2·L / (m + n)`; 1 for two empty sequences.
pub fn lexical(lcs: u32, sum: usize) -> f64 {
    if sum == 0 { 1.0 } else { 2.0 * lcs as f64 / sum as f64 }
}

/// Indel similarity of two sequences.
pub fn indel_similarity(a: &[u32], b: &[u32]) -> f64 {
    lexical(lcs(a, b), a.len() + b.len())
}

/// Sum of the vectors of a window's lines.
fn vector(code: &TaskCode, span: Span, vectors: &LineVectors) -> Vec<i64> {
    let first = (code.root_lines[span.root as usize] + span.start) as usize;
    let mut sum = vec![0; vectors.dim()];
    for &id in &code.line_ids[first..first + span.len as usize] {
        for (total, &x) in sum.iter_mut().zip(vectors.of(id)) {
            *total += i64::from(x);
        }
    }
    sum
}

/// Cosine `a·b / sqrt(|a|²·|b|²)` in f64 from exact integers, within -1 and 1; 0 when a vector is zero.
pub fn cosine(a: &[i64], b: &[i64]) -> f64 {
    let dot = |x: &[i64], y: &[i64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<i64>();
    let (norm_a, norm_b) = (dot(a, a), dot(b, b));
    if norm_a == 0 || norm_b == 0 {
        return 0.0;
    }
    (dot(a, b) as f64 / (norm_a as f64 * norm_b as f64).sqrt()).clamp(-1.0, 1.0)
}

/// Two windows compared.
#[derive(Debug, Clone, Copy)]
struct Pair {
    lcs: u32,
    sum: usize,
    similarity: f64,
}

fn compare(
    code: &TaskCode,
    a: Span,
    b: Span,
    embedding: Option<&LineVectors>,
    config: &SimilarityConfig,
) -> Pair {
    let (x, y) = (code.tokens_of(a), code.tokens_of(b));
    let (lcs, sum) = (lcs(x, y), x.len() + y.len());
    let weight = config.embedding_weight;
    let similarity = match embedding {
        Some(vectors) if weight > 0.0 => {
            let emb = cosine(&vector(code, a, vectors), &vector(code, b, vectors));
            (1.0 - weight) * lexical(lcs, sum) + weight * emb
        }
        _ => lexical(lcs, sum),
    };
    Pair { lcs, sum, similarity }
}

/// The more similar: as fractions without an embedding, in f64 with one.
fn order(a: Pair, b: Pair, weight: f64) -> Ordering {
    if weight > 0.0 {
        return a.similarity.total_cmp(&b.similarity);
    }
    let cross = |x: Pair, y: Pair| u128::from(x.lcs) * y.sum as u128;
    cross(a, b).cmp(&cross(b, a))
}

/// See [`crate::similarity::occurrences`].
pub fn occurrences(
    code: &TaskCode,
    windows: &Windows,
    embedding: Option<&LineVectors>,
    config: &SimilarityConfig,
) -> Occurrences {
    let edit_type = |span: Span| code.roots[span.root as usize].edit_type;
    let mut result = Occurrences { offsets: vec![0], items: vec![] };
    let n_turns = code.roots.iter().map(|root| root.turn + 1).max().unwrap_or(0);
    for candidate in 0..windows.len() {
        let own = windows.first(candidate as u32);
        let n_own = code.tokens_of(own).len();
        let mut best: Vec<Option<(Pair, Span)>> = vec![None; n_turns as usize];
        for other in 0..windows.len() {
            let first = windows.first(other as u32);
            if edit_type(first) != edit_type(own) {
                continue;
            }
            let pair = if other == candidate {
                Pair { lcs: n_own as u32, sum: 2 * n_own, similarity: 1.0 }
            } else {
                compare(code, own, first, embedding, config)
            };
            if pair.similarity < config.eta {
                continue;
            }
            for &span in windows.places(other as u32) {
                let turn = code.roots[span.root as usize].turn as usize;
                let wins = match best[turn] {
                    None => true,
                    Some((rival, rival_span)) => {
                        let difference = |s: Span| code.tokens_of(s).len().abs_diff(n_own);
                        match order(pair, rival, config.embedding_weight) {
                            Ordering::Greater => true,
                            Ordering::Less => false,
                            Ordering::Equal => {
                                (difference(span), span) < (difference(rival_span), rival_span)
                            }
                        }
                    }
                };
                if wins {
                    best[turn] = Some((pair, span));
                }
            }
        }
        for (turn, best) in best.into_iter().enumerate() {
            if let Some((pair, span)) = best {
                result.items.push(Occurrence {
                    turn: turn as u32,
                    span,
                    similarity: pair.similarity,
                });
            }
        }
        result.offsets.push(result.items.len());
    }
    result
}

/// See [`crate::similarity::matches`].
pub fn matches(
    code: &TaskCode,
    windows: &Windows,
    embedding: Option<&LineVectors>,
    config: &SimilarityConfig,
) -> Vec<Match> {
    let edit_type = |span: Span| code.roots[span.root as usize].edit_type;
    let mut result = vec![];
    for a in 0..windows.len() {
        for b in a + 1..windows.len() {
            let (x, y) = (windows.first(a as u32), windows.first(b as u32));
            if edit_type(x) != edit_type(y) {
                continue;
            }
            let pair = compare(code, x, y, embedding, config);
            if pair.similarity >= config.eta {
                result.push(Match { a: a as u32, b: b as u32, lcs: pair.lcs });
            }
        }
    }
    result
}
