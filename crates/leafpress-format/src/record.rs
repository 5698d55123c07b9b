//! Records: a header of serial types, then the values.
//!
//! ```text
//! header length │ serial type per column │ content per column
//!   (varint)    │       (varints)        │
//! ```
//!
//! | serial type | content | bytes |
//! |---|---|---|
//! | 0 | NULL | 0 |
//! | 1, 2, 3, 4, 5, 6 | integer, big-endian | 1, 2, 3, 4, 6, 8 |
//! | 7 | float, big-endian | 8 |
//! | 8, 9 | the integers 0 and 1 | 0 |
//! | 12 + 2n | blob | n |
//! | 13 + 2n | text | n |
//!
//! Source: file format, section 2.1.
//!
//! A record is written **from its last column to its first**, downwards from
//! the end of a buffer. In the format a length stands in front of its content; from
//! the end, each length is known when it is written: one pass, no copy, straight
//! into the page. Integers and short texts are stored as whole words whose
//! unused front is overwritten by what comes next, hence [`WRITE_SLACK_BYTES`].

use crate::prepared::{Prepared, PreparedRow};
use crate::serial_type::of_integer;
use crate::value::Value;
use crate::varint::{VARINT_BYTES_MAX, put_varint_before, varint_len};

/// Number of bytes in front of a finished record that may be overwritten while the record is
/// written.
pub const WRITE_SLACK_BYTES: usize = 32;

/// Upper bound for what a column adds to a record besides text or blob content.
pub const COLUMN_OVERHEAD_BYTES_MAX: usize = 9;

/// Upper bound for the length of the header length.
pub const HEADER_LENGTH_BYTES_MAX: usize = VARINT_BYTES_MAX;

/// Integers that fit six bytes; larger ones stay floats in a REAL column.
const SIX_BYTE_INTEGERS: std::ops::Range<i64> = -(1 << 47)..1 << 47;

/// Content length by serial type, 0 to 9; the rest spares a check.
const CONTENT_BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let lengths = [0, 1, 2, 3, 4, 6, 8, 8];
    let mut serial_type = 0;
    while serial_type < lengths.len() {
        table[serial_type] = lengths[serial_type];
        serial_type += 1;
    }
    table
};

/// The serial types of long records that did not fit the writer's word.
///
/// Kept by the caller from record to record, as it is the only memory needed.
#[derive(Debug)]
pub struct SerialTypes {
    bytes: Vec<u8>,
    at: usize,
}

impl SerialTypes {
    /// A writer of records of up to `columns` columns.
    pub fn new(columns: usize) -> Self {
        let len = WORD_BYTES + columns * COLUMN_OVERHEAD_BYTES_MAX;
        Self { bytes: vec![0; len], at: len }
    }
}

/// The last serial types written, in a register: first column lowest.
///
/// Bytes stored one by one and then loaded as a word would stall the
/// processor at each record; measured, that was a third of a load.
#[derive(Debug, Default, Clone, Copy)]
struct SerialWord {
    word: u64,
    len: usize,
}

/// Bytes of a [`SerialWord`].
const WORD_BYTES: usize = 8;

impl SerialWord {
    #[inline(always)]
    fn push_byte(&mut self, byte: u8, spilled: &mut SerialTypes) {
        if self.len == WORD_BYTES {
            spilled.at -= WORD_BYTES;
            spilled.bytes[spilled.at..spilled.at + WORD_BYTES]
                .copy_from_slice(&self.word.to_le_bytes());
            self.len = 0;
        }
        self.word = self.word << 8 | u64::from(byte);
        self.len += 1;
    }

    #[inline(always)]
    fn push(&mut self, serial_type: u64, spilled: &mut SerialTypes) {
        if serial_type < 0x80 {
            self.push_byte(serial_type as u8, spilled);
        } else {
            *self = self.with_long(serial_type, spilled);
        }
    }

    /// Serial types stay below 2^32, so a varint's nine-byte form never occurs.
    #[inline(never)]
    fn with_long(mut self, serial_type: u64, spilled: &mut SerialTypes) -> Self {
        self.push_byte((serial_type & 0x7f) as u8, spilled);
        let mut rest = serial_type >> 7;
        while rest != 0 {
            self.push_byte(0x80 | (rest & 0x7f) as u8, spilled);
            rest >>= 7;
        }
        self
    }
}

/// Writes one record downwards, last column first.
///
/// The caller has made sure that the buffer has room for the record and
/// [`WRITE_SLACK_BYTES`] more.
#[derive(Debug)]
pub struct RecordWriter<'a> {
    buf: &'a mut [u8],
    at: usize,
    serials: SerialWord,
    spilled: &'a mut SerialTypes,
}

impl<'a> RecordWriter<'a> {
    /// A writer whose record will end at `end` in `buf`.
    #[inline(always)]
    pub fn new(buf: &'a mut [u8], end: usize, spilled: &'a mut SerialTypes) -> Self {
        spilled.at = spilled.bytes.len();
        Self { buf, at: end, serials: SerialWord::default(), spilled }
    }

    /// NULL.
    #[inline(always)]
    pub fn null(&mut self) {
        self.serials.push_byte(0, self.spilled);
    }

    /// All values of a record, each of them prepared; the texts are in `source`.
    #[inline(always)]
    pub fn prepared_row(&mut self, source: &[u8], row: PreparedRow<'_>) {
        self.prepared_row_by(
            #[inline(always)]
            |_| source,
            row,
        );
    }

    /// All values of a record, each of them prepared; each text is in the one of these buffers that it
    /// names.
    #[inline(always)]
    pub fn prepared_row_in(&mut self, buffers: &[&[u8]], row: PreparedRow<'_>) {
        self.prepared_row_by(
            #[inline(always)]
            |buffer| buffers[buffer],
            row,
        );
    }

    #[inline(always)]
    fn prepared_row_by<'s>(&mut self, buffer: impl Fn(usize) -> &'s [u8], row: PreparedRow<'_>) {
        let columns = row.contents.len();
        for column in (0..columns).rev() {
            let value =
                Prepared { content: row.contents[column], serial_type: row.serial_types[column] };
            self.prepared_content(&buffer, value);
        }
        // Those that do not fit the writer's word, from the last one on.
        let mut left = columns;
        while left > WORD_BYTES {
            left -= WORD_BYTES;
            self.spilled.at -= WORD_BYTES;
            self.spilled.bytes[self.spilled.at..self.spilled.at + WORD_BYTES]
                .copy_from_slice(&row.word(left).to_le_bytes());
        }
        self.serials = SerialWord { word: row.word(0), len: left };
    }

    /// A value that is prepared; a text is in `source`.
    #[inline(always)]
    pub fn prepared(&mut self, source: &[u8], value: Prepared) {
        self.serials.push_byte(value.serial_type, self.spilled);
        self.prepared_content(
            #[inline(always)]
            |_| source,
            value,
        );
    }

    #[inline(always)]
    fn prepared_content<'s>(&mut self, buffer: impl Fn(usize) -> &'s [u8], value: Prepared) {
        if let Some((start, end)) = value.text_bounds() {
            self.content_within(buffer(value.text_buffer()), start, end);
        } else {
            self.buf[self.at - 8..self.at].copy_from_slice(&value.content.to_be_bytes());
            self.at -= CONTENT_BYTES[usize::from(value.serial_type)] as usize;
        }
    }

    /// An integer, in as few bytes as it takes.
    #[inline(always)]
    pub fn integer(&mut self, value: i64) {
        let serial_type = of_integer(value);
        self.serials.push_byte(serial_type, self.spilled);
        self.buf[self.at - 8..self.at].copy_from_slice(&value.to_be_bytes());
        self.at -= CONTENT_BYTES[usize::from(serial_type)] as usize;
    }

    /// A float. NaN becomes NULL, as SQLite has none.
    #[inline(always)]
    pub fn real(&mut self, value: f64) {
        if value.is_nan() {
            return self.null();
        }
        self.serials.push_byte(7, self.spilled);
        self.buf[self.at - 8..self.at].copy_from_slice(&value.to_bits().to_be_bytes());
        self.at -= 8;
    }

    /// A float in a column of REAL affinity, where SQLite stores integral
    /// values of up to six bytes as integers and reads them back as floats.
    #[inline(always)]
    #[expect(clippy::float_cmp, reason = "exactly integral is the question")]
    pub fn real_column(&mut self, value: f64) {
        let integer = value as i64;
        if integer as f64 == value && SIX_BYTE_INTEGERS.contains(&integer) {
            self.integer(integer);
        } else {
            self.real(value);
        }
    }

    /// Text of no length.
    #[inline(always)]
    pub fn empty_text(&mut self) {
        self.serials.push_byte(13, self.spilled);
    }

    /// Text.
    #[inline(always)]
    pub fn text(&mut self, text: &[u8]) {
        self.serials.push(13 + 2 * text.len() as u64, self.spilled);
        self.content(text);
    }

    /// A blob.
    #[inline(always)]
    pub fn blob(&mut self, blob: &[u8]) {
        self.serials.push(12 + 2 * blob.len() as u64, self.spilled);
        self.content(blob);
    }

    /// The text at `start..end` of a larger buffer.
    ///
    /// Writes what [`text`](Self::text) writes, but quicker for short texts: these are copied
    /// as one word of fixed length if `source` has bytes in front of them.
    #[inline(always)]
    pub fn text_within(&mut self, source: &[u8], start: usize, end: usize) {
        self.serials.push(13 + 2 * (end - start) as u64, self.spilled);
        self.content_within(source, start, end);
    }

    #[inline(always)]
    fn content_within(&mut self, source: &[u8], start: usize, end: usize) {
        let len = end - start;
        if len <= WRITE_SLACK_BYTES && end >= WRITE_SLACK_BYTES {
            self.buf[self.at - WRITE_SLACK_BYTES..self.at]
                .copy_from_slice(&source[end - WRITE_SLACK_BYTES..end]);
            self.at -= len;
        } else {
            self.content(&source[start..end]);
        }
    }

    /// Any value, in its own storage class.
    #[inline(always)]
    pub fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.null(),
            Value::Integer(integer) => self.integer(integer),
            Value::Real(real) => self.real(real),
            Value::Text(text) => self.text(text),
            Value::Blob(blob) => self.blob(blob),
        }
    }

    #[inline(always)]
    fn content(&mut self, bytes: &[u8]) {
        let start = self.at - bytes.len();
        self.buf[start..self.at].copy_from_slice(bytes);
        self.at = start;
    }

    /// Puts the header in front and returns where the record begins.
    ///
    /// A record has at least one column: SQLite calls one without corrupt.
    #[inline(always)]
    pub fn finish(self) -> usize {
        let Self { buf, mut at, serials, spilled } = self;
        let long = &spilled.bytes[spilled.at..];
        let len = long.len() + serials.len;
        // Word by word, as they were stored.
        for word in long.rchunks_exact(WORD_BYTES) {
            buf[at - WORD_BYTES..at].copy_from_slice(word);
            at -= WORD_BYTES;
        }
        let unused_bits = 8 * (WORD_BYTES - serials.len) as u32;
        let word = serials.word.checked_shl(unused_bits).unwrap_or(0);
        buf[at - WORD_BYTES..at].copy_from_slice(&word.to_le_bytes());
        at -= serials.len;
        put_varint_before(buf, at, header_bytes(len) as u64)
    }
}

/// The header length: it counts itself.
#[inline]
pub(crate) const fn header_bytes(serial_types_bytes: usize) -> usize {
    let guess = serial_types_bytes + 1;
    if guess < 0x80 {
        return guess;
    }
    // One byte more may need one byte more to say so, but never two.
    let len = varint_len(guess as u64);
    let len = varint_len((serial_types_bytes + len) as u64);
    serial_types_bytes + len
}

/// Upper bound for the length of a record of these values.
pub fn record_bytes_max(values: &[Value<'_>]) -> usize {
    let content: usize = values
        .iter()
        .map(|value| match value {
            Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
            _ => 0,
        })
        .sum();
    HEADER_LENGTH_BYTES_MAX + values.len() * COLUMN_OVERHEAD_BYTES_MAX + content
}

/// The record of these values, by itself.
pub fn record(values: &[Value<'_>]) -> Vec<u8> {
    let mut serials = SerialTypes::new(values.len());
    let mut buf = vec![0; record_bytes_max(values) + WRITE_SLACK_BYTES];
    let end = buf.len();
    let mut writer = RecordWriter::new(&mut buf, end, &mut serials);
    for &value in values.iter().rev() {
        writer.value(value);
    }
    let at = writer.finish();
    buf.split_off(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_serial_type() {
        use Value::{Blob, Integer, Null, Real, Text};
        assert_eq!(record(&[Null]), [2, 0]);
        assert_eq!(record(&[Integer(0), Integer(1)]), [3, 8, 9]);
        assert_eq!(record(&[Integer(2)]), [2, 1, 2]);
        assert_eq!(record(&[Integer(-1)]), [2, 1, 0xff]);
        assert_eq!(record(&[Integer(-129)]), [2, 2, 0xff, 0x7f]);
        assert_eq!(record(&[Integer(1 << 23)]), [2, 4, 0, 0x80, 0, 0]);
        assert_eq!(record(&[Integer((1 << 23) - 1)]), [2, 3, 0x7f, 0xff, 0xff]);
        assert_eq!(record(&[Integer(1 << 31)]), [2, 5, 0, 0, 0x80, 0, 0, 0]);
        assert_eq!(record(&[Integer(i64::MIN)]), [2, 6, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record(&[Real(1.0)]), [2, 7, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record(&[Real(f64::NAN)]), [2, 0]);
        assert_eq!(record(&[Text(b"ab"), Blob(b"c")]), [3, 17, 14, b'a', b'b', b'c']);
    }

    #[test]
    fn the_header_length_counts_itself() {
        for columns in [1, 125, 126, 127, 128, 2000, 16380, 16381, 16382, 16383, 16384] {
            let values = vec![Value::Null; columns];
            let bytes = record(&values);
            assert_eq!(bytes.len(), header_bytes(columns));
            let mut said = 0;
            for byte in &bytes {
                said = said << 7 | usize::from(byte & 0x7f);
                if byte & 0x80 == 0 {
                    break;
                }
            }
            assert_eq!(said, bytes.len(), "{columns} columns");
        }
    }

    #[test]
    fn real_columns_store_integral_values_as_integers() {
        let mut serials = SerialTypes::new(1);
        for (value, len) in [(39.0, 3), (-0.0, 2), (0.5, 10), (140_737_488_355_328.0, 10)] {
            let mut buf = [0; 64];
            let mut writer = RecordWriter::new(&mut buf, 64, &mut serials);
            writer.real_column(value);
            assert_eq!(64 - writer.finish(), len, "{value}");
        }
    }

    #[test]
    fn text_within_equals_text() {
        let source: Vec<u8> = (0..200).collect();
        let mut serials = SerialTypes::new(1);
        for end in 0..200_usize {
            for start in end.saturating_sub(70)..=end {
                let mut one = [0; 256];
                let mut writer = RecordWriter::new(&mut one, 256, &mut serials);
                writer.text_within(&source, start, end);
                let at = writer.finish();
                let mut other = [0; 256];
                let mut writer = RecordWriter::new(&mut other, 256, &mut serials);
                writer.text(&source[start..end]);
                assert_eq!(at, writer.finish());
                assert_eq!(one[at..], other[at..]);
            }
        }
    }
}
