//! Identities of tasks and trajectories: compared by type and content, never as joined strings.
//!
//! `("a", "b:c")` and `("a:b", "c")` are different keys, and so are `1` and `"1"`. A name for people is made from a
//! key only after all keys are known, and made unique then.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

/// The identity of a task, or of a trajectory inside its task.
///
/// Order: integers by value, then text in natural order (`"a2"` before `"a10"`), then prompts, prompt tokens and
/// tuples.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// An integer id of the dump.
    Int(i128),
    /// A text id of the dump.
    Text(String),
    /// The text of a prompt, where the dump has no id. Its name is a hash of the text.
    Prompt(String),
    /// The token ids of a prompt, where the dump has neither id nor text.
    Tokens(Vec<i64>),
    /// Several parts, for example the training step and the id.
    Tuple(Vec<Key>),
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key::Text(text.to_owned())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Key {
        Key::Text(text)
    }
}

impl From<i64> for Key {
    fn from(number: i64) -> Key {
        Key::Int(number.into())
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Int(a), Key::Int(b)) => a.cmp(b),
            (Key::Text(a), Key::Text(b)) => natural(a.as_bytes(), b.as_bytes()),
            (Key::Prompt(a), Key::Prompt(b)) => a.cmp(b),
            (Key::Tokens(a), Key::Tokens(b)) => a.cmp(b),
            (Key::Tuple(a), Key::Tuple(b)) => a.cmp(b),
            _ => self.kind().cmp(&other.kind()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Key {
    fn kind(&self) -> u8 {
        match self {
            Key::Int(_) => 0,
            Key::Text(_) => 1,
            Key::Prompt(_) => 2,
            Key::Tokens(_) => 3,
            Key::Tuple(_) => 4,
        }
    }
}

/// The name of the key for people; two keys may have the same, see `unique_names`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Int(number) => write!(f, "{number}"),
            Key::Text(text) => f.write_str(text),
            Key::Prompt(text) => write!(f, "prompt-{:016x}", fnv1a(text.bytes())),
            Key::Tokens(ids) => {
                write!(f, "prompt-{:016x}", fnv1a(ids.iter().flat_map(|id| id.to_le_bytes())))
            }
            Key::Tuple(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    if i > 0 {
                        f.write_str("/")?;
                    }
                    write!(f, "{part}")?;
                }
                Ok(())
            }
        }
    }
}

/// One name for each key, all different. `keys` are different and sorted, so the names do not depend on the order in
/// which they came. A text that would repeat the name of another key is quoted; what still repeats is numbered.
pub(super) fn unique_names<'k>(keys: impl Iterator<Item = &'k Key>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    keys.map(|key| {
        let plain = key.to_string();
        let mut name = plain.clone();
        if taken.contains(&name)
            && let Key::Text(text) = key
        {
            name = format!("{text:?}");
        }
        let mut copy = 2u64;
        while taken.contains(&name) {
            name = format!("{plain} ({copy})");
            copy += 1;
        }
        taken.insert(name.clone());
        name
    })
    .collect()
}

/// Natural order: runs of digits compare by value, everything else by byte; equal so far, plain byte order decides,
/// so that the order is total.
fn natural(a: &[u8], b: &[u8]) -> Ordering {
    let (mut i, mut j) = (0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (run_a, run_b) = (digits(&a[i..]), digits(&b[j..]));
            let (value_a, value_b) = (without_zeros(run_a), without_zeros(run_b));
            // Of two numbers without leading zeros the longer is the larger.
            let order = value_a.len().cmp(&value_b.len()).then_with(|| value_a.cmp(value_b));
            if order != Ordering::Equal {
                return order;
            }
            i += run_a.len();
            j += run_b.len();
        } else if x == y {
            i += 1;
            j += 1;
        } else {
            return x.cmp(&y);
        }
    }
    (a.len() - i).cmp(&(b.len() - j)).then_with(|| a.cmp(b))
}

fn digits(text: &[u8]) -> &[u8] {
    let n_digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    &text[..n_digits]
}

fn without_zeros(run: &[u8]) -> &[u8] {
    let n_zeros = run.iter().take_while(|&&byte| byte == b'0').count();
    &run[n_zeros..]
}

/// FNV-1a, 64 bits. Only for names: equality is decided on the whole content.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natural_order_of_text() {
        let mut names = ["t10", "t2", "t02", "t", "t1a", "t1", "b"].map(Key::from);
        names.sort();
        assert_eq!(names, ["b", "t", "t1", "t1a", "t02", "t2", "t10"].map(Key::from));
    }

    #[test]
    fn names_are_unique_and_readable() {
        let mut keys = [Key::from("1"), Key::from(1), Key::from("\"1\""), Key::from("1 (2)")];
        keys.sort();
        assert_eq!(unique_names(keys.iter()), ["1", "\"1\"", "1 (2)", "\"1 (2)\""]);
    }

    #[test]
    fn known_hash() {
        // Published test vector of FNV-1a.
        assert_eq!(fnv1a("a".bytes()), 0xaf63_dc4c_8601_ec8c);
    }
}
