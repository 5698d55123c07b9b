//! A value of a record as a parameter of a statement.
//!
//! Must never: copy a value.

use leafpress_format::Value;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// A value as a parameter.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'v>(pub Value<'v>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(value_ref(self.0)))
    }
}

/// A value of a record as one of SQLite's interface.
pub fn value_ref(value: Value<'_>) -> ValueRef<'_> {
    match value {
        Value::Null => ValueRef::Null,
        Value::Integer(integer) => ValueRef::Integer(integer),
        Value::Real(real) => ValueRef::Real(real),
        Value::Text(text) => ValueRef::Text(text),
        Value::Blob(blob) => ValueRef::Blob(blob),
    }
}
