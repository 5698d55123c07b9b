//! A table as SQLite understands its declaration.
//!
//! SQLite itself runs the statements, called by `load`, and describes the result. The types here
//! hold that description in the terms of the file format: the B-trees, and the columns of their
//! records in their order.
//!
//! Must never: read SQL. Only SQLite decides what a statement means.

use std::collections::BTreeSet;

use super::sql_words::{is_strict_table, without_last_comment};
use super::table::{is_plain_type, quote_identifier};
pub use leafpress_format::EntryColumn;
use leafpress_format::{Affinity, KeyColumn};

/// A declared table and its indexes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableShape {
    /// Its name.
    pub name: String,
    /// The statement that declares it, as the schema table holds it.
    pub sql: String,
    /// Its columns, in the order of their declaration, generated ones too.
    pub columns: Vec<ShapeColumn>,
    /// Index of the column that is the rowid (`INTEGER PRIMARY KEY`).
    pub rowid_column: Option<usize>,
    /// True if rowids are never used again, so that a row of `sqlite_sequence` keeps the last
    /// one.
    pub autoincrement: bool,
    /// True if the table is STRICT: a value of another class than its column's is refused.
    pub strict: bool,
    /// The B-tree of a WITHOUT ROWID table: all columns, those of the key first; else `None`.
    pub key: Option<EntryShape>,
    /// Its indexes, in the order in which SQLite makes them, automatic ones too.
    pub indexes: Vec<IndexShape>,
    /// True if the table refers to other tables. Neither pressing nor SQLite, with its default
    /// settings, checks these references.
    pub has_foreign_keys: bool,
    /// The construct for which SQLite must handle each row itself (a CHECK, a generated column,
    /// a trigger), so that the rows go through SQL; `None` if there is none.
    pub through_sql: Option<String>,
    /// For a table that holds the rows of another table for a while: the generated columns of
    /// that other table, which take no value and are not columns of this one.
    pub generated_there: Vec<String>,
    /// The statements of all else that was declared with it, in order: triggers,
    /// views, other tables and their indexes.
    pub beside: Vec<String>,
}

impl TableShape {
    /// Tells whether a column is computed from others, so that it takes no value.
    pub fn is_generated(&self, name: &str) -> bool {
        let mut generated = self.columns.iter().filter(|it| it.generated).map(|it| &it.name);
        generated.any(|it| it.eq_ignore_ascii_case(name))
            || self.generated_there.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Returns true if any two rows must differ in something.
    pub fn is_unique(&self) -> bool {
        self.rowid_column.is_some()
            || self.key.is_some()
            || self.indexes.iter().any(|index| index.unique)
    }

    /// Returns true if it, or a table that was declared with it, is STRICT.
    pub fn needs_strict(&self) -> bool {
        self.strict || self.beside.iter().any(|sql| is_strict_table(sql))
    }

    /// Returns true if no index is left to SQLite.
    pub fn is_pressed_whole(&self) -> bool {
        self.indexes.iter().all(|index| index.through_sql.is_none())
    }

    /// The columns of a constraint: 0 is the table's own key, then its indexes.
    pub fn constraint_columns(&self, constraint: usize) -> Vec<usize> {
        let entry = match constraint.checked_sub(1) {
            None => self.key.as_ref(),
            Some(index) => {
                let pressed = self.indexes.iter().filter(|index| index.through_sql.is_none());
                pressed.map(|index| &index.entry).nth(index)
            }
        };
        match entry {
            Some(entry) => self.key_columns(entry),
            None => self.rowid_column.into_iter().collect(),
        }
    }

    /// The columns of the key of one of its B-trees.
    fn key_columns(&self, entry: &EntryShape) -> Vec<usize> {
        let columns = entry.columns.iter().take(entry.unique_columns);
        columns
            .filter_map(|column| match column {
                EntryColumn::Column(column) => Some(*column),
                EntryColumn::Rowid => self.rowid_column,
            })
            .collect()
    }

    /// Returns true if a unique index for all rows has these columns, in any order.
    pub fn has_unique_index_of(&self, columns: &BTreeSet<usize>) -> bool {
        let of_all_rows = |it: &&IndexShape| it.sql.is_none() || it.through_sql.is_none();
        let mut unique = self.indexes.iter().filter(|it| it.unique).filter(of_all_rows);
        unique
            .any(|it| self.key_columns(&it.entry).into_iter().collect::<BTreeSet<_>>() == *columns)
    }

    /// The statements that declare it, and all else that was declared with it. Only one by one can they
    /// be run: a comment at the end of one hides what is behind it.
    pub fn statements(&self) -> impl Iterator<Item = &str> {
        let indexes = self.indexes.iter().filter_map(|index| index.sql.as_ref());
        std::iter::once(&self.sql).chain(indexes).chain(&self.beside).map(String::as_str)
    }

    /// All statements that declare it, as one text.
    pub fn create_sql(&self) -> String {
        self.statements().map(without_last_comment).collect::<Vec<_>>().join(";\n")
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapeColumn {
    /// Its name.
    pub name: String,
    /// Its declared type, as written; empty if there is none.
    pub declared_type: String,
    /// The affinity that follows from it.
    pub affinity: Affinity,
    /// True if NULL is refused.
    pub not_null: bool,
    /// The value of rows that give none, as the column stores it (NULL without a
    /// DEFAULT); `None` where SQLite makes another for each row, or refuses it.
    pub default: Option<OwnedValue>,
    /// True if the column is computed from others; such a column takes no value.
    pub generated: bool,
}

impl ShapeColumn {
    /// A type that can be written into a declaration: the column's own, or one of the same
    /// affinity. SQLite returns a type such as `[nvarchar](50)` as `nvarchar](50`.
    pub fn plain_type(&self) -> &str {
        if is_plain_type(&self.declared_type) {
            return &self.declared_type;
        }
        match self.affinity {
            Affinity::Integer => "INTEGER",
            Affinity::Real => "REAL",
            Affinity::Text => "TEXT",
            Affinity::Numeric => "NUMERIC",
            Affinity::Blob => "BLOB",
        }
    }
}

/// A value that owns its text.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnedValue {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A float.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// One index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexShape {
    /// Its name.
    pub name: String,
    /// The statement that made it; `None` if it is the automatic one of a constraint.
    pub sql: Option<String>,
    /// Its B-tree.
    pub entry: EntryShape,
    /// True if no two entries may have equal first columns ([`EntryShape::unique_columns`]),
    /// unless one of these columns is NULL.
    pub unique: bool,
    /// The reason why SQLite must build it (a partial index, an expression); `None` if it can
    /// be pressed.
    pub through_sql: Option<String>,
}

/// The columns of the records of an index or a WITHOUT ROWID table, and their order.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryShape {
    /// The table's columns that each record holds, in order.
    pub columns: Vec<EntryColumn>,
    /// The order of the records: the first record column is compared by the first of these, and
    /// so on.
    pub order: Vec<KeyColumn>,
    /// Number of first columns that make up the key as the user declared it.
    pub unique_columns: usize,
}

impl EntryShape {
    /// Returns true if the last column of each record is the rowid.
    pub fn ends_in_rowid(&self) -> bool {
        self.columns.last() == Some(&EntryColumn::Rowid)
    }
}

/// A table without keys that holds rows for another one; the columns by which they are sorted come
/// first.
pub fn staged_shape(
    table: &str,
    columns: Vec<ShapeColumn>,
    order: Option<&[(usize, KeyColumn)]>,
) -> TableShape {
    let first: Vec<usize> = order.into_iter().flatten().map(|(at, _)| *at).collect();
    let rest = (0..columns.len()).filter(|at| !first.contains(at));
    let stored: Vec<usize> = first.iter().copied().chain(rest).collect();
    let declarations: Vec<String> = stored
        .iter()
        .map(|&at| {
            let column = &columns[at];
            let declaration = format!("{} {}", quote_identifier(&column.name), column.plain_type());
            declaration.trim_end().to_owned()
        })
        .collect();
    let key = order.map(|order| EntryShape {
        columns: stored.iter().map(|&at| EntryColumn::Column(at)).collect(),
        order: order.iter().map(|(_, key)| *key).collect(),
        unique_columns: 0,
    });
    TableShape {
        name: table.to_owned(),
        sql: format!("CREATE TABLE {} ({})", quote_identifier(table), declarations.join(", ")),
        columns,
        key,
        ..TableShape::default()
    }
}
