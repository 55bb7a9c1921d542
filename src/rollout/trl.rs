//! TRL: `completions/completions_{step}.parquet`, prompt and completion as text or as messages, a column for each reward.
//!
//! A task is a step and a prompt. The reward columns carry the names of the user's functions, so every numeric column
//! other than `step` and `advantage` is taken as a reward, and several are summed. The same columns as JSON lines are
//! read too.

use super::fields::{self, Context, Flaw, required};
use super::format::{DumpFormat, Format};
use super::json::{Json, Object};
use super::verl::with_step;
use super::{Key, Row, Turn};

pub(super) const FORMAT: Format = Format {
    format: DumpFormat::Trl,
    name: "trl",
    needs: &[&["prompt"], &["completion"], &["step"]],
    wanted: None,
    closed: false,
    read,
};

/// The first bytes of a Parquet file.
pub(super) const PARQUET_MAGIC: &[u8] = b"PAR1";

fn read(mut object: Object, context: &mut Context<'_>) -> Result<Row, Flaw> {
    let step = fields::key(&mut object, "step")?;
    let mut prompt_text = String::new();
    let mut prompt_key = String::new();
    for message in messages("prompt", required("prompt", object.take("prompt"))?)? {
        prompt_text.push_str(&message.text);
        // Quoting keeps the borders between messages.
        prompt_key.push_str(&format!("{:?}:{:?}\n", message.role, message.text));
    }
    let completion = messages("completion", required("completion", object.take("completion"))?)?;
    if completion.iter().any(|message| message.has_tool_calls) {
        context.note("has tool calls as structures; each is put into the text as JSON");
    }
    let mut text = String::new();
    let mut turns: Vec<Turn> = Vec::new();
    let mut observation = prompt_text;
    for message in completion {
        let start = text.len();
        text.push_str(&message.text);
        if message.role == "assistant" {
            let observation = Some(std::mem::take(&mut observation));
            turns.push(Turn { bytes: start..text.len(), reward: None, observation });
        } else {
            observation.push_str(&message.text);
        }
    }
    if turns.is_empty() {
        return Err(Flaw::new(
            "completion",
            "has no message of role `assistant`, so there is nothing to give credit to",
        ));
    }
    let outcome = sum_of_rewards(object, context);
    let task = with_step(step, Key::Prompt(prompt_key));
    let sequence = context.text_sequence(text.into_bytes(), turns);
    Ok(Row { task, trajectory: None, order: None, outcome, unscored: context.unscored, sequence })
}

/// The sum of the reward columns. A reward function that does not apply to a row gives NaN or null there, and the trainer
/// sums the others; only a row without any reward is unscored.
fn sum_of_rewards(object: Object, context: &mut Context<'_>) -> Option<f64> {
    let mut columns: Vec<(String, Json)> = object
        .into_fields()
        .into_iter()
        .filter(|(name, value)| {
            let is_number =
                matches!(value, Json::Int(_) | Json::Float(_) | Json::Bool(_) | Json::NotFinite(_));
            is_number && name != "advantage"
        })
        .collect();
    columns.sort_by(|a, b| a.0.cmp(&b.0));
    if columns.len() > 1 {
        let names: Vec<String> = columns.iter().map(|(name, _)| format!("`{name}`")).collect();
        context.note(&format!(
            "has several numeric columns; the reward is their sum: {}",
            names.join(", ")
        ));
    }
    let is_nan = |value: &Json| match value {
        Json::Float(number) => number.is_nan(),
        Json::NotFinite(literal) => literal == "NaN",
        _ => false,
    };
    if columns.iter().all(|(_, value)| is_nan(value)) {
        let (name, value) = columns.pop().unwrap_or_else(|| ("reward".to_owned(), Json::Null));
        return context.reward(&name, Some(value));
    }
    columns.retain(|(_, value)| !is_nan(value));
    let rewards = columns.into_iter().map(|(name, value)| context.reward(&name, Some(value)));
    rewards.collect::<Option<Vec<f64>>>().map(|rewards| rewards.iter().sum())
}

struct Message {
    role: String,
    text: String,
    has_tool_calls: bool,
}

/// Text is one message of the assistant; a list is messages.
fn messages(field: &str, value: Json) -> Result<Vec<Message>, Flaw> {
    if let Json::Text(text) = value {
        return Ok(vec![Message { role: "assistant".into(), text, has_tool_calls: false }]);
    }
    let list = value.into_list().map_err(|other| {
        Flaw::new(field, format!("is {}; it must be text or a list of messages", other.kind()))
    })?;
    list.into_iter()
        .enumerate()
        .map(|(i, message)| {
            let Json::Object(message) = message else {
                return Err(Flaw::new(
                    format!("{field}[{i}]"),
                    format!("is {}; it must be a message", message.kind()),
                ));
            };
            let inside =
                |flaw: Flaw| Flaw::new(format!("{field}[{i}].{}", flaw.field), flaw.reason);
            let mut message = Object::new(message);
            let role = fields::text(&mut message, "role")
                .and_then(|role| required("role", role))
                .map_err(inside)?;
            let mut text = content(message.take("content")).map_err(inside)?;
            let calls = message.take("tool_calls").map(Json::into_list);
            let calls = match calls {
                None => Vec::new(),
                Some(Ok(calls)) => calls,
                Some(Err(other)) => {
                    return Err(inside(Flaw::new(
                        "tool_calls",
                        format!("is {}; it must be a list", other.kind()),
                    )));
                }
            };
            let has_tool_calls = !calls.is_empty();
            for call in calls {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&tool_call(call));
            }
            Ok(Message { role, text, has_tool_calls })
        })
        .collect()
}

/// The text of a message: a string, nothing, or parts of which those with text count.
fn content(value: Option<Json>) -> Result<String, Flaw> {
    let list = match value {
        None => return Ok(String::new()),
        Some(Json::Text(text)) => return Ok(text),
        Some(other) => other.into_list().map_err(|other| {
            Flaw::new("content", format!("is {}; it must be text or a list of parts", other.kind()))
        })?,
    };
    let mut text = String::new();
    for part in list {
        match part {
            Json::Text(part) => text.push_str(&part),
            Json::Object(part) => {
                text.push_str(&fields::text(&mut Object::new(part), "text")?.unwrap_or_default())
            }
            other => return Err(Flaw::new("content", format!("has {} as a part", other.kind()))),
        }
    }
    Ok(text)
}

/// A tool call as one line of JSON: `{"name": …, "arguments": …}`.
fn tool_call(call: Json) -> String {
    let Json::Object(call) = call else { return call.to_string() };
    let mut call = Object::new(call);
    let mut function = match call.take("function") {
        Some(Json::Object(function)) => Object::new(function),
        _ => call,
    };
    let name = function.take("name").unwrap_or(Json::Null);
    let arguments = match function.take("arguments") {
        // Arguments are often JSON inside a string.
        Some(Json::Text(text)) if Object::parse(&text, Some(&[])).is_ok() => text,
        Some(Json::Object(fields)) => {
            // A table has one column for the arguments of all calls; those of other calls are null.
            Json::Object(fields.into_iter().filter(|(_, value)| *value != Json::Null).collect())
                .to_string()
        }
        other => other.unwrap_or(Json::Null).to_string(),
    };
    format!("{{\"name\": {name}, \"arguments\": {arguments}}}")
}

#[cfg(not(feature = "parquet"))]
pub(super) fn read_parquet(
    _file: std::fs::File,
    name: &str,
    _each: &mut dyn FnMut(u64, Object) -> crate::error::Result<()>,
) -> crate::error::Result<()> {
    Err(crate::error::Error::Unavailable {
        what: format!("reading {name}, a Parquet file,"),
        reason:
            "this build reads no Parquet; build with `cargo build --release --features parquet`"
                .into(),
    })
}

/// Reads the rows of a Parquet file one after the other; `each` gets the row number from 1.
///
/// # Errors
/// [`crate::error::Error::Input`] when the file is damaged; the error of `each`.
#[cfg(feature = "parquet")]
pub(super) fn read_parquet(
    file: std::fs::File,
    name: &str,
    each: &mut dyn FnMut(u64, Object) -> crate::error::Result<()>,
) -> crate::error::Result<()> {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use parquet::file::reader::{FileReader, SerializedFileReader};

    use crate::error::{Error, Place};

    let damaged = |row: u64, what: String| {
        Error::input(Place::new(name, row), format!("is a damaged Parquet file: {what}"))
    };
    // The Parquet reader asserts on some damaged files; a damaged file is an error like any other.
    let caught = |row: u64| damaged(row, "its structure contradicts itself".into());
    let reader = catch_unwind(AssertUnwindSafe(|| SerializedFileReader::new(file)))
        .map_err(|_| caught(0))?
        .map_err(|error| damaged(0, error.to_string()))?;
    let mut rows = catch_unwind(AssertUnwindSafe(|| reader.get_row_iter(None)))
        .map_err(|_| caught(0))?
        .map_err(|error| damaged(0, error.to_string()))?;
    for row_number in 1u64.. {
        let row =
            match catch_unwind(AssertUnwindSafe(|| rows.next())).map_err(|_| caught(row_number))? {
                None => break,
                Some(row) => row.map_err(|error| damaged(row_number, error.to_string()))?,
            };
        let fields =
            row.into_columns().into_iter().map(|(name, field)| (name, json_of(field))).collect();
        each(row_number, Object::new(fields))?;
    }
    Ok(())
}

#[cfg(feature = "parquet")]
fn json_of(field: parquet::record::Field) -> Json {
    use parquet::record::Field;
    match field {
        Field::Null => Json::Null,
        Field::Bool(value) => Json::Bool(value),
        Field::Byte(value) => Json::Int(value.into()),
        Field::Short(value) => Json::Int(value.into()),
        Field::Int(value) => Json::Int(value.into()),
        Field::Long(value) => Json::Int(value.into()),
        Field::UByte(value) => Json::Int(value.into()),
        Field::UShort(value) => Json::Int(value.into()),
        Field::UInt(value) => Json::Int(value.into()),
        Field::ULong(value) => Json::Int(value.into()),
        Field::Float16(value) => Json::Float(value.to_f64()),
        Field::Float(value) => Json::Float(value.into()),
        Field::Double(value) => Json::Float(value),
        Field::Str(text) => Json::Text(text),
        Field::Bytes(bytes) => match bytes.as_utf8() {
            Ok(text) => Json::Text(text.to_owned()),
            Err(_) => Json::List(vec![Json::Text("bytes".into())]),
        },
        Field::Group(row) => Json::Object(
            row.into_columns().into_iter().map(|(name, field)| (name, json_of(field))).collect(),
        ),
        Field::ListInternal(list) => {
            Json::List(list.elements().iter().cloned().map(json_of).collect())
        }
        Field::MapInternal(map) => Json::Object(
            map.entries()
                .iter()
                .cloned()
                .map(|(key, value)| (key.to_string(), json_of(value)))
                .collect(),
        ),
        // Decimals, dates and times are neither text nor reward.
        other => Json::List(vec![Json::Text(other.to_string())]),
    }
}
