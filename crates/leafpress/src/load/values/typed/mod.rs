//! Rows of typed values (JSON, Arrow, Parquet, other databases, iterators), turned into records of
//! SQLite.
//!
//! Knows a rule and a source for each column of the table, and not the origin of the rows. The
//! stored value is the one that SQLite would hold after an INSERT of the same value into that
//! column, with one addition: a number that becomes text keeps the spelling of the input, if there
//! is one.
//!
//! `fields` is the counterpart for inputs of text.

mod evidence;
mod stripe;
#[cfg(test)]
mod tests;

use leafpress_format::number::integral;
use leafpress_format::{
    Affinity, COLUMN_OVERHEAD_BYTES_MAX, HEADER_LENGTH_BYTES_MAX, Number, NumberText, Value,
};

pub use self::evidence::TypedEvidence;
pub use self::stripe::TypedStripe;

use super::demands::{Demands, KEY_IS_EMPTY};
use super::fields::{
    Converted, DateText, IS_NOT_NULL, NOT_A_BOOLEAN, NOT_A_HEX_BLOB, NOT_A_TIMESTAMP, Timestamp,
    TimestampForm, bytes_of_hex, not_utf8, of_column, shown, truth,
};
use super::sink::RecordSink;
use super::sources::{ValueSource, uses_max, write_constant, write_uuid7};
use crate::hex::hex_digits;
use crate::input::rows::{RowBatch, SourceType};
use crate::schema::shape::OwnedValue;
use crate::schema::{ColumnType, Witness, stored_real};

/// Way in which a column's values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeRule {
    /// Detected INTEGER: a value that is no integer refutes it.
    Integer,
    /// Detected REAL: reals, and integers that a double holds exactly.
    Real,
    /// Detected NUMERIC: numbers of both kinds.
    Number,
    /// Detected TEXT: text, and numbers as text; a blob refutes it.
    Text,
    /// Detected BLOB: a value that is no blob refutes it.
    Blob,
    /// TEXT for a column without any value so far: a value refutes it.
    Empty,
    /// REAL for a column whose only values are NaN so far, which SQLite stores as NULL: any other
    /// value refutes it.
    EmptyReal,
    /// Type given by the caller: a value that does not become that type by its affinity makes a bad
    /// row.
    Given(ColumnType),
    /// REAL by the caller's choice, in a column that holds any type: 1.0 must not be written as 1,
    /// as in a REAL column.
    GivenReal,
    /// Any value, stored as the affinity makes it.
    Affinity(Affinity),
    /// BLOB by the caller's choice, for inputs without blobs: text is read as hexadecimal digits,
    /// also that of a number if `of_numbers`; any other value makes a bad row.
    Hex { of_numbers: bool },
    /// Date and time by the caller's choice; another text, or no text, makes a bad row.
    Timestamp(TimestampForm),
    /// 1 and 0 by the caller's choice, also for words that mean true and false; another value makes
    /// a bad row.
    Boolean,
    /// The INTEGER PRIMARY KEY, stored as the rowid and NULL in the record.
    Rowid,
}

impl TypeRule {
    /// The rule for a column whose source declares the type of its values.
    pub fn for_source(source_type: SourceType) -> Self {
        match source_type {
            SourceType::Integer => Self::Integer,
            SourceType::Real => Self::Real,
            SourceType::Text => Self::Text,
            SourceType::Blob => Self::Blob,
        }
    }

    fn is_real(self) -> bool {
        matches!(self, Self::Real | Self::Given(ColumnType::Real) | Self::Affinity(Affinity::Real))
    }

    /// The class of values that are stored as they are; nearly all values are in it.
    fn direct(self) -> Direct {
        match self {
            Self::Integer
            | Self::Number
            | Self::Given(ColumnType::Integer)
            | Self::Affinity(Affinity::Integer | Affinity::Numeric) => Direct::Integer,
            Self::Real | Self::Given(ColumnType::Real) | Self::Affinity(Affinity::Real) => {
                Direct::Real
            }
            Self::Text | Self::Given(ColumnType::Text) | Self::Affinity(Affinity::Text) => {
                Direct::Text
            }
            Self::Affinity(Affinity::Blob) => Direct::Content,
            Self::Blob | Self::Given(ColumnType::Blob) | Self::Hex { .. } => Direct::Blob,
            Self::Rowid => Direct::Rowid,
            Self::Empty => Direct::EmptyText,
            Self::EmptyReal | Self::GivenReal | Self::Timestamp(_) | Self::Boolean => {
                Direct::Nothing
            }
        }
    }

    /// Returns true if there are values that make a bad row.
    fn is_picky(self) -> bool {
        matches!(
            self,
            Self::Given(_)
                | Self::GivenReal
                | Self::Hex { .. }
                | Self::Timestamp(_)
                | Self::Boolean
        )
    }

    /// Limit of a record's bytes that the input's content does not account for.
    fn surplus_bytes_max(self) -> usize {
        match self {
            Self::Text | Self::Given(ColumnType::Text) | Self::Affinity(Affinity::Text) => {
                NUMBER_TEXT_BYTES_MAX
            }
            Self::Timestamp(form) => form.content_bytes_max(),
            _ => 0,
        }
    }
}

/// Class of values that are stored without a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direct {
    Integer,
    Real,
    Text,
    /// The empty text.
    EmptyText,
    Blob,
    /// Text and blobs.
    Content,
    Rowid,
    Nothing,
}

/// Result of writing a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TypedWritten {
    /// The record is complete.
    Whole,
    /// The detected type of a column is wrong.
    Refuted,
    /// The row is bad: the value of this column does not fit. If there are several such columns, it
    /// is the last one. [`TypedRules::check`] has the fault.
    Bad(usize),
}

/// Rules that turn a row's values into a record.
#[derive(Debug, Clone)]
pub struct TypedRules {
    /// Names of the columns, for messages.
    pub names: Vec<String>,
    /// Index of the rowid's column.
    pub rowid_column: Option<usize>,
    rules: Vec<TypeRule>,
    direct: Vec<Direct>,
    sources: Vec<ValueSource>,
    demands: Demands,
    /// Limit of a record's bytes besides the content of the input's values.
    overhead_bytes_max: usize,
    /// Largest number of columns with the same value of the input as their source.
    uses_max: usize,
}

/// Length of the longest number as text: `-2.2250738585072014e-308`.
const NUMBER_TEXT_BYTES_MAX: usize = 24;

impl TypedRules {
    /// Rules for columns of a table, each with a name, a rule and a source.
    pub fn new(
        names: Vec<String>,
        rules: Vec<TypeRule>,
        sources: Vec<ValueSource>,
        rowid_column: Option<usize>,
    ) -> Self {
        let mut made = Self {
            names,
            rowid_column,
            rules: Vec::new(),
            direct: Vec::new(),
            demands: Demands::default(),
            overhead_bytes_max: 0,
            uses_max: uses_max(&sources),
            sources,
        };
        made.set_rules(rules);
        made
    }

    /// Demands of the table on its columns.
    #[must_use]
    pub fn demands(mut self, demands: Demands) -> Self {
        self.demands = demands.for_rowid(self.rowid_column);
        self
    }

    /// The columns' rules.
    pub fn rules(&self) -> &[TypeRule] {
        &self.rules
    }

    /// Sets other rules for the same columns, when better types are known.
    pub fn set_rules(&mut self, rules: Vec<TypeRule>) {
        let made = self.sources.iter().map(ValueSource::content_bytes_max).sum::<usize>();
        let surplus = rules.iter().map(|rule| rule.surplus_bytes_max()).sum::<usize>();
        let columns = rules.len() * COLUMN_OVERHEAD_BYTES_MAX;
        self.overhead_bytes_max = HEADER_LENGTH_BYTES_MAX + columns + made + surplus;
        self.direct = rules.iter().map(|rule| rule.direct()).collect();
        self.rules = rules;
    }

    /// Index of the input's column that is a column's source; `None` for other sources.
    pub fn field_of(&self, column: usize) -> Option<usize> {
        self.sources[column].field()
    }

    /// Upper bound for the length of a record made of this row.
    #[inline]
    pub fn record_bytes_max<B: RowBatch>(&self, batch: &B, row: usize) -> usize {
        self.bytes_max(batch.content_bytes(row))
    }

    /// Upper bound for the length of a record with this many bytes of text and blobs.
    #[inline(always)]
    pub fn bytes_max(&self, content_bytes: usize) -> usize {
        self.overhead_bytes_max + content_bytes * self.uses_max
    }

    /// Writes a row's values, last column first; `sequence` is the row's ordinal among the good
    /// rows, from 0. Unless the record is complete, throw away what was written.
    #[inline(always)]
    pub fn write<B: RowBatch>(
        &self,
        batch: &B,
        row: usize,
        sequence: u64,
        record: &mut impl RecordSink,
        number: &mut NumberText,
    ) -> TypedWritten {
        for (column, source) in self.sources.iter().enumerate().rev() {
            let written = match source {
                ValueSource::Field(field) => {
                    if matches!(self.direct[column], Direct::Text | Direct::Content)
                        && let Some((source, text)) = batch.text_within(row, *field)
                    {
                        record.text_within(source, text.start, text.end);
                        continue;
                    }
                    let value = batch.value(row, *field);
                    self.write_value(column, value, || batch.text(row, *field), record, number)
                }
                ValueSource::Constant(OwnedValue::Null) if self.demands.refuses_null(column) => {
                    TypedWritten::Bad(column)
                }
                ValueSource::Constant(value) => {
                    write_constant(self.rules[column].is_real(), value, record);
                    TypedWritten::Whole
                }
                ValueSource::Uuid7(form) => {
                    write_uuid7(self.demands.uuid7.as_ref(), *form, sequence, record);
                    TypedWritten::Whole
                }
            };
            if written != TypedWritten::Whole {
                return written;
            }
        }
        TypedWritten::Whole
    }

    /// Writes the value of one column; `text` returns the input's spelling.
    #[inline(always)]
    pub fn write_value<'v>(
        &self,
        column: usize,
        value: Value<'v>,
        text: impl FnOnce() -> Option<&'v [u8]>,
        record: &mut impl RecordSink,
        number: &'v mut NumberText,
    ) -> TypedWritten {
        match (self.direct[column], value) {
            (Direct::Integer, Value::Integer(integer)) => record.integer(integer),
            (Direct::Real, Value::Real(real)) if !real.is_nan() => write_real(real, record),
            (Direct::Text | Direct::Content, Value::Text(text)) => record.text(text),
            (Direct::Blob | Direct::Content, Value::Blob(blob)) => record.blob(blob),
            (Direct::Rowid, _) => record.null(),
            // An empty field of CSV is '' among texts.
            (Direct::Text | Direct::EmptyText, Value::Null) => match text() {
                Some(text) => record.text(text),
                None if self.demands.refuses_null(column) => return TypedWritten::Bad(column),
                None => record.null(),
            },
            (_, Value::Null) if !self.demands.refuses_null(column) => record.null(),
            (_, value) => {
                // Without the record as an argument, so that it may be kept in registers.
                let spelled = || text().map(Value::Text);
                match convert(self.rules[column], value, spelled, number) {
                    Stored::Value(Value::Null) if self.demands.refuses_null(column) => {
                        return TypedWritten::Bad(column);
                    }
                    Stored::Value(Value::Null) => record.null(),
                    Stored::Value(Value::Integer(integer)) => record.integer(integer),
                    Stored::Value(Value::Real(real)) => record.real(real),
                    Stored::Value(Value::Text(text)) => record.text(text),
                    Stored::Value(Value::Blob(blob)) => record.blob(blob),
                    Stored::RealColumn(real) => write_real(real, record),
                    Stored::Date(text) => record.text(text.as_bytes()),
                    Stored::Bytes(bytes) => record.blob(&bytes),
                    Stored::Refuted => return TypedWritten::Refuted,
                    Stored::Misfit => return TypedWritten::Bad(column),
                }
            }
        }
        TypedWritten::Whole
    }

    /// Rowid of a row, if a column holds it; or the fault for which it has none.
    pub fn rowid<B: RowBatch>(&self, batch: &B, row: usize) -> Result<Option<i64>, String> {
        let Some(column) = self.rowid_column else { return Ok(None) };
        match &self.sources[column] {
            ValueSource::Field(field) => self.rowid_of(column, batch.value(row, *field)).map(Some),
            ValueSource::Constant(OwnedValue::Integer(rowid)) => Ok(Some(*rowid)),
            _ => Err(self.fault(column, KEY_IS_EMPTY)),
        }
    }

    /// Returns true if a row without a rowid refutes the type that was found for the key: its value
    /// is no integer. It is a bad row if it has none.
    #[cold]
    pub fn refutes_key<B: RowBatch>(&self, batch: &B, row: usize) -> bool {
        let field = self.rowid_column.and_then(|column| self.field_of(column));
        self.demands.key_is_detected
            && field.is_some_and(|field| batch.value(row, field) != Value::Null)
    }

    /// Rowid of a value.
    #[inline]
    pub fn rowid_of(&self, column: usize, value: Value<'_>) -> Result<i64, String> {
        match value {
            Value::Integer(rowid) => Ok(rowid),
            Value::Null => Err(self.fault(column, KEY_IS_EMPTY)),
            // A code such as 007 is a text, and the type was found for the values before it.
            value if self.demands.key_is_detected => {
                Err(self.fault(column, &not_a(value, ColumnType::Integer.name())))
            }
            value => match Affinity::Integer.apply(value, &mut NumberText::new()) {
                Value::Integer(rowid) => Ok(rowid),
                _ => Err(self.fault(column, &not_a(value, ColumnType::Integer.name()))),
            },
        }
    }

    /// Checks a row by the demands that do not depend on detected types; returns its first fault,
    /// in the order of the columns.
    pub fn check<B: RowBatch>(&self, batch: &B, row: usize) -> Result<(), String> {
        if let Err(reason) = self.rowid(batch, row)
            && !self.refutes_key(batch, row)
        {
            return Err(reason);
        }
        for column in 0..self.rules.len() {
            let rule = self.rules[column];
            if !self.demands.refuses_null(column) && !rule.is_picky() {
                continue;
            }
            match &self.sources[column] {
                ValueSource::Field(field) => {
                    let text = batch.text(row, *field).map(Value::Text);
                    self.check_value(column, batch.value(row, *field), text)?;
                }
                ValueSource::Constant(OwnedValue::Null) if self.demands.refuses_null(column) => {
                    return Err(self.null_refused(column, "nothing gives it a value"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Fault of a value of a column that a program made, if there is one.
    pub fn fault_of(&self, column: usize, value: Value<'_>) -> Option<String> {
        if let Value::Text(text) = value
            && let Err(error) = std::str::from_utf8(text)
        {
            return Some(self.fault(column, &not_utf8(text[error.valid_up_to()])));
        }
        self.check_value(column, value, None).err()
    }

    /// Checks a value; `text` is the input's spelling.
    fn check_value(
        &self,
        column: usize,
        value: Value<'_>,
        text: Option<Value<'_>>,
    ) -> Result<(), String> {
        let rule = self.rules[column];
        let value = match value {
            Value::Null if matches!(self.direct[column], Direct::Text | Direct::EmptyText) => {
                text.unwrap_or(value)
            }
            value => value,
        };
        let is_null = match value {
            Value::Null => true,
            Value::Real(real) => real.is_nan(),
            _ => false,
        };
        if is_null && self.demands.refuses_null(column) {
            let what =
                if value == Value::Null { "the value is NULL" } else { "NaN stands for NULL" };
            return Err(self.null_refused(column, what));
        }
        if !matches!(convert(rule, value, || text, &mut NumberText::new()), Stored::Misfit) {
            return Ok(());
        }
        let wanted = match rule {
            TypeRule::Given(column_type) => column_type.name(),
            TypeRule::GivenReal => ColumnType::Real.name(),
            TypeRule::Timestamp(_) => NOT_A_TIMESTAMP,
            TypeRule::Boolean => NOT_A_BOOLEAN,
            _ => NOT_A_HEX_BLOB,
        };
        Err(self.fault(column, &not_a(value, wanted)))
    }

    fn null_refused(&self, column: usize, what: &str) -> String {
        if self.demands.is_key(column) {
            return self.fault(column, KEY_IS_EMPTY);
        }
        self.fault(column, &format!("{IS_NOT_NULL}{what}"))
    }

    fn fault(&self, column: usize, reason: &str) -> String {
        of_column(&self.names[column], reason)
    }

    /// Adds a row's evidence for the columns whose type is open ([`TypeRule::Empty`]); one evidence
    /// a column.
    pub fn observe<B: RowBatch>(
        &self,
        (input, batch, row): (usize, &B, usize),
        evidence: &mut [TypedEvidence],
    ) {
        for (column, evidence) in evidence.iter_mut().enumerate() {
            if let (TypeRule::Empty, Some(field)) = (self.rules[column], self.field_of(column)) {
                let value = batch.value(row, field);
                let witness = || Witness {
                    input,
                    line: batch.line(row),
                    value: batch.text(row, field).map_or_else(|| shown_value(value), shown),
                };
                evidence.add(value, witness);
                if let Some((number, is_plain)) = batch.whole_number(row, field) {
                    evidence.add_whole(number, is_plain, witness);
                }
            }
        }
    }
}

#[inline(always)]
fn write_real(real: f64, record: &mut impl RecordSink) {
    match stored_real(real) {
        Number::Integer(integer) => record.integer(integer),
        Number::Real(real) => record.real(real),
    }
}

/// Stored value, if it differs from the input's.
enum Stored<'v> {
    Value(Value<'v>),
    /// Value of a REAL column, where integral values are stored as integers.
    RealColumn(f64),
    Date(DateText),
    Bytes(Vec<u8>),
    Refuted,
    Misfit,
}

/// Converts a value by a column's rule; `spelled` is a number's text in the input.
#[inline(never)]
fn convert<'v>(
    rule: TypeRule,
    value: Value<'v>,
    spelled: impl FnOnce() -> Option<Value<'v>>,
    number: &'v mut NumberText,
) -> Stored<'v> {
    if matches!(value, Value::Null) || matches!(value, Value::Real(real) if real.is_nan()) {
        // A NaN tells that the column is one of reals.
        let is_first = rule == TypeRule::Empty && value != Value::Null;
        return if is_first { Stored::Refuted } else { Stored::Value(Value::Null) };
    }
    let is_number = matches!(value, Value::Integer(_) | Value::Real(_));
    let value = match rule {
        TypeRule::Text
        | TypeRule::Given(ColumnType::Text)
        | TypeRule::Affinity(Affinity::Text)
        | TypeRule::Hex { of_numbers: true }
            if is_number =>
        {
            spelled().unwrap_or(value)
        }
        _ => value,
    };
    match (rule, value) {
        (TypeRule::Affinity(affinity), value) => affine(affinity, value, number),
        (TypeRule::Given(column_type), value) => given(column_type, value, number),
        (TypeRule::GivenReal, value) => match given(ColumnType::Real, value, number) {
            Stored::RealColumn(real) => Stored::Value(Value::Real(real)),
            stored => stored,
        },
        (TypeRule::Integer | TypeRule::Number, Value::Integer(_))
        | (TypeRule::Text, Value::Text(_))
        | (TypeRule::Blob | TypeRule::Hex { .. }, Value::Blob(_))
        | (TypeRule::Boolean, Value::Integer(0 | 1)) => Stored::Value(value),
        (TypeRule::Text, Value::Integer(_) | Value::Real(_)) => {
            Stored::Value(Affinity::Text.apply(value, number))
        }
        (TypeRule::Number, Value::Real(real)) => {
            Stored::Value(integral(real).map_or(value, Value::Integer))
        }
        (TypeRule::Real, Value::Real(real)) => Stored::RealColumn(real),
        (TypeRule::Real, Value::Integer(integer)) if is_exact_in_double(integer) => {
            Stored::RealColumn(integer as f64)
        }
        (TypeRule::Rowid, _) => Stored::Value(Value::Null),
        (TypeRule::Hex { .. }, Value::Text(digits)) => {
            bytes_of_hex(digits).map_or(Stored::Misfit, Stored::Bytes)
        }
        (TypeRule::Timestamp(form), Value::Text(text)) => timestamp(form, text),
        (TypeRule::Boolean, Value::Text(text)) => match truth(text) {
            Some(truth) => Stored::Value(Value::Integer(truth.into())),
            None => Stored::Misfit,
        },
        (TypeRule::Hex { .. } | TypeRule::Timestamp(_) | TypeRule::Boolean, _) => Stored::Misfit,
        _ => Stored::Refuted,
    }
}

fn affine<'v>(affinity: Affinity, value: Value<'v>, number: &'v mut NumberText) -> Stored<'v> {
    match (affinity, affinity.apply(value, number)) {
        (Affinity::Real, Value::Real(real)) => Stored::RealColumn(real),
        (_, value) => Stored::Value(value),
    }
}

fn given<'v>(column_type: ColumnType, value: Value<'v>, number: &'v mut NumberText) -> Stored<'v> {
    match (column_type, column_type.affinity().apply(value, number)) {
        (ColumnType::Real, Value::Real(real)) => Stored::RealColumn(real),
        (ColumnType::Integer, value @ Value::Integer(_))
        | (ColumnType::Text, value @ Value::Text(_))
        | (ColumnType::Blob, value @ Value::Blob(_)) => Stored::Value(value),
        _ => Stored::Misfit,
    }
}

fn timestamp<'v>(form: TimestampForm, text: &[u8]) -> Stored<'v> {
    match Timestamp::parse(text).map(|time| time.stored(form)) {
        Some(Converted::Number(number)) => Stored::Value(number.into()),
        Some(Converted::Text(text)) => Stored::Date(text),
        _ => Stored::Misfit,
    }
}

/// Returns true if a REAL column returns this very integer.
fn is_exact_in_double(integer: i64) -> bool {
    i128::from(integer) == integer as f64 as i128
}

fn not_a(value: Value<'_>, wanted: &str) -> String {
    let article = if wanted.starts_with('I') { "an" } else { "a" };
    format!("{} is not {article} {wanted}", shown_value(value))
}

/// A value in a message: numbers bare, text and blobs as in SQL.
pub fn shown_value(value: Value<'_>) -> String {
    /// Number of a blob's bytes that are shown.
    const BLOB_BYTES_MAX: usize = 16;
    let mut number = NumberText::new();
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Text(text) => format!("'{}'", shown(text)),
        Value::Blob(blob) => {
            let mut text = String::from("x'");
            text.extend(hex_digits(&blob[..blob.len().min(BLOB_BYTES_MAX)]));
            text.push_str(if blob.len() > BLOB_BYTES_MAX { "…'" } else { "'" });
            text
        }
        Value::Integer(integer) => {
            String::from_utf8_lossy(number.render_integer(integer)).into_owned()
        }
        Value::Real(real) => String::from_utf8_lossy(number.render_real(real)).into_owned(),
    }
}
