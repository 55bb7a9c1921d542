//! The windows of one edit type as starts and rows: what window_similarity takes.

use std::ops::Range;

use bytemuck::NoUninit;

/// A line of the task and the lines after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub(crate) struct Start {
    pub(crate) first_line: u32,
    pub(crate) n_lines: u32,
}

/// The distinct windows of one edit type as rows of distinct starts, in flat arrays.
///
/// With N lines, S starts and W rows. Starts are in ascending order of
/// `ceil(tokens / 63)`, the tokens of a word of the host's bit vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowSet<'a> {
    /// Tokens of all lines, each below `n_symbols`.
    pub(crate) tokens: &'a [u32],
    pub(crate) n_symbols: usize,
    /// N+1 offsets into `tokens`.
    pub(crate) line_tokens: &'a [u32],
    /// N numbers below `n_line_ids`, equal iff the lines are equal.
    pub(crate) line_ids: &'a [u32],
    pub(crate) n_line_ids: usize,
    pub(crate) starts: &'a [Start],
    /// S+1 offsets into the rows.
    pub(crate) start_rows: &'a [u32],
    /// Lines of each row, ascending within a start and at most those of the start.
    pub(crate) row_lines: &'a [u32],
    /// The starts in lexicographic order of their lines.
    pub(crate) text_order: &'a [u32],
    /// For each entry of `text_order`: how many first lines it shares with the entry before.
    pub(crate) text_shared: &'a [u32],
    /// W+1 offsets into the places: the first place of the row in each turn that has one, by turn.
    pub(crate) row_places: &'a [u32],
    /// Turn of each place, below `n_turns`; ascending in a row.
    pub(crate) place_turns: &'a [u32],
    /// Rank of each place among all places.
    pub(crate) place_ranks: &'a [u32],
    pub(crate) n_turns: usize,
}

impl<'a> WindowSet<'a> {
    pub(crate) fn rows_of(&self, start: usize) -> Range<usize> {
        self.start_rows[start] as usize..self.start_rows[start + 1] as usize
    }

    pub(crate) fn rows_of_starts(&self, starts: Range<usize>) -> Range<usize> {
        self.start_rows[starts.start] as usize..self.start_rows[starts.end] as usize
    }

    pub(crate) fn tokens_of_line(&self, line: usize) -> &'a [u32] {
        &self.tokens[self.line_tokens[line] as usize..self.line_tokens[line + 1] as usize]
    }

    pub(crate) fn tokens_of_lines(&self, first: u32, n_lines: u32) -> &'a [u32] {
        let (first, last) = (first as usize, first as usize + n_lines as usize);
        &self.tokens[self.line_tokens[first] as usize..self.line_tokens[last] as usize]
    }

    pub(crate) fn tokens_of_start(&self, start: usize) -> &'a [u32] {
        let Start { first_line, n_lines } = self.starts[start];
        self.tokens_of_lines(first_line, n_lines)
    }

    pub(crate) fn places_of(&self, row: usize) -> impl Iterator<Item = (usize, u32)> + 'a {
        let range = self.row_places[row] as usize..self.row_places[row + 1] as usize;
        let turns = self.place_turns[range.clone()].iter().map(|&turn| turn as usize);
        turns.zip(self.place_ranks[range].iter().copied())
    }
}

/// How two rows are compared with eta.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold<'a> {
    pub(crate) eta: f64,
    /// Weight of the embedding part, and the vectors; `None` for the lexical part alone.
    pub(crate) embedding: Option<(f64, LineVectorTable<'a>)>,
}

/// The best row of one turn for one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BestPlace {
    pub(crate) turn: u32,
    pub(crate) rank: u32,
    pub(crate) similarity: f64,
}

/// One vector of signed bytes for each line id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineVectorTable<'a> {
    pub(crate) dim: usize,
    /// (line ids) x `dim`.
    pub(crate) data: &'a [i8],
}

/// More than rounding can add to a blend (a few units in the last place).
pub(crate) const SLACK: f64 = 1e-9;

/// A bound from 0 to 1 that the lexical similarity of every match reaches: the cosine is at most 1, so
/// `lex >= (eta - w) / (1 - w)`.
pub(crate) fn least_lexical(eta: f64, weight: f64) -> f64 {
    let lexical_part = eta - weight - SLACK;
    if lexical_part <= 0.0 || weight >= 1.0 {
        return 0.0;
    }
    (lexical_part / (1.0 - weight)).min(1.0)
}
