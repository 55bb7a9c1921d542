//! NeMo-RL: `train_data_step{N}.jsonl`, token ids with a loss mask, prompt and padding included.
//!
//! The writer cuts the batch into one-row batches, so every value is a list of one; both that and the bare value are
//! read. There is no task id: rows with the same prompt ids are one task. Rows of different steps are in different files
//! and carry no step, so the file is part of the task key. Older dumps have no ids, only the messages of the conversation
//! without their roles: then every second message is taken as the model's.

use super::fields::{self, Context, Flaw, required};
use super::format::{DumpFormat, Format};
use super::ids::{IdRow, id_row};
use super::json::{Json, Object};
use super::{Key, Row, Turn};

pub(super) const FORMAT: Format = Format {
    format: DumpFormat::NemoRl,
    name: "nemo-rl",
    needs: &[&["rewards"], &["input_lengths"], &["token_ids", "content"]],
    wanted: Some(&[
        "content",
        "rewards",
        "input_lengths",
        "token_ids",
        "token_loss_mask",
        "sample_loss_mask",
    ]),
    closed: false,
    read,
};

fn read(mut object: Object, context: &mut Context<'_>) -> Result<Row, Flaw> {
    let mut take = |field: &str| object.take(field).map(Json::without_batch_axis);
    let rewards = take("rewards").unwrap_or(Json::Null);
    let input_length = take("input_lengths");
    let ids = take("token_ids").map(as_list);
    let mask = take("token_loss_mask").map(as_list);
    let sample_mask = take("sample_loss_mask").map(as_list);
    let content = take("content");
    let outcome = context.reward("rewards", Some(rewards));
    let file = Key::Text(context.place.file.to_string());
    if ids.is_none() {
        let (prompt, sequence) = read_content(required("token_ids", content)?, context)?;
        let task = Key::Tuple(vec![file, prompt]);
        return Ok(Row {
            task,
            trajectory: None,
            order: None,
            outcome,
            unscored: context.unscored,
            sequence,
        });
    }
    let ids = required("token_ids", fields::ints("token_ids", ids)?)?;
    let mask = required("token_loss_mask", fields::mask("token_loss_mask", mask)?)?;
    let trained = fields::mask("sample_loss_mask", sample_mask)?
        .is_none_or(|mask| mask.iter().all(|&bit| bit));
    let n_real = fields::count("input_lengths", input_length)?;
    let IdRow { prompt, sequence } =
        id_row("token_ids", &ids, "token_loss_mask", &mask, n_real, trained, context)?;
    let task = Key::Tuple(vec![file, Key::Tokens(prompt)]);
    Ok(Row { task, trajectory: None, order: None, outcome, unscored: context.unscored, sequence })
}

/// A list of one that lost its only axis, as a list again.
fn as_list(value: Json) -> Json {
    match value {
        Json::Ints(_) | Json::List(_) => value,
        Json::Int(int) => i64::try_from(int).map_or(Json::Int(int), |int| Json::Ints(vec![int])),
        other => Json::List(vec![other]),
    }
}

fn read_content(content: Json, context: &mut Context<'_>) -> Result<(Key, super::Sequence), Flaw> {
    let messages = content
        .into_list()
        .map_err(|other| {
            let what =
                "it must be the list of messages, prompt first, where there are no `token_ids`";
            Flaw::new("content", format!("is {}; {what}", other.kind()))
        })?
        .into_iter()
        .enumerate()
        .map(|(i, message)| match message {
            Json::Text(text) => Ok(text),
            other => Err(Flaw::new(
                format!("content[{i}]"),
                format!("is {}; it must be a string", other.kind()),
            )),
        })
        .collect::<Result<Vec<String>, Flaw>>()?;
    let [prompt, responses @ ..] = &messages[..] else {
        return Err(Flaw::new(
            "content",
            "is empty; it must be the list of messages, prompt first",
        ));
    };
    if responses.is_empty() {
        return Err(Flaw::new(
            "content",
            "holds the prompt only; there is no response to give credit to",
        ));
    }
    context
        .note("has messages without roles; the second, fourth, … message is taken as the model's");
    let mut text = String::new();
    let mut turns = Vec::new();
    let mut observation = prompt;
    for (i, message) in responses.iter().enumerate() {
        let start = text.len();
        text.push_str(message);
        if i % 2 == 0 {
            turns.push(Turn {
                bytes: start..text.len(),
                reward: None,
                observation: Some(observation.clone()),
            });
        } else {
            observation = message;
        }
    }
    Ok((Key::Prompt(prompt.clone()), context.text_sequence(text.into_bytes(), turns)))
}
