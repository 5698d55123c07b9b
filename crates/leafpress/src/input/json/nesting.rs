//! The ends of rows in JSON that is not one row a line: brackets are counted, 64 bytes at a
//! time, and nothing else is looked at.
//!
//! Stands in the reader, under its lock, between the source and the blocks;
//! what stands between the cuts is parsed later, on any thread. The state goes
//! on from call to call, so no byte is looked at twice.
//!
//! # Invariants
//! 1. A scan that is cut in two at any byte ends in the same state, and finds
//!    the same ends, as one in one go.
//! 2. No newline is inside a string: JSON has none there. So a quote that is
//!    missing confuses one line, not the rest of the input.
//!
//! Must never: judge. The parser decides whether the bytes are JSON.

use fearless_simd::{Level, Simd, dispatch, prelude::*, u8x64};

use super::text::{skip_blank, skip_string};
use crate::input::block::Cut;
use crate::input::csv::scan::{prefix_xor, set_bits};

/// Bytes looked at together: one bit of a mask each.
const CHUNK_BYTES: usize = 64;

/// Counts brackets.
#[derive(Debug, Clone, Default)]
pub struct Nesting {
    depth: u64,
    in_string: bool,
    is_escaped: bool,
}

/// The kinds of the bytes of a chunk: a mask for each kind, a bit for each byte.
#[derive(Debug, Default)]
struct Masks {
    quotes: u64,
    backslashes: u64,
    newlines: u64,
    opening: u64,
    closing: u64,
}

impl Masks {
    #[inline(always)]
    fn of<S: Simd>(simd: S, chunk: &[u8; CHUNK_BYTES]) -> Self {
        let bytes = u8x64::simd_from(simd, *chunk);
        // Braces differ from square brackets in this bit only, and nothing
        // else becomes a brace by it.
        let folded = bytes | u8x64::splat(simd, 0x20);
        Self {
            quotes: bytes.simd_eq(b'"').to_bitmask(),
            backslashes: bytes.simd_eq(b'\\').to_bitmask(),
            newlines: bytes.simd_eq(b'\n').to_bitmask(),
            opening: folded.simd_eq(b'{').to_bitmask(),
            closing: folded.simd_eq(b'}').to_bitmask(),
        }
    }
}

impl Nesting {
    /// Counts on over `fresh`. Calls `at_end` with the new depth and the offset
    /// behind each bracket that closes.
    pub fn scan(&mut self, fresh: &[u8], at_end: impl FnMut(u64, usize)) {
        dispatch!(Level::new(), simd => self.scan_by(simd, fresh, at_end));
    }

    #[inline(always)]
    fn scan_by<S: Simd>(&mut self, simd: S, fresh: &[u8], mut at_end: impl FnMut(u64, usize)) {
        let (chunks, rest) = fresh.as_chunks::<CHUNK_BYTES>();
        let mut base = 0;
        for chunk in chunks {
            if !self.scan_chunk(simd, chunk, base, &mut at_end) {
                self.walk(chunk, base, &mut at_end);
            }
            base += CHUNK_BYTES;
        }
        self.walk(rest, base, &mut at_end);
    }

    /// Counts on over a chunk; false, and nothing has changed, where it must be
    /// walked as a line ends within a string.
    #[inline(always)]
    fn scan_chunk<S: Simd>(
        &mut self,
        simd: S,
        chunk: &[u8; CHUNK_BYTES],
        base: usize,
        at_end: &mut impl FnMut(u64, usize),
    ) -> bool {
        let masks = Masks::of(simd, chunk);
        let (escaped, next_is_escaped) = escaped_bytes(masks.backslashes, self.is_escaped);
        let inside =
            prefix_xor(masks.quotes & !escaped) ^ 0_u64.wrapping_sub(self.in_string.into());
        if inside & masks.newlines != 0 {
            return false;
        }
        self.in_string = inside >> 63 != 0;
        self.is_escaped = next_is_escaped;
        let outside = !(inside | escaped);
        let closing = masks.closing & outside;
        for bit in set_bits((masks.opening & outside) | closing) {
            if closing >> bit & 1 == 0 {
                self.depth += 1;
            } else {
                self.close(base + bit as usize, at_end);
            }
        }
        true
    }

    /// The rules, byte by byte.
    fn walk(&mut self, bytes: &[u8], base: usize, at_end: &mut impl FnMut(u64, usize)) {
        for (&byte, at) in bytes.iter().zip(base..) {
            if byte == b'\n' {
                (self.in_string, self.is_escaped) = (false, false);
            } else if self.is_escaped {
                self.is_escaped = false;
            } else {
                match byte {
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = !self.in_string,
                    _ if self.in_string => {}
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.close(at, at_end),
                    _ => {}
                }
            }
        }
    }

    #[inline(always)]
    fn close(&mut self, at: usize, at_end: &mut impl FnMut(u64, usize)) {
        self.depth = self.depth.saturating_sub(1);
        at_end(self.depth, at + 1);
    }
}

/// Returns a mask of the bytes behind a backslash that is not itself escaped, and true if the
/// byte after the chunk is such a byte.
#[inline(always)]
fn escaped_bytes(backslashes: u64, first_is_escaped: bool) -> (u64, bool) {
    let mut escaped = u64::from(first_is_escaped);
    let mut escaping = backslashes & !escaped;
    let mut next_is_escaped = false;
    while escaping != 0 {
        let lowest = escaping & escaping.wrapping_neg();
        next_is_escaped = lowest >> 63 != 0;
        escaped |= lowest << 1;
        escaping &= !(lowest | lowest << 1);
    }
    (escaped, next_is_escaped)
}

/// Cuts between the elements of an array.
#[derive(Debug, Default)]
pub struct Elements {
    nesting: Nesting,
    /// True if the array has ended.
    pub is_closed: bool,
}

impl Cut for Elements {
    fn last_cut(&mut self, fresh: &[u8]) -> Option<usize> {
        let (mut last, mut is_closed) = (None, self.is_closed);
        self.nesting.scan(fresh, |depth, end| match depth {
            0 => is_closed = true,
            1 => last = Some(end),
            _ => {}
        });
        self.is_closed = is_closed;
        if is_closed { Some(fresh.len()) } else { last }
    }

    fn piece(&self) -> &'static str {
        "the row that begins in or after line"
    }
}

/// Cuts between objects that follow one another.
#[derive(Debug, Default)]
pub struct Objects {
    nesting: Nesting,
}

impl Cut for Objects {
    fn last_cut(&mut self, fresh: &[u8]) -> Option<usize> {
        let mut last = None;
        self.nesting.scan(fresh, |depth, end| {
            if depth == 0 {
                last = Some(end);
            }
        });
        last
    }

    fn piece(&self) -> &'static str {
        "the row that begins in or after line"
    }
}

/// The key, in its quotes, of the first array of objects in an object, which is valid.
pub fn list_in(object: &[u8]) -> Option<&[u8]> {
    let (mut depth, mut string, mut at) = (0, 0..0, 0);
    while let Some(&byte) = object.get(at) {
        match byte {
            b'"' => {
                string = at..skip_string(object, at + 1).ok()?;
                at = string.end;
                continue;
            }
            b'[' if depth == 1 && object.get(skip_blank(object, at + 1)) == Some(&b'{') => {
                return Some(&object[string]);
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    /// The rules, said plainly.
    fn ends_by_rule(bytes: &[u8]) -> Vec<(u64, usize)> {
        let mut nesting = Nesting::default();
        let mut ends = Vec::new();
        nesting.walk(bytes, 0, &mut |depth, end| ends.push((depth, end)));
        ends
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        let bytes = br#"{"a}":[1,"\\\"]"]}{ }"#;
        assert_eq!(ends_by_rule(bytes), [(1, 17), (0, 18), (0, 21)]);
        assert_eq!(ends_by_rule(b"]{"), [(0, 1)], "depth never falls below zero");
        assert_eq!(ends_by_rule(b"{\"\n}"), [(0, 4)], "a string ends with its line");
    }

    #[test]
    fn an_array_of_objects_is_found_by_its_key() {
        let found = |object: &str| {
            list_in(object.as_bytes()).map(|key| String::from_utf8_lossy(key).into_owned())
        };
        assert_eq!(found(r#"{"a":1,"b \"":[ {"c":[]}]}"#).as_deref(), Some(r#""b \"""#));
        assert_eq!(found("{\n\"a\" : [[{}]], \"b\" :\n[\n{}]}").as_deref(), Some("\"b\""));
        let others = ["{}", r#"{"a":[1,{}],"b":{"c":[{}]},"d":"[{"}"#, r#"{"a":[]}"#, "{\"a"];
        for other in others {
            assert_eq!(found(other), None, "{other}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn chunks_are_as_the_rules_and_cuts_change_nothing(
            bytes in vec(
                prop_oneof![
                    4 => Just(b'a'),
                    2 => select(b"{}[]\"\\".to_vec()),
                    1 => select(b"\n\r \xfb\x02\x3b".to_vec()),
                ],
                0..400,
            ),
            cut in 0..400_usize,
        ) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut nesting = Nesting::default();
            let mut ends = Vec::new();
            nesting.scan(first, |depth, end| ends.push((depth, end)));
            nesting.scan(second, |depth, end| ends.push((depth, first.len() + end)));
            prop_assert_eq!(ends, ends_by_rule(&bytes));
        }
    }
}
