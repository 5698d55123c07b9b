//! Planted faults: processes, their locks, their libraries, and files that they lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::id;

use super::helpers::{Python, cares_of, database, expect_care, finding, fix_of, folder, look};

#[test]
fn a_process_that_holds_the_write_lock_of_the_log() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[23]);
    assert!(seen.starts_with(&format!("process {} (", id())), "{seen}");
    assert!(seen.contains("held the lock wal_write"), "{seen}");
    assert!(fix_of(&object, 23).ends_with(&format!("kill {}", id())));
    connection.execute_batch("COMMIT").unwrap();
    expect_care_none(folder.path());
}

fn expect_care_none(folder: &Path) {
    expect_no_care(&look(folder, "a.db"));
}

fn expect_no_care(object: &serde_json::Value) {
    assert_eq!(cares_of(object), super::helpers::place_needs_care(), "{object:#}");
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
fn processes_with_an_sqlite_that_has_the_wal_reset_bug() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    // Python's own may be fixed. A name tells nothing.
    let lines = code(folder.path(), "codec.so", "3.40.1") + "f = open('a.db')";
    let python = Python::at(folder.path(), &lines);
    let seen = expect_care(&look(folder.path(), "a.db"), &[1]);
    assert!(seen.starts_with(&format!("process {} (python3", python.pid())), "{seen}");
    assert!(seen.contains("codec.so, by its text SQLite 3.40.1 (thin evidence"), "{seen}");
    // All of them are named.
    let same = Python::at(folder.path(), &lines);
    let lines = code(folder.path(), "other", "3.38.1") + "f = open('a.db')";
    let other = Python::at(folder.path(), &lines);
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[1]);
    for process in [&python, &same, &other] {
        assert!(seen.contains(&format!("process {} (", process.pid())), "{seen}");
        assert!(fix_of(&object, 1).contains(&process.pid().to_string()));
    }
    assert!(seen.contains("SQLite 3.40.1; process") && seen.contains("SQLite 3.38.1"), "{seen}");
}

#[test]
fn a_process_whose_sqlite_is_not_found_is_not_called_fine() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    let python = Python::at(folder.path(), "f = open('a.db')");
    let object = look(folder.path(), "a.db");
    for number in [1, 27] {
        let (verdict, seen) = finding(&object, number);
        assert_eq!(verdict, "unknown", "{seen}");
        let named = format!("cannot be told for process {} (", python.pid());
        assert!(seen.contains(&named) && seen.contains("no SQLite was found in"), "{seen}");
    }
    drop(python);
    // One that does not tell its version.
    let lines = code(folder.path(), "codec.so", "3.4") + "f = open('a.db')";
    let _python = Python::at(folder.path(), &lines);
    let object = look(folder.path(), "a.db");
    let (verdict, seen) = finding(&object, 1);
    assert!(verdict == "unknown" && seen.contains("does not tell its version"), "{seen}");
    assert_eq!(finding(&object, 27).0, "ok");
}

#[test]
fn a_library_that_was_replaced_is_not_taken_for_the_one_that_runs() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    let lines = code(folder.path(), "codec.so", "3.40.1") + "f = open('a.db')";
    let _python = Python::at(folder.path(), &lines);
    fs::remove_file(folder.path().join("codec.so")).unwrap();
    code(folder.path(), "codec.so", "3.54.1");
    // Root can read a file that has no name any more.
    let (verdict, seen) = finding(&look(folder.path(), "a.db"), 1);
    let is_right = match &*verdict {
        "care" => seen.contains("SQLite 3.40.1"),
        "unknown" => seen.contains("codec.so could not be read"),
        _ => false,
    };
    assert!(is_right, "{verdict}: {seen}");
}

/// Lines of Python that map a file to be run, with the texts in it that a build of SQLite has: that
/// is all that is looked at.
fn code(folder: &Path, name: &str, version: &str) -> String {
    let file = folder.join(name);
    let source = "2026-01-01 14:03:47 ".to_owned() + &"0123456789abcdef".repeat(4);
    let core = "API call with %s database connection pointer";
    fs::write(&file, format!("\0{core}\0{source}\0\x01{version}\0")).unwrap();
    format!(
        "import mmap; maps = globals().get('maps', []); maps.append(mmap.mmap(\
         os.open('{}', os.O_RDONLY), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))\n",
        file.display()
    )
}

/// A library that this test runs, to be copied.
fn library_of_this_test(name: &str) -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains(name)).expect("it is loaded");
    PathBuf::from(&line[line.find('/').unwrap()..])
}

#[test]
fn a_process_with_two_copies_of_sqlite() {
    let folder = folder();
    let _connection = database(folder.path(), "DELETE");
    // A folder of that name does not make it Leafpress.
    fs::create_dir(folder.path().join("leafpress")).unwrap();
    let lines = code(folder.path(), "libsqlite3.so", "3.54.0")
        + &code(folder.path(), "leafpress/extension", "3.54.1")
        + "d = open('a.db')\n";
    let python = Python::at(folder.path(), &format!("{lines}e = open('a.db')"));
    let second = Python::at(folder.path(), &format!("{lines}e = open('a.db')"));
    let seen = expect_care(&look(folder.path(), "a.db"), &[27]);
    for process in [&python, &second] {
        assert!(seen.contains(&format!("process {} (python3", process.pid())), "{seen}");
    }
    assert!(seen.contains("libsqlite3.so") && seen.contains("/extension"), "{seen}");
    drop((python, second));
    // Opened once, it is open in one of them only.
    let python = Python::at(folder.path(), &lines);
    let object = look(folder.path(), "a.db");
    expect_no_care(&object);
    let (verdict, seen) = finding(&object, 27);
    assert_eq!(verdict, "unknown", "{seen}");
    assert!(seen.starts_with(&format!("process {} (python3", python.pid())), "{seen}");
    assert!(seen.contains("one copy alone has this database open"), "{seen}");
}

/// One copy opens the index of the log once, however many connections it has.
#[test]
fn copies_of_sqlite_are_told_by_the_index_of_the_log() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    let lines = code(folder.path(), "libsqlite3.so", "3.54.0")
        + &code(folder.path(), "extension", "3.54.1")
        + "d = open('a.db'); e = open('a.db'); f = open('a.db-shm')\n";
    let python = Python::at(folder.path(), &lines);
    expect_care_none(folder.path());
    drop(python);
    let _python = Python::at(folder.path(), &format!("{lines}g = open('a.db-shm')"));
    expect_care(&look(folder.path(), "a.db"), &[27]);
}

/// Takes a lock of the open file description `f`: `F_OFD_SETLK` is 37 on Linux.
const LOCK_OF_DESCRIPTOR: &str =
    "fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 120, 1, 0))";

#[test]
fn a_process_with_a_copy_beside_leafpress_that_its_locks_do_not_keep_apart() {
    let folder = folder();
    let _connection = database(folder.path(), "WAL");
    let libraries = code(folder.path(), "libsqlite3.so", "3.54.0")
        + &code(folder.path(), "_leafpress.so", "3.54.0");
    let open = "d = open('a.db'); e = os.open('a.db-wal', os.O_RDWR)\n\
        f = os.open('a.db-shm', os.O_RDWR); g = os.open('a.db-shm', os.O_RDWR)";
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
    assert!(fix_of(&object, 28).contains("VACUUM INTO"));
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
    for journal in ["DELETE", "WAL"] {
        let folder = folder();
        let connection = database(folder.path(), journal);
        connection.execute_batch("CREATE TABLE last(n); INSERT INTO last VALUES (7)").unwrap();
        for ending in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(folder.path().join(format!("a.db{ending}")));
        }
        let object = look(folder.path(), "a.db");
        let seen = expect_care(&object, &[28]);
        assert!(seen.contains("the database open, which is deleted"), "{seen}");
        // The advice works.
        let fix = fix_of(&object, 28);
        let command = &fix[fix.find("cp /proc/").unwrap()..];
        for copy in command.split(" && ") {
            let words: Vec<&str> = copy.split(' ').collect();
            fs::copy(words[1], folder.path().join(words[2])).unwrap();
        }
        drop(connection);
        let rescued = rusqlite::Connection::open(folder.path().join("a.db.rescued")).unwrap();
        assert_eq!(rescued.query_row("SELECT n FROM last", [], |row| row.get(0)), Ok(7));
    }
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
