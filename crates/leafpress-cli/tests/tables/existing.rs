//! Databases that exist: a new table, and `--append`, `--replace`,
//! `--ignore`, `--upsert`, `--busy-timeout`.

use std::fs;

use rusqlite::Connection;
use tempfile::TempDir;

use super::{folder_with, load, load_with, open, refused, rows};

/// A database in WAL mode with a table of two people, and files of others.
fn people() -> TempDir {
    let folder = folder_with(&[
        ("new.csv", "id,name\n4,Dora\n3,Carl\n"),
        ("both.csv", "name,id\nBeth,2\nCarl,3\n"),
        ("bad.csv", "id,name\n5,Eve\nx,Fay\n"),
    ]);
    let connection = Connection::open(folder.path().join("app.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size=1024; PRAGMA journal_mode=WAL;
             CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT UNIQUE, seen INT DEFAULT 7);
             INSERT INTO people VALUES (1, 'Ann', 1), (2, 'Bob', 2);",
        )
        .unwrap();
    folder
}

const ALL: &str = "SELECT * FROM people ORDER BY id";
const BEFORE: [&str; 2] = ["1|'Ann'|1", "2|'Bob'|2"];

#[test]
fn a_new_table_is_moved_in_while_others_have_the_database_open() {
    let folder = people();
    let reader = open(folder.path(), "app.db");
    reader.execute_batch("BEGIN; SELECT * FROM people").unwrap();
    let report =
        load(&folder, "app.db new.csv --pk id --index name --json").expect_status(0).json();
    assert!(report["path"].as_str().unwrap().contains("pressed, then moved in: "), "{report}");
    assert_eq!((&report["table"], &report["rows_loaded"]), (&"new".into(), &2.into()));
    reader.execute_batch("COMMIT").unwrap();
    let sql = "SELECT name FROM new INDEXED BY new_name ORDER BY name";
    assert_eq!(rows(&folder, "app.db", sql), ["'Carl'", "'Dora'"]);
    assert_eq!(rows(&folder, "app.db", ALL), BEFORE);
    let settings = "SELECT journal_mode, page_size FROM pragma_journal_mode, pragma_page_size";
    assert_eq!(rows(&folder, "app.db", settings), ["'wal'|1024"]);
    refused(&folder, "app.db new.csv", 3, "--append");
}

#[test]
fn a_table_that_is_there_needs_a_word_what_becomes_of_it() {
    let folder = people();
    refused(
        &folder,
        "app.db new.csv --table people",
        3,
        "--append, --replace, --ignore or --upsert",
    );
    for pair in ["--append --replace", "--ignore --upsert", "--append --upsert"] {
        refused(
            &folder,
            &format!("app.db new.csv --table people {pair}"),
            2,
            "cannot be used with",
        );
    }
    assert_eq!(rows(&folder, "app.db", ALL), BEFORE);
}

#[test]
fn rows_are_appended_ignored_or_change_those_that_are_there() {
    let folder = people();
    let report = load(&folder, "app.db new.csv --table people --append --json").expect_status(0);
    let report = report.json();
    assert!(report["path"].as_str().unwrap().contains("SQL: "), "{report}");
    assert_eq!(report["rows_loaded"], 2);
    assert_eq!(rows(&folder, "app.db", ALL)[2..], ["3|'Carl'|7", "4|'Dora'|7"]);

    let folder = people();
    refused(&folder, "app.db both.csv --table people --append", 3, "people");
    assert_eq!(rows(&folder, "app.db", ALL), BEFORE);
    let outcome = load(&folder, "app.db both.csv --table people --ignore").expect_status(0);
    assert!(outcome.stdout.contains("ignored    1 row "), "{}", outcome.stdout);
    assert_eq!(rows(&folder, "app.db", ALL)[1..], ["2|'Bob'|2", "3|'Carl'|7"]);
    load(&folder, "app.db both.csv --table people --upsert").expect_status(0);
    assert_eq!(rows(&folder, "app.db", ALL)[1..], ["2|'Beth'|2", "3|'Carl'|7"]);
}

#[test]
fn append_takes_the_word_for_rows_that_share_a_key() {
    for (word, expected) in [("ignore", "2|'Bob'|2"), ("replace", "2|'Beth'|2")] {
        let folder = people();
        let words = format!("app.db both.csv --table people --append --on-conflict {word}");
        load(&folder, &words).expect_status(0);
        assert_eq!(rows(&folder, "app.db", ALL)[1..], [expected, "3|'Carl'|7"]);
    }
}

#[test]
fn rows_are_replaced_all_or_not_at_all() {
    let folder = people();
    refused(&folder, "app.db bad.csv --table people --replace", 3, "bad.csv:3:1");
    assert_eq!(rows(&folder, "app.db", ALL), BEFORE);
    let both = "app.db new.csv --table people --replace --on-conflict ignore";
    refused(&folder, both, 2, "leave out --on-conflict");
    load(&folder, "app.db new.csv --table people --replace").expect_status(0);
    assert_eq!(rows(&folder, "app.db", ALL), ["3|'Carl'|7", "4|'Dora'|7"]);
}

#[test]
fn an_append_can_bring_the_statistics_up_to_date() {
    let folder = people();
    load(&folder, "app.db new.csv --table people --append --analyze").expect_status(0);
    let sql = "SELECT idx, stat FROM sqlite_stat1 WHERE tbl = 'people'";
    assert_eq!(rows(&folder, "app.db", sql), ["'sqlite_autoindex_people_1'|'4 1'"]);
}

#[test]
fn the_columns_must_be_those_of_the_table() {
    let folder = people();
    fs::write(folder.path().join("more.csv"), "id,name,age\n9,Ida,3\n").unwrap();
    refused(&folder, "app.db more.csv --table people --append", 2, "only in the input: age");
    load(&folder, "app.db more.csv --table people --append --rename age=seen").expect_status(0);
    assert_eq!(rows(&folder, "app.db", ALL)[2..], ["9|'Ida'|3"]);
    refused(&folder, "app.db new.csv --table people --append --pk name", 2, "leave out");
    // Rules that the table has may be named.
    load(&folder, "app.db new.csv --table people --append --pk id --unique name").expect_status(0);
    refused(&folder, "app.db new.csv --table people --append --strict", 2, "leave out");
    let outcome = load_with(&folder, "app.db new.csv --append --create", "CREATE TABLE people(a)");
    assert!(outcome.expect_status(2).stderr.contains("leave out --create"));
}

#[test]
fn a_table_that_is_not_there_is_made_by_append_and_replace_only() {
    let folder = people();
    load(&folder, "app.db new.csv --append --pk id").expect_status(0);
    load(&folder, "other.db new.csv --replace").expect_status(0);
    for table in [("app.db"), ("other.db")] {
        assert_eq!(rows(&folder, table, "SELECT count(*) FROM new"), ["2"]);
    }
    refused(&folder, "app.db both.csv --upsert", 2, "no such table: both");
    refused(&folder, "none.db both.csv --ignore", 2, "no database none.db");
}

#[test]
fn a_locked_database_is_waited_for_as_long_as_asked() {
    let folder = people();
    let writer = open(folder.path(), "app.db");
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    refused(&folder, "app.db new.csv --busy-timeout 0", 3, "locked");
    refused(&folder, "app.db new.csv --table people --append --busy-timeout 50", 3, "locked");
    refused(&folder, "app.db new.csv --busy-timeout 5s", 2, "milliseconds");
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(rows(&folder, "app.db", "SELECT count(*) FROM sqlite_schema"), ["2"]);
}

#[test]
fn a_dry_run_leaves_the_database_as_it_is() {
    let folder = people();
    let before = fs::read(folder.path().join("app.db")).unwrap();
    let text = load(&folder, "app.db both.csv --table people --upsert --dry-run").expect_status(0);
    assert!(text.stdout.contains("CREATE TABLE people"), "{}", text.stdout);
    assert!(text.stdout.contains("nothing was written"), "{}", text.stdout);
    assert!(text.stdout.contains("pressed, then SQL: INSERT"), "{}", text.stdout);
    let text = load(&folder, "app.db new.csv --dry-run --pk id").expect_status(0).stdout;
    assert!(text.contains("pressed, then moved into the database"), "{text}");
    assert!(text.contains("are sorted if they are not in key order"), "{text}");
    assert!(text.contains("are needed in"), "{text}");
    assert_eq!(fs::read(folder.path().join("app.db")).unwrap(), before);
    assert_eq!(rows(&folder, "app.db", ALL), BEFORE);
}
