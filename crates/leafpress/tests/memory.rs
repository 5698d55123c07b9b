//! The memory that a connection needs of SQLite, by default and when it was made small.
//!
//! SQLite counts for the whole process, so this is one test in a process of its own.

use std::path::Path;

use leafpress::memory::{self, MemoryStats};
use rusqlite::Connection;

/// Of a table of so many rows: how many pages lead to one, page 1 included.
const TABLES: [(u32, &str); 4] = [
    (1, ""),                              // 2
    (400, ""),                            // 3, of 10 pages in all
    (50_000, ""),                         // 4
    (50_000, "CREATE INDEX i ON t (x);"), // 4, and as many in the index, which splits
];

fn make(path: &Path, rows: u32, index: &str) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = OFF;
             CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT);
             WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             INSERT INTO t SELECT i, printf('%060d', i) FROM n;
             {index}"
        ))
        .unwrap();
}

fn open(path: &Path, small: bool) -> Connection {
    let connection = Connection::open(path).unwrap();
    if small {
        memory::shrink(&connection).unwrap();
    }
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    connection
}

/// The memory of a connection after one-row updates all over the table, and then after
/// another connection's write, which empties the cache.
fn after_updates(path: &Path, rows: u32, small: bool) -> [MemoryStats; 2] {
    let connection = open(path, small);
    let update = || {
        let mut update = connection.prepare("UPDATE t SET x = ?2 WHERE id = ?1").unwrap();
        for number in 0..300 {
            let id = number * 7919 % rows + 1;
            let x = format!("{:060}", number * 104_729 % 99_991);
            assert_eq!(update.execute((id, x)).unwrap(), 1);
        }
    };
    memory::reset_highwater();
    update();
    let alone = memory::of(&connection);
    Connection::open(path).unwrap().execute_batch("PRAGMA user_version = 7").unwrap();
    update();
    let after_another = memory::of(&connection);
    let sound: String =
        connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    [alone, after_another]
}

/// Every row changes, and one more time for nothing; then all rows, in order.
fn big_transactions(path: &Path, small: bool) -> (Vec<(i64, String)>, MemoryStats) {
    let connection = open(path, small);
    connection
        .execute_batch(
            "BEGIN; UPDATE t SET x = x || id; DELETE FROM t WHERE id % 3 = 0; COMMIT;
             BEGIN; UPDATE t SET x = 'never'; SAVEPOINT one; DELETE FROM t; ROLLBACK TO one;
             INSERT INTO t (x) SELECT x FROM t; ROLLBACK;",
        )
        .unwrap();
    let memory = memory::of(&connection);
    let sound: String =
        connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let mut statement = connection.prepare("SELECT id, x FROM t ORDER BY id").unwrap();
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    (rows.map(Result::unwrap).collect(), memory)
}

#[test]
fn a_small_connection_needs_clearly_less_and_is_as_right() {
    for (rows, index) in TABLES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        make(&path, rows, index);
        let usual = after_updates(&path, rows, false);
        let small = after_updates(&path, rows, true);
        for (usual, small) in usual.iter().zip(&small) {
            let (usual_bytes, small_bytes) = (usual.process.used_bytes, small.process.used_bytes);
            println!("{rows} rows {index} {usual_bytes} bytes, {small_bytes} if small");
            assert!(small_bytes * 10 < usual_bytes * 6, "{rows} rows {index}\n{usual}\n{small}");
            assert_eq!(small.connection.pages_spilled, 0, "{rows} rows {index}\n{small}");
        }
        assert!(small[0].process.used_bytes < 56 * 1024, "{rows} rows {index}\n{}", small[0]);
        // The peak while it updates, and no single piece is larger than a few pages.
        let small = small[0].process;
        assert!(small.used_bytes_max < 96 * 1024, "{rows} rows {index}\n{small:?}");
        assert!(small.largest_allocation_bytes < 9 * 1024, "{rows} rows {index}\n{small:?}");
    }

    let [(rows, memory), (small_rows, small_memory)] = [false, true].map(|small| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        make(&path, 20_000, "CREATE INDEX i ON t (x);");
        big_transactions(&path, small)
    });
    assert_eq!(rows.len(), 13_334);
    assert!(rows == small_rows);
    let [spilled, small_spilled] =
        [memory, small_memory].map(|memory| memory.connection.pages_spilled);
    assert!(small_spilled > 2 * spilled && small_spilled > 1000, "{small_spilled}, {spilled}");
}
