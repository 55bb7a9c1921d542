//! verl: `{rollout_data_dir}/{global_step}.jsonl`, text without special tokens, no token ids.
//!
//! In the current trainer `uid` is `{uid}_{session}_{index}`: task, trajectory, and the row in the trajectory. Older
//! dumps have no `uid`; then rows with the same step and the same `input` are one task, and each row is a trajectory.

use super::fields::{self, Context, Flaw, required, whole_turn};
use super::format::{DumpFormat, Format};
use super::json::{Json, Object};
use super::{Key, Row};

pub(super) const FORMAT: Format = Format {
    format: DumpFormat::Verl,
    name: "verl",
    needs: &[&["input"], &["output"], &["score"]],
    wanted: Some(&["input", "output", "score", "step", "uid"]),
    closed: false,
    read,
};

fn read(mut object: Object, context: &mut Context<'_>) -> Result<Row, Flaw> {
    let input = required("input", fields::text(&mut object, "input")?)?;
    let output = required("output", fields::text(&mut object, "output")?)?.into_bytes();
    let step = fields::key(&mut object, "step")?;
    let uid = fields::text(&mut object, "uid")?;
    let score = object.take("score").unwrap_or(Json::Null);
    let outcome = context.reward("score", Some(score));
    let (task, trajectory, order) = match uid.as_deref().map(split_uid) {
        Some((uid, Some((session, index)))) => {
            (Key::from(uid), Some(Key::Int(session.into())), Some(index))
        }
        Some((uid, None)) => (Key::from(uid), None, None),
        None => (Key::Prompt(input.clone()), None, None),
    };
    let turns = whole_turn(&output, None, Some(input));
    let sequence = context.text_sequence(output, turns);
    Ok(Row {
        task: with_step(step, task),
        trajectory,
        order,
        outcome,
        unscored: context.unscored,
        sequence,
    })
}

/// The key of a task at a training step: rollouts of different steps come from different policies, and are not
/// compared.
pub(super) fn with_step(step: Option<Key>, task: Key) -> Key {
    match step {
        Some(step) => Key::Tuple(vec![step, task]),
        None => task,
    }
}

/// `a_0_3` is (`a`, (0, 3)). The uid itself may hold underscores.
fn split_uid(uid: &str) -> (&str, Option<(u64, u64)>) {
    let mut parts = uid.rsplitn(3, '_');
    let number = |part: Option<&str>| {
        part.filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
    };
    match (number(parts.next()), number(parts.next()), parts.next()) {
        (Some(index), Some(session), Some(task)) => (task, Some((session, index))),
        _ => (uid, None),
    }
}

#[cfg(test)]
mod tests {
    use super::split_uid;

    #[test]
    fn uids() {
        assert_eq!(split_uid("9f3c_0_12"), ("9f3c", Some((0, 12))));
        assert_eq!(split_uid("a_b_0_12"), ("a_b", Some((0, 12))));
        assert_eq!(split_uid("9f3c"), ("9f3c", None));
        assert_eq!(split_uid("9f3c_x_1"), ("9f3c_x_1", None));
        assert_eq!(split_uid("1_2"), ("1_2", None));
        assert_eq!(split_uid("9f3c_+1_2"), ("9f3c_+1_2", None));
    }
}
