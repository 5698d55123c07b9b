//! Callers that are tasks: no poll blocks, all are woken, a future that is dropped leaves nothing.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use leafpress::writer::{Batch, PendingCall, after_answers};
use leafpress::{Error, ErrorKind};

use super::oracle::hold;
use super::tickets::{INSERT, block_on, rows, small};

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits for all of them at once, as an executor with one thread does.
async fn all<T>(calls: Vec<PendingCall<T>>) -> Vec<leafpress::Result<T>> {
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await);
    }
    answers
}

#[test]
fn each_call_does_as_a_future_what_it_does_for_a_thread() {
    let (writer, folder) = small(10);
    let work = async {
        let done = writer.execute_async(INSERT, [1, 1]).await?;
        assert_eq!((done.rows_changed, done.last_insert_rowid), (1, 1));
        writer.execute_batch_async(Batch::new().statement(INSERT, [1, 2])?).await?;
        let count = writer.transaction_async(|tx| {
            tx.execute(INSERT, [1, 3])?;
            tx.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
        });
        assert_eq!(count.await?, Some(3));
        let many = (4..7).map(|at| [1, at]);
        assert_eq!(writer.insert_many_async("t", &["caller", "at"], many).await?, 3);
        let twice = writer.execute_async(INSERT, [1, 1]).await.expect_err("it is there");
        assert!(matches!(twice.kind(), ErrorKind::Constraint { .. }), "{twice}");
        let wrong = writer.insert_many_async("t", &["caller"], [[1, 2]]).await.expect_err("two");
        assert!(matches!(wrong.kind(), ErrorKind::Misuse(_)), "{wrong}");
        Ok::<(), Error>(())
    };
    block_on(work).expect("all are done");
    assert_eq!(rows(&folder).len(), 6);
}

#[test]
fn no_poll_blocks_while_the_queue_is_full_and_the_order_of_first_polls_holds() {
    let (writer, folder) = small(2);
    let held = hold(&writer);
    // Made in one order, polled in another.
    let mut calls: Vec<_> = (0..50_i64).map(|at| writer.execute_async(INSERT, [1, at])).collect();
    calls.reverse();
    for call in &mut calls {
        assert!(poll(call).is_pending());
    }
    assert!(writer.try_submit(INSERT, [2, 1]).is_err(), "the queue is full");
    let waiting = std::thread::spawn(move || block_on(all(calls)));
    held.release();
    for answer in waiting.join().expect("all are woken") {
        answer.expect("the row is a new one");
    }
    let expected: Vec<_> = (0..50).rev().map(|at| (1, at)).collect();
    assert_eq!(rows(&folder), expected);
}

#[test]
fn a_future_that_is_dropped_early_does_nothing_and_holds_no_place() {
    let (writer, folder) = small(1);
    drop(writer.execute_async(INSERT, [0, 0]));
    let held = hold(&writer);
    let mut calls: Vec<_> = (0..6_i64).map(|at| writer.execute_async(INSERT, [1, at])).collect();
    for call in &mut calls {
        assert!(poll(call).is_pending());
    }
    // The first has the place in the queue, the others are in the line.
    let kept: Vec<_> =
        calls.into_iter().enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, call)| call).collect();
    held.release();
    for answer in block_on(all(kept)) {
        answer.expect("the row is a new one");
    }
    assert_eq!(rows(&folder), [(1, 1), (1, 3), (1, 5)]);
    // All places are free again.
    let ticket = writer.try_submit(INSERT, [2, 1]).expect("room");
    ticket.wait().expect("a new row");
    assert_eq!(writer.stats().queue_depth, 0);
}

#[test]
fn a_future_that_is_dropped_late_is_committed_all_the_same() {
    let (writer, folder) = small(4);
    let (begun, is_begun) = std::sync::mpsc::channel();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let mut call = writer.transaction_async(move |tx| {
        let _ = begun.send(());
        let _ = held.recv();
        tx.execute(INSERT, [1, 1])
    });
    assert!(poll(&mut call).is_pending());
    is_begun.recv().expect("it begins");
    drop(call);
    release.send(()).expect("it waits");
    writer.execute(INSERT, [1, 2]).expect("a later call");
    assert_eq!(rows(&folder), [(1, 1), (1, 2)]);
}

#[test]
fn a_closure_cannot_poll_a_call_and_a_second_answer_is_refused() {
    let (writer, folder) = small(4);
    let other = writer.clone();
    let refused = writer
        .transaction(move |_| {
            let Poll::Ready(answer) = poll(&mut other.execute_async(INSERT, [1, 1])) else {
                return Err(Error::aborted("it waits for itself"));
            };
            Ok(answer.is_err())
        })
        .expect("the closure is done");
    assert!(refused);
    assert_eq!(rows(&folder), []);
    let mut call = writer.execute_async(INSERT, [1, 2]);
    block_on(&mut call).expect("a new row");
    assert!(matches!(poll(&mut pin!(call)), Poll::Ready(Err(_))));
}

#[test]
fn closing_refuses_the_calls_that_have_no_room_yet() {
    let (writer, folder) = small(1);
    let held = hold(&writer);
    let mut calls: Vec<_> = (0..3_i64).map(|at| writer.execute_async(INSERT, [1, at])).collect();
    for call in &mut calls {
        assert!(poll(call).is_pending());
    }
    let closing = writer.clone();
    let closing = std::thread::spawn(move || closing.close());
    while writer.stopped().is_none() {
        std::thread::yield_now();
    }
    held.release();
    let answers = block_on(all(calls));
    closing.join().expect("no panic").expect("closed");
    assert!(answers[0].is_ok(), "it was accepted");
    for answer in &answers[1..] {
        let error = answer.as_ref().expect_err("it was not");
        assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
    }
    assert_eq!(rows(&folder), [(1, 0)]);
}

/// A runtime that wakes its thread once for a group.
#[derive(Default)]
struct Runtime {
    woken: AtomicUsize,
    /// Tasks that were woken, at each wake-up of the thread.
    wake_ups: Mutex<Vec<usize>>,
}

impl Wake for Runtime {
    fn wake(self: Arc<Self>) {
        if self.woken.fetch_add(1, Ordering::Relaxed) == 0 {
            after_answers(move || {
                let woken = self.woken.swap(0, Ordering::Relaxed);
                self.wake_ups.lock().unwrap_or_else(PoisonError::into_inner).push(woken);
            });
        }
    }
}

#[test]
fn code_after_the_answers_runs_once_for_a_group() {
    let (writer, folder) = small(100);
    let runtime = Arc::new(Runtime::default());
    let waker = Waker::from(Arc::clone(&runtime));
    let held = hold(&writer);
    let mut calls: Vec<_> = (0..50_i64).map(|at| writer.execute_async(INSERT, [1, at])).collect();
    for call in &mut calls {
        assert!(Pin::new(call).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    held.release();
    writer.execute(INSERT, [2, 1]).expect("it comes after them");
    for call in &mut calls {
        assert!(matches!(poll(call), Poll::Ready(Ok(_))));
    }
    // Closing waits for the thread that has answered them.
    writer.close().expect("it closes");
    assert_eq!(*runtime.wake_ups.lock().expect("no panic"), [50]);
    assert_eq!(rows(&folder).len(), 51);
}

#[test]
fn code_after_the_answers_runs_at_once_elsewhere() {
    let (writer, _folder) = small(1);
    let count = Arc::new(AtomicUsize::new(0));
    let add = |count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        after_answers(move || drop(count.fetch_add(1, Ordering::Relaxed)));
    };
    add(&count);
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let inside = Arc::clone(&count);
    let seen = writer.transaction(move |_| {
        add(&inside);
        Ok(inside.load(Ordering::Relaxed))
    });
    assert_eq!(seen.expect("a closure"), 2);
}
