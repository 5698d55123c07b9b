//! Rules after a sync that failed.
//!
//! Linux forgets pages that it could not write: the next sync succeeds, and the disk still lacks them
//! (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020). Two things follow.
//!
//! 1. **A checkpoint's sync failed.** Pages that were copied into the database may be lost, though SQLite
//!    counts them as copied. The log has them all, so it is left as it is: once all connections are closed,
//!    the next opening reads it from its start and copies all of it.
//! 2. **A sync of the log failed.** At the next opening SQLite reads frames from the system's memory that
//!    the disk lacks. After a power cut it would read the log up to the first frame that is missing, so
//!    commits behind that would be lost; and a checkpoint would leave newer pages beside older frames. So
//!    the log is written once more, and synced, before the first commit and the first checkpoint. Until
//!    then no connection copies it when it is closed, which may be at once: after an error, or a look.
//!
//! No file tells that a sync has failed. So each log is written again that is not empty when this process
//! begins to use it, if no other process uses it then: a process that ended as it should left none. Two
//! that begin at the same moment may each take the other for one that has used it all the time.
//!
//! Must never: write to a log without SQLite's write lock.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ffi};

use crate::error::{Error, Result};
use crate::file_kind::length_bytes;
use crate::paths::companion_of;
pub(crate) use crate::vfs::locks::LogOnDisk;
use crate::vfs::{database_file, locks};

/// State of a database whose log is not copied.
pub(crate) const STILL_IN_THE_WAL: &str =
    "every commit is in the database or its -wal file, which belong together";

/// Keeps a log that is not empty from being copied when the connection closes, until [`make_log_whole`] has
/// seen to it. One that is empty now holds nothing that the disk may lack.
pub(crate) fn leave_found_log(connection: &Connection) {
    if database_file::path(connection).is_some_and(|path| has_log(&path)) {
        leave_wal_as_it_is(connection);
    }
}

/// Sees to it that the disk has all of the log that SQLite reads, if that is not known; from then on it may be
/// copied when the connection closes. Waits for the write lock as long as the connection does; changes no
/// row. `refused` makes SQLite's answer an error.
///
/// # Errors
/// SQLite's, or `SQLITE_INTERRUPT` once `stop` returns true; or the sync of a checkpoint has failed for a
/// connection of this process that may still be open. Then SQLite would go on behind pages that it counts as
/// copied.
pub(crate) fn make_log_whole(
    connection: &Connection,
    stop: &dyn Fn() -> bool,
    refused: impl Fn(rusqlite::Error) -> Error,
) -> Result<()> {
    let Some(path) = database_file::path(connection) else { return Ok(()) };
    let path = path.as_path();
    match locks::log_on_disk(path) {
        LogOnDisk::Whole => {}
        LogOnDisk::Uncopied => {
            let reason = "a sync of its log or of a checkpoint has failed, and connections of this \
                 process still use it: only its -wal file has all pages";
            return Err(Error::destination(path, reason).on_disk(STILL_IN_THE_WAL).to_do(
                "close all its connections in this process, readers too, and open it again",
            ));
        }
        LogOnDisk::Unknown if has_log(path) => {
            connection.execute_batch("BEGIN IMMEDIATE").map_err(&refused)?;
            // The connection may not have used the log before.
            let written = match locks::log_on_disk(path) {
                LogOnDisk::Whole => Ok(()),
                _ => database_file::write_log_again(connection, stop),
            };
            if written.is_ok() {
                locks::note_log_on_disk(path, LogOnDisk::Whole);
            }
            connection.execute_batch("ROLLBACK").map_err(&refused)?;
            written.map_err(&refused)?;
        }
        LogOnDisk::Unknown => locks::note_log_on_disk(path, LogOnDisk::Whole),
    }
    let copied = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
    copied.map(drop).map_err(refused)
}

fn has_log(database: &Path) -> bool {
    length_bytes(&companion_of(database, "-wal")).is_some_and(|bytes| bytes > 0)
}

/// Returns true if the error is that of a sync.
pub(crate) fn is_failed_sync(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
}

/// Keeps the log from being copied when the connection closes, also if it is the last one.
pub(crate) fn leave_wal_as_it_is(connection: &Connection) {
    if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::warn!(%error, "closing may copy the WAL");
    }
}

/// Notes the state of the log after a failed sync, for the next that opens the database in this process.
pub(crate) fn note_log(connection: &Connection, log: LogOnDisk) {
    if let Some(path) = database_file::path(connection) {
        locks::note_log_on_disk(&path, log);
    }
}

/// Leaves the log as it is if this error of a checkpoint is that of a sync; returns true then.
pub(crate) fn leave_wal_if_unsynced(connection: &Connection, error: &rusqlite::Error) -> bool {
    let is_unsynced = is_failed_sync(error);
    if is_unsynced {
        leave_wal_as_it_is(connection);
        note_log(connection, LogOnDisk::Uncopied);
    }
    is_unsynced
}
