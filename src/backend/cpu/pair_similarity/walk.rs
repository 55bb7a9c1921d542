//! One group of patterns against every text it needs, in lexicographic order: a text goes on from the state that the
//! text before it had after the beginning they share.

use super::distinct::Distinct;
use super::groups::{Chain, Group};
use super::lanes::{Kernel, Lanes, N_LANES, Prefix};

const ABSENT: u32 = 0;

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
    state: Vec<Lanes>,
    /// States after beginnings of the current text, and the lengths of these.
    saved: Vec<Lanes>,
    saved_at: Vec<u32>,
    to_save: Vec<u32>,
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

    /// Runs the group over all texts wanted. `found` gets each text, the slots that wanted it as bits, and their LCS;
    /// nothing is wanted afterwards.
    pub(super) fn run(
        &mut self,
        distinct: &Distinct<'_>,
        mut found: impl FnMut(u32, u64, &[Slot], &[u32; 64]),
    ) {
        self.line_up(distinct);
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
            while let Some(&share) = self.resume.get(later).filter(|&&share| share as usize > at) {
                self.to_save.push(share);
                later = self.next_less[later] as usize;
            }
            while let Some(share) = self.to_save.pop() {
                self.advance(&text[at..share as usize]);
                at = share as usize;
                self.saved.extend_from_slice(&self.state);
                self.saved_at.push(share);
            }
            self.advance(&text[at..]);
            let wanted = std::mem::take(&mut self.wanted[rank as usize]);
            self.kernel.ones(&self.state, &self.prefixes, wanted, &mut counts);
            found(rank, wanted, &self.slots, &counts);
        }
    }

    /// Lists the texts wanted, in order, with what each shares with the one before.
    fn line_up(&mut self, distinct: &Distinct<'_>) {
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
        let n_texts = self.texts.len();
        self.next_less.clear();
        self.next_less.resize(n_texts, n_texts as u32);
        for index in (0..n_texts).rev() {
            let mut next = index + 1;
            while next < n_texts && self.resume[next] >= self.resume[index] {
                next = self.next_less[next] as usize;
            }
            self.next_less[index] = next as u32;
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

    fn advance(&mut self, text: &[u32]) {
        if !text.is_empty() {
            self.kernel.advance(&mut self.state, &self.table, &self.row_of, text);
        }
    }
}
