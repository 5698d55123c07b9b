//! One field's bytes as they stand in the input to its value.
//!
//! Follows the same rules as [`scan`](super::scan), which found where the field
//! ends. Must never: look beyond the field, or copy one that need not change.

use memchr::{memchr, memchr2};

use super::dialect::Dialect;

/// The value of the field that stands in the input as `raw`: between its
/// delimiters, and without the `\r` of the line end (see
/// [`record_last_field_end`]). Borrows from `scratch` only where an escape or a
/// doubled quote had to go.
#[inline]
pub fn field<'a>(raw: &'a [u8], dialect: Dialect, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let Some(&first) = raw.first() else { return raw };
    let has_escape = dialect.escape().is_some_and(|escape| memchr(escape, raw).is_some());
    match dialect.quote() {
        Some(quote) if first == quote => quoted(raw, quote, has_escape, dialect, scratch),
        _ if has_escape => unescape(raw, dialect, scratch),
        _ => raw,
    }
}

/// Offset where the last field of a record ends: at `newline`, the record's `\n`, or at the
/// `\r` before it if that belongs to the line end. `start` is where the field starts.
#[inline]
pub fn record_last_field_end(
    bytes: &[u8],
    start: usize,
    newline: usize,
    dialect: Dialect,
) -> usize {
    match bytes.get(start..newline) {
        Some([before @ .., b'\r']) if !is_data_after(before, dialect) => newline - 1,
        _ => newline,
    }
}

fn quoted<'a>(
    raw: &'a [u8],
    quote: u8,
    has_escape: bool,
    dialect: Dialect,
    scratch: &'a mut Vec<u8>,
) -> &'a [u8] {
    let inner = &raw[1..];
    match memchr(quote, inner) {
        Some(closing) if closing + 1 == inner.len() && !has_escape => &inner[..closing],
        None if !has_escape => inner,
        _ => unescape(raw, dialect, scratch),
    }
}

/// Returns true if an escape at the end of `raw`, a field's beginning, makes the next byte
/// text.
#[cold]
fn is_escaped_after(raw: &[u8], dialect: Dialect) -> bool {
    unescape_into(raw, dialect, &mut Vec::new())
}

/// Tells whether a carriage return behind `raw`, at the end of a line, is part of the field.
fn is_data_after(raw: &[u8], dialect: Dialect) -> bool {
    match dialect.escape() {
        Some(_) if dialect.returns_are_data() => true,
        Some(escape) if raw.last() == Some(&escape) => is_escaped_after(raw, dialect),
        _ => false,
    }
}

#[cold]
fn unescape<'a>(raw: &[u8], dialect: Dialect, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    unescape_into(raw, dialect, scratch);
    scratch
}

/// Writes the value of `raw` to `scratch`; returns whether `raw` ends with an
/// escape byte that has nothing to escape.
fn unescape_into(raw: &[u8], dialect: Dialect, scratch: &mut Vec<u8>) -> bool {
    scratch.clear();
    let escape = dialect.escape();
    let mut rest = raw;
    let quote = dialect.quote().filter(|quote| raw.first() == Some(quote));
    if let Some(quote) = quote {
        match unquote_into(&raw[1..], quote, escape, scratch) {
            Quoted::Closed(after) => rest = after,
            Quoted::Open { after_escape } => return after_escape,
        }
        // Right after a closing quote an escape byte is text.
        let (first, others) = rest.split_at(rest.len().min(1));
        scratch.extend_from_slice(first);
        rest = others;
    }
    let Some(escape) = escape else {
        scratch.extend_from_slice(rest);
        return false;
    };
    while let Some(at) = memchr(escape, rest) {
        scratch.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        let Some((byte, taken)) = dialect.escaped(after) else { return true };
        scratch.push(byte);
        rest = &after[taken..];
    }
    scratch.extend_from_slice(rest);
    false
}

/// The end of a field's quoted part.
enum Quoted<'a> {
    /// The quotes are closed; the bytes behind the closing quote.
    Closed(&'a [u8]),
    /// The quotes are never closed.
    Open { after_escape: bool },
}

/// Writes the text up to the closing quote to `scratch`.
fn unquote_into<'a>(
    mut rest: &'a [u8],
    quote: u8,
    escape: Option<u8>,
    scratch: &mut Vec<u8>,
) -> Quoted<'a> {
    while let Some(at) = memchr2(quote, escape.unwrap_or(quote), rest) {
        scratch.extend_from_slice(&rest[..at]);
        let (is_quote, next) = (rest[at] == quote, rest.get(at + 1));
        match next {
            Some(&literal) if !is_quote || literal == quote => scratch.push(literal),
            None if !is_quote => return Quoted::Open { after_escape: true },
            _ => return Quoted::Closed(&rest[at + 1..]),
        }
        rest = &rest[at + 2..];
    }
    scratch.extend_from_slice(rest);
    Quoted::Open { after_escape: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(raw: &str, dialect: Dialect) -> String {
        let mut scratch = Vec::new();
        String::from_utf8(field(raw.as_bytes(), dialect, &mut scratch).to_vec()).unwrap()
    }

    #[test]
    fn plain_and_quoted_fields() {
        let dialect = Dialect::default();
        for (raw, expected) in [
            ("", ""),
            ("a", "a"),
            ("a\"b\"\"", "a\"b\"\""),
            ("\"\"", ""),
            ("\"a,b\"", "a,b"),
            ("\"a\"\"b\"", "a\"b"),
            ("\"\"\"\"", "\""),
            ("\"a\"b", "ab"),
            ("\"a\"b\"c\"", "ab\"c\""),
            ("\"\"\"a\"\"\"", "\"a\""),
            (" \"a\"", " \"a\""),
        ] {
            assert_eq!(value(raw, dialect), expected, "{raw}");
        }
    }

    #[test]
    fn escapes() {
        let dialect = Dialect::new(b',', Some(b'"'), Some(b'\\')).unwrap();
        for (raw, expected) in [
            (r"a\,b", "a,b"),
            (r"\N", "N"),
            (r#""a\"b""#, "a\"b"),
            (r#""a""b\\""#, "a\"b\\"),
            (r#""a"\,"#, "a\\,"),
            (r#""a"b\c\d"#, "abcd"),
            (r#"\"a"#, "\"a"),
        ] {
            assert_eq!(value(raw, dialect), expected, "{raw}");
        }
        let unquoted = Dialect::new(b',', None, Some(b'\\')).unwrap();
        assert_eq!(value(r#""a\"b""#, unquoted), "\"a\"b\"");
    }

    #[test]
    fn escapes_of_databases() {
        let postgres = Dialect::postgres_text(b'\t').unwrap();
        for (raw, expected) in [
            (r"foo\tbar", "foo\tbar"),
            (r"a\\nb\n", "a\\nb\n"),
            (r#""a""b""#, r#""a""b""#),
            (r"\303\251\x41\.", "éA."),
        ] {
            assert_eq!(value(raw, postgres), expected, "{raw}");
        }
        let mysql = Dialect::mysql_text(b'\t').unwrap();
        assert_eq!(value("a\\\tb\\\nc\\0\\Z", mysql), "a\tb\nc\0\u{1a}");
        assert_eq!(record_last_field_end(b"a\r", 0, 2, mysql), 2);
        assert_eq!(record_last_field_end(b"a\r", 0, 2, postgres), 1);
    }

    #[test]
    fn only_what_must_change_is_copied() {
        let mut scratch = Vec::new();
        let raw = b"\"plain, though quoted\"";
        let value = field(raw, Dialect::default(), &mut scratch);
        assert_eq!(value.as_ptr(), raw[1..].as_ptr());
    }

    #[test]
    fn the_return_of_a_line_end_is_cut() {
        let dialect = Dialect::new(b',', Some(b'"'), Some(b'\\')).unwrap();
        for (raw, expected_bytes) in [
            (&b"a\r"[..], 1),
            (b"\r", 0),
            (b"a\r\r", 2),
            (b"a", 1),
            (b"", 0),
            (b"a\\\r", 3),
            (b"a\\\\\r", 3),
            (b"\"a\"\\\r", 4),
        ] {
            let end = record_last_field_end(raw, 0, raw.len(), dialect);
            assert_eq!(end, expected_bytes, "{}", raw.escape_ascii());
        }
    }
}
