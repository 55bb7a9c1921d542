//! Small made-up tasks for the tests of similarity.

use hunkwise::code::{Root, TaskCode};
use hunkwise::edits::EditType;

/// A root diff: turn, edit type, and its lines as code tokens.
pub(crate) type RootLines = (u32, EditType, Vec<Vec<u32>>);

/// The code of a task with these roots, in the order of their turns. Token `t` has the text `t<t>`.
pub(crate) fn task(roots: &[RootLines]) -> TaskCode {
    let mut roots = roots.to_vec();
    roots.sort_by_key(|root| root.0);
    let mut code = TaskCode { line_tokens: vec![0], root_lines: vec![0], ..TaskCode::default() };
    let mut token_numbers: Vec<u32> = vec![];
    let mut lines: Vec<Vec<u32>> = vec![];
    for (turn, edit_type, root) in roots {
        for line in root {
            for token in &line {
                let known = token_numbers.iter().position(|t| t == token);
                let number = known.unwrap_or_else(|| {
                    token_numbers.push(*token);
                    code.vocabulary.push(format!("t{token}").into_bytes().into());
                    token_numbers.len() - 1
                });
                code.tokens.push(number as u32);
            }
            code.line_tokens.push(code.tokens.len() as u32);
            let known = lines.iter().position(|l| *l == line);
            code.line_ids.push(known.unwrap_or(lines.len()) as u32);
            if known.is_none() {
                lines.push(line);
            }
            code.line_bytes.push(0..0);
        }
        code.root_lines.push(code.line_ids.len() as u32);
        code.roots.push(Root { turn, edit_type, path: String::new() });
    }
    let n_turns = code.roots.last().map_or(0, |root| root.turn + 1);
    code.turn_trajectory = (0..n_turns).collect();
    code
}

/// splitmix64: numbers that are the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % n
    }
}

/// What a random task looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) n_turns: u64,
    pub(crate) max_roots_per_turn: u64,
    pub(crate) max_root_lines: u64,
    /// Lines in the grammar; few make many near matches.
    pub(crate) n_lines: u64,
    pub(crate) max_line_tokens: u64,
    pub(crate) n_symbols: u64,
    pub(crate) n_types: u64,
}

/// A task whose roots are edited copies of one program: lines come from a small grammar, and some are changed, dropped
/// or doubled.
pub(crate) fn random_task(random: &mut Random, shape: Shape) -> TaskCode {
    let line = |random: &mut Random| -> Vec<u32> {
        (0..1 + random.below(shape.max_line_tokens))
            .map(|_| random.below(shape.n_symbols) as u32)
            .collect()
    };
    let grammar: Vec<Vec<u32>> = (0..shape.n_lines).map(|_| line(random)).collect();
    let program: Vec<usize> =
        (0..shape.max_root_lines).map(|_| random.below(shape.n_lines) as usize).collect();
    let mut roots = vec![];
    for turn in 0..shape.n_turns {
        for _ in 0..random.below(shape.max_roots_per_turn + 1) {
            let edit_type = [EditType::Add, EditType::Delete, EditType::Overwrite]
                [random.below(shape.n_types) as usize];
            let first = random.below(shape.max_root_lines) as usize;
            let n_lines = 1 + random.below(shape.max_root_lines - first as u64) as usize;
            let mut lines = vec![];
            for &number in &program[first..first + n_lines] {
                let mut line_now = grammar[number].clone();
                match random.below(10) {
                    0 => {
                        let at = random.below(line_now.len() as u64) as usize;
                        line_now[at] = random.below(shape.n_symbols) as u32;
                    }
                    1 if !lines.is_empty() => continue,
                    2 => lines.push(line_now.clone()),
                    3 => line_now = line(random),
                    _ => {}
                }
                lines.push(line_now);
            }
            roots.push((turn as u32, edit_type, lines));
        }
    }
    task(&roots)
}
