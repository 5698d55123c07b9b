//! The one place that opens connections.
//!
//! Before the first is opened, locks are made to belong to descriptors
//! ([`crate::vfs::locks`]); a connection that came before could lose its own.
//!
//! Must never: set anything on the connection, or let SQLite take a path for a URI. The bundled
//! SQLite is built to follow all names that begin with `file:`.
#![allow(clippy::disallowed_methods, reason = "the one place that opens connections")]

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::vfs::gathered_database::gathered_database_vfs;
use crate::vfs::gathered_log::gathered_log_vfs;
use crate::vfs::locks;

/// Flags of a connection that reads, of one thread at a time.
pub(crate) const READ_ONLY: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
/// Flags of a connection that reads and writes, of one thread at a time.
pub(crate) const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Longest wait for a lock that SQLite takes: it counts milliseconds in 32 bits.
pub(crate) const BUSY_TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// Opens a database through the default VFS. A connection that may write to a write-ahead log
/// gathers its writes, where that VFS is the platform's.
///
/// # Errors
/// SQLite's.
pub(crate) fn open(path: impl AsRef<Path>, flags: OpenFlags) -> rusqlite::Result<Connection> {
    locks::ensure();
    let path = as_path(path.as_ref(), flags);
    let may_write = flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
    match gathered_log_vfs().filter(|_| may_write) {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs),
        None => Connection::open_with_flags(path, flags),
    }
}

/// Opens a database as [`open`], for a transaction that may change most of its pages: writes to the database
/// are gathered too. The connection must never have `synchronous = OFF`.
///
/// # Errors
/// SQLite's.
pub(crate) fn open_for_bulk(
    path: impl AsRef<Path>,
    flags: OpenFlags,
) -> rusqlite::Result<Connection> {
    locks::ensure();
    let path = as_path(path.as_ref(), flags);
    match gathered_database_vfs() {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs),
        None => open(path, flags),
    }
}

/// Opens a database through a VFS, or the default one.
///
/// # Errors
/// SQLite's.
pub(crate) fn open_through(
    path: impl AsRef<Path>,
    flags: OpenFlags,
    vfs: Option<&str>,
) -> rusqlite::Result<Connection> {
    let Some(vfs) = vfs else { return open(path, flags) };
    locks::ensure();
    Connection::open_with_flags_and_vfs(as_path(path.as_ref(), flags), flags, vfs)
}

/// Reads from the database, so that what SQLite does at its first read happens now: it plays back a journal,
/// or opens the log, and a transaction that `BEGIN` has declared gets its lock and its moment.
///
/// # Errors
/// SQLite's.
pub(crate) fn begin_read(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// The path in a form that SQLite takes for one, unless the flags ask for a URI.
fn as_path(path: &Path, flags: OpenFlags) -> Cow<'_, Path> {
    let looks_like_uri = path.as_os_str().as_encoded_bytes().starts_with(b"file:");
    if looks_like_uri && !flags.contains(OpenFlags::SQLITE_OPEN_URI) {
        Path::new(".").join(path).into()
    } else {
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_uri_unless_the_flags_say_so() {
        // The folder `file:` makes the path a URI with a parameter, if SQLite follows it.
        let name = "file:none/a.db?mode=memory";
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let opened = |flags| {
            let all = [open(name, flags), open_for_bulk(name, flags)];
            all.into_iter().chain([open_through(name, flags, None)]).flatten().count()
        };
        assert_eq!(opened(flags), 0);
        assert_eq!(opened(flags | OpenFlags::SQLITE_OPEN_URI), 3);
    }
}
