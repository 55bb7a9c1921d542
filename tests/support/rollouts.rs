//! Small batches, by hand and by seed.

#![allow(dead_code)] // Each test binary takes what it needs.

use hunkwise::error::Place;
use hunkwise::rollout::{Batch, Row, Sequence, Tokens, Turn};

/// A row of one turn without tokens.
pub(crate) fn row(task: &str, trajectory: &str, order: u64, text: &str, reward: f64) -> Row {
    Row {
        task: task.into(),
        trajectory: Some(trajectory.into()),
        order: Some(order),
        outcome: None,
        unscored: false,
        sequence: Sequence {
            text: text.as_bytes().to_vec(),
            tokens: None,
            turns: vec![Turn { bytes: 0..text.len(), reward: Some(reward), observation: None }],
            first_turn: 0,
            place: Place::default(),
        },
    }
}

/// The same row with one token per `width` bytes, all trained.
pub(crate) fn tokenized(mut row: Row, width: usize) -> Row {
    let n_bytes = row.sequence.text.len();
    let byte_ends: Vec<u32> =
        (1..=n_bytes.div_ceil(width)).map(|i| (i * width).min(n_bytes) as u32).collect();
    row.sequence.tokens = Some(Tokens { mask: vec![true; byte_ends.len()], byte_ends });
    row
}

/// An edit that writes `lines` over `old` in a file.
pub(crate) fn replace(path: &str, old: &str, lines: &[&str]) -> String {
    format!(
        "<edit path=\"{path}\">\n<search>\n{old}\n</search>\n<replace>\n{}\n</replace>\n</edit>\n",
        lines.join("\n")
    )
}

/// A generator that is the same everywhere (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

const LINES: [&str; 14] = [
    "for item in items:",
    "    total += item.price * item.count",
    "    if item.count > 10:",
    "        total -= discount(item)",
    "return total",
    "total = 0",
    "if not items:",
    "    return None",
    "logger.debug(\"café %s\", total)  # unit: €",
    "",
    "values = sorted(items, key=lambda x: x.name)",
    "while stack:",
    "    node = stack.pop()",
    "    stack.extend(node.children)",
];

/// Rows of `n_tasks` tasks with edits made of shared lines, some of them renamed, in several notations.
pub(crate) fn rows(seed: u64, n_tasks: usize, n_trajectories: usize, n_turns: usize) -> Vec<Row> {
    let mut random = Random(seed);
    let mut rows = Vec::new();
    for task in 0..n_tasks {
        for trajectory in 0..n_trajectories {
            for turn in 0..n_turns {
                let n_lines = 3 + random.below(12);
                let lines: Vec<String> = (0..n_lines)
                    .map(|_| {
                        let line = LINES[random.below(LINES.len())];
                        if random.below(5) == 0 {
                            line.replace("item", "thing")
                        } else {
                            line.to_string()
                        }
                    })
                    .collect();
                let body = lines.join("\n");
                let text = match random.below(4) {
                    0 => format!(
                        "I change it.\n<edit path=\"shop.py\"><search>\npass\n</search><replace>\n{body}\n</replace></edit>\n"
                    ),
                    1 => format!(
                        "shop.py\n```python\n<<<<<<< SEARCH\npass\n=======\n{body}\n>>>>>>> REPLACE\n```\n"
                    ),
                    2 => {
                        let plus: String = lines.iter().map(|l| format!("+{l}\n")).collect();
                        format!(
                            "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1,{n_lines} @@\n-pass\n{plus}"
                        )
                    }
                    _ => format!("Here: \u{1f680}\n```python\n# shop{turn}.py\n{body}\n```\n"),
                };
                let reward = random.below(3) as f64 * 0.5;
                let row = row(
                    &format!("task{task}"),
                    &format!("{trajectory}"),
                    turn as u64,
                    &text,
                    reward,
                );
                rows.push(tokenized(row, 3));
            }
        }
    }
    rows
}

/// The batch of rows that must all be usable.
pub(crate) fn batch(rows: Vec<Row>) -> Batch {
    let batch = Batch::new(rows);
    assert!(batch.flagged.is_empty(), "{:?}", batch.flagged);
    batch
}
