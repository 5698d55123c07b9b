//! The one place of this crate that opens connections, all of them for reading but one in memory.

use std::path::Path;

use leafpress::{Error, Result, quote_identifier};
use leafpress_format::Affinity;
use rusqlite::{Connection, OpenFlags};

use crate::manifest::Schema;

/// Flags of a connection that reads, of one thread at a time.
const READ_ONLY: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens a database that no process writes.
///
/// # Errors
/// [`ErrorKind::Sqlite`](leafpress::ErrorKind::Sqlite) if it cannot be opened.
#[expect(clippy::disallowed_methods, reason = "the one place that opens connections")]
pub fn read_only(path: &Path) -> Result<Connection> {
    Connection::open_with_flags(path, READ_ONLY)
        .map_err(|source| Error::sqlite("open a part", source))
}

/// Number of rows of a table.
///
/// # Errors
/// [`ErrorKind::Sqlite`](leafpress::ErrorKind::Sqlite) if it cannot be read.
pub fn rows_of(connection: &Connection, table: &str) -> Result<u64> {
    let sql = format!("SELECT count(*) FROM {}", quote_identifier(table));
    let count = connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
    count.map(|rows| rows as u64).map_err(|source| Error::sqlite("count rows", source))
}

/// Opens a database as [`read_only`] does, through a VFS.
///
/// # Errors
/// [`ErrorKind::Sqlite`](leafpress::ErrorKind::Sqlite) if it cannot be opened.
#[cfg(feature = "object-store")]
#[expect(clippy::disallowed_methods, reason = "the one place that opens connections")]
pub fn read_only_through(path: &Path, vfs: &std::ffi::CStr) -> Result<Connection> {
    Connection::open_with_flags_and_vfs(path, READ_ONLY, vfs)
        .map_err(|source| Error::sqlite("open a part", source))
}

/// Affinities that a comparison with each of these columns applies to a value without one, as a parameter
/// is. The parts are not opened for that: in a store they may be far away.
///
/// # Errors
/// [`ErrorKind::Sqlite`](leafpress::ErrorKind::Sqlite) if SQLite refuses the schema;
/// [`ErrorKind::Misuse`](leafpress::ErrorKind::Misuse) for a column of another collation than BINARY: texts that
/// are equal there may be in several parts.
pub fn affinities(schema: &Schema, columns: &[String]) -> Result<Vec<Affinity>> {
    let failed = |source| Error::sqlite("read the schema of the parts", source);
    let connection = Connection::open_in_memory().map_err(failed)?;
    if let Some(table) = schema.sql.iter().find(|sql| sql.starts_with("CREATE TABLE")) {
        connection.execute(table, []).map_err(failed)?;
    }
    let sql = "SELECT it.type, list.strict FROM pragma_table_xinfo(?1) AS it
               JOIN pragma_table_list(?1) AS list WHERE it.name = ?2 COLLATE NOCASE";
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let mut found = Vec::with_capacity(columns.len());
    for column in columns {
        let declared = statement.query_row([&schema.table, column], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?))
        });
        found.push(match declared {
            Ok((declared, is_strict)) => {
                refuse_collation(&connection, &schema.table, column)?;
                compared(&declared, is_strict)
            }
            // A manifest may say nothing of its schema.
            Err(rusqlite::Error::QueryReturnedNoRows) => Affinity::Blob,
            Err(error) => return Err(failed(error)),
        });
    }
    Ok(found)
}

fn refuse_collation(connection: &Connection, table: &str, column: &str) -> Result<()> {
    let (table, quoted) = (quote_identifier(table), quote_identifier(column));
    // An index takes over the collation of its column.
    let index = format!("CREATE INDEX leafpress_collation ON {table}({quoted})");
    let sql = "SELECT coll FROM pragma_index_xinfo('leafpress_collation') WHERE key = 1";
    let found = connection
        .execute(&index, [])
        .and_then(|_| connection.query_row(sql, [], |row| row.get::<_, String>(0)))
        .and_then(|found| connection.execute("DROP INDEX leafpress_collation", []).map(|_| found));
    let found = found.map_err(|source| Error::sqlite("read the schema of the parts", source))?;
    if found.eq_ignore_ascii_case("BINARY") {
        return Ok(());
    }
    Err(Error::misuse(format!(
        "column {column:?} has the collation {found}, and rows are split by the bytes of their texts: \
         those that are equal there may be in several parts"
    ))
    .to_do("declare the column without a collation, and compare with COLLATE in queries of all parts"))
}

/// Affinity that a comparison with a column of this declared type applies to the other value. Those of
/// numbers are one then: a real that a column stores is not what a comparison makes of its integer.
fn compared(declared: &str, is_strict: bool) -> Affinity {
    if is_strict && declared.eq_ignore_ascii_case("ANY") {
        return Affinity::Blob;
    }
    match Affinity::of_declared_type(declared) {
        Affinity::Integer | Affinity::Real | Affinity::Numeric => Affinity::Numeric,
        other => other,
    }
}
