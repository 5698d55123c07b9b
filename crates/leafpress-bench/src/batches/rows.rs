//! The rows: a key of the kind that is asked for, and fifty bytes of data, as many as the
//! originals have. The last eight of these are the row's number, by which a check finds out
//! under which key it belongs.
//!
//! A row is a function of its number, as everything of [`crate::generate`], so any thread can
//! make any part of them, twice or never held at all.
//!
//! Must never: make two rows of the same key.

use std::ops::Range;

use leafpress::load::{Row, Value};

use super::rung::Keys;
use crate::generate::hash;

/// Bytes of a row's data.
pub(super) const DATA_BYTES: usize = 50;

/// Bytes of the longest key.
const KEY_BYTES_MAX: usize = 20;

/// First bytes of every row's data; its number follows.
const DATA_HEAD: &[u8; DATA_BYTES - NUMBER_BYTES] =
    b"{\"type\":\"article\",\"message\":\"as any other\"";
const NUMBER_BYTES: usize = size_of::<u64>();

/// Hashes that the key of one row takes at most; its numbers in the stream of all hashes begin
/// at a multiple of it.
const WORDS_STRIDE: u64 = 4;

/// Moment of the first UUID of version 7, in milliseconds since the Unix epoch: 2026-06-05,
/// the day on which the original was published.
const UUID7_EPOCH_MS: u64 = 1_780_617_600_000;

/// UUIDs of version 7 that are made in a millisecond: a million in 1.25 s, as there.
const UUID7_A_MS: u64 = 800;

/// A row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// This many bytes of these.
    Blob([u8; KEY_BYTES_MAX], usize),
    /// The rowid.
    Integer(i64),
}

impl Key {
    /// The key of the row of this number.
    #[inline]
    pub(super) fn of_row(keys: Keys, row: u64) -> Self {
        match keys {
            Keys::Integer => Self::Integer(row.cast_signed().wrapping_add(1)),
            Keys::Bytes => {
                let mut bytes = [0; KEY_BYTES_MAX];
                for (index, place) in (0_u64..).zip(bytes.chunks_mut(size_of::<u64>())) {
                    let word = random_word(row, index).to_be_bytes();
                    place.copy_from_slice(&word[..place.len()]);
                }
                Self::Blob(bytes, KEY_BYTES_MAX)
            }
            Keys::Uuid4 => Self::uuid([random_word(row, 0), random_word(row, 1)], 4),
            Keys::Uuid7 => {
                // Within a millisecond a counter in the twelve bits after the version keeps
                // them rising, one of the ways that RFC 9562 names (6.2, method 1).
                let (milliseconds, counter) = (row / UUID7_A_MS, row % UUID7_A_MS);
                let head = (UUID7_EPOCH_MS + milliseconds) << 16 | counter;
                Self::uuid([head, random_word(row, 1)], 7)
            }
        }
    }

    /// A UUID of these bits, but for those of its version and of its variant.
    #[inline]
    fn uuid([head, tail]: [u64; 2], version: u64) -> Self {
        let head = (head & !0xF000) | version << 12;
        let tail = (tail & !(0b11 << 62)) | 0b10 << 62;
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..8].copy_from_slice(&head.to_be_bytes());
        bytes[8..16].copy_from_slice(&tail.to_be_bytes());
        Self::Blob(bytes, 16)
    }

    /// Numbers that sort as SQLite sorts keys of one kind: a blob's bytes as numbers, the first
    /// ones first.
    #[inline]
    pub(super) fn words(&self) -> [u64; 3] {
        match self {
            Self::Integer(integer) => [integer.cast_unsigned() ^ 1 << 63, 0, 0],
            Self::Blob(bytes, _) => {
                let mut words = [0; 3];
                for (word, place) in words.iter_mut().zip(bytes.chunks(size_of::<u64>())) {
                    let mut padded = [0; size_of::<u64>()];
                    padded[..place.len()].copy_from_slice(place);
                    *word = u64::from_be_bytes(padded);
                }
                words
            }
        }
    }
}

#[inline]
fn random_word(row: u64, index: u64) -> u64 {
    hash(row.wrapping_mul(WORDS_STRIDE).wrapping_add(index))
}

/// A row as it goes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BatchRow {
    pub(super) key: Key,
    pub(super) data: [u8; DATA_BYTES],
}

impl BatchRow {
    /// The row of this number.
    #[inline]
    pub(super) fn of_row(keys: Keys, row: u64) -> Self {
        let mut data = [0; DATA_BYTES];
        data[..DATA_HEAD.len()].copy_from_slice(DATA_HEAD);
        data[DATA_HEAD.len()..].copy_from_slice(&row.to_be_bytes());
        Self { key: Key::of_row(keys, row), data }
    }
}

/// The number of the row that these data belong to; `None` if they are no row's.
pub(super) fn number_of(data: &[u8]) -> Option<u64> {
    let number = data.strip_prefix(DATA_HEAD)?;
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

impl Row for BatchRow {
    #[inline]
    fn columns(&self) -> usize {
        2
    }

    #[inline]
    fn value(&self, column: usize) -> Value<'_> {
        match (column, &self.key) {
            (0, Key::Integer(integer)) => Value::Integer(*integer),
            (0, Key::Blob(bytes, length)) => Value::Blob(&bytes[..*length]),
            _ => Value::Blob(&self.data),
        }
    }

    #[inline]
    fn content_bytes(&self) -> usize {
        KEY_BYTES_MAX + DATA_BYTES
    }
}

/// Rows one after the other, in the order of their numbers.
#[derive(Debug, Clone)]
pub(super) struct BatchRows {
    keys: Keys,
    rows: Range<u64>,
}

impl BatchRows {
    /// The rows of these numbers.
    pub(super) fn new(keys: Keys, rows: Range<u64>) -> Self {
        Self { keys, rows }
    }

    /// The first this many rows, as consecutive parts of about the same size.
    pub(super) fn parts(keys: Keys, rows_count: u64, parts_count: u64) -> Vec<Self> {
        let parts_count = parts_count.max(1);
        let start =
            |part: u64| part * (rows_count / parts_count) + part.min(rows_count % parts_count);
        (0..parts_count).map(|part| Self::new(keys, start(part)..start(part + 1))).collect()
    }
}

impl Iterator for BatchRows {
    type Item = BatchRow;

    #[inline]
    fn next(&mut self) -> Option<BatchRow> {
        self.rows.next().map(|row| BatchRow::of_row(self.keys, row))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn keys(keys: Keys, count: u64) -> Vec<Key> {
        BatchRows::new(keys, 0..count).map(|row| row.key).collect()
    }

    fn bytes(key: &Key) -> &[u8] {
        match key {
            Key::Blob(bytes, length) => &bytes[..*length],
            Key::Integer(_) => &[],
        }
    }

    #[test]
    fn keys_are_all_different_and_in_the_order_of_their_kind() {
        for (kind, length, rises) in [
            (Keys::Bytes, 20, false),
            (Keys::Uuid4, 16, false),
            (Keys::Uuid7, 16, true),
            (Keys::Integer, 0, true),
        ] {
            let keys = keys(kind, 20_000);
            let ascents = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
            if rises {
                assert_eq!(ascents, 19_999, "{kind:?}");
            } else {
                assert!((9_000..11_000).contains(&ascents), "{kind:?}: {ascents} ascend");
            }
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 20_000, "{kind:?}");
            assert!(keys.iter().all(|key| bytes(key).len() == length), "{kind:?}");
        }
    }

    #[test]
    fn uuids_are_what_their_version_says() {
        for (kind, version) in [(Keys::Uuid4, 4), (Keys::Uuid7, 7)] {
            let keys = keys(kind, 5_000);
            let uuids: Vec<&[u8]> = keys.iter().map(bytes).collect();
            assert!(uuids.iter().all(|uuid| uuid[6] >> 4 == version), "{kind:?}");
            assert!(uuids.iter().all(|uuid| uuid[8] >> 6 == 0b10), "{kind:?}");
            let last_bytes: BTreeSet<u8> = uuids.iter().map(|uuid| uuid[15]).collect();
            assert_eq!(last_bytes.len(), 256, "{kind:?} ends in random bits");
        }
        let milliseconds = |key: &Key| key.words()[0] >> 16;
        let keys = keys(Keys::Uuid7, 1_601);
        assert_eq!(milliseconds(&keys[0]), UUID7_EPOCH_MS);
        assert_eq!(milliseconds(&keys[799]), UUID7_EPOCH_MS);
        assert_eq!(milliseconds(&keys[800]), UUID7_EPOCH_MS + 1);
        assert_eq!(milliseconds(&keys[1_600]), UUID7_EPOCH_MS + 2);
        // A counter of twelve bits holds those of a millisecond.
        const { assert!(UUID7_A_MS <= 1 << 12) };
    }

    #[test]
    fn words_sort_as_keys_do() {
        for kind in [Keys::Bytes, Keys::Uuid4, Keys::Uuid7, Keys::Integer] {
            let keys = keys(kind, 3_000);
            for pair in keys.windows(2) {
                assert_eq!(pair[0].words().cmp(&pair[1].words()), pair[0].cmp(&pair[1]));
            }
        }
        assert!(Key::Integer(-1).words() < Key::Integer(0).words());
    }

    #[test]
    fn data_know_their_row() {
        let row = BatchRow::of_row(Keys::Bytes, 1_234_567);
        assert_eq!(number_of(&row.data), Some(1_234_567));
        assert_eq!(number_of(&row.data[1..]), None);
        assert_eq!(number_of(&row.data[..49]), None);
        assert_eq!(row.value(1), Value::Blob(&row.data));
    }

    #[test]
    fn parts_make_the_same_rows_as_one_iterator() {
        let whole: Vec<BatchRow> = BatchRows::new(Keys::Uuid4, 0..1_003).collect();
        let parts = BatchRows::parts(Keys::Uuid4, 1_003, 4);
        let sizes: Vec<usize> = parts.iter().map(|part| part.size_hint().0).collect();
        assert_eq!(sizes, [251, 251, 251, 250]);
        assert_eq!(parts.into_iter().flatten().collect::<Vec<_>>(), whole);
    }
}
