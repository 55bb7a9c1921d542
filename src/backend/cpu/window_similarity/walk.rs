//! A walk of all texts under one group of patterns.

use std::ops::Range;

use super::super::pair_similarity::strips::StripLcs;
use super::judge::{Judge, JudgeState};
use super::lanes::{Kernel, Lanes, N_LANES};
use super::limits::LengthLimit;
use super::patterns::Patterns;
use super::{Hit, Prepared, WindowSet};

/// Words of the longest pattern that is walked in lanes: the table of a pattern has (distinct tokens) x (words)
/// entries, so it grows with the square of the pattern. Longer patterns go through strips.
pub(super) const MAX_WORDS: usize = 32;

/// Text lines whose states are kept for texts that begin alike.
const MAX_KEPT: usize = 64;

/// The buffers of one thread.
pub(super) struct Walker<'a, J: Judge + 'a> {
    set: &'a WindowSet<'a>,
    prepared: &'a Prepared,
    kernel: Kernel,
    judge: J::State<'a>,
    patterns: Patterns,
    /// State after each of the first lines of the current text: (`n_kept` + 1) x words.
    kept: Vec<Lanes>,
    n_kept: usize,
    /// State after a line beyond the kept ones, and room for the next: 2 x words.
    beyond: Vec<Lanes>,
    /// Matches of the current text with each pattern.
    hits: [Vec<Hit<J::Score>>; N_LANES],
    strips: StripLcs,
    counts: Vec<u32>,
}

impl<'a, J: Judge + 'a> Walker<'a, J> {
    pub(super) fn new(
        set: &'a WindowSet<'a>,
        prepared: &'a Prepared,
        judge: &'a J,
        kernel: Kernel,
    ) -> Self {
        let most_shared = set.text_shared.iter().max().map_or(0, |&n| n as usize);
        Walker {
            set,
            prepared,
            kernel,
            judge: judge.state(set, prepared),
            patterns: Patterns::default(),
            kept: vec![],
            n_kept: most_shared.min(MAX_KEPT),
            beyond: vec![],
            hits: std::array::from_fn(|_| vec![]),
            strips: StripLcs::new(set.n_symbols),
            counts: vec![],
        }
    }

    /// Matches of the patterns of `group`, a range of 1 to 4 starts of `block`, with all texts.
    pub(super) fn walk_group(
        &mut self,
        block: &Range<usize>,
        group: Range<usize>,
        on_text: &impl Fn(&[Hit<J::Score>]),
    ) {
        let (set, prepared) = (self.set, self.prepared);
        let group_rows = set.rows_of(group.start).start..set.rows_of(group.end - 1).end;
        let sizes = prepared.row_tokens[group_rows.clone()].iter();
        let (Some(&smallest), Some(&largest)) = (sizes.clone().min(), sizes.max()) else { return };
        let lengths = prepared.limits.of(smallest).shortest..=prepared.limits.of(largest).longest;
        self.judge.begin(group_rows);
        self.patterns.build(set, prepared, group.start, group.len());
        let words = self.patterns.words;
        self.kept.clear();
        self.kept.resize((self.n_kept + 1) * words, Lanes::ONES);
        self.beyond.clear();
        self.beyond.resize(2 * words, Lanes::ONES);

        let mut n_valid = 0;
        for (&text, &shared) in set.text_order.iter().zip(set.text_shared) {
            n_valid = n_valid.min(shared as usize);
            let text = text as usize;
            let inside = block.contains(&text);
            if inside && text < group.start {
                continue;
            }
            let first_line = set.starts[text].first_line as usize;
            let rows = set.rows_of(text);
            let patterns = &self.patterns;
            // An LCS cannot be larger than the number of tokens that text and patterns share.
            let limit_of = |row: usize| -> Option<LengthLimit> {
                let n = prepared.row_tokens[row];
                if !lengths.contains(&n) {
                    return None;
                }
                let limit = prepared.limits.of(n);
                let last_line = first_line + set.row_lines[row] as usize;
                (patterns.n_present(first_line, last_line) >= limit.least).then_some(limit)
            };
            let Some(last_row) = rows.clone().rev().find(|&row| limit_of(row).is_some()) else {
                continue;
            };

            let n_lanes =
                if inside { (text - group.start + 1).min(group.len()) } else { group.len() };
            let mut n_lines = n_valid;
            for row in rows.start..=last_row {
                let row_lines = set.row_lines[row] as usize;
                while n_lines < row_lines {
                    let tokens = patterns.text(set.line_ids[first_line + n_lines]);
                    if n_lines < self.n_kept {
                        let (before, after) = self.kept.split_at_mut((n_lines + 1) * words);
                        self.kernel.advance(
                            words,
                            &before[n_lines * words..],
                            after,
                            &patterns.table,
                            tokens,
                        );
                    } else {
                        let (now, next) = self.beyond.split_at_mut(words);
                        let from = if n_lines == self.n_kept {
                            &self.kept[n_lines * words..]
                        } else {
                            &*now
                        };
                        self.kernel.advance(words, from, next, &patterns.table, tokens);
                        now.copy_from_slice(next);
                    }
                    n_lines += 1;
                }
                let Some(limit) = limit_of(row) else { continue };
                let state = if row_lines <= self.n_kept {
                    &self.kept[row_lines * words..][..words]
                } else {
                    &self.beyond[..words]
                };
                let zeros =
                    self.kernel.zeros_below(state, (limit.longest as usize).min(64 * words));
                for lane in 0..n_lanes {
                    if zeros[lane] >= u64::from(limit.least) {
                        let mut read = ReadOut {
                            set,
                            prepared,
                            judge: &mut self.judge,
                            hits: &mut self.hits[lane],
                        };
                        read.lane(state, lane, group.start + lane, text, row, limit);
                    }
                }
            }
            n_valid = n_lines.min(self.n_kept);
            for hits in self.hits.iter_mut().filter(|hits| !hits.is_empty()) {
                on_text(hits);
                hits.clear();
            }
        }
    }

    /// Matches of one long pattern with all texts: the pattern in strips, for every text anew.
    pub(super) fn walk_long(
        &mut self,
        block: &Range<usize>,
        pattern: usize,
        on_text: &impl Fn(&[Hit<J::Score>]),
    ) {
        let (set, prepared) = (self.set, self.prepared);
        let pattern_rows = set.rows_of(pattern);
        let pattern_ends = &prepared.row_tokens[pattern_rows.clone()];
        let (Some(&smallest), Some(&largest)) = (pattern_ends.first(), pattern_ends.last()) else {
            return;
        };
        let lengths = prepared.limits.of(smallest).shortest..=prepared.limits.of(largest).longest;
        self.judge.begin(pattern_rows.clone());
        let hits = &mut self.hits[0];
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
            for (b, row_counts) in text_rows.zip(self.counts.chunks(pattern_ends.len())) {
                for (a, &lcs) in pattern_rows.clone().zip(row_counts) {
                    if pattern == text && a >= b {
                        continue;
                    }
                    let sum = prepared.row_tokens[a] + prepared.row_tokens[b];
                    if lcs >= prepared.limits.least(sum)
                        && let Some(score) = self.judge.score(a, b, lcs, sum)
                    {
                        hits.push(Hit { a: a as u32, b: b as u32, lcs, score });
                    }
                }
            }
            if !hits.is_empty() {
                on_text(hits);
                hits.clear();
            }
        }
    }
}

/// Reads the LCS of all rows of a pattern out of a state.
struct ReadOut<'w, 'a, T: JudgeState> {
    set: &'w WindowSet<'a>,
    prepared: &'w Prepared,
    judge: &'w mut T,
    hits: &'w mut Vec<Hit<T::Score>>,
}

impl<T: JudgeState> ReadOut<'_, '_, T> {
    /// `state` is that of the patterns after the lines of row `b` of `text`.
    fn lane(
        &mut self,
        state: &[Lanes],
        lane: usize,
        pattern: usize,
        text: usize,
        b: usize,
        limit: LengthLimit,
    ) {
        let limits = &self.prepared.limits;
        let n = self.prepared.row_tokens[b];
        let mut rows = self.set.rows_of(pattern);
        if pattern == text {
            rows.end = b;
        }
        let sizes = &self.prepared.row_tokens[rows.clone()];
        let eligible = sizes.partition_point(|&m| m < limit.shortest)
            ..sizes.partition_point(|&m| m <= limit.longest);
        let sizes = &sizes[eligible.clone()];
        let (Some(&shortest), Some(&longest)) = (sizes.first(), sizes.last()) else { return };
        // The longest row has the largest LCS, the shortest the smallest threshold.
        if zeros_of_lane(state, lane, longest) < limits.least(shortest + n) {
            return;
        }
        let (mut word, mut zeros) = (0, 0);
        for (a, &m) in (rows.start + eligible.start..).zip(sizes) {
            while word < m as usize / 64 {
                zeros += state[word].0[lane].count_zeros();
                word += 1;
            }
            let lcs = zeros + partial_zeros(state, lane, m);
            if lcs >= limits.least(m + n)
                && let Some(score) = self.judge.score(a, b, lcs, m + n)
            {
                self.hits.push(Hit { a: a as u32, b: b as u32, lcs, score });
            }
        }
    }
}

fn zeros_of_lane(state: &[Lanes], lane: usize, bits: u32) -> u32 {
    let whole: u32 =
        state[..bits as usize / 64].iter().map(|word| word.0[lane].count_zeros()).sum();
    whole + partial_zeros(state, lane, bits)
}

/// Zeros below bit `bits` in the word that holds that bit.
fn partial_zeros(state: &[Lanes], lane: usize, bits: u32) -> u32 {
    match bits % 64 {
        0 => 0,
        rest => (!state[bits as usize / 64].0[lane] & ((1 << rest) - 1)).count_ones(),
    }
}
