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
use crate::queue::{JobState, ListOptions, Purge, Schedule};
use crate::writer::{Ticket, Writer};

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
        let before = holder(&bench.writer);
        before.has_begun.recv().expect("it begins");
        let mut task = Task::new(bench.queue.claim_async());
        assert!(task.poll().is_pending());
        // In the same group, after the claim.
        let after = holder(&bench.writer);
        before.release.send(()).expect("it waits");
        after.has_begun.recv().expect("it begins");
        if is_answered {
            after.release.send(()).expect("it waits");
            after.ticket.wait().expect("it does nothing");
            drop(task);
        } else {
            drop(task);
            after.release.send(()).expect("it waits");
            after.ticket.wait().expect("it does nothing");
        }
        before.ticket.wait().expect("it does nothing");
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

/// Makes each call for a thread at one queue and for a task at another one like it, and compares
/// the answers.
macro_rules! same_answers {
    ($threads:ident, $tasks:ident: $($call:ident / $call_async:ident ($($argument:expr),*);)+) => {
        $(
            let (thread, task) = ($threads.queue.clone(), $tasks.queue.clone());
            let (thread, task) =
                (thread.$call($($argument),*), block_on(task.$call_async($($argument),*)));
            assert_eq!(format!("{thread:?}"), format!("{task:?}"), stringify!($call));
        )+
    };
}

/// The queue holds one job that waits, six that are leased, and three that are dead.
fn busy_bench() -> (Bench, Vec<Token>) {
    let bench = bench();
    bench.queue.push_many((0..10).map(|_| Job::from("x"))).expect("pushed");
    let claims = bench.queue.claim_with(&ClaimOptions::new().jobs_max(9)).expect("jobs");
    let tokens: Vec<_> = claims.iter().map(|claim| claim.token).collect();
    for &token in &tokens[6..] {
        bench.queue.fail(token, "never").expect("dead");
    }
    (bench, tokens)
}

#[test]
fn a_task_gets_the_answers_that_a_thread_gets() {
    let ((threads, tokens), (tasks, same)) = (busy_bench(), busy_bench());
    assert_eq!(tokens, same);
    let lease = Duration::from_secs(9);
    let dead_id = threads.queue.list(&ListOptions::new()).expect("jobs").last().expect("a job").id;
    let schedule = Schedule::cron("nightly", "0 0 * * *").expect("it is sound");
    let in_future = Schedule::cron("bad", "0 0 * * *").expect("it is sound");
    let in_future = in_future.job(Job::from("x").due(std::time::SystemTime::now()));
    same_answers!(threads, tasks:
        settings / settings_async();
        configure / configure_async(|settings| settings.attempts_max = 7);
        configure / configure_async(|settings| settings.attempts_max = 0);
        push / push_async("y");
        push_many / push_many_async(["a", "b"].map(Job::from));
        ack_many / ack_many_async(&tokens[..2]);
        ack_many / ack_many_async(&tokens[1..3]);
        extend_many / extend_many_async(&tokens[2..5], lease);
        extend_many / extend_many_async(&tokens, Duration::ZERO);
        extend / extend_async(tokens[0], lease);
        nack / nack_async(tokens[3], Nack::new().delay(lease));
        retry / retry_async(tokens[6].job);
        retry / retry_async(dead_id + 99);
        retry_dead / retry_dead_async(Some(1));
        remove / remove_async(tokens[4].job);
        remove / remove_async(tokens[4].job);
        pause / pause_async();
        claim_with / claim_with_async(&ClaimOptions::new());
        resume / resume_async();
        schedule / schedule_async(&schedule);
        schedule / schedule_async(&in_future);
        schedules / schedules_async();
        unschedule / unschedule_async("nightly");
        unschedule / unschedule_async("nightly");
        purge / purge_async(&Purge::new());
        purge / purge_async(&Purge::new().states([JobState::Ready]).limit(2));
        purge / purge_async(&Purge::new().states([JobState::Ready, JobState::Leased]));
        drop_queue / drop_queue_async();
        settings / settings_async();
    );
}

#[test]
fn a_transaction_does_for_a_task_what_it_does_for_a_thread() {
    let Bench { queue, .. } = &bench();
    queue.push_many(["a", "b", "c", "d"].map(Job::from)).expect("pushed");
    let time = Duration::from_secs(30);
    block_on(async {
        let mut transaction = queue.begin(time).expect("begun");
        let claim = transaction.claim_async().await.expect("no error").expect("a job");
        assert_eq!(transaction.claim_many_async(2).await.expect("no error").len(), 2);
        assert_eq!(transaction.claim_many_async(0).await.expect("no error"), []);
        let other = queue.claim_async().await.expect("a job");
        transaction.include_async(other.token).await.expect("it is held");
        assert!(transaction.include_async(Token { claim: 99, ..other.token }).await.is_err());
        assert_eq!(transaction.extend_async(time).await.expect("held"), transaction.expires_at());
        transaction.push("next");
        let committed = transaction.commit_async().await.expect("committed");
        assert_eq!((committed.acked, committed.pushed.len()), (4, 1));
        assert!(queue.ack_async(claim.token).await.is_err(), "it was acked");

        let mut transaction = queue.begin(time).expect("begun");
        assert!(transaction.claim_async().await.expect("no error").is_some());
        transaction.rollback_async().await.expect("given back");
        let mut transaction = queue.begin(time).expect("begun");
        let again = transaction.claim_async().await.expect("no error").expect("the job");
        assert_eq!(again.attempt, 1);
        let body = |tx: &crate::writer::Transaction<'_>| tx.execute("CREATE TABLE done (a)", ());
        let (committed, _) = transaction.commit_with_async(body).await.expect("committed");
        assert_eq!(committed.acked, 1);
    });
    assert_eq!(states(queue), []);
}

/// A closure that holds the writer from its begin until `release` is used or dropped.
struct Holder {
    has_begun: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
    ticket: Ticket<()>,
}

/// Submits a closure that holds the writer once its turn comes.
fn holder(writer: &Writer) -> Holder {
    let (begun, has_begun) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let body = move |_: &crate::writer::Transaction<'_>| {
        let _ = begun.send(());
        let _ = held.recv();
        Ok(())
    };
    let ticket = writer.submit_transaction(body).expect("taken");
    Holder { has_begun, release, ticket }
}

/// Holds the writer until the sender is used or dropped.
fn hold(writer: &Writer) -> mpsc::Sender<()> {
    let Holder { has_begun, release, ticket } = holder(writer);
    drop(ticket);
    has_begun.recv().expect("it begins");
    release
}

#[test]
fn calls_of_many_transactions_take_turns_on_one_thread() {
    let bench = bench();
    let other = Queue::open(&bench.writer, "other").expect("a queue");
    for queue in [&bench.queue, &other] {
        queue.push_many((0..1_200).map(|_| Job::from("x"))).expect("pushed");
    }
    let held = hold(&bench.writer);
    let ready = Purge::new().states([JobState::Ready]);
    let mut purge = Task::new(bench.queue.purge_async(&ready));
    let mut gone = Task::new(other.drop_queue_async());
    let mut dropped = Task::new(bench.queue.purge_async(&ready));
    // While the writer is held, a poll that waits would never return.
    for task in [&mut purge, &mut gone, &mut dropped] {
        assert!(task.poll().is_pending());
    }
    drop(dropped);
    drop(held);
    let (mut purged, mut removed) = (None, None);
    let (mut of_purge, mut of_gone) = (0, 0);
    // Each is polled only when it was woken: if a wake-up were lost, this would not end.
    while purged.is_none() || removed.is_none() {
        for (task, count, seen) in
            [(&mut purge, &mut purged, &mut of_purge), (&mut gone, &mut removed, &mut of_gone)]
        {
            let woken = task.woken();
            if std::mem::replace(seen, woken) < woken
                && count.is_none()
                && let Poll::Ready(answer) = task.poll()
            {
                *count = Some(answer.expect("no error"));
            }
        }
        bench.writer.execute_batch("SELECT 1").expect("an answer");
    }
    assert_eq!((purged, removed), (Some(1_200), Some(1_200)));
}

#[test]
fn a_purge_that_is_dropped_ends_there() {
    let bench = bench();
    bench.queue.push_many((0..1_200).map(|_| Job::from("x"))).expect("pushed");
    let mut purge = Task::new(bench.queue.purge_async(&Purge::new().states([JobState::Ready])));
    // Its count, then its first step. None is answered in the poll that submits it.
    for _ in 0..2 {
        let held = hold(&bench.writer);
        assert!(purge.poll().is_pending());
        drop(held);
        bench.writer.execute_batch("SELECT 1").expect("an answer");
    }
    drop(purge);
    bench.writer.execute_batch("SELECT 1").expect("an answer");
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_job"), 700);
}

#[test]
fn a_commit_that_is_dropped_is_done_or_rolled_back() {
    let bench = bench();
    for has_begun in [false, true] {
        bench.push("x".into());
        let mut transaction = bench.queue.begin(Duration::from_secs(30)).expect("begun");
        assert!(transaction.claim().expect("no error").is_some());
        let held = hold(&bench.writer);
        let mut commit = Task::new(transaction.commit_async());
        assert!(commit.poll().is_pending());
        if has_begun {
            drop(held);
            bench.writer.execute_batch("SELECT 1").expect("an answer");
            drop(commit);
        } else {
            drop(commit);
            drop(held);
        }
        bench.writer.execute_batch("SELECT 1").expect("an answer");
        let expected: &[JobState] = if has_begun { &[] } else { &[JobState::Ready] };
        assert_eq!(states(&bench.queue), expected);
        bench.queue.purge(&Purge::new().states([JobState::Ready])).expect("purged");
    }
}
