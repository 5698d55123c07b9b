//! Questions to an open connection that rusqlite does not ask in the way we need.
//!
//! Used by the writer (is a foreign key still open before a RELEASE?), by the
//! checkpointer (how far did a checkpoint come?) and by the profiles (how was
//! this SQLite built?). Nothing here changes a setting of the connection.

use std::ffi::{CString, c_int};

use rusqlite::{Connection, ffi};

/// How far a checkpoint goes, and for whom it waits (SQLite's own modes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointMode {
    /// As much as goes without waiting for anybody.
    Passive,
    /// Waits for the writer and for readers of old snapshots; all frames are copied.
    Full,
    /// As `Full`, then waits until nobody reads the WAL: the next writer starts it anew.
    Restart,
    /// As `Restart`, and the WAL file is cut to zero bytes.
    Truncate,
}

/// What a checkpoint came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointResult {
    /// Somebody stood in the way: another checkpointer, a writer or a reader. With
    /// [`Passive`](CheckpointMode::Passive) only the first shows here; readers show
    /// as `checkpointed_frames < log_frames`.
    pub(crate) busy: bool,
    /// Frames in the WAL. `None`: the database is not in WAL mode, or nothing was done.
    pub(crate) log_frames: Option<u32>,
    /// How many of them the database file holds now, those copied earlier included.
    pub(crate) checkpointed_frames: Option<u32>,
}

/// Is a deferred foreign key broken in the open transaction, so that COMMIT would fail?
///
/// Costs well under a microsecond; says `false` outside a transaction.
pub(crate) fn unresolved_deferred_keys(connection: &Connection) -> bool {
    let (mut current, mut highest): (c_int, c_int) = (0, 0);
    // SAFETY: the handle is open as long as `connection` is borrowed, and the two
    // numbers outlive the call.
    let code = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_DEFERRED_FKS,
            &raw mut current,
            &raw mut highest,
            0,
        )
    };
    code == ffi::SQLITE_OK && current != 0
}

/// Runs a checkpoint of the database `main`.
///
/// Waits for others as long as the connection's `busy_timeout` says, except with
/// [`Passive`](CheckpointMode::Passive). rusqlite has this call, but there a busy
/// checkpoint is an error without its two numbers.
///
/// # Errors
/// An I/O error or a full disk (the WAL still holds all frames, nothing is lost),
/// or `SQLITE_LOCKED` if `connection` itself is in a write transaction. That others
/// stand in the way is no error: see [`CheckpointResult::busy`].
pub(crate) fn checkpoint(
    connection: &Connection,
    mode: CheckpointMode,
) -> rusqlite::Result<CheckpointResult> {
    let mode = match mode {
        CheckpointMode::Passive => ffi::SQLITE_CHECKPOINT_PASSIVE,
        CheckpointMode::Full => ffi::SQLITE_CHECKPOINT_FULL,
        CheckpointMode::Restart => ffi::SQLITE_CHECKPOINT_RESTART,
        CheckpointMode::Truncate => ffi::SQLITE_CHECKPOINT_TRUNCATE,
    };
    let (mut log_frames, mut checkpointed_frames): (c_int, c_int) = (-1, -1);
    // SAFETY: the handle is open as long as `connection` is borrowed, the name ends
    // with a zero, and the two numbers outlive the call.
    let code = unsafe {
        ffi::sqlite3_wal_checkpoint_v2(
            connection.handle(),
            c"main".as_ptr(),
            mode,
            &raw mut log_frames,
            &raw mut checkpointed_frames,
        )
    };
    let busy = code & 0xff == ffi::SQLITE_BUSY;
    if code != ffi::SQLITE_OK && !busy {
        // SAFETY: as above.
        let code = unsafe { ffi::sqlite3_extended_errcode(connection.handle()) };
        let message = last_message(connection);
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message)));
    }
    Ok(CheckpointResult {
        busy,
        log_frames: u32::try_from(log_frames).ok(),
        checkpointed_frames: u32::try_from(checkpointed_frames).ok(),
    })
}

/// Was the SQLite that is linked compiled with this option? With or without `SQLITE_`.
pub(crate) fn compile_option_used(option: &str) -> bool {
    let Ok(option) = CString::new(option) else { return false };
    // SAFETY: the name ends with a zero and outlives the call.
    unsafe { ffi::sqlite3_compileoption_used(option.as_ptr()) != 0 }
}

fn last_message(connection: &Connection) -> String {
    // SAFETY: the handle is open, and the text is copied before anything else is
    // asked of this connection, which is not shared between threads.
    unsafe {
        std::ffi::CStr::from_ptr(ffi::sqlite3_errmsg(connection.handle()))
            .to_string_lossy()
            .into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wal_database(folder: &tempfile::TempDir) -> Connection {
        let connection = Connection::open(folder.path().join("a.db")).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
                 CREATE TABLE t (x); INSERT INTO t VALUES (1);",
            )
            .unwrap();
        connection
    }

    #[test]
    fn a_checkpoint_tells_how_far_it_came() {
        let folder = tempfile::tempdir().unwrap();
        let connection = wal_database(&folder);
        let all = checkpoint(&connection, CheckpointMode::Passive).unwrap();
        assert!(!all.busy);
        assert!(all.log_frames > Some(1), "{all:?}");
        assert_eq!(all.log_frames, all.checkpointed_frames);

        let reader = Connection::open(folder.path().join("a.db")).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        connection.busy_timeout(std::time::Duration::ZERO).unwrap();
        let behind = checkpoint(&connection, CheckpointMode::Truncate).unwrap();
        assert!(behind.busy, "{behind:?}");
        assert!(behind.log_frames >= Some(1), "a busy checkpoint has its numbers: {behind:?}");

        reader.execute_batch("COMMIT").unwrap();
        let cut = checkpoint(&connection, CheckpointMode::Truncate).unwrap();
        let nothing_left =
            CheckpointResult { busy: false, log_frames: Some(0), checkpointed_frames: Some(0) };
        assert_eq!(cut, nothing_left);
        for mode in [CheckpointMode::Full, CheckpointMode::Restart] {
            assert!(!checkpoint(&connection, mode).unwrap().busy);
        }
    }

    #[test]
    fn a_checkpoint_that_cannot_be_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let connection = wal_database(&folder);
        connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (3)").unwrap();
        let error = checkpoint(&connection, CheckpointMode::Passive).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ffi::ErrorCode::DatabaseLocked), "{error}");

        let no_wal = Connection::open_in_memory().unwrap();
        let result = checkpoint(&no_wal, CheckpointMode::Passive).unwrap();
        assert_eq!((result.busy, result.log_frames), (false, None));
    }

    #[test]
    fn a_broken_deferred_key_is_seen_before_the_commit() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "PRAGMA foreign_keys = ON;
                 CREATE TABLE parent (id INTEGER PRIMARY KEY);
                 CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
                 BEGIN; SAVEPOINT one; INSERT INTO child VALUES (7);",
            )
            .unwrap();
        assert!(unresolved_deferred_keys(&connection));
        connection.execute_batch("INSERT INTO parent VALUES (7)").unwrap();
        assert!(!unresolved_deferred_keys(&connection));
        connection.execute_batch("COMMIT").unwrap();
        assert!(!unresolved_deferred_keys(&connection));
    }

    #[test]
    fn build_options_are_known() {
        let connection = Connection::open_in_memory().unwrap();
        let mut options = connection.prepare("PRAGMA compile_options").unwrap();
        let options: Vec<String> =
            options.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert!(!options.is_empty());
        for option in options {
            assert!(compile_option_used(&option), "{option}");
        }
        assert!(!compile_option_used("NO_SUCH_OPTION"));
        assert!(!compile_option_used("with\0zero"));
    }
}
