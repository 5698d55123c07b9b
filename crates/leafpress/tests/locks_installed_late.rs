//! Locks of a connection that was opened before Leafpress made locks belong to descriptors.
//!
//! One test, since what comes first in the process is what is tried.

use std::time::Duration;

use leafpress::Profile;
use leafpress::vfs::locks;
use leafpress::writer::Writer;
use rusqlite::Connection;

fn count(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_connection_that_came_before_goes_on_as_sqlite_has_it() {
    let folder = tempfile::tempdir().unwrap();
    for (name, profile, mode) in
        [("wal.db", Profile::Durable, "wal"), ("journal.db", Profile::Rollback, "delete")]
    {
        let path = folder.path().join(name);
        let early = Connection::open(&path).unwrap();
        early.busy_timeout(Duration::from_secs(20)).unwrap();
        let sql = format!("PRAGMA journal_mode={mode}; CREATE TABLE t (x)");
        early.execute_batch(&sql).unwrap();
        // In WAL mode it holds a lock from here on.
        assert_eq!(count(&early), 0);

        // Files that are open beside it take no part in its locks.
        locks::install().unwrap();
        let beside: Vec<_> = ["", "-wal", "-shm"]
            .iter()
            .filter_map(|suffix| {
                locks::FileHandle::open(format!("{}{suffix}", path.display())).ok()
            })
            .collect();
        early.execute("INSERT INTO t VALUES (-1)", ()).unwrap();
        early.execute("DELETE FROM t", ()).unwrap();
        drop(beside);

        let writer = Writer::builder(&path).profile(profile).open().unwrap();
        for round in 0..20 {
            writer.execute("INSERT INTO t VALUES (?1)", [round]).unwrap();
            early.execute("INSERT INTO t VALUES (?1)", [round]).unwrap();
            assert_eq!(count(&early), 2 * round + 2);
        }
        early.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        drop(early);
        writer.execute("INSERT INTO t VALUES (100)", ()).unwrap();
        writer.close().unwrap();

        // Nothing is left of the early one's locks: the next has the file for itself.
        let last = Connection::open(&path).unwrap();
        last.execute_batch("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT").unwrap();
        assert_eq!(count(&last), 41);
        let sound: String = last.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}
