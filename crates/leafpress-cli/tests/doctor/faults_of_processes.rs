//! Planted faults: processes, their locks, their libraries, and files that they lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::id;

use super::helpers::{Python, cares_of, database, expect_care, folder, look, mend_of};

#[test]
fn a_process_that_holds_the_write_lock_of_the_log() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[23]);
    assert!(seen.starts_with(&format!("process {} (", id())), "{seen}");
    assert!(seen.contains("held the lock wal_write"), "{seen}");
    assert!(mend_of(&object, 23).ends_with(&format!("kill {}", id())));
    connection.execute_batch("COMMIT").unwrap();
    expect_care_none(folder.path());
}

fn expect_care_none(folder: &Path) {
    let found = cares_of(&look(folder, "a.db"));
    assert_eq!(found, super::helpers::place_needs_care());
}

#[test]
fn a_process_that_keeps_readers_out() {
    let folder = folder();
    let connection = database(folder.path(), "DELETE");
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[23]);
    assert!(seen.contains("held the lock exclusive"), "{seen}");
    let text = object.to_string();
    assert!(text.contains("no other connection can read or write"), "{text}");
    connection.execute_batch("COMMIT").unwrap();
    expect_care_none(folder.path());
}

#[test]
fn a_process_that_reads_an_old_state() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    let reader = Python::at(
        folder.path(),
        "import sqlite3; c = sqlite3.connect('a.db', isolation_level=None)\n\
         c.execute('BEGIN'); c.execute('SELECT * FROM t').fetchall()",
    );
    connection.execute_batch("INSERT INTO t VALUES (zeroblob(1000000))").unwrap();
    let mut object = look(folder.path(), "a.db");
    forgive_old_python(&mut object);
    let seen = expect_care(&object, &[9]);
    assert!(seen.starts_with(&format!("process {} (python3", reader.pid())), "{seen}");
    drop(reader);
    expect_care_none(folder.path());
}

/// Python may have an SQLite with the WAL-reset bug, which is another test's.
fn forgive_old_python(object: &mut serde_json::Value) {
    object["checks"].as_array_mut().unwrap().retain(|check| check["number"] != 1);
}

#[test]
fn a_process_with_an_sqlite_that_has_the_wal_reset_bug() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    // A program of that name with the texts of such a version in it; that is all that is
    // looked at. Python's own may be mended.
    let library = folder.path().join("libsqlite3-old.so");
    let original = library_of_this_test("libgcc_s.so");
    let mut bytes = fs::read(original).unwrap();
    let source = "2022-12-28 14:03:47 ".to_owned() + &"0123456789abcdef".repeat(4);
    bytes.extend(format!("\0{source}\x003.40.1\0").bytes());
    fs::write(&library, bytes).unwrap();
    let lines = format!("import ctypes; ctypes.CDLL('{}'); f = open('a.db')", library.display());
    let python = Python::at(folder.path(), &lines);
    let seen = expect_care(&look(folder.path(), "a.db"), &[1]);
    assert!(seen.starts_with(&format!("process {} (python3", python.pid())), "{seen}");
    assert!(seen.contains("by its text SQLite 3.40.1 (thin evidence"), "{seen}");
}

/// A library that this test runs, to be copied.
fn library_of_this_test(name: &str) -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains(name)).expect("it is loaded");
    PathBuf::from(&line[line.find('/').unwrap()..])
}

/// Lines of Python that load libraries which look like these versions of SQLite.
fn libraries(folder: &Path, names: &[&str]) -> String {
    let bytes = fs::read(library_of_this_test("libgcc_s.so")).unwrap();
    let source = "2026-01-01 14:03:47 ".to_owned() + &"0123456789abcdef".repeat(4);
    let load = names.iter().map(|name| {
        let library = folder.join(name);
        let texts = format!("\0{source}\x003.54.0\0");
        fs::write(&library, [&bytes, texts.as_bytes()].concat()).unwrap();
        format!("ctypes.CDLL('{}')\n", library.display())
    });
    format!("import ctypes; d = open('a.db')\n{}", load.collect::<String>())
}

#[test]
fn a_process_with_two_copies_of_sqlite() {
    let folder = folder();
    let _connection = database(folder.path(), "DELETE");
    let lines = libraries(folder.path(), &["libsqlite3.so", "_sqlite_other.so"]);
    let python = Python::at(folder.path(), &lines);
    let seen = expect_care(&look(folder.path(), "a.db"), &[27]);
    assert!(seen.starts_with(&format!("process {} (python3", python.pid())), "{seen}");
    assert!(seen.contains("libsqlite3.so") && seen.contains("_sqlite_other.so"), "{seen}");
}

/// Takes a lock of the open file description `f`: `F_OFD_SETLK` is 37 on Linux.
const LOCK_OF_DESCRIPTOR: &str =
    "fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 120, 1, 0))";

#[test]
fn a_process_with_a_copy_beside_leafpress_that_its_locks_do_not_keep_apart() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    let libraries = libraries(folder.path(), &["libsqlite3.so", "_leafpress.so"]);
    let open = "e = os.open('a.db-wal', os.O_RDWR); f = os.open('a.db-shm', os.O_RDWR)";
    let of_process = "fcntl.lockf(f, fcntl.LOCK_SH, 1, 128)";
    let python = Python::at(folder.path(), &format!("{libraries}{open}\n{of_process}"));
    let seen = expect_care(&look(folder.path(), "a.db"), &[27]);
    assert!(seen.contains("_leafpress.so"), "{seen}");
    drop(python);
    // Locks of descriptors do, and Leafpress takes such.
    let of_descriptor = LOCK_OF_DESCRIPTOR.replace("F_WRLCK", "F_RDLCK");
    let _python = Python::at(folder.path(), &format!("{libraries}{open}\n{of_descriptor}"));
    expect_care_none(folder.path());
}

#[test]
fn a_lock_that_a_fork_shares() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    let lines = format!(
        "d = os.open('a.db', os.O_RDWR); f = os.open('a.db-shm', os.O_RDWR)\n\
         {LOCK_OF_DESCRIPTOR}\n\
         if os.fork() == 0:\n    sys.stdin.read(); os._exit(0)"
    );
    let python = Python::at(folder.path(), &lines);
    let seen = expect_care(&look(folder.path(), "a.db"), &[23]);
    assert!(seen.contains(&format!("process {} (", python.pid())), "{seen}");
    assert!(seen.contains(" and process ") && seen.contains("hold the lock wal_write together"));
}

#[test]
fn a_process_whose_syncs_do_nothing() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    let library = folder.path().join("libeatmydata.so");
    fs::copy(library_of_this_test("libgcc_s.so"), &library).unwrap();
    let python = Python::with(folder.path(), "f = open('a.db')", &[("LD_PRELOAD", &library)]);
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[3]);
    assert!(seen.starts_with(&format!("process {} (python3", python.pid())), "{seen}");
}

#[test]
fn a_log_that_was_deleted_under_a_process() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    fs::remove_file(folder.path().join("a.db-wal")).unwrap();
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[28]);
    assert!(seen.contains("the write-ahead log open, which is deleted"), "{seen}");
    assert!(mend_of(&object, 28).contains("VACUUM INTO"));
    drop(connection);
}

#[test]
fn a_log_that_was_replaced_under_a_process() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    let log = folder.path().join("a.db-wal");
    fs::rename(&log, folder.path().join("away")).unwrap();
    fs::copy(folder.path().join("away"), &log).unwrap();
    let seen = expect_care(&look(folder.path(), "a.db"), &[28]);
    assert!(seen.contains("uses the index of this database's log, with another log"), "{seen}");
    fs::remove_file(&log).unwrap();
    fs::rename(folder.path().join("away"), &log).unwrap();
    expect_care_none(folder.path());
    drop(connection);
}

#[test]
fn a_database_that_was_deleted_under_a_process() {
    let folder = folder();
    let connection = database(folder.path(), "DELETE");
    fs::remove_file(folder.path().join("a.db")).unwrap();
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[28]);
    assert!(seen.contains("the database open, which is deleted"), "{seen}");
    // The advice works.
    let mend = mend_of(&object, 28);
    let command = &mend[mend.find("cp /proc/").unwrap()..];
    let words: Vec<&str> = command.split(' ').collect();
    fs::copy(words[1], folder.path().join(words[2])).unwrap();
    drop(connection);
    let rescued = rusqlite::Connection::open(folder.path().join("a.db.rescued")).unwrap();
    rescued.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
}

#[test]
fn a_database_that_was_replaced_under_a_process() {
    let folder = folder();
    let connection = database(folder.path(), "DELETE");
    fs::copy(folder.path().join("a.db"), folder.path().join("new.db")).unwrap();
    fs::rename(folder.path().join("new.db"), folder.path().join("a.db")).unwrap();
    let seen = expect_care(&look(folder.path(), "a.db"), &[28]);
    assert!(seen.contains("the database open, and another file has that name now"), "{seen}");
    drop(connection);
}

#[test]
fn a_database_that_was_renamed_under_a_process() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    fs::rename(folder.path().join("a.db"), folder.path().join("b.db")).unwrap();
    let seen = expect_care(&look(folder.path(), "b.db"), &[28]);
    assert!(seen.contains("under the name that the database had before"), "{seen}");
    drop(connection);
}
