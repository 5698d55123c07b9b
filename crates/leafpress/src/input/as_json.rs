//! Values and rows as JSON, for nested values and for rows that are shown to people.
//!
//! ```text
//! blob     "00ff"     hexadecimal digits
//! float    1.5        null for NaN, 9e999 for infinity, as SQLite's JSON has it
//! ```
//!
//! Must never: write what is not JSON.

use std::io::Write;

use leafpress_format::Value;

use crate::hex::hex_digits;

/// Number of characters after which a row in a message is cut.
const EXCERPT_CHARACTERS_MAX: usize = 200;

/// Writes elements with commas between them.
pub fn separated<T>(
    open: u8,
    close: u8,
    elements: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(open);
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(close);
}

/// Writes a value.
pub fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Integer(integer) => {
            // Writing to memory does not fail.
            let _ = write!(out, "{integer}");
        }
        Value::Real(real) => write_real(real, out),
        Value::Text(text) => write_text(text, out),
        Value::Blob(blob) => {
            out.push(b'"');
            out.extend(hex_digits(blob).map(|digit| digit as u8));
            out.push(b'"');
        }
    }
}

fn write_real(real: f64, out: &mut Vec<u8>) {
    let text: &[u8] = match real {
        _ if real.is_nan() => b"null",
        f64::INFINITY => b"9e999",
        f64::NEG_INFINITY => b"-9e999",
        _ => {
            out.extend_from_slice(zmij::Buffer::new().format_finite(real).as_bytes());
            return;
        }
    };
    out.extend_from_slice(text);
}

/// Writes text.
pub fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=31 => {
                // Writing to memory does not fail.
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// The beginning of a row, for a message.
pub fn excerpt(row: &[u8]) -> String {
    let text = String::from_utf8_lossy(row);
    match text.char_indices().nth(EXCERPT_CHARACTERS_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_to_sqlite() {
        let database = rusqlite::Connection::open_in_memory().unwrap();
        let values = [
            (Value::Null, "null", "null"),
            (Value::Integer(i64::MIN), "-9223372036854775808", "integer"),
            (Value::Real(1.5), "1.5", "real"),
            (Value::Real(f64::NAN), "null", "null"),
            (Value::Real(f64::NEG_INFINITY), "-9e999", "real"),
            (Value::Text(b"a\"\\\n\x01\xc3\xbc"), r#""a\"\\\n\u0001ü""#, "text"),
            (Value::Blob(b"\x00\xff"), r#""00ff""#, "text"),
        ];
        for (value, expected, kind) in values {
            let mut out = Vec::new();
            write_value(value, &mut out);
            let json = String::from_utf8(out).unwrap();
            assert_eq!(json, expected);
            let ask = database.query_row("SELECT json_type(?1)", [&json], |row| row.get(0));
            assert_eq!(ask, Ok(kind.to_owned()), "{json}");
        }
    }

    #[test]
    fn long_rows_are_cut_between_characters() {
        assert_eq!(excerpt(b"short"), "short");
        let cut = excerpt("ü".repeat(300).as_bytes());
        assert_eq!(cut, format!("{}…", "ü".repeat(200)));
    }
}
