//! Errors and panics in a VFS reach SQLite's caller, and nothing worse happens.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leafpress_vfs::{FileKind, Registration, VfsError, register};
use rusqlite::{Connection, ErrorCode, ffi};

use crate::hooked::{Call, Hooked};
use crate::memory_vfs::MemoryVfs;
use crate::{assert_sound, count, set_journal_mode, through};

#[test]
fn extended_codes_come_through() {
    for (number, (kind, mode, code)) in [
        (Call::Write(FileKind::Wal), "wal", ffi::SQLITE_FULL),
        (Call::Write(FileKind::Wal), "wal", ffi::SQLITE_IOERR_WRITE),
        (Call::Sync(FileKind::Wal), "wal", ffi::SQLITE_IOERR_FSYNC),
        (Call::ShmLock, "wal", ffi::SQLITE_IOERR_SHMLOCK),
        (Call::Write(FileKind::MainJournal), "delete", ffi::SQLITE_FULL),
        (Call::Sync(FileKind::MainJournal), "delete", ffi::SQLITE_IOERR_FSYNC),
        (Call::Write(FileKind::MainDb), "delete", ffi::SQLITE_IOERR_WRITE),
        (Call::Sync(FileKind::MainDb), "delete", ffi::SQLITE_IOERR_FSYNC),
        (Call::Delete, "delete", ffi::SQLITE_IOERR_DELETE),
        (Call::Lock(FileKind::MainDb), "delete", ffi::SQLITE_IOERR_LOCK),
        (Call::Open(FileKind::MainJournal), "delete", ffi::SQLITE_CANTOPEN),
        (Call::Write(FileKind::MainDb), "delete", ffi::SQLITE_OK),
    ]
    .into_iter()
    .enumerate()
    {
        let fails = Arc::new(AtomicBool::new(false));
        let hook = {
            let fails = Arc::clone(&fails);
            move |call| {
                let fails = fails.load(Ordering::Relaxed) && call == kind;
                if fails { Err(VfsError(code)) } else { Ok(()) }
            }
        };
        let vfs = Hooked::new(MemoryVfs::default(), hook);
        let registration = register(&format!("errors-{number}"), vfs).unwrap();
        let connection = through(&registration, "a.db");
        set_journal_mode(&connection, mode);
        connection.execute_batch("PRAGMA synchronous = FULL; CREATE TABLE t (x)").unwrap();
        fails.store(true, Ordering::Relaxed);
        let error = connection.execute("INSERT INTO t VALUES (1)", ()).unwrap_err();
        // "No error" is none that can be told: it becomes an I/O error.
        let expected = if code == ffi::SQLITE_OK { ffi::SQLITE_IOERR } else { code };
        let found = error.sqlite_error().map(|error| error.extended_code);
        assert_eq!(found, Some(expected), "{kind:?}: {error}");
        fails.store(false, Ordering::Relaxed);
        connection.execute("INSERT INTO t VALUES (2)", ()).unwrap();
        assert_eq!(count(&connection, "t"), 1, "{kind:?}");
        assert_sound(&connection);
    }
}

/// Everything that a VFS does, in both modes, with two connections and attached files.
pub fn busy_session(registration: &Registration) -> rusqlite::Result<()> {
    let open = |path| {
        let flags = rusqlite::OpenFlags::default();
        let connection = Connection::open_with_flags_and_vfs(path, flags, registration.name())?;
        connection.busy_timeout(Duration::ZERO)?;
        Ok::<_, rusqlite::Error>(connection)
    };
    let (first, second) = (open("a.db")?, open("a.db")?);
    first.execute_batch(
        "PRAGMA cache_size = 5; PRAGMA temp_store = FILE; PRAGMA synchronous = FULL;
         ATTACH '/b.db' AS b; CREATE TABLE IF NOT EXISTS t (x); CREATE TABLE IF NOT EXISTS b.u (x);
         BEGIN; INSERT INTO t VALUES (zeroblob(30000)); INSERT INTO u VALUES (1); COMMIT;
         CREATE TEMP TABLE s AS SELECT * FROM t; INSERT INTO s SELECT zeroblob(40000);
         PRAGMA journal_mode = wal; INSERT INTO t VALUES (2);",
    )?;
    second.query_row("SELECT count(*) FROM t", (), |_| Ok(()))?;
    second.execute_batch("INSERT INTO t VALUES (3); PRAGMA wal_checkpoint(TRUNCATE)")?;
    drop(second);
    first.execute_batch("PRAGMA journal_mode = delete; DELETE FROM t; VACUUM;")
}

/// A panic at each call that a session makes, one after the other: SQLite's caller
/// gets an error or never notices, the process lives, and all files are closed.
#[test]
fn a_panic_anywhere_is_an_io_error() {
    let calls_made = Arc::new(AtomicU32::new(0));
    let panics_at = Arc::new(AtomicU32::new(u32::MAX));
    let kinds = Arc::new(Mutex::new(BTreeSet::new()));
    let hook = {
        let (calls_made, panics_at) = (Arc::clone(&calls_made), Arc::clone(&panics_at));
        let kinds = Arc::clone(&kinds);
        move |call: Call| {
            let name = format!("{call:?}").split('(').next().unwrap().to_owned();
            kinds.lock().unwrap().insert(name);
            let number = calls_made.fetch_add(1, Ordering::Relaxed);
            // A panic in a drop that runs because of a panic would end the process.
            if number == panics_at.load(Ordering::Relaxed) && !std::thread::panicking() {
                // A panic that prints nothing.
                std::panic::resume_unwind(Box::new(call));
            }
            Ok(())
        }
    };
    let hook = Arc::new(hook);
    let mut errors = 0;
    let mut session = |number: u32| {
        panics_at.store(number, Ordering::Relaxed);
        calls_made.store(0, Ordering::Relaxed);
        let hook = Arc::clone(&hook);
        let vfs = Hooked::new(MemoryVfs::default(), move |call| hook(call));
        let registration = register(&format!("panics-{number}"), vfs).unwrap();
        if let Err(error) = busy_session(&registration) {
            errors += 1;
            // Busy, where the other connection could not give back its lock.
            let expected =
                [ErrorCode::SystemIoFailure, ErrorCode::CannotOpen, ErrorCode::DatabaseBusy];
            let code = error.sqlite_error_code().unwrap();
            assert!(expected.contains(&code), "call {number}: {error}");
        }
        assert_eq!(registration.open_files(), 0, "call {number}");
        calls_made.load(Ordering::Relaxed)
    };
    let all_calls = session(u32::MAX);
    assert!(all_calls > 500, "{all_calls}");
    // Each of the first calls, then some of the many reads and writes that follow.
    for number in (0..all_calls).step_by(1 + all_calls as usize / 1000) {
        session(number);
    }
    assert!(errors > all_calls / 10, "{errors} of {all_calls}");
    let kinds = kinds.lock().unwrap();
    assert_eq!(kinds.len(), 20, "every call was made: {kinds:?}");
}
