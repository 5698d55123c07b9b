//! The file of an open database and its log, as its own connection holds them.
//!
//! Used by the checkpointer, which must sync the database while the writer goes on, and by a writer
//! whose commits share the syncs of other processes.
//! A descriptor of our own would do the same, but closing it would drop every lock
//! that this process holds on the database, and it would pass by the VFS.

use std::ffi::{c_int, c_void};
use std::ptr;

use rusqlite::{Connection, ffi};

/// Syncs the file of the database `main`, through the connection's own VFS.
///
/// This includes bytes that other connections and processes wrote into the file. Does nothing for a
/// database that has no file.
///
/// # Errors
/// The VFS's own; bytes that were written before may not survive a power cut then.
pub fn sync(connection: &Connection) -> rusqlite::Result<()> {
    let failed = "the database file cannot be synced";
    sync_file(connection, ffi::SQLITE_FCNTL_FILE_POINTER, failed).map(drop)
}

/// Syncs the write-ahead log (or journal) of the database `main` in the same way.
///
/// # Errors
/// The VFS's own, or there is no log; bytes that were written before may not survive a power cut then.
pub fn sync_log(connection: &Connection) -> rusqlite::Result<()> {
    let failed = "the log cannot be synced";
    let was_there = sync_file(connection, ffi::SQLITE_FCNTL_JOURNAL_POINTER, failed)?;
    let none = || failure(ffi::SQLITE_IOERR_FSYNC, "there is no log that could be synced");
    was_there.then_some(()).ok_or_else(none)
}

/// Syncs the file to which the file control `which` gives a pointer; false if there is none.
fn sync_file(connection: &Connection, which: c_int, failed: &str) -> rusqlite::Result<bool> {
    let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
    // SAFETY: the handle is open as long as `connection` is borrowed, the name ends
    // with a zero, and this opcode writes one pointer, for which there is room.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            which,
            (&raw mut file).cast::<c_void>(),
        )
    };
    if code != ffi::SQLITE_OK {
        return Err(failure(code, failed));
    }
    // SAFETY: SQLite gave a pointer to the connection's open file, or null; the file
    // stays open as long as `connection` is borrowed. Its methods are null if it has
    // not been opened.
    let sync = unsafe {
        let methods = file.as_ref().and_then(|file| file.pMethods.as_ref());
        methods.and_then(|methods| methods.xSync)
    };
    let Some(sync) = sync else { return Ok(false) };
    // SAFETY: the method belongs to this file, which no other thread uses meanwhile: a
    // connection is not shared between threads, and its file not between connections.
    match unsafe { sync(file, ffi::SQLITE_SYNC_NORMAL) } {
        ffi::SQLITE_OK => Ok(true),
        code => Err(failure(code, failed)),
    }
}

/// Returns true if the name by which the database `main` was opened stands for another file
/// now, or for none; `None` if its VFS does not say.
pub fn has_moved(connection: &Connection) -> Option<bool> {
    let mut moved: c_int = 0;
    // SAFETY: the handle is open as long as `connection` is borrowed, the name ends with a
    // zero, and this opcode writes one integer, for which there is room.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_HAS_MOVED,
            (&raw mut moved).cast::<c_void>(),
        )
    };
    (code == ffi::SQLITE_OK).then_some(moved != 0)
}

fn failure(code: c_int, message: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_database_that_was_moved_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        assert_eq!(has_moved(&connection), Some(false));
        std::fs::rename(&path, folder.path().join("b.db")).unwrap();
        assert_eq!(has_moved(&connection), Some(true));
    }

    #[test]
    fn a_log_is_synced_and_one_that_is_not_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("a.db")).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        assert!(sync_log(&connection).is_err());
        connection.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO t VALUES (1)").unwrap();
        sync_log(&connection).unwrap();
    }

    #[test]
    fn a_database_without_a_file_has_nothing_to_sync() {
        let connection = Connection::open_in_memory().unwrap();
        sync(&connection).unwrap();
        let temporary = Connection::open("").unwrap();
        temporary.execute_batch("CREATE TABLE t (x)").unwrap();
        sync(&temporary).unwrap();
    }
}
