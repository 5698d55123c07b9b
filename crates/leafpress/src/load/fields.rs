//! One record of text to one record of SQLite's: the hot loop of a load.
//!
//! Knows a rule for each column, and nothing of blocks, threads or pages.
//! Every rule keeps the promise of the load: what is stored is what SQLite
//! would hold after an INSERT of the same text into that column, and for a
//! detected type the text can be had back.

use leafpress_format::{
    Affinity, COLUMN_OVERHEAD_BYTES_MAX, HEADER_LENGTH_BYTES_MAX, NumberText, Value,
};

use super::options::Ragged;
use super::sink::{Nowhere, RecordSink};
use crate::input::csv::dialect::Dialect;
use crate::input::csv::field::{field, record_last_field_end};
use crate::input::csv::scan::RecordSpan;
use crate::schema::{ColumnType, HEADROOM_BYTES, RealForms, exact_integer, exact_real};

/// How a column's fields are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldRule {
    /// INTEGER by detection: a field that is no exact integer refutes it.
    Integer,
    /// REAL by detection.
    Real,
    /// TEXT; nothing refutes it.
    Text,
    /// TEXT for want of any value: a value refutes it.
    Empty,
    /// A type by the caller's word: a field that does not fit makes a bad row.
    Given(ColumnType),
    /// The INTEGER PRIMARY KEY, stored as the rowid and NULL in the record.
    Rowid,
}

/// Why a record was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The detected type of a column is wrong.
    Refuted,
    /// The row is bad.
    Bad(Misfit),
}

/// What is wrong with a row: the reason, and where in the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Offset of the field at fault, or of the record.
    pub at: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// All that is needed to turn a record's fields into values.
#[derive(Debug, Clone)]
pub struct RowRules {
    /// The columns' names, for messages.
    pub names: Vec<String>,
    /// A rule for each column.
    pub rules: Vec<FieldRule>,
    /// Index of the rowid's column.
    pub primary_key: Option<usize>,
    /// Texts that mean NULL.
    pub null_markers: Vec<Vec<u8>>,
    /// Whether an empty field is NULL in TEXT columns too.
    pub empty_null: bool,
    /// What becomes of ragged rows.
    pub ragged: Ragged,
    /// How the input is written.
    pub dialect: Dialect,
}

/// Memory that rows share.
#[derive(Debug)]
pub struct Scratch {
    value: Vec<u8>,
    unescaped: Vec<u8>,
    number: NumberText,
}

impl Scratch {
    pub fn new() -> Self {
        Self { value: Vec::new(), unescaped: Vec::new(), number: NumberText::new() }
    }
}

/// A value's bytes: `start..end` of `source`, with headroom in front.
#[derive(Clone, Copy)]
pub struct FieldAt<'a> {
    pub source: &'a [u8],
    pub start: usize,
    pub end: usize,
}

impl<'a> FieldAt<'a> {
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        &self.source[self.start..self.end]
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl RowRules {
    /// Whether the row has the right number of fields, by the caller's rule.
    #[inline]
    pub fn check_shape(&self, span: RecordSpan<'_>) -> Result<(), Misfit> {
        let (found, expected) = (span.field_ends.len(), self.rules.len());
        if found == expected
            || (found < expected && self.ragged == Ragged::Pad)
            || (found > expected && self.ragged == Ragged::Truncate)
        {
            return Ok(());
        }
        let fields = if found == 1 { "field" } else { "fields" };
        let reason = format!("the row has {found} {fields}, the table {expected} columns");
        Err(Misfit { at: span.start, reason })
    }

    /// The bounds of a column's field as it stands in the input.
    #[inline]
    fn bounds(&self, bytes: &[u8], span: RecordSpan<'_>, column: usize) -> (usize, usize) {
        let start = match column {
            0 => span.start,
            _ => span.field_ends[column - 1] as usize + 1,
        };
        let end = span.field_ends[column] as usize;
        if column + 1 == span.field_ends.len() {
            return (start, record_last_field_end(bytes, start, end, self.dialect));
        }
        (start, end)
    }

    /// The value of a column's field, quotes and escapes taken away.
    #[inline]
    pub fn field_at<'a>(
        &self,
        bytes: &'a [u8],
        span: RecordSpan<'_>,
        column: usize,
        scratch: (&'a mut Vec<u8>, &mut Vec<u8>),
    ) -> FieldAt<'a> {
        if column >= span.field_ends.len() {
            // A short row, padded: the missing field is empty.
            return FieldAt { source: bytes, start: span.start, end: span.start };
        }
        let (start, end) = self.bounds(bytes, span, column);
        let plain = self.dialect.escape().is_none()
            && (start == end || Some(bytes[start]) != self.dialect.quote());
        if plain {
            return FieldAt { source: bytes, start, end };
        }
        self.quoted_field_at(bytes, start, end, scratch)
    }

    #[inline(never)]
    fn quoted_field_at<'a>(
        &self,
        bytes: &'a [u8],
        start: usize,
        end: usize,
        (value, unescaped): (&'a mut Vec<u8>, &mut Vec<u8>),
    ) -> FieldAt<'a> {
        let raw = &bytes[start..end];
        if let (None, Some(quote), [_, inner @ .., last]) =
            (self.dialect.escape(), self.dialect.quote(), raw)
            && *last == quote
            && memchr::memchr(quote, inner).is_none()
        {
            return FieldAt { source: bytes, start: start + 1, end: end - 1 };
        }
        value.clear();
        value.resize(HEADROOM_BYTES, 0);
        value.extend_from_slice(field(raw, self.dialect, unescaped));
        FieldAt { source: value, start: HEADROOM_BYTES, end: value.len() }
    }

    #[inline]
    pub fn is_null_marker(&self, value: FieldAt<'_>) -> bool {
        !self.null_markers.is_empty()
            && self.null_markers.iter().any(|marker| marker == value.bytes())
    }

    /// The rowid of a record, if a column says it.
    pub fn rowid(
        &self,
        bytes: &[u8],
        span: RecordSpan<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<i64>, Misfit> {
        let Some(column) = self.primary_key else { return Ok(None) };
        let Scratch { value, unescaped, number } = scratch;
        let found = self.field_at(bytes, span, column, (value, unescaped));
        if let Some(rowid) = exact_integer(found.source, found.start, found.end) {
            return Ok(Some(rowid));
        }
        if found.is_empty() || self.is_null_marker(found) {
            return Err(self.misfit(bytes, span, column, "the primary key is empty".to_owned()));
        }
        match Affinity::Integer.apply(Value::Text(found.bytes()), number) {
            Value::Integer(rowid) => Ok(Some(rowid)),
            _ => Err(self.misfit(bytes, span, column, not_a(found, "INTEGER"))),
        }
    }

    /// Writes a record's values, last column first.
    ///
    /// After a refusal what was written must be thrown away.
    #[inline]
    pub fn write(
        &self,
        bytes: &[u8],
        span: RecordSpan<'_>,
        record: &mut impl RecordSink,
        forms: &mut [RealForms],
        scratch: &mut Scratch,
    ) -> Result<(), Refusal> {
        for (column, &rule) in self.rules.iter().enumerate().rev() {
            let Scratch { value, unescaped, number } = &mut *scratch;
            let found = self.field_at(bytes, span, column, (value, unescaped));
            if found.is_empty() || self.is_null_marker(found) {
                let keeps_empty = matches!(
                    rule,
                    FieldRule::Text | FieldRule::Empty | FieldRule::Given(ColumnType::Text)
                );
                if keeps_empty && found.is_empty() && !self.is_null(found) {
                    record.text(b"");
                } else {
                    record.null();
                }
                continue;
            }
            let fits = match rule {
                FieldRule::Integer => match exact_integer(found.source, found.start, found.end) {
                    Some(integer) => {
                        record.integer(integer);
                        true
                    }
                    None => false,
                },
                FieldRule::Real => match exact_real(found.source, found.start, found.end) {
                    Some(real) => {
                        record.real_column(real.value);
                        forms[column].add(real)
                    }
                    None => false,
                },
                FieldRule::Text => {
                    record.text_within(found.source, found.start, found.end);
                    true
                }
                FieldRule::Empty => false,
                FieldRule::Rowid => {
                    record.null();
                    true
                }
                FieldRule::Given(column_type) => {
                    if let Err(reason) = write_given(column_type, found, record, number) {
                        return Err(Refusal::Bad(self.misfit(bytes, span, column, reason)));
                    }
                    true
                }
            };
            if !fits {
                return Err(Refusal::Refuted);
            }
        }
        Ok(())
    }

    /// Rules that only take a record's fields apart, for a header.
    pub fn for_header(columns: usize, dialect: Dialect) -> Self {
        Self {
            names: Vec::new(),
            rules: vec![FieldRule::Text; columns],
            primary_key: None,
            null_markers: Vec::new(),
            empty_null: false,
            ragged: Ragged::Reject,
            dialect,
        }
    }

    /// A record's values as they are.
    pub fn values(&self, bytes: &[u8], span: RecordSpan<'_>) -> Vec<Vec<u8>> {
        let (mut value, mut unescaped) = (Vec::new(), Vec::new());
        let columns = 0..span.field_ends.len();
        columns
            .map(|column| {
                self.field_at(bytes, span, column, (&mut value, &mut unescaped)).bytes().to_vec()
            })
            .collect()
    }

    /// Whether a row is good, whatever becomes of detected types.
    pub fn check(
        &self,
        bytes: &[u8],
        span: RecordSpan<'_>,
        is_utf8: bool,
        scratch: &mut Scratch,
    ) -> Result<(), Misfit> {
        if !is_utf8 {
            check_utf8(bytes, span)?;
        }
        self.check_shape(span)?;
        self.rowid(bytes, span, scratch)?;
        for column in 0..self.rules.len() {
            let FieldRule::Given(column_type) = self.rules[column] else { continue };
            let Scratch { value, unescaped, number } = &mut *scratch;
            let found = self.field_at(bytes, span, column, (value, unescaped));
            if found.is_empty() || self.is_null_marker(found) {
                continue;
            }
            if let Err(reason) = write_given(column_type, found, &mut Nowhere, number) {
                return Err(self.misfit(bytes, span, column, reason));
            }
        }
        Ok(())
    }

    /// Upper bound for the length of a record made of this row.
    #[inline]
    pub fn record_bytes_max(&self, span: RecordSpan<'_>) -> usize {
        let row_bytes = span.field_ends.last().map_or(0, |&end| end as usize - span.start);
        HEADER_LENGTH_BYTES_MAX + self.rules.len() * COLUMN_OVERHEAD_BYTES_MAX + row_bytes
    }

    /// Whether an empty field or one equal to a marker is NULL in a TEXT column.
    fn is_null(&self, found: FieldAt<'_>) -> bool {
        self.empty_null || self.is_null_marker(found)
    }

    /// A fault of a column's field, with the column's name.
    fn misfit(
        &self,
        bytes: &[u8],
        span: RecordSpan<'_>,
        column: usize,
        reason: impl AsRef<str>,
    ) -> Misfit {
        let at = if column < span.field_ends.len() {
            self.bounds(bytes, span, column).0
        } else {
            span.start
        };
        Misfit { at, reason: format!("column {:?}: {}", self.names[column], reason.as_ref()) }
    }
}

/// Says where a row's bytes are no UTF-8.
pub fn check_utf8(bytes: &[u8], span: RecordSpan<'_>) -> Result<(), Misfit> {
    let end = span.field_ends.last().map_or(span.start, |&end| end as usize);
    let Err(error) = std::str::from_utf8(&bytes[span.start..end]) else { return Ok(()) };
    let at = span.start + error.valid_up_to();
    let reason = format!("invalid UTF-8: byte 0x{:02x}", bytes[at]);
    Err(Misfit { at, reason })
}

/// Stores a field in a column whose type the caller gave: by SQLite's
/// affinity, and only if it ends up in that storage class.
fn write_given(
    column_type: ColumnType,
    found: FieldAt<'_>,
    record: &mut impl RecordSink,
    number: &mut NumberText,
) -> Result<(), String> {
    let FieldAt { source, start, end } = found;
    match column_type {
        ColumnType::Text => record.text_within(source, start, end),
        ColumnType::Integer => {
            if let Some(integer) = exact_integer(source, start, end) {
                record.integer(integer);
                return Ok(());
            }
            match Affinity::Integer.apply(Value::Text(found.bytes()), number) {
                Value::Integer(integer) => record.integer(integer),
                _ => return Err(not_a(found, "INTEGER")),
            }
        }
        ColumnType::Real => {
            if let Some(real) = exact_real(source, start, end) {
                record.real_column(real.value);
                return Ok(());
            }
            match Affinity::Real.apply(Value::Text(found.bytes()), number) {
                Value::Real(real) => record.real_column(real),
                _ => return Err(not_a(found, "REAL")),
            }
        }
        ColumnType::Blob => match hex(found.bytes()) {
            Some(blob) => record.blob(&blob),
            None => return Err(not_a(found, "BLOB in hexadecimal digits")),
        },
    }
    Ok(())
}

fn not_a(found: FieldAt<'_>, what: &str) -> String {
    let article = if what.starts_with('I') { "an" } else { "a" };
    format!("'{}' is not {article} {what}", shown(found.bytes()))
}

/// A value as a message shows it.
pub fn shown(value: &[u8]) -> String {
    crate::input::csv::locate::excerpt(value, 0, value.len(), 60)
}

/// Pairs of hexadecimal digits, with or without `0x` or `\x` in front.
fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"0x").or(text.strip_prefix(b"\\x")).unwrap_or(text);
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if digits.len() % 2 != 0 {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_hexadecimal() {
        assert_eq!(hex(b"00fFA0"), Some(vec![0, 255, 160]));
        assert_eq!(hex(b"0x01"), Some(vec![1]));
        assert_eq!(hex(b"\\x01"), Some(vec![1]));
        assert_eq!(hex(b""), Some(vec![]));
        assert_eq!(hex(b"0"), None);
        assert_eq!(hex(b"0g"), None);
    }
}
