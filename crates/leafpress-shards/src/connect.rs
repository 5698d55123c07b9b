//! The one place of this crate that opens connections, all of them for reading.

use std::path::Path;

use leafpress::{Error, Result, quote_identifier};
use rusqlite::{Connection, OpenFlags};

/// Opens a database that no process writes.
///
/// # Errors
/// [`ErrorKind::Sqlite`](leafpress::ErrorKind::Sqlite) if it cannot be opened.
#[expect(clippy::disallowed_methods, reason = "the one place that opens connections")]
pub fn read_only(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|source| Error::sqlite("open a part", source))
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
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs(path, flags, vfs)
        .map_err(|source| Error::sqlite("open a part", source))
}
