//! One record of text to one record of SQLite's: the hot loop of a load.
//!
//! Knows a rule and a source for each column of the table, and nothing of
//! blocks, threads or pages. Every rule keeps the promise of the load: what is
//! stored is what SQLite would hold after an INSERT of the same text into that
//! column, and for a detected type the text can be had back.
//!
//! | file | is |
//! |---|---|
//! | `mod.rs` | the rules, and the record written by them |
//! | `rule.rs` | the rule for a column's fields |
//! | `take.rs` | a field of the input: its bounds, its value |
//! | `convert.rs` | fields that do not convert the plainest way |
//! | `timestamp.rs` | dates and times |
//! | `check.rs` | what is wrong with a row, and the rowid |
//!
//! Nearly all inputs are *straight*: field by field what the table has column
//! by column. They have a loop of their own, which knows no sources; and
//! whatever else only few inputs need stays out of it.

mod check;
mod convert;
mod rule;
mod take;
#[cfg(test)]
mod tests;
mod timestamp;

use leafpress_format::{COLUMN_OVERHEAD_BYTES_MAX, HEADER_LENGTH_BYTES_MAX, Number, NumberText};

pub use self::check::{IS_NOT_NULL, Misfit, is_not_utf8, is_ragged, of_column};
pub use self::convert::{
    Converted, NOT_A_BOOLEAN, NOT_A_HEX_BLOB, NOT_A_TIMESTAMP, hex, shown, truth,
};
pub use self::rule::{FieldAt, FieldRule};
pub use self::take::{RejectsForm, Scratch};
pub use self::timestamp::{DateText, Timestamp};
pub use super::sources::ValueSource;
pub use crate::load::options::TimestampForm;

use self::convert::convert;
use super::demands::Demands;
use super::sink::RecordSink;
use super::sources::{self, write_constant, write_uuid7};
use crate::input::csv::dialect::Dialect;
use crate::input::csv::field::record_last_field_end;
use crate::input::csv::scan::RecordSpan;
use crate::load::options::Ragged;
use crate::schema::shape::OwnedValue;
use crate::schema::{ColumnType, RealForms, RealRule, exact_integer, kept_real};

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

/// All that is needed to turn a record's fields into values.
#[derive(Debug, Clone)]
pub struct RowRules {
    /// The columns' names, for messages.
    pub names: Vec<String>,
    /// A rule for each column.
    pub rules: Vec<FieldRule>,
    /// Index of the rowid's column.
    pub primary_key: Option<usize>,
    /// How the input is written.
    pub dialect: Dialect,
    /// Where each column comes from.
    sources: Vec<ValueSource>,
    /// How many fields the input's records have.
    fields: usize,
    null_markers: Vec<Vec<u8>>,
    /// Texts that mean NULL where a field is so written, whatever its value.
    written_null_markers: Vec<Vec<u8>>,
    empty_is_null: bool,
    ragged: Ragged,
    trim: bool,
    demands: Demands,
    /// How rejected rows are written, if not as they stand.
    rejects: Option<RejectsForm>,
    is_straight: bool,
    /// What a record may take besides its fields' content.
    overhead_bytes_max: usize,
    /// How often a field may be in a record.
    uses_max: usize,
}

impl RowRules {
    /// Rules for columns of a table, of which each has a name, a rule and a
    /// source. No NULL markers, nothing trimmed, ragged rows rejected.
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
            overhead_bytes_max: 0,
            uses_max: sources::uses_max(&sources),
            sources,
        };
        made.overhead_bytes_max =
            HEADER_LENGTH_BYTES_MAX + made.rules.len() * COLUMN_OVERHEAD_BYTES_MAX + extra;
        made.note_straight();
        made
    }

    /// Rules that only take a record's fields apart, for a header.
    pub fn for_header(fields: usize, dialect: Dialect) -> Self {
        let rules = vec![FieldRule::Text; fields];
        Self::new(Vec::new(), rules, ValueSource::straight(fields), fields, None, dialect)
    }

    /// Texts that mean NULL. If '' is one of them, so does the empty field. Those with an escape
    /// byte in them, and all in the text formats of databases, are compared with the field as it
    /// is written: `\N` is NULL there, and `\\N` the text `\N`.
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
        self
    }

    /// Whether an empty field is NULL in TEXT columns too.
    #[must_use]
    pub fn empty_is_null(mut self, empty_is_null: bool) -> Self {
        self.empty_is_null |= empty_is_null;
        self
    }

    /// What becomes of ragged rows.
    #[must_use]
    pub fn ragged(mut self, ragged: Ragged) -> Self {
        self.ragged = ragged;
        self
    }

    /// Whether spaces and tabs around a field are no part of it.
    #[must_use]
    pub fn trim(mut self, trim: bool) -> Self {
        self.trim = trim;
        self.note_straight();
        self
    }

    /// What the table asks of its columns.
    #[must_use]
    pub fn demands(mut self, demands: Demands) -> Self {
        self.demands = demands.for_rowid(self.primary_key);
        self
    }

    /// How rejected rows are written, if not as they stand.
    #[must_use]
    pub fn rejects(mut self, form: Option<RejectsForm>) -> Self {
        self.rejects = form;
        self
    }

    /// The field that a column comes from; `None` if it comes from elsewhere.
    pub fn field_of(&self, column: usize) -> Option<usize> {
        self.sources[column].field()
    }

    /// Whether column i is field i, and nothing is trimmed.
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

    /// Writes a record's values, last column first; the row is the
    /// `sequence`th good one, from 0.
    ///
    /// Unless the record is whole, what was written must be thrown away.
    ///
    /// `STRAIGHT` is [`is_straight`](Self::is_straight). It is asked once for
    /// many rows, and not here: with both ways in one loop, the registers do
    /// not suffice and a load takes a tenth longer.
    ///
    /// A load spends its time here. All that takes `record` is inlined, so
    /// that it may live in registers; what is rare is done by calls that do
    /// not know it.
    #[inline(always)]
    pub fn write<const STRAIGHT: bool>(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        sequence: u64,
        record: &mut impl RecordSink,
        forms: &mut [RealForms],
        scratch: &mut Scratch,
    ) -> Written {
        if !STRAIGHT {
            return self.write_mapped(bytes, span, sequence, record, forms, scratch);
        }
        let fields = span.field_ends.len().min(self.rules.len());
        for (missing, &rule) in self.rules[fields..].iter().enumerate().rev() {
            // A short row, padded: the missing field is empty.
            let found = FieldAt { source: bytes, start: span.start, end: span.start };
            let written = self.write_empty(fields + missing, rule, found, record);
            if written != Written::Whole {
                return written;
            }
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
            let Scratch { value, unescaped, number } = &mut *scratch;
            let mut found = FieldAt { source: bytes, start, end };
            if !self.is_plain(bytes, start) {
                found = self.quoted_field_at(bytes, start, end, (value, unescaped));
            }
            end = start.wrapping_sub(1);
            let written = self.write_field((column, rule), found, forms, number, record);
            if written != Written::Whole {
                return written;
            }
        }
        Written::Whole
    }

    /// [`write`](Self::write) where columns are not simply the fields.
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

    /// A field that is empty or a null marker. NULL, but for the empty field
    /// of a TEXT column: that is '' unless the caller wants NULL there too.
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

/// A value of a column whose texts can be had back so far. Few columns have this rule:
/// it stays out of the hot loop, which has no registers to spare.
#[inline(never)]
fn exact_real(source: &[u8], start: usize, end: usize, forms: &mut RealForms) -> Option<Number> {
    let real = kept_real(source, start, end, forms.scale_hint(), RealRule::Exact)?;
    forms.add_exact(real).then(|| real.stored())
}
