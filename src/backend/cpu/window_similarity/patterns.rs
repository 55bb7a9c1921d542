//! A group of patterns made ready for the recurrence, and the text seen through their symbols.

use std::ops::Range;

use super::bags::Bag;
use super::lanes::{Cut, Lanes, WORD_TOKENS, padded_words};
use super::{Prepared, WindowSet};

/// Consecutive starts as patterns, a lane each. Built anew for each group in the same buffers.
#[derive(Debug)]
pub(super) struct Patterns {
    /// Words of a state.
    pub(super) words: usize,
    /// Places of each symbol in the patterns: `words` entries for each table row.
    pub(super) table: Vec<Lanes>,
    /// Tokens of the longest pattern.
    n_tokens: u32,
    /// Table row of a symbol, or `ABSENT`.
    row_of: Vec<u32>,
    symbols: Vec<u32>,
    /// Table rows of the tokens of distinct lines, those in no pattern left out: they leave every state as it is.
    text_rows: Vec<u32>,
    /// Where a distinct line stands in `text_rows`; an end of `ABSENT` when it was not asked for yet.
    text_ranges: Vec<(u32, u32)>,
    /// For each lane and number of tokens up to `n_tokens + 1`, how many rows of the pattern have fewer.
    rows_below: Vec<u32>,
    /// For each number of tokens up to `n_tokens`, the bag that bounds every lane cut there.
    bag_of_tokens: Vec<u32>,
    bags: Vec<Bag>,
}

const ABSENT: u32 = u32::MAX;

impl Patterns {
    pub(super) fn new() -> Self {
        Patterns {
            words: 0,
            table: vec![],
            n_tokens: 0,
            row_of: vec![],
            symbols: vec![],
            text_rows: vec![],
            text_ranges: vec![],
            rows_below: vec![],
            bag_of_tokens: vec![],
            bags: vec![],
        }
    }

    /// Takes the starts of `group` as patterns, no more than there are lanes.
    pub(super) fn build(&mut self, set: &WindowSet<'_>, prepared: &Prepared, group: Range<usize>) {
        let tokens_of = |start| set.tokens_of_start(start);
        let longest = group.clone().map(|start| tokens_of(start).len()).max().unwrap_or(0);
        self.n_tokens = longest as u32;
        self.words = padded_words(longest.div_ceil(WORD_TOKENS).max(1));

        self.row_of.resize(set.n_symbols, ABSENT);
        for symbol in self.symbols.drain(..) {
            self.row_of[symbol as usize] = ABSENT;
        }
        self.table.clear();
        for (lane, start) in group.clone().enumerate() {
            for (place, &symbol) in tokens_of(start).iter().enumerate() {
                let row = &mut self.row_of[symbol as usize];
                if *row == ABSENT {
                    *row = self.symbols.len() as u32;
                    self.symbols.push(symbol);
                    self.table.resize(self.table.len() + self.words, Lanes::ZEROS);
                }
                let word = &mut self.table[*row as usize * self.words + place / WORD_TOKENS];
                word.0[lane] |= 1 << (place % WORD_TOKENS);
            }
        }

        self.text_rows.clear();
        self.text_ranges.clear();
        self.text_ranges.resize(set.n_line_ids, (0, ABSENT));
        self.build_rows(set, prepared, group.clone());
        self.build_bags(set, prepared, group);
    }

    fn build_rows(&mut self, set: &WindowSet<'_>, prepared: &Prepared, group: Range<usize>) {
        self.rows_below.clear();
        for start in group {
            let mut n_below = 0;
            let sizes = &prepared.row_tokens[set.rows_of(start)];
            for n_tokens in 0..=self.n_tokens + 1 {
                while sizes.get(n_below).is_some_and(|&size| size < n_tokens) {
                    n_below += 1;
                }
                self.rows_below.push(n_below as u32);
            }
        }
    }

    /// Bag k holds the first k lines of every pattern.
    fn build_bags(&mut self, set: &WindowSet<'_>, prepared: &Prepared, group: Range<usize>) {
        let most_lines = group.clone().map(|start| set.starts[start].n_lines).max().unwrap_or(0);
        self.bags.clear();
        self.bags.resize(most_lines as usize + 1, Bag::EMPTY);
        self.bag_of_tokens.clear();
        self.bag_of_tokens.resize(self.n_tokens as usize + 1, 0);
        for start in group {
            let mut bag = Bag::EMPTY;
            let mut n_tokens = 0;
            let first_line = set.starts[start].first_line;
            let n_lines = set.starts[start].n_lines;
            for (line, joined) in self.bags.iter_mut().enumerate() {
                if (1..=n_lines as usize).contains(&line) {
                    for &symbol in set.tokens_of_line(first_line as usize + line - 1) {
                        bag.add(prepared.bin_of[symbol as usize]);
                        n_tokens += 1;
                    }
                    // From here on, a cut leaves this many lines.
                    let lines = &mut self.bag_of_tokens[n_tokens];
                    *lines = (*lines).max(line as u32);
                }
                joined.join(&bag);
            }
        }
        let mut lines = 0;
        for most in &mut self.bag_of_tokens {
            lines = lines.max(*most);
            *most = lines;
        }
    }

    /// Table rows of the tokens of a distinct line.
    #[inline]
    pub(super) fn text_rows(
        &mut self,
        set: &WindowSet<'_>,
        prepared: &Prepared,
        line_id: u32,
    ) -> Range<usize> {
        let range = &mut self.text_ranges[line_id as usize];
        if range.1 == ABSENT {
            let first = self.text_rows.len() as u32;
            let line = prepared.line_of_id[line_id as usize] as usize;
            let rows = set.tokens_of_line(line).iter().map(|&symbol| self.row_of[symbol as usize]);
            self.text_rows.extend(rows.filter(|&row| row != ABSENT));
            *range = (first, self.text_rows.len() as u32);
        }
        range.0 as usize..range.1 as usize
    }

    #[inline]
    pub(super) fn rows_at(&self, range: Range<usize>) -> &[u32] {
        &self.text_rows[range]
    }

    /// The rows of the pattern in a lane that have from `shortest` to `longest` tokens, counted from its first.
    #[inline]
    pub(super) fn rows_between(&self, lane: usize, shortest: u32, longest: u32) -> Range<usize> {
        let last = self.n_tokens + 1;
        let below = &self.rows_below[lane * (last as usize + 1)..][..last as usize + 1];
        below[shortest.min(last) as usize] as usize
            ..below[(longest + 1).min(last) as usize] as usize
    }

    /// A bag for all rows of all patterns of at most `longest` tokens.
    #[inline]
    pub(super) fn bag_up_to(&self, longest: u32) -> &Bag {
        &self.bags[self.bag_of_tokens[longest.min(self.n_tokens) as usize] as usize]
    }

    /// Where a state is cut for rows of at most `longest` tokens.
    #[inline]
    pub(super) fn cut_up_to(&self, prepared: &Prepared, longest: u32) -> Cut {
        prepared.cuts[longest.min(self.n_tokens) as usize]
    }
}
