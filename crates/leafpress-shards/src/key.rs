//! Keys: values that a manifest keeps, with their SQLite types.
//!
//! In JSON an integer is a number without a point, a real one with a point, a text a string, NULL
//! `null`. What JSON cannot say is an object: `{"blob": "00ff"}`, `{"text": "ff"}` for a text that is
//! not UTF-8, `{"real": "inf"}`.

use std::cmp::Ordering;

use leafpress::hex_digits;
use leafpress_format::Value;
use leafpress_format::key::{Collation, compare_values};
use rusqlite::types::ValueRef;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value as Json, json};

/// A value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A double.
    Real(f64),
    /// The bytes of a text.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Key {
    /// The value, borrowed.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(integer) => Value::Integer(*integer),
            Self::Real(real) => Value::Real(*real),
            Self::Text(text) => Value::Text(text),
            Self::Blob(blob) => Value::Blob(blob),
        }
    }

    /// Compares as SQLite does under the collation BINARY: NULL, numbers, texts, blobs.
    pub fn compare(&self, other: &Value<'_>) -> Ordering {
        compare_values(&self.value(), other, Collation::Binary)
    }

    fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Integer(integer) => json!(integer),
            Self::Real(real) if real.is_finite() => json!(real),
            Self::Real(real) => json!({"real": if *real > 0.0 { "inf" } else { "-inf" }}),
            Self::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => json!(text),
                Err(_) => json!({"text": hex(text)}),
            },
            Self::Blob(blob) => json!({"blob": hex(blob)}),
        }
    }

    fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Null => Some(Self::Null),
            Json::Number(number) if number.is_f64() => number.as_f64().map(Self::Real),
            Json::Number(number) => number.as_i64().map(Self::Integer),
            Json::String(text) => Some(Self::Text(text.clone().into_bytes())),
            Json::Object(object) if object.len() == 1 => {
                let (kind, content) = object.iter().next()?;
                match (kind.as_str(), content.as_str()?) {
                    ("blob", digits) => from_hex(digits).map(Self::Blob),
                    ("text", digits) => from_hex(digits).map(Self::Text),
                    ("real", "inf") => Some(Self::Real(f64::INFINITY)),
                    ("real", "-inf") => Some(Self::Real(f64::NEG_INFINITY)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl From<Value<'_>> for Key {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(integer) => Self::Integer(integer),
            Value::Real(real) => Self::Real(real),
            Value::Text(text) => Self::Text(text.to_vec()),
            Value::Blob(blob) => Self::Blob(blob.to_vec()),
        }
    }
}

impl From<&rusqlite::types::Value> for Key {
    fn from(value: &rusqlite::types::Value) -> Self {
        Self::from(value_of(ValueRef::from(value)))
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(from)?;
        Self::from_json(&json).ok_or_else(|| D::Error::custom(format!("{json} is no key")))
    }
}

/// The value of a column of SQLite's, as the format crate has it.
pub fn value_of(value: ValueRef<'_>) -> Value<'_> {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => Value::Integer(integer),
        ValueRef::Real(real) => Value::Real(real),
        ValueRef::Text(text) => Value::Text(text),
        ValueRef::Blob(blob) => Value::Blob(blob),
    }
}

/// Bytes as hexadecimal digits, two for each.
pub fn hex(bytes: &[u8]) -> String {
    hex_digits(bytes).collect()
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|&[high, low]| Some((digit(high)? * 16 + digit(low)?) as u8));
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_value_and_type_in_json() {
        let keys = [
            Key::Null,
            Key::Integer(i64::MIN),
            Key::Integer(i64::MAX),
            Key::Real(1.0),
            Key::Real(-0.1),
            Key::Real(5e-324),
            Key::Real(f64::INFINITY),
            Key::Real(f64::NEG_INFINITY),
            Key::Text(b"a \"b\" \xc3\xa4".to_vec()),
            Key::Text(vec![0xff, 0]),
            Key::Blob(vec![]),
            Key::Blob(vec![0, 255]),
        ];
        for key in keys {
            let text = serde_json::to_string(&key).expect("JSON");
            assert_eq!(serde_json::from_str::<Key>(&text).expect("a key"), key, "{text}");
        }
        for wrong in
            ["true", "[1]", "{}", "{\"blob\": \"0\"}", "{\"blob\": \"0g\"}", "18446744073709551615"]
        {
            assert!(serde_json::from_str::<Key>(wrong).is_err(), "{wrong}");
        }
    }
}
