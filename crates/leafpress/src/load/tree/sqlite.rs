//! SQLite's part in a finished file: adds what cannot be pressed, and checks the file.

use std::path::Path;

use rusqlite::OpenFlags;

use crate::connect;
use crate::error::{Error, Result};
use crate::load::tree::RowOrder;
use crate::schema::quote_identifier;
use crate::schema::shape::TableShape;

/// Has SQLite add the parts of the declaration that cannot be pressed: partial indexes and those
/// over expressions, views, other tables. No other program knows the file yet, so neither journal
/// nor sync is needed.
pub fn complete_by_sql(
    database: &Path,
    shape: &TableShape,
    order: RowOrder,
    analyze: bool,
) -> Result<()> {
    if order == RowOrder::ThroughSql {
        return Ok(());
    }
    let indexes = shape.indexes.iter().filter(|index| index.through_sql.is_some());
    let statements: Vec<_> =
        indexes.filter_map(|index| index.sql.clone()).chain(shape.beside.clone()).collect();
    if statements.is_empty() {
        return Ok(());
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
    connection.close().map_err(|(_, source)| refused(source))
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
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connect::open(database, flags).map_err(refused)?;
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
