//! Conversion of fields that are not integers, reals or texts in their plainest form.
//!
//! Must never: take the record as an argument: the hot loop keeps it in registers.

use leafpress_format::number::{integral, text_to_number};
use leafpress_format::{Number, NumberText, Value};

use super::rule::{FieldAt, FieldRule};
use super::timestamp::{DateText, Timestamp};
use crate::schema::{ColumnType, RealRule, kept_real, stored_real};

/// Name of a timestamp in messages.
pub const NOT_A_TIMESTAMP: &str = "date or time as in 2026-01-31 23:59:59+01:00";
pub const NOT_A_HEX_BLOB: &str = "BLOB in hexadecimal digits";
pub const NOT_A_BOOLEAN: &str = "boolean: true or false, yes or no, on or off, 1 or 0";

/// Stored value of such a field.
pub enum Converted {
    Number(Number),
    AsItIs,
    Text(DateText),
    Blob(Vec<u8>),
    Refuted,
}

/// Converts a field. If the caller gave the type, an impossible value makes a fault; a detected
/// type is refuted.
#[inline(never)]
pub(super) fn convert(
    rule: FieldRule,
    found: FieldAt<'_>,
    number: &mut NumberText,
) -> Result<Converted, String> {
    match rule {
        FieldRule::Given(column_type) => given(column_type, found, number),
        FieldRule::GivenReal => match given(ColumnType::Real, found, number)? {
            Converted::Number(Number::Integer(integer)) => {
                // It was made of a real, so no digit is lost.
                Ok(Converted::Number(Number::Real(integer as f64)))
            }
            converted => Ok(converted),
        },
        FieldRule::Timestamp(form) => {
            let time =
                Timestamp::parse(found.bytes()).ok_or_else(|| not_a(found, NOT_A_TIMESTAMP))?;
            Ok(time.stored(form))
        }
        FieldRule::Boolean => {
            let truth = truth(found.bytes()).ok_or_else(|| not_a(found, NOT_A_BOOLEAN))?;
            Ok(Converted::Number(Number::Integer(truth.into())))
        }
        FieldRule::Numeric => Ok(numeric(found)),
        _ => Ok(Converted::Refuted),
    }
}

/// Converts by the affinity of a given type.
fn given(
    column_type: ColumnType,
    found: FieldAt<'_>,
    number: &mut NumberText,
) -> Result<Converted, String> {
    if column_type == ColumnType::Blob {
        let blob = bytes_of_hex(found.bytes()).ok_or_else(|| not_a(found, NOT_A_HEX_BLOB));
        return blob.map(Converted::Blob);
    }
    let text = Value::Text(found.bytes());
    match (column_type, column_type.affinity().apply(text, number)) {
        (ColumnType::Integer, Value::Integer(integer)) => {
            Ok(Converted::Number(Number::Integer(integer)))
        }
        (ColumnType::Real, Value::Real(real)) => Ok(Converted::Number(stored_real(real))),
        _ => Err(not_a(found, column_type.name())),
    }
}

/// Converts by NUMERIC affinity.
fn numeric(found: FieldAt<'_>) -> Converted {
    let FieldAt { source, start, end } = found;
    // A fast path for most values that are no integers.
    if let Some(real) = kept_real(source, start, end, 0, RealRule::Exact) {
        let number = integral(real.value).map_or(Number::Real(real.value), Number::Integer);
        return Converted::Number(number);
    }
    text_to_number(found.bytes()).map_or(Converted::AsItIs, Converted::Number)
}

pub(super) fn not_a(found: FieldAt<'_>, what: &str) -> String {
    let article = if what.starts_with('I') { "an" } else { "a" };
    format!("'{}' is not {article} {what}", shown(found.bytes()))
}

/// A value as a message shows it.
pub fn shown(value: &[u8]) -> String {
    crate::input::csv::locate::excerpt(value, 0, value.len(), 60)
}

/// Value of a word for true or false in any case, as PostgreSQL reads it.
pub fn truth(text: &[u8]) -> Option<bool> {
    let is_one_of =
        |words: [&str; 6]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    if is_one_of(["true", "t", "yes", "y", "on", "1"]) {
        Some(true)
    } else if is_one_of(["false", "f", "no", "n", "off", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// Bytes of pairs of hexadecimal digits, with or without `0x` or `\x` in front.
pub fn bytes_of_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"0x").or(text.strip_prefix(b"\\x")).unwrap_or(text);
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_truth() {
        for word in ["true", "TRUE", "T", "yes", "Y", "on", "1"] {
            assert_eq!(truth(word.as_bytes()), Some(true), "{word}");
        }
        for word in ["false", "False", "f", "NO", "n", "off", "0"] {
            assert_eq!(truth(word.as_bytes()), Some(false), "{word}");
        }
        for word in ["", "2", "tru", " true", "vrai", "1.0"] {
            assert_eq!(truth(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn blobs_are_hexadecimal() {
        assert_eq!(bytes_of_hex(b"00fFA0"), Some(vec![0, 255, 160]));
        assert_eq!(bytes_of_hex(b"0x01"), Some(vec![1]));
        assert_eq!(bytes_of_hex(b"\\x01"), Some(vec![1]));
        assert_eq!(bytes_of_hex(b""), Some(vec![]));
        assert_eq!(bytes_of_hex(b"0"), None);
        assert_eq!(bytes_of_hex(b"0g"), None);
    }
}
