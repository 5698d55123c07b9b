//! A call that runs without end: it can be stopped, it alone fails, and the writer goes on.

use std::sync::mpsc;
use std::time::Duration;

use leafpress::writer::{Batch, Ticket, Writer};
use leafpress::{Error, ErrorKind, Profile};
use rusqlite::Connection;
use tempfile::TempDir;

use super::oracle::hold;

fn open(limit: Option<Duration>) -> (Writer, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
    if let Some(limit) = limit {
        builder = builder.call_limit(limit);
    }
    let writer = builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(n); CREATE TABLE many(n)").expect("tables");
    (writer, folder)
}

fn numbers(writer: &Writer) -> Vec<i64> {
    let reader = writer.reader().expect("a reader");
    let mut statement = reader.prepare("SELECT n FROM t ORDER BY rowid").expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a number")).collect()
}

const INSERT: &str = "INSERT INTO t VALUES(?1)";
const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT count(*) FROM n";
const ENDLESS_ROWS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    INSERT INTO many SELECT i FROM n";
/// Long enough for a busy machine, for what must not last as long.
const LONG: Duration = Duration::from_secs(3_600);

/// A way in which a call runs for ever.
type Endless = fn(&Writer) -> Result<Ticket<()>, Error>;

fn closure_of(writer: &Writer, sql: &'static str) -> Result<Ticket<()>, Error> {
    writer.submit_transaction(move |tx| {
        tx.execute(INSERT, [-1])?;
        // What it makes of the error does not matter.
        tx.execute(sql, ()).map(drop).map_err(|_| Error::aborted("it did not work"))
    })
}

const KINDS: [(&str, Endless); 9] = [
    ("statement", |writer| writer.submit_batch(Batch::new().statement(ENDLESS, ())?)),
    ("rows", |writer| writer.submit_batch(ENDLESS_ROWS)),
    ("script", |writer| writer.submit_batch(format!("INSERT INTO t VALUES(-4); {ENDLESS}"))),
    ("closure that reads", |writer| closure_of(writer, ENDLESS)),
    ("closure that writes", |writer| closure_of(writer, ENDLESS_ROWS)),
    ("closure that goes on", |writer| {
        writer.submit_transaction(|tx| {
            tx.execute(INSERT, [-2])?;
            let _ = tx.execute(ENDLESS, ());
            Ok(())
        })
    }),
    ("closure of many short statements", |writer| {
        writer.submit_transaction(|tx| {
            loop {
                tx.execute(INSERT, [-3])?;
            }
        })
    }),
    ("closure of a script", |writer| writer.submit_transaction(|tx| tx.execute_script(ENDLESS))),
    ("closure of a query", |writer| {
        writer.submit_transaction(|tx| tx.query_map(ENDLESS, [], |_| Ok(())).map(drop))
    }),
];

/// Single statements that run for ever, whose tickets answer something else.
const SINGLE: [&str; 2] = [ENDLESS, ENDLESS_ROWS];

fn is_interrupted(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted)
        && error.state_on_disk().is_some_and(|it| it.starts_with("nothing of this call"))
}

/// Puts an endless call between two others, and interrupts it.
fn check_interrupted<T: std::fmt::Debug>(
    writer: &Writer,
    name: &str,
    endless: impl FnOnce(&Writer) -> Result<Ticket<T>, Error>,
) {
    let held = hold(writer);
    let before = writer.submit(INSERT, [1]).expect("taken");
    let endless = endless(writer).expect("taken");
    let after = writer.submit(INSERT, [2]).expect("taken");
    held.release();
    // Most often it runs by then; it fails in the same way if not.
    std::thread::sleep(Duration::from_millis(20));
    assert!(endless.interrupt(), "{name}");
    let error = endless.wait().expect_err("it has no end");
    assert!(is_interrupted(&error), "{name}: {error}");
    for other in [before, after] {
        other.wait().expect("it has nothing to do with it");
    }
    assert_eq!(numbers(writer), [1, 2], "{name}");
    let many = "SELECT count(*) FROM many";
    let many = writer.transaction(|tx| tx.query_row(many, [], |row| row.get::<_, i64>(0)));
    assert_eq!(many.expect("it works as ever"), Some(0), "{name}");
    writer.execute_batch("DELETE FROM t").expect("it works as ever");
}

#[test]
fn an_endless_call_that_is_interrupted_fails_alone() {
    let (writer, _folder) = open(None);
    for sql in SINGLE {
        check_interrupted(&writer, sql, |writer| writer.submit(sql, ()));
    }
    for (name, endless) in KINDS {
        check_interrupted(&writer, name, endless);
    }
    let answered = writer.submit(INSERT, [3]).expect("taken");
    while !answered.is_answered() {
        std::thread::yield_now();
    }
    assert!(!answered.interrupt());
    writer.close().expect("all is well");
}

#[test]
fn a_call_that_waits_is_taken_back_by_an_interrupt() {
    let (writer, _folder) = open(None);
    let (begun, is_begun) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let running = writer.submit_transaction(move |_| {
        begun.send(()).expect("the test listens");
        held.recv().expect("the test sends");
        Ok(())
    });
    is_begun.recv().expect("it begins");
    let waiting = writer.submit(INSERT, [1]).expect("taken");
    assert!(waiting.interrupt() && waiting.is_answered());
    release.send(()).expect("it listens");
    running.expect("taken").wait().expect("it was not asked for");
    assert!(is_interrupted(&waiting.wait().expect_err("it was taken back")));
    assert!(numbers(&writer).is_empty());
}

/// Holds the write lock of the writer's database by another connection.
fn other_connection(folder: &TempDir) -> Connection {
    let other = Connection::open(folder.path().join("a.db")).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("it holds the lock");
    other
}

#[test]
fn calls_that_wait_for_a_lock_are_stopped_by_an_interrupt() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).busy_limit(LONG);
    let writer = builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(n)").expect("a table");
    // The first one begins a transaction, and the second one, which is kept, none.
    writer.execute(INSERT, [0]).expect("it goes in");
    let other = other_connection(&folder);
    for statements in [&["INSERT INTO t VALUES(?1 + 0)"][..], &[INSERT], &[INSERT, INSERT]] {
        let tickets: Vec<_> =
            statements.iter().map(|sql| writer.submit(*sql, [1]).expect("taken")).collect();
        std::thread::sleep(Duration::from_millis(20));
        assert!(tickets.iter().all(Ticket::interrupt), "{statements:?}");
        for ticket in tickets {
            let error = ticket.wait().expect_err("it was not to go on");
            assert!(is_interrupted(&error), "{statements:?}: {error}");
        }
    }
    // One that was not asked for waits on.
    let (asked, waits) = (writer.submit(INSERT, [1]), writer.submit(INSERT, [2]));
    std::thread::sleep(Duration::from_millis(20));
    assert!(asked.as_ref().expect("taken").interrupt());
    std::thread::sleep(Duration::from_millis(20));
    other.execute_batch("COMMIT").expect("it ends");
    assert!(is_interrupted(&asked.expect("taken").wait().expect_err("it was asked for")));
    waits.expect("taken").wait().expect("the lock is free");
    assert_eq!(numbers(&writer), [0, 2]);
}

#[test]
fn closing_tells_of_calls_that_it_stopped_at_a_lock() {
    for is_kept in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let builder = Writer::builder(folder.path().join("a.db")).busy_limit(LONG);
        let writer = builder.open().expect("a writer");
        writer.execute_batch("CREATE TABLE t(n)").expect("a table");
        if is_kept {
            writer.execute(INSERT, [0]).expect("it goes in");
        }
        let _other = other_connection(&folder);
        let waits = writer.submit(INSERT, [1]).expect("taken");
        std::thread::sleep(Duration::from_millis(20));
        let error = writer.close_timeout(Duration::from_millis(50)).expect_err("a call waits");
        assert!(matches!(error.kind(), ErrorKind::TimedOut { .. }), "{error}");
        let error = waits.wait().expect_err("there was no time");
        assert!(is_interrupted(&error), "{error}");
    }
}

#[test]
fn what_runs_now_is_interrupted_whosever_it_is() {
    let (writer, _folder) = open(None);
    assert!(!writer.interrupt(), "nothing runs");
    let ticket = writer.submit(ENDLESS_ROWS, ()).expect("taken");
    let other = writer.submit(INSERT, [1]).expect("taken");
    while !ticket.is_answered() {
        writer.interrupt();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is_interrupted(&ticket.wait().expect_err("it has no end")));
    // It may have been hit by the last of them, as it ran by then.
    match other.wait() {
        Ok(_) => assert_eq!(numbers(&writer), [1]),
        Err(error) => assert!(is_interrupted(&error) && numbers(&writer).is_empty(), "{error}"),
    }
    writer.execute(INSERT, [2]).expect("no interrupt is left");
}

#[test]
fn a_limit_stops_an_endless_call_alone_and_each_clone_has_its_own() {
    let (writer, _folder) = open(Some(Duration::from_millis(20)));
    let patient = writer.with_call_limit(Some(LONG));
    let held = hold(&patient);
    let mut others = vec![patient.submit(INSERT, [0]).expect("taken")];
    let endless = KINDS.map(|(name, endless)| (name, endless(&writer).expect("taken")));
    others.push(patient.submit(INSERT, [1]).expect("taken"));
    held.release();
    for (name, ticket) in endless {
        let error = ticket.wait().expect_err("it has no end");
        let ErrorKind::TimedOut { limit, .. } = error.kind() else {
            unreachable!("{name}: {error}")
        };
        assert_eq!(*limit, Duration::from_millis(20));
        assert!(error.to_string().contains("longer than the 20ms"), "{error}");
        assert!(error.state_on_disk().is_some_and(|it| it.starts_with("nothing")), "{error}");
    }
    for other in others {
        other.wait().expect("it has nothing to do with it");
    }
    assert_eq!(numbers(&writer), [0, 1]);
    let endless_rows = (0..).map(|n| [n]).take(2_000_000);
    let rows = writer.insert_many("many", &["n"], endless_rows);
    let error = rows.expect_err("they are too many for the time");
    assert!(matches!(error.kind(), ErrorKind::TimedOut { .. }), "{error}");
    let without = writer.with_call_limit(None);
    assert_eq!(without.insert_many("many", &["n"], [[1]]).expect("there is no limit"), 1);
}

#[test]
fn closing_has_a_deadline_too() {
    let (writer, folder) = open(None);
    let runaway = writer.submit(ENDLESS, ()).expect("taken");
    let path = folder.path().join("a.db");
    let waits = writer.clone();
    let error = writer.close_timeout(Duration::from_millis(50)).expect_err("a call runs");
    assert!(matches!(error.kind(), ErrorKind::TimedOut { .. }), "{error}");
    assert!(!error.is_retryable(), "the writer is closed");
    let says = error.kind().to_string();
    assert_eq!(says, "closing the writer took longer than the 50ms that it may");
    assert!(is_interrupted(&runaway.wait().expect_err("it has no end")));
    assert!(waits.execute(INSERT, [1]).is_err());
    assert!(!path.with_extension("db-wal").exists(), "it is closed");
    // With time enough it is a close as any other.
    let again = Writer::builder(&path).open().expect("a writer");
    let last = again.submit(INSERT, [2]).expect("taken");
    again.close_timeout(LONG).expect("all is well");
    last.wait().expect("it was accepted");
}

#[test]
fn a_closure_that_does_not_come_back_does_not_keep_close_from_returning() {
    let (writer, _folder) = open(None);
    let (release, held) = mpsc::channel::<()>();
    let (begun, is_begun) = mpsc::channel();
    let stuck = writer.submit_transaction(move |tx| {
        tx.execute(INSERT, [1])?;
        begun.send(()).expect("the test listens");
        held.recv().expect("the test sends");
        tx.execute(INSERT, [2])
    });
    is_begun.recv().expect("it begins");
    let waiting = writer.submit(INSERT, [3]).expect("taken");
    let error = writer.close_timeout(Duration::from_millis(10)).expect_err("it is stuck");
    assert!(error.to_string().contains("open until the call that runs comes back"), "{error}");
    let refused = waiting.wait().expect_err("there was no time");
    assert!(matches!(refused.kind(), ErrorKind::Stopped { .. }), "{refused}");
    release.send(()).expect("it listens");
    assert!(is_interrupted(&stuck.expect("taken").wait().expect_err("it was too late")));
}
