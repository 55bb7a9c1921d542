//! Matching blocks and opcodes of two sequences, as CPython's `difflib.SequenceMatcher` gives them.
//!
//! The longest run of equal symbols is a block (the earliest in `a` among equals, then the earliest in `b`); what lies
//! before and after it is matched in the same way. With `autojunk` a symbol that makes up more than 1 % of a `b` of 200
//! symbols or more starts no block, and can only lengthen one.
//!
//! For a row i of `a` the runs that end at (i, j) are those that end at (i-1, j-1), one longer: only the places of `a[i]`
//! in `b` are visited, from the last to the first, so that one array serves both rows. An entry has the number of the row
//! that wrote it, and is never cleared.

use rustc_hash::FxHashMap;

/// A run of equal symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Its first place in `a`.
    pub a: usize,
    /// Its first place in `b`.
    pub b: usize,
    /// Number of symbols.
    pub size: usize,
}

/// What an opcode does to a piece of `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// It is there in `b`.
    Equal,
    /// A piece of `b` stands for it.
    Replace,
    /// Nothing stands for it.
    Delete,
    /// The piece of `a` is empty.
    Insert,
}

impl Tag {
    /// Its name in difflib.
    pub fn name(self) -> &'static str {
        match self {
            Tag::Equal => "equal",
            Tag::Replace => "replace",
            Tag::Delete => "delete",
            Tag::Insert => "insert",
        }
    }
}

/// A piece of `a` and the piece of `b` that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode {
    /// What is done.
    pub tag: Tag,
    /// From and to (not included) in `a`.
    pub a: (usize, usize),
    /// From and to (not included) in `b`.
    pub b: (usize, usize),
}

/// The second sequence, made ready to be compared with many first ones.
#[derive(Debug, Clone)]
pub struct Matcher {
    b: Vec<u32>,
    /// Number of each symbol of `b`.
    numbers: FxHashMap<u32, u32>,
    /// By number: where its places begin, and at the end where the last one's end.
    starts: Vec<u32>,
    /// Places in `b`, ascending for each symbol; none for a symbol that is left out as frequent.
    places: Vec<u32>,
}

/// Memory that comparisons use again.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    /// For place j of `b`, at j + 1: the row that wrote it, and the length of the run that ends there.
    runs: Vec<(u64, u32)>,
    row: u64,
    /// For each symbol of `a`, its range in `places`.
    ranges: Vec<(u32, u32)>,
    windows: Vec<Window>,
    blocks: Vec<Block>,
}

/// Pieces of both sequences.
#[derive(Debug, Clone, Copy)]
struct Window {
    a: (usize, usize),
    b: (usize, usize),
}

impl Window {
    fn most(&self) -> usize {
        (self.a.1 - self.a.0).min(self.b.1 - self.b.0)
    }
}

impl Matcher {
    /// Makes `b` ready; its length must fit 32 bits.
    pub fn new(b: &[u32], autojunk: bool) -> Self {
        let mut numbers = FxHashMap::default();
        let mut counts: Vec<u32> = Vec::new();
        let of_places: Vec<u32> = b
            .iter()
            .map(|&symbol| {
                let number = *numbers.entry(symbol).or_insert(counts.len() as u32);
                if number as usize == counts.len() {
                    counts.push(0);
                }
                counts[number as usize] += 1;
                number
            })
            .collect();
        let most = if autojunk && b.len() >= 200 { b.len() / 100 + 1 } else { usize::MAX };
        let is_kept: Vec<bool> = counts.iter().map(|&count| count as usize <= most).collect();
        let mut starts = Vec::with_capacity(counts.len() + 1);
        let mut total = 0;
        for (&count, &is_kept) in counts.iter().zip(&is_kept) {
            starts.push(total);
            total += if is_kept { count } else { 0 };
        }
        starts.push(total);
        let mut places = vec![0; total as usize];
        let mut next = starts.clone();
        for (j, &number) in of_places.iter().enumerate() {
            let number = number as usize;
            if is_kept[number] {
                places[next[number] as usize] = j as u32;
                next[number] += 1;
            }
        }
        Matcher { b: b.to_vec(), numbers, starts, places }
    }

    /// The matching blocks, in order, neighbours joined.
    pub fn blocks(&self, a: &[u32], scratch: &mut Scratch) -> Vec<Block> {
        self.begin(a, scratch);
        scratch.blocks.clear();
        while let Some(window) = scratch.windows.pop() {
            if let Some(block) = self.split(a, window, scratch) {
                scratch.blocks.push(block);
            }
        }
        scratch.blocks.sort_unstable();
        let mut joined: Vec<Block> = Vec::with_capacity(scratch.blocks.len());
        for &block in &scratch.blocks {
            match joined.last_mut() {
                Some(last) if last.a + last.size == block.a && last.b + last.size == block.b => {
                    last.size += block.size;
                }
                _ => joined.push(block),
            }
        }
        joined
    }

    /// How `a` becomes `b`.
    pub fn opcodes(&self, a: &[u32], scratch: &mut Scratch) -> Vec<Opcode> {
        let mut blocks = self.blocks(a, scratch);
        blocks.push(Block { a: a.len(), b: self.b.len(), size: 0 });
        let (mut i, mut j) = (0, 0);
        let mut opcodes = Vec::with_capacity(2 * blocks.len());
        for block in blocks {
            let tag = match (i < block.a, j < block.b) {
                (true, true) => Some(Tag::Replace),
                (true, false) => Some(Tag::Delete),
                (false, true) => Some(Tag::Insert),
                (false, false) => None,
            };
            if let Some(tag) = tag {
                opcodes.push(Opcode { tag, a: (i, block.a), b: (j, block.b) });
            }
            (i, j) = (block.a + block.size, block.b + block.size);
            if block.size > 0 {
                opcodes.push(Opcode { tag: Tag::Equal, a: (block.a, i), b: (block.b, j) });
            }
        }
        opcodes
    }

    /// Number of symbols in matching blocks.
    pub fn matches(&self, a: &[u32], scratch: &mut Scratch) -> usize {
        self.blocks(a, scratch).iter().map(|block| block.size).sum()
    }

    /// Whether `needed` symbols or more are in matching blocks; stops as soon as it is known.
    pub fn reaches(&self, a: &[u32], needed: usize, scratch: &mut Scratch) -> bool {
        self.begin(a, scratch);
        let mut found = 0;
        let mut open: usize = scratch.windows.iter().map(Window::most).sum();
        while found < needed {
            if found + open < needed {
                return false;
            }
            let Some(window) = scratch.windows.pop() else { return false };
            open -= window.most();
            let before = scratch.windows.len();
            if let Some(block) = self.split(a, window, scratch) {
                found += block.size;
                open += scratch.windows[before..].iter().map(Window::most).sum::<usize>();
            }
        }
        true
    }

    fn begin(&self, a: &[u32], scratch: &mut Scratch) {
        scratch.ranges.clear();
        scratch.ranges.extend(a.iter().map(|symbol| match self.numbers.get(symbol) {
            Some(&number) => (self.starts[number as usize], self.starts[number as usize + 1]),
            None => (0, 0),
        }));
        if scratch.runs.len() <= self.b.len() {
            scratch.runs.resize(self.b.len() + 1, (0, 0));
        }
        scratch.windows.clear();
        scratch.windows.push(Window { a: (0, a.len()), b: (0, self.b.len()) });
    }

    /// The longest block of a window, if there is one; what lies beside it is left to do.
    fn split(&self, a: &[u32], window: Window, scratch: &mut Scratch) -> Option<Block> {
        let block = self.longest(a, window, scratch);
        if block.size == 0 {
            return None;
        }
        let (a_end, b_end) = (block.a + block.size, block.b + block.size);
        if window.a.0 < block.a && window.b.0 < block.b {
            scratch.windows.push(Window { a: (window.a.0, block.a), b: (window.b.0, block.b) });
        }
        if a_end < window.a.1 && b_end < window.b.1 {
            scratch.windows.push(Window { a: (a_end, window.a.1), b: (b_end, window.b.1) });
        }
        Some(block)
    }

    fn longest(&self, a: &[u32], window: Window, scratch: &mut Scratch) -> Block {
        let Window { a: (a_start, a_end), b: (b_start, b_end) } = window;
        let mut best = Block { a: a_start, b: b_start, size: 0 };
        // No run goes on from a row of another window.
        scratch.row += 1;
        for i in a_start..a_end {
            scratch.row += 1;
            let (first, last) = scratch.ranges[i];
            let mut places = &self.places[first as usize..last as usize];
            if places.is_empty() {
                continue;
            }
            if b_start > 0 {
                places = &places[places.partition_point(|&j| (j as usize) < b_start)..];
            }
            if b_end < self.b.len() {
                places = &places[..places.partition_point(|&j| (j as usize) < b_end)];
            }
            let longest_above = best.size;
            for &j in places.iter().rev() {
                let j = j as usize;
                let (row, length) = scratch.runs[j];
                let goes_on = row + 1 == scratch.row && j > b_start;
                let length = if goes_on { length + 1 } else { 1 };
                scratch.runs[j + 1] = (scratch.row, length);
                let size = length as usize;
                // Among runs of one row the earliest: places go down.
                if size > longest_above && size >= best.size {
                    best = Block { a: i + 1 - size, b: j + 1 - size, size };
                }
            }
        }
        // Over symbols that start no block.
        while best.a > a_start && best.b > b_start && a[best.a - 1] == self.b[best.b - 1] {
            best = Block { a: best.a - 1, b: best.b - 1, size: best.size + 1 };
        }
        while best.a + best.size < a_end
            && best.b + best.size < b_end
            && a[best.a + best.size] == self.b[best.b + best.size]
        {
            best.size += 1;
        }
        best
    }
}

/// `SequenceMatcher(None, a, b, autojunk).get_opcodes()`.
pub fn opcodes(a: &[u32], b: &[u32], autojunk: bool) -> Vec<Opcode> {
    Matcher::new(b, autojunk).opcodes(a, &mut Scratch::default())
}

/// `SequenceMatcher(None, a, b, autojunk).ratio()`.
pub fn ratio(a: &[u32], b: &[u32], autojunk: bool) -> f64 {
    let length = a.len() + b.len();
    if length == 0 {
        return 1.0;
    }
    2.0 * Matcher::new(b, autojunk).matches(a, &mut Scratch::default()) as f64 / length as f64
}
