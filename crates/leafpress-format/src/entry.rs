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

/// Content length by the first byte of a serial type; [`RESERVED`] if the serial type is longer than
/// that byte.
const SHORT_CONTENT_BYTES: [u8; 256] = {
    let mut table = [RESERVED; 256];
    let mut serial_type = 0;
    while serial_type < CONTENT_BYTES.len() {
        table[serial_type] = CONTENT_BYTES[serial_type];
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
    /// A column that a record does not have.
    const NULL: Self = Self { serial_type: 0, at: 0, bytes: 0 };

    /// The integer of a serial type from 1 to 6, where `record` is the record it was found in, which may
    /// go on behind itself.
    #[inline]
    pub(crate) fn integer(&self, record: &[u8]) -> i64 {
        // One load, where the record goes on far enough.
        match record.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(word) => i64::from_be_bytes(*word) >> (64 - 8 * self.bytes as u32),
            None => record.get(self.at..self.at + self.bytes).map_or(0, integer),
        }
    }

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
        self.fields.clear();
        let mut walk = Walk::new(record);
        while let Some(field) = walk.next() {
            self.fields.push(field);
        }
        if !walk.is_sound() {
            self.fields.clear();
        }
        self.fields.len()
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
    /// Places of the first columns of a record, as many as have to be found.
    fields: Vec<Field>,
    /// The record that was made last, at its beginning.
    made: Vec<u8>,
    /// Number of times that the record made may hold the same column.
    repeats_max: usize,
    /// Longest record that is made, besides the contents of columns.
    bytes_max_but_contents: usize,
}

/// Bytes that are copied at once where a content is not longer: one move instead of a call.
const COPIED_AT_ONCE: usize = 16;

impl Projection {
    /// Records of these columns, in this order.
    pub fn new(entry: Vec<EntryColumn>) -> Self {
        let needed = entry.iter().map(|column| match column {
            EntryColumn::Column(index) => index + 1,
            EntryColumn::Rowid => 0,
        });
        let needed = needed.max().unwrap_or(0);
        let repeats = entry.iter().map(|one| entry.iter().filter(|other| *other == one).count());
        Self {
            fields: vec![Field::NULL; needed],
            made: Vec::new(),
            repeats_max: repeats.max().unwrap_or(0),
            bytes_max_but_contents: VARINT_BYTES_MAX
                + entry.len() * (VARINT_BYTES_MAX + ROWID_BYTES_MAX)
                + COPIED_AT_ONCE,
            entry,
        }
    }

    /// Appends the projection of `record`, the row `rowid`, to `out`.
    ///
    /// Columns that the record does not have become NULL.
    #[inline]
    pub fn append(&mut self, record: &[u8], rowid: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.project(record, rowid));
    }

    /// The projection of `record`, the row `rowid`.
    ///
    /// Columns that the record does not have become NULL.
    #[inline]
    pub fn project(&mut self, record: &[u8], rowid: i64) -> &[u8] {
        let bytes_max = self.bytes_max(record);
        let mut made = std::mem::take(&mut self.made);
        if made.len() < bytes_max {
            made.resize(bytes_max, 0);
        }
        let bytes = self.project_into(record, rowid, &mut made);
        self.made = made;
        &self.made[..bytes]
    }

    /// Number of bytes that [`project_into`](Self::project_into) may write for this record.
    #[inline]
    pub fn bytes_max(&self, record: &[u8]) -> usize {
        self.bytes_max_but_contents + self.repeats_max * record.len()
    }

    /// Writes the projection of `record`, the row `rowid`, to the beginning of `out`, and returns its
    /// length. Up to [`bytes_max`](Self::bytes_max) bytes of `out` are overwritten.
    ///
    /// Columns that the record does not have become NULL.
    ///
    /// # Panics
    /// If `out` is shorter than [`bytes_max`](Self::bytes_max).
    #[inline]
    pub fn project_into(&mut self, record: &[u8], rowid: i64, out: &mut [u8]) -> usize {
        if !find_short(record, &mut self.fields) {
            find_any(record, &mut self.fields);
        }
        let out = &mut out[..self.bytes_max(record)];
        let rowid = RowidContent::new(rowid);
        let header_end = self.put_header(&rowid, out);
        self.put_contents(record, &rowid, out, header_end)
    }

    /// Writes the header and returns where it ends.
    #[inline]
    fn put_header(&self, rowid: &RowidContent, out: &mut [u8]) -> usize {
        let mut at = 1;
        for column in &self.entry {
            let serial_type = match column {
                EntryColumn::Rowid => u64::from(rowid.serial_type),
                EntryColumn::Column(index) => self.fields[*index].serial_type,
            };
            if serial_type < ONE_BYTE_VARINTS {
                out[at] = serial_type as u8;
                at += 1;
            } else {
                at = put_varint(out, at, serial_type);
            }
        }
        if (at as u64) < ONE_BYTE_VARINTS {
            out[0] = at as u8;
            return at;
        }
        // The header's own length takes more than one byte, so its serial types move.
        let header = header_bytes(at - 1);
        let length_bytes = header - (at - 1);
        out.copy_within(1..at, length_bytes);
        put_varint(out, 0, header as u64);
        header
    }

    /// Writes the contents behind the header, and returns where they end.
    ///
    /// Contents that are neighbours in the record are copied together: often the rows of a WITHOUT
    /// ROWID table begin with its key.
    #[inline]
    fn put_contents(
        &self,
        record: &[u8],
        rowid: &RowidContent,
        out: &mut [u8],
        mut end: usize,
    ) -> usize {
        let mut pending = 0..0;
        for column in &self.entry {
            match column {
                EntryColumn::Rowid => {
                    end = copy(record, pending, out, end);
                    pending = 0..0;
                    out[end..end + ROWID_BYTES_MAX].copy_from_slice(&rowid.content);
                    end += rowid.content_bytes;
                }
                EntryColumn::Column(index) => {
                    let field = self.fields[*index];
                    if field.at != pending.end {
                        end = copy(record, pending, out, end);
                        pending = field.at..field.at;
                    }
                    pending.end += field.bytes;
                }
            }
        }
        copy(record, pending, out, end)
    }
}

/// Copies a range of `record` to `made`, and returns where it ends there. What lies behind it may
/// be overwritten.
#[inline]
fn copy(record: &[u8], range: std::ops::Range<usize>, made: &mut [u8], at: usize) -> usize {
    let (start, bytes) = (range.start, range.len());
    if bytes <= COPIED_AT_ONCE
        && let Some(whole) = record.get(start..start + COPIED_AT_ONCE)
    {
        made[at..at + COPIED_AT_ONCE].copy_from_slice(whole);
    } else {
        made[at..at + bytes].copy_from_slice(&record[range]);
    }
    at + bytes
}

/// Finds the first `fields.len()` columns of a record that has as many, with serial types of one
/// byte; returns false for any other, of which `fields` say nothing then.
#[inline]
fn find_short(record: &[u8], fields: &mut [Field]) -> bool {
    let Some(&header_end) = record.first() else { return false };
    let header = record.get(1..usize::from(header_end)).unwrap_or_default();
    let Some(header) = header.get(..fields.len()).filter(|_| header_end < 0x80) else {
        return false;
    };
    let (mut at, mut is_usual) = (usize::from(header_end), true);
    for index in 0..header.len() {
        let content_bytes = SHORT_CONTENT_BYTES[usize::from(header[index])];
        is_usual &= content_bytes != RESERVED;
        let bytes = usize::from(content_bytes);
        fields[index] = Field { serial_type: u64::from(header[index]), at, bytes };
        at += bytes;
    }
    is_usual && at <= record.len()
}

/// Finds the first `fields.len()` columns of any record. Those behind its end or a fault are NULL.
#[inline(never)]
fn find_any(record: &[u8], fields: &mut [Field]) {
    let mut walk = Walk::new(record);
    for field in fields {
        *field = walk.next().unwrap_or(Field::NULL);
    }
}

/// Writes a varint at `at`, and returns where it ends.
#[inline(never)]
fn put_varint(made: &mut [u8], at: usize, value: u64) -> usize {
    let mut varint = [0; VARINT_BYTES_MAX];
    let start = put_varint_before(&mut varint, VARINT_BYTES_MAX, value);
    let varint = &varint[start..];
    made[at..at + varint.len()].copy_from_slice(varint);
    at + varint.len()
}

/// Length of the longest content of a rowid.
const ROWID_BYTES_MAX: usize = 8;

/// A rowid as a column of a record.
struct RowidContent {
    serial_type: u8,
    /// The content at its beginning.
    content: [u8; ROWID_BYTES_MAX],
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
        // Shifted to the front; by 64 bits where there is no content.
        let shift = 8 * (ROWID_BYTES_MAX - content_bytes) as u32;
        let content = rowid.checked_shl(shift).unwrap_or(0).to_be_bytes();
        Self { serial_type, content, content_bytes }
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
