//! Pairs of rows with their LCS: patterns go up in batches of one size, texts past them in parts of bounded work, and
//! what is found comes down as a list.

use std::ops::Range;

use bytemuck::NoUninit;

use super::SHADER;
use crate::backend::cpu::window_similarity::RowPair;
use crate::backend::wgpu::Wgpu;
use crate::backend::wgpu::driver::{Memory, Step};
use crate::error::{Error, Result};
use crate::params::limits::Limits;

/// Places of a pattern in a word.
const WORD_TOKENS: usize = 31;
/// Texts of a workgroup.
const THREADS: usize = 64;
/// Words of a length in `code`.
const LIMIT_WORDS: usize = 3;
/// Words of the symbols of a pattern's tokens: the highest bit marks the first of a symbol.
const FIRST_OF_SYMBOL: u32 = 1 << 31;

/// Words of a pair in `found`: two rows and their LCS.
const PAIR_BYTES: u64 = size_of::<RowPair>() as u64;
const HEADER_BYTES: u64 = 4 * HEADER_WORDS as u64;

/// Steps of one word in a dispatch, at most: well below a second on a small GPU.
const MOST_STEPS: u64 = 1 << 29;
/// Turns of the loops of one thread, about: llvmpipe ends loops after 65,535 without a word, and systems reset devices that
/// take long.
const MOST_TURNS: usize = 20_000;
/// Turns of a part of a walk that cannot be interrupted; together with [`MOST_TURNS`] still below that bound.
const MOST_TURNS_OF_PART: usize = 20_000;
/// Words before the pairs in `found`, and before a state in `table`.
const HEADER_WORDS: usize = 2;
const CURSOR_WORDS: usize = 2;
/// Bytes of patterns at a time, and of pairs that are found.
const MOST_TABLE_BYTES: u64 = 64 << 20;
const MOST_FOUND_BYTES: u64 = 16 << 20;

/// `Args` of the shader.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
struct Args {
    n_patterns: u32,
    first_pattern: u32,
    n_texts: u32,
    first_text: u32,
    first_of_block: u32,
    words: u32,
    table_words: u32,
    states: u32,
    n_symbols: u32,
    most_pairs: u32,
    starts: u32,
    rows: u32,
    least: u32,
    limits: u32,
    skipped: u32,
    text_groups: u32,
    most_turns: u32,
    is_resumed: u32,
    unused: [u32; 2],
}

/// Sequences, and which of them may match.
pub(in crate::backend::wgpu) struct Code<'a> {
    pub(in crate::backend::wgpu) op: &'static str,
    /// Tokens, each below `n_symbols`.
    pub(in crate::backend::wgpu) tokens: &'a [u32],
    pub(in crate::backend::wgpu) n_symbols: usize,
    /// Where the tokens of each start are.
    pub(in crate::backend::wgpu) start_tokens: Vec<Range<usize>>,
    /// Offsets of the rows of each start: its first tokens, the longest row all of them.
    pub(in crate::backend::wgpu) start_rows: &'a [u32],
    pub(in crate::backend::wgpu) row_tokens: &'a [u32],
    pub(in crate::backend::wgpu) limits: &'a Limits,
    /// See [`Search::block`](crate::backend::cpu::window_similarity::Search).
    pub(in crate::backend::wgpu) block: Range<usize>,
}

/// One search, with what does not change during it on the device.
pub(in crate::backend::wgpu) struct Finder<'a> {
    device: &'a Wgpu,
    code: &'a Code<'a>,
    words: Memory,
    /// Offsets in `code`.
    args: Args,
    /// Tokens of all starts before each.
    tokens_before: Vec<u64>,
    /// Rows of a start, at most.
    most_rows: usize,
    table_bytes: u64,
    /// A header, then pairs.
    found: Memory,
    most_pairs: u32,
}

/// Patterns on the device.
struct Patterns {
    starts: Range<usize>,
    size: u32,
    words: usize,
    table_words: usize,
    rows: Memory,
    table: Memory,
    /// Texts whose states the table has room for; all of them where states are in registers.
    most_texts: usize,
}

impl<'a> Finder<'a> {
    pub(in crate::backend::wgpu) fn new(device: &'a Wgpu, code: &'a Code<'a>) -> Result<Self> {
        let mut words = code.tokens.to_vec();
        let mut tokens_before = vec![0];
        let mut part = |values: &mut dyn Iterator<Item = u32>| {
            let at = words.len() as u32;
            words.extend(values);
            at
        };
        let mut starts = vec![];
        for (start, range) in code.start_tokens.iter().enumerate() {
            starts.extend([range.start as u32, range.len() as u32]);
            starts.extend(&code.start_rows[start..start + 2]);
            tokens_before.push(tokens_before[start] + range.len() as u64);
        }
        let longest = code.row_tokens.iter().copied().max().unwrap_or(0);
        let limits = (0..=longest).flat_map(|n| {
            let limit = code.limits.of(n);
            [limit.shortest, limit.longest, limit.least]
        });
        let args = Args {
            n_patterns: 0,
            first_pattern: 0,
            n_texts: 0,
            first_text: 0,
            first_of_block: code.block.start as u32,
            words: 0,
            table_words: 0,
            states: 0,
            n_symbols: code.n_symbols as u32,
            most_pairs: 0,
            starts: part(&mut starts.into_iter()),
            rows: part(&mut code.row_tokens.iter().copied()),
            least: part(&mut (0..=2 * longest).map(|sum| code.limits.least(sum))),
            limits: part(&mut { limits }),
            skipped: 0,
            text_groups: 0,
            most_turns: MOST_TURNS as u32,
            is_resumed: 0,
            unused: [0; 2],
        };
        debug_assert_eq!(words.len(), args.limits as usize + LIMIT_WORDS * (longest as usize + 1));
        let most_bytes = device.limits().binding_bytes;
        let most_pairs = most_bytes.min(MOST_FOUND_BYTES).saturating_sub(HEADER_BYTES) / PAIR_BYTES;
        Ok(Finder {
            device,
            code,
            words: device.upload(&words)?,
            args,
            tokens_before,
            most_rows: code
                .start_rows
                .windows(2)
                .map(|rows| (rows[1] - rows[0]) as usize)
                .max()
                .unwrap_or(0),
            table_bytes: most_bytes.min(MOST_TABLE_BYTES),
            found: device.zeros(HEADER_BYTES + most_pairs * PAIR_BYTES)?,
            most_pairs: most_pairs as u32,
        })
    }

    pub(in crate::backend::wgpu) fn find(
        &self,
        take: &mut dyn FnMut(&mut [RowPair]),
    ) -> Result<()> {
        let mut builder = Builder::new(self.code.n_symbols);
        let mut first = self.code.block.start;
        while first < self.code.block.end {
            let patterns = self.patterns(first, &mut builder)?;
            first = patterns.starts.end;
            self.walk_all(&patterns, take)?;
        }
        Ok(())
    }

    /// As many patterns as fit, from `first` on, of one size.
    fn patterns(&self, first: usize, builder: &mut Builder) -> Result<Patterns> {
        let code = self.code;
        let mut end = first;
        let (mut size, mut words, mut table_words) = (0, 0, 0);
        let mut of_patterns: Vec<Vec<u32>> = vec![];
        let mut n_row_words = 0;
        while end < self.code.block.end {
            let (its_size, its_words) = self.size_of(end)?;
            // Patterns whose states are in the table are walked alone.
            if end > first && (its_size != size || its_size == 0) {
                break;
            }
            let (rows, n_rows) = builder.rows_of(code, end);
            let its_table = code.n_symbols + (n_rows + 1) * its_words;
            let most = table_words.max(its_table);
            let n = end - first + 1;
            let of_states = if its_size == 0 { THREADS * (CURSOR_WORDS + its_words) } else { 0 };
            let table_bytes = 4 * (n * most + of_states) as u64;
            let row_bytes = 4 * (n + n_row_words + rows.len()) as u64;
            if table_bytes.max(row_bytes) > self.table_bytes {
                if end > first {
                    break;
                }
                return Err(Error::Limit {
                    op: self.code.op,
                    what: "the table of one window (bytes)",
                    needed: table_bytes.max(row_bytes),
                    limit: self.table_bytes,
                    advice: "leave out generated files, or use Device::cpu()",
                });
            }
            (size, words, table_words) = (its_size, its_words, most);
            n_row_words += rows.len();
            of_patterns.push(rows);
            end += 1;
        }
        let n = end - first;
        // Where each pattern begins, then the patterns.
        let mut rows = Vec::with_capacity(n + n_row_words);
        let mut at = n as u32;
        for pattern in &of_patterns {
            rows.push(at);
            at += pattern.len() as u32;
        }
        rows.extend(of_patterns.into_iter().flatten());
        let (n_state_words, most_texts) = match size {
            0 => {
                let free = self.table_bytes as usize / 4 - n * table_words;
                let of_text = CURSOR_WORDS + words;
                let most_texts =
                    (free / of_text).min(code.start_tokens.len().next_multiple_of(THREADS));
                (most_texts * of_text, most_texts)
            }
            _ => (0, usize::MAX),
        };
        let patterns = Patterns {
            starts: first..end,
            size,
            words,
            table_words,
            rows: self.device.upload(&rows)?,
            table: self.device.zeros(4 * (n * table_words + n_state_words) as u64)?,
            most_texts,
        };
        Ok(patterns)
    }

    /// The size of the shader for a pattern, 0 where walks must be interrupted; and the words of a state.
    fn size_of(&self, pattern: usize) -> Result<(u32, usize)> {
        let code = self.code;
        let n_tokens = code.start_tokens[pattern].len();
        let words = n_tokens.div_ceil(WORD_TOKENS).max(1);
        let n_rows = (code.start_rows[pattern + 1] - code.start_rows[pattern]) as usize;
        let longest = code.limits.of(n_tokens as u32).longest as usize;
        let turns = |words: usize| longest * (words + 1) + self.most_rows * (2 * words + n_rows);
        let size = SHADER.sizes.iter().find(|&&size| size as usize >= words);
        if let Some(&size) = size
            && turns(size as usize) <= MOST_TURNS + MOST_TURNS_OF_PART
        {
            return Ok((size, size as usize));
        }
        if 2 * words + n_rows > MOST_TURNS_OF_PART {
            return Err(Error::Limit {
                op: code.op,
                what: "the work on one window (steps)",
                needed: (2 * words + n_rows) as u64,
                limit: MOST_TURNS_OF_PART as u64,
                advice: "leave out generated files, lower `max_lines`, or use Device::cpu()",
            });
        }
        Ok((0, words))
    }

    /// The end of the texts without those at the end that are too long for all of the patterns.
    fn last_text(&self, patterns: &Patterns, texts: Range<usize>) -> usize {
        let code = self.code;
        let longest_row = |start: usize| code.row_tokens[code.start_rows[start + 1] as usize - 1];
        let shortest_row = |start: usize| code.row_tokens[code.start_rows[start] as usize];
        let most = patterns.starts.clone().map(longest_row).max().unwrap_or(0);
        let longest = code.limits.of(most).longest;
        let fits = |&start: &usize| shortest_row(start) <= longest;
        texts.rev().find(fits).map_or(0, |start| start + 1)
    }

    /// All texts past the patterns, in parts of bounded work.
    fn walk_all(&self, patterns: &Patterns, take: &mut dyn FnMut(&mut [RowPair])) -> Result<()> {
        let mut is_built = false;
        // Texts inside the block before all of the patterns are walked as patterns.
        let before = 0..self.code.block.start;
        let after = patterns.starts.start..self.code.start_tokens.len();
        let steps_per_token = (patterns.starts.len() * patterns.words) as u64;
        for texts in [before, after] {
            let (mut first, last) = (texts.start, self.last_text(patterns, texts));
            while first < last {
                let mut end = (first + THREADS).min(last);
                let steps = |end: usize| {
                    (self.tokens_before[end] - self.tokens_before[first]) * steps_per_token
                };
                while end < last && steps(end) < MOST_STEPS {
                    end = (end + THREADS).min(last);
                }
                end = end.min(first.saturating_add(patterns.most_texts));
                self.walk(patterns, patterns.starts.clone(), first..end, &mut is_built, take)?;
                first = end;
            }
        }
        Ok(())
    }

    /// Some of the patterns with some texts; halves them where too many pairs are found.
    fn walk(
        &self,
        patterns: &Patterns,
        starts: Range<usize>,
        texts: Range<usize>,
        is_built: &mut bool,
        take: &mut dyn FnMut(&mut [RowPair]),
    ) -> Result<()> {
        let most_pairs = self.most_pairs;
        let found = &self.found;
        self.device.overwrite(found, &[0; HEADER_WORDS])?;
        let text_groups = texts.len().div_ceil(THREADS);
        let args = Args {
            n_patterns: starts.len() as u32,
            first_pattern: starts.start as u32,
            n_texts: texts.len() as u32,
            first_text: texts.start as u32,
            words: patterns.words as u32,
            table_words: patterns.table_words as u32,
            states: (patterns.starts.len() * patterns.table_words) as u32,
            skipped: (starts.start - patterns.starts.start) as u32,
            text_groups: text_groups as u32,
            most_pairs,
            ..self.args
        };
        let mut n_pairs;
        let mut is_resumed = 0;
        loop {
            let args = self.device.parameters(&Args { is_resumed, ..args })?;
            let memory = [&args, &self.words, &patterns.rows, &patterns.table, found];
            let step = |entry, workgroups: usize| Step {
                shader: &SHADER,
                size: patterns.size,
                entry,
                memory: &memory,
                workgroups: workgroups as u32,
            };
            let walk = step("window_similarity_walk", starts.len() * text_groups);
            let steps = match *is_built {
                true => vec![walk],
                false => vec![step("window_similarity_patterns", patterns.starts.len()), walk],
            };
            *is_built = true;
            let read = self.device.run(&steps, &[(found, HEADER_BYTES)])?;
            let n_unfinished;
            (n_pairs, n_unfinished) = (read[0][0], read[0][1]);
            if n_unfinished == 0 || n_pairs > most_pairs {
                break;
            }
            self.device.overwrite(found, &[n_pairs, 0])?;
            is_resumed = 1;
        }
        if n_pairs <= most_pairs {
            if n_pairs > 0 {
                let n_bytes = HEADER_BYTES + u64::from(n_pairs) * PAIR_BYTES;
                let read = self.device.run(&[], &[(found, n_bytes)])?;
                let (pairs, _) = read[0][HEADER_WORDS..].as_chunks::<3>();
                let pair = |&[a, b, lcs]: &[u32; 3]| RowPair { a, b, lcs };
                take(&mut pairs.iter().map(pair).collect::<Vec<_>>());
            }
            return Ok(());
        }
        let halves = |range: &Range<usize>| {
            let middle = range.start + range.len() / 2;
            [range.start..middle, middle..range.end]
        };
        if texts.len() > 1 {
            for half in halves(&texts) {
                self.walk(patterns, starts.clone(), half, is_built, take)?;
            }
        } else if starts.len() > 1 {
            for half in halves(&starts) {
                self.walk(patterns, half, texts.clone(), is_built, take)?;
            }
        } else {
            return Err(Error::Limit {
                op: self.code.op,
                what: "the matching rows of two starts (pairs)",
                needed: u64::from(n_pairs),
                limit: u64::from(most_pairs),
                advice: "lower `max_lines`, or use Device::cpu()",
            });
        }
        Ok(())
    }
}

/// Numbers the symbols of a pattern.
struct Builder {
    row_of: Vec<u32>,
}

impl Builder {
    fn new(n_symbols: usize) -> Self {
        Builder { row_of: vec![0; n_symbols] }
    }

    /// For each token of a start, its table row, from 1, the first of a symbol marked; and how many there are.
    fn rows_of(&mut self, code: &Code<'_>, start: usize) -> (Vec<u32>, usize) {
        let tokens = &code.tokens[code.start_tokens[start].clone()];
        let mut n_rows = 0;
        let number = |&symbol: &u32| {
            let row = &mut self.row_of[symbol as usize];
            if *row != 0 {
                return *row;
            }
            n_rows += 1;
            *row = n_rows;
            n_rows | FIRST_OF_SYMBOL
        };
        let rows = tokens.iter().map(number).collect();
        for &symbol in tokens {
            self.row_of[symbol as usize] = 0;
        }
        (rows, n_rows as usize)
    }
}
