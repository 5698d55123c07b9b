//! The bytes of an item, the same in memory and in a spilled run.
//!
//! ```text
//! lengths │ record's length │ sequence │ rowid − sequence − 1 │ record
//!  1 byte │ 1, 2 or 4       │ 1 to 8   │ 0 to 6, or 8         │
//! ```
//!
//! | bits of `lengths` | say |
//! |---|---|
//! | 0, 1 | how long the record's length is, as a power of two |
//! | 2 to 4 | how long the sequence is, less one |
//! | 5 to 7 | how long the difference is; 7 is 8 |
//!
//! All numbers are little-endian; the difference has its sign in its lowest
//! bit. Where rowids count the rows from 1 it takes no byte.
//!
//! An entry of an index ends in its rowid already, which mostly is the sequence plus 1. Such an
//! item, if its record is short, has one byte before it:
//!
//! ```text
//! lengths │ record
//!  1 byte │
//! ```
//!
//! | bits of `lengths` | say |
//! |---|---|
//! | 0, 1 | 3, which stands for no length of a record's length |
//! | 2 to 7 | how long the record is |
//!
//! Must never: panic at bytes that are no item. They may come from a disk.

use std::ops::Range;

/// No header is longer; that many bytes behind an item may be scribbled over.
const HEADER_BYTES_MAX: usize = 1 + 8 + 8 + 8;

/// Length of the header of an item without sequence and rowid.
pub const ENTRY_HEADER_BYTES: usize = 1;

/// Bits 0 and 1 of an item without sequence and rowid.
const ENDS_IN_ROWID: u8 = 3;

/// Records of such items are shorter. Their headers are too, and have their length in one byte.
const SHORT_RECORD_BYTES: usize = 64;

/// An item found in some bytes.
#[derive(Debug, Clone, Copy)]
pub struct Item<'b> {
    pub sequence: u64,
    pub rowid: i64,
    pub record: &'b [u8],
}

/// The header of an item, read; `record` is the record's place from the item's first byte on.
struct Header {
    sequence: u64,
    rowid: i64,
    record: Range<usize>,
}

/// Largest number of bytes that an item with a record of so many bytes takes.
pub fn bytes_max(record_bytes: usize) -> usize {
    HEADER_BYTES_MAX + record_bytes
}

/// Writes the header of an item at `at`, whose record is [`ENTRY_HEADER_BYTES`] behind it and ends in
/// the rowid. Returns where the item ends; if it needs another header, its record is moved.
#[inline]
pub fn end_entry(
    buf: &mut [u8],
    at: usize,
    (sequence, rowid): (u64, i64),
    record_bytes: usize,
) -> usize {
    let record_at = at + ENTRY_HEADER_BYTES;
    if record_bytes >= SHORT_RECORD_BYTES || rowid != (sequence as i64).wrapping_add(1) {
        return end_long_entry(buf, at, (sequence, rowid), record_bytes);
    }
    let end = record_at + record_bytes;
    debug_assert_eq!(last_integer(&buf[record_at..end]), Some(rowid), "it ends in the rowid");
    buf[at] = ENDS_IN_ROWID | (record_bytes as u8) << 2;
    end
}

/// As [`end_entry`], for an item with sequence and rowid in its header.
#[inline(never)]
fn end_long_entry(buf: &mut [u8], at: usize, of_row: (u64, i64), record_bytes: usize) -> usize {
    let mut header = [0; HEADER_BYTES_MAX];
    let header_bytes = write_header(&mut header, of_row, record_bytes);
    let record_at = at + ENTRY_HEADER_BYTES;
    buf.copy_within(record_at..record_at + record_bytes, at + header_bytes);
    buf[at..at + header_bytes].copy_from_slice(&header[..header_bytes]);
    at + header_bytes + record_bytes
}

/// Writes an item at `at` and returns where it ends. There is room for [`bytes_max`].
#[inline]
pub fn write(buf: &mut [u8], at: usize, item: &Item<'_>) -> usize {
    let &Item { sequence, rowid, record } = item;
    let buf = &mut buf[at..at + bytes_max(record.len())];
    let end = write_header(buf, (sequence, rowid), record.len());
    buf[end..end + record.len()].copy_from_slice(record);
    at + end + record.len()
}

/// Writes a header of up to [`HEADER_BYTES_MAX`] bytes, and returns its length. As many bytes as that
/// may be overwritten.
#[inline]
fn write_header(buf: &mut [u8], (sequence, rowid): (u64, i64), record_bytes: usize) -> usize {
    let difference = rowid.wrapping_sub(sequence as i64).wrapping_sub(1);
    let difference = (difference << 1 ^ difference >> 63) as u64;
    let length = record_bytes as u64;
    let length_power = match length {
        0..0x100 => 0,
        0x100..0x1_0000 => 1,
        // No record of SQLite is longer.
        _ => 2,
    };
    let sequence_bytes = bytes_of(sequence | 1);
    let difference_code = bytes_of(difference).min(7);
    buf[0] = length_power | (sequence_bytes as u8 - 1) << 2 | (difference_code as u8) << 5;
    // Whole words: what is too much is overwritten by what comes next.
    let mut end = 1;
    put(buf, end, length);
    end += 1 << length_power;
    put(buf, end, sequence);
    end += sequence_bytes;
    put(buf, end, difference);
    end + difference_bytes(difference_code)
}

/// The item at the start of `bytes`, and how long it is; `None` if there is
/// none, or not all of it.
#[inline]
pub fn read(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    let first = *bytes.first()?;
    if first & ENDS_IN_ROWID == ENDS_IN_ROWID {
        let place = record_place(bytes)?;
        let end = place.end;
        let record = bytes.get(place)?;
        let rowid = last_integer(record)?;
        return Some((Item { sequence: rowid.wrapping_sub(1) as u64, rowid, record }, end));
    }
    let Header { sequence, rowid, record: place } = header(bytes)?;
    let end = place.end;
    Some((Item { sequence, rowid, record: bytes.get(place)? }, end))
}

/// The place of the record of the item at the start of `bytes`, even if `bytes` ends before it does.
/// The item ends with it.
#[inline]
pub fn record_place(bytes: &[u8]) -> Option<Range<usize>> {
    let first = *bytes.first()?;
    if first & ENDS_IN_ROWID == ENDS_IN_ROWID {
        let end = ENTRY_HEADER_BYTES + usize::from(first >> 2);
        return Some(ENTRY_HEADER_BYTES..end);
    }
    header(bytes).map(|header| header.record)
}

#[inline]
fn header(bytes: &[u8]) -> Option<Header> {
    let lengths = usize::from(*bytes.first()?);
    let length_bytes = 1 << (lengths & 3);
    let sequence_bytes = (lengths >> 2 & 7) + 1;
    let rowid_bytes = difference_bytes(lengths >> 5);
    let length = get(bytes, 1, length_bytes)?;
    let sequence = get(bytes, 1 + length_bytes, sequence_bytes)?;
    let difference = get(bytes, 1 + length_bytes + sequence_bytes, rowid_bytes)?;
    let difference = (difference >> 1) as i64 ^ -((difference & 1) as i64);
    let record_at = 1 + length_bytes + sequence_bytes + rowid_bytes;
    let record_end = record_at.checked_add(usize::try_from(length).ok()?)?;
    Some(Header {
        sequence,
        rowid: difference.wrapping_add(sequence as i64).wrapping_add(1),
        record: record_at..record_end,
    })
}

/// The last column of a record that is shorter than [`SHORT_RECORD_BYTES`], if it is an integer.
#[inline]
fn last_integer(record: &[u8]) -> Option<i64> {
    let header_bytes = usize::from(*record.first()?);
    let serial_type = *record.get(header_bytes.wrapping_sub(1))?;
    let bytes = match serial_type {
        1..=4 => usize::from(serial_type),
        5 => 6,
        6 => 8,
        8 | 9 => return Some(i64::from(serial_type) - 8),
        _ => return None,
    };
    let unused = 64 - 8 * bytes;
    if let Some(word) = record.last_chunk::<8>() {
        return Some(i64::from_be_bytes(*word) << unused >> unused);
    }
    let column = record.get(record.len().checked_sub(bytes)?..)?;
    let value = column.iter().fold(0, |value, &byte| value << 8 | i64::from(byte));
    Some(value << unused >> unused)
}

const fn bytes_of(value: u64) -> usize {
    (64 - value.leading_zeros()).div_ceil(8) as usize
}

const fn difference_bytes(code: usize) -> usize {
    if code == 7 { 8 } else { code }
}

#[inline]
fn put(buf: &mut [u8], at: usize, value: u64) {
    buf[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The `count` bytes at `at`, 0 to 8.
#[inline]
fn get(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    if count == 0 {
        return Some(0);
    }
    if let Some(word) = bytes.get(at..at + 8).and_then(|rest| rest.first_chunk::<8>()) {
        return Some(u64::from_le_bytes(*word) & u64::MAX >> (64 - 8 * count));
    }
    let rest = bytes.get(at..at + count)?;
    Some(rest.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(sequence: u64, rowid: i64, record: &[u8]) {
        let mut buf = vec![0xee; 3 + bytes_max(record.len())];
        let end = write(&mut buf, 3, &Item { sequence, rowid, record });
        for slack in [0, 1, 8] {
            let some = &buf[3..(end + slack).min(buf.len())];
            let (item, length_read) = read(some).unwrap();
            assert_eq!(length_read, end - 3);
            assert_eq!(record_place(some), Some(end - 3 - record.len()..end - 3));
            assert_eq!((item.sequence, item.rowid, item.record), (sequence, rowid, record));
        }
        assert!(read(&buf[3..end - 1]).is_none() || record.is_empty());
    }

    /// An entry with a rowid behind some bytes of text, and whether it is written in the short form.
    fn check_entry(sequence: u64, rowid: i64, text_bytes: usize) {
        let mut record = vec![3, 13 + 2 * text_bytes as u8, 6];
        record.resize(3 + text_bytes, b'x');
        record.extend_from_slice(&rowid.to_be_bytes());
        let mut buf = vec![0xee; 3 + bytes_max(record.len())];
        let record_at = 3 + ENTRY_HEADER_BYTES;
        buf[record_at..record_at + record.len()].copy_from_slice(&record);
        let end = end_entry(&mut buf, 3, (sequence, rowid), record.len());
        let is_short =
            record.len() < SHORT_RECORD_BYTES && rowid == (sequence as i64).wrapping_add(1);
        assert_eq!(end == 4 + record.len(), is_short);
        let (item, length_read) = read(&buf[3..]).unwrap();
        let place = end - 3 - record.len()..end - 3;
        assert_eq!((length_read, record_place(&buf[3..])), (end - 3, Some(place)));
        assert_eq!((item.sequence, item.rowid, item.record), (sequence, rowid, &record[..]));
        assert!(read(&buf[3..end - 1]).is_none());
    }

    #[test]
    fn entries_come_back() {
        for rowid in [0, 1, -1, 255, 256, 1 << 40, i64::MIN, i64::MAX] {
            for text_bytes in [0, 1, 51, 52, 53, 54] {
                check_entry(rowid.wrapping_sub(1) as u64, rowid, text_bytes);
                check_entry(rowid as u64, rowid, text_bytes);
            }
        }
    }

    #[test]
    fn the_last_integer_is_that_of_any_length() {
        let integers =
            [0_i64, 1, -1, 127, -128, 40_000, -40_000, 8 << 20, 1 << 31, -1 << 40, 1 << 60];
        for integer in integers {
            let mut serials = leafpress_format::SerialTypes::new(2);
            let mut buf = [0; 64];
            let mut writer = leafpress_format::RecordWriter::new(&mut buf, 64, &mut serials);
            writer.integer(integer);
            writer.text(b"xyz");
            let at = writer.finish();
            assert_eq!(last_integer(&buf[at..]), Some(integer));
            assert_eq!(last_integer(&[2, 11, b'a']), None);
        }
    }

    #[test]
    fn items_at_the_edges_come_back() {
        for sequence in [0, 1, 255, 256, u64::from(u32::MAX), i64::MAX as u64, u64::MAX] {
            for rowid in [0, 1, -1, 255, 256, 1 << 40, i64::MIN, i64::MAX] {
                for record_bytes in [0, 1, 7, 8, 255, 256, 65_535, 65_536] {
                    check(sequence, rowid, &vec![7; record_bytes]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn items_come_back(
            sequence: u64, shift in 0..64, rowid: i64, near: bool, off in -300..300_i64,
            record in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let sequence = sequence >> shift;
            let rowid = if near { (sequence as i64).wrapping_add(off) } else { rowid >> shift };
            check(sequence, rowid, &record);
        }

        #[test]
        fn any_bytes_are_an_item_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some((item, length_read)) = read(&bytes) {
                prop_assert!(length_read <= bytes.len() && item.record.len() < length_read);
            }
            let _ = record_place(&bytes);
        }
    }
}
