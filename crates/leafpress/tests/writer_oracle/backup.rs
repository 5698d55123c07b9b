//! Copies of a database in use: of one moment, with a name when they are whole, and private.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use leafpress::writer::{BackupProgress, Writer};
use leafpress::{ErrorKind, Profile};
use rusqlite::{Connection, OpenFlags};

const PROFILES: [Profile; 3] = [Profile::Durable, Profile::Relaxed, Profile::Rollback];

fn shop(folder: &Path, profile: Profile) -> Writer {
    let writer = Writer::builder(folder.join("a.db")).profile(profile).open().expect("a writer");
    writer
        .execute_batch(
            "CREATE TABLE account(id INTEGER PRIMARY KEY, cents, filler);
             INSERT INTO account VALUES (1, 1000, ''), (2, 0, '')",
        )
        .expect("a table");
    let filler = "x".repeat(2_000);
    let many = (10..5_000_i64).map(|id| (id, 0, filler.as_str()));
    writer.insert_many("account", &["id", "cents", "filler"], many).expect("rows");
    writer
}

/// The sum of all accounts, after a check of the whole copy.
fn sum(copy: &Path) -> i64 {
    let connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let connection = connection.expect("a database");
    let verdict = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0));
    assert_eq!(verdict, Ok("ok".to_owned()));
    let sum = connection.query_row("SELECT sum(cents) FROM account", [], |row| row.get(0));
    sum.expect("a sum")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry"));
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Ends the other threads, also if the test fails.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_copy_is_of_one_moment_while_others_write_and_holds_what_was_answered() {
    for profile in PROFILES {
        let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let writer = shop(folder.path(), profile);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetAtEnd(&is_over);
            scope.spawn(|| {
                // Money moves between the first page and the last.
                while !is_over.load(Ordering::Relaxed) {
                    let move_money = "UPDATE account SET cents = cents - 1 WHERE id = 1;
                                      UPDATE account SET cents = cents + 1 WHERE id = 4999";
                    writer.execute_batch(move_money).expect("moved");
                }
            });
            for at in 0..3_i64 {
                let row = "INSERT INTO account VALUES (?1, 0, 'answered before the copy')";
                writer.execute(row, [10_000 + at]).expect("a row");
                let copy = copies.path().join(format!("{at}.db"));
                let mut seen: Vec<BackupProgress> = Vec::new();
                let note = |progress| {
                    seen.push(progress);
                    ControlFlow::Continue(())
                };
                writer.backup_with(&copy, note).expect("a copy");
                assert_eq!(sum(&copy), 1_000, "{profile}");
                let connection = Connection::open(&copy).expect("a database");
                let exists = "SELECT count(*) FROM account WHERE id = ?1";
                let found = connection.query_row(exists, [10_000 + at], |row| row.get(0));
                assert_eq!(found, Ok(1), "{profile}");
                let last = seen.last().expect("progress");
                assert!(seen.len() > 1 && last.pages_done == last.pages_total, "{last:?}");
                assert!(seen.is_sorted_by_key(|it| it.pages_done), "no step begins anew");
            }
        });
        writer.close().expect("closed");
        let copy = copies.path().join("0.db");
        let writer = Writer::builder(copy).profile(profile).open().expect("a writer");
        writer.execute("DELETE FROM account", ()).expect("it is a database like any");
    }
}

#[test]
fn a_copy_replaces_nothing_and_a_failure_leaves_nothing() {
    for profile in PROFILES {
        let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let writer = shop(folder.path(), profile);
        let taken = copies.path().join("taken.db");
        std::fs::write(&taken, "mine").expect("a file");
        let error = writer.backup_to(&taken).expect_err("the name is taken");
        assert!(matches!(error.kind(), ErrorKind::Destination { .. }), "{error}");
        assert_eq!(std::fs::read(&taken).expect("a file"), b"mine");
        let missing = writer.backup_to(copies.path().join("no/folder/a.db"));
        assert!(missing.is_err());
        let copy = copies.path().join("copy.db");
        let broken = AssertUnwindSafe(|| writer.backup_with(&copy, |_| panic!("in the callback")));
        assert!(!matches!(catch_unwind(broken), Ok(Ok(()))));
        let error = writer.backup_with(&copy, |_| ControlFlow::Break(())).expect_err("broken off");
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
        assert_eq!(names(copies.path()), ["taken.db"], "{profile}");
        writer.execute("DELETE FROM account WHERE id = 2", ()).expect("the writer goes on");
        writer.backup_to(&copy).expect("a copy");
        assert_eq!(names(copies.path()), ["copy.db", "taken.db"], "{profile}");
        let closed = writer.clone();
        writer.close().expect("closed");
        drop(closed);
    }
}

#[cfg(unix)]
#[test]
fn a_copy_is_as_private_as_its_database() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let writer = shop(folder.path(), Profile::Relaxed);
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("a.db"), private).expect("our file");
    let copy = folder.path().join("copy.db");
    writer
        .backup_with(&copy, |_| {
            for name in names(folder.path()).iter().filter(|name| name.contains("copy.db")) {
                let found = folder.path().join(name).metadata().expect("a file");
                assert_eq!(found.permissions().mode() & 0o077, 0, "{name}");
            }
            ControlFlow::Continue(())
        })
        .expect("a copy");
    assert_eq!(copy.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
}
