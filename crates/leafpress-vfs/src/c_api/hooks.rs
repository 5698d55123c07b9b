//! Code of ours that SQLite calls: while a connection waits for a lock, after a commit to the log, and
//! as a statement begins and ends.
//!
//! rusqlite before 0.41 has these without a place for data. SQLite keeps the code as client data of its
//! connection, and drops it when the connection is closed.
//!
//! Must never: let a panic unwind into C, or have the code called with an argument that outlives the
//! call.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::{Connection, ffi};

/// Has a connection call `wait` while another one holds a lock: with the number of calls before, in
/// this wait. The wait goes on if it returns true.
///
/// # Errors
/// If SQLite has no memory for it.
pub fn set_busy_handler<F>(connection: &Connection, wait: F) -> rusqlite::Result<()>
where
    F: Fn(i32) -> bool + Send + 'static,
{
    unsafe extern "C" fn wait_of<F: Fn(i32) -> bool>(wait: *mut c_void, waits: c_int) -> c_int {
        // SAFETY: `keep` made this pointer of an `F`, which lives while SQLite may call this.
        let wait = unsafe { &*wait.cast::<F>() };
        c_int::from(caught(|| wait(waits)))
    }
    let wait = keep(connection, c"leafpress_busy_handler", wait)?;
    // SAFETY: the handle is open as long as `connection` is borrowed, and `wait` is an `F`.
    let code = unsafe { ffi::sqlite3_busy_handler(connection.handle(), Some(wait_of::<F>), wait) };
    checked(code)
}

/// Has a connection call `committed` after each of its commits in WAL mode: with the number of frames
/// in the log. It replaces SQLite's own checkpoints of that connection.
///
/// # Errors
/// If SQLite has no memory for it.
pub fn set_wal_hook<F>(connection: &Connection, committed: F) -> rusqlite::Result<()>
where
    F: Fn(u32) + Send + 'static,
{
    unsafe extern "C" fn committed_to<F: Fn(u32)>(
        committed: *mut c_void,
        _: *mut ffi::sqlite3,
        _: *const c_char,
        frames: c_int,
    ) -> c_int {
        // SAFETY: `keep` made this pointer of an `F`, which lives while SQLite may call this.
        let committed = unsafe { &*committed.cast::<F>() };
        caught(|| committed(u32::try_from(frames).unwrap_or_default()));
        ffi::SQLITE_OK
    }
    let committed = keep(connection, c"leafpress_wal_hook", committed)?;
    // SAFETY: the handle is open as long as `connection` is borrowed, and `committed` is an `F`. The
    // data of the hook before, which the call returns, is not used.
    unsafe { ffi::sqlite3_wal_hook(connection.handle(), Some(committed_to::<F>), committed) };
    Ok(())
}

/// Begin or end of a statement.
#[derive(Debug, Clone, Copy)]
pub enum StatementEvent<'s> {
    /// It begins; its text, or the comment that SQLite gives in place of a trigger's text.
    Begins(&'s str),
    /// It has ended or was reset.
    Ends,
}

/// Has a connection call `hear` as each of its statements begins and ends, on the thread that runs it.
///
/// # Errors
/// If SQLite has no memory for it.
pub fn watch_statements<F>(connection: &Connection, hear: F) -> rusqlite::Result<()>
where
    F: Fn(StatementEvent<'_>) + Send + 'static,
{
    unsafe extern "C" fn heard<F: Fn(StatementEvent<'_>)>(
        event: c_uint,
        hear: *mut c_void,
        _: *mut c_void,
        text: *mut c_void,
    ) -> c_int {
        // SAFETY: `keep` made this pointer of an `F`, which lives while SQLite may call this.
        let hear = unsafe { &*hear.cast::<F>() };
        if event == ffi::SQLITE_TRACE_STMT {
            // SAFETY: for this event it is a text with a zero at its end, for the time of this call.
            let text = unsafe { CStr::from_ptr(text.cast::<c_char>()) }.to_string_lossy();
            caught(|| hear(StatementEvent::Begins(&text)));
        } else {
            caught(|| hear(StatementEvent::Ends));
        }
        ffi::SQLITE_OK
    }
    let hear = keep(connection, c"leafpress_trace", hear)?;
    let events = ffi::SQLITE_TRACE_STMT | ffi::SQLITE_TRACE_PROFILE;
    // SAFETY: the handle is open as long as `connection` is borrowed, and `hear` is an `F`.
    let code =
        unsafe { ffi::sqlite3_trace_v2(connection.handle(), events, Some(heard::<F>), hear) };
    checked(code)
}

/// Gives a value to the connection, which drops it when it is closed, or gets another one of the name.
///
/// The value lives as long as SQLite may call the hook that has it. Where it replaces another one, that one is dropped
/// here, and the caller names the new one to SQLite before the connection is used again: it cannot be used
/// by another thread meanwhile. `sqlite3_close` refuses while statements are open, and calls none of
/// the hooks once it has dropped their values; `sqlite3_close_v2` is never used.
fn keep<T: Send + 'static>(
    connection: &Connection,
    name: &'static CStr,
    value: T,
) -> rusqlite::Result<*mut c_void> {
    unsafe extern "C" fn dropped<T>(value: *mut c_void) {
        // SAFETY: `into_raw` of a box of `T` made it, and SQLite calls this once for each.
        let value = unsafe { Box::from_raw(value.cast::<T>()) };
        caught(|| drop(value));
    }
    let value: *mut c_void = Box::into_raw(Box::new(value)).cast();
    // SAFETY: the handle is open as long as `connection` is borrowed, the name ends with a zero, and
    // SQLite drops the value once, also if this call fails.
    let code = unsafe {
        ffi::sqlite3_set_clientdata(connection.handle(), name.as_ptr(), value, Some(dropped::<T>))
    };
    checked(code).map(|()| value)
}

fn checked(code: c_int) -> rusqlite::Result<()> {
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
}

/// Makes a call, and gives the default value after a panic. The payload of the panic is not dropped,
/// since that may panic once more.
fn caught<T: Default>(call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        std::mem::forget(payload);
        T::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    fn in_wal_mode(path: &std::path::Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        connection
    }

    #[test]
    fn a_wait_ends_when_the_handler_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| in_wal_mode(&folder.path().join("a.db")));
        let waits = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&waits);
        set_busy_handler(&other, move |before| {
            told.fetch_add(1, Ordering::Relaxed);
            assert!(before < 3, "a panic ends the wait too");
            true
        })
        .unwrap();
        one.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refused = other.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
        assert_eq!(waits.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn each_commit_tells_the_frames_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let connection = in_wal_mode(&folder.path().join("a.db"));
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        set_wal_hook(&connection, move |frames| tell.lock().unwrap().push(frames)).unwrap();
        connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        assert_eq!(*told.lock().unwrap(), [2, 3]);
    }

    #[test]
    fn statements_are_heard_from_their_begin_to_their_end() {
        let connection = Connection::open_in_memory().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = Arc::clone(&heard);
        watch_statements(&connection, move |event| hear.lock().unwrap().push(format!("{event:?}")))
            .unwrap();
        connection.execute_batch("SELECT 1").unwrap();
        assert_eq!(*heard.lock().unwrap(), ["Begins(\"SELECT 1\")", "Ends"]);
    }

    #[test]
    fn the_code_is_dropped_with_its_connection_or_when_it_is_replaced() {
        let connection = Connection::open_in_memory().unwrap();
        let [first, second] = [(); 2].map(|()| Arc::new(()));
        for code in [&first, &second] {
            let code = Arc::clone(code);
            set_busy_handler(&connection, move |_| Arc::strong_count(&code) == 0).unwrap();
        }
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
        drop(connection);
        assert_eq!(Arc::strong_count(&second), 1);
    }
}
