//! hunkwise's own JSON lines: one sequence a row. Every field is in `docs/formats.md`.

use super::fields::{self, Context, Flaw, mask_of_turns, required, turns_of_mask, whole_turn};
use super::format::{DumpFormat, Format};
use super::ids::required_tokenizer;
use super::json::{Json, Object};
use super::token_bytes::{Specials, Start};
use super::{Row, Sequence, Tokens, Turn};

pub(super) const FORMAT: Format = Format {
    format: DumpFormat::Hunkwise,
    name: "hunkwise",
    needs: &[&["task"], &["text", "text_base64", "token_ids"]],
    wanted: Some(&[
        "task",
        "trajectory",
        "turn",
        "text",
        "text_base64",
        "token_ends",
        "token_ids",
        "mask",
        "turns",
        "reward",
        "observation",
        "outcome",
    ]),
    closed: true,
    read,
};

/// Text and byte-ends, before turns and mask are known.
struct Spelled {
    text: Vec<u8>,
    byte_ends: Option<Vec<u32>>,
    /// Number of tokens of the row, when it has token fields.
    n_tokens: Option<usize>,
    /// True when the text given was replaced by the exact bytes of the ids.
    respelled: bool,
}

fn read(mut object: Object, context: &mut Context<'_>) -> Result<Row, Flaw> {
    let task = required("task", fields::key(&mut object, "task")?)?;
    let trajectory = fields::key(&mut object, "trajectory")?;
    let order = fields::count("turn", object.take("turn"))?;
    let mask = fields::mask("mask", object.take("mask"))?;
    let spelled = spell(&mut object, context)?;
    let turns = turns(&mut object, &spelled, mask.as_deref(), context)?;
    let Spelled { text, byte_ends, n_tokens, .. } = spelled;
    let outcome = object.take("outcome");
    let outcome = context.reward("outcome", outcome);

    let sequence = match (byte_ends, mask, n_tokens) {
        (Some(byte_ends), mask, _) => {
            let mask = mask.unwrap_or_else(|| mask_of_turns(&byte_ends, &turns));
            Sequence {
                text,
                tokens: Some(Tokens { byte_ends, mask }),
                turns,
                first_turn: 0,
                place: context.place.clone(),
            }
        }
        (None, Some(mask), Some(n_tokens)) if mask.len() != n_tokens => {
            let what = format!(
                "has {} entries for {n_tokens} tokens; it must have one for each",
                mask.len()
            );
            return Err(Flaw::new("mask", what));
        }
        (None, Some(_), None) => {
            return Err(Flaw::new("mask", "needs `token_ends` or `token_ids` beside it"));
        }
        (None, _, Some(_)) => {
            Sequence { text, tokens: None, turns, first_turn: 0, place: context.place.clone() }
        }
        (None, None, None) => context.text_sequence(text, turns),
    };
    Ok(Row { task, trajectory, order, outcome, unscored: context.unscored, sequence })
}

/// The text with its byte-ends: as given, or from the token ids, which are the truth where they are known.
fn spell(object: &mut Object, context: &mut Context<'_>) -> Result<Spelled, Flaw> {
    let text = match (fields::text(object, "text")?, fields::text(object, "text_base64")?) {
        (Some(_), Some(_)) => {
            return Err(Flaw::new("text_base64", "stands beside `text`; give one of them"));
        }
        (Some(text), None) => Some(text.into_bytes()),
        (None, Some(encoded)) => Some(
            decode_base64(encoded.as_bytes()).map_err(|reason| Flaw::new("text_base64", reason))?,
        ),
        (None, None) => None,
    };
    let ends = fields::ints("token_ends", object.take("token_ends"))?;
    let ids = fields::ints("token_ids", object.take("token_ids"))?;
    if let (Some(ends), Some(ids)) = (&ends, &ids)
        && ends.len() != ids.len()
    {
        let what =
            format!("has {} entries for {} of `token_ids`; both must agree", ends.len(), ids.len());
        return Err(Flaw::new("token_ends", what));
    }
    let ids_flaw = |error: crate::error::Error| Flaw::new("token_ids", error.to_string());
    match (text, ends, ids) {
        (Some(text), Some(ends), _) => {
            let byte_ends = ends
                .iter()
                .enumerate()
                .map(|(i, &end)| {
                    u32::try_from(end).map_err(|_| {
                        Flaw::new(
                            "token_ends",
                            format!("has {end} at entry {i}; it must be a byte of the text"),
                        )
                    })
                })
                .collect::<Result<Vec<u32>, Flaw>>()?;
            Ok(Spelled {
                text,
                n_tokens: Some(byte_ends.len()),
                byte_ends: Some(byte_ends),
                respelled: false,
            })
        }
        (None, Some(_), _) => Err(Flaw::new("text", "is missing; `token_ends` are bytes of it")),
        (Some(text), None, None) => {
            Ok(Spelled { text, byte_ends: None, n_tokens: None, respelled: false })
        }
        (Some(text), None, Some(ids)) => match context.tokenizer {
            Some(tokenizer) => {
                let ids = fields::token_ids("token_ids", &ids)?;
                let (bytes, byte_ends) = tokenizer.align(&ids, &text).map_err(ids_flaw)?;
                let respelled = bytes != text;
                Ok(Spelled {
                    text: bytes,
                    n_tokens: Some(ids.len()),
                    byte_ends: Some(byte_ends),
                    respelled,
                })
            }
            None => {
                context.note(
                    "has `token_ids`, but no tokenizer was given; credit is per byte range only",
                );
                Ok(Spelled { text, byte_ends: None, n_tokens: Some(ids.len()), respelled: false })
            }
        },
        (None, None, Some(ids)) => {
            let tokenizer = required_tokenizer("token_ids", context)?;
            let ids = fields::token_ids("token_ids", &ids)?;
            let (text, byte_ends) = tokenizer
                .decode(&ids, Specials::ZeroWidth, Start::Continuation)
                .map_err(ids_flaw)?;
            Ok(Spelled {
                text,
                n_tokens: Some(ids.len()),
                byte_ends: Some(byte_ends),
                respelled: false,
            })
        }
        (None, None, None) => {
            Err(Flaw::new("text", "is missing; give `text`, `text_base64` or `token_ids`"))
        }
    }
}

/// The turns of the row: those of the field `turns`, else the runs of the mask, else the whole text as one.
fn turns(
    object: &mut Object,
    spelled: &Spelled,
    mask: Option<&[bool]>,
    context: &mut Context<'_>,
) -> Result<Vec<Turn>, Flaw> {
    let reward = object.take("reward");
    let observation = fields::text(object, "observation")?;
    let Some(list) = object.take("turns") else {
        let reward = context.reward("reward", reward);
        return Ok(match (&spelled.byte_ends, mask) {
            (Some(byte_ends), Some(mask)) => {
                turns_of_mask(&spelled.text, byte_ends, mask, reward, observation)
            }
            _ => whole_turn(&spelled.text, reward, observation),
        });
    };
    if reward.is_some() || observation.is_some() {
        let field = if reward.is_some() { "reward" } else { "observation" };
        return Err(Flaw::new(field, "stands beside `turns`; it belongs into them"));
    }
    if spelled.respelled {
        return Err(Flaw::new(
            "turns",
            "are bytes of a text in which U+FFFD stands for cut bytes; give `text_base64` with the exact bytes, or no text",
        ));
    }
    let list = list.into_list().map_err(|other| {
        Flaw::new("turns", format!("is {}; it must be a list of objects", other.kind()))
    })?;
    list.into_iter()
        .enumerate()
        .map(|(i, item)| {
            let Json::Object(item) = item else {
                return Err(Flaw::new(
                    format!("turns[{i}]"),
                    format!("is {}; it must be an object", item.kind()),
                ));
            };
            let mut item = Object::new(item);
            let mut byte = |name: &str| {
                let field = format!("turns[{i}].{name}");
                let byte = required(&field, fields::count(&field, item.take(name))?)?;
                usize::try_from(byte)
                    .map_err(|_| Flaw::new(field, format!("is {byte}; no text is so long")))
            };
            let (start, end) = (byte("start")?, byte("end")?);
            let reward = context.reward(&format!("turns[{i}].reward"), item.take("reward"));
            let observation = fields::text(&mut item, "observation")
                .map_err(|flaw| Flaw::new(format!("turns[{i}].{}", flaw.field), flaw.reason))?;
            Ok(Turn { bytes: start..end, reward, observation })
        })
        .collect()
}

/// Standard base64 (RFC 4648, section 4), padding optional.
fn decode_base64(encoded: &[u8]) -> Result<Vec<u8>, String> {
    let n_padding = encoded.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let digits = &encoded[..encoded.len() - n_padding];
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for (quad_idx, quad) in digits.chunks(4).enumerate() {
        let mut bits = 0u32;
        for (i, &digit) in quad.iter().enumerate() {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return Err(format!("has no base64 digit at byte {}", quad_idx * 4 + i)),
            };
            bits |= u32::from(value) << (18 - 6 * i);
        }
        if quad.len() == 1 {
            return Err("ends with a single base64 digit".into());
        }
        let [_, high, middle, low] = bits.to_be_bytes();
        bytes.extend_from_slice(&[high, middle, low][..quad.len() - 1]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::decode_base64;

    #[test]
    fn base64_vectors() {
        // RFC 4648, section 10.
        let vectors = [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg", "foob"),
            ("Zm9vYmFy", "foobar"),
        ];
        for (encoded, text) in vectors {
            assert_eq!(decode_base64(encoded.as_bytes()), Ok(text.into()));
        }
        assert_eq!(decode_base64(b"4q0="), Ok(vec![0xE2, 0xAD]));
        assert!(decode_base64(b"Zm9*").unwrap_err().contains("byte 3"));
        assert!(decode_base64(b"Z").is_err());
        assert!(decode_base64(b"=").is_ok());
    }
}
