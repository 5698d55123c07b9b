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
    /// Its declared type; empty for a column without a type.
    pub declared_type: String,
}

impl Column {
    /// A column of that name and type.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self::declared(name, column_type.name())
    }

    /// A column with any declared type, such as `DECIMAL(10,2)`: words, and sizes in brackets; empty for none. Its
    /// affinity says how values are stored (<https://sqlite.org/datatype3.html#determination_of_column_affinity>).
    pub fn declared(name: impl Into<String>, declared_type: impl Into<String>) -> Self {
        Self { name: name.into(), declared_type: declared_type.into() }
    }
}

/// Words with which a constraint of a column begins (<https://sqlite.org/syntax/column-constraint.html>). In quotes
/// they can be a type.
const CONSTRAINTS: [&str; 11] = [
    "AS",
    "CHECK",
    "COLLATE",
    "CONSTRAINT",
    "DEFAULT",
    "GENERATED",
    "NOT",
    "NULL",
    "PRIMARY",
    "REFERENCES",
    "UNIQUE",
];

/// Returns true if a declared type can be written into a declaration as it is. A type may be any words but those of
/// constraints; a column without a type is different from one with any type.
pub fn is_plain_type(declared: &str) -> bool {
    let (words, size) = match declared.split_once('(') {
        Some((words, size)) => (words, size.strip_suffix(')')),
        None => (declared, Some("")),
    };
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ' ';
    let begins_constraint =
        |word: &str| CONSTRAINTS.iter().any(|known| word.eq_ignore_ascii_case(known));
    let is_size = |c: char| c.is_ascii_digit() || " ,.+-".contains(c);
    words.chars().all(is_of_word)
        && size.is_some_and(|size| size.chars().all(is_size))
        && !words.split(' ').any(begins_constraint)
}

/// A name as it must stand in SQL.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The name in double quotes with which a text begins, and the text behind it; `None` if there is none, or its
/// closing quote is missing.
pub fn quoted_name(text: &str) -> Option<(String, &str)> {
    let content = text.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let end = from + content[from..].find('"')?;
        if !content[end + 1..].starts_with('"') {
            return Some((content[..end].replace("\"\"", "\""), &content[end + 1..]));
        }
        from = end + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        assert_eq!(quote_identifier("a \"b\""), "\"a \"\"b\"\"\"");
        assert_eq!(quoted_name("\"a \"\"b\"\"\", c"), Some(("a \"b\"".to_owned(), ", c")));
        for none in ["", "a", "\"a", "\"a\"\""] {
            assert_eq!(quoted_name(none), None, "{none}");
        }
    }

    #[test]
    fn types_by_name() {
        assert_eq!("Integer".parse(), Ok(ColumnType::Integer));
        assert!("varchar".parse::<ColumnType>().is_err_and(|e| e.contains("choose")));
    }

    #[test]
    fn types_that_are_no_types_are_known() {
        for (declared, is_plain) in [
            ("VARCHAR(10)", true),
            ("DECIMAL(10, 2)", true),
            ("", true),
            ("DOUBLE PRECISION", true),
            ("x) AS (1", false),
            ("INT GENERATED ALWAYS", false),
            ("integer primary key", false),
            ("NOT NULL", false),
            ("NOTHING NULLS", true),
            ("a\"b", false),
            ("(", false),
        ] {
            assert_eq!(is_plain_type(declared), is_plain, "{declared}");
        }
    }
}
