//! The rule for a column's fields, and a field of the input.
//!
//! Must never: know a row.

use crate::load::options::TimestampForm;
use crate::schema::ColumnType;

/// Way in which a column's fields are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldRule {
    /// Detected INTEGER: a field that is no exact integer refutes it.
    Integer,
    /// Detected REAL: a field that no double represents exactly enough refutes it.
    Real,
    /// Detected REAL for a column whose texts can all be made again from the numbers.
    ExactReal,
    /// TEXT: no field refutes it.
    Text,
    /// TEXT for a column without any value so far: a value refutes it.
    Empty,
    /// Type given by the caller: a field that does not fit makes a bad row.
    Given(ColumnType),
    /// REAL by the caller's choice, in a column that holds any type. SQLite reads an integer in a
    /// record of a REAL column as a real, but not here: so 1.0 must not be written as 1.
    GivenReal,
    /// Date and time by the caller's choice; another text makes a bad row.
    Timestamp(TimestampForm),
    /// 1 and 0 for words that mean true and false, by the caller's choice; another text makes a bad
    /// row.
    Boolean,
    /// NUMERIC affinity: a number where the text is one for SQLite, else the text.
    Numeric,
    /// No affinity: the text.
    Any,
    /// The INTEGER PRIMARY KEY, stored as the rowid and NULL in the record.
    Rowid,
}

impl FieldRule {
    /// Returns true if the column holds text as it is, so that an empty field is ''.
    #[inline(always)]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Empty | Self::Given(ColumnType::Text) | Self::Any)
    }

    /// Type of the column in a declaration.
    pub fn declared_type(self) -> &'static str {
        match self {
            Self::Integer | Self::Rowid | Self::Boolean => "INTEGER",
            Self::Timestamp(form) => form.column_type().name(),
            Self::Real | Self::ExactReal | Self::GivenReal => "REAL",
            Self::Text | Self::Empty => "TEXT",
            Self::Given(column_type) => column_type.name(),
            Self::Numeric => "NUMERIC",
            Self::Any => "",
        }
    }

    pub(super) fn is_real(self) -> bool {
        matches!(self, Self::Real | Self::ExactReal | Self::Given(ColumnType::Real))
    }

    /// Limit of the bytes by which a value may be longer than its field.
    pub(super) fn surplus_bytes_max(self) -> usize {
        match self {
            Self::Timestamp(form) => form.content_bytes_max(),
            _ => 0,
        }
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

    /// The field without the spaces and tabs around it.
    pub(super) fn trimmed(self) -> Self {
        let Self { source, mut start, mut end } = self;
        while start < end && is_blank(source[start]) {
            start += 1;
        }
        while start < end && is_blank(source[end - 1]) {
            end -= 1;
        }
        Self { source, start, end }
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}
