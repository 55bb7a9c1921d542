//! Rows of token ids with a mask: prompt, then what the model sampled (mask 1) and what tools answered (mask 0).
//!
//! The tokens of the sequence stand one for one for the ids of the row, so that a credit array has the row's length.
//! Text begins at the first trained token and ends after the last; the prompt before it and the padding behind it are
//! tokens without bytes. Each run of trained tokens is a turn.

use super::fields::{Context, Flaw, token_ids};
use super::token_bytes::{Specials, Start};
use super::{Sequence, TokenBytes, Tokens, Turn};

/// A row of ids, cut at its first trained token.
pub(super) struct IdRow {
    /// Ids before the first trained token.
    pub(super) prompt: Vec<i64>,
    pub(super) sequence: Sequence,
}

/// Builds the sequence of a row of ids.
///
/// `n_real` is the number of ids without the padding at the end, when the dump says it. `trained` is false when the
/// trainer left the whole row out of the loss: then the turns stay, for comparison, and the mask is all false.
pub(super) fn id_row(
    ids_field: &str,
    ids: &[i64],
    mask_field: &str,
    mask: &[bool],
    n_real: Option<u64>,
    trained: bool,
    context: &Context<'_>,
) -> Result<IdRow, Flaw> {
    if ids.len() != mask.len() {
        let what = format!(
            "has {} entries for {} of `{ids_field}`; both must agree",
            mask.len(),
            ids.len()
        );
        return Err(Flaw::new(mask_field, what));
    }
    let n_real = match n_real {
        Some(n_real) => usize::try_from(n_real).unwrap_or(usize::MAX),
        None => ids.len(),
    };
    if n_real > ids.len() {
        let what =
            format!("has {} entries, fewer than the {n_real} that the row says it has", ids.len());
        return Err(Flaw::new(ids_field, what));
    }
    let tokenizer = required_tokenizer(ids_field, context)?;
    let (Some(first), Some(last)) =
        (mask[..n_real].iter().position(|&bit| bit), mask[..n_real].iter().rposition(|&bit| bit))
    else {
        return Err(Flaw::new(
            mask_field,
            "has no trained token, so there is no response to give credit to",
        ));
    };
    let all = token_ids(ids_field, ids)?;
    let flaw = |error: crate::error::Error| Flaw::new(ids_field, error.to_string());
    let (prompt_text, _) =
        tokenizer.decode(&all[..first], Specials::ZeroWidth, Start::Continuation).map_err(flaw)?;
    let (text, response_ends) = tokenizer
        .decode(&all[first..=last], Specials::ZeroWidth, Start::Continuation)
        .map_err(flaw)?;

    let end_of = |token: usize| {
        token.checked_sub(1).and_then(|i| response_ends.get(i)).map_or(0, |&end| end as usize)
    };
    let response_mask = &mask[first..=last];
    let mut turns: Vec<Turn> = Vec::new();
    let mut observation = String::from_utf8_lossy(&prompt_text).into_owned();
    let mut run_start = 0;
    let mut previous_end = 0;
    while run_start < response_mask.len() {
        let bit = response_mask[run_start];
        let n_run = response_mask[run_start..].iter().take_while(|&&other| other == bit).count();
        let bytes = end_of(run_start)..end_of(run_start + n_run);
        if bit {
            if previous_end > 0 || !turns.is_empty() {
                observation =
                    String::from_utf8_lossy(&text[previous_end..bytes.start]).into_owned();
            }
            previous_end = bytes.end;
            turns.push(Turn { bytes, reward: None, observation: Some(observation) });
            observation = String::new();
        }
        run_start += n_run;
    }

    let mut byte_ends = vec![0; first];
    byte_ends.extend(response_ends);
    byte_ends.resize(ids.len(), text.len() as u32);
    let mask = if trained {
        let mut mask = mask.to_vec();
        mask[n_real..].fill(false);
        mask
    } else {
        vec![false; ids.len()]
    };
    let tokens = Some(Tokens { byte_ends, mask });
    let sequence = Sequence { text, tokens, turns, first_turn: 0, place: context.place.clone() };
    Ok(IdRow { prompt: ids[..first].to_vec(), sequence })
}

/// The tokenizer, or the reason why the row needs one.
pub(super) fn required_tokenizer<'a>(
    field: &str,
    context: &Context<'a>,
) -> Result<&'a TokenBytes, Flaw> {
    context.tokenizer.ok_or_else(|| {
        Flaw::new(field, "needs the tokenizer of the model: the row has token ids only. Give `--tokenizer tokenizer.json`")
    })
}
