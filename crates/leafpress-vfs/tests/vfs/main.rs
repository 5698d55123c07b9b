//! VFSes written in Rust, judged by SQLite on top of them.

mod count;
mod errors;
#[cfg(unix)]
mod gathered_database;
#[cfg(unix)]
mod gathered_log;
mod hooked;
mod in_memory;
mod layer;
mod mapping;
mod memory_vfs;
mod platform;
mod recording;
mod registration;
#[cfg(target_os = "linux")]
mod system_calls;

use std::path::Path;

use leafpress_vfs::Registration;
use rusqlite::{Connection, OpenFlags};

/// A connection to `path` through a VFS of ours.
fn through(registration: &Registration, path: impl AsRef<Path>) -> Connection {
    let flags = OpenFlags::default();
    Connection::open_with_flags_and_vfs(path, flags, registration.name()).unwrap()
}

/// Sets a journal mode and makes sure that it is in force.
fn set_journal_mode(connection: &Connection, journal_mode: &str) {
    let mode: String = connection
        .query_row(&format!("PRAGMA journal_mode = {journal_mode}"), (), |row| row.get(0))
        .unwrap();
    assert_eq!(mode, journal_mode);
}

/// Some of everything that writes: a table, an index, a rollback, deletes, VACUUM.
fn work(connection: &Connection) {
    connection
        .execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT);
             CREATE INDEX by_x ON t (x);
             WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT i, hex(i * 7919) || char(97 + i % 26) FROM n;
             BEGIN; DELETE FROM t WHERE id % 3 = 0; ROLLBACK;
             DELETE FROM t WHERE id % 5 = 0;
             VACUUM;
             UPDATE t SET x = x || x WHERE id % 7 = 0;",
        )
        .unwrap();
}

/// Changes the rows of `work` in transactions with savepoints and rollbacks, and compares after each what
/// another connection reads.
fn assert_commits_are_seen(writer: &Connection, reader: &Connection, said: &str) {
    assert_eq!(rows(writer), rows(reader), "{said}");
    for round in 0..30 {
        writer
            .execute_batch(&format!(
                "BEGIN; INSERT INTO t(x) SELECT x || {round} FROM t LIMIT 50;
                 SAVEPOINT s; UPDATE t SET x = x || '-'; ROLLBACK TO s; RELEASE s;
                 DELETE FROM t WHERE id % 31 = {round}; COMMIT;
                 BEGIN; DELETE FROM t; ROLLBACK"
            ))
            .unwrap();
        assert_eq!(rows(writer), rows(reader), "{said}, {round}");
    }
    writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(rows(writer), rows(reader));
    assert_sound(reader);
}

fn rows(connection: &Connection) -> Vec<(i64, String)> {
    let mut statement = connection.prepare("SELECT id, x FROM t ORDER BY x, id").unwrap();
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn count(connection: &Connection, table: &str) -> i64 {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0)).unwrap()
}

fn assert_sound(connection: &Connection) {
    let answer: String =
        connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
}
