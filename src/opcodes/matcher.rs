//! Matching blocks and opcodes of two sequences, as CPython's `difflib.SequenceMatcher` gives them.
//!
//! The longest run of equal symbols is a block (the earliest in `a` among equals, then the earliest in `b`); what lies
//! before and after it is matched in the same way. With `autojunk` a symbol that makes up more than 1 % of a `b` of 200
//! symbols or more starts no block, and can only lengthen one.
//!
//! For a row i of `a` the runs that end at (i, j) are those that end at (i-1, j-1), one longer: only the places of `a[i]`
//! in `b` are visited, from the last to the first, so that one array serves both rows. An entry has the number of the row
//! that wrote it, and is never cleared.
//!
//! Where few places are equal, as in lines of code, all runs are found once: what a piece of both sequences has is those
//! runs, cut to it, and each piece takes what it needs of them along. Where many are (characters), rows are walked again
//! for each piece.

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
    /// For each symbol its range in `places`.
    ranges: Ranges,
    /// Places in `b`, ascending for each symbol; none for a symbol that is left out as frequent.
    places: Vec<u32>,
    /// Some symbol is left out.
    leaves_out: bool,
}

/// Ranges by symbol: at the symbol's place where symbols are small numbers, else in a map.
#[derive(Debug, Clone)]
enum Ranges {
    Table(Vec<(u32, u32)>),
    Map(FxHashMap<u32, (u32, u32)>),
}

impl Ranges {
    /// Empty ranges for the symbols of `b`.
    fn new(b: &[u32]) -> Self {
        let largest = b.iter().copied().max().unwrap_or(0) as usize;
        if largest < SMALL * b.len().max(SMALL) {
            Ranges::Table(vec![(0, 0); largest + 1])
        } else {
            Ranges::Map(FxHashMap::default())
        }
    }

    fn get(&self, symbol: u32) -> (u32, u32) {
        match self {
            Ranges::Table(ranges) => ranges.get(symbol as usize).copied().unwrap_or((0, 0)),
            Ranges::Map(ranges) => ranges.get(&symbol).copied().unwrap_or((0, 0)),
        }
    }

    /// The range of a symbol of the sequence that these are made for.
    fn at(&mut self, symbol: u32) -> &mut (u32, u32) {
        match self {
            Ranges::Table(ranges) => &mut ranges[symbol as usize],
            Ranges::Map(ranges) => ranges.entry(symbol).or_default(),
        }
    }
}

/// Symbols below this many times the length of a sequence (and the square of this) are small.
const SMALL: usize = 64;

/// Memory that comparisons use again.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    /// For place j of `b`, at j + 1: the row that wrote it, and the length or the number of the run that ends there.
    ends: Vec<(u64, u32)>,
    row: u64,
    /// For each symbol of `a`, its range in `places`.
    ranges: Vec<(u32, u32)>,
    /// All runs are in `runs`, those of the last window last.
    has_runs: bool,
    runs: Vec<Block>,
    of_window: Vec<Block>,
    windows: Vec<Window>,
    /// Most symbols that the windows can match.
    open: usize,
    blocks: Vec<Block>,
}

/// Pieces of both sequences that are to be matched.
#[derive(Debug, Clone, Copy)]
struct Window {
    a: (usize, usize),
    b: (usize, usize),
    /// Where its runs begin.
    first_run: usize,
}

impl Window {
    fn most(&self) -> usize {
        (self.a.1 - self.a.0).min(self.b.1 - self.b.0)
    }

    /// What a run has in it.
    fn cut(&self, run: &Block) -> Option<Block> {
        let skipped = self.a.0.saturating_sub(run.a).max(self.b.0.saturating_sub(run.b));
        let end = run.size.min(self.a.1.saturating_sub(run.a)).min(self.b.1.saturating_sub(run.b));
        (skipped < end).then(|| Block {
            a: run.a + skipped,
            b: run.b + skipped,
            size: end - skipped,
        })
    }
}

/// Runs are found at once where there are at most this many pairs of equal places for each symbol of both sequences.
const FEW: usize = 4;

impl Matcher {
    /// Makes `b` ready; its length must fit 32 bits.
    pub fn new(b: &[u32], autojunk: bool) -> Self {
        let mut ranges = Ranges::new(b);
        let mut counts: Vec<u32> = Vec::new();
        // Symbols are numbered as they come; until the end a range begins with one more than the number.
        let numbers: Vec<usize> = b
            .iter()
            .map(|&symbol| {
                let range = ranges.at(symbol);
                if range.0 == 0 {
                    counts.push(0);
                    range.0 = counts.len() as u32;
                }
                let number = range.0 as usize - 1;
                counts[number] += 1;
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
        for (j, &number) in numbers.iter().enumerate() {
            if is_kept[number] {
                places[next[number] as usize] = j as u32;
                next[number] += 1;
            }
        }
        for (&symbol, &number) in b.iter().zip(&numbers) {
            *ranges.at(symbol) = (starts[number], starts[number + 1]);
        }
        let leaves_out = places.len() < b.len();
        Matcher { b: b.to_vec(), ranges, places, leaves_out }
    }

    /// The matching blocks, in order, neighbours joined.
    pub fn blocks(&self, a: &[u32], scratch: &mut Scratch) -> Vec<Block> {
        self.begin(a, scratch);
        scratch.blocks.clear();
        while let Some(block) = self.next(a, scratch) {
            if block.size > 0 {
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
        while found < needed {
            if found + scratch.open < needed {
                return false;
            }
            let Some(block) = self.next(a, scratch) else { return false };
            found += block.size;
        }
        true
    }

    fn begin(&self, a: &[u32], scratch: &mut Scratch) {
        scratch.ranges.clear();
        let mut n_equal = 0;
        scratch.ranges.extend(a.iter().map(|&symbol| {
            let range = self.ranges.get(symbol);
            n_equal += (range.1 - range.0) as usize;
            range
        }));
        if scratch.ends.len() <= self.b.len() {
            scratch.ends.resize(self.b.len() + 1, (0, 0));
        }
        scratch.has_runs = n_equal <= FEW * (a.len() + self.b.len());
        scratch.runs.clear();
        scratch.windows.clear();
        scratch.open = 0;
        if scratch.has_runs {
            self.find_runs(scratch);
        }
        let whole = Window { a: (0, a.len()), b: (0, self.b.len()), first_run: 0 };
        scratch.open += whole.most();
        scratch.windows.push(whole);
    }

    /// All runs of both sequences.
    fn find_runs(&self, scratch: &mut Scratch) {
        // No run goes on from what was compared before.
        scratch.row += 1;
        for (i, &(first, last)) in scratch.ranges.iter().enumerate() {
            scratch.row += 1;
            for &j in self.places[first as usize..last as usize].iter().rev() {
                let j = j as usize;
                let (row, number) = scratch.ends[j];
                let goes_on = j > 0 && row + 1 == scratch.row;
                let number = if goes_on {
                    scratch.runs[number as usize].size += 1;
                    number
                } else {
                    scratch.runs.push(Block { a: i, b: j, size: 1 });
                    scratch.runs.len() as u32 - 1
                };
                scratch.ends[j + 1] = (scratch.row, number);
            }
        }
    }

    /// Takes a window and gives its longest block, of size 0 where nothing is equal; what lies beside it is left to do.
    fn next(&self, a: &[u32], scratch: &mut Scratch) -> Option<Block> {
        let window = scratch.windows.pop()?;
        scratch.open -= window.most();
        let longest = if scratch.has_runs {
            scratch.of_window.clear();
            scratch.of_window.extend(scratch.runs.drain(window.first_run..));
            let order = |run: &Block| (std::cmp::Reverse(run.size), run.a, run.b);
            scratch.of_window.iter().copied().min_by_key(order)
        } else {
            self.walk(window, scratch)
        };
        let none = Block { a: window.a.0, b: window.b.0, size: 0 };
        let block = self.lengthened(a, window, longest.unwrap_or(none));
        if block.size > 0 {
            let (a_end, b_end) = (block.a + block.size, block.b + block.size);
            self.leave(scratch, (window.a.0, block.a), (window.b.0, block.b));
            self.leave(scratch, (a_end, window.a.1), (b_end, window.b.1));
        }
        Some(block)
    }

    /// Leaves a window to be done, if anything in it can be equal.
    fn leave(&self, scratch: &mut Scratch, a: (usize, usize), b: (usize, usize)) {
        let window = Window { a, b, first_run: scratch.runs.len() };
        if window.most() == 0 {
            return;
        }
        if scratch.has_runs {
            scratch.runs.extend(scratch.of_window.iter().filter_map(|run| window.cut(run)));
            if scratch.runs.len() == window.first_run && !self.leaves_out {
                return;
            }
        }
        scratch.open += window.most();
        scratch.windows.push(window);
    }

    /// The longest run of a window, row by row.
    fn walk(&self, window: Window, scratch: &mut Scratch) -> Option<Block> {
        let Window { a: (a_start, a_end), b: (b_start, b_end), .. } = window;
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
                let (row, length) = scratch.ends[j];
                let goes_on = row + 1 == scratch.row && j > b_start;
                let length = if goes_on { length + 1 } else { 1 };
                scratch.ends[j + 1] = (scratch.row, length);
                let size = length as usize;
                // Among runs of one row the earliest: places go down.
                if size > longest_above && size >= best.size {
                    best = Block { a: i + 1 - size, b: j + 1 - size, size };
                }
            }
        }
        (best.size > 0).then_some(best)
    }

    /// The block with what is equal before and after it, symbols that start no block included.
    fn lengthened(&self, a: &[u32], window: Window, mut block: Block) -> Block {
        while block.a > window.a.0 && block.b > window.b.0 && a[block.a - 1] == self.b[block.b - 1]
        {
            block = Block { a: block.a - 1, b: block.b - 1, size: block.size + 1 };
        }
        while block.a + block.size < window.a.1
            && block.b + block.size < window.b.1
            && a[block.a + block.size] == self.b[block.b + block.size]
        {
            block.size += 1;
        }
        block
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
