//! Places in the input and excerpts of it, for messages about bad rows.
//!
//! Stands beside the flow: called only for what is reported, so its speed does not matter. Must
//! never: print bytes that could confuse a terminal.

use std::fmt::Write as _;

use memchr::{memchr_iter, memchr2, memrchr, memrchr2};

use super::dialect::Dialect;
use super::field::record_last_field_end;
use super::scan::RecordSpan;

/// Largest number of bytes of a row that a message shows.
pub const EXCERPT_BYTES_MAX: usize = 200;

/// A place in the input, as an editor would name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, counted from 1.
    pub line: u64,
    /// Byte in that line, counted from 1.
    pub column: u64,
}

/// The bytes that end lines, where lines are counted for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineEnds {
    /// Newlines; a carriage return alone is data, as for `sed` and `grep -n`.
    #[default]
    Newlines,
    /// Newlines, carriage returns, and both together. An editor shows a file so whose lines
    /// end with carriage returns, also those inside quotes.
    ReturnsToo,
}

impl LineEnds {
    /// The number of line ends in `bytes`.
    pub fn count(self, bytes: &[u8]) -> u64 {
        let newlines = memchr_iter(b'\n', bytes).count();
        let is_alone = |at: &usize| bytes.get(at + 1) != Some(&b'\n');
        let returns = match self {
            Self::Newlines => 0,
            Self::ReturnsToo => memchr_iter(b'\r', bytes).filter(is_alone).count(),
        };
        (newlines + returns) as u64
    }

    /// The offset at which the last line of `bytes` begins.
    fn last_line_start(self, bytes: &[u8]) -> usize {
        let end = match self {
            Self::Newlines => memrchr(b'\n', bytes),
            Self::ReturnsToo => memrchr2(b'\n', b'\r', bytes),
        };
        end.map_or(0, |at| at + 1)
    }

    /// The place of the byte behind `before`, a text that begins with the line `first_line`.
    pub fn position_behind(self, before: &[u8], first_line: u64) -> Position {
        let column = before.len() - self.last_line_start(before) + 1;
        Position { line: first_line + self.count(before), column: column as u64 }
    }
}

/// The quote of a record that may never be closed: it opens a field, and the quote
/// that closes it stands in a later line, before other text.
pub fn unclosed_quote(bytes: &[u8], span: &RecordSpan<'_>, dialect: Dialect) -> Option<usize> {
    let quote = dialect.quote()?;
    let mut start = span.start;
    for &end in span.field_ends {
        let mut end = end as usize;
        if Some(&(end as u32)) == span.field_ends.last() {
            end = record_last_field_end(bytes, start, end, dialect);
        }
        if let [first, inner @ ..] = &bytes[start..end]
            && *first == quote
            && let Some(closing) = closing_quote(inner, quote, dialect.escape())
            && closing + 1 < inner.len()
            && memchr2(b'\n', b'\r', &inner[..closing]).is_some()
        {
            return Some(start);
        }
        start = end + 1;
    }
    None
}

/// The offset of the quote that closes a field, in what follows the one that opens it.
fn closing_quote(inner: &[u8], quote: u8, escape: Option<u8>) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr2(quote, escape.unwrap_or(quote), inner.get(from..)?)?;
        if inner[at] == quote && inner.get(at + 1) != Some(&quote) {
            return Some(at);
        }
        from = at + 2;
    }
}

/// The bytes from `from` to `to` as one line of text without the line end at
/// their end: control characters escaped, what is not UTF-8 replaced, and cut
/// after about `bytes_max` bytes.
pub fn excerpt(bytes: &[u8], from: usize, to: usize, bytes_max: usize) -> String {
    let row = bytes.get(from..to).unwrap_or_default();
    let row = row.strip_suffix(b"\n").unwrap_or(row);
    let row = row.strip_suffix(b"\r").unwrap_or(row);
    let (shown, is_cut) = match row.get(..bytes_max) {
        Some(shown) if shown.len() < row.len() => (whole_characters(shown), true),
        _ => (row, false),
    };
    let mut text = String::with_capacity(shown.len() + 4);
    for character in String::from_utf8_lossy(shown).chars() {
        match character {
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            character if character.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(text, "\\u{{{:x}}}", u32::from(character));
            }
            character => text.push(character),
        }
    }
    if is_cut {
        text.push('…');
    }
    text
}

/// `bytes` without the first part of a character that the cut left at the end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let tail_bytes = bytes.len().min(3);
    let tail = &bytes[bytes.len() - tail_bytes..];
    let lead = tail.iter().rposition(|&byte| !(0x80..0xC0).contains(&byte));
    match lead.map(|at| (tail[at], tail_bytes - at)) {
        Some((0xC0..=0xDF, present)) if present < 2 => &bytes[..bytes.len() - present],
        Some((0xE0..=0xEF, present)) if present < 3 => &bytes[..bytes.len() - present],
        Some((0xF0..=0xFF, present)) => &bytes[..bytes.len() - present],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one() {
        let place = |before: &[u8]| {
            let Position { line, column } = LineEnds::Newlines.position_behind(before, 7);
            (line, column)
        };
        assert_eq!(place(b""), (7, 1));
        assert_eq!(place(b"a"), (7, 2));
        assert_eq!(place(b"ab\n"), (8, 1));
        assert_eq!(place(b"ab\ncd\n\ne"), (10, 2));
        assert_eq!(place(b"a\rb\r\nc"), (8, 2));
    }

    #[test]
    fn returns_count_where_they_end_lines() {
        let place = |before: &[u8]| {
            let Position { line, column } = LineEnds::ReturnsToo.position_behind(before, 1);
            (line, column)
        };
        assert_eq!(place(b"a\rb"), (2, 2));
        assert_eq!(place(b"a\r\nb"), (2, 2));
        assert_eq!(place(b"a\r\rb\n\rc"), (5, 2));
    }

    #[test]
    fn rows_read_as_one_safe_line() {
        let row = b"a\tb\"c\nd\x1b[31m\xff\0\r\n";
        assert_eq!(excerpt(row, 0, row.len(), 100), "a\\tb\"c\\nd\\u{1b}[31m\u{fffd}\\u{0}");
    }

    #[test]
    fn long_rows_are_cut_between_characters() {
        assert_eq!(excerpt("abcdef".as_bytes(), 0, 6, 6), "abcdef");
        assert_eq!(excerpt("abcdefg".as_bytes(), 0, 7, 6), "abcdef…");
        for (row, expected) in [("aaé…", "aa…"), ("aa€x", "aa…"), ("a€xy", "a…"), ("aé€xy", "aé…")]
        {
            assert_eq!(excerpt(row.as_bytes(), 0, row.len(), 3), expected);
        }
        assert_eq!(excerpt("😀😀".as_bytes(), 0, 8, 7), "😀…");
    }
}
