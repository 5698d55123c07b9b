//! A table that is in a database, as SQLite's pragmas tell of it: as far as it matters to an
//! insert.
//!
//! Must never: change the database that is asked.

use leafpress_format::Affinity;
use rusqlite::{Connection, OptionalExtension as _};

use super::sql_words::{SqlWord, sql_words};
use super::table::quote_identifier;

/// Functions that may stand in a DEFAULT and tell of the row before.
const FUNCTIONS_OF_ROWS_BEFORE: [&str; 3] = ["last_insert_rowid", "changes", "total_changes"];

/// A table's declaration.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct DeclaredTable {
    /// Its name, as declared.
    pub name: String,
    /// Whether it is a virtual one.
    pub is_virtual: bool,
    /// Whether it is one B-tree in the order of its key.
    pub without_rowid: bool,
    /// Whether a value of another class than its column's is refused.
    pub strict: bool,
    /// Whether its declaration may make what is stored depend on the order of
    /// the rows: an ON CONFLICT, or a DEFAULT that tells of the row before.
    pub is_order_declared: bool,
    /// True if its declaration may say what becomes of a row whose key is there.
    pub declares_conflicts: bool,
    /// Its columns in order.
    pub columns: Vec<DeclaredColumn>,
    /// The column that is the rowid.
    pub rowid_alias: Option<String>,
    /// Its indexes, automatic ones too.
    pub indexes: Vec<DeclaredIndex>,
    /// Names of its triggers.
    pub triggers: Vec<String>,
    /// Whether its rows refer to others.
    pub is_child: bool,
    /// Whether its declaration may have foreign keys that need hold only in the end.
    pub has_deferred_keys: bool,
    /// Foreign keys of other tables that refer to its rows: table, and what
    /// becomes of the rows there when one here goes.
    pub referring: Vec<(String, String)>,
}

/// A column.
#[derive(Debug, Clone)]
pub struct DeclaredColumn {
    /// Its name.
    pub name: String,
    /// Its declared type, as written; empty if there is none.
    pub declared_type: String,
    /// Computed from others.
    pub generated: bool,
    /// Its place in the primary key, from 1; 0 if it is not part of it.
    pub key_place: u32,
}

/// An index.
#[derive(Debug, Clone)]
pub struct DeclaredIndex {
    /// Its name.
    pub name: String,
    /// Whether its keys differ.
    pub unique: bool,
    /// `c` for CREATE INDEX, `u` for a UNIQUE constraint, `pk` for a primary key.
    pub origin: String,
    /// Whether it has only some of the rows.
    pub partial: bool,
    /// Its columns; `None` where it has an expression.
    pub columns: Vec<Option<OrderColumn>>,
}

/// A column of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderColumn {
    /// Its name.
    pub name: String,
    /// How its texts compare.
    pub collation: String,
    /// Whether it descends.
    pub descending: bool,
}

/// Columns as SQL lists them.
#[derive(Debug, Clone)]
pub struct ColumnList {
    /// The names, quoted, with commas.
    pub sql: String,
    /// How many there are.
    pub count: usize,
}

impl ColumnList {
    /// Lists names.
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let names: Vec<String> = names.map(quote_identifier).collect();
        Self { count: names.len(), sql: names.join(", ") }
    }
}

impl DeclaredTable {
    /// Reads the declaration of a table of the main database. SQLite takes
    /// its name in any case.
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
        declared.declares_conflicts =
            words.windows(2).any(|it| it[0].is("ON") && it[1].is("CONFLICT"));
        declared.is_order_declared = declared.declares_conflicts || tells_of_rows_before(&words);
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

    /// What a column does to values stored in it.
    pub fn affinity(&self, column: &DeclaredColumn) -> Affinity {
        if self.strict && column.declared_type.eq_ignore_ascii_case("ANY") {
            Affinity::Blob
        } else {
            Affinity::of_declared_type(&column.declared_type)
        }
    }

    /// A name under which SQL reaches the rowid; none if columns hide it.
    pub fn rowid_name(&self) -> Option<&'static str> {
        let is_hidden = |name: &&str| self.column(name).is_some();
        let mut names = ["rowid", "_rowid_", "oid"].into_iter();
        names.find(|name| !is_hidden(name)).filter(|_| !self.without_rowid)
    }

    /// A column by its name, in any case.
    pub fn column(&self, name: &str) -> Option<&DeclaredColumn> {
        self.columns.iter().find(|it| it.name.eq_ignore_ascii_case(name))
    }

    /// The columns that take a value, and the rowid if none of them is it.
    pub fn columns_with_rowid(&self) -> ColumnList {
        let rowid = self.rowid_name().filter(|_| self.rowid_alias.is_none());
        let columns = self.columns.iter().filter(|it| !it.generated).map(|it| it.name.as_str());
        ColumnList::new(rowid.into_iter().chain(columns))
    }

    /// How many keys it has in which no two rows are the same.
    pub fn unique_keys(&self) -> usize {
        self.indexes.iter().filter(|it| it.unique).count() + usize::from(self.rowid_alias.is_some())
    }

    /// Whether its rows may refer to one another.
    pub fn refers_to_itself(&self) -> bool {
        self.referring.iter().any(|(child, _)| child.eq_ignore_ascii_case(&self.name))
    }

    /// The columns of the primary key, in its order; empty if there is none.
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

/// The statement that made a table.
fn declaration(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let sql = "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1";
    let sql: Option<Option<String>> =
        connection.query_row(sql, [table], |row| row.get(0)).optional()?;
    Ok(sql.flatten().unwrap_or_default())
}

/// A name that only looks like it costs speed, no more.
fn tells_of_rows_before(words: &[SqlWord<'_>]) -> bool {
    FUNCTIONS_OF_ROWS_BEFORE.iter().any(|name| words.iter().any(|it| it.is(name)))
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
        let read = |row: &rusqlite::Row<'_>| {
            let name: Option<String> = row.get(0)?;
            let (collation, descending) = (row.get(1)?, row.get(2)?);
            Ok(name.map(|name| OrderColumn { name, collation, descending }))
        };
        index.columns =
            statement.query_map([&index.name], read)?.collect::<rusqlite::Result<_>>()?;
    }
    Ok(indexes)
}
