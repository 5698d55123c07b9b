//! Closures that call a writer, code of callers that panics where no caller waits, and what
//! closing tells of a writer that stopped.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use leafpress::queue::Queue;
use leafpress::writer::{Answer, Call, CommitTarget, Group, Ticket, Writer};
use leafpress::{Error, ErrorKind, Profile};
use tempfile::TempDir;

use super::oracle::hold;

fn open() -> (Writer, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
    let writer = builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(what)").expect("a table");
    (writer, folder)
}

fn whats(writer: &Writer) -> Vec<String> {
    let reader = writer.reader().expect("a reader");
    let mut statement = reader.prepare("SELECT what FROM t ORDER BY rowid").expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("text")).collect()
}

const INSERT: &str = "INSERT INTO t VALUES(?1)";

/// A way to call a writer and to wait for it.
type Way = fn(&Writer) -> Result<(), Error>;

const WAYS: [(&str, Way); 8] = [
    ("execute", |writer| writer.execute(INSERT, ["execute"]).map(drop)),
    ("execute_batch", |writer| writer.execute_batch("INSERT INTO t VALUES('batch')")),
    ("transaction", |writer| writer.transaction(|tx| tx.execute(INSERT, ["closure"])).map(drop)),
    ("insert_many", |writer| writer.insert_many("t", &["what"], [["many"]]).map(drop)),
    ("submit and wait", |writer| writer.submit(INSERT, ["waited for"])?.wait().map(drop)),
    ("submit and wait for a time", |writer| {
        let ticket = writer.submit(INSERT, ["waited for a time"])?;
        ticket
            .wait_timeout(std::time::Duration::from_secs(3_600))
            .expect("it does not wait")
            .map(drop)
    }),
    ("submit and await", |writer| {
        let mut ticket = pin!(writer.submit(INSERT, ["awaited"])?);
        match ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome.map(drop),
            Poll::Pending => unreachable!("it would wait for ever"),
        }
    }),
    ("queue", |writer| {
        let queue = Queue::builder(writer, "jobs").must_exist().open()?;
        queue.push("job").map(drop)
    }),
];

/// Calls `other` in a closure of `writer`, and says how that was answered.
fn refused_inside(writer: &Writer, other: &Writer, (name, way): (&str, Way)) {
    let other = other.clone();
    let inside = writer.transaction(move |_| Ok(way(&other).expect_err("it cannot wait")));
    let error = inside.expect("the closure goes on");
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{name}: {error}");
    assert_eq!(error.state_on_disk(), Some("nothing of this call"), "{name}: {error}");
}

#[test]
fn a_call_that_is_refused_inside_of_a_closure_is_not_carried_out() {
    let (writer, _folder) = open();
    let (second, _other_folder) = open();
    for writer in [&writer, &second] {
        Queue::open(writer, "jobs").expect("a queue");
    }
    let push = Queue::open(&writer, "jobs").expect("a queue");
    // What is submitted to the second must not be answered before it is waited for.
    let held = hold(&second);
    for way in WAYS {
        refused_inside(&writer, &writer, way);
        refused_inside(&writer, &second, way);
    }
    held.release();
    let inside = push.clone();
    let outcome = writer.transaction(move |_| Ok(inside.push("job").expect_err("it cannot wait")));
    let error = outcome.expect("the closure goes on");
    assert_eq!(error.state_on_disk(), Some("nothing of this call"), "{error}");
    for writer in [&writer, &second] {
        writer.execute(INSERT, ["end"]).expect("it works as ever");
        assert_eq!(whats(writer), ["end"]);
        let queue = Queue::open(writer, "jobs").expect("the queue");
        assert_eq!(queue.claim().expect("it works as ever"), None);
    }
}

#[test]
fn a_call_that_had_begun_says_so_to_the_closure_that_waits_for_it() {
    let (writer, _folder) = open();
    let held = hold(&writer);
    let first = writer.submit(INSERT, ["first"]).expect("taken");
    let second = writer.submit_transaction(move |tx| {
        tx.execute(INSERT, ["second"])?;
        Ok(first.is_answered())
    });
    let (give, take) = std::sync::mpsc::channel::<Ticket<bool>>();
    let mut taken = Some(take);
    let waits = writer.submit_transaction(move |_| {
        let ticket = taken.take().expect("it runs once").recv().expect("the test sends");
        Ok(ticket.wait().expect_err("it is in the same group"))
    });
    give.send(second.expect("taken")).expect("the closure listens");
    held.release();
    let error = waits.expect("taken").wait().expect("it goes on");
    assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
    assert_eq!(whats(&writer), ["first", "second"]);
}

#[test]
fn what_a_closure_submits_is_a_call_of_its_own() {
    let (writer, _folder) = open();
    let inner = writer.clone();
    let outcome = writer.transaction(move |tx| {
        tx.execute(INSERT, ["undone"])?;
        drop(inner.submit(INSERT, ["submitted"])?);
        Err::<(), _>(Error::aborted("it gives up"))
    });
    assert!(matches!(outcome.expect_err("it gave up").kind(), ErrorKind::Aborted(_)));
    writer.execute(INSERT, ["end"]).expect("it works as ever");
    assert_eq!(whats(&writer), ["submitted", "end"]);
}

#[test]
fn closing_inside_of_a_closure_is_refused_and_changes_nothing() {
    let (writer, _folder) = open();
    let inner = writer.clone();
    let outcome =
        writer.transaction(move |_| Ok(inner.clone().close().expect_err("it would wait")));
    let error = outcome.expect("the closure goes on");
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    assert_eq!(writer.stopped(), None);
    writer.execute(INSERT, ["end"]).expect("it is open");
    writer.close().expect("all is well");
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::panic_any("in drop");
        }
    }
}

/// Panics when it is woken.
struct Alarm;

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any("in the waker");
    }
}

/// All of these in one group, with calls of others before and after each: the others and
/// those whose code panics late succeed, and the writer goes on.
#[test]
fn panics_of_destructors_and_wakers_stop_no_other_caller() {
    let (writer, _folder) = open();
    writer.execute_batch("CREATE TABLE once(u UNIQUE); INSERT INTO once VALUES(1)").expect("a row");
    let held = hold(&writer);
    let mut others = Vec::new();
    let other = || writer.submit(INSERT, ["other"]).expect("taken");
    others.push(other());
    let bomb = Bomb;
    let capture = writer.submit_transaction(move |tx| {
        let _captured = &bomb;
        tx.execute(INSERT, ["capture"])
    });
    others.push(other());
    let value = writer.submit_transaction(|tx| tx.execute(INSERT, ["value"]).map(|_| Bomb));
    drop(value.expect("taken"));
    others.push(other());
    let error = writer.submit_transaction(|_| Err::<(), _>(Error::aborted(BombError(Bomb))));
    drop(error.expect("taken"));
    others.push(other());
    let thrown =
        writer.submit_transaction(|_| -> Result<(), Error> { std::panic::panic_any(Bomb) });
    others.push(other());
    let mut woken = writer.submit(INSERT, ["woken"]).expect("taken");
    let waker = Waker::from(Arc::new(Alarm));
    assert!(Pin::new(&mut woken).poll(&mut Context::from_waker(&waker)).is_pending());
    others.push(other());
    // What was done before it is undone and done again, and its first value is dropped.
    let culprit = writer.submit_batch("INSERT OR ROLLBACK INTO once VALUES(1)");
    others.push(other());
    let bomb = Bomb;
    let taken_back = writer.submit_transaction(move |_| {
        let _captured = &bomb;
        Ok(())
    });
    assert!(taken_back.expect("taken").cancel());
    held.release();
    for other in others {
        other.wait().expect("it has nothing to do with it");
    }
    capture.expect("taken").wait().expect("it was done when it was dropped");
    woken.wait().expect("it was done when it was woken");
    assert!(culprit.expect("taken").wait().is_err());
    let error = thrown.expect("taken").wait().expect_err("it panicked");
    assert!(matches!(error.kind(), ErrorKind::Panicked { .. }), "{error}");
    assert_eq!(writer.stopped(), None);
    let done: Vec<_> = whats(&writer).into_iter().filter(|what| what != "other").collect();
    assert_eq!(done, ["capture", "value", "woken"]);
    writer.close().expect("nothing was lost");
}

#[derive(Debug)]
struct BombError(Bomb);

impl std::fmt::Debug for Bomb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bomb")
    }
}

impl std::fmt::Display for BombError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for BombError {}

/// The writer's last clone is the value of a ticket that was dropped.
#[test]
fn a_writer_that_is_dropped_with_an_answer_closes_its_database() {
    let (writer, folder) = open();
    let held = hold(&writer);
    let inner = writer.clone();
    let ticket = writer.submit_transaction(move |_| Ok(inner.clone()));
    drop(ticket.expect("taken"));
    drop(writer);
    held.release();
    let log = folder.path().join("a.db-wal");
    for _ in 0..6_000 {
        if !log.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    unreachable!("the log is still there after a minute");
}

/// A target that fails with its second group.
struct Failing(usize);

impl CommitTarget for Failing {
    fn commit(&mut self, group: &mut Group) -> Result<(), String> {
        self.0 += 1;
        if self.0 > 1 {
            return Err("the place is gone".to_owned());
        }
        for index in 0..group.len() {
            assert!(matches!(group.call(index), Call::Batch(_)) && !group.is_interrupted(index));
            group.answer(index, Ok(Answer::Done));
        }
        Ok(())
    }
}

#[test]
fn closing_tells_that_the_writer_had_stopped() {
    let writer = Writer::with_target(Failing(0), 10).expect("a writer");
    writer.execute_batch("SELECT 1").expect("the first group");
    let lost = writer.execute_batch("SELECT 2").expect_err("the second");
    assert!(matches!(lost.kind(), ErrorKind::OutcomeUnknown { .. }), "{lost}");
    let clone = writer.clone();
    for writer in [writer, clone] {
        let error = writer.close().expect_err("it had stopped");
        assert!(error.to_string().contains("the place is gone"), "{error}");
    }
}

#[test]
fn a_reason_to_give_up_is_the_source_of_the_error() {
    let error = Error::aborted(std::io::Error::other("no room on the shelf"));
    let source = std::error::Error::source(&error).expect("the reason");
    assert_eq!(source.to_string(), "no room on the shelf");
    assert!(source.downcast_ref::<std::io::Error>().is_some());
}

#[test]
fn a_statement_of_a_closure_gives_its_rows_with_their_columns() {
    let (writer, _folder) = open();
    let (rows, none, changed) = writer
        .transaction(|tx| {
            let text = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
            let rows = tx.run("INSERT INTO t VALUES ('a'), ('b') RETURNING what AS w", (), text)?;
            let none = tx.run("SELECT what FROM t WHERE what > ?1", ["z"], text)?;
            Ok((rows, none, tx.run("DELETE FROM t WHERE what = 'a'", (), text)?))
        })
        .expect("three statements");
    assert_eq!((rows.columns, rows.rows), (vec!["w".to_owned()], vec!["a".into(), "b".into()]));
    assert_eq!((rows.executed.rows_changed, rows.executed.last_insert_rowid), (2, 2));
    assert_eq!((none.columns, none.rows.len()), (vec!["what".to_owned()], 0));
    assert_eq!(none.executed.rows_changed, 0);
    assert!(changed.columns.is_empty());
    assert_eq!(changed.executed.rows_changed, 1);
    assert_eq!(whats(&writer), ["b"]);
}

/// A kept statement is compiled again for another schema by its first step.
#[test]
fn columns_have_the_names_of_the_schema_that_the_statement_met() {
    let (writer, _folder) = open();
    let rows = |sql: &'static str| {
        let pair = |row: &rusqlite::Row<'_>| Ok([row.get::<_, i64>(0)?, row.get(1)?]);
        writer.transaction(move |tx| tx.run(sql, (), pair)).expect("a row")
    };
    writer.execute_batch("CREATE TABLE p(a, b); INSERT INTO p VALUES(1, 2)").expect("a table");
    assert_eq!(rows("SELECT * FROM p").columns, ["a", "b"]);
    let changed = "ALTER TABLE p DROP COLUMN a; ALTER TABLE p ADD COLUMN a DEFAULT 1";
    writer.execute_batch(changed).expect("a column");
    let now = rows("SELECT * FROM p");
    assert_eq!((now.columns, now.rows), (vec!["b".to_owned(), "a".to_owned()], vec![[2, 1]]));
}
