//! Tensors of a loss from a JSON object.

use std::fmt;

use hunkwise::error::{Error, Place, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::input::{Input, Span};
use super::tensor::{Dtype, Shape, Tensor};

pub(super) fn read(bytes: &[u8], place: &Place) -> Result<Input> {
    let Object(entries) = serde_json::from_slice(bytes).map_err(|e| not_json(bytes, &e, place))?;
    let mut input = Input::new(place.clone());
    let dtype = match entries.iter().find(|(name, _)| name == "dtype") {
        None | Some((_, Value::Null)) => Dtype::F32,
        Some((_, Value::String(name))) if Dtype::from_name(name).is_some() => {
            Dtype::from_name(name).unwrap_or(Dtype::F32)
        }
        Some(_) => {
            return Err(Error::input(place.at("dtype"), "must be \"f32\", \"bf16\" or \"f16\""));
        }
    };
    for (name, value) in entries {
        let place = place.at(name.as_str());
        match (name.as_str(), value) {
            ("dtype", _) => {}
            // Left out in so many words.
            (_, Value::Null) => {}
            ("config", value) => input.config = Some(value),
            ("trainer", Value::Object(given)) => {
                for (name, value) in given {
                    let name = format!("trainer.{name}");
                    input.put(&name, tensor(&value, Dtype::F32, &place.at(name.as_str()))?)?;
                }
            }
            ("trainer", _) => {
                let what = "must be an object with `loss`, `grad_log_prob` or `token_loss`";
                return Err(Error::input(place, what));
            }
            ("advantages" | "advantage", Value::Object(given)) => {
                for (name, value) in given {
                    let place = place.at(format!("{}.{name}", place.field));
                    match name.as_str() {
                        "episode" => {
                            input.put("advantages", tensor(&value, Dtype::F32, &place)?)?
                        }
                        "spans" => input.spans = Some(spans(&value, &place)?),
                        _ => {
                            return Err(Error::input(
                                place,
                                "is not known; it has `episode` and `spans`",
                            ));
                        }
                    }
                }
            }
            (name, value) => input.put(name, tensor(&value, dtype, &place)?)?,
        }
    }
    Ok(input)
}

/// An object with every entry, a name that comes twice included.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with `log_prob`, `mask` and `advantages`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Python writes NaN and Infinity bare, which is not JSON: worth a hint.
fn not_json(bytes: &[u8], e: &serde_json::Error, place: &Place) -> Error {
    let line =
        bytes.split(|&byte| byte == b'\n').nth(e.line().saturating_sub(1)).unwrap_or_default();
    let rest = line.get(e.column().saturating_sub(1)..).unwrap_or_default();
    let is_bare = [&b"N"[..], b"I", b"-I"].iter().any(|start| rest.starts_with(start));
    let hint = if is_bare { "; for NaN write null, for infinity \"Infinity\"" } else { "" };
    let place = Place { line: e.line() as u64, ..place.clone() };
    Error::input(place, format!("{e}{hint}"))
}

fn tensor(value: &Value, dtype: Dtype, place: &Place) -> Result<Tensor> {
    let mut values = Vec::new();
    let Value::Array(items) = value else {
        values.push(number(value, place, "")?);
        return Ok(Tensor { values, shape: Shape::Number, dtype });
    };
    if !items.first().is_some_and(Value::is_array) {
        for (i, item) in items.iter().enumerate() {
            values.push(number(item, place, &format!("[{i}]"))?);
        }
        return Ok(Tensor { values, shape: Shape::Vector, dtype });
    }
    let mut offsets = vec![0];
    for (row, items) in items.iter().enumerate() {
        let Value::Array(items) = items else {
            let place = place.at(format!("{}[{row}]", place.field));
            return Err(Error::input(place, "must be an array of numbers, as the first row is"));
        };
        for (i, item) in items.iter().enumerate() {
            values.push(number(item, place, &format!("[{row}][{i}]"))?);
        }
        offsets.push(values.len());
    }
    let (n_rows, n_columns) = (items.len(), offsets[1]);
    let shape = if offsets.windows(2).all(|pair| pair[1] - pair[0] == n_columns) {
        Shape::Matrix { n_rows, n_columns }
    } else {
        Shape::Ragged { offsets }
    };
    Ok(Tensor { values, shape, dtype })
}

fn number(value: &Value, place: &Place, index: &str) -> Result<f64> {
    let not = || {
        let place = place.at(format!("{}{index}", place.field));
        let kind = match value {
            Value::Array(_) => "an array".to_string(),
            Value::Object(_) => "an object".to_string(),
            other => other.to_string(),
        };
        Error::input(place, format!("is {kind}; it must be a number"))
    };
    match value {
        Value::Number(number) => number.as_f64().ok_or_else(not),
        Value::Bool(flag) => Ok(f64::from(u8::from(*flag))),
        Value::Null => Ok(f64::NAN),
        Value::String(text) => match text.as_str() {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(not()),
        },
        _ => Err(not()),
    }
}

/// For each row its spans `[start, end, advantage]`.
fn spans(value: &Value, place: &Place) -> Result<Vec<Vec<Span>>> {
    let rows: Vec<Vec<(u32, u32, f32)>> = Deserialize::deserialize(value).map_err(|e| {
        let what = "must have, for each row, a list of [start, end, advantage]";
        Error::input(place.clone(), format!("{what}: {e}"))
    })?;
    let span = |(start, end, advantage)| Span { tokens: start..end, advantage };
    Ok(rows.into_iter().map(|row| row.into_iter().map(span).collect()).collect())
}
