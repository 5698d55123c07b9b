//! Planted faults: the log's size, what was left behind, names, permissions, the place.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::common::{run, say_skipped};
use super::helpers::{Python, cares_of, database, expect_care, finding, folder, look};

/// More than the doctor calls large.
const LARGE: &str = "zeroblob(110000000)";

#[test]
fn a_log_that_no_connection_copies() {
    let folder = folder();
    let connection = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
    let sql = "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a)";
    connection.execute_batch(sql).unwrap();
    connection.execute_batch(&format!("INSERT INTO t VALUES ({LARGE})")).unwrap();
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[6, 7]);
    assert!(seen.contains("no connection makes checkpoints"), "{seen}");

    // Copied, it keeps its size.
    connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
    let seen = expect_care(&look(folder.path(), "a.db"), &[8]);
    assert!(seen.starts_with("the log keeps 1"), "{seen}");

    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    assert_eq!(cares_of(&look(folder.path(), "a.db")), super::helpers::place_needs_care());
}

#[test]
fn a_huge_log_without_an_index() {
    let folder = folder();
    database(folder.path(), "WAL").close().unwrap();
    let log = File::create(folder.path().join("a.db-wal")).unwrap();
    log.set_len(200_000_000).unwrap();
    let mode = fs::metadata(folder.path().join("a.db")).unwrap().permissions();
    log.set_permissions(mode).unwrap();
    expect_care(&look(folder.path(), "a.db"), &[7]);
}

#[test]
fn a_journal_that_is_kept_with_all_its_space() {
    let folder = folder();
    let connection = database(folder.path(), "PERSIST");
    connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    let journal = folder.path().join("a.db-journal");
    assert_eq!(cares_of(&look(folder.path(), "a.db")), super::helpers::place_needs_care());
    File::options().write(true).open(&journal).unwrap().set_len(150_000_000).unwrap();
    let seen = expect_care(&look(folder.path(), "a.db"), &[8]);
    assert!(seen.contains("a journal that is done with keeps 150 MB"), "{seen}");

    // What it advises helps: the SQL in quotes, by another connection.
    drop(connection);
    let fix = super::helpers::fix_of(&look(folder.path(), "a.db"), 8);
    let sql = fix.split('\'').nth(1).unwrap();
    let other = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
    other.execute_batch(sql).unwrap();
    assert!(!journal.exists(), "{fix}");
}

#[test]
fn a_transaction_that_was_cut_off() {
    let folder = folder();
    database(folder.path(), "DELETE").close().unwrap();
    let python = Python::at(
        folder.path(),
        "import sqlite3; c = sqlite3.connect('a.db', isolation_level=None)\n\
         c.execute('PRAGMA cache_size=2'); c.execute('BEGIN')\n\
         c.execute('INSERT INTO t VALUES (zeroblob(100000))')",
    );
    // It is killed.
    drop(python);
    assert!(folder.path().join("a.db-journal").exists());
    let seen = expect_care(&look(folder.path(), "a.db"), &[29]);
    assert!(seen.contains("holds a transaction that was cut off"), "{seen}");
    assert!(folder.path().join("a.db-journal").exists(), "it is still there");
}

/// A database whose transaction is committed, and the journal of that, which names a super-journal.
fn journal_of_several(folder: &Path, super_journal: &Path) {
    let connection = database(folder, "DELETE");
    connection.execute_batch("INSERT INTO t VALUES ('old'); PRAGMA cache_size=2; BEGIN").unwrap();
    connection
        .execute_batch("UPDATE t SET a='new'; INSERT INTO t VALUES (zeroblob(50000))")
        .unwrap();
    let mut journal = fs::read(folder.join("a.db-journal")).unwrap();
    connection.execute_batch("COMMIT").unwrap();
    connection.close().unwrap();
    let name = super_journal.to_str().unwrap().as_bytes();
    let sum: u32 = name.iter().map(|&byte| u32::from(byte)).sum();
    let length = u32::try_from(name.len()).unwrap();
    journal.extend([0, 0x20, 0, 1]);
    journal.extend(name);
    journal.extend([length.to_be_bytes(), sum.to_be_bytes()].concat());
    journal.extend(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7");
    let path = folder.join("a.db-journal");
    fs::write(&path, journal).unwrap();
    let mode = fs::metadata(folder.join("a.db")).unwrap().permissions();
    fs::set_permissions(path, mode).unwrap();
}

#[test]
fn a_journal_whose_super_journal_is_gone_is_of_a_commit() {
    let folder = folder();
    let at = dunce::canonicalize(folder.path()).unwrap();
    journal_of_several(&at, &at.join("a.db-mj12AB3F9C7"));
    let object = look(folder.path(), "a.db");
    assert_eq!(cares_of(&object), super::helpers::place_needs_care(), "{object:#}");
    let (verdict, seen) = finding(&object, 29);
    assert!(verdict == "ok" && seen.contains("the transaction is committed"), "{seen}");

    // The same of a database elsewhere, which may have been copied with its journal.
    let other = super::helpers::folder();
    journal_of_several(other.path(), &at.join("a.db-mj12AB3F9C7"));
    let (verdict, seen) = finding(&look(other.path(), "a.db"), 29);
    assert!(verdict == "unknown" && seen.contains("moved or copied"), "{seen}");

    // SQLite sees it so too.
    let connection = rusqlite::Connection::open(at.join("a.db")).unwrap();
    let first: String =
        connection.query_row("SELECT a FROM t LIMIT 1", [], |row| row.get(0)).unwrap();
    assert_eq!(first, "new");
    assert!(!at.join("a.db-journal").exists());
}

#[test]
fn a_journal_whose_super_journal_is_there_or_was_left_elsewhere() {
    let folder = folder();
    let at = dunce::canonicalize(folder.path()).unwrap();
    journal_of_several(&at, &at.join("a.db-mj12AB3F9C7"));
    fs::write(at.join("a.db-mj12AB3F9C7"), "a.db-journal").unwrap();
    let seen = expect_care(&look(folder.path(), "a.db"), &[29]);
    assert!(seen.contains("holds a transaction that was cut off"), "{seen}");

    let folder = super::helpers::folder();
    journal_of_several(folder.path(), Path::new("/no/such/a.db-mj12AB3F9C7"));
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[29]);
    assert!(seen.contains("/no/such/a.db-mj12AB3F9C7 is not there"), "{seen}");
    assert!(super::helpers::fix_of(&object, 29).contains("back to where they were"));
}

#[test]
fn a_log_without_its_database() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    fs::copy(folder.path().join("a.db-wal"), folder.path().join("b.db-wal")).unwrap();
    drop(connection);
    let seen = expect_care(&look(folder.path(), "b.db"), &[29]);
    assert!(seen.contains("and the database is not there"), "{seen}");
    fs::write(folder.path().join("b.db"), "").unwrap();
    fs::set_permissions(folder.path().join("b.db-wal"), Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(folder.path().join("b.db"), Permissions::from_mode(0o644)).unwrap();
    let seen = expect_care(&look(folder.path(), "b.db"), &[29]);
    assert!(seen.contains("and the database is empty"), "{seen}");
}

#[test]
fn a_database_with_two_names() {
    let folder = folder();
    database(folder.path(), "WAL").close().unwrap();
    fs::hard_link(folder.path().join("a.db"), folder.path().join("b.db")).unwrap();
    for name in ["a.db", "b.db"] {
        expect_care(&look(folder.path(), name), &[30]);
    }
}

#[test]
fn a_log_that_others_may_not_open() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    let path = folder.path().join("a.db");
    let log = folder.path().join("a.db-wal");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    for name in ["a.db-wal", "a.db-shm"] {
        fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o644)).unwrap();
    }
    assert_eq!(cares_of(&look(folder.path(), "a.db")), super::helpers::place_needs_care());
    fs::set_permissions(&log, Permissions::from_mode(0o600)).unwrap();
    let seen = expect_care(&look(folder.path(), "a.db"), &[31]);
    assert!(seen.ends_with("a.db-wal has the permissions 600, the database 644"), "{seen}");
    fs::set_permissions(&log, Permissions::from_mode(0o644)).unwrap();
    // The file by which writers share the database is for those who may write it.
    let shared = folder.path().join("a.db-shared");
    fs::write(&shared, "").unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(cares_of(&look(folder.path(), "a.db")), super::helpers::place_needs_care());
    fs::set_permissions(&shared, Permissions::from_mode(0o666)).unwrap();
    let seen = expect_care(&look(folder.path(), "a.db"), &[31]);
    assert!(seen.ends_with("a.db-shared has the permissions 666, the database 644"), "{seen}");
    fs::remove_file(&shared).unwrap();
    if std::os::unix::fs::chown(&log, Some(4711), None).is_ok() {
        let seen = expect_care(&look(folder.path(), "a.db"), &[31]);
        assert!(seen.contains("a.db-wal belongs to user 4711"), "{seen}");
    } else {
        say_skipped("only root gives files away, so another owner was not planted");
    }
    drop(connection);
}

#[test]
fn a_database_in_memory() {
    let Ok(folder) = TempDir::new_in("/dev/shm") else {
        say_skipped("this machine has no /dev/shm");
        return;
    };
    database(folder.path(), "WAL").close().unwrap();
    let object = look(folder.path(), "a.db");
    let seen = expect_care(&object, &[25]);
    assert!(seen.starts_with("tmpfs"), "{seen}");
    assert!(object.to_string().contains("must survive a restart"));
}

#[test]
fn a_database_in_the_layer_of_a_container() {
    let folder = folder();
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    database(&folder.path().join("lower"), "WAL").close().unwrap();
    let command = env!("CARGO_BIN_EXE_leafpress");
    let script = format!(
        "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 99\n\
         exec {command} doctor merged/a.db --json"
    );
    let outcome = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", &script])
        .current_dir(folder.path())
        .output();
    let Some(output) = outcome.ok().filter(|output| output.status.code() == Some(1)) else {
        say_skipped("this user may not mount an overlay; the doctor's unit tests plant one");
        return;
    };
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let seen = expect_care(&object, &[25]);
    assert!(seen.starts_with("overlay"), "{seen}");
    assert!(object.to_string().contains("volume"), "{object}");
    // To look is not to copy the database out of the layer.
    let copied = fs::read_dir(folder.path().join("upper")).unwrap().count();
    assert_eq!(copied, 0, "files in the upper folder");
}

#[test]
fn a_path_with_blanks_and_quotes_stands_in_advice_as_a_shell_takes_it() {
    let folder = folder();
    let name = "it's a base.db";
    database(folder.path(), "WAL").close().unwrap();
    fs::rename(folder.path().join("a.db"), folder.path().join(name)).unwrap();
    fs::hard_link(folder.path().join(name), folder.path().join("other.db")).unwrap();
    let outcome = run(folder.path(), &["doctor", name, "--json"]).expect_status(1);
    let fix = super::helpers::fix_of(&outcome.json(), 30);
    let quoted = fix.split("-samefile ").nth(1).unwrap().split(';').next().unwrap();
    let found = Command::new("sh").args(["-c", &format!("ls {quoted}")]).output().unwrap();
    let listed = String::from_utf8(found.stdout).unwrap();
    assert_eq!(Path::new(listed.trim_end()).file_name().unwrap(), name);
}
