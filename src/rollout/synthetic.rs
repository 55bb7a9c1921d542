//! Made-up rollouts of any size, for measuring: edits that resemble real ones, the same for the same seed.
//!
//! A task has one program that its rollouts write: a row of snippets. A turn writes the next few, each the usual way, in
//! one of two other ways, or with a name or number changed, a line more or a line less; and takes away what stood there.
//! The last turns of a rollout come back to the beginning of the program. A turn has one to three edits, and a rollout
//! keeps to one of four notations. Rewards and observations are those of a test run whose passing tests come and go, so
//! equal observations recur too. A task does not change when there are more tasks, and a rollout not when there are more
//! rollouts: a larger batch contains the smaller one.
//!
//! How much edits recur is that of real attempts in order of magnitude: 4 to 7 code tokens a line; of the lines of 20
//! rollouts of 60 lines about a seventh are distinct, and seven windows of 1 to 32 lines for each line; a window has an
//! equal one in a sixth, and a match (similarity from 0.8) in half of the other rollouts, but in 3 % of the other turns
//! of its own. `dev/synthetic.md` has the figures of the real attempts and the command that measures them.
//!
//! O(tasks · rollouts · turns · lines).

use std::fmt::Write as _;
use std::str::FromStr;

use super::{Batch, Key, Row, Sequence, Tokens, Turn};
use crate::error::{Error, Place, Result};

/// How many rollouts, and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Shape {
    /// Tasks, at least 1.
    pub n_tasks: u32,
    /// Rollouts of each task, at least 1.
    pub n_rollouts: u32,
    /// Turns of each rollout, at least 1; a row each.
    pub n_turns: u32,
    /// Lines that a turn deletes or adds, at least 1.
    pub n_lines: u32,
}

/// Most lines of all turns together: some 4 GB of text and tokens.
const MOST_LINES: u64 = 50_000_000;
/// A turn without any line takes as much as this many lines.
const LINES_OF_A_TURN: u32 = 16;
/// Bytes of a token.
const TOKEN_BYTES: usize = 4;
/// One in so many lines of a turn is deleted, the others are added.
const OLD_PART: usize = 5;
/// Tests of every task.
const N_TESTS: u64 = 8;

impl Shape {
    /// Checks that no number is 0 and that the batch can be held.
    ///
    /// # Errors
    /// [`Error::Config`] for a number that is 0, [`Error::Limit`] for more than 50 million lines in all, each turn
    /// counted as 16 more.
    pub fn validate(self) -> Result<()> {
        let sizes = [self.n_tasks, self.n_rollouts, self.n_turns, self.n_lines];
        if sizes.contains(&0) {
            return Err(shape_error(sizes.map(|size| size.to_string()).join("x")));
        }
        let n_lines = u64::from(self.n_lines) + u64::from(LINES_OF_A_TURN);
        let n_lines = sizes[..3].iter().fold(n_lines, |all, &size| all.saturating_mul(size.into()));
        if n_lines > MOST_LINES {
            return Err(Error::Limit {
                op: "synthetic",
                what: "lines of all turns, each turn counted as 16 more,",
                needed: n_lines,
                limit: MOST_LINES,
                advice: "ask for fewer tasks, rollouts, turns or lines",
            });
        }
        Ok(())
    }
}

/// `TASKSxROLLOUTSxTURNSxLINES`.
impl FromStr for Shape {
    type Err = Error;

    fn from_str(text: &str) -> Result<Shape> {
        let sizes: Option<Vec<u32>> = text.split('x').map(|size| size.parse().ok()).collect();
        match sizes.as_deref() {
            Some(&[n_tasks, n_rollouts, n_turns, n_lines]) => {
                let shape = Shape { n_tasks, n_rollouts, n_turns, n_lines };
                shape.validate()?;
                Ok(shape)
            }
            _ => Err(shape_error(text.to_string())),
        }
    }
}

fn shape_error(got: String) -> Error {
    let expected =
        "four whole numbers from 1: tasks, rollouts, turns and lines, for example 6x32x8x50";
    Error::Config { op: "synthetic", name: "shape", got, expected }
}

/// A batch of this shape: a row for each turn, with tokens of four bytes, all trained.
///
/// # Errors
/// As [`Shape::validate`].
pub fn synthetic(shape: Shape, seed: u64) -> Result<Batch> {
    shape.validate()?;
    let mut rows = Vec::new();
    for task_idx in 0..shape.n_tasks {
        let mut random = Random::new(&[seed, task_idx.into()]);
        let task = MadeTask::new(&mut random, shape.n_turns as usize, shape.n_lines as usize);
        for rollout in 0..shape.n_rollouts {
            let random = Random::new(&[seed, task_idx.into(), rollout.into()]);
            add_rollout(&mut rows, &task, (task_idx, rollout), shape, random);
        }
    }
    Ok(Batch::new(rows))
}

fn add_rollout(
    rows: &mut Vec<Row>,
    task: &MadeTask,
    (task_idx, rollout): (u32, u32),
    shape: Shape,
    mut random: Random,
) {
    let notation = NOTATIONS[random.below(NOTATIONS.len())];
    let mut n_passing = random.below(3) as u64;
    // Half of the rollouts begin at the beginning.
    let mut place = random.below(2) * random.below(task.places.len());
    let first_row = rows.len();
    for turn in 0..shape.n_turns {
        let observation = match turn {
            0 => format!("Task {task_idx}: {n} tests fail. Make them pass.", n = N_TESTS),
            _ => format!("{n_passing} of {N_TESTS} tests pass."),
        };
        let text = response(task, notation, shape.n_lines as usize, &mut place, &mut random);
        let text = text.into_bytes();
        let before = n_passing;
        n_passing = (n_passing + random.below(4) as u64).saturating_sub(1).min(N_TESTS);
        let reward = (n_passing as f64 - before as f64) / N_TESTS as f64;
        let n_tokens = text.len().div_ceil(TOKEN_BYTES);
        let byte_ends =
            (1..=n_tokens).map(|token| (token * TOKEN_BYTES).min(text.len()) as u32).collect();
        rows.push(Row {
            task: Key::Text(format!("task-{task_idx}")),
            trajectory: Some(Key::Int(rollout.into())),
            order: Some(turn.into()),
            outcome: None,
            unscored: false,
            sequence: Sequence {
                tokens: Some(Tokens { byte_ends, mask: vec![true; n_tokens] }),
                turns: vec![Turn {
                    bytes: 0..text.len(),
                    reward: Some(reward),
                    observation: Some(observation),
                }],
                text,
                first_turn: 0,
                place: Place::new("synthetic", rows.len() as u64 + 1),
            },
        });
    }
    for row in &mut rows[first_row..] {
        row.outcome = Some(if n_passing >= N_TESTS / 2 { 1.0 } else { 0.0 });
    }
}

/// What the rollouts of a task share: one program, and what it is to replace.
struct MadeTask {
    /// Places of the program in their order, each with what is written there.
    places: Vec<[Snippet; N_WAYS]>,
    /// Lines that stand in its files before.
    old: Vec<String>,
}

/// Ways to write one place; the first is the usual one.
const N_WAYS: usize = 3;
/// The program has as many lines as this part of the turns of a rollout write: the last turns come back to it.
const PROGRAM_TURNS: (usize, usize) = (3, 4);

impl MadeTask {
    fn new(random: &mut Random, n_turns: usize, n_lines: usize) -> MadeTask {
        let n_program_turns = (n_turns * PROGRAM_TURNS.0).div_ceil(PROGRAM_TURNS.1);
        let mut places = Vec::new();
        let mut n_program = 0;
        while n_program < n_program_turns * n_lines {
            let usual = Snippet::new(random, 0);
            n_program += usual.templates.len();
            places.push([usual.clone(), usual.varied(random), Snippet::new(random, 0)]);
        }
        let mut old = Vec::new();
        while old.len() < n_program_turns * (n_lines / OLD_PART) + 2 {
            old.extend(Snippet::new(random, N_NAMES).lines());
        }
        MadeTask { places, old }
    }

    /// Lines that one turn adds from this place on, wrapping at the end of the program; and the place after them.
    fn written(
        &self,
        mut place: usize,
        n_lines: usize,
        random: &mut Random,
    ) -> (Vec<String>, usize) {
        let mut lines = Vec::new();
        while lines.len() < n_lines {
            let ways = &self.places[place % self.places.len()];
            match random.below(20) {
                0..=9 => lines.extend(ways[0].lines()),
                10..=12 => lines.extend(ways[1].lines()),
                13..=14 => lines.extend(ways[2].lines()),
                _ => lines.extend(ways[0].varied(random).lines()),
            }
            place += 1;
        }
        lines.truncate(n_lines);
        (lines, place % self.places.len())
    }
}

/// A few lines of code, as templates and what fills their slots.
#[derive(Clone)]
struct Snippet {
    templates: Vec<usize>,
    names: [usize; 4],
    number: usize,
}

/// `$0` to `$3` are names, `$#` is a number.
const TEMPLATES: [&str; 32] = [
    "def $0($1, $2):",
    "    if not $1:",
    "        return $2",
    "    return $3",
    "    $3 = []",
    "    $3 = $1.$0",
    "    for $2 in $1:",
    "        $3.append($2)",
    "    else:",
    "    try:",
    "        $2 += $#",
    "        continue",
    "    if $3 is None:",
    "        return None",
    "    self.$0 = $1",
    "    while $2 < $#:",
    "        break",
    "    if $2 in $1:",
    "        $3[$2] = $#",
    "    $3 = $0($1)",
    "    $1 = len($3)",
    "    except KeyError:",
    "        raise ValueError($2)",
    "    for $2 in range(len($1)):",
    "        $3.append(($2, $1[$2] + $#))",
    "    $3 = sorted($1, key=lambda $2: $2.$0)",
    "    with open($1) as $3:",
    "    $3 = max($1.get($2, $#), self.$0)",
    "    self.$0[$1] = $2 if $2 else $3",
    "    $1, $2 = divmod($3, $#)",
    "    return $0($3, $2)",
    "    return {\"$0\": $1, \"$2\": $3}",
];
const WORDS: [&str; 24] = [
    "parse", "value", "items", "count", "token", "start", "stop", "merge", "cache", "entry",
    "limit", "total", "left", "right", "path", "line", "name", "index", "result", "key", "node",
    "order", "price", "state",
];
const N_NAMES: usize = 4 * WORDS.len();
/// Names that may stand in for one another when a snippet is varied.
const N_SYNONYMS: usize = 3;

impl Snippet {
    /// Names are numbered from `first_name`.
    fn new(random: &mut Random, first_name: usize) -> Snippet {
        let n_lines = 4 + random.below(9);
        Snippet {
            templates: (0..n_lines).map(|_| random.below(TEMPLATES.len())).collect(),
            names: std::array::from_fn(|_| first_name + random.below(N_NAMES)),
            number: random.below(100),
        }
    }

    /// The same snippet as another rollout would write it: one name other, another number, a line less or more.
    fn varied(&self, random: &mut Random) -> Snippet {
        let mut varied = self.clone();
        match random.below(6) {
            0..=2 => {
                let slot = random.below(4);
                varied.names[slot] = (self.names[slot] + 1 + random.below(N_SYNONYMS)) % N_NAMES;
            }
            3 => varied.number = random.below(100),
            4 => {
                varied.templates.remove(random.below(self.templates.len()));
            }
            _ => {
                let at = random.below(self.templates.len());
                varied.templates.insert(at, random.below(TEMPLATES.len()));
            }
        }
        varied
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.templates.iter().map(|&template| {
            let mut line = String::new();
            for (i, piece) in TEMPLATES[template].split('$').enumerate() {
                if i == 0 {
                    line.push_str(piece);
                    continue;
                }
                let (slot, rest) = piece.split_at(1);
                // Writing to a String does not fail.
                let _ = match slot.parse::<usize>() {
                    Ok(slot) => {
                        let name = self.names[slot];
                        let word = WORDS[name % WORDS.len()];
                        match name / WORDS.len() {
                            0 => write!(line, "{word}"),
                            copy => write!(line, "{word}_{copy}"),
                        }
                    }
                    Err(_) => write!(line, "{}", self.number),
                };
                line.push_str(rest);
            }
            line
        })
    }
}

/// How an edit is written down: path, number of its first line, one line of context on either side, old and new lines.
type Notation = fn(&mut String, &Edit<'_>);

const NOTATIONS: [Notation; 4] = [xml, unified_diff, search_replace, apply_patch];

struct Edit<'a> {
    path: String,
    first_line: usize,
    before: &'a str,
    after: &'a str,
    old: &'a [String],
    new: &'a [String],
}

/// Some prose and one to three edits at a place of the program, which moves on behind them.
fn response(
    task: &MadeTask,
    notation: Notation,
    n_lines: usize,
    place: &mut usize,
    random: &mut Random,
) -> String {
    let n_old = n_lines / OLD_PART;
    let n_new = n_lines - n_old;
    // What stood at the place before, with a line more on either side.
    let first = *place * (task.old.len() - n_old - 2) / task.places.len();
    let old = &task.old[first..first + n_old + 2];
    let (new, next) = task.written(*place, n_new, random);
    *place = next;

    let n_edits = (1 + random.below(3)).min(n_new);
    let mut text =
        String::from("The failing tests point at these places; I change as little as I can.\n\n");
    for edit in 0..n_edits {
        let part = |n: usize| n * edit / n_edits..n * (edit + 1) / n_edits;
        let lines = part(n_old);
        notation(
            &mut text,
            &Edit {
                path: format!("src/module_{}.py", edit + 1),
                first_line: first + lines.start + 1,
                before: &old[lines.start],
                after: &old[lines.end + 1],
                old: &old[lines.start + 1..lines.end + 1],
                new: &new[part(n_new)],
            },
        );
    }
    text.push_str("\nThat should make the tests pass.\n");
    text
}

fn put(text: &mut String, prefix: &str, lines: &[String]) {
    for line in lines {
        text.extend([prefix, line, "\n"]);
    }
}

fn xml(text: &mut String, edit: &Edit<'_>) {
    text.extend(["<edit path=\"", &edit.path, "\">\n<search>\n"]);
    put(text, "", edit.old);
    text.push_str("</search>\n<replace>\n");
    put(text, "", edit.new);
    text.push_str("</replace>\n</edit>\n");
}

fn unified_diff(text: &mut String, edit: &Edit<'_>) {
    let Edit { path, first_line, .. } = edit;
    let (n_old, n_new) = (edit.old.len() + 2, edit.new.len() + 2);
    text.extend(["```diff\n--- a/", path, "\n+++ b/", path, "\n"]);
    let _ = writeln!(text, "@@ -{first_line},{n_old} +{first_line},{n_new} @@");
    put_hunk(text, edit);
    text.push_str("```\n");
}

fn search_replace(text: &mut String, edit: &Edit<'_>) {
    text.extend([&edit.path, "\n<<<<<<< SEARCH\n"]);
    put(text, "", edit.old);
    text.push_str("=======\n");
    put(text, "", edit.new);
    text.push_str(">>>>>>> REPLACE\n");
}

fn apply_patch(text: &mut String, edit: &Edit<'_>) {
    text.extend(["*** Begin Patch\n*** Update File: ", &edit.path, "\n@@\n"]);
    put_hunk(text, edit);
    text.push_str("*** End Patch\n");
}

fn put_hunk(text: &mut String, edit: &Edit<'_>) {
    text.extend([" ", edit.before, "\n"]);
    put(text, "-", edit.old);
    put(text, "+", edit.new);
    text.extend([" ", edit.after, "\n"]);
}

/// splitmix64: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn new(seeds: &[u64]) -> Random {
        let mut random = Random(0);
        for seed in seeds {
            random.0 ^= seed;
            random.0 = random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
