//! `--create` and `--schema`: the table as it is declared by hand.

use std::fs;

use super::{declared, folder_with, load, load_with, refused, rows};

const PEOPLE: &str = "name,born,email\nAda,1815,ada@x\nGrace,1906,grace@x\n";

#[test]
fn the_declaration_names_the_table_and_fills_what_the_input_lacks() {
    let folder = folder_with(&[("p.csv", PEOPLE)]);
    let sql = "CREATE TABLE person (email TEXT PRIMARY KEY COLLATE NOCASE, born REAL NOT NULL,
               name TEXT, state TEXT NOT NULL DEFAULT 'new') STRICT, WITHOUT ROWID";
    let outcome = load_with(&folder, "a.db p.csv --json --index name --create", sql);
    let report = outcome.expect_status(0).json();
    assert_eq!(report["table"], "person");
    assert!(report["path"].as_str().unwrap().starts_with("pressed"), "{report}");
    assert_eq!(
        rows(&folder, "a.db", "SELECT * FROM person"),
        ["'ada@x'|1815.0|'Ada'|'new'", "'grace@x'|1906.0|'Grace'|'new'"]
    );
    assert!(declared(&folder, "a.db", "person_name").contains("ON \"person\" (\"name\")"));
}

#[test]
fn a_file_may_hold_more_than_the_table() {
    let folder = folder_with(&[
        ("p.csv", PEOPLE),
        (
            "people.sql",
            "-- as designed\nCREATE TABLE p (id INTEGER PRIMARY KEY, name, email, born INT,
             age INT AS (2026 - born), CHECK (born > 1800));\nCREATE INDEX by_age ON p (age);",
        ),
    ]);
    let report = load(&folder, "a.db p.csv --schema people.sql --json").expect_status(0).json();
    assert!(report["path"].as_str().unwrap().starts_with("SQL: "), "{report}");
    assert_eq!(
        rows(&folder, "a.db", "SELECT id, name, age FROM p INDEXED BY by_age WHERE age > 0"),
        ["2|'Grace'|120", "1|'Ada'|211"]
    );
    fs::write(folder.path().join("q.csv"), "name,born,email\nOld,1700,x\nNew,1999,y\n").unwrap();
    let outcome = load(&folder, "b.db q.csv --schema people.sql").expect_status(3);
    assert!(outcome.stderr.starts_with("error: q.csv:2:"), "{}", outcome.stderr);
    load(&folder, "b.db q.csv --schema people.sql --on-error skip").expect_status(1);
    assert_eq!(rows(&folder, "b.db", "SELECT name FROM p"), ["'New'"]);
    refused(&folder, "c.db p.csv --schema none.sql", 3, "cannot read none.sql");
    let outcome = load_with(&folder, "c.db p.csv --schema", "create table p(name, born, email)");
    let advice = "--schema takes the name of a file; give the SQL itself with --create";
    assert!(outcome.expect_status(3).stderr.contains(advice));
}

#[test]
fn bad_declarations_are_refused_before_anything_is_read() {
    let folder = folder_with(&[("p.csv", PEOPLE)]);
    let cases: &[(&str, &str)] = &[
        ("CREATE TABLE p (a", "incomplete"),
        ("SELECT 1", "CREATE TABLE"),
        ("CREATE TABLE p (name, born)", "only in the input: email"),
        ("CREATE TABLE p (name, born, email, x NOT NULL)", "missing in the input: x"),
    ];
    for (sql, expected) in cases {
        let outcome = load_with(&folder, "a.db p.csv --create", sql).expect_status(2);
        assert!(outcome.stderr.contains(expected), "{sql}: {}", outcome.stderr);
    }
    assert!(!folder.path().join("a.db").exists());
}

#[test]
fn values_must_fit_the_declared_types() {
    let folder = folder_with(&[("p.csv", "n,t,m\n1,x,1\n1.5,y,abc\n")]);
    let sql = "CREATE TABLE p (n INTEGER, t, m NUMERIC)";
    let outcome = load_with(&folder, "a.db p.csv --create", sql).expect_status(3);
    assert!(outcome.stderr.contains("p.csv:3:1: column \"n\""), "{}", outcome.stderr);
    load_with(&folder, "a.db p.csv --on-error skip --create", sql).expect_status(1);
    let sql = "CREATE TABLE p (n REAL, t, m NUMERIC)";
    load_with(&folder, "b.db p.csv --create", sql).expect_status(0);
    assert_eq!(rows(&folder, "b.db", "SELECT * FROM p"), ["1.0|'x'|1", "1.5|'y'|'abc'"]);
}

#[test]
fn dates_are_converted_into_declared_columns_that_can_hold_them() {
    let folder = folder_with(&[
        ("p.csv", "at,n\n2026-01-31,1\n"),
        ("p.json", "{\"at\":\"2026-01-31\",\"n\":1}"),
    ]);
    let cases: &[(&str, &str, &str)] = &[
        ("at=unixepoch", "at INTEGER, n", "1769817600"),
        ("at=unixepoch-ms", "at DATETIME, n", "1769817600000"),
        ("at=date", "at DATE, n", "'2026-01-31'"),
        ("at=datetime", "at, n INT", "'2026-01-31 00:00:00'"),
        ("n=real", "at, n", "'2026-01-31'"),
    ];
    for (index, (given, columns, expected)) in cases.iter().enumerate() {
        for input in ["p.csv", "p.json"] {
            let database = format!("{input}{index}.db");
            let words = format!("{database} {input} --type {given} --create");
            load_with(&folder, &words, &format!("CREATE TABLE p ({columns})")).expect_status(0);
            assert_eq!(rows(&folder, &database, "SELECT at FROM p"), [*expected], "{words}");
        }
    }
    for (given, columns) in [
        ("at=unixepoch", "at TEXT, n"),
        ("n=text", "at, n INT"),
        ("n=real", "at, n NUMERIC"),
        ("n=unixepoch", "at, n INTEGER PRIMARY KEY"),
    ] {
        for input in ["p.csv", "p.json"] {
            let words = format!("x.db {input} --type {given} --create");
            let outcome = load_with(&folder, &words, &format!("CREATE TABLE p ({columns})"));
            let stderr = outcome.expect_status(2).stderr;
            assert!(stderr.contains("is declared"), "{words}: {stderr}");
        }
    }
}
