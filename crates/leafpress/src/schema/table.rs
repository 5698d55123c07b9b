//! A table's columns and the `CREATE TABLE` that declares them.

use std::fmt::Write as _;
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
    /// As it stands in `CREATE TABLE`.
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

/// All that `CREATE TABLE` says.
#[derive(Debug, Clone)]
pub struct TableSchema {
    /// The table's name.
    pub table: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Index of the column that is the rowid (`INTEGER PRIMARY KEY`).
    pub primary_key: Option<usize>,
    /// Whether it is a STRICT table.
    pub strict: bool,
}

impl TableSchema {
    /// The statement, as it goes into the schema table.
    pub fn create_sql(&self) -> String {
        let mut sql = format!("CREATE TABLE {} (", quote_identifier(&self.table));
        for (index, column) in self.columns.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let key = if self.primary_key == Some(index) { " PRIMARY KEY" } else { "" };
            let name = quote_identifier(&column.name);
            let _ = write!(sql, "{comma}\n  {name} {}{key}", column.column_type.name());
        }
        sql.push_str(if self.strict { "\n) STRICT" } else { "\n)" });
        sql
    }

    /// The column of that name, compared as SQLite compares names.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
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
        let schema = TableSchema {
            table: "a \"b\"".into(),
            columns: vec![
                Column::new("id", ColumnType::Integer),
                Column::new("x y", ColumnType::Text),
            ],
            primary_key: Some(0),
            strict: true,
        };
        assert_eq!(
            schema.create_sql(),
            "CREATE TABLE \"a \"\"b\"\"\" (\n  \"id\" INTEGER PRIMARY KEY,\n  \"x y\" TEXT\n) STRICT"
        );
        assert_eq!(schema.column_index("X Y"), Some(1));
    }

    #[test]
    fn types_by_name() {
        assert_eq!("Integer".parse(), Ok(ColumnType::Integer));
        assert!("varchar".parse::<ColumnType>().is_err_and(|e| e.contains("choose")));
    }
}
