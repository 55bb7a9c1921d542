//! AReaL: `{version}/{task_id}.jsonl`, text with special tokens, no token ids.
//!
//! A task is `task_id` with its prompt: task ids are counters that start again in every run. A trajectory is
//! `sample_idx`. Rows of several turns list their `segments`; the model's are those with role `gen`.

use super::fields::{self, Context, Flaw, required, whole_turn};
use super::format::{DumpFormat, Format};
use super::json::{Json, Object};
use super::{Key, Row, Turn};

pub(super) const FORMAT: Format = Format {
    format: DumpFormat::Areal,
    name: "areal",
    needs: &[&["prompt"], &["completion"], &["reward"], &["task_id", "sample_idx"]],
    wanted: Some(&["prompt", "completion", "reward", "task_id", "sample_idx", "segments"]),
    closed: false,
    read,
};

fn read(mut object: Object, context: &mut Context<'_>) -> Result<Row, Flaw> {
    let prompt = required("prompt", fields::text(&mut object, "prompt")?)?;
    let completion = fields::text(&mut object, "completion")?;
    let task = fields::key(&mut object, "task_id")?;
    let trajectory = fields::key(&mut object, "sample_idx")?;
    let reward = object.take("reward").unwrap_or(Json::Null);
    let outcome = context.reward("reward", Some(reward));
    let (text, turns) = match object.take("segments") {
        Some(segments) => read_segments(segments, &prompt)?,
        None => {
            let text = required("completion", completion)?.into_bytes();
            let turns = whole_turn(&text, None, Some(prompt.clone()));
            (text, turns)
        }
    };
    let task = match task {
        Some(task) => Key::Tuple(vec![task, Key::Prompt(prompt)]),
        None => Key::Prompt(prompt),
    };
    let sequence = context.text_sequence(text, turns);
    Ok(Row { task, trajectory, order: None, outcome, unscored: context.unscored, sequence })
}

/// Text and turns of a row of several turns. What stands before the first turn is prompt.
fn read_segments(segments: Json, prompt: &str) -> Result<(Vec<u8>, Vec<Turn>), Flaw> {
    let segments = segments.into_list().map_err(|other| {
        Flaw::new("segments", format!("is {}; it must be a list of objects", other.kind()))
    })?;
    let mut text = String::new();
    let mut turns: Vec<Turn> = Vec::new();
    let mut observation = prompt.to_owned();
    for (i, segment) in segments.into_iter().enumerate() {
        let inside = |flaw: Flaw| Flaw::new(format!("segments[{i}].{}", flaw.field), flaw.reason);
        let Json::Object(segment) = segment else {
            return Err(Flaw::new(
                format!("segments[{i}]"),
                format!("is {}; it must be an object", segment.kind()),
            ));
        };
        let mut segment = Object::new(segment);
        let role = fields::text(&mut segment, "role")
            .and_then(|role| required("role", role))
            .map_err(inside)?;
        let content = fields::text(&mut segment, "text")
            .and_then(|text| required("text", text))
            .map_err(inside)?;
        if role == "gen" {
            let start = text.len();
            text.push_str(&content);
            let observation = Some(std::mem::take(&mut observation));
            turns.push(Turn { bytes: start..text.len(), reward: None, observation });
        } else if !turns.is_empty() {
            text.push_str(&content);
            observation.push_str(&content);
        }
    }
    if turns.is_empty() {
        return Err(Flaw::new(
            "segments",
            "has no segment with role `gen`, so there is no response to give credit to",
        ));
    }
    Ok((text.into_bytes(), turns))
}
