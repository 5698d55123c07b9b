//! SQLite over `PlatformVfs` does what SQLite does over its own VFS, beside
//! connections that use the latter.

use std::path::Path;

use leafpress::vfs::{PlatformVfs, Registration, register};
use rusqlite::{Connection, OpenFlags};

fn through(registration: &Registration, path: &Path) -> Connection {
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), registration.name()).unwrap()
}

fn work(connection: &Connection, journal_mode: &str) -> Vec<(i64, String)> {
    let mode: String = connection
        .query_row(&format!("PRAGMA journal_mode = {journal_mode}"), (), |row| row.get(0))
        .unwrap();
    assert_eq!(mode, journal_mode);
    connection
        .execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT);
             CREATE INDEX by_x ON t (x);
             WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO t SELECT i, hex(i * 7919) || char(97 + i % 26) FROM n;
             BEGIN; DELETE FROM t WHERE id % 3 = 0; ROLLBACK;
             DELETE FROM t WHERE id % 5 = 0;
             VACUUM;
             UPDATE t SET x = x || x WHERE id % 7 = 0;",
        )
        .unwrap();
    rows(connection)
}

fn rows(connection: &Connection) -> Vec<(i64, String)> {
    let mut statement = connection.prepare("SELECT id, x FROM t ORDER BY x, id").unwrap();
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn assert_sound(connection: &Connection) {
    let answer: String =
        connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
}

#[test]
fn every_journal_mode_gives_the_same_file_as_without() {
    let registration = register("platform-modes", PlatformVfs::new(), false).unwrap();
    for mode in ["wal", "delete", "truncate", "persist", "memory", "off"] {
        let folder = tempfile::tempdir().unwrap();
        let (ours, stock) = (folder.path().join("ours.db"), folder.path().join("stock.db"));
        let connection = through(&registration, &ours);
        let plain = Connection::open(&stock).unwrap();
        assert_eq!(work(&connection, mode), work(&plain, mode), "{mode}");
        assert_sound(&connection);
        // A plain connection beside it sees what was committed, in either's journal.
        let beside = Connection::open(&ours).unwrap();
        assert_eq!(rows(&beside), rows(&plain), "{mode}");
        drop((beside, connection, plain));
        assert_eq!(registration.open_files(), 0, "{mode}: all files are closed");
        assert_eq!(left(&folder, "ours"), left(&folder, "stock"), "{mode}");
    }
}

/// The ends of the names and the sizes of what a database left in its folder, and the
/// bytes of the database itself. (A journal that stays holds random numbers.)
fn left(folder: &tempfile::TempDir, name: &str) -> (Vec<(String, u64)>, Vec<u8>) {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let file_name = entry.file_name().into_string().unwrap();
        if let Some(end) = file_name.strip_prefix(name) {
            files.push((end.to_owned(), entry.metadata().unwrap().len()));
        }
    }
    files.sort();
    (files, std::fs::read(folder.path().join(format!("{name}.db"))).unwrap())
}
