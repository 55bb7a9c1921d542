//! Typed access to the fields of a row, with the reason when one cannot be used.

use std::collections::BTreeSet;

use super::json::{Json, Object};
use super::{Flagged, Key, Sequence, TokenBytes, Turn};
use crate::error::Place;

/// Why a row, or a field of it, cannot be used.
#[derive(Debug)]
pub(super) struct Flaw {
    /// Field name; empty for the whole row.
    pub(super) field: String,
    /// What is wrong and what was expected.
    pub(super) reason: String,
}

impl Flaw {
    pub(super) fn new(field: impl Into<String>, reason: impl Into<String>) -> Flaw {
        Flaw { field: field.into(), reason: reason.into() }
    }

    /// The flaw as a flag at its place.
    pub(super) fn at(self, place: &Place) -> Flagged {
        Flagged { place: place.at(self.field), reason: self.reason }
    }
}

/// What a format's reader knows besides the row itself, and where it leaves its remarks.
pub(super) struct Context<'a> {
    /// Where the row stands.
    pub(super) place: Place,
    /// The tokenizer, when the user gave one.
    pub(super) tokenizer: Option<&'a TokenBytes>,
    /// Flaws that leave the row usable.
    pub(super) flaws: Vec<Flaw>,
    /// True once a reward was given that cannot be used.
    pub(super) unscored: bool,
    /// Assumptions about the file, said once.
    pub(super) notes: &'a mut BTreeSet<String>,
}

impl Context<'_> {
    /// Leaves a remark about the file; said once however many rows it holds for.
    pub(super) fn note(&mut self, what: &str) {
        self.notes.insert(format!("{}: {what}", self.place.file));
    }

    /// A reward: a number, or a boolean as 1 or 0. Anything else is flagged and leaves the trajectory unscored.
    pub(super) fn reward(&mut self, field: &str, value: Option<Json>) -> Option<f64> {
        let what = match value? {
            Json::Int(number) => return Some(number as f64),
            Json::Float(number) if number.is_finite() => return Some(number),
            Json::Bool(passed) => return Some(f64::from(u8::from(passed))),
            Json::Float(number) => number.to_string(),
            Json::NotFinite(literal) => literal,
            other => other.kind().to_owned(),
        };
        let reason = format!(
            "is {what}; a reward must be a finite number. The row is kept, its trajectory is unscored"
        );
        self.flaws.push(Flaw::new(field, reason));
        self.unscored = true;
        None
    }

    /// A sequence known as text only; with a tokenizer the text is encoded, which gives tokens for credit but not the
    /// sampled ones.
    pub(super) fn text_sequence(&mut self, text: Vec<u8>, turns: Vec<Turn>) -> Sequence {
        let mut sequence =
            Sequence { text, tokens: None, turns, first_turn: 0, place: self.place.clone() };
        if let Some(tokenizer) = self.tokenizer {
            match tokenizer.encode(&sequence.text) {
                Ok(byte_ends) => {
                    let mask = mask_of_turns(&byte_ends, &sequence.turns);
                    sequence.tokens = Some(super::Tokens { byte_ends, mask });
                    self.note(
                        "holds text without token ids; its tokens come from encoding the text and need not be the sampled ones",
                    );
                }
                Err(error) => self.flaws.push(Flaw::new(
                    "text",
                    format!("cannot be encoded ({error}); the row is kept with credit per byte range only"),
                )),
            }
        }
        sequence
    }
}

/// A required field.
pub(super) fn required<T>(field: &str, value: Option<T>) -> Result<T, Flaw> {
    value.ok_or_else(|| Flaw::new(field, "is missing"))
}

/// A string.
pub(super) fn text(object: &mut Object, field: &str) -> Result<Option<String>, Flaw> {
    match object.take(field) {
        None => Ok(None),
        Some(Json::Text(text)) => Ok(Some(text)),
        Some(other) => Err(Flaw::new(field, format!("is {}; it must be a string", other.kind()))),
    }
}

/// An id: a string or an integer, nothing that only looks like one.
pub(super) fn key(object: &mut Object, field: &str) -> Result<Option<Key>, Flaw> {
    match object.take(field) {
        None => Ok(None),
        Some(Json::Int(number)) => Ok(Some(Key::Int(number))),
        Some(Json::Text(text)) => Ok(Some(Key::Text(text))),
        Some(other) => Err(Flaw::new(
            field,
            format!("is {}; an id must be a string or an integer", other.kind()),
        )),
    }
}

/// A count from 0.
pub(super) fn count(field: &str, value: Option<Json>) -> Result<Option<u64>, Flaw> {
    match value {
        None => Ok(None),
        Some(Json::Int(number)) => match u64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Flaw::new(field, format!("is {number}; it must be an integer from 0"))),
        },
        Some(other) => {
            Err(Flaw::new(field, format!("is {}; it must be an integer from 0", other.kind())))
        }
    }
}

/// A list of integers.
pub(super) fn ints(field: &str, value: Option<Json>) -> Result<Option<Vec<i64>>, Flaw> {
    match value {
        None => Ok(None),
        Some(Json::Ints(ints)) => Ok(Some(ints)),
        Some(Json::List(list)) => {
            let wrong = list.iter().position(|item| !matches!(item, Json::Int(_))).unwrap_or(0);
            let kind = list.get(wrong).map_or("empty", Json::kind);
            Err(Flaw::new(
                field,
                format!("has {kind} at entry {wrong}; it must be a list of integers"),
            ))
        }
        Some(other) => {
            Err(Flaw::new(field, format!("is {}; it must be a list of integers", other.kind())))
        }
    }
}

/// Token ids as the tokenizer takes them.
pub(super) fn token_ids(field: &str, ints: &[i64]) -> Result<Vec<u32>, Flaw> {
    ints.iter()
        .enumerate()
        .map(|(i, &id)| {
            u32::try_from(id).map_err(|_| {
                Flaw::new(field, format!("has {id} at entry {i}; that is no token id"))
            })
        })
        .collect()
}

/// A mask: every entry exactly 0, 1, true or false. Nothing is rounded: a list of advantages in the place of the mask
/// must not pass for one.
pub(super) fn mask(field: &str, value: Option<Json>) -> Result<Option<Vec<bool>>, Flaw> {
    let Some(value) = value else { return Ok(None) };
    let wrong = |i: usize, what: String| {
        Flaw::new(
            field,
            format!("has {what} at entry {i}; a mask holds nothing but 0 and 1, or false and true"),
        )
    };
    let list = match value {
        Json::Ints(ints) => {
            let bit = |(i, &int)| match int {
                0 => Ok(false),
                1 => Ok(true),
                _ => Err(wrong(i, int.to_string())),
            };
            return ints.iter().enumerate().map(bit).collect::<Result<_, _>>().map(Some);
        }
        Json::List(list) => list,
        other => {
            return Err(Flaw::new(
                field,
                format!("is {}; it must be a list of 0 and 1", other.kind()),
            ));
        }
    };
    let bit = |(i, item): (usize, Json)| match item {
        Json::Bool(bit) => Ok(bit),
        Json::Int(0) => Ok(false),
        Json::Int(1) => Ok(true),
        // A mask that was a float tensor.
        Json::Float(0.0) => Ok(false),
        Json::Float(1.0) => Ok(true),
        Json::Float(number) => Err(wrong(i, number.to_string())),
        other => Err(wrong(i, other.kind().to_owned())),
    };
    list.into_iter().enumerate().map(bit).collect::<Result<_, _>>().map(Some)
}

/// The mask of a row that has none: a token is trained when it shares a byte with a turn; a token without bytes when it
/// stands inside a turn or at its end, as an end-of-text token does.
pub(super) fn mask_of_turns(byte_ends: &[u32], turns: &[Turn]) -> Vec<bool> {
    let mut start = 0;
    let mut first_turn = 0;
    byte_ends
        .iter()
        .map(|&end| {
            let (token_start, token_end) = (start, end as usize);
            start = token_end;
            while turns.get(first_turn).is_some_and(|turn| turn.bytes.end < token_start) {
                first_turn += 1;
            }
            turns[first_turn..].iter().take_while(|turn| turn.bytes.start < token_end.max(1)).any(
                |turn| {
                    if token_start == token_end {
                        turn.bytes.start < token_end && token_end <= turn.bytes.end
                    } else {
                        turn.bytes.start < token_end && token_start < turn.bytes.end
                    }
                },
            )
        })
        .collect()
}

/// The turns of a row that names none but has a mask: each run of trained bytes. The first has the observation, the
/// last the reward. Without a trained byte, or with tokens that do not fit the text, the whole text is the turn.
pub(super) fn turns_of_mask(
    text: &[u8],
    byte_ends: &[u32],
    mask: &[bool],
    reward: Option<f64>,
    observation: Option<String>,
) -> Vec<Turn> {
    let fits = byte_ends.len() == mask.len()
        && byte_ends.is_sorted()
        && byte_ends.last().is_none_or(|&end| end as usize <= text.len());
    if !fits {
        return whole_turn(text, reward, observation);
    }
    let mut turns: Vec<Turn> = Vec::new();
    let mut start = 0;
    for (&end, &trained) in byte_ends.iter().zip(mask) {
        let end = end as usize;
        if trained && start < end {
            match turns.last_mut() {
                Some(turn) if turn.bytes.end == start => turn.bytes.end = end,
                _ => turns.push(Turn { bytes: start..end, reward: None, observation: None }),
            }
        }
        start = end;
    }
    if turns.is_empty() {
        return whole_turn(text, reward, observation);
    }
    turns[0].observation = observation;
    let last = turns.len() - 1;
    turns[last].reward = reward;
    turns
}

/// One turn that is the whole text.
pub(super) fn whole_turn(
    text: &[u8],
    reward: Option<f64>,
    observation: Option<String>,
) -> Vec<Turn> {
    vec![Turn { bytes: 0..text.len(), reward, observation }]
}
