//! The neighbour really is a second copy of SQLite with locks of its own: without
//! `leafpress` two copies do not exclude each other.
//!
//! Must never: call `leafpress`, which may guard the whole process against it.
#![cfg(unix)]

use std::time::Duration;

use leafpress_neighbour::{Connection, Neighbour};

/// A new database, a connection of our copy and one of the neighbour's.
fn two_copies(journal_mode: &str) -> (tempfile::TempDir, rusqlite::Connection, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ours = rusqlite::Connection::open(&path).unwrap();
    ours.pragma_update(None, "journal_mode", journal_mode).unwrap();
    ours.execute_batch("CREATE TABLE t (x)").unwrap();
    let theirs = Neighbour::load().open(&path, Duration::ZERO).unwrap();
    (folder, ours, theirs)
}

#[test]
fn it_is_of_the_same_version() {
    assert_eq!(Neighbour::load().version(), rusqlite::version());
}

#[test]
fn two_plain_copies_both_get_the_write_lock() {
    for journal_mode in ["WAL", "DELETE"] {
        let (_folder, ours, theirs) = two_copies(journal_mode);
        ours.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
        theirs.execute("BEGIN IMMEDIATE").unwrap();
    }
}

/// Connections of one copy do exclude each other.
#[test]
fn one_copy_excludes_itself() {
    for journal_mode in ["WAL", "DELETE"] {
        let (folder, _ours, theirs) = two_copies(journal_mode);
        let path = folder.path().join("a.db");
        let other = Neighbour::load().open(&path, Duration::ZERO).unwrap();
        theirs.execute("BEGIN IMMEDIATE").unwrap();
        assert!(other.execute("BEGIN IMMEDIATE").unwrap_err().is_busy());
    }
}

/// Reading and closing is enough: the log of our connection loses its name.
#[test]
fn a_plain_copy_that_closes_takes_the_log_away() {
    let (folder, ours, theirs) = two_copies("WAL");
    ours.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(theirs.query_i64("SELECT count(*) FROM t").unwrap(), 1);
    drop(theirs);
    assert!(!folder.path().join("a.db-wal").exists());
}
