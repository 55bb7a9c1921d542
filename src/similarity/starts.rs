//! The windows of one edit type as starts and rows: the form that the window operation takes (DESIGN 3.3).
//!
//! A start is a line of a root with the lines after it. Windows that begin with the same lines are prefixes of one
//! another, so a start stands for up to `max_lines` windows at once. O(W log W) for W windows, places included.

use std::cmp::Ordering;

use crate::backend::cpu::window_similarity::WORD_TOKENS;
use crate::code::{Span, TaskCode, Windows};
use crate::edits::EditType;
use crate::error::{Error, Result};
use crate::params::windows::{Start, WindowSet};

/// The windows of one edit type. Owns what a [`WindowSet`] borrows; see there for the arrays.
#[derive(Debug, Default)]
pub(super) struct Starts {
    starts: Vec<Start>,
    start_rows: Vec<u32>,
    row_lines: Vec<u32>,
    text_order: Vec<u32>,
    text_shared: Vec<u32>,
    row_places: Vec<u32>,
    place_turns: Vec<u32>,
    place_ranks: Vec<u32>,
    n_line_ids: usize,
    /// Candidate of each row.
    pub(super) candidates: Vec<u32>,
    /// Turn of the task for each turn of the set.
    pub(super) turns: Vec<u32>,
    /// Place of each rank.
    pub(super) spans: Vec<Span>,
}

/// A start before equal ones are merged: with the lines of its longest window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Raw {
    first_line: u32,
    n_lines: u32,
}

/// A place of a window. A whole root beyond the most lines of a window is alone with its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    is_long: bool,
    first_line: u32,
    n_lines: u32,
    candidate: u32,
}

impl Starts {
    /// Takes the candidates of one edit type; code and windows have been checked.
    pub(super) fn new(code: &TaskCode, windows: &Windows, edit_type: EditType) -> Self {
        let type_of =
            |candidate: usize| code.roots[windows.first(candidate as u32).root as usize].edit_type;
        let candidates: Vec<u32> =
            (0..windows.len()).filter(|&c| type_of(c) == edit_type).map(|c| c as u32).collect();
        let max_lines = windows.max_lines();
        let line_of = |span: Span| code.root_lines[span.root as usize] + span.start;

        // One raw start for each line at which windows begin, and one more for each longer whole root.
        let mut places: Vec<Place> = vec![];
        for &candidate in &candidates {
            for &span in windows.places(candidate) {
                places.push(Place {
                    is_long: span.len > max_lines,
                    first_line: line_of(span),
                    n_lines: span.len,
                    candidate,
                });
            }
        }
        places.sort_unstable();
        let raws: Vec<(Raw, &[Place])> = places
            .chunk_by(|x, y| (x.is_long, x.first_line) == (y.is_long, y.first_line))
            .map(|group| {
                let last = group[group.len() - 1];
                (Raw { first_line: last.first_line, n_lines: last.n_lines }, group)
            })
            .collect();

        // Equal ones are merged into the first, then put in the order of their size.
        let lines_of = |raw: Raw| &code.line_ids[raw.first_line as usize..][..raw.n_lines as usize];
        let mut by_lines: Vec<usize> = (0..raws.len()).collect();
        by_lines.sort_by(|&x, &y| {
            lines_of(raws[x].0)
                .cmp(lines_of(raws[y].0))
                .then(raws[x].0.first_line.cmp(&raws[y].0.first_line))
        });
        let mut merged_into = vec![0; raws.len()];
        let mut distinct: Vec<usize> = vec![];
        for group in by_lines.chunk_by(|&x, &y| lines_of(raws[x].0) == lines_of(raws[y].0)) {
            for &raw in group {
                merged_into[raw] = group[0];
            }
            distinct.push(group[0]);
        }
        let n_words = |raw: Raw| {
            let last = raw.first_line + raw.n_lines;
            (code.line_tokens[last as usize] - code.line_tokens[raw.first_line as usize])
                .div_ceil(WORD_TOKENS as u32)
        };
        distinct.sort_by_key(|&raw| {
            (n_words(raws[raw].0), raws[raw].0.first_line, raws[raw].0.n_lines)
        });
        let mut number = vec![u32::MAX; raws.len()];
        for (start, &raw) in distinct.iter().enumerate() {
            number[raw] = start as u32;
        }

        // A candidate is a row of the first start that begins with it.
        let mut owner = vec![(u32::MAX, 0); windows.len()];
        for (raw, (_, group)) in raws.iter().enumerate() {
            let start = number[merged_into[raw]];
            for place in *group {
                let owner = &mut owner[place.candidate as usize];
                *owner = (owner.0.min(start), place.n_lines);
            }
        }
        let mut rows: Vec<(u32, u32, u32)> = candidates
            .iter()
            .map(|&candidate| {
                let (start, n_lines) = owner[candidate as usize];
                (start, n_lines, candidate)
            })
            .collect();
        rows.sort_unstable();

        let mut built = Starts {
            n_line_ids: code.line_ids.iter().max().map_or(0, |&id| id as usize + 1),
            start_rows: vec![0],
            row_places: vec![0],
            ..Starts::default()
        };
        for of_start in rows.chunk_by(|x, y| x.0 == y.0) {
            // A start whose longest window is a row of an earlier start has none left: its windows are prefixes of
            // that one. So what is left has its full length, and the order by size holds.
            let (start, n_lines, _) = of_start[of_start.len() - 1];
            let first_line = raws[distinct[start as usize]].0.first_line;
            built.starts.push(Start { first_line, n_lines });
            for &(_, n_lines, candidate) in of_start {
                built.row_lines.push(n_lines);
                built.candidates.push(candidate);
            }
            built.start_rows.push(built.row_lines.len() as u32);
        }
        built.order_texts(code);
        built.place_rows(code, windows);
        built
    }

    fn order_texts(&mut self, code: &TaskCode) {
        let lines_of = |start: u32| {
            let Start { first_line, n_lines } = self.starts[start as usize];
            &code.line_ids[first_line as usize..][..n_lines as usize]
        };
        self.text_order = (0..self.starts.len() as u32).collect();
        self.text_order.sort_by(|&x, &y| match lines_of(x).cmp(lines_of(y)) {
            Ordering::Equal => x.cmp(&y),
            order => order,
        });
        let mut before: &[u32] = &[];
        let mut shared = Vec::with_capacity(self.text_order.len());
        for &start in &self.text_order {
            let lines = lines_of(start);
            shared.push(lines.iter().zip(before).take_while(|(x, y)| x == y).count() as u32);
            before = lines;
        }
        self.text_shared = shared;
    }

    /// The first place of each row in each turn, and the ranks of those places.
    fn place_rows(&mut self, code: &TaskCode, windows: &Windows) {
        let turn_of = |span: &Span| code.roots[span.root as usize].turn;
        let mut spans = vec![];
        for &candidate in &self.candidates {
            let places = windows.places(candidate);
            // Roots are in the order of their turns, and so are sorted places.
            for of_turn in places.chunk_by(|x, y| turn_of(x) == turn_of(y)) {
                spans.push(of_turn[0]);
            }
            self.row_places.push(spans.len() as u32);
        }
        let mut by_span: Vec<u32> = (0..spans.len() as u32).collect();
        by_span.sort_by_key(|&place| spans[place as usize]);
        self.place_ranks = vec![0; spans.len()];
        for (rank, &place) in by_span.iter().enumerate() {
            self.place_ranks[place as usize] = rank as u32;
        }
        self.turns = spans.iter().map(turn_of).collect();
        self.turns.sort_unstable();
        self.turns.dedup();
        self.place_turns = spans
            .iter()
            .map(|span| self.turns.partition_point(|&turn| turn < turn_of(span)) as u32)
            .collect();
        self.spans = by_span.iter().map(|&place| spans[place as usize]).collect();
    }

    /// The form that the operation takes.
    pub(super) fn as_set<'a>(&'a self, code: &'a TaskCode) -> WindowSet<'a> {
        WindowSet {
            tokens: &code.tokens,
            n_symbols: code.vocabulary.len(),
            line_tokens: &code.line_tokens,
            line_ids: &code.line_ids,
            n_line_ids: self.n_line_ids,
            starts: &self.starts,
            start_rows: &self.start_rows,
            row_lines: &self.row_lines,
            text_order: &self.text_order,
            text_shared: &self.text_shared,
            row_places: &self.row_places,
            place_turns: &self.place_turns,
            place_ranks: &self.place_ranks,
            n_turns: self.turns.len(),
        }
    }
}

const OP: &str = "similarity";

/// Fails unless the arrays of the code agree with one another.
pub(super) fn check_code(code: &TaskCode) -> Result<()> {
    let shape = |what: String| Err(Error::Shape { op: OP, what });
    let limit = u64::from(u32::MAX / 2);
    if code.tokens.len() as u64 > limit {
        return Err(Error::Limit {
            op: OP,
            what: "the code of one task (tokens)",
            needed: code.tokens.len() as u64,
            limit,
            advice: "split the task, or leave out generated files",
        });
    }
    check_offsets("line_tokens", &code.line_tokens, code.line_ids.len(), code.tokens.len())?;
    check_offsets("root_lines", &code.root_lines, code.roots.len(), code.line_ids.len())?;
    if let Some(&token) = code.tokens.iter().find(|&&token| token as usize >= code.vocabulary.len())
    {
        return shape(format!(
            "`tokens` holds {token}, but `vocabulary` has {}",
            code.vocabulary.len()
        ));
    }
    if let Some(i) = code.roots.windows(2).position(|pair| pair[0].turn > pair[1].turn) {
        return shape(format!(
            "`roots` must be in the order of their turns; root {} is not",
            i + 1
        ));
    }
    let tokens_of = |line: usize| {
        &code.tokens[code.line_tokens[line] as usize..code.line_tokens[line + 1] as usize]
    };
    let mut first_line: Vec<usize> = vec![];
    for (line, &id) in code.line_ids.iter().enumerate() {
        match first_line.get(id as usize) {
            Some(&first) if tokens_of(first) != tokens_of(line) => {
                return shape(format!("lines {first} and {line} have the id {id}, but differ"));
            }
            Some(_) => {}
            None if id as usize == first_line.len() => first_line.push(line),
            None => {
                return shape(format!(
                    "`line_ids` must be numbered by first occurrence; line {line} has {id}"
                ));
            }
        }
    }
    Ok(())
}

/// Fails unless `offsets` cuts `n_parts` parts out of `n_whole` entries. No parts may have no offsets at all.
fn check_offsets(name: &str, offsets: &[u32], n_parts: usize, n_whole: usize) -> Result<()> {
    let empty = n_parts == 0 && n_whole == 0 && offsets.is_empty();
    let fits = offsets.len() == n_parts + 1
        && offsets[0] == 0
        && offsets[n_parts] as usize == n_whole
        && offsets.is_sorted();
    if empty || fits {
        return Ok(());
    }
    let what = format!(
        "`{name}` has {} entries; it must have {}, ascending from 0 to {n_whole}",
        offsets.len(),
        n_parts + 1
    );
    Err(Error::Shape { op: OP, what })
}

/// Fails unless every window is a part of the code, and its places are sorted.
pub(super) fn check_windows(code: &TaskCode, windows: &Windows) -> Result<()> {
    for candidate in 0..windows.len() {
        let places = windows.places(candidate as u32);
        let inside = |span: &Span| {
            let root = span.root as usize;
            root < code.roots.len()
                && span.len > 0
                && u64::from(span.start) + u64::from(span.len)
                    <= u64::from(code.root_lines[root + 1] - code.root_lines[root])
        };
        if places.is_empty() || !places.iter().all(inside) || !places.is_sorted() {
            let what =
                format!("candidate {candidate} is no window of this code; make both from one task");
            return Err(Error::Shape { op: OP, what });
        }
    }
    Ok(())
}
