//! A table as SQLite understands its declaration.
//!
//! SQLite itself runs the statements (`load` sees to that) and tells what it
//! made of them; this is the answer, in the words of the file format: which
//! B-trees there are, and which columns stand in their records, in which order.
//!
//! Must never: read SQL. What a statement means is SQLite's to say.

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
    /// Whether rowids are never used again, so that a row of `sqlite_sequence` keeps the last.
    pub autoincrement: bool,
    /// Whether a value of another class than its column's is refused.
    pub strict: bool,
    /// For a WITHOUT ROWID table, its B-tree: all columns, those of the key first.
    pub key: Option<EntryShape>,
    /// Its indexes, in the order in which SQLite makes them, automatic ones too.
    pub indexes: Vec<IndexShape>,
    /// Whether it refers to other tables. Neither pressing nor SQLite by its own
    /// default sees to that.
    pub has_foreign_keys: bool,
    /// What SQLite must see to, row by row, so that it must be given the rows:
    /// a CHECK, a generated column, a trigger; `None` if there is nothing.
    pub through_sql: Option<String>,
    /// Where it holds rows for another table: the columns that the other one computes, which
    /// take no value and are none of these.
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
        let Some(entry) = entry else { return self.rowid_column.into_iter().collect() };
        let columns = entry.columns.iter().take(entry.unique_columns);
        columns
            .filter_map(|column| match column {
                EntryColumn::Column(column) => Some(*column),
                EntryColumn::Rowid => self.rowid_column,
            })
            .collect()
    }

    /// All statements that declare it.
    pub fn create_sql(&self) -> String {
        let indexes = self.indexes.iter().filter_map(|index| index.sql.clone());
        let all: Vec<_> =
            std::iter::once(self.sql.clone()).chain(indexes).chain(self.beside.clone()).collect();
        all.join(";\n")
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
    /// Whether NULL is refused.
    pub not_null: bool,
    /// The value of rows that give none, as the column stores it (NULL without a
    /// DEFAULT); `None` where SQLite makes another for each row, or refuses it.
    pub default: Option<OwnedValue>,
    /// Whether it is computed from others; such a column takes no value.
    pub generated: bool,
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
    /// Whether entries differ in their first columns ([`EntryShape::unique_columns`]),
    /// unless there is a NULL among them.
    pub unique: bool,
    /// Why SQLite must build it (a partial index, an expression); `None` if it can be pressed.
    pub through_sql: Option<String>,
}

/// What stands in the records of an index or a WITHOUT ROWID table.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryShape {
    /// The table's columns that each record holds, in order.
    pub columns: Vec<EntryColumn>,
    /// How records are ordered: by as many first columns as there are here.
    pub order: Vec<KeyColumn>,
    /// How many first columns make up what the user declared as the key.
    pub unique_columns: usize,
}
