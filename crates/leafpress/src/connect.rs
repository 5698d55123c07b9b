//! The one place that opens connections.
//!
//! Before the first is opened, locks are made to belong to descriptors
//! ([`crate::vfs::locks`]); a connection that came before could lose its own.
//!
//! Must never: set anything on the connection.
#![allow(clippy::disallowed_methods, reason = "the one place that opens connections")]

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::vfs::gathered_database::gathered_database_vfs;
use crate::vfs::gathered_log::gathered_log_vfs;
use crate::vfs::locks;

/// Opens a database through the default VFS. A connection that may write to a write-ahead log
/// gathers its writes, where that VFS is the platform's.
///
/// # Errors
/// SQLite's.
pub(crate) fn open(path: impl AsRef<Path>, flags: OpenFlags) -> rusqlite::Result<Connection> {
    locks::ensure();
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
    Connection::open_with_flags_and_vfs(path, flags, vfs)
}
