//! Values of some rows, prepared for their records before these are written.
//!
//! A program that makes rows of text converts them a column at a time, which takes fewer instructions.
//! It then has the values in this form, and [`RecordWriter`](crate::RecordWriter) puts them into a record
//! with little work.

use crate::number::Number;
use crate::serial_type::{self, of_integer};
use crate::value::Value;

/// Stands for the serial type of a value that is not prepared.
const OTHER: u8 = 0xff;
/// Set in serial types that do not fit a byte of a header, and in [`OTHER`].
const NO_BYTE: u64 = 0x8080_8080_8080_8080;
/// Longest text whose serial type fits a byte of a header.
const TEXT_BYTES_MAX: usize = (0x7f - serial_type::TEXT as usize) / 2;
/// Number of values that should be prepared together: the values and their source stay in the
/// processor's nearest cache.
const STRIPE_VALUES: usize = 512;
/// Serial types that are looked at together.
const WORD_BYTES: usize = 8;

/// A value that is prepared for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// The content of a number, at the end of eight big-endian bytes; of a text the offset where it
    /// starts, and above it the index of its buffer.
    pub(crate) content: u64,
    pub(crate) serial_type: u8,
}

impl Prepared {
    /// NULL.
    pub const NULL: Self = Self { content: 0, serial_type: 0 };
    /// Stands for a value that is not prepared.
    pub const OTHER: Self = Self { content: 0, serial_type: OTHER };

    /// An integer, in as few bytes as it takes.
    #[inline(always)]
    pub fn integer(value: i64) -> Self {
        Self { content: value as u64, serial_type: of_integer(value) }
    }

    /// A float, which is not NaN: SQLite has none.
    #[inline(always)]
    pub fn real(value: f64) -> Self {
        debug_assert!(!value.is_nan(), "NaN is NULL");
        Self { content: value.to_bits(), serial_type: 7 }
    }

    /// An integer, or a float, which is not NaN.
    #[inline(always)]
    pub fn number(value: Number) -> Self {
        match value {
            Number::Integer(integer) => Self::integer(integer),
            Number::Real(real) => Self::real(real),
        }
    }

    /// The text at `start..end` of a buffer of less than 4 GiB; [`OTHER`](Self::OTHER) if it is long.
    #[inline(always)]
    pub fn text(start: usize, end: usize) -> Self {
        Self::text_in(0, start, end - start)
    }

    /// The text of `len` bytes from `start` on in one of several buffers of less than 4 GiB;
    /// [`OTHER`](Self::OTHER) if it is long.
    #[inline(always)]
    pub fn text_in(buffer: usize, start: usize, len: usize) -> Self {
        if len > TEXT_BYTES_MAX {
            return Self::OTHER;
        }
        let content = start as u64 | (buffer as u64) << 32;
        Self { content, serial_type: serial_type::TEXT + 2 * len as u8 }
    }

    /// Bounds of a text; `None` for other values.
    #[inline(always)]
    pub(crate) fn text_bounds(self) -> Option<(usize, usize)> {
        let len = usize::from(self.serial_type.checked_sub(serial_type::TEXT)?) / 2;
        let start = self.content as u32 as usize;
        Some((start, start + len))
    }

    /// Index of a text's buffer.
    #[inline(always)]
    pub(crate) fn text_buffer(self) -> usize {
        (self.content >> 32) as usize
    }

    /// The value, of which a text is in `source`.
    pub fn value(self, source: &[u8]) -> Value<'_> {
        match (self.text_bounds(), self.serial_type) {
            (Some((start, end)), _) => Value::Text(&source[start..end]),
            (None, 0) => Value::Null,
            (None, 7) => Value::Real(f64::from_bits(self.content)),
            (None, _) => Value::Integer(self.content as i64),
        }
    }
}

/// Values of some rows, row by row.
#[derive(Debug)]
pub struct PreparedRows {
    columns: usize,
    contents: Vec<u64>,
    /// As they stand in the headers, and a word of zeros behind them.
    serial_types: Vec<u8>,
}

impl PreparedRows {
    /// Largest number of rows that should be prepared together, however few columns they have.
    pub const ROWS_MAX: usize = 64;

    /// Number of rows that should be prepared together.
    pub fn rows_together(columns: usize) -> usize {
        (STRIPE_VALUES / columns.max(1)).clamp(1, Self::ROWS_MAX)
    }

    /// Room for the values of `rows` rows.
    pub fn new(rows: usize, columns: usize) -> Self {
        let values = rows * columns;
        Self { columns, contents: vec![0; values], serial_types: vec![0; values + WORD_BYTES] }
    }

    /// Prepares a column of the first rows: `prepare` is called with each of `rows`, in order.
    ///
    /// # Panics
    /// Panics if there is no such column.
    #[inline(always)]
    pub fn column<Row>(
        &mut self,
        column: usize,
        rows: impl Iterator<Item = Row>,
        mut prepare: impl FnMut(Row) -> Prepared,
    ) {
        let columns = self.columns;
        assert!(column < columns, "column {column} of {columns}");
        let contents = self.contents.chunks_exact_mut(columns);
        let serial_types = self.serial_types.chunks_exact_mut(columns);
        for ((row, contents), serial_types) in rows.zip(contents).zip(serial_types) {
            let Prepared { content, serial_type } = prepare(row);
            contents[column] = content;
            serial_types[column] = serial_type;
        }
    }

    /// Returns true if so few of the first `rows` rows are prepared as a whole that it takes less time to
    /// prepare none.
    pub fn is_in_vain(&self, rows: usize) -> bool {
        let whole = (0..rows).filter(|&row| self.row(row).is_whole()).count();
        whole * 4 < rows * 3
    }

    /// The values of a row.
    #[inline(always)]
    pub fn row(&self, row: usize) -> PreparedRow<'_> {
        let (start, end) = (row * self.columns, (row + 1) * self.columns);
        PreparedRow {
            contents: &self.contents[start..end],
            serial_types: &self.serial_types[start..end + WORD_BYTES],
        }
    }
}

/// The values of a row.
#[derive(Debug, Clone, Copy)]
pub struct PreparedRow<'r> {
    pub(crate) contents: &'r [u64],
    /// Serial types, and at least a word of other bytes behind them.
    pub(crate) serial_types: &'r [u8],
}

impl PreparedRow<'_> {
    /// A row of which no value is prepared.
    pub const NONE: Self = Self { contents: &[], serial_types: &[0; WORD_BYTES] };

    /// The value of a column, if it is prepared.
    #[inline(always)]
    pub fn get(self, column: usize) -> Option<Prepared> {
        let &content = self.contents.get(column)?;
        let prepared = Prepared { content, serial_type: self.serial_types[column] };
        (prepared.serial_type != OTHER).then_some(prepared)
    }

    /// Returns true if all values of the row are prepared.
    #[inline(always)]
    pub fn is_whole(self) -> bool {
        let columns = self.contents.len();
        let mut all = 0;
        let mut at = 0;
        while at < columns {
            let unused_bits = 8 * WORD_BYTES.saturating_sub(columns - at) as u32;
            all |= self.word(at) << unused_bits;
            at += WORD_BYTES;
        }
        columns > 0 && all & NO_BYTE == 0
    }

    /// The serial types of a column and of those behind it.
    #[inline(always)]
    pub(crate) fn word(self, column: usize) -> u64 {
        let mut word = [0; WORD_BYTES];
        word.copy_from_slice(&self.serial_types[column..column + WORD_BYTES]);
        u64::from_le_bytes(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RecordWriter, SerialTypes, record};

    const SOURCE: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ........";

    /// The value of a column, and what it is prepared as.
    fn value(row: usize, column: usize) -> (Value<'static>, Prepared) {
        let number = (row as i64 - 7) << (column % 60);
        let (start, end) = (row % 5, row % 5 + column % 58);
        match (row + column) % 4 {
            0 => (Value::Null, Prepared::NULL),
            1 => (Value::Integer(number), Prepared::integer(number)),
            2 => (Value::Real(number as f64 / 3.0), Prepared::real(number as f64 / 3.0)),
            _ => (Value::Text(&SOURCE[start..end]), Prepared::text(start, end)),
        }
    }

    #[test]
    fn prepared_rows_become_the_records_of_their_values() {
        const ROWS: usize = 13;
        for columns in (1..20).chain([64, 126, 127, 130]) {
            let mut prepared = PreparedRows::new(ROWS, columns);
            for column in 0..columns {
                prepared.column(column, 0..ROWS, |row| value(row, column).1);
            }
            let mut serials = SerialTypes::new(columns);
            for row in 0..ROWS {
                let values: Vec<_> = (0..columns).map(|column| value(row, column).0).collect();
                assert!(prepared.row(row).is_whole());
                let mut buf = vec![0; 70 * columns + 100];
                let end = buf.len();
                let mut writer = RecordWriter::new(&mut buf, end, &mut serials);
                writer.prepared_row(SOURCE, prepared.row(row));
                let at = writer.finish();
                assert_eq!(buf[at..], record(&values), "row {row} of {columns} columns");
                let one_by_one: Vec<_> = (0..columns)
                    .map(|column| prepared.row(row).get(column).unwrap().value(SOURCE))
                    .collect();
                assert_eq!(one_by_one, values);
            }
        }
    }

    #[test]
    fn texts_may_be_in_several_buffers() {
        let buffers: [&[u8]; 3] = [&SOURCE[..40], &[], &SOURCE[7..]];
        let mut prepared = PreparedRows::new(30, 3);
        for column in 0..2 {
            prepared.column(column, 0..30, |row| Prepared::text_in(2 * column, row, row % 11));
        }
        prepared.column(2, 0..30, |row| Prepared::integer(row as i64 * 1000));
        let mut serials = SerialTypes::new(3);
        for row in 0..30 {
            let mut buf = [0; 200];
            let mut writer = RecordWriter::new(&mut buf, 200, &mut serials);
            writer.prepared_row_in(&buffers, prepared.row(row));
            let text = |buffer: usize| Value::Text(&buffers[buffer][row..row + row % 11]);
            let values = [text(0), text(2), Value::Integer(row as i64 * 1000)];
            let at = writer.finish();
            assert_eq!(buf[at..], record(&values), "row {row}");
        }
        assert_eq!(Prepared::text_in(0, 3, 58), Prepared::OTHER);
    }

    #[test]
    fn a_row_is_whole_only_if_all_of_its_values_are_prepared() {
        assert!(!PreparedRow::NONE.is_whole() && PreparedRow::NONE.get(0).is_none());
        assert_eq!(Prepared::text(3, 61), Prepared::OTHER);
        for columns in [1, 7, 8, 9, 16, 17] {
            for other in 0..columns {
                let mut prepared = PreparedRows::new(2, columns);
                for column in 0..columns {
                    prepared.column(column, 0..2, |row| {
                        if row == 0 && column == other { Prepared::OTHER } else { Prepared::NULL }
                    });
                }
                assert!(!prepared.row(0).is_whole() && prepared.row(1).is_whole());
                assert_eq!(prepared.row(0).get(other), None);
            }
        }
    }
}
