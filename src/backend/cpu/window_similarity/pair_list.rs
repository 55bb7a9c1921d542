//! The sorted list of all matching pairs of rows.
//!
//! The list is sorted by counting, in three passes that each stay in the caches. While pairs are found they go to the
//! range of first numbers that theirs is in. Then, range by range, to the bucket of their first number; and inside a
//! bucket their second numbers are marked in a bit set, which is read in order. O(pairs), and a pass over a bit set as
//! wide as the bucket.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::best_lexical::Narrow;
use super::judge::{JudgeState, NearRows};
use super::lanes::{Kernel, READ_ROWS};
use super::{Prepared, Sink, WindowSet};
use crate::error::{Error, Result};
use crate::params::Match;

/// Numbers of two rows, the lower first, and their LCS.
type Pair = (u32, u32, u32);

/// Pairs that a thread keeps for a range before it adds them to the list.
const PART_PAIRS: usize = 512;
const MAX_RANGES: usize = 256;
/// Numbers of a range, at least.
const RANGE_NUMBERS: usize = 64;

/// The pairs that all threads have found.
#[derive(Debug)]
pub(super) struct PairList<'a> {
    /// A number for each row; the list is in the order of these.
    numbers: &'a [u32],
    first_number: u32,
    n_numbers: usize,
    /// A range holds this power of two of numbers.
    range_bits: u32,
    /// The most pairs that fit.
    limit: u64,
    n_pairs: AtomicU64,
    /// For each range of first numbers, the pairs in parts.
    parts: Vec<Mutex<Vec<Vec<Pair>>>>,
}

impl<'a> PairList<'a> {
    /// A list that takes at most `memory` bytes, before and after it is sorted.
    pub(super) fn new(numbers: &'a [u32], memory: u64) -> Self {
        let first_number = numbers.iter().copied().min().unwrap_or(0);
        let n_numbers = numbers.iter().max().map_or(0, |&last| (last - first_number) as usize + 1);
        let of_range = n_numbers.div_ceil(MAX_RANGES).max(RANGE_NUMBERS).next_power_of_two();
        PairList {
            numbers,
            first_number,
            n_numbers,
            range_bits: of_range.ilog2(),
            limit: memory / (size_of::<Pair>() + size_of::<Match>()) as u64,
            n_pairs: AtomicU64::new(0),
            parts: (0..n_numbers.div_ceil(of_range)).map(|_| Mutex::new(vec![])).collect(),
        }
    }

    /// Adds a pair to the parts of a thread.
    #[inline(always)]
    fn add(&self, parts: &mut [Vec<Pair>], pair: Pair) {
        let pair = (pair.0 - self.first_number, pair.1 - self.first_number, pair.2);
        let range = (pair.0 >> self.range_bits) as usize;
        let part = &mut parts[range];
        part.push(pair);
        if part.len() >= PART_PAIRS {
            self.flush(range, part);
        }
    }

    /// Takes a part into the list and leaves it empty.
    #[inline(never)]
    fn flush(&self, range: usize, part: &mut Vec<Pair>) {
        // Past the limit they are only counted, so that the error can say how many there are.
        let n_pairs = part.len() as u64;
        if self.n_pairs.fetch_add(n_pairs, Relaxed) + n_pairs <= self.limit {
            let part = std::mem::replace(part, Vec::with_capacity(part.len()));
            self.parts[range].lock().unwrap_or_else(PoisonError::into_inner).push(part);
        }
        part.clear();
    }

    /// The pairs, sorted. Fails if there are more than fit.
    pub(super) fn finish(self) -> Result<Vec<Match>> {
        let n_pairs = self.n_pairs.into_inner();
        if n_pairs > self.limit {
            return Err(Error::Limit {
                op: "matches",
                what: "the list of matching pairs (pairs)",
                needed: n_pairs,
                limit: self.limit,
                advice: "raise `memory_limit`, raise `eta`, or ask for the occurrences instead",
            });
        }
        let mut matches = vec![Match { a: 0, b: 0, lcs: 0 }; n_pairs as usize];
        let mut ranges = vec![];
        let mut rest = matches.as_mut_slice();
        for (range, parts) in self.parts.into_iter().enumerate() {
            let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
            let of_range;
            (of_range, rest) = rest.split_at_mut(parts.iter().map(Vec::len).sum());
            let first = range << self.range_bits;
            let numbers = first..(first + (1 << self.range_bits)).min(self.n_numbers);
            ranges.push((numbers, parts, of_range));
        }
        let (first_number, n_numbers) = (self.first_number, self.n_numbers);
        ranges.into_par_iter().for_each_init(
            || Sorter::new(first_number, n_numbers),
            |sorter, (numbers, parts, matches)| sorter.sort(numbers, &parts, matches),
        );
        Ok(matches)
    }
}

/// Sorts the pairs of a range. The buffers of one thread.
#[derive(Debug)]
struct Sorter {
    first_number: u32,
    /// Where the bucket of each first number of the range begins; while it fills, how far it is.
    ends: Vec<u32>,
    /// Second number and LCS of each pair, by bucket.
    by_first: Vec<(u32, u32)>,
    /// A bit for each second number of a bucket; all 0 between buckets.
    seconds: Vec<u64>,
    lcs_of: Vec<u32>,
}

impl Sorter {
    fn new(first_number: u32, n_numbers: usize) -> Self {
        Sorter {
            first_number,
            ends: vec![],
            by_first: vec![],
            seconds: vec![0; n_numbers.div_ceil(64)],
            lcs_of: vec![0; n_numbers],
        }
    }

    /// `numbers` are the first numbers of all pairs, and `matches` has room for just these. No two pairs are equal.
    fn sort(&mut self, numbers: Range<usize>, parts: &[Vec<Pair>], matches: &mut [Match]) {
        let at = |first: u32| first as usize - numbers.start;
        self.ends.clear();
        self.ends.resize(numbers.len() + 1, 0);
        for &(first, ..) in parts.iter().flatten() {
            self.ends[at(first) + 1] += 1;
        }
        let mut end = 0;
        for size in &mut self.ends {
            end += *size;
            *size = end;
        }
        self.by_first.clear();
        self.by_first.resize(matches.len(), (0, 0));
        for &(first, second, lcs) in parts.iter().flatten() {
            let end = &mut self.ends[at(first)];
            self.by_first[*end as usize] = (second, lcs);
            *end += 1;
        }
        let (mut rest, mut begin) = (matches, 0);
        for (number, &end) in numbers.zip(&self.ends) {
            let bucket = &self.by_first[begin as usize..end as usize];
            begin = end;
            let matches;
            (matches, rest) = rest.split_at_mut(bucket.len());
            let a = self.first_number + number as u32;
            read_in_order(
                a,
                self.first_number,
                bucket,
                &mut self.seconds,
                &mut self.lcs_of,
                matches,
            );
        }
    }
}

/// Reads the pairs of a bucket by ascending second number. `seconds` is all 0 before and after.
fn read_in_order(
    a: u32,
    first_number: u32,
    bucket: &[(u32, u32)],
    seconds: &mut [u64],
    lcs_of: &mut [u32],
    matches: &mut [Match],
) {
    let (mut least, mut most) = (usize::MAX, 0);
    for &(second, lcs) in bucket {
        let word = second as usize / 64;
        seconds[word] |= 1 << (second % 64);
        lcs_of[second as usize] = lcs;
        least = least.min(word);
        most = most.max(word);
    }
    let mut matches = matches.iter_mut();
    for word in least..=most {
        let mut bits = std::mem::take(&mut seconds[word]);
        while bits != 0 {
            let second = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if let Some(to) = matches.next() {
                *to = Match { a, b: first_number + second as u32, lcs: lcs_of[second] };
            }
        }
    }
}

/// Takes the matches that one thread finds.
pub(super) struct PairSink<'a, T> {
    set: &'a WindowSet<'a>,
    prepared: &'a Prepared,
    judge: T,
    list: &'a PairList<'a>,
    /// When the LCS decides alone.
    narrow: Option<Narrow>,
    /// A part for each range of first numbers.
    parts: Vec<Vec<Pair>>,
}

impl<'a, T: JudgeState> PairSink<'a, T> {
    pub(super) fn new(
        set: &'a WindowSet<'a>,
        prepared: &'a Prepared,
        judge: T,
        list: &'a PairList<'a>,
        narrow: Option<Narrow>,
    ) -> Self {
        let parts = vec![vec![]; list.parts.len()];
        PairSink { set, prepared, judge, list, narrow, parts }
    }
}

impl<T: JudgeState> Sink for PairSink<'_, T> {
    fn begin(&mut self, group: Range<usize>) {
        self.judge.begin(self.set.rows_of_starts(group));
    }

    #[inline(always)]
    fn begin_text<K: Kernel>(&mut self, kernel: K, text: usize) -> Option<NearRows> {
        self.judge.near_rows(kernel, text)
    }

    #[inline(always)]
    fn take<K: Kernel>(
        &mut self,
        kernel: K,
        b: usize,
        first_a: usize,
        n_rows: usize,
        lcs: &[u32; READ_ROWS],
    ) {
        let number_b = self.list.numbers[b];
        let numbers = &self.list.numbers[first_a..][..n_rows];
        let mut add = |at: usize| {
            let number_a = numbers[at];
            self.list
                .add(&mut self.parts, (number_a.min(number_b), number_a.max(number_b), lcs[at]));
        };
        if let Some(narrow) = self.narrow {
            let (_, mut found_at) =
                narrow.read_matches(kernel, self.prepared, b, first_a, n_rows, lcs);
            while found_at != 0 {
                add(found_at.trailing_zeros() as usize);
                found_at &= found_at - 1;
            }
        } else {
            let n = self.prepared.row_tokens[b];
            let least = self.prepared.limits.least_from(n);
            for at in 0..n_rows {
                let m = self.prepared.row_tokens[first_a + at];
                if lcs[at] >= least[m as usize]
                    && self.judge.similarity(first_a + at, b, lcs[at], m + n).is_some()
                {
                    add(at);
                }
            }
        }
    }

    fn end_text(&mut self) {}

    fn end(&mut self) {}
}

impl<T> Drop for PairSink<'_, T> {
    fn drop(&mut self) {
        for (range, part) in self.parts.iter_mut().enumerate() {
            self.list.flush(range, part);
        }
    }
}
