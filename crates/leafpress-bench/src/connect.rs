//! Connections of SQLite and of the Writer. Every family opens and closes them in one way, and
//! looks at what a rung left.
//!
//! Must never: set anything that could make one rival faster than the other.

use std::path::Path;

use leafpress::writer::Writer;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::report::Safety;

/// Opens a rival's database, new or not, through this VFS if one is named.
pub(crate) fn open(database: &Path, vfs: Option<&str>) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    open_with(database, flags, vfs).map_err(Error::sqlite("open the rival's database"))
}

/// Opens a database to read it.
pub(crate) fn open_reader(database: &Path, vfs: Option<&str>) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    open_with(database, flags, vfs).map_err(Error::sqlite("open the database to read it"))
}

fn open_with(database: &Path, flags: OpenFlags, vfs: Option<&str>) -> rusqlite::Result<Connection> {
    match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(database, flags, vfs),
        None => Connection::open_with_flags(database, flags),
    }
}

/// Closes a database, so that the last connection leaves no file beside it.
pub(crate) fn close(connection: Connection) -> Result<()> {
    connection.close().map_err(|(_, error)| Error::sqlite("close the database")(error))
}

/// Opens a database under the profile of a promise, as a user of the library does: all defaults
/// hold.
pub(crate) fn open_writer(safety: Safety, database: &Path, vfs: Option<&str>) -> Result<Writer> {
    let mut builder = Writer::builder(database).profile(safety.profile());
    if safety == Safety::Rebuildable {
        builder = builder.rebuildable_ok();
    }
    if let Some(vfs) = vfs {
        builder = builder.vfs(vfs);
    }
    Ok(builder.open()?)
}

/// Reads what a rung left: the rows in the words of `read`, then the journal mode, and the
/// verdict of `integrity_check` if it is wanted.
pub(crate) fn look(
    database: &Path,
    is_checked: bool,
    read: impl FnOnce(&Connection) -> rusqlite::Result<String>,
) -> Result<String> {
    let connection = open_reader(database, None)?;
    let look = || -> rusqlite::Result<String> {
        let rows = read(&connection)?;
        let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
        let journal_mode = text("PRAGMA journal_mode")?;
        let verdict = if is_checked { text("PRAGMA integrity_check(1)")? } else { "ok".to_owned() };
        Ok(format!("{rows}; {journal_mode}; {verdict}"))
    };
    look().map_err(Error::sqlite("read what the rung left"))
}
