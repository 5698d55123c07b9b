//! `leafpress::verify`: what it finds, what it refuses to judge, and that it
//! leaves no trace in the folder, whatever the state of the database.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use leafpress::ErrorKind;
use leafpress::verify::{VerifyOptions, verify};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use tempfile::TempDir;

/// Every file of the folder with its bytes and its time of change.
fn picture(folder: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            (path.clone(), fs::read(&path).unwrap_or_default(), changed)
        })
        .collect();
    files.sort();
    files
}

/// A database with an index, a foreign key and a few hundred pages.
fn database(folder: &TempDir, settings: &str) -> (PathBuf, Connection) {
    let path = folder.path().join("app.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(&format!(
            "{settings};
             CREATE TABLE parent(id INTEGER PRIMARY KEY, name TEXT);
             CREATE TABLE child(id INTEGER PRIMARY KEY, parent_id REFERENCES parent);
             CREATE INDEX parent_name ON parent(name);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO parent SELECT i, 'a name like any other, number ' || i FROM n;
             INSERT INTO child VALUES (1, 1), (2, 2);"
        ))
        .unwrap();
    (path, connection)
}

/// The reason of a check that could not be made; asserts that nothing was touched.
fn refusal(path: &Path) -> String {
    let before = picture(path.parent().unwrap());
    let error = verify(path, &VerifyOptions::default()).unwrap_err();
    assert_eq!(error.state_on_disk(), Some("nothing was changed"));
    assert!(picture(path.parent().unwrap()) == before, "verify left a trace");
    error.to_string()
}

#[test]
fn a_sound_database_is_sound_and_described() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "PRAGMA page_size=1024");
    drop(connection);
    for (quick, name) in [(false, "integrity_check"), (true, "quick_check")] {
        let report = verify(&path, &VerifyOptions::default().quick(quick)).unwrap();
        assert!(report.sound, "{:?}", report.problems);
        assert_eq!(report.check, name);
        assert_eq!(report.page_size_bytes, Some(1024));
        assert_eq!(report.pages.unwrap() * 1024, fs::metadata(&path).unwrap().len());
        assert_eq!((report.tables, report.indexes), (Some(2), Some(1)));
        assert_eq!(report.sqlite_version, rusqlite::version());
        assert!(report.notes.is_empty());
    }
}

#[test]
fn a_path_with_the_signs_of_a_uri_is_a_path() {
    let folder = TempDir::new().unwrap();
    // Windows takes no question marks.
    let name = if cfg!(windows) { "100% ä#x.db" } else { "100% ä?mode=rw#x.db" };
    let path = folder.path().join(name);
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    assert!(verify(&path, &VerifyOptions::default()).unwrap().sound);
}

#[test]
fn overwritten_bytes_are_found_and_the_list_is_cut() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "PRAGMA page_size=1024");
    drop(connection);
    let mut bytes = fs::read(&path).unwrap();
    for page in 20..60 {
        bytes[page * 1024 + 8..page * 1024 + 24].fill(0xAA);
    }
    fs::write(&path, bytes).unwrap();
    let report = verify(&path, &VerifyOptions::default().problems_max(5)).unwrap();
    assert!(!report.sound);
    assert_eq!(report.problems.len(), 5, "{:?}", report.problems);
    assert!(report.more_problems);
}

#[test]
fn a_damaged_schema_or_header_is_a_problem_and_no_error() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "PRAGMA page_size=4096");
    drop(connection);
    let whole = fs::read(&path).unwrap();
    for (range, byte) in [(100..108, 0xFF), (16..18, 0x33), (3000..4096, 0x11)] {
        let mut bytes = whole.clone();
        bytes[range.clone()].fill(byte);
        fs::write(&path, bytes).unwrap();
        let report = verify(&path, &VerifyOptions::default()).unwrap();
        assert!(!report.sound, "bytes {range:?}");
    }
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(!verify(&path, &VerifyOptions::default()).unwrap().sound, "cut in half");
}

#[test]
fn an_index_that_misses_a_row_is_found_by_the_full_check_only() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "");
    connection
        .execute_batch(
            "PRAGMA writable_schema=ON;
             UPDATE sqlite_schema SET sql = 'CREATE INDEX parent_name ON parent(id)'
             WHERE name = 'parent_name';",
        )
        .unwrap();
    drop(connection);
    assert!(!verify(&path, &VerifyOptions::default()).unwrap().sound);
    assert!(verify(&path, &VerifyOptions::default().quick(true)).unwrap().sound);
}

#[test]
fn broken_foreign_keys_are_problems_table_by_table() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "");
    connection
        .execute_batch(
            "PRAGMA foreign_keys=OFF;
             CREATE TABLE a_mismatch(name REFERENCES parent(name));
             INSERT INTO a_mismatch VALUES ('x');
             INSERT INTO child VALUES (7, 123456);",
        )
        .unwrap();
    drop(connection);
    let problems = verify(&path, &VerifyOptions::default()).unwrap().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems.contains(&"table child: row 7 refers to a row of parent that is not there".into())
    );
    assert!(problems.iter().any(|it| it.contains("a_mismatch") && it.contains("mismatch")));
}

#[test]
fn a_wal_database_is_read_without_a_trace() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "PRAGMA journal_mode=WAL");
    // Open: the log counts, and the row that breaks the key is only there.
    connection
        .execute_batch(
            "PRAGMA wal_autocheckpoint=0; PRAGMA foreign_keys=OFF;
             INSERT INTO child VALUES (9, 999999)",
        )
        .unwrap();
    // The other connection of this process shares its memory with ours, and
    // writes to it; from another process `-shm` stays as it is (see the tests
    // of the command).
    let without_shared_memory = || {
        let mut files = picture(folder.path());
        files.retain(|(path, ..)| !path.ends_with("app.db-shm"));
        files
    };
    let before = without_shared_memory();
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.notes[0].contains("-wal"));
    assert!(without_shared_memory() == before);

    connection.execute_batch("DELETE FROM child WHERE id = 9").unwrap();
    drop(connection);
    let before = picture(folder.path());
    assert_eq!(before.len(), 1, "the last connection removes the log");
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    assert!(report.sound, "{:?}", report.problems);
    assert!(report.notes[0].contains("immutable=1"));
    assert!(picture(folder.path()) == before, "no -wal, no -shm");
}

#[test]
fn a_log_that_must_be_recovered_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "PRAGMA journal_mode=WAL");
    let crashed = TempDir::new().unwrap();
    let copy = crashed.path().join("app.db");
    fs::copy(&path, &copy).unwrap();
    fs::copy(folder.path().join("app.db-wal"), crashed.path().join("app.db-wal")).unwrap();
    drop(connection);
    let message = refusal(&copy);
    assert!(message.contains("needs recovery") && message.contains("to do:"), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_of_a_program_that_keeps_the_database_is_no_leftover() {
    let folder = TempDir::new().unwrap();
    // In this order SQLite keeps the index of the log in its memory.
    let settings = "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL";
    let (path, _connection) = database(&folder, settings);
    assert!(!folder.path().join("app.db-shm").exists());
    let error = verify(&path, &VerifyOptions::default()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Busy { .. }), "{error}");
    assert!(error.to_string().contains("exclusive lock"), "{error}");
}

#[test]
fn a_hot_journal_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "PRAGMA cache_size=5");
    connection.execute_batch("BEGIN; UPDATE parent SET name = 'x'").unwrap();
    let crashed = TempDir::new().unwrap();
    let copy = crashed.path().join("app.db");
    fs::copy(&path, &copy).unwrap();
    fs::copy(folder.path().join("app.db-journal"), crashed.path().join("app.db-journal")).unwrap();
    drop(connection);
    let message = refusal(&copy);
    assert!(message.contains("needs recovery"), "{message}");
}

#[test]
fn what_is_no_database_is_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("it");
    assert!(refusal(&path).contains("cannot open"), "missing");
    assert!(!path.exists());
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    assert!(refusal(&inner).contains("directory"));

    let mut seed = 1_u64;
    let random: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    })
    .take(8192)
    .collect();
    for (bytes, expected) in [
        (&b""[..], "is empty"),
        (b"id,name\n1,Ada\n", "does not begin with"),
        (b"SQLite format 3\0", "cut short"),
        (b"\x1f\x8b\x08\0\0", "gzip"),
        (b"\x37\x7f\x06\x82 a log", "write-ahead log"),
        (&random, "encrypted"),
        (&[b'x'; 1024], "does not begin with"),
    ] {
        fs::write(&path, bytes).unwrap();
        let message = refusal(&path);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn the_caller_can_stop_it() {
    let folder = TempDir::new().unwrap();
    let (path, connection) = database(&folder, "");
    drop(connection);
    let error = verify(&path, &VerifyOptions::default().stop_when(|| true)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    assert_eq!(error.advice(), None, "it was as asked");
}

/// SQLite takes a number beyond 32 bits for the name of a table.
#[test]
fn all_problems_may_be_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    assert!(verify(&path, &VerifyOptions::default().problems_max(usize::MAX)).unwrap().sound);
}

#[test]
fn a_foreign_key_that_needs_a_function_of_the_application_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let connection = Connection::open(&path).unwrap();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("own", 1, flags, |_| Ok(1)).unwrap();
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1);
        CREATE TABLE c(x, g AS (own(x)) REFERENCES p); INSERT INTO c VALUES (5)";
    connection.execute_batch(sql).unwrap();
    drop(connection);
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    assert!(report.sound, "{report:?}");
    assert!(report.notes.iter().any(|it| it.contains("own")), "{report:?}");
}
