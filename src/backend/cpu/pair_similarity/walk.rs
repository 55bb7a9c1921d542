//! One group of patterns against every text it needs, in lexicographic order: a text goes on from the state that the
//! text before it had after the beginning they share.
//!
//! # The band
//! Let the pattern have m tokens, the text n >= m, and let a match need an LCS of T. Of a common subsequence of L >= T
//! tokens, let the k-th be token i of the pattern and j of the text. Before it, i - k tokens of the pattern are left out,
//! of at most m - T, and j - k of the text, of at most n - T. So `-(n - T) <= i - j <= m - T`: a longest common
//! subsequence of a match lies in that band.
//! Limbs outside it are not touched. That is the recurrence with M = 0 there: below the band no limb borrows and Z stays;
//! above it Z is still 0, and `(0 - 0 - borrow) & (0 | 0)` is 0 whatever comes in. So what is counted is the LCS without
//! the equal tokens outside: the true one for a match, and no more than the true one otherwise. m - T falls as n grows,
//! so above the band the least n, m, serves for every text; n - T is that of the text, and for a beginning that later
//! texts share the largest of theirs. A wider band is never wrong.
//!
//! # Giving up
//! Of the first j tokens of the text at most c, the count so far, are in a common subsequence, by the above also for a
//! match, so at least j - c are left out. With more than n - T there is no match.

use super::distinct::Distinct;
use super::groups::{Chain, Group};
use super::lanes::{Kernel, LIMB, Lanes, Masks, N_LANES, Prefix};

const ABSENT: u32 = 0;
/// With fewer limbs every one is in use.
const LEAST_LIMBS_OF_BAND: usize = 3;
/// A shorter rest of a text is not worth a look whether it can still match.
const LEAST_TOKENS_TO_GIVE_UP: usize = 64;

/// An item of the group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) rank: u32,
    pub(super) len: u32,
}

/// What one thread needs to run groups.
#[derive(Debug)]
pub(super) struct Walk {
    kernel: Kernel,
    /// The table row of each symbol; row 0 is that of symbols no pattern has.
    row_of: Vec<u32>,
    symbols: Vec<u32>,
    table: Vec<Lanes>,
    n_limbs: usize,
    /// The items of the group, and the same as prefixes of the patterns.
    slots: Vec<Slot>,
    prefixes: Vec<Prefix>,
    /// For each text the slots that need it, and which texts have any.
    wanted: Vec<u64>,
    any_wanted: Vec<u64>,
    texts: Vec<u32>,
    /// Tokens that a text shares with the one before it.
    resume: Vec<u32>,
    /// The next text that shares less.
    next_less: Vec<u32>,
    /// How far the band goes above the diagonal, for all texts, and below it, for each.
    above: usize,
    below: Vec<u32>,
    /// The largest of `below` from a text to the next one that shares less.
    most_below: Vec<u32>,
    state: Vec<Lanes>,
    /// States after beginnings of the current text, and the lengths of these.
    saved: Vec<Lanes>,
    saved_at: Vec<u32>,
    /// Lengths of the beginnings to save, and how far below the diagonal the band goes in them.
    to_save: Vec<(u32, u32)>,
}

impl Walk {
    /// For `n_texts` distinct items over `n_symbols` symbols.
    pub(super) fn new(kernel: Kernel, n_texts: usize, n_symbols: usize) -> Self {
        Walk {
            kernel,
            row_of: vec![ABSENT; n_symbols],
            symbols: vec![],
            table: vec![],
            n_limbs: 0,
            slots: vec![],
            prefixes: vec![],
            wanted: vec![0; n_texts],
            any_wanted: vec![0; n_texts.div_ceil(64)],
            texts: vec![],
            resume: vec![],
            next_less: vec![],
            above: 0,
            below: vec![],
            most_below: vec![],
            state: vec![],
            saved: vec![],
            saved_at: vec![],
            to_save: vec![],
        }
    }

    /// Makes a group ready; gives its items, at most 64, each with at least one token.
    pub(super) fn take(&mut self, distinct: &Distinct<'_>, group: &Group) -> &[Slot] {
        for symbol in self.symbols.drain(..) {
            self.row_of[symbol as usize] = ABSENT;
        }
        self.n_limbs = group.n_limbs;
        self.table.clear();
        self.table.resize(self.n_limbs, Lanes::ZEROS);
        self.slots.clear();
        self.prefixes.clear();
        for (lane, &Chain { first, last }) in group.chains.iter().enumerate().take(N_LANES) {
            self.add_pattern(lane, distinct.item(last));
            for rank in first..=last {
                let len = distinct.item_len(rank);
                self.slots.push(Slot { rank, len });
                self.prefixes.push(Prefix::new(lane, len));
            }
        }
        &self.slots
    }

    fn add_pattern(&mut self, lane: usize, pattern: &[u32]) {
        for (limb, part) in pattern.chunks(super::lanes::LIMB).enumerate() {
            for (bit, &symbol) in part.iter().enumerate() {
                let row = &mut self.row_of[symbol as usize];
                if *row == ABSENT {
                    self.symbols.push(symbol);
                    *row = self.symbols.len() as u32;
                    self.table.resize(self.table.len() + self.n_limbs, Lanes::ZEROS);
                }
                self.table[*row as usize * self.n_limbs + limb].0[lane] |= 1 << bit;
            }
        }
    }

    /// The item of a slot.
    pub(super) fn rank_of_slot(&self, slot: usize) -> u32 {
        self.slots[slot].rank
    }

    /// Notes that a slot needs a text.
    #[inline]
    pub(super) fn want(&mut self, slot: usize, text: u32) {
        self.wanted[text as usize] |= 1 << slot;
        self.any_wanted[text as usize / 64] |= 1 << (text % 64);
    }

    /// Runs the group over all texts wanted; `least` holds by the sum of two lengths the least LCS of a match. No text is
    /// shorter than an item that wants it. `found` gets each text, the slots that may match it as bits, and their LCS, or
    /// less where they do not match; nothing is wanted afterwards.
    pub(super) fn run(
        &mut self,
        distinct: &Distinct<'_>,
        least: &[u32],
        mut found: impl FnMut(u32, u64, &[Slot], &[u32; 64]),
    ) {
        self.line_up(distinct, least);
        self.saved.clear();
        self.saved_at.clear();
        self.state.clear();
        self.state.resize(self.n_limbs, Lanes::ZEROS);
        let mut counts = [0; 64];
        for index in 0..self.texts.len() {
            let rank = self.texts[index];
            let text = distinct.item(rank);
            let mut at = self.resume_at(self.resume[index]);
            // The beginnings that later texts go on from: of those up to the next text that shares less with this one
            // than this with the one before, each that is less than all before it.
            self.to_save.clear();
            let mut later = index + 1;
            let mut below = self.below[index];
            while let Some(&share) = self.resume.get(later).filter(|&&share| share as usize > at) {
                below = below.max(self.most_below[later]);
                self.to_save.push((share, below));
                later = self.next_less[later] as usize;
            }
            while let Some((share, below)) = self.to_save.pop() {
                self.advance(text, at..share as usize, below);
                at = share as usize;
                self.saved.extend_from_slice(&self.state);
                self.saved_at.push(share);
            }
            let mut alive = std::mem::take(&mut self.wanted[rank as usize]);
            while text.len() - at > LEAST_TOKENS_TO_GIVE_UP && self.n_limbs >= LEAST_LIMBS_OF_BAND {
                alive = self.able(alive, at as u32, text.len() as u32, least, &mut counts);
                if alive == 0 {
                    break;
                }
                let end = at + (text.len() - at) / 2;
                self.advance(text, at..end, self.below[index]);
                at = end;
            }
            if alive != 0 {
                self.advance(text, at..text.len(), self.below[index]);
                self.kernel.ones(&self.state, &self.prefixes, alive, &mut counts);
                found(rank, alive, &self.slots, &counts);
            }
        }
    }

    /// Those of `slots` that can still match a text of `len` tokens after the first `at`.
    fn able(&self, slots: u64, at: u32, len: u32, least: &[u32], counts: &mut [u32; 64]) -> u64 {
        self.kernel.ones(&self.state, &self.prefixes, slots, counts);
        let mut able = 0;
        let mut left = slots;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            let needed = least[(self.slots[slot].len + len) as usize];
            able |= u64::from(counts[slot] + (len - at) >= needed) << slot;
        }
        able
    }

    /// Lists the texts wanted, in order, with what each shares with the one before, and their bands.
    fn line_up(&mut self, distinct: &Distinct<'_>, least: &[u32]) {
        self.texts.clear();
        for (block, bits) in self.any_wanted.iter_mut().enumerate() {
            while *bits != 0 {
                self.texts.push(block as u32 * 64 + bits.trailing_zeros());
                *bits &= *bits - 1;
            }
        }
        self.resume.clear();
        self.resume.extend(self.texts.first().map(|_| 0));
        let pairs = self.texts.windows(2);
        self.resume.extend(pairs.map(|pair| distinct.common_prefix(pair[0], pair[1])));
        self.find_bands(distinct, least);
        let n_texts = self.texts.len();
        self.next_less.clear();
        self.next_less.resize(n_texts, n_texts as u32);
        self.most_below.clone_from(&self.below);
        for index in (0..n_texts).rev() {
            let mut next = index + 1;
            while next < n_texts && self.resume[next] >= self.resume[index] {
                self.most_below[index] = self.most_below[index].max(self.most_below[next]);
                next = self.next_less[next] as usize;
            }
            self.next_less[index] = next as u32;
        }
    }

    fn find_bands(&mut self, distinct: &Distinct<'_>, least: &[u32]) {
        self.below.clear();
        if self.n_limbs < LEAST_LIMBS_OF_BAND {
            self.above = self.n_limbs * LIMB;
            self.below.resize(self.texts.len(), u32::MAX);
            return;
        }
        let above = |slot: &Slot| slot.len - least[2 * slot.len as usize];
        self.above = self.slots.iter().map(above).max().unwrap_or(0) as usize;
        for &text in &self.texts {
            let len = distinct.item_len(text);
            let mut shortest = u32::MAX;
            let mut left = self.wanted[text as usize];
            while left != 0 {
                shortest = shortest.min(self.slots[left.trailing_zeros() as usize].len);
                left &= left - 1;
            }
            self.below.push(len - least[(shortest.min(len) + len) as usize]);
        }
    }

    /// Takes the state after the longest saved beginning of at most `share` tokens; gives its length.
    fn resume_at(&mut self, share: u32) -> usize {
        while self.saved_at.last().is_some_and(|&at| at > share) {
            self.saved_at.pop();
        }
        self.saved.truncate(self.saved_at.len() * self.n_limbs);
        match self.saved_at.last() {
            Some(&at) => {
                let start = self.saved.len() - self.n_limbs;
                self.state.copy_from_slice(&self.saved[start..]);
                at as usize
            }
            None => {
                self.state.fill(Lanes::ZEROS);
                0
            }
        }
    }

    /// Goes on over a range of a text, with the limbs that the band has there.
    fn advance(&mut self, text: &[u32], range: std::ops::Range<usize>, below: u32) {
        let below = below as usize;
        let mut at = range.start;
        while at < range.end {
            let first = at.saturating_sub(below) / LIMB;
            if first >= self.n_limbs {
                break;
            }
            let last = ((at + self.above) / LIMB).min(self.n_limbs - 1);
            let mut end = range.end.min((first + 1) * LIMB + below);
            if last + 1 < self.n_limbs {
                end = end.min((last + 1) * LIMB - self.above);
            }
            let masks =
                Masks { table: &self.table[first..], stride: self.n_limbs, row_of: &self.row_of };
            self.kernel.advance(&mut self.state[first..=last], masks, &text[at..end]);
            at = end;
        }
    }
}
