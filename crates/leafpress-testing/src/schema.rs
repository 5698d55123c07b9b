//! A case: page size, tables, indexes and rows.

use crate::value::OwnedValue;
use leafpress_format::PageLayout;
use std::fmt::Write;

/// Everything that one pressed file holds.
#[derive(Debug, Clone)]
pub struct Case {
    /// Page size.
    pub layout: PageLayout,
    /// Tables in the order of the schema.
    pub tables: Vec<Table>,
}

/// A column's affinity, by a declared type that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// No declared type: whatever comes is stored.
    Any,
    /// INTEGER.
    Integer,
    /// REAL.
    Real,
    /// TEXT.
    Text,
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its affinity.
    pub affinity: Affinity,
}

/// Collation of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collation {
    /// By bytes.
    Binary,
    /// By bytes, ASCII letters folded.
    NoCase,
    /// By bytes, without trailing spaces.
    RTrim,
}

/// A column of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    /// Index of the table's column.
    pub column_index: usize,
    /// Collation of its text.
    pub collation: Collation,
    /// True if the order is reversed.
    pub descending: bool,
}

/// Storage of a table.
#[derive(Debug, Clone)]
pub enum TableKind {
    /// By rowid.
    Rowid,
    /// By rowid, with a column `id INTEGER PRIMARY KEY` in front of the others.
    RowidAlias,
    /// By this key, without repeated columns.
    WithoutRowid(Vec<KeyColumn>),
}

/// An index.
#[derive(Debug, Clone)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Columns that it sorts by; they may repeat.
    pub columns: Vec<KeyColumn>,
}

/// A row; the rowid means nothing in a WITHOUT ROWID table.
#[derive(Debug, Clone)]
pub struct Row {
    /// The rowid.
    pub rowid: i64,
    /// A value per column.
    pub values: Vec<OwnedValue>,
}

/// A table with its rows and indexes.
///
/// Invariants, which the code that makes one must keep:
/// 1. Rows are in the order of the tree: by rowid, or by key.
/// 2. No two have equal ones, and key columns hold no NULL.
/// 3. A value is one that its column's affinity leaves alone; REAL columns may
///    hold integral reals, which are stored as integers.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its storage: by rowid, or WITHOUT ROWID.
    pub kind: TableKind,
    /// Its columns, without the alias of the rowid.
    pub columns: Vec<Column>,
    /// Length of a comment within its CREATE statement.
    pub comment_bytes: usize,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Number of runs in which its leaves are pressed.
    pub runs: usize,
    /// Its indexes.
    pub indexes: Vec<Index>,
}

impl Collation {
    fn name(self) -> &'static str {
        match self {
            Self::Binary => "BINARY",
            Self::NoCase => "NOCASE",
            Self::RTrim => "RTRIM",
        }
    }
}

impl Affinity {
    fn declared_type(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Integer => " INTEGER",
            Self::Real => " REAL",
            Self::Text => " TEXT",
        }
    }
}

impl Table {
    /// The statement that makes the table.
    pub fn create_sql(&self) -> String {
        let mut sql = format!("CREATE TABLE {}(", self.name);
        if self.comment_bytes > 0 {
            write!(sql, "/*{}*/", "x".repeat(self.comment_bytes)).expect("memory");
        }
        let mut parts = Vec::new();
        if matches!(self.kind, TableKind::RowidAlias) {
            parts.push("id INTEGER PRIMARY KEY".to_owned());
        }
        let column = |c: &Column| format!("{}{}", c.name, c.affinity.declared_type());
        parts.extend(self.columns.iter().map(column));
        if let TableKind::WithoutRowid(key) = &self.kind {
            parts.push(format!("PRIMARY KEY({})", self.key_sql(key)));
        }
        sql += &parts.join(", ");
        sql += if self.has_rowid() { ")" } else { ") WITHOUT ROWID" };
        sql
    }

    /// The statement that makes one of its indexes.
    pub fn create_index_sql(&self, index: &Index) -> String {
        format!("CREATE INDEX {} ON {}({})", index.name, self.name, self.key_sql(&index.columns))
    }

    fn key_sql(&self, key: &[KeyColumn]) -> String {
        let part = |part: &KeyColumn| {
            let name = &self.columns[part.column_index].name;
            let order = if part.descending { " DESC" } else { "" };
            format!("{name} COLLATE {}{order}", part.collation.name())
        };
        key.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    /// Returns true if rows are stored by rowid.
    pub fn has_rowid(&self) -> bool {
        !matches!(self.kind, TableKind::WithoutRowid(_))
    }

    /// Columns of the table in the order of its records (without the alias).
    pub fn record_columns(&self) -> Vec<usize> {
        let all = 0..self.columns.len();
        match &self.kind {
            TableKind::WithoutRowid(key) => {
                let mut columns: Vec<usize> = key.iter().map(|part| part.column_index).collect();
                columns.extend(all.filter(|c| key.iter().all(|part| part.column_index != *c)));
                columns
            }
            _ => all.collect(),
        }
    }

    /// Columns that an index entry sorts by, without the rowid at its end: a WITHOUT
    /// ROWID table's key takes its place, except columns that are there already.
    pub fn entry_columns(&self, index: &Index) -> Vec<KeyColumn> {
        let mut columns = index.columns.clone();
        if let TableKind::WithoutRowid(key) = &self.kind {
            let there = |part: &&KeyColumn| {
                !index
                    .columns
                    .iter()
                    .any(|c| c.column_index == part.column_index && c.collation == part.collation)
            };
            columns.extend(key.iter().filter(there));
        }
        columns
    }
}
