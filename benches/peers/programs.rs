//! Made-up diffs for the table: a few programs of about 45 lines, each edited here and there by several rollouts. The
//! same for the same seed.

use hunkwise::code::{TaskCode, TaskCodeBuilder};
use hunkwise::edits::{EditType, Format, RootDiff, SourceLine};

use crate::tasks::{self, Random};

/// Lines of code; `$a` to `$d` are names, `$n` is a number. Some have no slot and recur word for word, as in real code.
const TEMPLATES: [&str; 30] = [
    "def $a(self, $b, $c=None):",
    "    if $b is None:",
    "        return None",
    "    $d = []",
    "    $d = {}",
    "    for $c in $b:",
    "    for $c, $a in enumerate($b):",
    "        if $c not in self.$a:",
    "            continue",
    "        $d.append($c)",
    "        $d.append(($c, self.$a[$c] + $n))",
    "        $d[$c] = self.$a.get($c, $n)",
    "    self.$a = $a",
    "    self.$b[$c] = $d",
    "    return $d",
    "    else:",
    "    try:",
    "        $d = int($b.strip())",
    "    except ValueError:",
    "        raise ValueError(\"$b must be a $a, not \" + repr($c))",
    "    while len($b) > $n and $b[-1] == $c:",
    "        $b.pop()",
    "    $c, $d = divmod($b, $n)",
    "    $d = sorted($b, key=lambda $c: ($c.$a, -$c.$b))",
    "    assert isinstance($b, list), \"$a takes a list\"",
    "    $d = sum($c.$a * $c.$b for $c in self.$d if $c.$a > $n)",
    "    with open($b, encoding=\"utf-8\") as $c:",
    "        $d = [$a.rstrip() for $a in $c if $a.startswith(\"$b\")]",
    "    return $a($b[$n:], $d) + $a($b[:$n], $c)",
    "    return True",
];
const NAMES: [&str; 36] = [
    "account", "amount", "balance", "book", "borrower", "cell", "column", "data", "entry", "field",
    "found", "grade", "head", "index", "items", "key", "limit", "line", "member", "name", "node",
    "order", "path", "price", "queue", "rate", "record", "result", "row", "score", "stock",
    "student", "table", "total", "user", "value",
];
/// Diffs of one program.
const DIFFS_OF_A_PROGRAM: u64 = 4;
const PROGRAM_LINES: u64 = 44;

/// Root diffs as lines of text; diffs of one program follow one another.
pub(crate) fn diffs(n_diffs: u64, seed: u64) -> Vec<Vec<String>> {
    let mut random = Random(seed);
    let mut program = Vec::new();
    let mut diffs = Vec::new();
    for diff in 0..n_diffs {
        if diff % DIFFS_OF_A_PROGRAM == 0 {
            program = (0..PROGRAM_LINES).map(|_| line(&mut random)).collect();
        }
        diffs.push(edited(&program, &mut random));
    }
    diffs
}

fn line(random: &mut Random) -> String {
    let mut line = TEMPLATES[random.below(30) as usize].to_string();
    // A program uses some names more than others.
    let mut name = || {
        let most = [6, 12, 36][random.below(3) as usize];
        NAMES[random.below(most) as usize]
    };
    for slot in ["$a", "$b", "$c", "$d"] {
        line = line.replace(slot, name());
    }
    line.replace("$n", &random.below(20).to_string())
}

/// The program as one rollout writes it: a fifth of the lines other, one in twelve gone, one in twelve new, and one name
/// in six lines changed.
fn edited(program: &[String], random: &mut Random) -> Vec<String> {
    let mut lines = Vec::new();
    for original in program {
        match random.below(60) {
            0..=11 => lines.push(line(random)),
            12..=16 => {}
            17..=21 => lines.extend([original.clone(), line(random)]),
            22..=31 => {
                let (old, new) =
                    (NAMES[random.below(36) as usize], NAMES[random.below(36) as usize]);
                lines.push(original.replace(old, new));
            }
            _ => lines.push(original.clone()),
        }
    }
    lines
}

/// The diffs as added code, a turn each, in code tokens.
pub(crate) fn as_tokens(diffs: &[Vec<String>]) -> hunkwise::Result<TaskCode> {
    let mut builder = TaskCodeBuilder::new();
    for (turn, diff) in diffs.iter().enumerate() {
        builder.begin_turn(turn as u32);
        let lines = diff
            .iter()
            .map(|text| SourceLine { text: text.clone().into_bytes(), bytes: 0..text.len() });
        let root = RootDiff {
            path: "made_up.py".to_string(),
            edit_type: EditType::Add,
            lines: lines.collect(),
            format: Format::Fence,
        };
        builder.push_root(&root, 0);
    }
    builder.finish()
}

/// The same with a token for each byte of a line, indentation included.
pub(crate) fn as_characters(diffs: &[Vec<String>]) -> TaskCode {
    let bytes = |line: &String| line.bytes().map(u32::from).collect::<Vec<u32>>();
    let roots: Vec<tasks::RootLines> = (0..)
        .zip(diffs)
        .map(|(turn, diff)| (turn, EditType::Add, diff.iter().map(bytes).collect()))
        .collect();
    tasks::task(&roots)
}
