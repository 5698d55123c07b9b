//! One value as SQLite stores it. It is NULL, INTEGER, REAL, TEXT or BLOB.
//!
//! Borrowed, so that a row can be pressed straight from the caller's buffer.
//! Text is bytes here: the caller has checked that it is UTF-8 (SQLite itself would store
//! anything).

/// A value in one of SQLite's five storage classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// A signed 64-bit integer.
    Integer(i64),
    /// A 64-bit IEEE float. SQLite has no NaN: it is stored as NULL.
    Real(f64),
    /// Text, in UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.as_bytes())
    }
}

impl From<i64> for Value<'_> {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<f64> for Value<'_> {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}
