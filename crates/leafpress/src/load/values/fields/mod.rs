//! Records of text, turned into records of SQLite: the hot loop of a load.
//!
//! Knows a rule and a source for each column of the table, and nothing of blocks, threads or pages.
//! Every rule keeps the promise of the load: the stored value is the one that SQLite would hold
//! after an INSERT of the same text into that column. From the value of a detected type the text
//! can be made again.
//!
//! | file | is |
//! |---|---|
//! | `mod.rs` | the rules, and the record written by them |
//! | `rule.rs` | the rule for a column's fields |
//! | `take.rs` | a field of the input: its bounds, its value |
//! | `columns.rs` | values, prepared a column at a time |
//! | `convert.rs` | fields that do not convert the plainest way |
//! | `timestamp.rs` | dates and times |
//! | `check.rs` | faults of a row, and the rowid |
//!
//! Nearly all inputs are *straight*: their fields are the table's columns, in order. They have a
//! loop of their own, which knows no sources. Work that only few inputs need stays out of it.

mod check;
mod columns;
mod convert;
mod rule;
mod take;
#[cfg(test)]
mod tests;
mod timestamp;

use leafpress_format::{
    COLUMN_OVERHEAD_BYTES_MAX, HEADER_LENGTH_BYTES_MAX, Number, NumberText, PreparedRow,
};

pub use self::check::{IS_NOT_NULL, Misfit, is_not_utf8, is_ragged, not_utf8, of_column};
pub use self::columns::Stripe;
pub use self::convert::{
    Converted, NOT_A_BOOLEAN, NOT_A_HEX_BLOB, NOT_A_TIMESTAMP, bytes_of_hex, shown, truth,
};
pub use self::rule::{FieldAt, FieldRule};
pub use self::take::{RejectsForm, Scratch};
pub use self::timestamp::{DateText, Timestamp};
pub use super::sources::ValueSource;
pub use crate::load::options::TimestampForm;

use self::columns::Way;
use self::convert::convert;
use super::demands::Demands;
use super::sink::RecordSink;
use super::sources::{self, write_constant, write_uuid7};
use crate::input::csv::dialect::Dialect;
use crate::input::csv::scan::RecordSpan;
use crate::load::options::Ragged;
use crate::schema::shape::OwnedValue;
use crate::schema::{ColumnType, RealForms, RealRule, exact_integer, kept_real};

/// Result of writing a record. The hot loop has no room for more: [`RowRules::misfit_of`] finds the
/// fault of a bad row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// The record is complete.
    Whole,
    /// The detected type of a column is wrong.
    Refuted,
    /// The row is bad.
    Bad,
}

/// Stands for the quote where there is none.
const NO_QUOTE: u16 = 256;

/// Rules that turn a record's fields into values.
#[derive(Debug, Clone)]
pub struct RowRules {
    /// Names of the columns, for messages.
    pub names: Vec<String>,
    /// Rule of each column.
    pub rules: Vec<FieldRule>,
    /// Index of the rowid's column.
    pub primary_key: Option<usize>,
    /// Dialect of the input.
    pub dialect: Dialect,
    /// Source of each column.
    sources: Vec<ValueSource>,
    /// Number of fields in the input's records.
    fields: usize,
    null_markers: Vec<Vec<u8>>,
    /// Texts that mean NULL if a field is written so, whatever its value.
    written_null_markers: Vec<Vec<u8>>,
    empty_is_null: bool,
    ragged: Ragged,
    trim: bool,
    demands: Demands,
    /// Form of rejected rows, if they are not written as they stand.
    rejects: Option<RejectsForm>,
    is_straight: bool,
    /// Way to the values of each column.
    ways: Vec<Way>,
    /// The quote; none of the values of a byte if there is no quote.
    quote: u16,
    /// Limit of a record's bytes besides its fields' content.
    overhead_bytes_max: usize,
    /// Largest number of columns with the same field as their source.
    uses_max: usize,
}

impl RowRules {
    /// Rules for columns of a table, each with a name, a rule and a source. No NULL markers, no
    /// trimming; ragged rows are rejected.
    pub fn new(
        names: Vec<String>,
        rules: Vec<FieldRule>,
        sources: Vec<ValueSource>,
        fields: usize,
        primary_key: Option<usize>,
        dialect: Dialect,
    ) -> Self {
        let extra = sources.iter().map(ValueSource::content_bytes_max).sum::<usize>()
            + rules.iter().map(|rule| rule.surplus_bytes_max()).sum::<usize>();
        let mut made = Self {
            names,
            rules,
            primary_key,
            dialect,
            fields,
            null_markers: Vec::new(),
            written_null_markers: Vec::new(),
            empty_is_null: false,
            ragged: Ragged::Reject,
            trim: false,
            demands: Demands::default(),
            rejects: None,
            is_straight: false,
            ways: Vec::new(),
            quote: dialect.quote().map_or(NO_QUOTE, u16::from),
            overhead_bytes_max: 0,
            uses_max: sources::uses_max(&sources),
            sources,
        };
        made.overhead_bytes_max =
            HEADER_LENGTH_BYTES_MAX + made.rules.len() * COLUMN_OVERHEAD_BYTES_MAX + extra;
        made.note_straight();
        made.note_ways();
        made
    }

    /// Rules that only take a record's fields apart, for a header.
    pub fn for_header(fields: usize, dialect: Dialect) -> Self {
        let rules = vec![FieldRule::Text; fields];
        Self::new(Vec::new(), rules, ValueSource::straight(fields), fields, None, dialect)
    }

    /// Texts that mean NULL. If '' is one of them, the empty field means NULL, too. Texts with an
    /// escape byte, and all texts for the text formats of databases, are compared with the field as
    /// it is written: `\N` is NULL there, and `\\N` the text `\N`.
    #[must_use]
    pub fn null_markers(mut self, markers: Vec<Vec<u8>>) -> Self {
        self.empty_is_null |= markers.iter().any(Vec::is_empty);
        let (dialect, escape) = (self.dialect, self.dialect.escape());
        let is_of_text = |marker: &Vec<u8>| {
            dialect.is_database_text() || escape.is_some_and(|escape| marker.contains(&escape))
        };
        (self.written_null_markers, self.null_markers) =
            markers.into_iter().partition(|marker| is_of_text(marker));
        if !self.written_null_markers.is_empty() {
            self.null_markers.push(take::NULL_VALUE.to_vec());
        }
        self.note_ways();
        self
    }

    /// Stores an empty field as NULL in TEXT columns too, if true.
    #[must_use]
    pub fn empty_is_null(mut self, empty_is_null: bool) -> Self {
        self.empty_is_null |= empty_is_null;
        self
    }

    /// Treatment of ragged rows.
    #[must_use]
    pub fn ragged(mut self, ragged: Ragged) -> Self {
        self.ragged = ragged;
        self
    }

    /// Removes spaces and tabs around a field, if true.
    #[must_use]
    pub fn trim(mut self, trim: bool) -> Self {
        self.trim = trim;
        self.note_straight();
        self
    }

    /// Demands of the table on its columns.
    #[must_use]
    pub fn demands(mut self, demands: Demands) -> Self {
        self.demands = demands.for_rowid(self.primary_key);
        self
    }

    /// Form of rejected rows, if they are not written as they stand.
    #[must_use]
    pub fn rejects(mut self, form: Option<RejectsForm>) -> Self {
        self.rejects = form;
        self
    }

    /// Index of the field that is a column's source; `None` for other sources.
    pub fn field_of(&self, column: usize) -> Option<usize> {
        self.sources[column].field()
    }

    /// Returns true if column i is field i, and nothing is trimmed.
    pub fn is_straight(&self) -> bool {
        self.is_straight
    }

    fn note_straight(&mut self) {
        let is_identity = self.sources.len() == self.fields
            && self.rules.len() == self.fields
            && (0..self.fields).all(|column| self.field_of(column) == Some(column));
        self.is_straight = is_identity && !self.trim;
    }

    /// Upper bound for the length of a record made of this row.
    #[inline]
    pub fn record_bytes_max(&self, span: &RecordSpan<'_>) -> usize {
        let row_bytes = span.field_ends.last().map_or(0, |&end| end as usize - span.start);
        self.overhead_bytes_max + row_bytes * self.uses_max
    }

    /// Writes a record's values, last column first; `sequence` is the row's ordinal among
    /// the good rows, from 0. `prepared` are the row's values after
    /// [`prepare`](Self::prepare), where the input is straight.
    ///
    /// Unless the record is complete, throw away what was written.
    ///
    /// `STRAIGHT` is [`is_straight`](Self::is_straight), asked by the caller once for
    /// many rows: with both ways in one loop, the registers do not suffice and a
    /// load takes a tenth longer.
    ///
    /// A load spends its time here. All that takes `record` is inlined, so that
    /// it may be kept in registers; rare work is done by calls without it.
    #[inline(always)]
    pub fn write<const STRAIGHT: bool>(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        (sequence, prepared): (u64, PreparedRow<'_>),
        record: &mut impl RecordSink,
        forms: &mut [RealForms],
        scratch: &mut Scratch,
    ) -> Written {
        if !STRAIGHT {
            return self.write_mapped(bytes, span, sequence, record, forms, scratch);
        }
        if prepared.is_whole() {
            record.prepared_row(bytes, prepared);
            return Written::Whole;
        }
        self.write_in_part(bytes, span, prepared, record, forms, scratch)
    }

    /// Variant of [`write`](Self::write) for straight inputs, for a row of which not all values are
    /// prepared.
    #[inline(always)]
    fn write_in_part(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        prepared: PreparedRow<'_>,
        record: &mut impl RecordSink,
        forms: &mut [RealForms],
        scratch: &mut Scratch,
    ) -> Written {
        let fields = span.field_ends.len().min(self.rules.len());
        for (missing, &rule) in self.rules[fields..].iter().enumerate().rev() {
            // A short row is padded: the missing field is empty.
            let found = FieldAt { source: bytes, start: span.start, end: span.start };
            let written = self.write_empty(fields + missing, rule, found, record);
            if written != Written::Whole {
                return written;
            }
        }
        for (column, forms) in forms[..fields].iter_mut().enumerate().rev() {
            if let Some(value) = prepared.get(column) {
                record.prepared(bytes, value);
                continue;
            }
            let (start, end) = self.bounds(bytes, span, column);
            let Scratch { value, unescaped, number } = &mut *scratch;
            let mut found = FieldAt { source: bytes, start, end };
            if !self.is_plain(bytes, start) {
                found = self.quoted_field_at(bytes, start, end, (value, unescaped));
            }
            let rule = (column, self.rules[column]);
            let written = self.write_field(rule, found, forms, number, record);
            if written != Written::Whole {
                return written;
            }
        }
        Written::Whole
    }

    /// Variant of [`write`](Self::write) for inputs that are not straight.
    #[inline(always)]
    fn write_mapped(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        sequence: u64,
        record: &mut impl RecordSink,
        forms: &mut [RealForms],
        scratch: &mut Scratch,
    ) -> Written {
        let columns = self.rules.iter().zip(&self.sources).zip(forms).enumerate().rev();
        for (column, ((&rule, source), forms)) in columns {
            let written = match source {
                ValueSource::Field(field) => {
                    let Scratch { value, unescaped, number } = &mut *scratch;
                    let found = self.field_at(bytes, span, *field, (value, unescaped));
                    self.write_field((column, rule), found, forms, number, record)
                }
                ValueSource::Constant(value) => {
                    write_constant(rule.is_real(), value, record);
                    match value {
                        OwnedValue::Null if self.demands.refuses_null(column) => Written::Bad,
                        _ => Written::Whole,
                    }
                }
                ValueSource::Uuid7(form) => {
                    write_uuid7(self.demands.uuid7.as_ref(), *form, sequence, record);
                    Written::Whole
                }
            };
            if written != Written::Whole {
                return written;
            }
        }
        Written::Whole
    }

    /// Writes a field by its column's rule.
    #[inline(always)]
    fn write_field(
        &self,
        (column, rule): (usize, FieldRule),
        found: FieldAt<'_>,
        forms: &mut RealForms,
        text: &mut NumberText,
        record: &mut impl RecordSink,
    ) -> Written {
        if found.is_empty() || (!self.null_markers.is_empty() && self.is_null_marker(found)) {
            return self.write_empty(column, rule, found, record);
        }
        let FieldAt { source, start, end } = found;
        let number = match rule {
            FieldRule::Text | FieldRule::Given(ColumnType::Text) | FieldRule::Any => {
                record.text_within(source, start, end);
                return Written::Whole;
            }
            FieldRule::Integer | FieldRule::Given(ColumnType::Integer) | FieldRule::Numeric => {
                exact_integer(source, start, end).map(Number::Integer)
            }
            FieldRule::Real | FieldRule::Given(ColumnType::Real) => {
                let real = kept_real(source, start, end, forms.scale_hint(), RealRule::Value);
                real.map(|real| {
                    forms.add(real);
                    real.stored()
                })
            }
            FieldRule::ExactReal => exact_real(source, start, end, forms),
            FieldRule::Rowid => {
                record.null();
                return Written::Whole;
            }
            FieldRule::Empty
            | FieldRule::GivenReal
            | FieldRule::Given(ColumnType::Blob)
            | FieldRule::Timestamp(_)
            | FieldRule::Boolean => None,
        };
        let number = match number {
            Some(number) => number,
            None => match convert(rule, found, text) {
                Ok(Converted::Number(number)) => number,
                Ok(Converted::AsItIs) => {
                    record.text_within(source, start, end);
                    return Written::Whole;
                }
                Ok(Converted::Text(text)) => {
                    record.text(text.as_bytes());
                    return Written::Whole;
                }
                Ok(Converted::Blob(blob)) => {
                    record.blob(&blob);
                    return Written::Whole;
                }
                Ok(Converted::Refuted) => return Written::Refuted,
                Err(_) => return Written::Bad,
            },
        };
        match number {
            Number::Integer(integer) => record.integer(integer),
            Number::Real(real) => record.real(real),
        }
        Written::Whole
    }

    /// Writes a field that is empty or a null marker as NULL. The empty field of a TEXT column is
    /// '' unless the caller wants NULL there too.
    #[inline(always)]
    fn write_empty(
        &self,
        column: usize,
        rule: FieldRule,
        found: FieldAt<'_>,
        record: &mut impl RecordSink,
    ) -> Written {
        if rule.is_text() && found.is_empty() && !self.empty_is_null {
            record.empty_text();
        } else if self.demands.refuses_null(column) {
            return Written::Bad;
        } else {
            record.null();
        }
        Written::Whole
    }
}

/// Number for a field of a column whose texts could all be made again so far. Few columns have this
/// rule, so it stays out of the hot loop, which has no registers to spare.
#[inline(never)]
fn exact_real(source: &[u8], start: usize, end: usize, forms: &mut RealForms) -> Option<Number> {
    let real = kept_real(source, start, end, forms.scale_hint(), RealRule::Exact)?;
    forms.add_exact(real).then(|| real.stored())
}
