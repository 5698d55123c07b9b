//! `leafpress index` from the outside: statuses, messages, JSON. What it makes
//! is tested beside the library's `Indexer`.

mod common;

use std::path::Path;

use common::run;
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
    let quiet = run(folder.path(), &["index", "app.db", "person", "born", "-q", "--memory", "64M"]);
    assert_eq!(quiet.expect_status(0).stdout, "");
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
