//! SQLite over a file system that is only memory.

use std::sync::Arc;
use std::time::Duration;

use leafpress_vfs::register;
use rusqlite::Connection;

use crate::memory_vfs::MemoryVfs;
use crate::{assert_sound, count, rows, set_journal_mode, through, work};

#[test]
fn each_journal_mode_gives_what_stock_sqlite_gives() {
    for mode in ["wal", "delete", "truncate"] {
        let vfs = Arc::new(MemoryVfs::default());
        let registration = register(&format!("memory-{mode}"), Arc::clone(&vfs)).unwrap();
        let connection = through(&registration, "a.db");
        set_journal_mode(&connection, mode);
        work(&connection);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stock.db");
        let stock = Connection::open(&path).unwrap();
        set_journal_mode(&stock, mode);
        work(&stock);
        assert_eq!(rows(&connection), rows(&stock), "{mode}");
        assert_sound(&connection);
        drop((connection, stock));
        assert!(vfs.bytes("/a.db") == std::fs::read(&path).unwrap(), "{mode}: the same bytes");
        let journal: &[&str] =
            if mode == "truncate" { &["/a.db", "/a.db-journal"] } else { &["/a.db"] };
        assert_eq!(vfs.names(), journal, "{mode}");
    }
}

/// Two writers and a reader in threads of their own: locks and shared memory at work.
#[test]
fn connections_share_a_database_and_wait_for_each_other() {
    for mode in ["wal", "delete"] {
        let registration =
            register(&format!("memory-shared-{mode}"), MemoryVfs::default()).unwrap();
        let first = through(&registration, "a.db");
        set_journal_mode(&first, mode);
        first.execute_batch("CREATE TABLE t (writer, i); CREATE TABLE u (writer, i)").unwrap();
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let registration = &registration;
                scope.spawn(move || {
                    let connection = through(registration, "a.db");
                    connection.busy_timeout(Duration::from_secs(60)).unwrap();
                    for i in 0..200 {
                        let sql = format!(
                            "BEGIN IMMEDIATE; INSERT INTO t VALUES ({writer}, {i});
                             INSERT INTO u VALUES ({writer}, {i}); COMMIT"
                        );
                        connection.execute_batch(&sql).unwrap();
                    }
                });
            }
            let reader = through(&registration, "a.db");
            reader.busy_timeout(Duration::from_secs(60)).unwrap();
            loop {
                let (t, u): (i64, i64) = reader
                    .query_row(
                        "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)",
                        (),
                        |row| Ok((row.get(0)?, row.get(1)?)),
                    )
                    .unwrap();
                assert_eq!(t, u, "{mode}: whole transactions only");
                if t == 400 {
                    break;
                }
            }
        });
        assert_eq!((count(&first, "t"), count(&first, "u")), (400, 400));
        assert_sound(&first);
    }
}

#[test]
fn a_snapshot_stays_while_another_connection_writes() {
    let registration = register("memory-snapshot", MemoryVfs::default()).unwrap();
    let (writer, reader) = (through(&registration, "a.db"), through(&registration, "a.db"));
    set_journal_mode(&writer, "wal");
    writer.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&reader, "t"), 1);
    writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!((count(&reader, "t"), count(&writer, "t")), (1, 2));
    let busy: i64 = {
        writer.busy_timeout(Duration::ZERO).unwrap();
        writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0)).unwrap()
    };
    assert_eq!(busy, 1, "the reader's snapshot is in the WAL");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&reader, "t"), 2);
}

#[test]
fn wal_is_refused_without_shared_memory_but_for_one_connection() {
    let vfs = MemoryVfs::without_shared_memory();
    let registration = register("memory-no-shm", vfs).unwrap();
    let connection = through(&registration, "a.db");
    let mode: String =
        connection.query_row("PRAGMA journal_mode = wal", (), |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
    connection.pragma_update(None::<&str>, "locking_mode", "exclusive").unwrap();
    set_journal_mode(&connection, "wal");
    work(&connection);
    assert_sound(&connection);
}
