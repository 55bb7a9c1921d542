//! prime-rl: `token_exports/step_{N}/rank_{R}.jsonl`, token ids with a loss mask, prompt included.
//!
//! There is no task id: rows of one step, run and environment with the same prompt ids are one task, across the files
//! of all ranks. The reward is repeated on every token; that of the last trained token is taken. Exports without rewards
//! have advantages, which differ from the rewards by the mean of the group and so give the same comparison.

use super::fields::{self, Context, Flaw, required};
use super::format::{DumpFormat, Format};
use super::ids::{IdRow, id_row};
use super::json::{Json, Object};
use super::{Key, Row};

pub(super) const FORMAT: Format = Format {
    format: DumpFormat::PrimeRl,
    name: "prime-rl",
    needs: &[&["token_ids"], &["loss_mask"]],
    wanted: Some(&[
        "token_ids",
        "loss_mask",
        "rewards",
        "reward",
        "advantages",
        "step",
        "export_step",
        "run_id",
        "env_name",
        "sample_id",
        "export_sequence_idx",
    ]),
    closed: false,
    read,
};

fn read(mut object: Object, context: &mut Context<'_>) -> Result<Row, Flaw> {
    let ids = required("token_ids", fields::ints("token_ids", object.take("token_ids"))?)?;
    let mask = required("loss_mask", fields::mask("loss_mask", object.take("loss_mask"))?)?;
    let IdRow { prompt, sequence } =
        id_row("token_ids", &ids, "loss_mask", &mask, None, true, context)?;
    let last = mask.iter().rposition(|&bit| bit).unwrap_or(0);
    let outcome = outcome(&mut object, last, ids.len(), context)?;

    let step = fields::key(&mut object, "step")?;
    let step = fields::key(&mut object, "export_step")?.or(step);
    let run = fields::key(&mut object, "run_id")?;
    let environment = fields::key(&mut object, "env_name")?;
    // Absent parts keep their position, so that a run cannot be taken for an environment.
    let absent = || Key::Tuple(Vec::new());
    let parts = [step, run, environment].map(|part| part.unwrap_or_else(absent));
    let task = Key::Tuple(parts.into_iter().chain([Key::Tokens(prompt)]).collect());
    let trajectory = fields::key(&mut object, "sample_id")?;
    let order = fields::count("export_sequence_idx", object.take("export_sequence_idx"))?;
    Ok(Row { task, trajectory, order, outcome, unscored: context.unscored, sequence })
}

/// The reward of the last trained token.
fn outcome(
    object: &mut Object,
    last: usize,
    n_tokens: usize,
    context: &mut Context<'_>,
) -> Result<Option<f64>, Flaw> {
    let fallback = object.take("advantages");
    let (field, value) = match (object.take("rewards"), object.take("reward")) {
        (Some(rewards), _) => ("rewards", rewards),
        (None, Some(reward)) => ("reward", reward),
        (None, None) => match fallback {
            Some(advantages) => {
                context.note("has no rewards; its advantages stand for them");
                ("advantages", advantages)
            }
            None => ("rewards", Json::Null),
        },
    };
    let value = match value.into_list() {
        Ok(list) if list.len() == n_tokens => list.into_iter().nth(last).unwrap_or(Json::Null),
        Ok(list) => {
            let what = format!(
                "has {} entries for {n_tokens} of `token_ids`; both must agree",
                list.len()
            );
            return Err(Flaw::new(field, what));
        }
        Err(scalar) => scalar,
    };
    Ok(context.reward(field, Some(value)))
}
