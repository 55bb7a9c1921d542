//! Line vectors: one small vector of signed bytes for each distinct line. A window's vector is the sum of its lines'
//! vectors (mean pooling up to scale), so every product of windows is an exact integer.

use crate::code::TaskCode;
use crate::error::{Error, Result};

/// Least and largest dimension. Up to the largest, a product of two lines fits in an i32.
const DIMS: std::ops::RangeInclusive<usize> = 8..=65536;

/// One vector for each distinct line of a task, by line id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineVectors {
    dim: usize,
    data: Vec<i8>,
}

pub(super) fn check_dim(dim: usize) -> Result<()> {
    if DIMS.contains(&dim) {
        return Ok(());
    }
    let expected = "from 8 to 65536";
    Err(Error::Config { op: "similarity", name: "embedding_dim", got: dim.to_string(), expected })
}

impl LineVectors {
    /// Vectors that the caller made: `data` has `dim` entries for each line id of the task, line id by line id.
    ///
    /// # Errors
    /// [`Error::Config`] for a dimension outside 8..=65536, [`Error::Shape`] for data that is not whole vectors.
    pub fn new(dim: usize, data: Vec<i8>) -> Result<Self> {
        check_dim(dim)?;
        if !data.len().is_multiple_of(dim) {
            let what = format!(
                "line vectors have {} entries, no multiple of the dimension {dim}",
                data.len()
            );
            return Err(Error::Shape { op: "line_vectors", what });
        }
        Ok(LineVectors { dim, data })
    }

    /// Hashed n-grams: each code token of the line, and each pair of neighbours, adds +1 or -1 at a place, both chosen
    /// by the hash of its text. The hash is FNV-1a of the bytes (64 bits), mixed by the finaliser of splitmix64; a pair
    /// hashes its two token hashes, little-endian. The place is the hash modulo `dim`, the sign its top bit. Sums are
    /// clamped to -127..=127.
    ///
    /// # Errors
    /// [`Error::Config`] for a dimension outside 8..=65536, [`Error::Shape`] for code whose tokens have no text.
    pub fn hashed(code: &TaskCode, dim: usize) -> Result<Self> {
        check_dim(dim)?;
        let hashes: Vec<u64> = code.vocabulary.iter().map(|text| mix(fnv1a(text))).collect();
        let mut data = vec![];
        let mut sums = vec![0i32; dim];
        for tokens in distinct_lines(code)? {
            sums.fill(0);
            let mut add = |hash: u64| {
                let sign = if hash >> 63 == 0 { 1 } else { -1 };
                sums[(hash % dim as u64) as usize] += sign;
            };
            for &token in tokens {
                add(hashes[token as usize]);
            }
            for pair in tokens.windows(2) {
                let (left, right) = (hashes[pair[0] as usize], hashes[pair[1] as usize]);
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&left.to_le_bytes());
                bytes[8..].copy_from_slice(&right.to_le_bytes());
                add(mix(fnv1a(&bytes)));
            }
            data.extend(sums.iter().map(|&sum| sum.clamp(-127, 127) as i8));
        }
        Ok(LineVectors { dim, data })
    }

    /// Sums of rows of a table of token vectors, for instance the policy's input embedding: `table` has `dim` entries a
    /// row, and `rows_of` gives the rows that the text of one code token has. A line is the sum over its code tokens.
    /// All lines are then scaled alike, so that the largest entry of all becomes 127, and rounded to the nearest (halves
    /// away from zero).
    ///
    /// # Errors
    /// [`Error::Shape`] for a table that is not whole rows, that holds a number that is not finite, or that lacks a
    /// row that was asked for; [`Error::Config`] for a dimension outside 8..=65536.
    pub fn from_table(
        code: &TaskCode,
        dim: usize,
        table: &[f32],
        rows_of: impl Fn(&[u8]) -> Vec<u32>,
    ) -> Result<Self> {
        check_dim(dim)?;
        let op = "line_vectors";
        if !table.len().is_multiple_of(dim) {
            let what =
                format!("`table` has {} entries, no multiple of the dimension {dim}", table.len());
            return Err(Error::Shape { op, what });
        }
        if let Some(at) = table.iter().position(|x| !x.is_finite()) {
            let (row, column) = (at / dim, at % dim);
            let what = format!(
                "`table` holds {} at row {row}, column {column}; it must be finite",
                table[at]
            );
            return Err(Error::Shape { op, what });
        }
        let n_rows = table.len() / dim;
        let lines = distinct_lines(code)?;
        let mut rows_of_token = Vec::with_capacity(code.vocabulary.len());
        for text in &code.vocabulary {
            let rows = rows_of(text);
            if let Some(&row) = rows.iter().find(|&&row| row as usize >= n_rows) {
                let text = String::from_utf8_lossy(text);
                let what = format!(
                    "`table` has {n_rows} rows, but code token `{text}` asks for row {row}"
                );
                return Err(Error::Shape { op, what });
            }
            rows_of_token.push(rows);
        }
        let mut sums = vec![0f64; lines.len() * dim];
        for (sum, tokens) in sums.chunks_mut(dim).zip(&lines) {
            for &row in tokens.iter().flat_map(|&token| &rows_of_token[token as usize]) {
                for (total, &x) in sum.iter_mut().zip(&table[row as usize * dim..][..dim]) {
                    *total += f64::from(x);
                }
            }
        }
        let largest = sums.iter().fold(0f64, |largest, x| largest.max(x.abs()));
        let quantised =
            |x: f64| if largest == 0.0 { 0 } else { (x / largest * 127.0).round() as i8 };
        Ok(LineVectors { dim, data: sums.into_iter().map(quantised).collect() })
    }

    /// Entries of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.data.len() / self.dim
    }

    /// True when there is no line.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// All vectors, line id by line id.
    pub fn as_slice(&self) -> &[i8] {
        &self.data
    }

    /// The vector of a line id; empty when there is no such line.
    pub fn of(&self, line_id: u32) -> &[i8] {
        self.data.chunks_exact(self.dim).nth(line_id as usize).unwrap_or(&[])
    }
}

/// Tokens of each distinct line, by line id.
fn distinct_lines(code: &TaskCode) -> Result<Vec<&[u32]>> {
    super::starts::check_code(code)?;
    let mut lines: Vec<&[u32]> = vec![];
    for (&id, range) in code.line_ids.iter().zip(code.line_tokens.windows(2)) {
        if id as usize == lines.len() {
            lines.push(&code.tokens[range[0] as usize..range[1] as usize]);
        }
    }
    Ok(lines)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The finaliser of splitmix64.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_published_ones() {
        // Vectors of the FNV authors; splitmix64 with seed 0 gives the second number first (mix of one increment).
        assert_eq!(fnv1a(b""), 0xcbf29ce484222325);
        assert_eq!(fnv1a(b"a"), 0xaf63dc4c8601ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x85944171f73967e8);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220a8397b1dcdaf);
    }
}
