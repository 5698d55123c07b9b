//! One test for each trap that is known of grouping: the culprit fails, in
//! SQLite's words, and its neighbours in the group know nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafpress::writer::{Batch, Executed, Writer};
use leafpress::{Error, ErrorKind, Profile};
use rusqlite::Connection;

use super::calls::words;
use super::oracle::{self, Opened, hold};

fn open(profile: Profile) -> Opened {
    oracle::open(profile, false)
}

/// Runs statements as one group, and gives their outcomes in words.
fn group(writer: &Writer, statements: &[&str]) -> Vec<String> {
    let held = hold(writer);
    let tickets: Vec<_> =
        statements.iter().map(|sql| writer.submit(*sql, ()).expect("taken")).collect();
    held.release();
    tickets.into_iter().map(|ticket| said(ticket.wait())).collect()
}

fn said(outcome: Result<Executed, Error>) -> String {
    match outcome {
        Ok(done) => format!("{} rows", done.rows_changed),
        Err(error) => words(&error),
    }
}

fn ids(opened: &Opened, sql: &str) -> Vec<i64> {
    let reader = opened.writer.reader().expect("a reader");
    let mut statement = reader.prepare(sql).expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a number")).collect()
}

/// A database in which nothing yet says FAIL.
fn open_empty() -> Opened {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
    Opened { writer: builder.open().expect("a writer"), folder }
}

/// The numbers once so many calls are counted: callers are answered first.
pub fn counted(writer: &Writer, calls: u64) -> leafpress::writer::WriterStats {
    loop {
        let stats = writer.stats();
        assert!(stats.calls <= calls, "{stats}");
        if stats.calls == calls {
            return stats;
        }
        std::thread::yield_now();
    }
}

const ONE: &str = "INSERT INTO a(id, n) VALUES(1, 1)";
const TWO: &str = "INSERT INTO a(id, n) VALUES(2, 2)";
const THREE: &str = "INSERT INTO a(id, n) VALUES(3, 3)";

/// The culprit between two others; `expected` is what it is told.
fn check_culprit(profile: Profile, culprit: &str, expected: &str) {
    check_culprit_in(&open(profile), culprit, expected);
}

fn check_culprit_in(opened: &Opened, culprit: &str, expected: &str) {
    let outcomes = group(&opened.writer, &[ONE, culprit, TWO]);
    assert_eq!(outcomes, ["1 rows", expected, "1 rows"], "{culprit}");
    assert_eq!(ids(opened, "SELECT id FROM a ORDER BY id"), [1, 2], "{culprit}");
    // What is asked for next works as ever.
    assert_eq!(group(&opened.writer, &[THREE]), ["1 rows"], "{culprit}");
    assert_eq!(opened.writer.stopped(), None, "{culprit}");
}

#[test]
fn or_rollback_takes_no_other_call_with_it() {
    let unique = "1555: UNIQUE constraint failed: a.id";
    for profile in [Profile::Relaxed, Profile::Durable, Profile::Rollback] {
        check_culprit(profile, "INSERT OR ROLLBACK INTO a(id, n) VALUES(1, 9)", unique);
    }
    let raised = "1811: rolled back";
    check_culprit(Profile::Relaxed, "INSERT INTO a(id, n, c) VALUES(9, 9, 81)", raised);
    let declared = "INSERT INTO gone(u) VALUES(1), (1)";
    check_culprit(Profile::Relaxed, declared, "2067: UNIQUE constraint failed: gone.u");
}

#[test]
fn or_fail_leaves_no_half_of_a_statement() {
    let unique = "1555: UNIQUE constraint failed: a.id";
    let culprit = "INSERT OR FAIL INTO a(id, n) VALUES(8, 8), (1, 9), (7, 7)";
    check_culprit(Profile::Relaxed, culprit, unique);
    let raised = "INSERT INTO a(id, n, c) VALUES(8, 8, 0), (9, 9, 82)";
    let opened = oracle::open(Profile::Relaxed, true);
    check_culprit_in(&opened, raised, "1811: half way");
}

/// Neither the statement nor a trigger says it, but the table.
#[test]
fn on_conflict_fail_leaves_no_half_of_a_statement() {
    let opened = open_empty();
    let half = "INSERT INTO half VALUES(1), (2), (1)";
    let refused = "2067: UNIQUE constraint failed: half.u";
    let create = "CREATE TABLE half(u UNIQUE ON CONFLICT FAIL)";
    // Made by an earlier group, and before that by the same.
    for statements in [&[create, half][..], &[half]] {
        let outcomes = group(&opened.writer, statements);
        assert_eq!(outcomes.last().map(String::as_str), Some(refused));
        assert_eq!(ids(&opened, "SELECT count(*) FROM half"), [0]);
    }
}

/// SQLite keeps no journal for such a statement: inside a transaction its first rows would stay.
#[test]
fn an_error_that_sqlite_does_not_undo_leaves_no_half_of_a_statement() {
    let mismatch = "3091: cannot store TEXT value in INTEGER column kinds.n";
    let culprits = [
        ("INSERT INTO kinds VALUES(1), ('abc')", mismatch),
        ("INSERT INTO kinds SELECT sum(n) FROM big GROUP BY g", "1: integer overflow"),
        ("UPDATE sums SET n = (SELECT sum(n) FROM big WHERE g = id)", "1: integer overflow"),
        ("INSERT INTO kinds SELECT value FROM texts, json_each(t)", "1: malformed JSON"),
        ("INSERT INTO watched VALUES('abc')", mismatch),
    ];
    for profile in [Profile::Relaxed, Profile::Rollback] {
        let opened = open(profile);
        let tables = "CREATE TABLE kinds(n INTEGER) STRICT;
            CREATE TABLE sums(id INTEGER PRIMARY KEY, n); INSERT INTO sums VALUES(1, 0), (2, 0);
            CREATE TABLE big(g, n);
            INSERT INTO big VALUES(1, 5), (2, 9223372036854775807), (2, 1);
            CREATE TABLE texts(t); INSERT INTO texts VALUES('[1, 2]'), ('no JSON');
            CREATE TABLE watched(n);
            CREATE TRIGGER watch AFTER INSERT ON watched BEGIN
                INSERT INTO kinds VALUES(1), (new.n); END;";
        opened.writer.execute_batch(tables).expect("tables");
        for (culprit, expected) in culprits {
            check_culprit_in(&opened, culprit, expected);
            assert_eq!(group(&opened.writer, &[culprit]), [expected], "alone: {culprit}");
            let all = "SELECT count(*) FROM kinds UNION ALL SELECT count(*) FROM watched
                UNION ALL SELECT sum(n) FROM sums";
            assert_eq!(ids(&opened, all), [0, 0, 0], "{culprit}");
            opened.writer.execute("DELETE FROM a", ()).expect("it works as ever");
        }
    }
}

/// A key that the half of it has broken would be found at the end of the next call.
#[test]
fn a_key_that_a_failed_statement_has_broken_is_not_the_next_ones() {
    let opened = open(Profile::Relaxed);
    let tables = "CREATE TABLE kid(p INTEGER
        REFERENCES sums(id) DEFERRABLE INITIALLY DEFERRED) STRICT;
        CREATE TABLE sums(id INTEGER PRIMARY KEY)";
    opened.writer.execute_batch(tables).expect("tables");
    let mismatch = "3091: cannot store TEXT value in INTEGER column kid.p";
    check_culprit_in(&opened, "INSERT INTO kid VALUES(77), ('abc')", mismatch);
}

/// The full-text index is asked before the commit, and finds that a part of it is gone.
#[test]
fn a_commit_that_a_virtual_table_refuses_fails_its_own_call() {
    let Opened { writer, folder } = open_empty();
    let made = "CREATE TABLE plain(n); CREATE VIRTUAL TABLE words USING fts5(t);
        INSERT INTO words VALUES('one')";
    writer.execute_batch(made).expect("tables");
    writer.close().expect("all is there");
    let path = folder.path().join("a.db");
    let damage = "DELETE FROM words_data WHERE id = 10";
    Connection::open(&path).and_then(|it| it.execute_batch(damage)).expect("a row is gone");
    let opened = Opened { writer: Writer::builder(path).open().expect("a writer"), folder };
    let culprit = "INSERT INTO words VALUES('two')";
    for n in 0..2 {
        let (before, after) = ("INSERT INTO plain VALUES(1)", "INSERT INTO plain VALUES(2)");
        let outcomes = group(&opened.writer, &[before, culprit, after]);
        assert_eq!((outcomes[0].as_str(), outcomes[2].as_str()), ("1 rows", "1 rows"));
        assert!(outcomes[1].contains("fts5: corruption found"), "{}", outcomes[1]);
        assert_eq!(ids(&opened, "SELECT count(*) FROM plain"), [2 * (n + 1)]);
        assert_eq!(opened.writer.stopped(), None);
    }
}

/// Rows that come first in their transaction have no savepoint.
#[test]
fn rows_that_come_first_leave_no_half_of_them() {
    for profile in [Profile::Relaxed, Profile::Rollback] {
        let opened = open(profile);
        let held = hold(&opened.writer);
        let mut rows: Vec<[i64; 2]> = (10..110).rev().map(|n| [n, n]).collect();
        rows[77] = [90, 7];
        let refused = opened.writer.submit_insert_many("a", &["id", "n"], rows).expect("taken");
        let after = opened.writer.submit(TWO, ()).expect("taken");
        let rows = [[5, 5], [4, 4]];
        let taken = opened.writer.submit_insert_many("a", &["id", "n"], rows).expect("taken");
        held.release();
        let error = refused.wait().expect_err("90 is there twice");
        let ErrorKind::Constraint { row, values, .. } = error.kind() else {
            unreachable!("{error}")
        };
        assert_eq!((*row, values.as_deref()), (Some(78), Some("90, 7")));
        after.wait().expect("it is well");
        assert_eq!(taken.wait().expect("they are well"), 2);
        assert_eq!(ids(&opened, "SELECT id FROM a ORDER BY id"), [2, 4, 5]);
    }
}

/// What a function says is no refusal of a row, and leaves those before it.
#[test]
fn rows_that_sqlite_cannot_judge_leave_no_half_of_them() {
    let opened = open_empty();
    let create = "CREATE TABLE judged(id INTEGER PRIMARY KEY, c CHECK (json(c) IS NOT NULL))";
    opened.writer.execute_batch(create).expect("a table");
    let rows = |broken: i64| {
        (0..100).map(move |id| (id, if id == broken { "{" } else { "{}" })).collect::<Vec<_>>()
    };
    let held = hold(&opened.writer);
    let columns = ["id", "c"];
    let broken = opened.writer.submit_insert_many("judged", &columns, rows(70)).expect("taken");
    let after = opened.writer.submit("INSERT INTO judged VALUES(7, '{}')", ()).expect("taken");
    held.release();
    let error = broken.wait().expect_err("that is no JSON");
    assert!(error.to_string().contains("malformed JSON"), "{error}");
    after.wait().expect("it is well");
    assert_eq!(ids(&opened, "SELECT id FROM judged"), [7]);
    opened.writer.execute("DELETE FROM judged", ()).expect("it is well");
    assert_eq!(opened.writer.insert_many("judged", &columns, rows(-1)).expect("all are well"), 100);
    // Before any row is in, the transaction goes on.
    let held = hold(&opened.writer);
    let unknown = opened.writer.submit_insert_many("judged", &["id", "d"], rows(-1));
    let after = opened.writer.submit("DELETE FROM judged WHERE id > 0", ()).expect("taken");
    held.release();
    let error = unknown.expect("taken").wait().expect_err("there is no such column");
    assert!(error.to_string().contains("no column d"), "{error}");
    assert_eq!(after.wait().expect("it is well").rows_changed, 99);
    assert_eq!(ids(&opened, "SELECT id FROM judged"), [0]);
}

#[test]
fn a_trigger_of_the_same_group_leaves_no_half_either() {
    let opened = open_empty();
    let outcomes = group(
        &opened.writer,
        &[
            "CREATE TABLE log(id)",
            "INSERT INTO log VALUES(1), (10)",
            "CREATE TRIGGER more AFTER INSERT ON log BEGIN
                 SELECT RAISE(FAIL, 'more') WHERE new.id > 9; END",
            "INSERT INTO log VALUES(2), (20)",
        ],
    );
    assert_eq!(outcomes, ["0 rows", "2 rows", "0 rows", "1811: more"]);
    assert_eq!(ids(&opened, "SELECT id FROM log"), [1, 10]);
    assert_eq!(group(&opened.writer, &["INSERT INTO log VALUES(3), (30)"]), ["1811: more"]);
    assert_eq!(ids(&opened, "SELECT id FROM log"), [1, 10]);
}

#[test]
fn a_deferred_foreign_key_fails_its_own_call_and_not_the_commit() {
    let broken = "787: FOREIGN KEY constraint failed";
    for profile in [Profile::Relaxed, Profile::Rollback] {
        check_culprit(profile, "INSERT INTO child(later) VALUES(99)", broken);
    }
    // One that is corrected within the call is none.
    let opened = open(Profile::Relaxed);
    let batch =
        Batch::from("INSERT INTO child(later) VALUES(99); INSERT INTO a(id, n) VALUES(99, 1)");
    opened.writer.execute_batch(batch).expect("the key is there in the end");
    assert_eq!(ids(&opened, "SELECT later FROM child"), [99]);
}

#[test]
fn a_later_call_cannot_correct_the_key_of_an_earlier_one() {
    let opened = open(Profile::Relaxed);
    let correcting = "INSERT INTO a(id, n) VALUES(99, 1)";
    let outcomes = group(&opened.writer, &["INSERT INTO child(later) VALUES(99)", correcting]);
    assert_eq!(outcomes, ["787: FOREIGN KEY constraint failed", "1 rows"]);
    assert_eq!(ids(&opened, "SELECT count(*) FROM child"), [0]);
}

#[test]
fn deferred_keys_of_one_call_are_not_deferred_for_the_next() {
    let opened = open(Profile::Relaxed);
    let held = hold(&opened.writer);
    let deferring = opened
        .writer
        .submit_batch(
            "PRAGMA defer_foreign_keys = ON; INSERT INTO child(now) VALUES(5);
             INSERT INTO a(id, n) VALUES(5, 5)",
        )
        .expect("taken");
    // It would do, were its key still deferred.
    let next = opened
        .writer
        .submit_batch("INSERT INTO child(now) VALUES(6); INSERT INTO a(id, n) VALUES(6, 6)")
        .expect("taken");
    held.release();
    deferring.wait().expect("its keys are corrected in the end");
    let error = next.wait().expect_err("its key is broken at once");
    assert_eq!(words(&error), "787: FOREIGN KEY constraint failed");
    assert_eq!(ids(&opened, "SELECT now FROM child"), [5]);
}

#[test]
fn transactions_are_the_writers_own() {
    let opened = open(Profile::Relaxed);
    // The writer itself has used all of these words by then.
    let culprit = "INSERT OR ROLLBACK INTO a(id, n) VALUES(1, 9)";
    let ran = "INSERT OR FAIL INTO a(id, n) VALUES(1, 9)";
    group(&opened.writer, &[ONE, culprit, ran]);
    for sql in [
        "BEGIN",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "END TRANSACTION",
        "ROLLBACK",
        "SAVEPOINT leafpress_call",
        "RELEASE leafpress_call",
        "ROLLBACK TO leafpress_call",
        "SAVEPOINT mine",
        "/* a comment */ COMMIT",
    ] {
        let outcomes = group(&opened.writer, &[TWO, sql, THREE]);
        assert_eq!(outcomes, ["1 rows", "refused", "1 rows"], "{sql}");
        let script = format!("DELETE FROM a WHERE id > 1; {sql}; DELETE FROM a");
        let error = opened.writer.execute_batch(script).expect_err("it is refused");
        assert_eq!(words(&error), "refused", "{sql}");
        let sql = sql.to_owned();
        let inside = opened.writer.transaction(move |tx| tx.execute(&sql, ()));
        assert_eq!(words(&inside.expect_err("it is refused")), "refused");
        assert_eq!(ids(&opened, "SELECT id FROM a"), [1, 2, 3]);
        opened.writer.execute("DELETE FROM a WHERE id > 1", ()).expect("it works as ever");
    }
    assert_eq!(opened.writer.stopped(), None);
}

#[test]
fn settings_and_what_is_temporary_do_not_leak() {
    let opened = open(Profile::Durable);
    for sql in [
        "PRAGMA foreign_keys = OFF",
        "PRAGMA synchronous = OFF",
        "PRAGMA journal_mode = MEMORY",
        "PRAGMA wal_autocheckpoint = 1000",
        "PRAGMA locking_mode = EXCLUSIVE",
        "PRAGMA ignore_check_constraints = ON",
        "PRAGMA writable_schema = ON",
        "PRAGMA max_page_count = 10",
        "PRAGMA busy_timeout = 0",
        "PRAGMA query_only = ON",
        "PRAGMA wal_checkpoint",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "CREATE TEMP TABLE a(id)",
        "CREATE TABLE temp.a(id)",
        "CREATE TEMP TRIGGER it AFTER INSERT ON a BEGIN SELECT RAISE(ABORT, 'it'); END",
        "CREATE TEMP VIEW a AS SELECT 1",
        "CREATE VIRTUAL TABLE temp.a USING fts5vocab(main, words, row)",
    ] {
        assert_eq!(group(&opened.writer, &[sql]), ["refused"], "{sql}");
    }
    // What only tells something is welcome, and so is what goes with the file.
    for sql in ["PRAGMA foreign_keys", "PRAGMA table_info(a)", "PRAGMA user_version = 7"] {
        assert_eq!(group(&opened.writer, &[sql]), ["0 rows"], "{sql}");
    }
    assert_eq!(ids(&opened, "PRAGMA user_version"), [7]);
    let broken = "787: FOREIGN KEY constraint failed";
    assert_eq!(group(&opened.writer, &["INSERT INTO child(now) VALUES(1)"]), [broken]);
}

#[test]
fn a_panic_undoes_its_own_transaction_alone() {
    let opened = open(Profile::Relaxed);
    let held = hold(&opened.writer);
    let before = opened.writer.submit(ONE, ()).expect("taken");
    let panics = opened
        .writer
        .submit_transaction(|tx| -> Result<(), Error> {
            tx.execute(TWO, ())?;
            let rows = tx.query_map("SELECT id FROM a", [], |row| {
                let id: i64 = row.get(0)?;
                assert!(id < 2, "the second is here");
                Ok(id)
            })?;
            unreachable!("{rows:?}");
        })
        .expect("taken");
    let after = opened.writer.submit(THREE, ()).expect("taken");
    held.release();
    before.wait().expect("it is well");
    let error = panics.wait().expect_err("it panicked");
    let ErrorKind::Panicked { message, .. } = error.kind() else { unreachable!("{error}") };
    assert_eq!(message, "the second is here");
    after.wait().expect("it is well");
    assert_eq!(ids(&opened, "SELECT id FROM a"), [1, 3]);
}

#[test]
fn a_closure_that_goes_on_after_a_rollback_does_nothing_more() {
    let opened = open(Profile::Relaxed);
    let outcome = opened.writer.transaction(|tx| {
        tx.execute(ONE, ())?;
        let lost = tx.execute("INSERT OR ROLLBACK INTO a(id, n) VALUES(1, 1)", ());
        assert!(lost.is_err() && tx.execute(TWO, ()).is_err() && tx.execute_script(TWO).is_err());
        assert!(tx.query_row("SELECT 1", [], |row| row.get::<_, i64>(0)).is_err());
        assert!(tx.insert_many("a", &["id", "n"], [[7, 7], [8, 8]]).is_err());
        Ok(())
    });
    assert_eq!(words(&outcome.expect_err("nothing of it is there")), "rolled back before");
    assert_eq!(ids(&opened, "SELECT count(*) FROM a"), [0]);
    assert_eq!(opened.writer.stopped(), None);
}

/// Runs three closures as one group, of which the second fails; returns how often each ran.
fn second_of_three_fails(opened: &Opened, from: i64) -> Vec<u64> {
    let held = hold(&opened.writer);
    let runs: Vec<Arc<AtomicU64>> = (0..3).map(|_| Arc::default()).collect();
    let submit = |at: i64, count: &Arc<AtomicU64>| {
        let count = Arc::clone(count);
        let ticket = opened.writer.submit_transaction(move |tx| {
            count.fetch_add(1, Ordering::Relaxed);
            tx.execute("INSERT INTO log VALUES('closure', ?1)", [from + at])?;
            if at == 1 { Err(Error::aborted("no")) } else { Ok(()) }
        });
        ticket.expect("taken")
    };
    let tickets: Vec<_> = (0..).zip(&runs).map(|(at, count)| submit(at, count)).collect();
    held.release();
    let is_done: Vec<bool> = tickets.into_iter().map(|ticket| ticket.wait().is_ok()).collect();
    assert_eq!(is_done, [true, false, true]);
    runs.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

/// Without savepoints the calls before one that fails run again, but never that one itself. The
/// next groups have savepoints, and nothing runs again.
#[test]
fn a_closure_that_fails_runs_once_and_then_closures_have_savepoints() {
    for profile in [Profile::Relaxed, Profile::Rollback] {
        let opened = open(profile);
        assert_eq!(second_of_three_fails(&opened, 0), [2, 1, 1]);
        for from in [10, 20] {
            assert_eq!(second_of_three_fails(&opened, from), [1, 1, 1]);
        }
        let sql = "SELECT id FROM log WHERE what = 'closure' ORDER BY rowid";
        assert_eq!(ids(&opened, sql), [0, 2, 10, 12, 20, 22]);
        // The schema, three that held the writer, and nine.
        let stats = counted(&opened.writer, 1 + 3 + 9);
        assert_eq!((stats.groups_rolled_back, stats.calls_replayed), (1, 1));
        assert_eq!(stats.calls_failed, 3);
    }
}

#[test]
fn two_statements_are_not_taken_for_one() {
    let opened = open(Profile::Relaxed);
    let error = opened.writer.execute(format!("{ONE}; {TWO}"), ()).expect_err("two statements");
    assert!(error.to_string().contains("several statements"), "{error}");
    assert_eq!(ids(&opened, "SELECT count(*) FROM a"), [0]);
}

#[test]
fn another_connection_that_writes_in_between_is_waited_for() {
    for profile in [Profile::Relaxed, Profile::Rollback] {
        let opened = open(profile);
        let path = opened.folder.path().join("a.db");
        let other = Connection::open(&path).expect("a connection");
        other.busy_timeout(Duration::from_secs(60)).expect("a setting");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for at in 0..200_i64 {
                    other.execute("INSERT INTO log VALUES('other', ?1)", [at]).expect("in time");
                }
            });
            for at in 0..200_i64 {
                let sql = "INSERT INTO log VALUES('ours', ?1)";
                opened.writer.execute(sql, [at]).expect("in time");
            }
        });
        for what in ["ours", "other"] {
            let sql = format!("SELECT id FROM log WHERE what = '{what}' ORDER BY rowid");
            assert_eq!(ids(&opened, &sql), (0..200).collect::<Vec<_>>(), "{what}");
        }
    }
}

#[test]
fn a_connection_that_never_ends_makes_calls_busy_and_then_all_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let limit = Duration::from_millis(30);
    let builder = Writer::builder(&path).profile(Profile::Relaxed).busy_limit(limit);
    let writer = builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(a)").expect("a table");
    let other = Connection::open(&path).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(1)").expect("it holds the lock");
    // Reads that come first do not make it a transaction that cannot wait.
    let first = writer.submit_transaction(|tx| {
        tx.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
    });
    let second = writer.submit("INSERT INTO t VALUES(2)", ());
    for error in [
        first.expect("taken").wait().expect_err("busy"),
        second.expect("taken").wait().expect_err("busy"),
    ] {
        let ErrorKind::Busy { waited, .. } = error.kind() else { unreachable!("{error}") };
        assert!(*waited >= limit, "{waited:?}");
        assert!(error.state_on_disk().is_some_and(|it| it.contains("nothing")), "{error}");
    }
    other.execute_batch("COMMIT").expect("it ends");
    writer.execute("INSERT INTO t VALUES(3)", ()).expect("the lock is free");
    let reader = writer.reader().expect("a reader");
    let sum: i64 = reader.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).expect("rows");
    assert_eq!(sum, 1 + 3);
    assert!(writer.stats().busy_waits > 0);
}

#[test]
fn the_numbers_tell_of_what_happened() {
    let opened = open(Profile::Relaxed);
    group(&opened.writer, &[ONE, "INSERT OR ROLLBACK INTO a(id, n) VALUES(1, 1)", TWO]);
    let reader = opened.writer.reader_named("report").expect("a reader");
    reader.execute_batch("BEGIN; SELECT count(*) FROM a").expect("it reads");
    // The schema, the one that held the writer, and the three.
    let stats = counted(&opened.writer, 5);
    assert_eq!((stats.commits, stats.calls_failed), (3, 1));
    assert_eq!(stats.groups_rolled_back, 1);
    assert_eq!(stats.wait.count, stats.calls);
    assert_eq!(stats.group_size.max, 3);
    assert!(stats.wal_bytes > 0 && stats.checkpoints.is_some());
    let oldest = stats.oldest_reader.clone().expect("one is out");
    assert_eq!((oldest.name.as_str(), oldest.in_transaction), ("report", true));
    let text = stats.to_prometheus(&[("database", "a.db")]);
    assert!(text.contains(
        "leafpress_writer_oldest_reader_in_transaction{database=\"a.db\",reader=\"report\"} 1"
    ));
    drop(reader);
    assert_eq!(opened.writer.stats().oldest_reader, None);
}

#[test]
fn a_closure_runs_again_when_another_call_loses_its_group() {
    let opened = open(Profile::Relaxed);
    let runs = Arc::new(AtomicU64::new(0));
    let held = hold(&opened.writer);
    let counting = opened.writer.submit_transaction({
        let runs = Arc::clone(&runs);
        move |tx| {
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            tx.execute("INSERT INTO a(id, n) VALUES(1, ?1)", [run as i64])?;
            Ok(run)
        }
    });
    let culprit = opened.writer.submit("INSERT OR ROLLBACK INTO a(id, n) VALUES(1, 1)", ());
    held.release();
    assert_eq!(counting.expect("taken").wait().expect("it is in"), 2);
    assert!(culprit.expect("taken").wait().is_err());
    // What it is answered with is what is there, and that is there once.
    assert_eq!(ids(&opened, "SELECT n FROM a"), [2]);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn without_a_log_a_reader_that_stays_makes_calls_busy() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Rollback);
    let writer = builder.busy_limit(Duration::from_millis(30)).open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(a)").expect("a table");
    let reader = writer.reader().expect("a reader");
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").expect("it reads");
    // The statement can be carried out, and the commit cannot.
    let error = writer.execute("INSERT INTO t VALUES(1)", ()).expect_err("it waits in vain");
    assert!(matches!(error.kind(), ErrorKind::Busy { .. }), "{error}");
    drop(reader);
    writer.execute("INSERT INTO t VALUES(2)", ()).expect("no connection reads");
    let reader = writer.reader().expect("a reader");
    let sum: i64 = reader.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).expect("rows");
    assert_eq!(sum, 2);
    assert_eq!(writer.stopped(), None);
}
