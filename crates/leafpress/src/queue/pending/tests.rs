//! Calls of tasks: none blocks, each is woken, and a future that is dropped leaves nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::*;
use crate::ErrorKind;
use crate::queue::tests::{Bench, bench};
use crate::queue::worker::block_on::block_on;
use crate::queue::{JobState, ListOptions};
use crate::writer::Writer;

const FOR_EVER: Duration = Duration::MAX;

/// A task's future that the test polls by hand, and the number of times that it was woken.
struct Task<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<T> Task<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future), woken: Arc::default() }
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::SeqCst)
    }

    /// Polls as an executor does, each time that it is woken, until it waits for the wake-up: until
    /// the writer has answered all that was asked.
    fn sleep(&mut self, writer: &Writer) -> Poll<T> {
        loop {
            let seen = self.woken();
            if let Poll::Ready(output) = self.poll() {
                return Poll::Ready(output);
            }
            // What the task has submitted is answered once a later call is.
            writer.execute_batch("SELECT 1").expect("an answer");
            if self.woken() == seen {
                return Poll::Pending;
            }
        }
    }
}

fn states(queue: &Queue) -> Vec<JobState> {
    let jobs = queue.list(&ListOptions::new()).expect("jobs");
    jobs.iter().map(|job| job.state).collect()
}

#[test]
fn each_operation_does_as_a_future_what_it_does_for_a_thread() {
    let Bench { queue, .. } = &bench();
    block_on(async {
        queue.push_async(b"a".to_vec()).await.expect("pushed");
        let more = ["b", "c", "d", "e"].map(Job::from);
        assert_eq!(queue.push_many_async(more).await.expect("pushed").len(), 4);
        let first = queue.claim_async().await.expect("a job");
        queue.extend_async(first.token, Duration::from_secs(5)).await.expect("extended");
        assert!(queue.extend_async(first.token, Duration::ZERO).await.is_err());
        queue.ack_async(first.token).await.expect("acked");
        let late = queue.ack_async(first.token).await.expect_err("it is gone");
        assert!(matches!(late.kind(), ErrorKind::LeaseLost { .. }), "{late}");
        let rest = queue.claim_with_async(&ClaimOptions::new().jobs_max(10)).await.expect("jobs");
        let tokens: Vec<_> = rest.iter().map(|claim| claim.token).collect();
        queue.ack_with_async(tokens[0], "text").await.expect("acked");
        queue.nack_async(tokens[1], Nack::new()).await.expect("given back");
        queue.fail_async(tokens[2], "never").await.expect("dead");
        queue.release_async(tokens[3]).await.expect("given back");
        assert_eq!(queue.claim_with_async(&ClaimOptions::new()).await.expect("jobs").len(), 1);
        let none = queue.claim_with_async(&ClaimOptions::new().jobs_max(0)).await;
        assert_eq!(none.expect("no job"), []);
    });
}

#[test]
fn a_task_that_is_polled_again_while_it_sleeps_does_not_wake_itself() {
    let bench = bench();
    let mut task = Task::new(bench.queue.claim_async());
    assert!(task.sleep(&bench.writer).is_pending());
    let before = task.woken();
    for _ in 0..100 {
        assert!(task.poll().is_pending());
    }
    // The look of the wake-up thread, once a second, may wake it.
    assert!(task.woken() - before < 50);
}

#[test]
fn a_task_that_waits_for_a_job_is_woken_by_its_push() {
    let bench = bench();
    let options = ClaimOptions::new().wait(FOR_EVER);
    let mut tasks: Vec<_> =
        (0..3).map(|_| Task::new(bench.queue.claim_with_async(&options))).collect();
    for task in &mut tasks {
        assert!(task.sleep(&bench.writer).is_pending());
    }
    for left in [3, 2, 1] {
        for task in &mut tasks {
            assert!(task.sleep(&bench.writer).is_pending());
        }
        let before: Vec<_> = tasks.iter().map(Task::woken).collect();
        bench.push("x".into());
        let woken: Vec<_> = (0..left).filter(|&at| tasks[at].woken() > before[at]).collect();
        // The look of the wake-up thread, once a second, may wake one more.
        assert!(matches!(woken.len(), 1 | 2), "one job wakes one task: {woken:?}");
        let claims = tasks[woken[0]].sleep(&bench.writer);
        assert!(matches!(claims, Poll::Ready(Ok(claims)) if claims.len() == 1));
        drop(tasks.remove(woken[0]));
    }
}

#[test]
fn tasks_and_threads_wait_at_one_queue() {
    let bench = bench();
    let consumers: Vec<_> = (0..8)
        .map(|at| {
            let queue = bench.queue.clone();
            std::thread::spawn(move || {
                let options = ClaimOptions::new().wait(FOR_EVER);
                let claims = if at % 2 == 0 {
                    queue.claim_with(&options)
                } else {
                    block_on(queue.claim_with_async(&options))
                };
                claims.expect("a job").len()
            })
        })
        .collect();
    for _ in 0..8 {
        bench.push("x".into());
    }
    for consumer in consumers {
        assert_eq!(consumer.join().expect("no panic"), 1);
    }
}

#[test]
fn a_task_that_was_woken_and_dropped_sends_another_one() {
    let bench = bench();
    let options = ClaimOptions::new().wait(FOR_EVER);
    let mut first = Task::new(bench.queue.claim_with_async(&options));
    let mut second = Task::new(bench.queue.claim_with_async(&options));
    assert!(first.sleep(&bench.writer).is_pending());
    assert!(second.sleep(&bench.writer).is_pending());
    let before = second.woken();
    bench.push("x".into());
    drop(first);
    assert!(second.woken() > before);
    assert!(matches!(second.sleep(&bench.writer), Poll::Ready(Ok(claims)) if claims.len() == 1));
}

#[test]
fn a_job_that_was_claimed_for_a_dropped_future_is_given_back() {
    let bench = bench();
    bench.push("x".into());
    // Dropped once the writer has begun with it, and once it was answered.
    for is_answered in [false, true] {
        let (begun, has_begun) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let body = move |_: &crate::writer::Transaction<'_>| {
            let _ = begun.send(());
            let _ = held.recv();
            Ok(())
        };
        let before = bench.writer.submit_transaction(body).expect("taken");
        has_begun.recv().expect("it begins");
        let mut task = Task::new(bench.queue.claim_async());
        assert!(task.poll().is_pending());
        let (begun, has_begun) = mpsc::channel();
        let (release_after, held) = mpsc::channel::<()>();
        let body = move |_: &crate::writer::Transaction<'_>| {
            let _ = begun.send(());
            let _ = held.recv();
            Ok(())
        };
        // In the same group, after the claim.
        let after = bench.writer.submit_transaction(body).expect("taken");
        release.send(()).expect("it waits");
        has_begun.recv().expect("it begins");
        if is_answered {
            release_after.send(()).expect("it waits");
            after.wait().expect("it does nothing");
            drop(task);
        } else {
            drop(task);
            release_after.send(()).expect("it waits");
            after.wait().expect("it does nothing");
        }
        before.wait().expect("it does nothing");
        // The release was handed in before this call.
        bench.writer.execute_batch("SELECT 1").expect("an answer");
        assert_eq!(states(&bench.queue), [JobState::Ready]);
    }
    let claim = bench.claim();
    assert_eq!(claim.attempt, 1, "that was no attempt");
}

#[test]
fn a_wait_ends_at_its_time_and_when_the_writer_is_closed() {
    let bench = bench();
    let short = ClaimOptions::new().wait(Duration::from_millis(5));
    assert_eq!(block_on(bench.queue.claim_with_async(&short)).expect("no job"), []);
    let queue = bench.queue.clone();
    let waiting = std::thread::spawn(move || block_on(queue.claim_async()));
    let mut task = Task::new(bench.queue.claim_async());
    assert!(task.sleep(&bench.writer).is_pending());
    bench.writer.clone().close().expect("closed");
    for outcome in [waiting.join().expect("no panic"), block_on(task.future)] {
        let error = outcome.expect_err("no job any more");
        assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
    }
}

#[test]
fn a_task_is_woken_for_a_due_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let writer = Writer::builder(folder.path().join("a.db")).open().expect("a writer");
    let queue = Queue::open(&writer, "real time").expect("a queue");
    queue.push(Job::from("later").delay(Duration::from_millis(30))).expect("pushed");
    assert!(block_on(queue.claim_async()).is_ok());
    drop(queue.claim_async());
}
