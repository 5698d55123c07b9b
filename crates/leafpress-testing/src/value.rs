//! A value that owns its bytes. The generators and both writers share it.

use leafpress_format::Value;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// A value in one of SQLite's storage classes.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnedValue {
    /// No value.
    Null,
    /// A signed 64-bit integer.
    Integer(i64),
    /// A float; NaN stands for NULL, as in SQLite.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl OwnedValue {
    /// The value as the page builders take it.
    pub fn as_value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(integer) => Value::Integer(*integer),
            Self::Real(real) => Value::Real(*real),
            Self::Text(text) => Value::Text(text.as_bytes()),
            Self::Blob(blob) => Value::Blob(blob),
        }
    }

    /// Returns true if SQLite stores NULL for it.
    pub fn is_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Real(real) => real.is_nan(),
            _ => false,
        }
    }

    /// Length of text and blob content.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(blob) => blob.len(),
            _ => 0,
        }
    }
}

impl ToSql for OwnedValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Real(real) => ValueRef::Real(*real),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}
