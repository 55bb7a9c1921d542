//! The LCS of two sequences of any length, in strips of the pattern: Hyyrö's bit-parallel recurrence on up to 32 words
//! at a time, with the carries between strips kept as one bit a text token. O(m·n/64) time; O(n/8) bytes and one strip's
//! table of at most 2048 x 32 words.

/// Pattern tokens of a strip.
const STRIP: usize = 2048;

const ABSENT: u32 = u32::MAX;

/// Reusable buffers. Symbols are below the number given to [`StripLcs::new`].
#[derive(Debug)]
pub(crate) struct StripLcs {
    row_of: Vec<u32>,
    symbols: Vec<u32>,
    table: Vec<u64>,
    n_words: usize,
    strip_len: usize,
    state: Vec<u64>,
    carries: Vec<u64>,
}

impl StripLcs {
    pub(crate) fn new(n_symbols: usize) -> Self {
        StripLcs {
            row_of: vec![ABSENT; n_symbols],
            symbols: vec![],
            table: vec![],
            n_words: 0,
            strip_len: 0,
            state: vec![],
            carries: vec![],
        }
    }

    /// The LCS of every given prefix of the pattern with every given prefix of the text, the text's the slower index.
    /// Ends are ascending token counts.
    pub(crate) fn prefixes(
        &mut self,
        pattern: &[u32],
        pattern_ends: &[u32],
        text: &[u32],
        text_ends: &[u32],
        counts: &mut Vec<u32>,
    ) {
        counts.clear();
        counts.resize(pattern_ends.len() * text_ends.len(), 0);
        self.carries.clear();
        self.carries.resize(text.len().div_ceil(64), 0);
        for (index, strip) in pattern.chunks(STRIP).enumerate() {
            let first = index * STRIP;
            self.take_pattern(strip);
            let mut read = 0;
            for (&text_end, counts) in
                text_ends.iter().zip(counts.chunks_mut(pattern_ends.len().max(1)))
            {
                for place in read..text_end as usize {
                    self.step_with_carry(text[place], place);
                }
                read = read.max(text_end as usize);
                for (&pattern_end, count) in pattern_ends.iter().zip(counts) {
                    *count += self.zeros_below((pattern_end as usize).saturating_sub(first));
                }
            }
        }
    }

    /// The LCS of two sequences.
    pub(crate) fn lcs(&mut self, a: &[u32], b: &[u32]) -> u32 {
        let (pattern, text) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        if pattern.len() <= STRIP {
            self.take_pattern(pattern);
            return self.lcs_with(text);
        }
        let mut counts = vec![];
        self.prefixes(pattern, &[pattern.len() as u32], text, &[text.len() as u32], &mut counts);
        counts.first().copied().unwrap_or(0)
    }

    /// Makes a strip ready for [`StripLcs::lcs_with`].
    fn take_pattern(&mut self, strip: &[u32]) {
        for symbol in self.symbols.drain(..) {
            self.row_of[symbol as usize] = ABSENT;
        }
        self.table.clear();
        self.n_words = strip.len().div_ceil(64);
        self.strip_len = strip.len();
        for (place, &symbol) in strip.iter().enumerate() {
            let row = &mut self.row_of[symbol as usize];
            if *row == ABSENT {
                *row = self.symbols.len() as u32;
                self.symbols.push(symbol);
                self.table.resize(self.table.len() + self.n_words, 0);
            }
            self.table[*row as usize * self.n_words + place / 64] |= 1 << (place % 64);
        }
        self.state.clear();
        self.state.resize(self.n_words, u64::MAX);
    }

    /// The LCS of the pattern taken and a text.
    fn lcs_with(&mut self, text: &[u32]) -> u32 {
        self.state.fill(u64::MAX);
        for &symbol in text {
            let row = self.row_of[symbol as usize];
            if row != ABSENT {
                let masks = &self.table[row as usize * self.n_words..][..self.n_words];
                step(&mut self.state, masks, false);
            }
        }
        self.zeros_below(self.strip_len)
    }

    /// A step of one strip among several: the carry of this text token comes from the strip below, and goes on to the
    /// one above. A token absent from this strip still passes a carry.
    fn step_with_carry(&mut self, symbol: u32, place: usize) {
        let carries = &mut self.carries[place / 64];
        let carry = *carries >> (place % 64) & 1 == 1;
        let row = self.row_of[symbol as usize];
        let carry = if row == ABSENT {
            carry && step_absent(&mut self.state)
        } else {
            step(&mut self.state, &self.table[row as usize * self.n_words..][..self.n_words], carry)
        };
        *carries = *carries & !(1 << (place % 64)) | u64::from(carry) << (place % 64);
    }

    fn zeros_below(&self, bits: usize) -> u32 {
        let bits = bits.min(self.strip_len);
        let whole: u32 = self.state[..bits / 64].iter().map(|word| word.count_zeros()).sum();
        match bits % 64 {
            0 => whole,
            rest => whole + (!self.state[bits / 64] & ((1 << rest) - 1)).count_ones(),
        }
    }
}

/// One text token; gives the carry out of the last word.
#[inline]
fn step(state: &mut [u64], masks: &[u64], mut carry: bool) -> bool {
    for (v, &m) in state.iter_mut().zip(masks) {
        let (sum, over) = v.overflowing_add(*v & m);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over | over_again;
        *v = sum | (*v & !m);
    }
    carry
}

/// One text token that the strip does not hold, with a carry coming in: it sets the lowest zero bit, or goes through.
fn step_absent(state: &mut [u64]) -> bool {
    for v in state {
        if *v != u64::MAX {
            *v |= *v + 1;
            return false;
        }
    }
    true
}
