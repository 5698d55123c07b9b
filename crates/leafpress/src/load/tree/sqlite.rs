//! SQLite's part in a finished file: adds what cannot be pressed, and checks the file.

use std::path::Path;
use std::time::Duration;

use leafpress_format::{PageLayout, SchemaEntry, SchemaKind};
use rusqlite::{Connection, OpenFlags, Row};

use crate::connect;
use crate::error::{Error, Result};
use crate::load::long_statements::{end_if, set_sorter};
use crate::load::options::{CancelToken, LoadOptions};
use crate::load::tree::RowOrder;
use crate::refusal::Refusal;
use crate::schema::quote_identifier;
use crate::schema::shape::{IndexShape, TableShape};
use crate::sqlite_error::is_fault_of_a_row;

/// Opens the file that is built for SQLite to write to; the token ends what runs too long.
pub fn open_built(path: &Path, cancel: &CancelToken) -> rusqlite::Result<Connection> {
    let mut connection = connect::open(path, OpenFlags::default())?;
    let cancel = cancel.clone();
    end_if(&mut connection, move || cancel.is_cancelled())?;
    Ok(connection)
}

/// The error for SQLite's answer while it writes to the file that is built.
pub fn not_built(action: &'static str, path: &Path, source: rusqlite::Error) -> Error {
    Refusal { named: path, file: Some(path), waited: Duration::ZERO }.error(action, source)
}

/// Has SQLite make a declared index of the rows that are there.
pub fn make_index(connection: &Connection, index: &IndexShape, path: &Path) -> Result<()> {
    let sql = index.sql.as_deref().unwrap_or_default();
    connection.execute_batch(sql).map_err(|source| {
        let advice = is_fault_of_a_row(&source).then(|| {
            format!("find the row that the index {} cannot take, and correct it", index.name)
        });
        let error = not_built("make the index", path, source);
        match advice {
            Some(advice) => error.to_do(advice),
            None => error,
        }
    })
}

/// Has SQLite add the parts of the declaration that cannot be pressed: partial indexes and those
/// over expressions, views, other tables. No other program knows the file yet, so neither journal
/// nor sync is needed. Returns true if the file was changed.
pub fn complete_by_sql(
    database: &Path,
    shape: &TableShape,
    order: RowOrder,
    options: &LoadOptions,
) -> Result<bool> {
    if order == RowOrder::ThroughSql {
        return Ok(false);
    }
    if shape.is_pressed_whole() && shape.beside.is_empty() {
        return Ok(false);
    }
    let refused = |source| not_built("complete the database", database, source);
    let connection = open_built(database, &options.cancel).map_err(refused)?;
    let run = |sql: &str| connection.execute_batch(sql).map_err(refused);
    set_sorter(&connection, options.threads).map_err(refused)?;
    run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN")?;
    let mut indexes = shape.indexes.iter().filter(|index| index.through_sql.is_some());
    indexes.try_for_each(|index| make_index(&connection, index, database))?;
    shape.beside.iter().try_for_each(|sql| run(sql))?;
    run("COMMIT")?;
    // In other cases the statistics were counted while pressing.
    if options.analyze && !shape.is_pressed_whole() {
        run("ANALYZE")?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::schema::describe::describe;

    /// A file with a table, and the declaration of it with an index that SQLite makes.
    fn built(folder: &Path) -> (std::path::PathBuf, TableShape) {
        let (path, table) = (folder.join("a.db"), "CREATE TABLE t(a)");
        let connection = open_built(&path, &CancelToken::new()).expect("a database");
        let rows = "WITH n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n LIMIT 10000)
                    INSERT INTO t SELECT '{' || i FROM n";
        connection.execute_batch(&format!("{table}; {rows}")).expect("rows");
        let index = "CREATE INDEX i ON t(json_valid(a))".to_owned();
        (path, describe(&[table.to_owned(), index], None).expect("a table"))
    }

    #[test]
    fn a_cancelled_load_ends_while_sqlite_makes_an_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, shape) = built(folder.path());
        let options = LoadOptions::new(path.clone());
        options.cancel.cancel();
        let error = complete_by_sql(&path, &shape, RowOrder::Ascending, &options);
        let error = error.expect_err("it is cancelled");
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        let full = rusqlite::Error::SqliteFailure(full, None);
        let error = not_built("insert a row", Path::new("a.db"), full);
        assert_eq!(error.kind().name(), "no_space");
        assert!(error.to_string().contains("to do: free some space"), "{error}");
    }

    #[test]
    fn an_index_that_cannot_take_a_row_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, _) = built(folder.path());
        let index = "CREATE INDEX odd ON t(json_extract(a, '$'))".to_owned();
        let shape = describe(&["CREATE TABLE t(a)".to_owned(), index], None).expect("a table");
        let options = LoadOptions::new(path.clone());
        let error = complete_by_sql(&path, &shape, RowOrder::Ascending, &options);
        let error = error.expect_err("no row is JSON").to_string();
        assert!(error.contains("malformed JSON") && error.contains("the index odd"), "{error}");
    }
}
