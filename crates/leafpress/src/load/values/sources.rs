//! Sources of the values of a table's columns: the input, or the load itself.
//!
//! Shared by inputs of text (`fields`) and of typed rows (`typed`).

use leafpress_format::Number;

use super::sink::RecordSink;
use super::uuid7::{self, Uuid7Range};
use crate::load::options::Uuid7Form;
use crate::schema::shape::OwnedValue;
use crate::schema::stored_real;

/// Source of a column's values.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueSource {
    /// A field (or column) of the input, by its index.
    Field(usize),
    /// One value for all rows, converted by the column's affinity.
    Constant(OwnedValue),
    /// A key made for the row.
    Uuid7(Uuid7Form),
}

impl ValueSource {
    /// The sources of a table whose columns are the input's fields.
    pub fn straight(fields: usize) -> Vec<Self> {
        (0..fields).map(Self::Field).collect()
    }

    /// Index of the field; `None` for another source.
    #[inline(always)]
    pub fn field(&self) -> Option<usize> {
        match self {
            Self::Field(field) => Some(*field),
            _ => None,
        }
    }

    /// Returns true if the rows bring the column's values.
    pub fn is_given(&self) -> bool {
        !matches!(self, Self::Constant(_))
    }

    /// Limit of a record's bytes that come from no field.
    pub fn content_bytes_max(&self) -> usize {
        match self {
            Self::Constant(OwnedValue::Text(text)) => text.len(),
            Self::Constant(OwnedValue::Blob(blob)) => blob.len(),
            Self::Uuid7(Uuid7Form::Blob) => 16,
            Self::Uuid7(Uuid7Form::Text) => uuid7::TEXT_BYTES,
            Self::Field(_) | Self::Constant(_) => 0,
        }
    }
}

/// Largest number of columns with the same field as their source.
pub fn uses_max(sources: &[ValueSource]) -> usize {
    let mut fields: Vec<usize> = sources.iter().filter_map(ValueSource::field).collect();
    fields.sort_unstable();
    fields.chunk_by(|one, other| one == other).map(<[usize]>::len).max().unwrap_or(0)
}

/// Writes a constant; `is_real` is true for a REAL column.
#[inline(always)]
pub fn write_constant(is_real: bool, value: &OwnedValue, record: &mut impl RecordSink) {
    match value {
        OwnedValue::Null => record.null(),
        OwnedValue::Integer(integer) => record.integer(*integer),
        OwnedValue::Real(real) if is_real => match stored_real(*real) {
            Number::Integer(integer) => record.integer(integer),
            Number::Real(real) => record.real(real),
        },
        OwnedValue::Real(real) => record.real(*real),
        OwnedValue::Text(text) => record.text(text.as_bytes()),
        OwnedValue::Blob(blob) => record.blob(blob),
    }
}

/// Writes the key of a row.
#[inline(always)]
pub fn write_uuid7(
    keys: Option<&Uuid7Range>,
    form: Uuid7Form,
    sequence: u64,
    record: &mut impl RecordSink,
) {
    let Some(keys) = keys else { return record.null() };
    match form {
        Uuid7Form::Blob => record.blob(&keys.at(sequence)),
        Uuid7Form::Text => record.text(&keys.text_at(sequence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_by_their_uses() {
        let field = ValueSource::Field;
        assert_eq!(uses_max(&[]), 0);
        assert_eq!(uses_max(&[ValueSource::Uuid7(Uuid7Form::Blob)]), 0);
        assert_eq!(uses_max(&[field(3), field(0), field(3), field(1), field(3)]), 3);
    }
}
