//! Four patterns made ready for the recurrence, and the whole text seen through their symbols.

use super::lanes::{Lanes, N_LANES};
use super::{Prepared, WindowSet};

/// Up to four consecutive starts as patterns. Built anew for each group in the same buffers.
///
/// A token of the text that no pattern holds leaves every state as it is, so the text is reduced once a group to the
/// tokens that some pattern holds; their number is also an upper bound of every LCS.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    pub(super) first: usize,
    pub(super) len: usize,
    /// 64-bit words of a state.
    pub(super) words: usize,
    /// Places of each symbol in the patterns: `words` entries for each table row.
    pub(super) table: Vec<Lanes>,
    /// Table row of a symbol, or `ABSENT`.
    row_of: Vec<u32>,
    symbols: Vec<u32>,
    /// Table rows of the tokens of each distinct line, those in no pattern left out.
    text_rows: Vec<u32>,
    text_offsets: Vec<u32>,
    /// Before each line of the task, how many tokens so far are in some pattern.
    present: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl Patterns {
    /// Takes the starts `first..first + len` as patterns; `len` is 1 to 4.
    pub(super) fn build(
        &mut self,
        set: &WindowSet<'_>,
        prepared: &Prepared,
        first: usize,
        len: usize,
    ) {
        self.first = first;
        self.len = len;
        let longest =
            (first..first + len).map(|start| set.tokens_of_start(start).len()).max().unwrap_or(0);
        self.words = padded_words(longest.div_ceil(64).max(1));

        if self.row_of.len() != set.n_symbols {
            self.row_of = vec![ABSENT; set.n_symbols];
        }
        for symbol in self.symbols.drain(..) {
            self.row_of[symbol as usize] = ABSENT;
        }
        self.table.clear();
        for lane in 0..len.min(N_LANES) {
            for (place, &symbol) in set.tokens_of_start(first + lane).iter().enumerate() {
                let row = &mut self.row_of[symbol as usize];
                if *row == ABSENT {
                    *row = self.symbols.len() as u32;
                    self.symbols.push(symbol);
                    self.table.resize(self.table.len() + self.words, Lanes::ZEROS);
                }
                self.table[*row as usize * self.words + place / 64].0[lane] |= 1 << (place % 64);
            }
        }

        self.text_rows.clear();
        self.text_offsets.clear();
        self.text_offsets.push(0);
        for &line in &prepared.line_of_id {
            let rows = set
                .tokens_of_line(line as usize)
                .iter()
                .map(|&symbol| self.row_of[symbol as usize]);
            self.text_rows.extend(rows.filter(|&row| row != ABSENT));
            self.text_offsets.push(self.text_rows.len() as u32);
        }
        self.present.clear();
        self.present.push(0);
        let mut present = 0;
        for &id in set.line_ids {
            present += self.text_offsets[id as usize + 1] - self.text_offsets[id as usize];
            self.present.push(present);
        }
    }

    /// Table rows of the tokens of a distinct line.
    #[inline]
    pub(super) fn text(&self, line_id: u32) -> &[u32] {
        let id = line_id as usize;
        &self.text_rows[self.text_offsets[id] as usize..self.text_offsets[id + 1] as usize]
    }

    /// How many tokens of the lines `first..last` of the task are in some pattern.
    #[inline]
    pub(super) fn n_present(&self, first: usize, last: usize) -> u32 {
        self.present[last] - self.present[first]
    }
}

/// The number of words that the kernels are compiled for, at least `words`.
fn padded_words(words: usize) -> usize {
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32]
        .into_iter()
        .find(|&n| n >= words)
        .unwrap_or(words)
}
