//! SQLite's part in a finished file: adds what cannot be pressed, and checks the file.

use std::path::Path;

use leafpress_format::{PageLayout, SchemaEntry, SchemaKind};
use rusqlite::{OpenFlags, Row};

use crate::connect;
use crate::error::{Error, Result};
use crate::load::tree::RowOrder;
use crate::schema::quote_identifier;
use crate::schema::shape::TableShape;

/// Has SQLite add the parts of the declaration that cannot be pressed: partial indexes and those
/// over expressions, views, other tables. No other program knows the file yet, so neither journal
/// nor sync is needed. Returns true if the file was changed.
pub fn complete_by_sql(
    database: &Path,
    shape: &TableShape,
    order: RowOrder,
    analyze: bool,
) -> Result<bool> {
    if order == RowOrder::ThroughSql {
        return Ok(false);
    }
    let indexes = shape.indexes.iter().filter(|index| index.through_sql.is_some());
    let statements: Vec<_> =
        indexes.filter_map(|index| index.sql.clone()).chain(shape.beside.clone()).collect();
    if statements.is_empty() {
        return Ok(false);
    }
    let refused = |source| Error::sqlite("complete the database", source);
    let connection = connect::open(database, OpenFlags::default()).map_err(refused)?;
    // In other cases the statistics were counted while pressing.
    let analyze = if analyze && !shape.is_pressed_whole() { "ANALYZE" } else { "" };
    let sql = format!(
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN; {}; COMMIT; {analyze}",
        statements.join(";\n")
    );
    connection.execute_batch(&sql).map_err(refused)?;
    connection.close().map_err(|(_, source)| refused(source))?;
    Ok(true)
}

/// A finished file, as SQLite sees it.
#[derive(Debug)]
pub struct FileShape {
    pub layout: PageLayout,
    pub page_count: u32,
    /// The rows of its schema table, in order.
    pub schema: Vec<SchemaEntry>,
}

/// Reads the schema of a finished file.
pub fn file_shape(database: &Path) -> Result<FileShape> {
    let refused = |source| Error::sqlite("read the finished database", source);
    let connection = connect::open(database, connect::READ_ONLY).map_err(refused)?;
    let ask = |sql| connection.query_row(sql, [], |row| row.get::<_, u32>(0)).map_err(refused);
    let layout = PageLayout::new(ask("PRAGMA page_size")?)
        .map_err(|error| Error::bug(format!("a finished database has odd pages: {error}")))?;
    let page_count = ask("PRAGMA page_count")?;
    let sql = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema ORDER BY rowid";
    let mut statement = connection.prepare(sql).map_err(refused)?;
    let entry = |row: &Row<'_>| {
        Ok(SchemaEntry {
            kind: match row.get::<_, String>(0)?.as_str() {
                "table" => SchemaKind::Table,
                "index" => SchemaKind::Index,
                "view" => SchemaKind::View,
                _ => SchemaKind::Trigger,
            },
            name: row.get(1)?,
            table_name: row.get(2)?,
            root_page: row.get(3)?,
            sql: row.get(4)?,
        })
    };
    let schema = statement.query_map([], entry).and_then(Iterator::collect).map_err(refused)?;
    Ok(FileShape { layout, page_count, schema })
}

/// Has SQLite open the finished file and read the table's ends, as a last check before it gets its
/// name.
pub fn check_with_sqlite(database: &Path, shape: &TableShape) -> Result<()> {
    let refused = |source: rusqlite::Error| {
        use rusqlite::ErrorCode::{CannotOpen, OutOfMemory, SystemIoFailure};
        match source.sqlite_error_code() {
            Some(CannotOpen | OutOfMemory | SystemIoFailure) => {
                Error::sqlite("read the finished database", source)
            }
            _ => Error::bug(format!("SQLite cannot read the finished database: {source}"))
                .caused_by(source),
        }
    };
    let connection = connect::open(database, connect::READ_ONLY).map_err(refused)?;
    let table = quote_identifier(&shape.name);
    // A column of that name hides the rowid, and a query by it would sort.
    let has_rowid = shape.key.is_none()
        && !shape.columns.iter().any(|column| column.name.eq_ignore_ascii_case("rowid"));
    let orders = if has_rowid { &["ORDER BY rowid ASC", "ORDER BY rowid DESC"][..] } else { &[""] };
    for order in orders {
        let sql = format!("SELECT * FROM {table} {order} LIMIT 1");
        let mut statement = connection.prepare(&sql).map_err(refused)?;
        let mut rows = statement.query([]).map_err(refused)?;
        rows.next().map_err(refused)?;
    }
    Ok(())
}
