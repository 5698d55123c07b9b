//! Callers that are tasks: no poll blocks, all are woken, a future that is dropped leaves nothing.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use leafpress::writer::{Batch, PendingCall};
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
