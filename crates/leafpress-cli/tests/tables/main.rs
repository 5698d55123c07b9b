//! Tables as the flags of `leafpress load` ask for them, judged by SQLite.
//!
//! 1. Each flag does what its help says, seen in the database.
//! 2. What cannot be is refused with status 2 or 3, and nothing changes.

#[path = "../common/mod.rs"]
mod common;

mod columns;
mod existing;
mod inputs;
mod keys;
mod schema;

use std::fs;
use std::path::Path;

use common::{Outcome, run};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tempfile::TempDir;

/// A folder with files in it.
fn folder_with(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// `leafpress load` with these words, which hold no blanks but between them.
fn load(folder: &TempDir, words: &str) -> Outcome {
    let arguments: Vec<&str> = std::iter::once("load").chain(words.split_whitespace()).collect();
    run(folder.path(), &arguments)
}

/// As [`load`], with one more argument that may hold blanks.
fn load_with(folder: &TempDir, words: &str, last: &str) -> Outcome {
    let words = std::iter::once("load").chain(words.split_whitespace());
    run(folder.path(), &words.chain([last]).collect::<Vec<_>>())
}

/// A load that must be refused with this status and these words.
fn refused(folder: &TempDir, words: &str, status: i32, expected: &str) {
    let outcome = load(folder, words).expect_status(status);
    assert!(outcome.stderr.contains(expected), "{words}: {}", outcome.stderr);
}

/// The rows that a query gives, their values as SQL would show them, between bars.
fn rows(folder: &TempDir, database: &str, sql: &str) -> Vec<String> {
    let connection = open(folder.path(), database);
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values = (0..columns).map(|column| Ok(show(row.get_ref(column)?)));
        Ok(values.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
    });
    rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

fn show(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(integer) => integer.to_string(),
        ValueRef::Real(real) => format!("{real:?}"),
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        ValueRef::Blob(blob) => {
            let digits: Vec<_> = blob.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{}'", digits.concat())
        }
    }
}

/// Opens a database, which must be sound.
fn open(folder: &Path, database: &str) -> Connection {
    let connection = Connection::open(folder.join(database)).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    connection
}

/// The statement that declares something, with each run of blanks as one.
fn declared(folder: &TempDir, database: &str, name: &str) -> String {
    let sql = format!("SELECT sql FROM sqlite_schema WHERE name = '{name}'");
    let connection = open(folder.path(), database);
    let sql: String = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Number of files in a folder.
fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}
