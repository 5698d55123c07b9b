//! The parts of the crash simulator by themselves.
//!
//! 1. The recorder tells of the folder's syncs just as SQLite's Unix VFS does
//!    them: what `DELETE` + `FULL` loses hangs on that.
//! 2. The memory VFS keeps connections apart and lets them share a WAL.

use std::sync::Arc;

use leafpress::vfs::{PlatformVfs, register};
use leafpress_testing::crash::{Disk, Event, Image, Log, MemoryVfs, Recorder, Recording, Snapshot};
use rusqlite::{Connection, ErrorCode, OpenFlags};

/// The events, a letter for each; a run of writes is one letter.
fn letters(recording: &Recording) -> String {
    let mut letters = String::new();
    for event in &recording.events {
        let letter = match event {
            Event::Create { .. } => 'c',
            Event::Write { .. } => 'w',
            Event::WriteWhole { .. } => 'W',
            Event::Truncate { .. } => 't',
            Event::Delete { .. } => 'd',
            Event::Rename { .. } => 'r',
            Event::SyncFile { .. } => 's',
            Event::SyncFolder { .. } => 'S',
            Event::SyncFailed { .. } => 'F',
            Event::Acknowledged(_) => 'a',
        };
        if letter != 'w' || !letters.ends_with('w') {
            letters.push(letter);
        }
    }
    letters
}

/// Two transactions under these settings, acknowledged, and the closing.
fn recorded(name: &str, journal_mode: &str, synchronous: &str) -> String {
    let recorder = Arc::new(Recorder::new(PlatformVfs::new()));
    let registration = register(name, Arc::clone(&recorder)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let sql = format!("PRAGMA journal_mode = {journal_mode}; CREATE TABLE t (a)");
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let log = recorder.watch(folder.path());
    let flags = OpenFlags::default();
    let connection =
        Connection::open_with_flags_and_vfs(&path, flags, registration.name()).unwrap();
    connection.pragma_update(None, "journal_mode", journal_mode).unwrap();
    connection.pragma_update(None, "synchronous", synchronous).unwrap();
    for number in 0..2 {
        connection.execute("INSERT INTO t VALUES (1)", []).unwrap();
        log.acknowledged(0, number);
    }
    drop(connection);
    letters(&log.finish())
}

#[test]
#[cfg(unix)]
fn the_folder_is_synced_when_sqlite_syncs_it() {
    // Journal made, synced with its folder; its header synced; database synced; journal gone.
    let transaction = "cwsSwswsd";
    let twice = |end: &str| format!("{transaction}{end}").repeat(2);
    assert_eq!(recorded("parts-full", "DELETE", "FULL"), twice("a"));
    assert_eq!(recorded("parts-extra", "DELETE", "EXTRA"), twice("Sa"));
    // The journal is there, opened by each transaction anew, and its end synced.
    assert_eq!(recorded("parts-truncate", "TRUNCATE", "FULL"), "wsSwswstsa".repeat(2));
    assert_eq!(recorded("parts-off", "DELETE", "OFF"), "cwdacwda");
    // The header synced with the folder, then frames; a checkpoint at the end.
    assert_eq!(recorded("parts-wal", "WAL", "FULL"), "cwsSwsawsaswtsd");
    assert_eq!(recorded("parts-normal", "WAL", "NORMAL"), "cwsSwawaswtsd");
}

/// A VFS that holds the database that `sql` makes.
fn in_memory(sql: &str) -> Arc<MemoryVfs> {
    let folder = tempfile::tempdir().unwrap();
    Connection::open(folder.path().join("a.db")).unwrap().execute_batch(sql).unwrap();
    let recording = Log::new(Snapshot::of_folder(folder.path())).finish();
    let mut image = Image::new();
    image.kill(&Disk::new(&recording));
    let vfs = Arc::new(MemoryVfs::new());
    vfs.put(&mut image);
    vfs
}

fn rows(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

#[test]
fn connections_in_memory_keep_each_other_out() {
    let vfs = in_memory("CREATE TABLE t (a)");
    let registration = register("parts-locks", Arc::clone(&vfs)).unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let open = || Connection::open_with_flags_and_vfs("a.db", flags, registration.name()).unwrap();
    let [one, other] = [open(), open()];
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    let is_busy = |result: rusqlite::Result<()>| {
        let code = result.unwrap_err().sqlite_error_code();
        assert_eq!(code, Some(ErrorCode::DatabaseBusy));
    };

    one.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(rows(&other).unwrap(), 0);
    is_busy(other.execute_batch("INSERT INTO t VALUES (2)"));
    one.execute_batch("COMMIT; BEGIN EXCLUSIVE").unwrap();
    is_busy(rows(&other).map(drop));
    one.execute_batch("COMMIT").unwrap();
    other.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    assert_eq!(rows(&other).unwrap(), 1);
    one.busy_timeout(std::time::Duration::ZERO).unwrap();
    is_busy(one.execute_batch("INSERT INTO t VALUES (3)"));
    other.execute_batch("COMMIT").unwrap();
    one.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    assert_eq!(rows(&other).unwrap(), 2);
}

#[test]
fn connections_in_memory_share_a_wal() {
    let vfs = in_memory("PRAGMA journal_mode = WAL; CREATE TABLE t (a)");
    let registration = register("parts-wal-memory", Arc::clone(&vfs)).unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let open = || Connection::open_with_flags_and_vfs("a.db", flags, registration.name()).unwrap();
    let [writer, reader] = [open(), open()];
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(rows(&reader).unwrap(), 0);
    writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    assert!(vfs.has("a.db-wal"));
    assert_eq!([rows(&reader).unwrap(), rows(&writer).unwrap()], [0, 1]);
    // The reader's snapshot keeps the WAL from being reset.
    let busy = "PRAGMA wal_checkpoint(RESTART)";
    writer.busy_timeout(std::time::Duration::ZERO).unwrap();
    let is_busy = || writer.query_row(busy, [], |row| row.get::<_, bool>(0)).unwrap();
    assert!(is_busy());
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(rows(&reader).unwrap(), 1);
    assert!(!is_busy());
    drop((writer, reader));
    assert!(!vfs.has("a.db-wal"), "the last one to leave copies the WAL and deletes it");
    assert_eq!(rows(&open()).unwrap(), 1);
}
