//! A walk of all texts under one group of patterns.

use std::ops::Range;

use super::super::pair_similarity::strips::StripLcs;
use super::judge::NearRows;
use super::lanes::{Cut, Kernel, Lanes, READ_ROWS, WORD_TOKENS};
use super::patterns::Patterns;
use super::{Prepared, Sink, Text, WindowSet};

/// Words of the longest pattern that is walked in lanes: the table of a pattern has (distinct tokens) x (words)
/// entries, so it grows with the square of the pattern. Longer patterns go through strips.
pub(super) const MAX_WORDS: usize = 32;

/// Tokens of the longest pattern that is walked in lanes.
pub(super) const MAX_TOKENS: usize = MAX_WORDS * WORD_TOKENS;

/// Text lines whose states are kept for texts that begin alike.
const MAX_KEPT: usize = 64;

/// The buffers of one thread.
pub(super) struct Walker<'a, K: Kernel> {
    set: &'a WindowSet<'a>,
    prepared: &'a Prepared,
    kernel: K,
    patterns: Patterns,
    /// State after each of the first lines of the current text: (`n_kept` + 1) x words.
    kept: Vec<Lanes>,
    n_kept: usize,
    /// State after a line beyond the kept ones, and room for the next: 2 x words.
    beyond: Vec<Lanes>,
    strips: StripLcs,
    counts: Vec<u32>,
}

impl<'a, K: Kernel> Walker<'a, K> {
    pub(super) fn new(set: &'a WindowSet<'a>, prepared: &'a Prepared, kernel: K) -> Self {
        let most_shared = set.text_shared.iter().max().map_or(0, |&n| n as usize);
        Walker {
            set,
            prepared,
            kernel,
            patterns: Patterns::new(),
            kept: vec![],
            n_kept: most_shared.min(MAX_KEPT),
            beyond: vec![],
            strips: StripLcs::new(set.n_symbols),
            counts: vec![],
        }
    }

    /// Hands over the LCS of the patterns of `group`, starts of `block` and no more than there are lanes, with all texts.
    #[inline(always)]
    pub(super) fn walk_group(
        &mut self,
        block: &Range<usize>,
        group: Range<usize>,
        sink: &mut impl Sink,
    ) {
        let (set, prepared) = (self.set, self.prepared);
        let group_rows = set.rows_of(group.start).start..set.rows_of(group.end - 1).end;
        let sizes = prepared.row_tokens[group_rows.clone()].iter();
        let (Some(&smallest), Some(&largest)) = (sizes.clone().min(), sizes.max()) else { return };
        let shortest = prepared.limits.of(smallest).shortest;
        let longest = prepared.limits.of(largest).longest;
        self.patterns.build(set, prepared, group.clone());
        let words = self.patterns.words;
        self.kept.clear();
        self.kept.resize((self.n_kept + 1) * words, Lanes::ZEROS);
        self.beyond.clear();
        self.beyond.resize(2 * words, Lanes::ZEROS);

        let mut n_valid = 0;
        for text in &prepared.texts {
            n_valid = n_valid.min(text.n_shared as usize);
            let start = text.start as usize;
            if text.most_tokens < shortest || text.least_tokens > longest {
                continue;
            }
            let inside = block.contains(&start);
            if inside && start < group.start {
                continue;
            }
            let Some(last_row) = self.last_row(text, shortest, longest) else { continue };
            let n_lanes =
                if inside { (start - group.start + 1).min(group.len()) } else { group.len() };
            let near = sink.begin_text(self.kernel, start);
            let lanes = LanesOfRows { lanes: (1 << n_lanes) - 1, near };
            let mut rows = text.first_row as usize..last_row + 1;
            while !rows.is_empty() && lanes.of(set, text, rows.end - 1) == 0 {
                rows.end -= 1;
            }
            if !rows.is_empty() {
                n_valid = self.walk_text(text, rows, n_valid, group.start, lanes, sink);
            }
            sink.end_text();
        }
    }

    /// The last row of the text that a bound does not exclude, for lengths that can match any pattern.
    #[inline(always)]
    fn last_row(&self, text: &Text, shortest: u32, longest: u32) -> Option<usize> {
        let prepared = self.prepared;
        let mut row = text.end_row as usize;
        let mut most = u32::MAX;
        while row > text.first_row as usize {
            row -= 1;
            let n = prepared.row_tokens[row];
            if n > longest {
                continue;
            }
            if n < shortest {
                return None;
            }
            let limit = prepared.limits.of(n);
            // A shorter row has a part of this one's tokens, and can match a part of the patterns' rows alone: so its
            // bound is at most this one's, and most rows need no bound of their own.
            if limit.least > most {
                continue;
            }
            let bag = self.patterns.bag_up_to(limit.longest);
            most = self.kernel.shared_at_most(bag, &prepared.bags[row]);
            if most >= limit.least {
                return Some(row);
            }
        }
        None
    }

    /// Runs the first rows of a text, `n_valid` lines of whose states are known; gives how many are known then.
    #[inline(always)]
    fn walk_text(
        &mut self,
        text: &Text,
        rows: Range<usize>,
        n_valid: usize,
        first_pattern: usize,
        lanes: LanesOfRows,
        sink: &mut impl Sink,
    ) -> usize {
        let (set, prepared, words) = (self.set, self.prepared, self.patterns.words);
        let first_line = text.first_line as usize;
        let mut n_lines = n_valid;
        for row in rows {
            let row_lines = set.row_lines[row] as usize;
            while n_lines < row_lines {
                self.advance(set.line_ids[first_line + n_lines], n_lines);
                n_lines += 1;
            }
            let limit = prepared.limits.of(prepared.row_tokens[row]);
            let state = if row_lines <= self.n_kept {
                &self.kept[row_lines * words..][..words]
            } else {
                &self.beyond[..words]
            };
            let cut = self.patterns.cut_up_to(prepared, limit.longest);
            let mut lanes =
                self.kernel.lanes_at_least(state, cut, limit.least) & lanes.of(set, text, row);
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                let pattern = first_pattern + lane;
                let first_a = set.start_rows[pattern] as usize;
                let mut rows = self.patterns.rows_between(lane, limit.shortest, limit.longest);
                if pattern == text.start as usize {
                    rows.end = rows.end.min(row - first_a);
                }
                if !rows.is_empty() {
                    let rows = first_a + rows.start..first_a + rows.end;
                    read_out(self.kernel, prepared, state, lane, rows, row, sink);
                }
            }
        }
        n_lines.min(self.n_kept)
    }

    /// Runs the patterns over line `n_lines` of a text.
    #[inline(always)]
    fn advance(&mut self, line_id: u32, n_lines: usize) {
        let words = self.patterns.words;
        let rows = self.patterns.text_rows(self.set, self.prepared, line_id);
        let (table, rows) = (&self.patterns.table, self.patterns.rows_at(rows));
        if n_lines < self.n_kept {
            let (before, after) = self.kept.split_at_mut((n_lines + 1) * words);
            self.kernel.advance(words, &before[n_lines * words..], after, table, rows);
        } else {
            let (now, next) = self.beyond.split_at_mut(words);
            let from = if n_lines == self.n_kept { &self.kept[n_lines * words..] } else { &*now };
            self.kernel.advance(words, from, next, table, rows);
            now.copy_from_slice(next);
        }
    }

    /// Matches of one long pattern with all texts: the pattern in strips, for every text anew.
    pub(super) fn walk_long(&mut self, block: &Range<usize>, pattern: usize, sink: &mut impl Sink) {
        let (set, prepared) = (self.set, self.prepared);
        let pattern_rows = set.rows_of(pattern);
        let pattern_ends = &prepared.row_tokens[pattern_rows.clone()];
        let (Some(&smallest), Some(&largest)) = (pattern_ends.first(), pattern_ends.last()) else {
            return;
        };
        let lengths = prepared.limits.of(smallest).shortest..=prepared.limits.of(largest).longest;
        for text in 0..set.starts.len() {
            if block.contains(&text) && text < pattern {
                continue;
            }
            let text_rows = set.rows_of(text);
            let text_ends = &prepared.row_tokens[text_rows.clone()];
            if !text_ends.iter().any(|n| lengths.contains(n)) {
                continue;
            }
            self.strips.prefixes(
                set.tokens_of_start(pattern),
                pattern_ends,
                set.tokens_of_start(text),
                text_ends,
                &mut self.counts,
            );
            sink.begin_text(self.kernel, text);
            for (b, counts) in text_rows.zip(self.counts.chunks(pattern_ends.len())) {
                let rows = pattern_rows.start..pattern_rows.end.min(if pattern == text {
                    b
                } else {
                    usize::MAX
                });
                let mut first_a = rows.start;
                for counts in counts[..rows.len()].chunks(READ_ROWS) {
                    let mut lcs = [0; READ_ROWS];
                    lcs[..counts.len()].copy_from_slice(counts);
                    sink.take(self.kernel, b, first_a, counts.len(), &lcs);
                    first_a += counts.len();
                }
            }
            sink.end_text();
        }
    }
}

/// The lanes in which each row of a text may match.
#[derive(Debug, Clone, Copy)]
struct LanesOfRows {
    /// For all rows.
    lanes: u32,
    near: Option<NearRows>,
}

impl LanesOfRows {
    #[inline(always)]
    fn of(&self, set: &WindowSet<'_>, text: &Text, row: usize) -> u32 {
        let Some(near) = &self.near else { return self.lanes };
        let at = set.row_lines[row] - set.row_lines[text.first_row as usize];
        let of_row = near.iter().enumerate().map(|(lane, near)| ((near >> at & 1) as u32) << lane);
        self.lanes & of_row.sum::<u32>()
    }
}

/// Reads the LCS of rows of the pattern in a lane out of a state, which is that after row `b` of a text.
#[inline(always)]
fn read_out<K: Kernel>(
    kernel: K,
    prepared: &Prepared,
    state: &[Lanes],
    lane: usize,
    rows: Range<usize>,
    b: usize,
    sink: &mut impl Sink,
) {
    let cuts = &prepared.row_cuts[rows.clone()];
    // The words of the lane, with the ones of all words before; one more word, for a cut at the end.
    const N: usize = (MAX_WORDS + 1).next_power_of_two();
    let (mut words, mut ones_before) = ([0u64; N], [0u32; N]);
    let mut ones = 0;
    let last_word = cuts[cuts.len() - 1].word as usize;
    for (at, word) in state.iter().take(last_word + 1).enumerate() {
        words[at % N] = word.0[lane];
        ones_before[at % N] = ones;
        ones += word.0[lane].count_ones();
    }
    if last_word == state.len() {
        ones_before[last_word % N] = ones;
    }
    let lcs_at = |cut: Cut| {
        let at = cut.word as usize % N;
        ones_before[at] + (words[at] & cut.before).count_ones()
    };
    // The longest row has the largest LCS, the shortest the smallest threshold.
    let least = prepared.limits.least(prepared.row_tokens[rows.start] + prepared.row_tokens[b]);
    if lcs_at(cuts[cuts.len() - 1]) < least {
        return;
    }
    let mut first_a = rows.start;
    for cuts in cuts.chunks(READ_ROWS) {
        let mut lcs = [0; READ_ROWS];
        for (lcs, &cut) in lcs.iter_mut().zip(cuts) {
            *lcs = lcs_at(cut);
        }
        sink.take(kernel, b, first_a, cuts.len(), &lcs);
        first_a += cuts.len();
    }
}
