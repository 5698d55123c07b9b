//! A statement that is alone in its group, and has run before: it commits itself, without BEGIN and
//! COMMIT. It must end as it would in a transaction.

use std::time::Duration;

use leafpress::writer::Writer;
use leafpress::{ErrorKind, Profile};
use rusqlite::Connection;
use tempfile::TempDir;

use super::calls::words;

const PROFILES: [Profile; 4] =
    [Profile::Durable, Profile::Relaxed, Profile::Rollback, Profile::Rebuildable];
const INSERT: &str = "INSERT INTO t(id, n) VALUES (?1, ?1), (?2, ?2)";

/// A writer, and a connection of a program that knows nothing of it.
fn open(profile: Profile, busy_limit: Duration) -> (Writer, Connection, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let mut builder = Writer::builder(&path).profile(profile).busy_limit(busy_limit);
    if profile == Profile::Rebuildable {
        builder = builder.rebuildable_ok();
    }
    let writer = builder.foreign_keys(true).open().expect("a writer");
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, n UNIQUE);
        CREATE TABLE child(t REFERENCES t DEFERRABLE INITIALLY DEFERRED)";
    writer.execute_batch(schema).expect("tables");
    let other = Connection::open(&path).expect("a connection");
    // Each statement runs in a transaction of the writer at first.
    for ids in [[1, 2], [3, 4], [5, 6]] {
        assert_eq!(writer.execute(INSERT, ids).expect("two rows").rows_changed, 2);
    }
    (writer, other, folder)
}

fn ids(other: &Connection) -> Vec<i64> {
    let sound: String =
        other.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(sound, "ok");
    let mut statement = other.prepare("SELECT id FROM t ORDER BY id").expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a number")).collect()
}

#[test]
fn one_that_fails_leaves_nothing_and_the_next_one_works() {
    for profile in PROFILES {
        let (writer, other, _folder) = open(profile, Duration::from_secs(5));
        for _ in 0..2 {
            let error = writer.execute(INSERT, [9, 1]).expect_err("1 is there");
            assert_eq!(words(&error), "1555: UNIQUE constraint failed: t.id");
            assert_eq!(
                error.state_on_disk(),
                Some("nothing of this call; other callers' are not touched")
            );
        }
        let child = "INSERT INTO child VALUES (?1)";
        writer.execute(child, [1]).expect("it has a parent");
        for _ in 0..2 {
            let error = writer.execute(child, [99]).expect_err("it has no parent");
            assert!(words(&error).starts_with("787: FOREIGN KEY constraint failed"), "{error}");
        }
        let error = writer.execute(INSERT, [7]).expect_err("a value is missing");
        assert!(matches!(error.kind(), ErrorKind::Sqlite { .. }), "{error:?}");
        let changed = writer.execute(INSERT, [7, 8]).expect("two rows");
        assert_eq!((changed.rows_changed, changed.last_insert_rowid), (2, 8));
        let count = "SELECT count(*) FROM t";
        for _ in 0..3 {
            assert_eq!(writer.execute(count, ()).expect("it reads").rows_changed, 0);
        }
        let all = "UPDATE t SET n = n + 100 WHERE id > ?1 RETURNING id";
        for rows_changed in [8, 8, 8] {
            let changed = writer.execute(all, [0]).expect("all rows");
            assert_eq!(changed.rows_changed, rows_changed);
        }
        let changed = writer.execute(all, [100]).expect("no row");
        assert_eq!(changed.rows_changed, 0);
        assert_eq!(ids(&other), [1, 2, 3, 4, 5, 6, 7, 8], "{profile:?}");
        assert_eq!(writer.stats().calls, 18, "{profile:?}");
        writer.close().expect("it closes");
    }
}

/// Without the look at compilations, the first row of the failing statement would stay.
#[test]
fn a_trigger_of_another_process_leaves_no_half_of_a_statement() {
    for profile in PROFILES {
        let (writer, other, _folder) = open(profile, Duration::from_secs(5));
        let more = "CREATE TRIGGER more AFTER INSERT ON t BEGIN
            SELECT RAISE(FAIL, 'more') WHERE new.id > 99; END";
        other.execute_batch(more).expect("a trigger");
        for _ in 0..2 {
            let error = writer.execute(INSERT, [50, 100]).expect_err("the second is more");
            assert_eq!(words(&error), "1811: more");
            assert_eq!(ids(&other), [1, 2, 3, 4, 5, 6], "{profile:?}");
        }
        other.execute_batch("DROP TRIGGER more").expect("it is dropped");
        for first in [50, 100, 110] {
            writer.execute(INSERT, [first, first + 1]).expect("two rows");
        }
        // The words that keep it from committing itself have come and gone: as before.
        other.execute_batch(more).expect("a trigger");
        let error = writer.execute(INSERT, [60, 200]).expect_err("the second is more");
        assert_eq!(words(&error), "1811: more");
        assert_eq!(ids(&other), [1, 2, 3, 4, 5, 6, 50, 51, 100, 101, 110, 111], "{profile:?}");
    }
}

#[test]
fn it_waits_for_the_lock_of_another_process_and_says_who_has_it() {
    for profile in PROFILES {
        let (writer, other, _folder) = open(profile, Duration::from_millis(30));
        other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        for _ in 0..2 {
            let error = writer.execute(INSERT, [7, 8]).expect_err("it is locked");
            let ErrorKind::Busy { waited, .. } = error.kind() else { unreachable!("{error:?}") };
            assert!(*waited >= Duration::from_millis(30), "{waited:?}");
            assert_eq!(error.state_on_disk(), Some("nothing of this call"));
        }
        other.execute_batch("COMMIT").expect("the lock is free");
        writer.execute(INSERT, [7, 8]).expect("two rows");
        assert_eq!(ids(&other), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(writer.stats().busy_waits >= 2);
    }
}

#[test]
fn it_ends_at_its_limit_with_nothing_done() {
    for profile in PROFILES {
        let (writer, other, _folder) = open(profile, Duration::from_secs(5));
        let many = "WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
            INSERT INTO t SELECT i, i FROM n";
        writer.execute(many, [1000]).expect("one row");
        writer.execute("DELETE FROM t WHERE id = 1000", ()).expect("it is there");
        let hurried = writer.with_call_limit(Some(Duration::from_millis(20)));
        for _ in 0..2 {
            let error = hurried.execute(many, [i64::MAX]).expect_err("it has no end");
            assert!(matches!(error.kind(), ErrorKind::TimedOut { .. }), "{error:?}");
            assert_eq!(ids(&other), [1, 2, 3, 4, 5, 6]);
        }
        writer.execute(many, [1000]).expect("one row");
        assert_eq!(ids(&other), [1, 2, 3, 4, 5, 6, 1000]);
    }
}

/// The lock of another process is held for longer than the call may run.
#[test]
fn a_wait_for_the_lock_does_not_count_towards_its_limit() {
    const LIMIT: Duration = Duration::from_millis(250);
    for profile in PROFILES {
        let (writer, mut other, _folder) = open(profile, Duration::from_secs(30));
        writer.execute("INSERT INTO child SELECT id FROM t", ()).expect("some rows");
        let hurried = writer.with_call_limit(Some(LIMIT));
        // Long enough to be asked whether it is to end.
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
            UPDATE child SET t = 1 WHERE (SELECT count(*) FROM n) = 2000";
        for _ in 0..3 {
            other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
            let holder = std::thread::spawn(move || {
                std::thread::sleep(2 * LIMIT);
                other.execute_batch("COMMIT").expect("the lock is free");
                other
            });
            let changed = hurried.execute(many, ()).expect("it waits, and then it is quick");
            assert_eq!(changed.rows_changed, 6, "{profile:?}");
            other = holder.join().expect("no panic");
        }
    }
}

#[test]
fn a_call_that_is_stopped_while_it_waits_for_the_lock_ends_at_once() {
    for profile in PROFILES {
        let (writer, other, _folder) = open(profile, Duration::from_secs(30));
        let insert = "INSERT INTO child SELECT id FROM t";
        for _ in 0..2 {
            writer.execute(insert, ()).expect("a statement that is kept");
        }
        other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        let outcome = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| writer.execute(insert, ()));
            while !writer.interrupt() {
                std::thread::sleep(Duration::from_millis(1));
            }
            // The lock is still held.
            waiting.join().expect("no panic")
        });
        assert_eq!(words(&outcome.expect_err("it was stopped")), "Interrupted", "{profile:?}");
        other.execute_batch("ROLLBACK").expect("the lock is free");
        let rows: i64 =
            other.query_row("SELECT count(*) FROM child", [], |row| row.get(0)).expect("a number");
        writer.execute(insert, ()).expect("the writer goes on");
        let more: i64 =
            other.query_row("SELECT count(*) FROM child", [], |row| row.get(0)).expect("a number");
        assert_eq!(more - rows, rows / 2, "{profile:?}: nothing of the call was written");
    }
}

#[test]
fn what_works_only_outside_of_a_transaction_is_refused_each_time() {
    let (writer, _other, _folder) = open(Profile::Relaxed, Duration::from_secs(5));
    for _ in 0..3 {
        let error = writer.execute("VACUUM", ()).expect_err("each call is in a transaction");
        assert!(error.to_string().contains("VACUUM"), "{error}");
        let error = writer.execute("VACUUM INTO 'copy.db'", ()).expect_err("likewise");
        assert!(error.to_string().contains("`backup_to`"), "{error}");
        let error = writer.execute("COMMIT", ()).expect_err("the writer commits");
        assert_eq!(words(&error), "refused");
    }
}
