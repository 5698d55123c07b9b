//! Checks of a row: its first fault with the place, and the rowid, the one value needed before the
//! others.

use leafpress_format::{Affinity, Value};

use super::convert::{convert, not_a};
use super::take::NULL_VALUE;
use super::{FieldAt, FieldRule, RowRules, Scratch, ValueSource, shown};
use crate::input::csv::field::field;
use crate::input::csv::scan::RecordSpan;
use crate::load::options::Ragged;
use crate::load::values::demands::KEY_IS_EMPTY;
use crate::schema::shape::OwnedValue;
use crate::schema::{ColumnType, exact_integer};
use crate::words::counted;

/// Fault of a row: the reason, and its place in the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Offset of the field at fault, or of the record.
    pub at: usize,
    /// Reason that the row is bad.
    pub reason: String,
}

impl FieldRule {
    /// Returns true if there are fields that make a bad row.
    fn is_picky(self) -> bool {
        match self {
            Self::Given(column_type) => column_type != ColumnType::Text,
            Self::GivenReal | Self::Timestamp(_) | Self::Boolean => true,
            _ => false,
        }
    }
}

impl RowRules {
    /// Returns true if a column refuses NULL.
    pub fn refuses_null(&self, column: usize) -> bool {
        self.demands.refuses_null(column)
    }

    /// Returns true if each row with another number of fields is bad.
    pub fn ragged_is_bad(&self) -> bool {
        self.ragged == Ragged::Reject
    }

    /// Returns true for a row with another number of fields than there are columns.
    pub fn is_ragged(&self, span: &RecordSpan<'_>) -> bool {
        span.field_ends.len() != self.fields
    }

    /// Checks the number of fields, by the caller's rule.
    #[inline(always)]
    pub fn check_shape(&self, span: &RecordSpan<'_>) -> Result<(), Misfit> {
        let (found, expected) = (span.field_ends.len(), self.fields);
        if found == expected
            || (found < expected && self.ragged == Ragged::Pad)
            || (found > expected && self.ragged == Ragged::Truncate)
        {
            return Ok(());
        }
        Err(self.ragged_row(span))
    }

    #[cold]
    fn ragged_row(&self, span: &RecordSpan<'_>) -> Misfit {
        let (found, expected) = (span.field_ends.len(), self.fields);
        // The table may have other columns besides, or not all columns of the input.
        let whose = if self.rules.len() == expected { "the table" } else { "the input" };
        let fields = counted(found as u64, "field", "fields");
        let columns = counted(expected as u64, "column", "columns");
        Misfit { at: span.start, reason: format!("{RAGGED}{fields}, but {whose} has {columns}") }
    }

    /// Rowid of a record, if a column holds it.
    pub fn rowid(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<i64>, Misfit> {
        let Some(column) = self.primary_key else { return Ok(None) };
        let field = match &self.sources[column] {
            ValueSource::Field(field) => *field,
            ValueSource::Constant(OwnedValue::Integer(rowid)) => return Ok(Some(*rowid)),
            _ => return Err(self.misfit(span, column, KEY_IS_EMPTY)),
        };
        let Scratch { value, unescaped, number, .. } = scratch;
        let found = self.field_at(bytes, span, field, (value, unescaped));
        if found.is_empty() || self.is_null_marker(found) {
            return Err(self.misfit(span, column, KEY_IS_EMPTY));
        }
        if let Some(rowid) = exact_integer(found.source, found.start, found.end) {
            return Ok(Some(rowid));
        }
        if self.demands.key_is_detected {
            // A code such as 007 is a text, and the type was found for the values before it.
            return Err(self.misfit(span, column, not_a(found, "INTEGER")));
        }
        match Affinity::Integer.apply(Value::Text(found.bytes()), number) {
            Value::Integer(rowid) => Ok(Some(rowid)),
            _ => Err(self.misfit(span, column, not_a(found, "INTEGER"))),
        }
    }

    /// Returns true if a record without a rowid refutes the type that was found for the key: its
    /// value is no integer. It is a bad row if it has none.
    #[cold]
    pub fn refutes_key(&self, bytes: &[u8], span: &RecordSpan<'_>, scratch: &mut Scratch) -> bool {
        let Some(field) = self.primary_key.and_then(|column| self.field_of(column)) else {
            return false;
        };
        let Scratch { value, unescaped, .. } = scratch;
        let found = self.field_at(bytes, span, field, (value, unescaped));
        self.demands.key_is_detected && !found.is_empty() && !self.is_null_marker(found)
    }

    /// Offset of a column's field, or of the record if there is no such field.
    pub fn column_start(&self, span: &RecordSpan<'_>, column: usize) -> usize {
        self.field_of(column).map_or(span.start, |field| Self::start_of(span, field))
    }

    /// Checks a row by the demands that do not depend on detected types.
    pub fn check(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        is_utf8: bool,
        scratch: &mut Scratch,
    ) -> Result<(), Misfit> {
        if !is_utf8 {
            self.check_text(bytes, span)?;
        }
        self.check_shape(span)?;
        if let Err(misfit) = self.rowid(bytes, span, scratch)
            && !self.refutes_key(bytes, span, scratch)
        {
            return Err(misfit);
        }
        for column in 0..self.rules.len() {
            let rule = self.rules[column];
            if rule.is_picky() || self.demands.refuses_null(column) {
                self.check_column((bytes, span), column, rule, scratch)
                    .map_err(|fault| self.misfit(span, column, fault))?;
            }
        }
        Ok(())
    }

    /// Checks a column's value.
    fn check_column(
        &self,
        (bytes, span): (&[u8], &RecordSpan<'_>),
        column: usize,
        rule: FieldRule,
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        let field = match &self.sources[column] {
            ValueSource::Field(field) => *field,
            ValueSource::Constant(OwnedValue::Null) if self.demands.refuses_null(column) => {
                return Err(format!("{IS_NOT_NULL}nothing gives it a value"));
            }
            _ => return Ok(()),
        };
        let Scratch { value, unescaped, number, .. } = scratch;
        let found = self.field_at(bytes, span, field, (value, unescaped));
        if found.is_empty() || self.is_null_marker(found) {
            let is_null = !(rule.is_text() && found.is_empty() && !self.empty_is_null);
            if is_null && self.demands.refuses_null(column) {
                let is_key = self.demands.is_key(column);
                return Err(null_refused(found, field >= span.field_ends.len(), is_key));
            }
            return Ok(());
        }
        if rule.is_picky() {
            convert(rule, found, number)?;
        }
        Ok(())
    }

    /// The first fault of a bad row, in the order of its fields.
    #[cold]
    pub fn misfit_of(&self, bytes: &[u8], span: &RecordSpan<'_>, scratch: &mut Scratch) -> Misfit {
        let unknown = || Misfit { at: span.start, reason: "the row is bad".to_owned() };
        self.check(bytes, span, true, scratch).err().unwrap_or_else(unknown)
    }

    /// A fault of a column's field, with the column's name.
    fn misfit(&self, span: &RecordSpan<'_>, column: usize, reason: impl AsRef<str>) -> Misfit {
        let reason = of_column(&self.names[column], reason.as_ref());
        Misfit { at: self.column_start(span, column), reason }
    }
}

/// Beginning of a fault whose subject is the column.
pub const IS_NOT_NULL: &str = "is NOT NULL, and ";
/// Beginning of the reason of a row with another number of fields.
const RAGGED: &str = "the row has ";
/// Beginning of the reason of a row that is not UTF-8.
const NOT_UTF8: &str = "invalid UTF-8: ";
/// Reason of a row of JSON that is not UTF-8.
const NOT_UTF8_IN_JSON: &str = "this is not UTF-8";

/// Returns true if a row is bad for its number of fields.
pub fn is_ragged(reason: &str) -> bool {
    reason.starts_with(RAGGED)
}

/// Fault of a text with this byte, which no UTF-8 has there.
pub fn not_utf8(byte: u8) -> String {
    format!("{NOT_UTF8}byte 0x{byte:02x}")
}

/// Returns true if a row is bad for its encoding.
pub fn is_not_utf8(reason: &str) -> bool {
    reason.starts_with(NOT_UTF8) || reason.starts_with(NOT_UTF8_IN_JSON)
}

fn null_refused(found: FieldAt<'_>, is_missing: bool, is_key: bool) -> String {
    if is_key {
        return KEY_IS_EMPTY.to_owned();
    }
    let what = match found.is_empty() {
        true if is_missing => "the field is missing".to_owned(),
        true => "the field is empty".to_owned(),
        false if found.bytes() == NULL_VALUE => "the field stands for NULL".to_owned(),
        false => format!("'{}' stands for NULL", shown(found.bytes())),
    };
    format!("{IS_NOT_NULL}{what}")
}

/// A fault of a value, with the name of its column.
pub fn of_column(name: &str, fault: &str) -> String {
    if fault.starts_with(IS_NOT_NULL) {
        format!("the column {name:?} {fault}")
    } else {
        format!("column {name:?}: {fault}")
    }
}

impl RowRules {
    /// Returns true if all values in a block's data are certainly UTF-8, so that
    /// [`check_text`](Self::check_text) is not needed.
    pub fn is_text(&self, data: &[u8]) -> bool {
        simdutf8::basic::from_utf8(data).is_ok()
            && !(self.dialect.escapes_make_bytes() && has_byte_escape(data))
    }

    /// Checks that a row's bytes, and those that its escapes make, are UTF-8; the fault has the
    /// place.
    pub fn check_text(&self, bytes: &[u8], span: &RecordSpan<'_>) -> Result<(), Misfit> {
        let end = span.field_ends.last().map_or(span.start, |&end| end as usize);
        if let Err(error) = std::str::from_utf8(&bytes[span.start..end]) {
            let at = span.start + error.valid_up_to();
            let reason = not_utf8(bytes[at]);
            return Err(Misfit { at, reason });
        }
        if !self.dialect.escapes_make_bytes() {
            return Ok(());
        }
        let mut unescaped = Vec::new();
        for number in 0..span.field_ends.len() {
            let (start, end) = self.bounds(bytes, span, number);
            let value = field(&bytes[start..end], self.dialect, &mut unescaped);
            if let Err(error) = std::str::from_utf8(value) {
                let byte = value[error.valid_up_to()];
                let reason =
                    format!("an escape in this field makes byte 0x{byte:02x}, and no UTF-8");
                return Err(Misfit { at: start, reason });
            }
        }
        Ok(())
    }
}

/// Returns true if there may be an escape that gives a byte by its number.
fn has_byte_escape(data: &[u8]) -> bool {
    memchr::memchr_iter(b'\\', data).any(|at| matches!(data.get(at + 1), Some(b'0'..=b'7' | b'x')))
}
