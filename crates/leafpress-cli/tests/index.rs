//! `leafpress index` from the outside: statuses, messages, JSON. What it makes
//! is tested beside the library's `Indexer`.

mod common;

use std::fs;
use std::path::Path;
use std::time::Instant;

use common::{command, run};
use rusqlite::Connection;
use tempfile::TempDir;

fn make_database(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join("app.db")).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, born INT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO person SELECT i, 'name ' || (i % 999), i % 90 FROM n;",
        )
        .unwrap();
    connection
}

#[test]
fn an_index_is_made_and_the_summary_says_how() {
    let folder = TempDir::new().unwrap();
    let connection = make_database(folder.path());
    let text = run(folder.path(), &["index", "app.db", "person", "name NOCASE, born desc"])
        .expect_status(0)
        .stdout;
    assert!(text.starts_with("made index person_name_born on table person of app.db\n"), "{text}");
    assert!(text.contains("5,000 rows") && text.contains("pressed"), "{text}");
    let arguments = ["index", "app.db", "person", "born", "--analyze", "--json", "--name", "b"];
    let object = run(folder.path(), &arguments).expect_status(0).json();
    assert_eq!(object["create_sql"], "CREATE INDEX \"b\" ON \"person\" (\"born\")");
    assert_eq!((&object["entries"], &object["path"]), (&5000.into(), &"pressed".into()));
    let statistics: String = connection
        .query_row("SELECT stat FROM sqlite_stat1 WHERE idx = 'b'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(statistics, "5000 56");
    let quiet = ["index", "app.db", "person", "born desc", "-q", "--memory", "64M"];
    assert_eq!(run(folder.path(), &quiet).expect_status(0).stdout, "");
}

#[test]
fn failures_change_nothing_and_say_what_to_do() {
    let folder = TempDir::new().unwrap();
    let connection = make_database(folder.path());
    let failure = |arguments: &[&str], part: &str| {
        let outcome = run(folder.path(), &[&["index"], arguments].concat()).expect_status(3);
        assert!(outcome.stderr.contains(part), "{arguments:?}: {}", outcome.stderr);
    };
    failure(&["app.db", "person", "born", "--unique"], "rows 90 and 180 have the same key: 0");
    failure(&["none.db", "person", "born"], "none.db");
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    failure(&["app.db", "person", "born", "--busy-timeout", "0"], "locked");
    connection.execute_batch("ROLLBACK").unwrap();
    for (arguments, part) in [
        (&["app.db", "people", "born"][..], "no table 'people'; tables: person"),
        (&["app.db", "person", "age"], "no column 'age'; columns: id, name, born"),
        (&["app.db", "person", "born up"], "'up' after column 'born'"),
        (&["app.db", "person", "born", "--memory", "x"], "such as 512M"),
    ] {
        let outcome = run(folder.path(), &[&["index"], arguments].concat()).expect_status(2);
        assert!(outcome.stderr.contains(part), "{arguments:?}: {}", outcome.stderr);
    }
    let indexes: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'index'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(indexes, 0);
}

/// Kills spread over the run's time, in each journal mode.
const KILLS: u32 = 40;

/// Makes a database of that mode with some more rows than fit SQLite's cache.
fn make_large_database(path: &Path, mode: &str) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA page_size=1024; PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF;
             CREATE TABLE t(a INT, b TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
             INSERT INTO t SELECT i * 7919 % 60000, printf('%040d', i % 100) FROM n;"
        ))
        .unwrap();
}

fn has_index(connection: &Connection) -> bool {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 't_b_a'";
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() == 1
}

#[test]
fn a_killed_index_is_there_whole_or_not_at_all() {
    for mode in ["wal", "delete"] {
        let folder = TempDir::new().unwrap();
        let [base, database] = ["base.db", "app.db"].map(|name| folder.path().join(name));
        make_large_database(&base, mode);
        let arguments = ["index", "app.db", "t", "b,a", "-q"];
        fs::copy(&base, &database).unwrap();
        let since = Instant::now();
        run(folder.path(), &arguments).expect_status(0);
        let whole_run = since.elapsed();
        let mut absent = 0;
        for kill in 0..KILLS {
            for ending in ["app.db", "app.db-wal", "app.db-shm", "app.db-journal"] {
                let _ = fs::remove_file(folder.path().join(ending));
            }
            fs::copy(&base, &database).unwrap();
            let reader = Connection::open(&database).unwrap();
            assert!(!has_index(&reader));
            let mut child = command(folder.path(), &arguments).spawn().unwrap();
            std::thread::sleep(whole_run * kill / KILLS);
            let _ = child.kill();
            child.wait().unwrap();
            absent += u32::from(!has_index(&reader));
            let said: String =
                reader.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(said, "ok", "{mode}, kill {kill}");
            let rows: i64 =
                reader.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 60_000);
        }
        assert!(absent > 0, "{mode}: no run was killed in time");
    }
}
