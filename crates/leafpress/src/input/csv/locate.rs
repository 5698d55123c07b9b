//! Where something stands, and how it reads, for messages about bad rows.
//!
//! Stands beside the flow: called for what is reported only, so it may take its
//! time. Must never: print bytes that could confuse a terminal.

use std::fmt::Write as _;

use memchr::{memchr_iter, memrchr};

/// How much of a row a message shows.
pub const EXCERPT_BYTES_MAX: usize = 200;

/// A place in the input, as an editor would name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, counted from 1.
    pub line: u64,
    /// Byte in that line, counted from 1.
    pub column: u64,
}

/// The place of `offset` in a block whose data begin at `start`, with the line
/// `first_line`.
pub fn position(bytes: &[u8], start: usize, first_line: u64, offset: usize) -> Position {
    let before = bytes.get(start..offset.min(bytes.len())).unwrap_or_default();
    let in_line = memrchr(b'\n', before).map_or(before.len(), |at| before.len() - at - 1);
    let lines = memchr_iter(b'\n', before).count();
    Position { line: first_line + lines as u64, column: in_line as u64 + 1 }
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
        let bytes = b"##ab\ncd\n\nef";
        let place = |offset| position(bytes, 2, 7, offset);
        assert_eq!(place(2), Position { line: 7, column: 1 });
        assert_eq!(place(3), Position { line: 7, column: 2 });
        assert_eq!(place(5), Position { line: 8, column: 1 });
        assert_eq!(place(10), Position { line: 10, column: 2 });
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
