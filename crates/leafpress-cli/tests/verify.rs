//! `leafpress verify` from the outside: statuses, messages, JSON, no traces.
//! The library's tests check the problems that `verify` finds.

mod common;

use std::fs;
use std::path::Path;

use common::run;
use rusqlite::Connection;
use tempfile::TempDir;

fn make_database(folder: &Path, settings: &str) -> Connection {
    let connection = Connection::open(folder.join("app.db")).unwrap();
    connection
        .execute_batch(&format!(
            "{settings};
             CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO t SELECT i, 'name number ' || i FROM n;"
        ))
        .unwrap();
    connection
}

/// Overwrites a few pages in the middle, as a failing disk does.
fn corrupt(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 12_000].fill(0x5A);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_database_gives_status_0() {
    let folder = TempDir::new().unwrap();
    drop(make_database(folder.path(), ""));
    let text = run(folder.path(), &["verify", "app.db"]).expect_status(0).stdout;
    assert!(text.starts_with("app.db: sound\n"), "{text}");
    assert!(text.contains("1 table, 0 indexes") && text.contains(rusqlite::version()), "{text}");
    assert!(!text.contains('\x1b'), "no colours off a terminal");

    let quick = run(folder.path(), &["verify", "app.db", "--quick", "--json"]).expect_status(0);
    let object = quick.json();
    assert_eq!(object["sound"], true);
    assert_eq!(object["check"], "quick_check");
    assert_eq!(object["page_size_bytes"], 4096);
    assert_eq!(quick.stderr, "");
}

#[test]
fn a_corrupt_database_gives_status_1_and_the_problems() {
    let folder = TempDir::new().unwrap();
    drop(make_database(folder.path(), ""));
    corrupt(&folder.path().join("app.db"));
    let text = run(folder.path(), &["verify", "app.db"]).expect_status(1).stdout;
    assert!(text.contains("problem"), "{text}");
    let object = run(folder.path(), &["verify", "app.db", "--json"]).expect_status(1).json();
    assert_eq!(object["sound"], false);
    assert!(!object["problems"].as_array().unwrap().is_empty());
}

#[test]
fn what_cannot_be_checked_gives_status_3_and_a_reason() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("empty.db"), "").unwrap();
    fs::write(folder.path().join("data.csv"), "a,b\n1,2\n").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    for (name, expected) in [
        ("missing.db", "cannot open missing.db"),
        ("empty.db", "is empty"),
        ("data.csv", "is not a database"),
        ("folder", "is a directory"),
    ] {
        let outcome = run(folder.path(), &["verify", name]).expect_status(3);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("on disk: nothing was changed"), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
        let error = run(folder.path(), &["verify", name, "--json"]).expect_status(3).json();
        assert!(error["error"]["message"].as_str().unwrap().contains(name), "{error}");
    }
    assert!(!folder.path().join("missing.db").exists());
}

#[test]
fn a_database_that_another_process_has_open_is_read_without_a_trace() {
    let folder = TempDir::new().unwrap();
    let connection =
        make_database(folder.path(), "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    let picture = || {
        ["app.db", "app.db-wal", "app.db-shm"].map(|name| {
            let path = folder.path().join(name);
            (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap())
        })
    };
    let before = picture();
    let object = run(folder.path(), &["verify", "app.db", "--json"]).expect_status(0).json();
    assert!(picture() == before);
    assert_eq!(object["tables"], 1, "what only the log holds was seen: {object}");
    drop(connection);

    run(folder.path(), &["verify", "app.db"]).expect_status(0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no -wal, no -shm");
}
