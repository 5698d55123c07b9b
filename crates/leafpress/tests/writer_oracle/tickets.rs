//! Tickets, on which callers wait: order, back-pressure, taking back, closing, futures.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use leafpress::writer::{Executed, Ticket, Writer};
use leafpress::{Error, ErrorKind, Profile};
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::oracle::hold;
use super::traps::counted;

pub(super) fn small(queue_capacity: usize) -> (Writer, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db"))
        .profile(Profile::Relaxed)
        .queue_capacity(queue_capacity);
    let writer = builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(caller, at, UNIQUE(caller, at))").expect("a table");
    (writer, folder)
}

pub(super) const INSERT: &str = "INSERT INTO t VALUES(?1, ?2)";

pub(super) fn rows(folder: &TempDir) -> Vec<(i64, i64)> {
    let connection = Connection::open(folder.path().join("a.db")).expect("a connection");
    let mut statement = connection.prepare("SELECT * FROM t ORDER BY rowid").expect("a query");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.map(|row| row.expect("numbers")).collect()
}

/// Polls on the thread that calls, and sleeps until it is woken.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Waits for all of them at once.
struct All(Vec<Option<Ticket<Executed>>>);

impl Future for All {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        for place in &mut self.0 {
            if let Some(ticket) = place
                && let Poll::Ready(outcome) = Pin::new(ticket).poll(context)
            {
                outcome.expect("the row is a new one");
                *place = None;
            }
        }
        if self.0.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn tickets_are_futures_that_wake_their_task() {
    let (writer, folder) = small(1_000);
    let held = hold(&writer);
    let tickets = (0..100_i64).map(|at| Some(writer.submit(INSERT, [1, at]).expect("taken")));
    let all = All(tickets.collect());
    let waiting = std::thread::spawn(move || block_on(all));
    held.release();
    waiting.join().expect("all are woken");
    let twice = block_on(writer.submit(INSERT, [1, 1]).expect("taken"));
    assert!(twice.is_err());
    let mut ready = writer.submit(INSERT, [2, 1]).expect("taken");
    block_on(&mut ready).expect("it is in");
    // The answer was fetched, and there is no second one.
    let mut again = pin!(ready);
    let polled = again.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Err(_))));
    assert_eq!(rows(&folder).len(), 101);
}

#[test]
fn the_last_waker_is_the_one_that_counts() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (writer, _folder) = small(10);
    let held = hold(&writer);
    let mut ticket = writer.submit(INSERT, [1, 1]).expect("taken");
    let (early, late) = (Arc::new(Count(0.into())), Arc::new(Count(0.into())));
    for waker in [&early, &late] {
        let waker = Waker::from(Arc::clone(waker));
        assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    held.release();
    writer.execute(INSERT, [1, 2]).expect("a later group");
    // The calls of a group are answered at once, and the tasks are woken then.
    let deadline = Instant::now() + Duration::from_secs(60);
    while late.0.load(Ordering::SeqCst) == 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!((early.0.load(Ordering::SeqCst), late.0.load(Ordering::SeqCst)), (0, 1));
    assert!(ticket.is_answered());
    block_on(ticket).expect("it is in");
}

#[test]
fn a_wait_with_a_limit_gives_the_ticket_back() {
    let (writer, folder) = small(10);
    let held = hold(&writer);
    let ticket = writer.submit(INSERT, [1, 1]).expect("taken");
    let ticket = ticket.wait_timeout(Duration::from_millis(1)).expect_err("it is held");
    assert!(!ticket.is_answered());
    held.release();
    let outcome = ticket.wait_timeout(Duration::from_secs(3_600)).expect("it is not held");
    assert_eq!(outcome.expect("it is in").rows_changed, 1);
    assert_eq!(rows(&folder), [(1, 1)]);
}

#[test]
fn a_call_is_taken_back_only_before_it_has_begun() {
    let (writer, folder) = small(10);
    let (begun, is_begun) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let running = writer
        .submit_transaction(move |tx| {
            begun.send(()).expect("the test listens");
            held.recv().expect("the test sends");
            tx.execute(INSERT, [1, 1])
        })
        .expect("taken");
    is_begun.recv().expect("it begins");
    let waiting = writer.submit(INSERT, [1, 2]).expect("taken");
    let other = writer.submit(INSERT, [1, 3]).expect("taken");
    assert!(!running.cancel());
    assert!(waiting.cancel());
    release.send(()).expect("it listens");
    let cancelled = waiting.wait().expect_err("it was taken back");
    assert!(matches!(cancelled.kind(), ErrorKind::Cancelled), "{cancelled}");
    running.wait().expect("it was too late");
    other.wait().expect("no thread took it back");
    assert_eq!(rows(&folder), [(1, 1), (1, 3)]);
    // The table, the one that ran, and the one after.
    assert_eq!(counted(&writer, 3).calls_cancelled, 1);
}

#[test]
fn a_full_queue_says_so_or_makes_callers_wait() {
    let (writer, folder) = small(2);
    let held = hold(&writer);
    let first = writer.try_submit(INSERT, [1, 1]).expect("room");
    let second = writer.try_submit(INSERT, [1, 2]).expect("room");
    let full = writer.try_submit(INSERT, [1, 3]).expect_err("no room");
    assert!(matches!(full.kind(), ErrorKind::QueueFull { capacity: 2, .. }), "{full}");
    let patient = std::thread::spawn({
        let writer = writer.clone();
        move || writer.execute(INSERT, [1, 4])
    });
    assert_eq!(writer.stats().queue_depth, 2);
    held.release();
    for ticket in [first, second] {
        ticket.wait().expect("it is in");
    }
    patient.join().expect("no panic").expect("there was room in the end");
    assert_eq!(rows(&folder), [(1, 1), (1, 2), (1, 4)]);
    let stats = writer.stats();
    assert_eq!((stats.queue_full, stats.queue_depth, stats.queue_depth_max), (1, 0, 2));
}

#[test]
fn closing_commits_what_was_accepted_and_takes_no_more() {
    let (writer, folder) = small(1_000);
    let held = hold(&writer);
    let tickets: Vec<_> =
        (0..100).map(|at| writer.submit(INSERT, [1, at]).expect("taken")).collect();
    let clone = writer.clone();
    let closing = std::thread::spawn(move || writer.close());
    while clone.stopped().is_none() {
        std::thread::yield_now();
    }
    let late = clone.submit(INSERT, [2, 1]).expect_err("it is closed");
    assert!(matches!(late.kind(), ErrorKind::Stopped { .. }), "{late}");
    held.release();
    closing.join().expect("no panic").expect("all is well");
    for ticket in tickets {
        ticket.wait().expect("it was accepted");
    }
    assert!(clone.execute(INSERT, [2, 2]).is_err());
    assert_eq!(rows(&folder).len(), 100);
    // One more time does no harm.
    clone.close().expect("it is closed already");
}

#[test]
fn a_thread_that_waits_for_room_is_told_when_it_closes() {
    let (writer, folder) = small(1);
    let held = hold(&writer);
    let accepted = writer.submit(INSERT, [1, 1]).expect("room");
    let patient = std::thread::spawn({
        let writer = writer.clone();
        move || writer.execute(INSERT, [1, 2])
    });
    let closing = std::thread::spawn({
        let writer = writer.clone();
        move || writer.close()
    });
    // It is told while the writer is still held.
    let outcome = patient.join().expect("no panic");
    held.release();
    closing.join().expect("no panic").expect("all is well");
    accepted.wait().expect("it was accepted");
    let error = outcome.expect_err("there was no room before it closed");
    assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
    assert_eq!(rows(&folder), [(1, 1)]);
}

#[test]
fn dropping_the_last_writer_commits_what_was_accepted() {
    let (writer, folder) = small(1_000);
    let held = hold(&writer);
    let tickets: Vec<_> =
        (0..100).map(|at| writer.submit(INSERT, [1, at]).expect("taken")).collect();
    // Tickets that no thread waits for are no reason to lose their calls.
    drop(tickets);
    let dropping = std::thread::spawn(move || drop(writer));
    held.release();
    dropping.join().expect("no panic");
    assert_eq!(rows(&folder).len(), 100);
}

#[test]
fn a_writer_that_ends_in_its_own_closure_does_not_wait_for_itself() {
    let (writer, folder) = small(10);
    let inner = writer.clone();
    let ticket = writer
        .submit_transaction(move |tx| {
            let _kept = &inner;
            tx.execute(INSERT, [1, 1])
        })
        .expect("taken");
    // The closure's clone may be the last; the call is committed all the same.
    drop(writer);
    ticket.wait().expect("it was accepted");
    assert_eq!(rows(&folder), [(1, 1)]);
}

#[test]
fn groups_are_no_larger_than_allowed_and_a_delay_lets_them_grow() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
    let writer = builder.max_group(7).max_delay(Duration::from_secs(3_600)).open();
    let writer = writer.expect("a writer");
    // As many as a group may have: no call waits for the hour to end.
    let table = "CREATE TABLE IF NOT EXISTS t(caller, at)";
    let tickets: Vec<_> = (0..7).map(|_| writer.submit(table, ()).expect("taken")).collect();
    for ticket in tickets {
        ticket.wait().expect("it is in");
    }
    let stats = counted(&writer, 7);
    assert_eq!((stats.commits, stats.group_size.max), (1, 7));
    writer.close().expect("all is well");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Without any order among callers, each one's own calls are in its order,
    /// those that succeeded are there, and no others.
    #[test]
    fn the_calls_of_each_caller_commit_in_its_order(
        callers in 1..6_i64, calls in 1..60_i64, capacity in 1..40_usize,
        group_max in 1..20_usize, fails_at in 2..9_i64, cancels_at in 2..9_i64,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
        let writer = builder.queue_capacity(capacity).max_group(group_max).open().expect("opened");
        writer.execute_batch("CREATE TABLE t(caller, at, UNIQUE(caller, at))").expect("a table");
        let call = |caller: i64| -> Vec<(i64, i64)> {
            let submit = |at: i64| {
                let again = if at % fails_at == 0 { at - 1 } else { at };
                let sql = if again < at { "INSERT OR ROLLBACK INTO t VALUES(?1, ?2)" } else { INSERT };
                let ticket = writer.submit(sql, [caller, again]).expect("taken");
                let taken_back = at % cancels_at == 0 && ticket.cancel();
                (at, again, taken_back, ticket)
            };
            let tickets: Vec<_> = (1..=calls).map(submit).collect();
            let mut expected = Vec::new();
            for (at, again, taken_back, ticket) in tickets {
                match ticket.wait() {
                    Ok(_) => expected.push((caller, again)),
                    Err(error) => check_error(&error, taken_back, again < at),
                }
            }
            expected
        };
        let expected: Vec<(i64, i64)> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..callers).map(|caller| scope.spawn(move || call(caller))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        writer.close().expect("all is well");
        let mut stored = rows(&folder);
        // Stable: the order of each caller's own rows is the one of their rowids.
        stored.sort_by_key(|row| row.0);
        prop_assert_eq!(stored, expected);
    }
}

fn check_error(error: &Error, taken_back: bool, is_there_already: bool) {
    match error.kind() {
        ErrorKind::Cancelled => assert!(taken_back, "{error}"),
        ErrorKind::Constraint { .. } => assert!(is_there_already, "{error}"),
        _ => unreachable!("{error}"),
    }
}

#[test]
fn a_ticket_is_waited_for_and_its_answer_fetched_without_giving_it_away() {
    let (writer, _folder) = small(10);
    let held = hold(&writer);
    let ticket = writer.submit(INSERT, [1, 1]).expect("there is room");
    assert!(!ticket.wait_answered(Some(Duration::from_millis(10))).expect("it waits"));
    assert!(ticket.fetch().is_none());
    held.release();
    assert!(ticket.wait_answered(None).expect("it waits"));
    assert_eq!(ticket.fetch().expect("an answer").expect("a row").rows_changed, 1);
    assert!(ticket.fetch().is_none(), "it can be fetched once");
}
