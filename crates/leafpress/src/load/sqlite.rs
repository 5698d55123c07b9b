//! Where SQLite itself is asked: is the schema one, and is the file one.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::schema::{TableSchema, quote_identifier};

/// Lets SQLite run the CREATE TABLE on an empty database: names, number of
/// columns and reserved words are its to judge.
pub fn check_schema(schema: &TableSchema) -> Result<()> {
    let refused = |source| {
        Error::sqlite("create the table", source)
            .to_do("name the table with --table and the columns with --columns")
    };
    let connection = Connection::open_in_memory().map_err(refused)?;
    connection.execute_batch(&schema.create_sql()).map_err(refused)
}

/// Lets SQLite open the finished file and read the table's ends: the last look
/// before it gets its name.
pub fn check_with_sqlite(database: &Path, schema: &TableSchema) -> Result<()> {
    let refused = |source| {
        Error::sqlite("read the finished database", source).to_do(
            "this is a bug in leafpress: please report it with the command and the input's header",
        )
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(refused)?;
    let table = quote_identifier(&schema.table);
    // A column of that name hides the rowid, and would have to be sorted.
    let orders = match schema.column_index("rowid") {
        None => &["ORDER BY rowid ASC", "ORDER BY rowid DESC"][..],
        Some(_) => &[""],
    };
    for order in orders {
        let sql = format!("SELECT * FROM {table} {order} LIMIT 1");
        let mut statement = connection.prepare(&sql).map_err(refused)?;
        let mut rows = statement.query([]).map_err(refused)?;
        rows.next().map_err(refused)?;
    }
    Ok(())
}
