//! Records read again. They are compared, taken apart, and made into the records of an index or
//! of a WITHOUT ROWID table.
//!
//! Purpose: once a row is a record, sorting compares records and an
//! index's entry is a *projection* of them, columns copied by serial type and
//! content. No value is decoded for that, and nothing is allocated: all of this
//! runs once or more for every row.
//!
//! Must never: apply affinity, or panic, whatever the bytes are. A malformed record counts as
//! one whose columns end where the fault is, and a missing column counts as NULL.
//!
//! Place: between [`crate::record`], which writes records, and the code that sorts them;
//! `prefix.rs` makes the first sixteen bytes of an order out of a record.

use std::cmp::Ordering;

use crate::key::{KeyColumn, SortOrder, compare_values};
use crate::record::header_bytes;
use crate::value::Value;
use crate::varint::{VARINT_BYTES_MAX, put_varint_before};

/// Serial types of one byte lie below.
const ONE_BYTE_VARINTS: u64 = 0x80;

/// Entry of [`CONTENT_BYTES`] for a serial type that SQLite has reserved.
const RESERVED: u8 = u8::MAX;

/// Content length by serial type, for serial types of one byte.
const CONTENT_BYTES: [u8; ONE_BYTE_VARINTS as usize] = {
    let mut table = [0; ONE_BYTE_VARINTS as usize];
    let lengths = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, RESERVED, RESERVED];
    let mut serial_type = 0;
    while serial_type < table.len() {
        table[serial_type] = if serial_type < lengths.len() {
            lengths[serial_type]
        } else {
            (serial_type as u8 - 12) / 2
        };
        serial_type += 1;
    }
    table
};

/// The place of a column's content in its record, and its serial type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// Its serial type.
    pub serial_type: u64,
    /// Offset of its content in the record.
    pub at: usize,
    /// The length of its content; the record has that many bytes there.
    pub bytes: usize,
}

impl Field {
    /// The column's value, where `record` is the record it was found in.
    #[inline]
    pub(crate) fn value<'r>(&self, record: &'r [u8]) -> Value<'r> {
        let Some(content) = record.get(self.at..self.at + self.bytes) else { return Value::Null };
        match self.serial_type {
            1..=6 => Value::Integer(integer(content)),
            7 => real(content),
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            text if text >= 13 && text & 1 == 1 => Value::Text(content),
            blob if blob >= 12 => Value::Blob(content),
            _ => Value::Null,
        }
    }
}

/// A big-endian integer of up to eight bytes, with its sign.
#[inline]
pub(crate) fn integer(content: &[u8]) -> i64 {
    let first = content.first().map_or(0, |&byte| i64::from(byte as i8));
    content.iter().skip(1).fold(first, |value, &byte| value << 8 | i64::from(byte))
}

/// A float; SQLite reads a NaN as NULL.
#[inline]
fn real(content: &[u8]) -> Value<'static> {
    let real = f64::from_bits(integer(content) as u64);
    if real.is_nan() { Value::Null } else { Value::Real(real) }
}

/// Reads a varint, as the value and the number of bytes that it takes.
#[inline]
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Some((u64::from(byte), 1)),
        _ => long_varint(bytes),
    }
}

#[inline(never)]
fn long_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        if index + 1 == VARINT_BYTES_MAX {
            return Some((value << 8 | u64::from(byte), VARINT_BYTES_MAX));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

/// A walk over a record's columns, first to last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk<'r> {
    record: &'r [u8],
    header_at: usize,
    /// Zero once a fault was found, which ends the walk.
    header_end: usize,
    body_at: usize,
}

impl<'r> Walk<'r> {
    #[inline]
    pub(crate) fn new(record: &'r [u8]) -> Self {
        match varint(record) {
            Some((header_end, header_at)) if header_end <= record.len() as u64 => {
                let header_end = header_end as usize;
                Self { record, header_at, header_end, body_at: header_end }
            }
            _ => Self { record, header_at: 1, header_end: 0, body_at: 0 },
        }
    }

    /// The next column; `None` after the last and at a fault.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Field> {
        if self.header_at >= self.header_end {
            return None;
        }
        let byte = self.record[self.header_at];
        let (serial_type, content_bytes) = if u64::from(byte) < ONE_BYTE_VARINTS {
            self.header_at += 1;
            (u64::from(byte), usize::from(CONTENT_BYTES[usize::from(byte)]))
        } else {
            self.next_long()?
        };
        let field = Field { serial_type, at: self.body_at, bytes: content_bytes };
        let reserved = matches!(serial_type, 10 | 11);
        if reserved || content_bytes > self.record.len() - self.body_at {
            self.header_end = 0;
            return None;
        }
        self.body_at += content_bytes;
        Some(field)
    }

    /// A serial type of several bytes, and the length of its content.
    #[inline(never)]
    fn next_long(&mut self) -> Option<(u64, usize)> {
        let Some((serial_type, bytes)) = long_varint(&self.record[self.header_at..self.header_end])
        else {
            self.header_end = 0;
            return None;
        };
        self.header_at += bytes;
        let content_bytes = match serial_type {
            // A serial type of one byte, written in a longer form: no program is known to write
            // that, but it can be read.
            0..ONE_BYTE_VARINTS => usize::from(CONTENT_BYTES[serial_type as usize]),
            _ => usize::try_from((serial_type - 12) / 2).unwrap_or(usize::MAX),
        };
        Some((serial_type, content_bytes))
    }

    #[inline]
    fn next_value(&mut self) -> Value<'r> {
        self.next().map_or(Value::Null, |field| field.value(self.record))
    }

    /// After the last column: whether the header ended where it said it would.
    fn is_sound(&self) -> bool {
        self.header_at == self.header_end
    }
}

/// The places of a record's columns: a table to use again from record to record.
///
/// ```
/// use leafpress_format::{RecordColumns, Value};
/// let record = [3, 9, 17, b'a', b'b'];
/// let mut columns = RecordColumns::new();
/// assert_eq!(columns.parse(&record), 2);
/// assert_eq!(columns.value(&record, 0), Value::Integer(1));
/// assert_eq!(columns.value(&record, 1), Value::Text(b"ab"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct RecordColumns {
    fields: Vec<Field>,
}

impl RecordColumns {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds the columns of `record` and returns their number: 0 if it is not
    /// a record, as SQLite writes none without columns.
    #[inline]
    pub fn parse(&mut self, record: &[u8]) -> usize {
        let walk = self.parse_first(record, usize::MAX);
        if !walk.is_sound() {
            self.fields.clear();
        }
        self.fields.len()
    }

    /// Finds the first `columns` columns, or those before a fault.
    #[inline]
    fn parse_first<'r>(&mut self, record: &'r [u8], columns: usize) -> Walk<'r> {
        self.fields.clear();
        let mut walk = Walk::new(record);
        while self.fields.len() < columns
            && let Some(field) = walk.next()
        {
            self.fields.push(field);
        }
        walk
    }

    /// The value of a column of the record that was parsed last; NULL if it has
    /// no such column.
    #[inline]
    pub fn value<'r>(&self, record: &'r [u8], column: usize) -> Value<'r> {
        self.fields.get(column).map_or(Value::Null, |field| field.value(record))
    }
}

/// The source of a column in the record of an index or a WITHOUT ROWID table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryColumn {
    /// The table's column of that index.
    Column(usize),
    /// The row's rowid; also in place of its alias.
    Rowid,
}

/// Makes the records of an index or of a WITHOUT ROWID table out of a table's.
#[derive(Debug, Clone)]
pub struct Projection {
    entry: Vec<EntryColumn>,
    /// Number of first columns of a record that have to be found.
    needed: usize,
    columns: RecordColumns,
}

impl Projection {
    /// Records of these columns, in this order.
    pub fn new(entry: Vec<EntryColumn>) -> Self {
        let needed = entry.iter().map(|column| match column {
            EntryColumn::Column(index) => index + 1,
            EntryColumn::Rowid => 0,
        });
        let needed = needed.max().unwrap_or(0);
        Self { entry, needed, columns: RecordColumns::new() }
    }

    /// Appends the projection of `record`, the row `rowid`, to `out`.
    ///
    /// Columns that the record does not have become NULL.
    #[inline]
    pub fn append(&mut self, record: &[u8], rowid: i64, out: &mut Vec<u8>) {
        self.columns.parse_first(record, self.needed);
        let rowid = RowidContent::new(rowid);
        let start = out.len();
        out.push(0);
        for column in &self.entry {
            match column {
                EntryColumn::Rowid => out.push(rowid.serial_type),
                EntryColumn::Column(index) => match self.columns.fields.get(*index) {
                    Some(field) => push_serial_type(out, field.serial_type),
                    None => out.push(0),
                },
            }
        }
        finish_header(out, start);
        self.append_contents(record, &rowid, out);
    }

    /// Contents that are neighbours in the record are copied together: the key
    /// of a WITHOUT ROWID table is often what its rows begin with.
    #[inline]
    fn append_contents(&self, record: &[u8], rowid: &RowidContent, out: &mut Vec<u8>) {
        let mut pending = 0..0;
        for column in &self.entry {
            match column {
                EntryColumn::Rowid => {
                    out.extend_from_slice(&record[pending]);
                    pending = 0..0;
                    out.extend_from_slice(rowid.content());
                }
                EntryColumn::Column(index) => {
                    let Some(field) = self.columns.fields.get(*index) else { continue };
                    if field.at != pending.end {
                        out.extend_from_slice(&record[pending]);
                        pending = field.at..field.at;
                    }
                    pending.end += field.bytes;
                }
            }
        }
        out.extend_from_slice(&record[pending]);
    }
}

/// Puts the header's length into the byte at `start`, or where one byte is
/// not enough, in its place.
#[inline]
fn finish_header(out: &mut Vec<u8>, start: usize) {
    let header = header_bytes(out.len() - start - 1);
    match u8::try_from(header) {
        Ok(length) if u64::from(length) < ONE_BYTE_VARINTS => out[start] = length,
        _ => {
            let mut varint = [0; VARINT_BYTES_MAX];
            let at = put_varint_before(&mut varint, VARINT_BYTES_MAX, header as u64);
            out.splice(start..=start, varint[at..].iter().copied());
        }
    }
}

#[inline]
fn push_serial_type(out: &mut Vec<u8>, serial_type: u64) {
    if serial_type < ONE_BYTE_VARINTS {
        out.push(serial_type as u8);
    } else {
        let mut varint = [0; VARINT_BYTES_MAX];
        let at = put_varint_before(&mut varint, VARINT_BYTES_MAX, serial_type);
        out.extend_from_slice(&varint[at..]);
    }
}

/// A rowid as a column of a record.
struct RowidContent {
    serial_type: u8,
    bytes: [u8; 8],
    content_bytes: usize,
}

impl RowidContent {
    #[inline]
    fn new(rowid: i64) -> Self {
        // How many bits it needs besides the sign.
        let bits = 64 - (rowid ^ rowid >> 63).leading_zeros();
        let (serial_type, content_bytes) = match bits {
            _ if rowid == 0 => (8, 0),
            _ if rowid == 1 => (9, 0),
            0..=7 => (1, 1),
            8..=15 => (2, 2),
            16..=23 => (3, 3),
            24..=31 => (4, 4),
            32..=47 => (5, 6),
            _ => (6, 8),
        };
        Self { serial_type, bytes: rowid.to_be_bytes(), content_bytes }
    }

    #[inline]
    fn content(&self) -> &[u8] {
        &self.bytes[8 - self.content_bytes..]
    }
}

/// Compares two records by their first `columns.len()` columns, as
/// [`compare_keys`](crate::compare_keys) would compare their values.
///
/// ```
/// use leafpress_format::{KeyColumn, compare_records};
/// let columns = [KeyColumn::default()];
/// assert!(compare_records(&[2, 1, 7], &[2, 1, 8], &columns).is_lt());
/// ```
#[inline]
pub fn compare_records(left: &[u8], right: &[u8], columns: &[KeyColumn]) -> Ordering {
    let (mut left, mut right) = (Walk::new(left), Walk::new(right));
    for column in columns {
        let ordering = compare_values(&left.next_value(), &right.next_value(), column.collation);
        if ordering != Ordering::Equal {
            return match column.order {
                SortOrder::Ascending => ordering,
                SortOrder::Descending => ordering.reverse(),
            };
        }
    }
    Ordering::Equal
}

/// The result of looking for the first columns of a record that may have been read in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstColumns {
    /// All of them.
    Whole,
    /// The record ends before: it was written when the table had fewer columns.
    Absent,
    /// The bytes read end before the last of these columns, or are malformed.
    Cut,
}

impl FirstColumns {
    /// Looks for the first `columns` columns of a record, or of its beginning.
    pub fn look(beginning: &[u8], columns: usize) -> Self {
        let mut walk = Walk::new(beginning);
        let found = (0..columns).take_while(|_| walk.next().is_some()).count();
        match found {
            _ if found == columns => Self::Whole,
            _ if walk.is_sound() => Self::Absent,
            _ => Self::Cut,
        }
    }
}

/// Number of first columns, of at most `columns.len()`, in which two records are equal. NULL
/// equals NULL here.
///
/// ```
/// use leafpress_format::{KeyColumn, equal_columns};
/// let columns = [KeyColumn::default(); 2];
/// assert_eq!(equal_columns(&[3, 1, 1, 7, 5], &[3, 1, 1, 7, 6], &columns), 1);
/// ```
#[inline]
pub fn equal_columns(left: &[u8], right: &[u8], columns: &[KeyColumn]) -> usize {
    let (mut left, mut right) = (Walk::new(left), Walk::new(right));
    let is_equal = |column: &KeyColumn| {
        compare_values(&left.next_value(), &right.next_value(), column.collation).is_eq()
    };
    let unequal = columns.iter().map(is_equal).position(|is_equal| !is_equal);
    unequal.unwrap_or(columns.len())
}

/// Returns true if any of a record's first `columns` columns is NULL: such a key is never a
/// duplicate of another.
#[inline]
pub fn key_has_null(record: &[u8], columns: usize) -> bool {
    let mut walk = Walk::new(record);
    (0..columns).any(|_| match walk.next() {
        None => true,
        // A float may be a NaN, which SQLite reads as NULL.
        Some(field) if field.serial_type == 7 => field.value(record) == Value::Null,
        Some(field) => field.serial_type == 0,
    })
}
