//! Strings, and nested values as text.
//!
//! Below the parser: from an offset behind a quote or at a bracket to the
//! offset behind the end. What must change on the way (escapes, blanks between
//! the parts of a nested value) is written to a side buffer; what need not is
//! never copied.
//!
//! Must never: recurse. Depth is a number and a word of bits.

use super::fault::{DEPTH_MAX, Fault, What};
use super::number::number;

/// Replacement for an escape that stands for no character; the row is bad anyway.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

const LOWEST_BITS: u64 = 0x0101_0101_0101_0101;
const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;

/// Skips white space.
#[inline(always)]
pub fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The first quote, backslash or control character from `at` on, or the end.
#[inline(always)]
pub fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        // The highest bit of each byte that is zero, or less than a blank. A
        // borrow may add bits, but only above one that is right.
        let zero = |word: u64| word.wrapping_sub(LOWEST_BITS) & !word;
        let control = word.wrapping_sub(LOWEST_BITS * 0x20) & !word;
        let quote = zero(word ^ (LOWEST_BITS * u64::from(b'"')));
        let backslash = zero(word ^ (LOWEST_BITS * u64::from(b'\\')));
        let found = (control | quote | backslash) & HIGHEST_BITS;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)) {
        at += 1;
    }
    at
}

/// The fault of a string that stops at `at`, where it must not.
#[cold]
fn bad_string(bytes: &[u8], at: usize) -> Fault {
    let what = match bytes.get(at) {
        None | Some(b'\n') => What::OpenString,
        Some(&byte) => What::ControlInString(byte),
    };
    Fault::new(at, what)
}

/// Offset of the closing quote of the string that goes on at `at`, or of its first backslash;
/// there must be no backslash in the string before `at`.
#[inline(always)]
pub fn string_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let end = plain_end(bytes, at);
    match bytes.get(end) {
        Some(b'"' | b'\\') => Ok(end),
        _ => Err(bad_string(bytes, end)),
    }
}

/// Writes a string that has escapes, from `start` on, to `side`; returns the
/// offset of its closing quote. `lone` gets the first half of a surrogate pair
/// that has no other half: no reason to stop, but the row is bad.
#[inline(never)]
pub fn unescape(
    bytes: &[u8],
    start: usize,
    side: &mut Vec<u8>,
    lone: &mut Option<Fault>,
) -> Result<usize, Fault> {
    let mut at = start;
    loop {
        let end = string_end(bytes, at)?;
        side.extend_from_slice(&bytes[at..end]);
        if bytes[end] == b'"' {
            return Ok(end);
        }
        at = unescape_one(bytes, end, side, lone)?;
    }
}

/// Writes what the backslash at `at` stands for; returns the offset behind it.
fn unescape_one(
    bytes: &[u8],
    at: usize,
    side: &mut Vec<u8>,
    lone: &mut Option<Fault>,
) -> Result<usize, Fault> {
    let byte = match bytes.get(at + 1) {
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'u') => {
            let unit = hex(bytes, at)?;
            let (character, end) = match unit {
                0xD800..0xDC00 => (pair(bytes, at, unit), at + 12),
                _ => (char::from_u32(unit), at + 6),
            };
            if let Some(character) = character {
                side.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(end);
            }
            lone.get_or_insert(Fault::new(at, What::LoneSurrogate));
            side.extend_from_slice(REPLACEMENT);
            return Ok(at + 6);
        }
        _ => return Err(bad_escape(bytes, at)),
    };
    side.push(byte);
    Ok(at + 2)
}

#[cold]
fn bad_escape(bytes: &[u8], at: usize) -> Fault {
    match bytes.get(at + 1) {
        None | Some(b'\n') => Fault::new(at, What::OpenString),
        Some(_) => Fault::new(at, What::BadEscape),
    }
}

/// The four hexadecimal digits of the `\u` at `at`.
fn hex(bytes: &[u8], at: usize) -> Result<u32, Fault> {
    let digits = bytes.get(at + 2..at + 6).unwrap_or_default();
    let value = digits.iter().try_fold(0, |value, &digit| {
        char::from(digit).to_digit(16).map(|digit| value << 4 | digit)
    });
    match value {
        Some(value) if digits.len() == 4 => Ok(value),
        _ => Err(Fault::new(at, What::BadEscape)),
    }
}

/// The character of the pair at `at`, whose first half is `high`.
fn pair(bytes: &[u8], at: usize, high: u32) -> Option<char> {
    if bytes.get(at + 6..at + 8) != Some(b"\\u") {
        return None;
    }
    let low = hex(bytes, at + 6).ok()?.checked_sub(0xDC00).filter(|&low| low < 0x400)?;
    char::from_u32(0x10000 + ((high - 0xD800) << 10) + low)
}

/// Skips a string whose content is not needed, but must be JSON. `at` is the place behind its first
/// quote; the place behind its last quote is returned.
pub fn skip_string(bytes: &[u8], mut at: usize) -> Result<usize, Fault> {
    loop {
        at = string_end(bytes, at)?;
        if bytes[at] == b'"' {
            return Ok(at + 1);
        }
        at = match bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at + 2,
            Some(b'u') => hex(bytes, at).map(|_| at + 6)?,
            _ => return Err(bad_escape(bytes, at)),
        };
    }
}

/// Skips `null`, `true`, `false`, a number or a string.
pub fn skip_scalar(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    match bytes.get(at) {
        Some(b'"') => skip_string(bytes, at + 1),
        Some(b'-' | b'0'..=b'9') => number(bytes, at).map(|(_, end)| end),
        _ => literal(bytes, at).ok_or_else(|| Fault::expected("a value", bytes, at)),
    }
}

/// The end of the `null`, `true` or `false` at `at`.
fn literal(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let words = ["null", "true", "false"].into_iter();
    words.map(str::as_bytes).find(|word| rest.starts_with(word)).map(|word| at + word.len())
}

/// A nested value's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nested {
    /// The offset behind its closing bracket.
    pub end: usize,
    /// True if blanks were left out: the value's text was added to the side buffer. Otherwise
    /// its text stands in the input.
    pub is_copied: bool,
}

/// Copies what stands between blanks, from the first blank on.
struct Squeeze<'s> {
    side: &'s mut Vec<u8>,
    /// Offset up to which the input is copied or skipped.
    done: usize,
    is_copied: bool,
}

impl Squeeze<'_> {
    /// Skips the white space at `at`.
    #[inline(always)]
    fn blank(&mut self, bytes: &[u8], at: usize) -> usize {
        let end = skip_blank(bytes, at);
        if end > at {
            self.side.extend_from_slice(&bytes[self.done..at]);
            (self.done, self.is_copied) = (end, true);
        }
        end
    }

    /// Copies the rest, if a part was copied before.
    fn finish(self, bytes: &[u8], end: usize) -> Nested {
        if self.is_copied {
            self.side.extend_from_slice(&bytes[self.done..end]);
        }
        Nested { end, is_copied: self.is_copied }
    }
}

/// Reads the array or object at `start`.
pub fn nested(bytes: &[u8], start: usize, side: &mut Vec<u8>) -> Result<Nested, Fault> {
    let mut squeeze = Squeeze { side, done: start, is_copied: false };
    // Bit 0 says whether the innermost bracket is a brace.
    let (mut braces, mut depth) = (0_u128, 0);
    let mut at = start;
    loop {
        // A value begins here.
        match bytes.get(at) {
            Some(&bracket @ (b'{' | b'[')) => {
                if depth == DEPTH_MAX {
                    return Err(Fault::new(at, What::TooDeep));
                }
                depth += 1;
                braces = braces << 1 | u128::from(bracket == b'{');
                at = squeeze.blank(bytes, at + 1);
                let is_empty = bytes.get(at).is_some_and(|&byte| byte == bracket + 2);
                if !is_empty {
                    if bracket == b'{' {
                        at = key(bytes, at, &mut squeeze)?;
                    }
                    continue;
                }
            }
            _ => at = squeeze.blank(bytes, skip_scalar(bytes, at)?),
        }
        // A value has ended, or a bracket was empty.
        loop {
            let is_object = braces & 1 == 1;
            match bytes.get(at) {
                Some(b',') => {
                    at = squeeze.blank(bytes, at + 1);
                    if is_object {
                        at = key(bytes, at, &mut squeeze)?;
                    }
                    break;
                }
                Some(&byte) if byte == if is_object { b'}' } else { b']' } => {
                    (depth, braces, at) = (depth - 1, braces >> 1, at + 1);
                    if depth == 0 {
                        return Ok(squeeze.finish(bytes, at));
                    }
                    at = squeeze.blank(bytes, at);
                }
                _ if is_object => return Err(Fault::expected("',' or '}'", bytes, at)),
                _ => return Err(Fault::expected("',' or ']'", bytes, at)),
            }
        }
    }
}

/// Skips a nested object's key and colon, and the blanks around.
fn key(bytes: &[u8], at: usize, squeeze: &mut Squeeze<'_>) -> Result<usize, Fault> {
    if bytes.get(at) != Some(&b'"') {
        return Err(Fault::expected("a key in double quotes", bytes, at));
    }
    let at = squeeze.blank(bytes, skip_string(bytes, at + 1)?);
    if bytes.get(at) != Some(&b':') {
        return Err(Fault::expected("':'", bytes, at));
    }
    Ok(squeeze.blank(bytes, at + 1))
}
