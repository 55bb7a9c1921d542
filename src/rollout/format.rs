//! The dumps that can be read. A format is one file and one line of [`FORMATS`].

use std::fmt;
use std::str::FromStr;

use super::fields::{Context, Flaw};
use super::json::Object;
use super::{Row, areal, hunkwise, nemo_rl, prime_rl, trl, verl};
use crate::error::Error;

/// Who wrote a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DumpFormat {
    /// hunkwise's own JSON lines; see `docs/formats.md`.
    Hunkwise,
    /// verl `rollout_data_dir` JSON lines.
    Verl,
    /// NeMo-RL `train_data_step{N}.jsonl`.
    NemoRl,
    /// prime-rl token exports.
    PrimeRl,
    /// AReaL trajectory dumps.
    Areal,
    /// TRL completions, Parquet.
    Trl,
}

/// How a format is told from others and read.
pub(super) struct Format {
    pub(super) format: DumpFormat,
    /// As the user writes it.
    pub(super) name: &'static str,
    /// What a row has: one field of each group.
    pub(super) needs: &'static [&'static [&'static str]],
    /// The fields that are read; `None` for all.
    pub(super) wanted: Option<&'static [&'static str]>,
    /// True when a field that is not wanted is likely a slip of the user.
    pub(super) closed: bool,
    pub(super) read: fn(Object, &mut Context<'_>) -> Result<Row, Flaw>,
}

/// All formats; the first whose needs a row meets is taken.
pub(super) const FORMATS: [&Format; 6] = [
    &hunkwise::FORMAT,
    &verl::FORMAT,
    &nemo_rl::FORMAT,
    &prime_rl::FORMAT,
    &areal::FORMAT,
    &trl::FORMAT,
];

impl DumpFormat {
    /// Every format, in the order of detection.
    pub fn all() -> impl Iterator<Item = DumpFormat> {
        FORMATS.iter().map(|format| format.format)
    }

    /// The name that `--format` takes.
    pub fn name(self) -> &'static str {
        self.format().map_or("unknown", |format| format.name)
    }

    /// Its line in the table.
    pub(super) fn format(self) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.format == self).copied()
    }
}

impl fmt::Display for DumpFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DumpFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<DumpFormat, Error> {
        FORMATS.iter().find(|format| format.name == name).map(|format| format.format).ok_or_else(
            || Error::Config {
                op: "rollout",
                name: "format",
                got: name.to_owned(),
                expected: "one of hunkwise, verl, nemo-rl, prime-rl, areal, trl",
            },
        )
    }
}

/// The format of a row with these field names, or why there is none.
pub(super) fn detect(names: &[String]) -> Result<&'static Format, String> {
    let has = |field: &str| names.iter().any(|name| name == field);
    let n_met = |format: &Format| {
        format.needs.iter().filter(|group| group.iter().any(|field| has(field))).count()
    };
    if let Some(format) = FORMATS.iter().find(|format| n_met(format) == format.needs.len()) {
        return Ok(format);
    }
    let mut seen: Vec<String> = names.iter().take(12).map(|name| format!("`{name}`")).collect();
    if names.len() > seen.len() {
        seen.push(format!("and {} more", names.len() - seen.len()));
    }
    let seen = if seen.is_empty() {
        "no fields".to_owned()
    } else {
        format!("the fields {}", seen.join(", "))
    };
    let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    let known = known.join(", ");
    // Of the formats with most fields present the first; with none present no guess is made.
    let nearest = FORMATS.iter().filter(|format| n_met(format) > 0).max_by_key(|format| {
        (
            n_met(format) * 100 / format.needs.len(),
            std::cmp::Reverse(FORMATS.iter().position(|other| other.name == format.name)),
        )
    });
    let advice = match nearest {
        Some(format) => {
            let missing: Vec<String> = format
                .needs
                .iter()
                .filter(|group| !group.iter().any(|field| has(field)))
                .map(|group| {
                    group.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" or ")
                })
                .collect();
            format!("; nearest is {}, which also needs {}", format.name, missing.join(" and "))
        }
        None => String::new(),
    };
    Err(format!("has {seen}, which fit no known format ({known}){advice}. `--format` chooses one"))
}
