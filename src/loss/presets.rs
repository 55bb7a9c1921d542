//! The losses that trainers use, by the names that they use.

use serde_json::Value;

use super::{Kl, NonFinite, PolicyLossConfig, RatioLevel, Reduction, RolloutCorrection, Surrogate};
use crate::error::{Error, Place, Result};

/// Names that [`PolicyLossConfig::preset`] knows.
pub const PRESETS: [&str; 11] = [
    "grpo",
    "bnpo",
    "dapo",
    "dr_grpo",
    "gspo",
    "cispo_trl",
    "cispo_verl",
    "sapo",
    "luspo",
    "ppo",
    "didpo",
];

/// Completion length that `preset("dr_grpo")` divides by.
const DR_GRPO_LENGTH: u32 = 8192;

impl Default for PolicyLossConfig {
    /// [`grpo`](PolicyLossConfig::grpo).
    fn default() -> Self {
        PolicyLossConfig::grpo()
    }
}

impl PolicyLossConfig {
    fn clipped(low: f64, high: f64, reduction: Reduction) -> Self {
        PolicyLossConfig {
            surrogate: Surrogate::Clip { low, high, dual: None },
            ratio: RatioLevel::Token,
            reduction,
            count_empty_rows: true,
            max_log_ratio: 20.0,
            kl: Kl::K3,
            beta: 0.0,
            entropy_coef: 0.0,
            rollout: RolloutCorrection::None,
            non_finite: NonFinite::Poison,
        }
    }

    /// GRPO (arXiv 2402.03300): clip 0.2, mean over the tokens of a row, then over rows. No KL; set `beta` for one.
    pub fn grpo() -> Self {
        PolicyLossConfig::clipped(0.2, 0.2, Reduction::SeqMeanTokenMean)
    }

    /// GRPO with one mean over all tokens of the call (TRL `bnpo`).
    pub fn bnpo() -> Self {
        PolicyLossConfig::clipped(0.2, 0.2, Reduction::TokenMean)
    }

    /// DAPO (arXiv 2503.14476): clip 0.2 below and 0.28 above, one mean over all tokens. Give the global count as the
    /// batch's denominator where there are micro-batches or ranks.
    pub fn dapo() -> Self {
        PolicyLossConfig::clipped(0.2, 0.28, Reduction::TokenMean)
    }

    /// Dr. GRPO (arXiv 2503.20783): sums over a row divided by a constant `length` in tokens.
    pub fn dr_grpo(length: u32) -> Self {
        PolicyLossConfig::clipped(0.2, 0.2, Reduction::SeqMeanTokenSumNorm { length })
    }

    /// GSPO (arXiv 2507.18071): one ratio for a row, clipped at 3e-4 below and 4e-4 above.
    pub fn gspo() -> Self {
        PolicyLossConfig {
            ratio: RatioLevel::Sequence,
            ..PolicyLossConfig::clipped(3e-4, 4e-4, Reduction::SeqMeanTokenMean)
        }
    }

    /// CISPO (arXiv 2506.13585) as in TRL: weights of at most 5, no lower bound.
    pub fn cispo_trl() -> Self {
        PolicyLossConfig {
            surrogate: Surrogate::Cispo { min: 0.0, max: 5.0 },
            ..PolicyLossConfig::bnpo()
        }
    }

    /// CISPO as in verl: weights of 1 - 0.2 to 1 + 0.2.
    pub fn cispo_verl() -> Self {
        PolicyLossConfig {
            surrogate: Surrogate::Cispo { min: 0.8, max: 1.2 },
            ..PolicyLossConfig::bnpo()
        }
    }

    /// SAPO (arXiv 2511.20347): a sigmoid gate with temperature 1 where A > 0 and 1.05 elsewhere.
    pub fn sapo() -> Self {
        PolicyLossConfig {
            surrogate: Surrogate::Sapo { tau_positive: 1.0, tau_negative: 1.05 },
            ..PolicyLossConfig::grpo()
        }
    }

    /// LUSPO: the ratio of the row as in GSPO, sums over the tokens of a row, then the mean over rows.
    pub fn luspo() -> Self {
        PolicyLossConfig { reduction: Reduction::SeqMeanTokenSum, ..PolicyLossConfig::gspo() }
    }

    /// PPO's clipped loss (arXiv 1707.06347) with the dual clip at 3 (arXiv 1912.09729) that verl has on by default.
    pub fn ppo() -> Self {
        PolicyLossConfig {
            surrogate: Surrogate::Clip { low: 0.2, high: 0.2, dual: Some(3.0) },
            ..PolicyLossConfig::bnpo()
        }
    }

    /// DiDPO (arXiv 2608.07147): GRPO's loss over the token advantages `A_E + lambda·A_D`.
    pub fn didpo() -> Self {
        PolicyLossConfig::grpo()
    }

    /// The preset with that name; `dr_grpo` divides by 8,192.
    ///
    /// # Errors
    /// [`Error::Config`] with all names, for one that is not among [`PRESETS`].
    pub fn preset(name: &str) -> Result<Self> {
        Ok(match name {
            "grpo" => Self::grpo(),
            "bnpo" => Self::bnpo(),
            "dapo" => Self::dapo(),
            "dr_grpo" => Self::dr_grpo(DR_GRPO_LENGTH),
            "gspo" => Self::gspo(),
            "cispo_trl" => Self::cispo_trl(),
            "cispo_verl" => Self::cispo_verl(),
            "sapo" => Self::sapo(),
            "luspo" => Self::luspo(),
            "ppo" => Self::ppo(),
            "didpo" => Self::didpo(),
            other => {
                return Err(Error::Config {
                    op: "policy_loss",
                    name: "preset",
                    got: other.to_owned(),
                    expected: "one of grpo, bnpo, dapo, dr_grpo, gspo, cispo_trl, cispo_verl, sapo, luspo, ppo, didpo",
                });
            }
        })
    }

    /// A configuration as JSON has it: the name of a preset, or an object whose field `preset` (`grpo` without it) gives
    /// every field that the object leaves out. Inside `surrogate`, `reduction` and `rollout` too, as long as `type` is
    /// left out or that of the preset.
    ///
    /// # Errors
    /// [`Error::Input`] for an unknown or missing field or a value of the wrong kind, [`Error::Config`] for an unknown
    /// preset or a value out of its range.
    pub fn from_json(value: &Value) -> Result<Self> {
        let place = || Place::default().at("config");
        let mut given = match value {
            Value::String(name) => return Self::preset(name),
            Value::Object(given) => given.clone(),
            _ => {
                let what = "must be the name of a preset or an object";
                return Err(Error::input(place(), what));
            }
        };
        let preset = match given.remove("preset") {
            None => Self::default(),
            Some(Value::String(name)) => Self::preset(&name)?,
            Some(_) => {
                return Err(Error::input(place().at("config.preset"), "must be a name"));
            }
        };
        let in_json = |e: serde_json::Error| Error::input(place(), e.to_string());
        let mut whole = serde_json::to_value(preset).map_err(in_json)?;
        overlay(&mut whole, Value::Object(given));
        let config: Self = serde_json::from_value(whole).map_err(in_json)?;
        config.validate()?;
        Ok(config)
    }
}

/// Lays `over` onto `base`, field by field where both are objects of one `type`.
fn overlay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over))
            if over.get("type").is_none_or(|kind| base.get("type") == Some(kind)) =>
        {
            for (name, value) in over {
                overlay(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}
