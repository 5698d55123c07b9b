//! Work that a caller does itself at the engine: closures that borrow, maintenance; and the caller's
//! preparation of each connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use leafpress::writer::{CommitTarget, Group, Maintenance, PendingCall, Writer};
use leafpress::{Error, ErrorKind, Profile};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::oracle::hold;
use super::tickets::{INSERT, rows, small};

fn count(writer: &Writer) -> i64 {
    let reader = writer.reader().expect("a reader");
    reader.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a count")
}

#[test]
fn a_scoped_closure_borrows_runs_once_and_comes_after_earlier_calls() {
    let (writer, folder) = small(10);
    let early = writer.submit(INSERT, [0, 0]).expect("taken");
    let (names, mut seen) = (vec![1_i64, 2, 3], Vec::new());
    let borrowed = writer.transaction_scoped(|tx| {
        for name in &names {
            seen.push(tx.execute(INSERT, [1, *name])?.last_insert_rowid);
        }
        Ok(names.as_slice())
    });
    assert_eq!(borrowed.expect("committed"), names);
    assert_eq!(seen, [2, 3, 4]);
    assert!(early.is_answered());
    early.wait().expect("committed");
    assert_eq!(rows(&folder), [(0, 0), (1, 1), (1, 2), (1, 3)]);
    let stats = writer.stats();
    assert_eq!((stats.calls, stats.calls_failed), (3, 0));
}

#[test]
fn a_scoped_closure_that_fails_or_panics_leaves_nothing_and_harms_no_other_call() {
    let (writer, folder) = small(10);
    let given_up: leafpress::Result<()> = writer.transaction_scoped(|tx| {
        tx.execute(INSERT, [1, 1])?;
        Err(Error::aborted("no"))
    });
    assert!(matches!(given_up.unwrap_err().kind(), ErrorKind::Aborted(_)));
    let panicked: leafpress::Result<()> = writer.transaction_scoped(|tx| {
        tx.execute(INSERT, [1, 1])?;
        panic!("in the closure")
    });
    assert!(matches!(panicked.unwrap_err().kind(), ErrorKind::Panicked { .. }));
    let nested = writer.transaction_scoped(|_| Ok(writer.transaction_scoped(|_| Ok(())).is_err()));
    assert!(nested.expect("refused inside only"));
    let inside = writer.clone();
    let refused = writer.transaction(move |_| Ok(inside.maintain(Maintenance::Optimize).is_err()));
    assert!(refused.expect("refused inside only"));
    let unwanted = writer.maintain_if(Maintenance::Vacuum, || false).expect_err("not wanted");
    assert!(matches!(unwanted.kind(), ErrorKind::Cancelled), "{unwanted}");
    writer.execute(INSERT, [2, 2]).expect("the writer goes on");
    assert_eq!(rows(&folder), [(2, 2)]);
    let closed = writer.clone();
    writer.close().expect("closed");
    let late = closed.transaction_scoped(|_| Ok(())).expect_err("closed");
    assert!(matches!(late.kind(), ErrorKind::Stopped { .. }), "{late}");
    let late = closed.maintain(Maintenance::Vacuum).expect_err("closed");
    assert!(matches!(late.kind(), ErrorKind::Stopped { .. }), "{late}");
}

#[test]
fn a_scoped_closure_has_the_limit_of_its_writer_and_can_be_interrupted() {
    let (writer, _folder) = small(10);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                   INSERT INTO t SELECT i, i FROM n";
    let hurried = writer.with_call_limit(Some(Duration::from_millis(20)));
    let error = hurried.transaction_scoped(|tx| tx.execute(endless, ())).expect_err("too long");
    assert!(matches!(error.kind(), ErrorKind::TimedOut { .. }), "{error}");
    let (begun, has_begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let running = &writer;
        scope.spawn(move || {
            has_begun.recv().expect("it begins");
            assert!(running.interrupt());
        });
        let outcome = writer.transaction_scoped(move |tx| {
            begun.send(()).expect("the test listens");
            tx.execute(endless, ())
        });
        let error = outcome.expect_err("interrupted");
        assert!(matches!(error.kind(), ErrorKind::Interrupted), "{error}");
    });
    assert_eq!(count(&writer), 0);
}

#[test]
fn a_call_is_carried_out_by_its_thread_only_while_the_writer_has_no_other_call() {
    let (writer, folder) = small(10);
    let never = || false;
    let done = writer.execute_async(INSERT, [0, 0]).carry_out_if_idle(never).expect("it is idle");
    assert_eq!(done.expect("committed").rows_changed, 1);
    let failed = writer.execute_async("INSERT INTO missing VALUES (1)", ());
    failed.carry_out_if_idle(never).expect("it is idle").expect_err("no table");
    let held = hold(&writer);
    let early = writer.submit(INSERT, [1, 1]).expect("taken");
    let given_back = writer.execute_async(INSERT, [2, 2]).carry_out_if_idle(never);
    let late = given_back.expect_err("the engine is driven").submit().expect("taken");
    drop(held);
    early.wait().expect("committed");
    late.wait().expect("committed");
    let inside = writer.clone();
    let nested = writer.transaction(move |_| {
        Ok(inside.execute_async(INSERT, [9, 9]).carry_out_if_idle(never).is_err())
    });
    assert!(nested.expect("given back inside only"));
    assert_eq!(rows(&folder), [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(writer.stats().calls_failed, 1);
    let closed = writer.clone();
    writer.close().expect("closed");
    let given_back = closed.execute_async(INSERT, [9, 9]).carry_out_if_idle(never);
    let error = given_back.expect_err("it is closed").wait().expect_err("it is closed");
    assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
}

#[test]
fn a_call_is_never_carried_out_before_one_that_its_thread_has_submitted() {
    let (writer, folder) = small(4);
    std::thread::scope(|scope| {
        for caller in 0..3_i64 {
            let writer = &writer;
            scope.spawn(move || {
                for at in 0..200_i64 {
                    let call = writer.execute_async(INSERT, [caller, at]);
                    if at % 3 == 0 {
                        drop(call.submit().expect("taken"));
                        continue;
                    }
                    let done = call.carry_out_if_idle(|| false);
                    done.unwrap_or_else(PendingCall::wait).expect("committed");
                }
            });
        }
    });
    writer.close().expect("closed");
    for caller in 0..3 {
        let of_caller = rows(&folder).into_iter().filter(|row| row.0 == caller).map(|row| row.1);
        assert!(of_caller.eq(0..200), "caller {caller}");
    }
}

#[test]
fn a_look_ends_the_statement_or_the_wait_of_its_own_thread() {
    let (writer, folder) = small(10);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                   INSERT INTO t SELECT i, i FROM n";
    let error = |sql| {
        let done = writer.execute_async(sql, ()).carry_out_if_idle(|| true);
        done.expect("it is idle").expect_err("it is to end")
    };
    let stopped = error(endless);
    assert!(matches!(stopped.kind(), ErrorKind::Interrupted), "{stopped}");
    let other = Connection::open(folder.path().join("a.db")).expect("another connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let stopped = error("INSERT INTO t VALUES (1, 1)");
    assert!(matches!(stopped.kind(), ErrorKind::Interrupted), "{stopped}");
    other.execute_batch("COMMIT").expect("the lock is free");
    // The looks of this thread do not end calls that other threads carry out.
    let submitted = writer.submit(INSERT, [2, 2]).expect("taken");
    submitted.wait().expect("committed");
    writer.execute(INSERT, [3, 3]).expect("committed");
    assert_eq!(rows(&folder), [(2, 2), (3, 3)]);
}

#[test]
fn work_at_the_engine_gets_its_turn_beside_callers_that_never_pause() {
    let (writer, _folder) = small(10);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for caller in 0..3_i64 {
            let (writer, is_over) = (&writer, &is_over);
            scope.spawn(move || {
                let mut at = 0_i64;
                while !is_over.load(Ordering::Relaxed) {
                    writer.execute(INSERT, [caller, at]).expect("a new row");
                    at += 1;
                }
            });
        }
        for at in 0..50_i64 {
            writer.transaction_scoped(|tx| tx.execute(INSERT, [9, at])).expect("a new row");
            if at % 10 == 0 {
                writer.maintain(Maintenance::Optimize).expect("its turn");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(count(&writer) >= 50);
}

#[test]
fn maintenance_is_done_outside_of_transactions_and_keeps_all_rows() {
    for profile in [Profile::Durable, Profile::Relaxed, Profile::Rollback] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let writer = Writer::builder(&path).profile(profile).open().expect("a writer");
        writer
            .execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX i ON t(a)")
            .expect("a schema");
        let long = "x".repeat(500);
        let many = (0..2_000_i64).map(|id| (id, long.as_str()));
        writer.insert_many("t", &["id", "a"], many).expect("rows");
        writer.execute("DELETE FROM t WHERE id >= 10", ()).expect("deleted");
        let refused = writer.execute_batch("VACUUM").expect_err("in a transaction");
        assert!(refused.advice().is_some_and(|it| it.contains("maintain")), "{refused}");
        let pages = || -> i64 {
            let reader = writer.reader().expect("a reader");
            reader.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("a count")
        };
        let before = pages();
        for work in [Maintenance::Vacuum, Maintenance::Optimize, Maintenance::Reindex] {
            writer.maintain(work).unwrap_or_else(|error| panic!("{profile}: {work}: {error}"));
        }
        assert!(pages() < before / 2, "{profile}: {} of {before}", pages());
        writer.maintain(Maintenance::Checkpoint).expect("no reader holds the wal");
        let wal = folder.path().join("a.db-wal");
        assert!(wal.metadata().map_or(0, |found| found.len()) == 0, "{profile}");
        assert_eq!(count(&writer), 10);
        // Plans and statements from before still hold.
        writer.insert_many("t", &["id", "a"], [(100, "new")]).expect("a row");
        assert_eq!(count(&writer), 11);
        writer.close().expect("closed");
        let connection = Connection::open(&path).expect("a connection");
        let verdict = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0));
        assert_eq!(verdict, Ok("ok".to_owned()), "{profile}");
    }
}

#[test]
fn a_reader_that_holds_the_log_is_the_error_of_a_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).busy_limit(Duration::from_millis(10));
    let writer = builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(a)").expect("a table");
    let reader = writer.reader().expect("a reader");
    reader.execute_batch("BEGIN; SELECT * FROM t").expect("a snapshot");
    writer.execute("INSERT INTO t VALUES (1)", ()).expect("a row");
    let held = writer.maintain(Maintenance::Checkpoint).expect_err("the reader needs the wal");
    assert!(held.is_busy() && held.is_retryable(), "{held}");
    drop(reader);
    writer.maintain(Maintenance::Checkpoint).expect("nothing holds it");
}

/// A target without a database.
struct Nowhere;

impl CommitTarget for Nowhere {
    fn commit(&mut self, _group: &mut Group<'_>) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn maintenance_waits_for_its_turn_and_other_targets_refuse_it() {
    let (writer, _folder) = small(10);
    let held = hold(&writer);
    let other = writer.clone();
    let working = std::thread::spawn(move || other.maintain(Maintenance::Vacuum));
    held.release();
    working.join().expect("no panic").expect("done");

    let far = Writer::with_target(Nowhere, 10).expect("a writer");
    let refused = far.maintain(Maintenance::Vacuum).expect_err("no database");
    assert!(matches!(refused.kind(), ErrorKind::Misuse(_)), "{refused}");
}

#[test]
fn each_connection_that_runs_sql_of_callers_is_prepared() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let builder = Writer::builder(&path)
        .profile(Profile::Relaxed)
        .on_connect(|connection| {
            let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
            Ok(connection.create_scalar_function("twice", 1, flags, |context| {
                Ok(context.get::<i64>(0)? * 2)
            })?)
        })
        .on_connect(|connection| Ok(connection.create_collation("backwards", |a, b| b.cmp(a))?));
    let writer = builder.open().expect("a writer");
    writer
        .execute_batch(
            "CREATE TABLE t(n INTEGER, name TEXT COLLATE backwards); CREATE INDEX i ON t(twice(n))",
        )
        .expect("a schema with both");
    writer.insert_many("t", &["n", "name"], [(1, "a"), (2, "b")]).expect("rows");
    for _ in 0..3 {
        let reader = writer.reader().expect("a reader");
        let sql = "SELECT group_concat(name, '') FROM (SELECT name FROM t
                   WHERE twice(n) > 0 ORDER BY name)";
        let names: String = reader.query_row(sql, [], |row| row.get(0)).expect("names");
        assert_eq!(names, "ba");
    }
    let plain = Writer::builder(&path).profile(Profile::Relaxed).open().expect("a writer");
    assert!(plain.execute("INSERT INTO t VALUES (3, 'c')", ()).is_err(), "no such function");
}

#[test]
fn preparations_that_break_a_promise_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |prepare: &'static str| {
        Writer::builder(folder.path().join("a.db"))
            .on_connect(move |connection| Ok(connection.execute_batch(prepare)?))
            .open()
    };
    for sql in ["PRAGMA synchronous = OFF", "BEGIN", "ATTACH ':memory:' AS other", "no statement"] {
        assert!(open(sql).is_err(), "{sql}");
    }
    let writer = open("PRAGMA cache_size = 100; PRAGMA query_only = OFF").expect("harmless here");
    let error = writer.reader().expect_err("a reader must not write");
    assert!(error.to_string().contains("query_only"), "{error}");
    writer.close().expect("closed");
    let writer = open("PRAGMA foreign_keys = OFF").expect("a setting that no profile has");
    assert!(!writer.in_force().expect("a database").foreign_keys, "it is told as it is");
}
