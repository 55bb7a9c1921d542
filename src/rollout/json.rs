//! JSON of dumps: one object a line, only the wanted fields kept, `NaN` and `Infinity` allowed.
//!
//! Dumps hold long arrays (token ids, log-probs). Fields that the format does not use are skipped without being built,
//! and arrays of integers are kept as such. Python's `json` writes `NaN`, `Infinity` and `-Infinity`, which are not
//! JSON; they are read as [`Json::NotFinite`] wherever a value may stand.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// `NaN`, `Infinity` or `-Infinity`, as written.
    NotFinite(String),
    Text(String),
    /// An array of integers only; also the empty array.
    Ints(Vec<i64>),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Int(_) => "an integer",
            Json::Float(_) => "a number with a fraction or exponent",
            Json::NotFinite(_) => "not a finite number",
            Json::Text(_) => "a string",
            Json::Ints(_) | Json::List(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    /// The elements, if it is a list.
    pub(super) fn into_list(self) -> Result<Vec<Json>, Json> {
        match self {
            Json::Ints(ints) => Ok(ints.into_iter().map(|int| Json::Int(int.into())).collect()),
            Json::List(list) => Ok(list),
            other => Err(other),
        }
    }

    /// The only element of a list of one, else the value itself. Some trainers write one-row batches, where every
    /// value is a list of one.
    pub(super) fn without_batch_axis(self) -> Json {
        match self {
            Json::List(mut list) if list.len() == 1 => list.pop().unwrap_or(Json::Null),
            Json::Ints(ints) => match ints[..] {
                [only] => Json::Int(only.into()),
                _ => Json::Ints(ints),
            },
            other => other,
        }
    }
}

/// Compact JSON text. Values that are not finite become null.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null | Json::NotFinite(_) => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Int(value) => write!(f, "{value}"),
            Json::Float(value) if value.is_finite() => write!(f, "{value:?}"),
            Json::Float(_) => f.write_str("null"),
            Json::Text(text) => write_text(f, text),
            Json::Ints(ints) => write_list(f, "[", "]", ints, |f, int| write!(f, "{int}")),
            Json::List(list) => write_list(f, "[", "]", list, |f, item| write!(f, "{item}")),
            Json::Object(fields) => write_list(f, "{", "}", fields, |f, (name, value)| {
                write_text(f, name)?;
                write!(f, ": {value}")
            }),
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?)
}

fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    close: &str,
    items: &[T],
    mut write: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write(f, item)?;
    }
    f.write_str(close)
}

/// One row of a dump: the wanted fields with their values, and the names of the others.
#[derive(Debug, Default)]
pub(super) struct Object {
    fields: Vec<(String, Json)>,
    /// Names of the fields that were skipped.
    pub(super) others: Vec<String>,
}

impl Object {
    /// A row from named values.
    pub(super) fn new(fields: Vec<(String, Json)>) -> Object {
        Object { fields, others: Vec::new() }
    }

    /// Parses one line; keeps the values of the `wanted` names, or of all when `None`.
    ///
    /// # Errors
    /// What is wrong, with the column from 1.
    pub(super) fn parse(line: &str, wanted: Option<&[&str]>) -> Result<Object, String> {
        let line = mark_not_finite(line);
        let mut parser = serde_json::Deserializer::from_str(&line);
        ObjectSeed { wanted }
            .deserialize(&mut parser)
            .and_then(|object| parser.end().map(|()| object))
            .map_err(|error| {
                let message = error.to_string();
                let what =
                    message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
                if error.is_eof() {
                    format!("is not JSON: the line ends in the middle of a value ({what})")
                } else {
                    format!("is not a JSON object: column {}: {what}", error.column())
                }
            })
    }

    /// Takes the value of a field. Null is the same as absent; of two fields with one name the last holds.
    pub(super) fn take(&mut self, name: &str) -> Option<Json> {
        let index = self.fields.iter().rposition(|(field, _)| field == name)?;
        let (_, value) = self.fields.swap_remove(index);
        (value != Json::Null).then_some(value)
    }

    /// The fields not taken yet.
    pub(super) fn into_fields(self) -> Vec<(String, Json)> {
        self.fields
    }
}

struct ObjectSeed<'a> {
    wanted: Option<&'a [&'a str]>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Object;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Object, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, one on each line")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        while let Some(name) = map.next_key::<String>()? {
            if self.wanted.is_none_or(|wanted| wanted.contains(&name.as_str())) {
                let value = map.next_value()?;
                object.fields.push((name, value));
            } else {
                map.next_value::<IgnoredAny>()?;
                object.others.push(name);
            }
        }
        Ok(object)
    }
}

/// A noncharacter, which no text for interchange holds; it starts the strings that stand for `NaN` and its like.
const MARK: char = '\u{FDD0}';
const NOT_FINITE: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

/// Puts marked strings where `NaN`, `Infinity` and `-Infinity` stand outside of strings.
fn mark_not_finite(line: &str) -> Cow<'_, str> {
    let bytes = line.as_bytes();
    if memchr::memmem::find(bytes, b"NaN").is_none()
        && memchr::memmem::find(bytes, b"Infinity").is_none()
    {
        return Cow::Borrowed(line);
    }
    let mut marked = String::with_capacity(line.len() + 64);
    let (mut in_string, mut escaped, mut n_copied, mut i) = (false, false, 0, 0);
    while let Some(&byte) = bytes.get(i) {
        let literal = if in_string {
            None
        } else {
            NOT_FINITE.iter().find(|literal| bytes[i..].starts_with(literal.as_bytes()))
        };
        if let Some(literal) = literal {
            // Both ends are at ASCII bytes, so they are character boundaries.
            marked.push_str(line.get(n_copied..i).unwrap_or_default());
            marked.extend(['"', MARK]);
            marked.push_str(literal);
            marked.push('"');
            i += literal.len();
            n_copied = i;
            continue;
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ => {}
        }
        i += 1;
    }
    marked.push_str(line.get(n_copied..).unwrap_or_default());
    Cow::Owned(marked)
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Json, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        match text.strip_prefix(MARK) {
            Some(literal) if NOT_FINITE.contains(&literal) => {
                Ok(Json::NotFinite(literal.to_owned()))
            }
            _ => Ok(Json::Text(text)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut ints: Vec<i64> = Vec::new();
        let mut list: Vec<Json> = Vec::new();
        while let Some(item) = seq.next_element::<Json>()? {
            if list.is_empty() {
                if let Json::Int(int) = item
                    && let Ok(int) = i64::try_from(int)
                {
                    ints.push(int);
                    continue;
                }
                list.extend(ints.drain(..).map(|int| Json::Int(int.into())));
            }
            list.push(item);
        }
        Ok(if list.is_empty() { Json::Ints(ints) } else { Json::List(list) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry::<String, Json>()? {
            fields.push(field);
        }
        Ok(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str, name: &str) -> Option<Json> {
        Object::parse(line, None).unwrap().take(name)
    }

    #[test]
    fn values_keep_their_types() {
        let line = r#"{"a": 1, "b": 1.0, "c": "1", "d": true, "e": [1, 2], "f": [1, 2.5], "g": null, "h": {"k": []}}"#;
        assert_eq!(field(line, "a"), Some(Json::Int(1)));
        assert_eq!(field(line, "b"), Some(Json::Float(1.0)));
        assert_eq!(field(line, "c"), Some(Json::Text("1".into())));
        assert_eq!(field(line, "d"), Some(Json::Bool(true)));
        assert_eq!(field(line, "e"), Some(Json::Ints(vec![1, 2])));
        assert_eq!(field(line, "f"), Some(Json::List(vec![Json::Int(1), Json::Float(2.5)])));
        assert_eq!(field(line, "g"), None);
        assert_eq!(field(line, "h"), Some(Json::Object(vec![("k".into(), Json::Ints(vec![]))])));
    }

    #[test]
    fn not_finite_outside_of_strings_only() {
        let line = r#"{"a": NaN, "b": "NaN \" Infinity", "c": [-Infinity,Infinity], "é\\": NaN}"#;
        assert_eq!(field(line, "a"), Some(Json::NotFinite("NaN".into())));
        assert_eq!(field(line, "b"), Some(Json::Text("NaN \" Infinity".into())));
        let pair = vec![Json::NotFinite("-Infinity".into()), Json::NotFinite("Infinity".into())];
        assert_eq!(field(line, "c"), Some(Json::List(pair)));
        assert_eq!(field(line, "é\\"), Some(Json::NotFinite("NaN".into())));
    }

    #[test]
    fn only_wanted_fields_are_kept() {
        let mut object = Object::parse(r#"{"a": 1, "b": [1], "a": 2}"#, Some(&["a"])).unwrap();
        assert_eq!(object.others, ["b"]);
        assert_eq!(object.take("a"), Some(Json::Int(2)));
    }

    #[test]
    fn errors_name_the_column() {
        let reason = |line: &str| Object::parse(line, None).unwrap_err();
        assert_eq!(reason(r#"{"a": x}"#), "is not a JSON object: column 7: expected value");
        assert!(reason(r#"{"a": 1"#).contains("ends in the middle"));
        assert!(reason("[1]").contains("expected an object, one on each line"));
        assert!(reason(r#"{"a": 1} 2"#).contains("column 10: trailing characters"));
    }

    #[test]
    fn writes_json() {
        let line = r#"{"a": [1, "x\n", {"b": null, "c": -0.5}]}"#;
        assert_eq!(
            Json::Object(Object::parse(line, None).unwrap().into_fields()).to_string(),
            line
        );
    }
}
