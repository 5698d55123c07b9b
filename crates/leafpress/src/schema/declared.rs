//! Declaration of a table in a database, from SQLite's pragmas, as far as an insert needs it.
//!
//! Must never: change the database that it reads.

use leafpress_format::Affinity;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::sql_words::{SqlWord, declares_conflicts, sql_words};
use super::table::quote_identifier;

/// Functions in a DEFAULT whose result depends on the row before.
const FUNCTIONS_OF_ROWS_BEFORE: [&str; 3] = ["last_insert_rowid", "changes", "total_changes"];

/// A table's declaration.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct DeclaredTable {
    /// Name of the table, as declared.
    pub name: String,
    /// True if the table is virtual.
    pub is_virtual: bool,
    /// True if the table is one B-tree in the order of its key.
    pub without_rowid: bool,
    /// True if a value of another class than its column's is refused.
    pub strict: bool,
    /// True if the stored values may depend on the order of the rows, by the declaration: an ON
    /// CONFLICT, or a DEFAULT that depends on the row before.
    pub is_order_declared: bool,
    /// True if the declaration may decide about a row whose key is taken.
    pub declares_conflicts: bool,
    /// True if no rowid is given twice (AUTOINCREMENT).
    pub autoincrement: bool,
    /// Columns of the table in order.
    pub columns: Vec<DeclaredColumn>,
    /// Name of the column that is the rowid.
    pub rowid_alias: Option<String>,
    /// Indexes of the table, with automatic ones.
    pub indexes: Vec<DeclaredIndex>,
    /// Names of the table's triggers.
    pub triggers: Vec<String>,
    /// True if the table has foreign keys.
    pub is_child: bool,
    /// True if the declaration may have foreign keys that are checked only at the commit.
    pub has_deferred_keys: bool,
    /// Foreign keys of other tables that refer to this one: name of the table, and what happens to
    /// its rows when a row here is deleted.
    pub referring: Vec<(String, String)>,
}

/// A column.
#[derive(Debug, Clone)]
pub struct DeclaredColumn {
    /// Name of the column.
    pub name: String,
    /// Declared type, as written; empty if there is none.
    pub declared_type: String,
    /// True if the value is computed from other columns.
    pub generated: bool,
    /// Position in the primary key, from 1; 0 if the column is not in it.
    pub key_place: u32,
}

/// An index.
#[derive(Debug, Clone)]
pub struct DeclaredIndex {
    /// Name of the index.
    pub name: String,
    /// True if no two rows have the same key.
    pub unique: bool,
    /// `c` for CREATE INDEX, `u` for a UNIQUE constraint, `pk` for a primary key.
    pub origin: String,
    /// True if the index has only some of the rows.
    pub partial: bool,
    /// Columns of the index; `None` for an expression.
    pub columns: Vec<Option<OrderColumn>>,
}

/// A column of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderColumn {
    /// Name of the column.
    pub name: String,
    /// Collation of its texts.
    pub collation: String,
    /// True if the order is descending.
    pub descending: bool,
}

/// List of columns for SQL.
#[derive(Debug, Clone)]
pub struct ColumnList {
    /// Names, quoted, with commas.
    pub sql: String,
    /// Number of the columns.
    pub count: usize,
}

impl ColumnList {
    /// A list of these names.
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let names: Vec<String> = names.map(quote_identifier).collect();
        Self { count: names.len(), sql: names.join(", ") }
    }
}

/// Name by which SQL reaches the rowid of a table with these columns; none if they hide it.
pub fn rowid_name(is_column: impl Fn(&str) -> bool) -> Option<&'static str> {
    ["rowid", "_rowid_", "oid"].into_iter().find(|name| !is_column(name))
}

/// Statement that inserts a row without a value for any column. DEFAULT VALUES takes no ON CONFLICT, so
/// with one the row has a NULL for its rowid, which SQLite replaces by the next number.
/// `rowid`: a name of the rowid; `None` if there is none, and then the declaration decides about a row
/// whose key is taken.
pub fn insert_of_defaults(
    verb: &str,
    table: &str,
    rowid: Option<&str>,
    on_conflict: &str,
) -> String {
    match rowid.filter(|_| !on_conflict.is_empty()) {
        Some(rowid) => format!("{verb} INTO {table}({rowid}) VALUES (NULL){on_conflict}"),
        None => format!("{verb} INTO {table} DEFAULT VALUES"),
    }
}

impl DeclaredTable {
    /// Reads the declaration of a table of the main database. SQLite ignores the case of the name.
    pub fn read(connection: &Connection, table: &str) -> rusqlite::Result<Self> {
        let sql = "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ?1 COLLATE NOCASE";
        let mut declared = connection.query_row(sql, [table], |row| {
            let kind: String = row.get(1)?;
            Ok(Self {
                name: row.get(0)?,
                is_virtual: kind == "virtual",
                without_rowid: row.get::<_, i64>(2)? != 0,
                strict: row.get(3)?,
                ..Self::default()
            })
        })?;
        declared.columns = columns(connection, table)?;
        declared.indexes = indexes(connection, table)?;
        declared.rowid_alias = declared.rowid_alias();
        let words = declaration(connection, &declared.name)?;
        let words = sql_words(&words);
        declared.declares_conflicts = declares_conflicts(&words);
        declared.is_order_declared = declared.declares_conflicts || tells_of_rows_before(&words);
        declared.autoincrement = words.iter().any(|word| word.is("AUTOINCREMENT"));
        declared.has_deferred_keys =
            words.windows(2).any(|it| it[0].is("INITIALLY") && it[1].is("DEFERRED"));
        let sql = "SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
                   UNION ALL
                   SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE";
        declared.triggers = connection
            .prepare(sql)?
            .query_map([table], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        declared.is_child = connection
            .prepare("SELECT 1 FROM pragma_foreign_key_list(?1, 'main')")?
            .exists([table])?;
        let sql = "SELECT DISTINCT it.name, key.on_delete
                   FROM main.sqlite_schema AS it, pragma_foreign_key_list(it.name) AS key
                   WHERE it.type = 'table' AND key.\"table\" = ?1 COLLATE NOCASE";
        declared.referring = connection
            .prepare(sql)?
            .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(declared)
    }

    /// A single INTEGER PRIMARY KEY column has no index of its own.
    fn rowid_alias(&self) -> Option<String> {
        let key: Vec<&DeclaredColumn> = self.columns.iter().filter(|it| it.key_place > 0).collect();
        let has_index = self.indexes.iter().any(|it| it.origin == "pk");
        let [column] = key[..] else { return None };
        if self.without_rowid || self.is_virtual || has_index {
            return None;
        }
        let is_integer = column.declared_type.eq_ignore_ascii_case("INTEGER");
        is_integer.then(|| column.name.clone())
    }

    /// Affinity of a column.
    pub fn affinity(&self, column: &DeclaredColumn) -> Affinity {
        if self.strict && column.declared_type.eq_ignore_ascii_case("ANY") {
            Affinity::Blob
        } else {
            Affinity::of_declared_type(&column.declared_type)
        }
    }

    /// Name by which SQL reaches the rowid; none if columns hide it.
    pub fn rowid_name(&self) -> Option<&'static str> {
        rowid_name(|name| self.column(name).is_some()).filter(|_| !self.without_rowid)
    }

    /// Column by its name, in any case.
    pub fn column(&self, name: &str) -> Option<&DeclaredColumn> {
        self.columns.iter().find(|it| it.name.eq_ignore_ascii_case(name))
    }

    /// Number of keys in which no two rows are equal.
    pub fn unique_keys(&self) -> usize {
        self.indexes.iter().filter(|it| it.unique).count() + usize::from(self.rowid_alias.is_some())
    }

    /// Returns true if the stored values may depend on the order in which rows are inserted.
    pub fn shows_order(&self) -> bool {
        self.is_order_declared || !self.triggers.is_empty()
    }

    /// Returns true if the table's rows may refer to one another.
    pub fn refers_to_itself(&self) -> bool {
        self.referring.iter().any(|(child, _)| child.eq_ignore_ascii_case(&self.name))
    }

    /// Columns of the primary key, in its order; empty if there is none.
    pub fn primary_key(&self) -> Vec<&str> {
        let mut key: Vec<&DeclaredColumn> =
            self.columns.iter().filter(|it| it.key_place > 0).collect();
        key.sort_by_key(|it| it.key_place);
        key.into_iter().map(|it| it.name.as_str()).collect()
    }
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<DeclaredColumn>> {
    connection
        .prepare(
            "SELECT name, hidden, pk, type FROM pragma_table_xinfo(?1, 'main')
             WHERE hidden <> 1 ORDER BY cid",
        )?
        .query_map([table], |row| {
            let hidden: i64 = row.get(1)?;
            Ok(DeclaredColumn {
                name: row.get(0)?,
                declared_type: row.get(3)?,
                generated: hidden > 1,
                key_place: row.get(2)?,
            })
        })?
        .collect()
}

/// Statement that made a table.
fn declaration(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let sql = "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1";
    let sql = connection.query_row(sql, [table], |row| schema_text(row, 0)).optional()?;
    Ok(sql.flatten().unwrap_or_default())
}

/// A text of `sqlite_schema`, to be looked at and not run. Bytes that are not UTF-8, as a comment
/// may have, are U+FFFD.
pub fn schema_text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let text = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
}

/// Returns true if a DEFAULT may depend on the row before. A name that only looks like such a
/// function costs speed, no more.
fn tells_of_rows_before(words: &[SqlWord<'_>]) -> bool {
    FUNCTIONS_OF_ROWS_BEFORE.iter().any(|name| words.iter().any(|it| it.may_name(name)))
}

fn indexes(connection: &Connection, table: &str) -> rusqlite::Result<Vec<DeclaredIndex>> {
    let mut indexes = connection
        .prepare(
            "SELECT name, \"unique\", origin, partial FROM pragma_index_list(?1, 'main')
             ORDER BY seq DESC",
        )?
        .query_map([table], |row| {
            Ok(DeclaredIndex {
                name: row.get(0)?,
                unique: row.get(1)?,
                origin: row.get(2)?,
                partial: row.get(3)?,
                columns: Vec::new(),
            })
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut statement = connection.prepare(
        "SELECT name, coll, \"desc\" FROM pragma_index_xinfo(?1, 'main') WHERE key ORDER BY seqno",
    )?;
    for index in &mut indexes {
        let read = |row: &Row<'_>| {
            let name: Option<String> = row.get(0)?;
            let (collation, descending) = (row.get(1)?, row.get(2)?);
            Ok(name.map(|name| OrderColumn { name, collation, descending }))
        };
        index.columns =
            statement.query_map([&index.name], read)?.collect::<rusqlite::Result<_>>()?;
    }
    Ok(indexes)
}
