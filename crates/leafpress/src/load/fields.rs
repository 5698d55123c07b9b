//! One record of text to one record of SQLite's: the hot loop of a load.
//!
//! Knows a rule for each column, and nothing of blocks, threads or pages.
//! Every rule keeps the promise of the load: what is stored is what SQLite
//! would hold after an INSERT of the same text into that column, and for a
//! detected type the text can be had back.

use leafpress_format::{
    Affinity, COLUMN_OVERHEAD_BYTES_MAX, HEADER_LENGTH_BYTES_MAX, Number, NumberText, Value,
};

use super::options::Ragged;
use super::sink::RecordSink;
use crate::input::csv::dialect::Dialect;
use crate::input::csv::field::{field, record_last_field_end};
use crate::input::csv::scan::RecordSpan;
use crate::schema::{
    ColumnType, HEADROOM_BYTES, RealForms, exact_integer, exact_real, stored_real,
};

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

/// What became of a record. The hot loop has no room for more: what is wrong
/// with a bad row says [`RowRules::misfit_of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// All of it is there.
    Whole,
    /// The detected type of a column is wrong.
    Refuted,
    /// The row is bad.
    Bad,
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
    /// Whether there are any.
    pub has_null_markers: bool,
    /// Whether an empty field is NULL in TEXT columns too.
    pub empty_is_null: bool,
    /// What becomes of ragged rows.
    pub ragged: Ragged,
    /// How the input is written.
    pub dialect: Dialect,
}

/// Memory that rows share.
#[derive(Debug, Default)]
pub struct Scratch {
    value: Vec<u8>,
    unescaped: Vec<u8>,
    number: NumberText,
}

impl Scratch {
    pub fn new() -> Self {
        Self::default()
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
    #[inline(always)]
    pub fn check_shape(&self, span: &RecordSpan<'_>) -> Result<(), Misfit> {
        let (found, expected) = (span.field_ends.len(), self.rules.len());
        if found == expected
            || (found < expected && self.ragged == Ragged::Pad)
            || (found > expected && self.ragged == Ragged::Truncate)
        {
            return Ok(());
        }
        Err(ragged(span, expected))
    }

    /// The bounds of a column's field as it stands in the input.
    #[inline(always)]
    fn bounds(&self, bytes: &[u8], span: &RecordSpan<'_>, column: usize) -> (usize, usize) {
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

    /// Whether a field's value is its text as it stands.
    ///
    /// The byte at `end` ends the field, so there is one at `start` even if
    /// the field is empty; it is no quote then.
    #[inline(always)]
    fn is_plain(&self, bytes: &[u8], start: usize) -> bool {
        self.dialect.escape().is_none() && Some(bytes[start]) != self.dialect.quote()
    }

    /// The value of a column's field, quotes and escapes taken away.
    #[inline]
    pub fn field_at<'a>(
        &self,
        bytes: &'a [u8],
        span: &RecordSpan<'_>,
        column: usize,
        scratch: (&'a mut Vec<u8>, &mut Vec<u8>),
    ) -> FieldAt<'a> {
        if column >= span.field_ends.len() {
            // A short row, padded: the missing field is empty.
            return FieldAt { source: bytes, start: span.start, end: span.start };
        }
        let (start, end) = self.bounds(bytes, span, column);
        if self.is_plain(bytes, start) {
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
        if self.dialect.escape().is_some() && self.null_markers.iter().any(|m| m == raw) {
            // As in `\N`: the marker itself is written with the escape byte.
            return FieldAt { source: bytes, start, end };
        }
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

    #[inline(never)]
    pub fn is_null_marker(&self, value: FieldAt<'_>) -> bool {
        self.null_markers.iter().any(|marker| marker == value.bytes())
    }

    /// The rowid of a record, if a column says it.
    pub fn rowid(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<i64>, Misfit> {
        let Some(column) = self.primary_key else { return Ok(None) };
        let Scratch { value, unescaped, number, .. } = scratch;
        let found = self.field_at(bytes, span, column, (value, unescaped));
        if let Some(rowid) = exact_integer(found.source, found.start, found.end) {
            return Ok(Some(rowid));
        }
        if found.is_empty() || self.is_null_marker(found) {
            return Err(self.misfit(bytes, span, column, "the primary key is empty"));
        }
        match Affinity::Integer.apply(Value::Text(found.bytes()), number) {
            Value::Integer(rowid) => Ok(Some(rowid)),
            _ => Err(self.misfit(bytes, span, column, not_a(found, "INTEGER"))),
        }
    }

    /// Where the key's field starts, or the record without one.
    pub fn key_start(&self, span: &RecordSpan<'_>) -> usize {
        match self.primary_key {
            Some(column) if column > 0 && column < span.field_ends.len() => {
                span.field_ends[column - 1] as usize + 1
            }
            _ => span.start,
        }
    }

    /// Writes a record's values, last column first.
    ///
    /// Unless the record is whole, what was written must be thrown away.
    ///
    /// A load spends its time here. All that takes `record` is inlined, so
    /// that it may live in registers; what is rare is done by calls that do
    /// not know it.
    #[inline(always)]
    pub fn write(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        record: &mut impl RecordSink,
        forms: &mut [RealForms],
        scratch: &mut Scratch,
    ) -> Written {
        let fields = span.field_ends.len().min(self.rules.len());
        for &rule in self.rules[fields..].iter().rev() {
            // A short row, padded: the missing field is empty.
            let missing = FieldAt { source: bytes, start: span.start, end: span.start };
            self.write_empty(rule, missing, record);
        }
        let Some((&last_end, ends_before)) = span.field_ends[..fields].split_last() else {
            return Written::Whole;
        };
        let mut end = last_end as usize;
        if fields == span.field_ends.len() {
            let start = ends_before.last().map_or(span.start, |&before| before as usize + 1);
            end = record_last_field_end(bytes, start, end, self.dialect);
        }
        let columns = self.rules[..fields].iter().zip(&mut forms[..fields]).enumerate().rev();
        for (column, (&rule, forms)) in columns {
            let start = match column {
                0 => span.start,
                _ => ends_before[column - 1] as usize + 1,
            };
            let Scratch { value, unescaped, number: text } = &mut *scratch;
            let mut found = FieldAt { source: bytes, start, end };
            if !self.is_plain(bytes, start) {
                found = self.quoted_field_at(bytes, start, end, (value, unescaped));
            }
            end = start.wrapping_sub(1);
            if found.is_empty() || (self.has_null_markers && self.is_null_marker(found)) {
                self.write_empty(rule, found, record);
                continue;
            }
            let FieldAt { source, start, end } = found;
            let number = match rule {
                FieldRule::Text | FieldRule::Given(ColumnType::Text) => {
                    record.text_within(source, start, end);
                    continue;
                }
                FieldRule::Integer | FieldRule::Given(ColumnType::Integer) => {
                    exact_integer(source, start, end).map(Number::Integer)
                }
                FieldRule::Real | FieldRule::Given(ColumnType::Real) => {
                    exact_real(source, start, end, forms.scale_hint()).and_then(|real| {
                        let fits = forms.add(real) || rule != FieldRule::Real;
                        fits.then(|| real.stored())
                    })
                }
                FieldRule::Rowid => {
                    record.null();
                    continue;
                }
                FieldRule::Empty | FieldRule::Given(ColumnType::Blob) => None,
            };
            let number = match number {
                Some(number) => number,
                None => match convert(rule, found, text) {
                    Ok(Converted::Number(number)) => number,
                    Ok(Converted::Blob(blob)) => {
                        record.blob(&blob);
                        continue;
                    }
                    Ok(Converted::Refuted) => return Written::Refuted,
                    Err(_) => return Written::Bad,
                },
            };
            match number {
                Number::Integer(integer) => record.integer(integer),
                Number::Real(real) => record.real(real),
            }
        }
        Written::Whole
    }

    /// A field that is empty or a null marker. NULL, but for the empty field
    /// of a TEXT column: that is '' unless the caller wants NULL there too.
    #[inline(always)]
    fn write_empty(&self, rule: FieldRule, found: FieldAt<'_>, record: &mut impl RecordSink) {
        let is_text =
            matches!(rule, FieldRule::Text | FieldRule::Empty | FieldRule::Given(ColumnType::Text));
        if is_text && found.is_empty() && !self.empty_is_null {
            record.empty_text();
        } else {
            record.null();
        }
    }

    /// Rules that only take a record's fields apart, for a header.
    pub fn for_header(columns: usize, dialect: Dialect) -> Self {
        Self {
            names: Vec::new(),
            rules: vec![FieldRule::Text; columns],
            primary_key: None,
            null_markers: Vec::new(),
            has_null_markers: false,
            empty_is_null: false,
            ragged: Ragged::Reject,
            dialect,
        }
    }

    /// A record's values as they are.
    pub fn values(&self, bytes: &[u8], span: &RecordSpan<'_>) -> Vec<Vec<u8>> {
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
        span: &RecordSpan<'_>,
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
            let Scratch { value, unescaped, number, .. } = &mut *scratch;
            let found = self.field_at(bytes, span, column, (value, unescaped));
            if found.is_empty() || self.is_null_marker(found) || column_type == ColumnType::Text {
                continue;
            }
            if let Err(fault) = convert(self.rules[column], found, number) {
                return Err(self.misfit(bytes, span, column, fault));
            }
        }
        Ok(())
    }

    /// What is wrong with a row that is bad: the first of its faults, whichever
    /// column was written first.
    #[cold]
    pub fn misfit_of(&self, bytes: &[u8], span: &RecordSpan<'_>, scratch: &mut Scratch) -> Misfit {
        let unknown = || Misfit { at: span.start, reason: "the row is bad".to_owned() };
        self.check(bytes, span, true, scratch).err().unwrap_or_else(unknown)
    }

    /// Upper bound for the length of a record made of this row.
    #[inline]
    pub fn record_bytes_max(&self, span: &RecordSpan<'_>) -> usize {
        let row_bytes = span.field_ends.last().map_or(0, |&end| end as usize - span.start);
        HEADER_LENGTH_BYTES_MAX + self.rules.len() * COLUMN_OVERHEAD_BYTES_MAX + row_bytes
    }

    /// A fault of a column's field, with the column's name.
    fn misfit(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
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

#[cold]
fn ragged(span: &RecordSpan<'_>, columns: usize) -> Misfit {
    let found = span.field_ends.len();
    let fields = if found == 1 { "field" } else { "fields" };
    Misfit {
        at: span.start,
        reason: format!("the row has {found} {fields}, the table {columns} columns"),
    }
}

/// Says where a row's bytes are no UTF-8.
pub fn check_utf8(bytes: &[u8], span: &RecordSpan<'_>) -> Result<(), Misfit> {
    let end = span.field_ends.last().map_or(span.start, |&end| end as usize);
    let Err(error) = std::str::from_utf8(&bytes[span.start..end]) else { return Ok(()) };
    let at = span.start + error.valid_up_to();
    let reason = format!("invalid UTF-8: byte 0x{:02x}", bytes[at]);
    Err(Misfit { at, reason })
}

/// What a field is stored as where it does not convert the plainest way.
enum Converted {
    Number(Number),
    Blob(Vec<u8>),
    Refuted,
}

/// Converts a field whose type the caller gave by SQLite's affinity, or says
/// why that type cannot be; a detected type is refuted.
#[inline(never)]
fn convert(
    rule: FieldRule,
    found: FieldAt<'_>,
    number: &mut NumberText,
) -> Result<Converted, String> {
    let FieldRule::Given(column_type) = rule else { return Ok(Converted::Refuted) };
    if column_type == ColumnType::Blob {
        let blob = hex(found.bytes()).ok_or_else(|| not_a(found, "BLOB in hexadecimal digits"));
        return blob.map(Converted::Blob);
    }
    let text = Value::Text(found.bytes());
    match (column_type, column_type.affinity().apply(text, number)) {
        (ColumnType::Integer, Value::Integer(integer)) => {
            Ok(Converted::Number(Number::Integer(integer)))
        }
        (ColumnType::Real, Value::Real(real)) => Ok(Converted::Number(stored_real(real))),
        _ => Err(not_a(found, column_type.name())),
    }
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
    if !digits.len().is_multiple_of(2) {
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
