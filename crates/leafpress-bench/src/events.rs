//! Rows with random keys. The table is `event(key BLOB PRIMARY KEY, payload BLOB) WITHOUT
//! ROWID`, with 20 random bytes and a blob of 100.
//!
//! As everything of [`crate::generate`], a row is a function of its number, so
//! any part of them can be made by any thread, twice or never held at all: fifty
//! million would take 6 GB. Their numbers are in random order of their keys.

use std::ops::Range;

use crate::generate::hash;

/// Bytes of a key.
pub const KEY_BYTES: usize = 20;

/// Bytes of a payload.
pub const PAYLOAD_BYTES: usize = 100;

const WORD_BYTES: usize = size_of::<u64>();

/// Hashes that one row takes; its numbers in the stream of all hashes begin at a
/// multiple of the power of two above.
const WORDS: usize = (KEY_BYTES + PAYLOAD_BYTES) / WORD_BYTES;
const WORDS_STRIDE: u64 = 16;
const _: () = assert!(WORDS * WORD_BYTES == KEY_BYTES + PAYLOAD_BYTES);
const _: () = assert!(WORDS as u64 <= WORDS_STRIDE);

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    bytes: [u8; KEY_BYTES + PAYLOAD_BYTES],
}

impl Event {
    /// The row of this number.
    #[inline]
    pub fn of_row(row: u64) -> Self {
        let mut bytes = [0; KEY_BYTES + PAYLOAD_BYTES];
        for (index, word) in bytes.chunks_exact_mut(WORD_BYTES).enumerate() {
            let bits = hash(row.wrapping_mul(WORDS_STRIDE).wrapping_add(index as u64));
            word.copy_from_slice(&bits.to_le_bytes());
        }
        Self { bytes }
    }

    /// Its key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[..KEY_BYTES]
    }

    /// Its payload.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes[KEY_BYTES..]
    }
}

/// Rows one after the other, in the order of their numbers.
#[derive(Debug, Clone)]
pub struct Events {
    rows: Range<u64>,
}

impl Events {
    /// The rows of these numbers.
    pub fn new(rows: Range<u64>) -> Self {
        Self { rows }
    }

    /// Rows as consecutive parts of about the same size.
    pub fn parts(rows: &Range<u64>, parts_count: u64) -> Vec<Self> {
        let parts_count = parts_count.max(1);
        let rows_count = rows.end.saturating_sub(rows.start);
        let (each, rest) = (rows_count / parts_count, rows_count % parts_count);
        let start = |part: u64| rows.start + part * each + part.min(rest);
        (0..parts_count).map(|part| Self::new(start(part)..start(part + 1))).collect()
    }
}

impl Iterator for Events {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        self.rows.next().map(Event::of_row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_all_different_and_in_no_order() {
        let events: Vec<Event> = Events::new(0..20_000).collect();
        let keys: HashSet<&[u8]> = events.iter().map(Event::key).collect();
        assert_eq!(keys.len(), 20_000);
        let ascents = events.windows(2).filter(|pair| pair[0].key() < pair[1].key()).count();
        assert!((9_000..11_000).contains(&ascents), "{ascents} of 19,999 neighbours ascend");
        // Every first byte comes up, so keys spread over the whole range.
        let first_bytes: HashSet<u8> = events.iter().map(|event| event.key()[0]).collect();
        assert_eq!(first_bytes.len(), 256);
        assert!(events.iter().all(|event| event.payload().len() == PAYLOAD_BYTES));
    }

    #[test]
    fn parts_make_the_same_rows_as_one_iterator() {
        let whole: Vec<Event> = Events::new(5..1008).collect();
        let parts = Events::parts(&(5..1008), 4);
        let sizes: Vec<usize> = parts.iter().map(|part| part.size_hint().0).collect();
        assert_eq!(sizes, [251, 251, 251, 250]);
        assert_eq!(parts.into_iter().flatten().collect::<Vec<_>>(), whole);
    }
}
