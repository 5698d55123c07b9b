//! Real processes at a real database: Python with an SQLite of its own.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;

/// A Python process that runs some lines, and then waits until it is dropped.
struct Python {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Python {
    /// `lines` find the connection `c` to `a.db`, in autocommit mode.
    fn at(folder: &Path, lines: &str) -> Self {
        let program = format!(
            "import os, sqlite3, sys\n\
             c = sqlite3.connect('a.db', isolation_level=None)\n\
             {lines}\n\
             print('ready', flush=True)\n\
             sys.stdin.read()\n"
        );
        let mut child = Command::new("python3")
            .args(["-c", &program])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let stdin = child.stdin.take();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, stdin }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn database(journal_mode: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = dunce::canonicalize(folder.path()).unwrap().join("a.db");
    let connection = Connection::open(&path).unwrap();
    let sql = format!("PRAGMA journal_mode={journal_mode}; CREATE TABLE t(a)");
    connection.execute_batch(&sql).unwrap();
    connection.close().unwrap();
    (folder, path)
}

/// The locks of a process, those of every reader left out.
fn locks_of(found: &Neighbours, pid: u32) -> Vec<SqliteLock> {
    let usual = [SqliteLock::Shared, SqliteLock::SharedMemory];
    let held = found.locks.iter().filter(|held| held.pids == [pid]);
    held.map(|held| held.lock).filter(|lock| !usual.contains(lock)).collect()
}

#[test]
fn a_database_that_no_process_has_open_has_no_neighbours() {
    let (_folder, path) = database("WAL");
    let found = neighbours(&path).unwrap();
    assert_eq!((found.asked, found.processes.len(), found.locks.len()), (Asked::Proc, 0, 0));
    assert_eq!(found.files.len(), 1);
    assert_eq!(found.second_copy, [""; 0]);
    assert!(!found.linked.has_wal_reset_bug);
    assert_eq!(holders_sentence(&path), None);
    assert!(found.to_string().contains("no process has it open"));
    let nothing = neighbours(path.with_file_name("none.db")).unwrap();
    assert!(nothing.files.is_empty() && nothing.processes.is_empty());
    assert!(neighbours("/").is_err());
    assert!(neighbours("/no/such/folder/a.db").is_err());
}

#[test]
fn the_process_that_writes_to_the_log_is_named() {
    let (folder, path) = database("WAL");
    let python = Python::at(folder.path(), "c.execute('BEGIN IMMEDIATE')");
    let found = neighbours(&path).unwrap();
    let process = found.process(python.pid()).unwrap();
    assert!(process.command.contains("python3 -c import os"), "{process:?}");
    let mut open: Vec<Which> = process.open.iter().map(|file| file.which).collect();
    open.sort();
    assert_eq!(open, [Which::Database, Which::Log, Which::SharedMemory]);
    assert!(process.open.iter().all(|file| file.standing == Standing::InPlace));
    assert_eq!(found.write_locks().len(), 1, "{:?}", found.locks);
    let held = found.write_locks()[0];
    assert_eq!((held.lock, held.style), (SqliteLock::WalWrite, LockStyle::Posix));
    assert_eq!(held.pids, [python.pid()]);
    let sentence = holders_sentence(&path).unwrap();
    assert!(sentence.starts_with(&format!("process {} (python3 -c", python.pid())), "{sentence}");
    assert!(sentence.ends_with("holds the write lock"), "{sentence}");
    assert!(!sentence.contains('\n'), "{sentence}");
    // Its libsqlite3, with the version that it says itself.
    let asked = Command::new("python3")
        .args(["-c", "import sqlite3; print(sqlite3.sqlite_version)"])
        .output()
        .unwrap();
    let version = String::from_utf8(asked.stdout).unwrap();
    let copies = process.copies_of_sqlite();
    if copies.is_empty() {
        println!("NOT CHECKED: this Python has its SQLite in no file of that name");
    } else {
        assert_eq!(copies[0].version.as_deref(), Some(version.trim()));
    }
}

#[test]
fn each_lock_of_a_rollback_journal_is_told_apart() {
    let (folder, path) = database("DELETE");
    for (lines, expected, says) in [
        ("c.execute('BEGIN IMMEDIATE')", &[SqliteLock::Reserved][..], "holds the write lock"),
        (
            "c.execute('BEGIN EXCLUSIVE')",
            &[SqliteLock::Reserved, SqliteLock::Pending, SqliteLock::Exclusive],
            "which keeps readers out too",
        ),
        ("c.execute('SELECT * FROM t')", &[], "has it open"),
    ] {
        let python = Python::at(folder.path(), lines);
        let found = neighbours(&path).unwrap();
        assert_eq!(locks_of(&found, python.pid()), expected, "{lines}: {:?}", found.locks);
        let sentence = holders_sentence(&path).unwrap();
        assert!(sentence.ends_with(says), "{sentence}");
    }
}

#[test]
fn the_reader_is_named_for_which_a_commit_waits() {
    let (folder, path) = database("DELETE");
    let own = Connection::open(&path).unwrap();
    own.execute_batch("INSERT INTO t VALUES (1), (2)").unwrap();
    let reader = Python::at(folder.path(), "c.execute('BEGIN'); c.execute('SELECT * FROM t')");
    own.busy_timeout(std::time::Duration::ZERO).unwrap();
    own.execute_batch("BEGIN; INSERT INTO t VALUES (3)").unwrap();
    own.execute_batch("COMMIT").unwrap_err();
    let sentence = holders_sentence(&path).unwrap();
    let named = format!("process {} (python3", reader.pid());
    assert!(sentence.starts_with(&named) && sentence.contains(") reads it, and"), "{sentence}");
    assert!(!sentence.contains("this process"), "{sentence}");
    own.execute_batch("ROLLBACK").unwrap();

    let lines = "c.execute('PRAGMA busy_timeout=0')\n\
        c.execute('BEGIN'); c.execute('INSERT INTO t VALUES (3)')\n\
        try: c.execute('COMMIT')\n\
        except sqlite3.OperationalError: pass";
    let waiting = Python::at(folder.path(), lines);
    let sentence = holders_sentence(&path).unwrap();
    assert!(sentence.starts_with(&format!("process {} ", waiting.pid())), "{sentence}");
    assert!(sentence.contains(&format!("; {named}")), "{sentence}");
}

#[test]
fn a_reader_of_an_old_state_is_named_with_its_distance() {
    let (folder, path) = database("WAL");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    let reader = Python::at(
        folder.path(),
        "c.execute('BEGIN'); c.execute('SELECT count(*) FROM t').fetchone()",
    );
    writer.execute_batch("INSERT INTO t VALUES (zeroblob(100000))").unwrap();
    let found = neighbours(&path).unwrap();
    let readers = found.readers();
    assert_eq!(readers.len(), 1, "{:?}", found.locks);
    assert_eq!(readers[0].pids, [reader.pid()]);
    let log = found.log.unwrap();
    assert_eq!(readers[0].frame + readers[0].frames_behind, log.frames);
    assert!((24..30).contains(&readers[0].frames_behind), "{readers:?}");
}

#[test]
fn files_that_are_gone_or_replaced_are_told() {
    let (folder, path) = database("WAL");
    let python = Python::at(folder.path(), "c.execute('INSERT INTO t VALUES (1)')");
    fs::remove_file(folder.path().join("a.db-wal")).unwrap();
    fs::remove_file(folder.path().join("a.db-shm")).unwrap();
    fs::write(folder.path().join("a.db-shm"), "").unwrap();
    let found = neighbours(&path).unwrap();
    let lost: Vec<_> =
        found.lost_files().map(|(it, file)| (it.pid, file.which, file.standing)).collect();
    assert!(lost.contains(&(python.pid(), Which::Log, Standing::Deleted)), "{lost:?}");
    assert!(lost.contains(&(python.pid(), Which::SharedMemory, Standing::Replaced)), "{lost:?}");
    assert!(found.to_string().contains("that is deleted"));
}

#[test]
fn a_database_that_was_renamed_keeps_the_log_of_its_old_name() {
    let (folder, path) = database("WAL");
    let python = Python::at(folder.path(), "c.execute('INSERT INTO t VALUES (1)')");
    let new_name = folder.path().join("b.db");
    fs::rename(&path, &new_name).unwrap();
    let found = neighbours(&new_name).unwrap();
    let standings: Vec<_> = found.lost_files().map(|(_, it)| (it.which, it.standing)).collect();
    assert!(standings.contains(&(Which::Log, Standing::OfOtherName)), "{standings:?}");
    let found = neighbours(&path).unwrap();
    let others: Vec<_> = found.with_other_files().map(|(it, which)| (it.pid, which)).collect();
    assert_eq!(others, [(python.pid(), Which::Database)]);
}

#[test]
fn a_descriptor_that_a_fork_inherits_belongs_to_both_processes() {
    let (folder, path) = database("WAL");
    // A lock of an open file description, as another program that is careful takes it.
    let lines = "import fcntl, struct\n\
        c.execute('SELECT * FROM t').fetchall()\n\
        f = os.open('a.db-shm', os.O_RDWR)\n\
        fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 120, 1, 0))\n\
        child = os.fork()\n\
        if child == 0:\n    \
            sys.stdin.read(); os._exit(0)";
    let python = Python::at(folder.path(), lines);
    let found = neighbours(&path).unwrap();
    let held = found.write_locks();
    assert_eq!(held.len(), 1, "{:?}", found.locks);
    assert_eq!((held[0].lock, held[0].style), (SqliteLock::WalWrite, LockStyle::Ofd));
    assert_eq!(held[0].pids.len(), 2, "{held:?}");
    assert!(held[0].pids.contains(&python.pid()), "{held:?}");
    assert!(holders_sentence(&path).unwrap().contains(") and process "));
}

#[test]
fn another_opening_in_this_process_is_a_second_copy() {
    let (_folder, path) = database("DELETE");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let found = neighbours(&path).unwrap();
    assert_eq!(found.second_copy.len(), 1, "{:?}", found.second_copy);
    assert!(found.second_copy[0].contains("was not opened by this library"));
    assert!(found.process(std::process::id()).unwrap().is_this_process);
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let found = neighbours(&path).unwrap();
    assert_eq!(found.second_copy.len(), 2, "{:?}", found.second_copy);
    assert!(
        found.second_copy[1].ends_with("shared, reserved, pending, exclusive")
            || found.second_copy[1].ends_with("reserved, pending, exclusive")
    );
    drop(file);
    assert_eq!(neighbours(&path).unwrap().second_copy, [""; 0]);
}

#[test]
fn a_look_keeps_the_locks_of_this_process() {
    let (folder, path) = database("WAL");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        let found = neighbours(&path).unwrap();
        assert_eq!(found.write_locks().len(), 1, "{:?}", found.locks);
        assert_eq!(found.write_locks()[0].pids, [std::process::id()]);
    }
    let mut other = Command::new("python3")
        .args([
            "-c",
            "import sqlite3; sqlite3.connect('a.db', timeout=0).execute('BEGIN IMMEDIATE')",
        ])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(!other.wait().unwrap().success(), "the database is still locked");
}
