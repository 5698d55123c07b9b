//! Columns and their types, and names as they stand in SQL.

use std::str::FromStr;

use leafpress_format::affinity::Affinity;
use serde::Serialize;

/// The declared type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ColumnType {
    /// 64-bit integers.
    Integer,
    /// 64-bit floats.
    Real,
    /// Text.
    Text,
    /// Bytes; in a text input written as hexadecimal digits.
    Blob,
}

impl ColumnType {
    /// The type's name in `CREATE TABLE`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
        }
    }

    /// The affinity that SQLite gives such a column.
    pub const fn affinity(self) -> Affinity {
        match self {
            Self::Integer => Affinity::Integer,
            Self::Real => Affinity::Real,
            Self::Text => Affinity::Text,
            Self::Blob => Affinity::Blob,
        }
    }
}

impl FromStr for ColumnType {
    type Err = String;

    /// Any case.
    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Integer, Self::Real, Self::Text, Self::Blob]
            .into_iter()
            .find(|column_type| column_type.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| format!("'{name}' is not a type: choose integer, real, text or blob"))
    }
}

/// A column: its name and declared type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its declared type.
    pub column_type: ColumnType,
}

impl Column {
    /// A column of that name and type.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self { name: name.into(), column_type }
    }
}

/// A name as it must stand in SQL.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        assert_eq!(quote_identifier("a \"b\""), "\"a \"\"b\"\"\"");
    }

    #[test]
    fn types_by_name() {
        assert_eq!("Integer".parse(), Ok(ColumnType::Integer));
        assert!("varchar".parse::<ColumnType>().is_err_and(|e| e.contains("choose")));
    }
}
