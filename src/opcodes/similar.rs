//! Whether difflib's character ratio of two texts reaches a threshold, mostly without difflib.
//!
//! Matching blocks are a common subsequence, so what they match is at most the longest one, which is at most what the
//! counts of characters allow, which is at most the shorter length. The first of these below the threshold decides.

use super::matcher::{Matcher, Scratch};
use super::texts::Texts;

/// Decides pairs of texts; keeps the bits of the first text from call to call.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// The text whose bits are kept, by number.
    current: Option<u32>,
    /// For each symbol one more than the number of its row in `rows`; 0 where the text lacks it.
    row_of: Vec<u32>,
    /// For each symbol of the text the bits of its places.
    rows: Vec<u64>,
    state: Vec<u64>,
    scratch: Scratch,
}

impl Judge {
    /// `ratio(a, b) >= threshold`, where equal texts have the ratio 1 and an empty one has 0 with any other.
    pub(super) fn is_similar(&mut self, texts: &Texts, a: u32, b: u32, threshold: f64) -> bool {
        if a == b {
            return 1.0 >= threshold;
        }
        let (first, second) = (&texts.texts[a as usize], &texts.texts[b as usize]);
        let lengths = (first.symbols.len(), second.symbols.len());
        if lengths.0 == 0 || lengths.1 == 0 {
            return 0.0 >= threshold;
        }
        let total = lengths.0 + lengths.1;
        if !reaches(lengths.0.min(lengths.1), total, threshold) {
            return false;
        }
        let shared: u32 = first.bins.iter().zip(second.bins.iter()).map(|(&x, &y)| x.min(y)).sum();
        if !reaches(shared as usize, total, threshold) {
            return false;
        }
        // Texts may have come since with characters of their own.
        self.row_of.resize(texts.n_symbols(), 0);
        if self.current != Some(a) {
            self.make_bits(texts, a);
        }
        if !reaches(self.common(lengths.0, &second.symbols), total, threshold) {
            return false;
        }
        let needed = least(total, threshold);
        Matcher::new(&second.symbols, true).reaches(&first.symbols, needed, &mut self.scratch)
    }

    fn make_bits(&mut self, texts: &Texts, text: u32) {
        if let Some(before) = self.current {
            for &symbol in &texts.texts[before as usize].symbols {
                self.row_of[symbol as usize] = 0;
            }
        }
        self.current = Some(text);
        let symbols = &texts.texts[text as usize].symbols;
        let n_words = symbols.len().div_ceil(64);
        self.rows.clear();
        for (i, &symbol) in symbols.iter().enumerate() {
            let row = &mut self.row_of[symbol as usize];
            if *row == 0 {
                self.rows.resize(self.rows.len() + n_words, 0);
                *row = (self.rows.len() / n_words) as u32;
            }
            self.rows[(*row as usize - 1) * n_words + i / 64] |= 1 << (i % 64);
        }
    }

    /// Length of the longest common subsequence of the current text, of `length` symbols, and another (Hyyrö's bits).
    fn common(&mut self, length: usize, other: &[u32]) -> usize {
        let n_words = length.div_ceil(64);
        self.state.clear();
        self.state.resize(n_words, u64::MAX);
        for &symbol in other {
            let row = self.row_of[symbol as usize] as usize;
            if row == 0 {
                continue;
            }
            let bits = &self.rows[(row - 1) * n_words..row * n_words];
            let mut carry = false;
            for (state, &bits) in self.state.iter_mut().zip(bits) {
                let both = *state & bits;
                let (sum, first) = state.overflowing_add(both);
                let (sum, second) = sum.overflowing_add(u64::from(carry));
                carry = first || second;
                *state = sum | (*state - both);
            }
        }
        // Bits past the end of the text stay 1: a carry that arrives there finds ones alone, and `state - both` keeps them.
        self.state.iter().map(|state| state.count_zeros() as usize).sum()
    }
}

fn reaches(matches: usize, total: usize, threshold: f64) -> bool {
    2.0 * matches as f64 / total as f64 >= threshold
}

/// The least number of matches that reaches the threshold, as the quotient is rounded.
fn least(total: usize, threshold: f64) -> usize {
    let mut least = (threshold * total as f64 / 2.0).ceil().max(0.0) as usize;
    while least > 0 && reaches(least - 1, total, threshold) {
        least -= 1;
    }
    while !reaches(least, total, threshold) {
        least += 1;
    }
    least
}

/// Clusters of texts: each joins the first cluster whose first text is similar to it, or begins one. A threshold of 1 or
/// more asks for equal texts.
///
/// Gives the number of the cluster of each text.
pub fn refine<T: AsRef<str>>(sources: &[T], threshold: f64) -> Vec<usize> {
    let mut texts = Texts::default();
    let mut judge = Judge::default();
    let mut first_texts: Vec<u32> = Vec::new();
    let numbers: Vec<u32> = sources.iter().map(|source| texts.number(source.as_ref())).collect();
    let joins = |judge: &mut Judge, text: u32, first: u32| {
        if threshold >= 1.0 {
            text == first
        } else {
            judge.is_similar(&texts, text, first, threshold)
        }
    };
    numbers
        .iter()
        .map(|&text| {
            let found = first_texts.iter().position(|&first| joins(&mut judge, text, first));
            found.unwrap_or_else(|| {
                first_texts.push(text);
                first_texts.len() - 1
            })
        })
        .collect()
}
