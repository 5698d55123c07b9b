//! The numbered promises of the worker, seen from a handler.
//!
//! Nothing here waits for a time to pass: handlers hold one another up by
//! channels, and leases end because the clock is set.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::pool::Pool;
use super::{JobContext, Outcome, Stop, WorkReport, Worker};
use crate::queue::elsewhere::{self, QueueElsewhere};
use crate::queue::{
    Claim, ClaimOptions, Clock, Job, JobState, ManualClock, Nack, Payload, Queue, Retry, Token,
};
use crate::times::UnixTime;
use crate::writer::Writer;
use crate::{Error, ErrorKind, Profile};

const LONG: Duration = Duration::from_secs(3600);

struct Scene {
    _folder: tempfile::TempDir,
    writer: Writer,
    queue: Queue,
    clock: ManualClock,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let writer = Writer::builder(folder.path().join("jobs.db"))
        .profile(Profile::Relaxed)
        .open()
        .expect("a writer");
    let (clock, manual) = Clock::manual(1_000_000);
    let queue = Queue::builder(&writer, "test").clock(clock).open().expect("a queue");
    Scene { _folder: folder, writer, queue, clock: manual }
}

impl Scene {
    fn push(&self, jobs: usize) {
        let jobs = (0..jobs).map(|at| Job::bytes(at.to_string()));
        self.queue.push_many(jobs).expect("jobs");
    }

    fn count(&self, state: JobState) -> i64 {
        let sql = "SELECT count(*) FROM leafpress_job WHERE state = ?1";
        let reader = self.writer.reader().expect("a reader");
        reader.query_row(sql, [state.number()], |row| row.get(0)).expect("a count")
    }

    fn text(&self, column: &str) -> Option<String> {
        let reader = self.writer.reader().expect("a reader");
        let sql = format!("SELECT {column} FROM leafpress_job");
        reader.query_row(&sql, [], |row| row.get(0)).expect("one job")
    }

    /// One job through a handler, until nothing is ready.
    fn run_once(&self, outcome: &Outcome) -> WorkReport {
        self.push(1);
        let worker = Worker::new(&self.queue).until_empty();
        worker.run(&Stop::new(), |_| outcome.clone()).expect("a report")
    }
}

fn counts(report: &WorkReport) -> [u64; 6] {
    let WorkReport { claimed, done, retried, dead, released, lease_lost, .. } = *report;
    [claimed, done, retried, dead, released, lease_lost]
}

/// A handler's two ends: it says that it runs, and waits until it may go on.
fn held_up() -> (impl Fn() + Send + Sync, Receiver<()>, Sender<()>) {
    let (runs, running) = channel();
    let (go_on, may_go_on) = channel();
    let ends = Mutex::new((runs, may_go_on));
    let hold = move || {
        let ends = ends.lock().expect("no thread panicked");
        ends.0.send(()).expect("the test looks");
        ends.1.recv().expect("the test lets it go on");
    };
    (hold, running, go_on)
}

#[test]
fn a_queue_with_a_job_behind_many_that_expired_is_not_empty() {
    let scene = scene();
    let old = || Job::bytes("old").expires_in(Duration::from_millis(1));
    scene.queue.push_many((0..2_500).map(|_| old())).expect("jobs");
    scene.clock.advance_ms(1);
    assert_eq!(counts(&scene.run_once(&Outcome::Done)), [1, 1, 0, 0, 0, 0]);
    assert_eq!(scene.count(JobState::Dead), 2_500);
}

#[test]
fn what_the_handler_answers_becomes_of_the_job() {
    let scene = scene();
    assert_eq!(counts(&scene.run_once(&Outcome::Done)), [1, 1, 0, 0, 0, 0]);
    scene.queue.configure(|settings| settings.keep_done = LONG).expect("settings");
    let result = Outcome::DoneWith(Payload::bytes("came out"));
    assert_eq!(counts(&scene.run_once(&result)), [1, 1, 0, 0, 0, 0]);
    assert_eq!(scene.text("CAST(result AS TEXT)").as_deref(), Some("came out"));
    scene.writer.execute("DELETE FROM leafpress_job", ()).expect("none");

    let retry = Outcome::Retry { error: "not now".to_owned(), delay: Some(LONG) };
    assert_eq!(counts(&scene.run_once(&retry)), [1, 0, 1, 0, 0, 0]);
    assert_eq!(scene.text("error").as_deref(), Some("not now"));
    scene.writer.execute("DELETE FROM leafpress_job", ()).expect("none");

    let dead = Outcome::Dead { reason: "never".to_owned() };
    assert_eq!(counts(&scene.run_once(&dead)), [1, 0, 0, 1, 0, 0]);
    assert_eq!(scene.count(JobState::Dead), 1);
    assert_eq!(scene.text("error").as_deref(), Some("never"));
    assert_eq!(Outcome::from(Err::<(), _>("why")), {
        Outcome::Retry { error: "why".to_owned(), delay: None }
    });
}

#[test]
fn the_last_attempt_ends_in_death() {
    let scene = scene();
    scene.queue.push(Job::bytes("x").attempts_max(1)).expect("a job");
    let worker = Worker::new(&scene.queue).until_empty();
    let retry = |_: &_| Outcome::Retry { error: "no".to_owned(), delay: None };
    let report = worker.run(&Stop::new(), retry).expect("a report");
    assert_eq!(counts(&report), [1, 0, 0, 1, 0, 0]);
}

#[test]
fn a_job_that_is_released_is_claimed_again_as_the_same_attempt() {
    let scene = scene();
    scene.push(1);
    let attempts = Mutex::new(Vec::new());
    let worker = Worker::new(&scene.queue).jobs_max(2);
    let report = worker.run(&Stop::new(), |job| {
        let mut attempts = attempts.lock().expect("no thread panicked");
        attempts.push((job.token.claim, job.attempt));
        if attempts.len() == 1 { Outcome::Release } else { Outcome::Done }
    });
    assert_eq!(counts(&report.expect("a report")), [2, 1, 0, 0, 1, 0]);
    assert_eq!(attempts.into_inner().expect("no thread panicked"), [(1, 1), (2, 1)]);
}

#[test]
fn a_panic_is_the_jobs_failure() {
    let scene = scene();
    scene.push(3);
    let worker = Worker::new(&scene.queue).concurrency(2).until_empty();
    let report = worker.run(&Stop::new(), |job| {
        assert!(job.payload != Payload::bytes("1"), "number {} it is", 1);
        Outcome::Done
    });
    let report = report.expect("a report");
    assert_eq!((counts(&report), report.panicked), ([3, 2, 1, 0, 0, 0], 1));
    assert_eq!(scene.text("error").as_deref(), Some("the handler panicked: number 1 it is"));
}

#[test]
fn as_many_handlers_run_at_once_as_were_asked_for() {
    let scene = scene();
    scene.push(12);
    // With fewer at once, the first ones would wait for ever; with more, some are alone.
    let together = Barrier::new(4);
    let running = AtomicU32::new(0);
    let worker = Worker::new(&scene.queue).concurrency(4).until_empty();
    let report = worker.run(&Stop::new(), |_| {
        assert!(running.fetch_add(1, Ordering::SeqCst) < 4);
        together.wait();
        running.fetch_sub(1, Ordering::SeqCst);
        Outcome::Done
    });
    assert_eq!(counts(&report.expect("a report")), [12, 12, 0, 0, 0, 0]);
}

#[test]
fn idle_handlers_claim_in_one_call() {
    let scene = scene();
    scene.push(8);
    let calls = || scene.writer.stats().calls;
    let before = calls();
    let worker = Worker::new(&scene.queue).concurrency(8).lease(LONG).jobs_max(8);
    worker.run(&Stop::new(), |_| Outcome::Done).expect("a report");
    // The writer counts a group after it has answered it.
    let end = Instant::now() + LONG;
    while calls() - before < 9 && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(calls() - before, 9, "a claim, and eight acks");
}

#[test]
fn it_ends_after_so_many_jobs() {
    let scene = scene();
    scene.push(10);
    let worker = Worker::new(&scene.queue).concurrency(4).jobs_max(7);
    let report = worker.run(&Stop::new(), |_| Outcome::Done).expect("a report");
    assert_eq!((counts(&report), scene.count(JobState::Ready)), ([7, 7, 0, 0, 0, 0], 3));
}

#[test]
fn a_sleeping_worker_is_woken_by_jobs_and_by_the_wish_to_stop() {
    let scene = scene();
    let stop = Stop::new();
    let (done, was_done) = channel();
    std::thread::scope(|scope| {
        let (queue, stop) = (&scene.queue, &stop);
        let work = scope.spawn(move || {
            Worker::new(queue).concurrency(2).run(stop, |job| {
                done.send(job.id).expect("the test looks");
                Outcome::Done
            })
        });
        for _ in 0..20 {
            let id = scene.queue.push("x").expect("a job").id;
            assert_eq!(was_done.recv().expect("a job"), id);
        }
        stop.now();
        let report = work.join().expect("no panic").expect("a report");
        assert_eq!(counts(&report), [20, 20, 0, 0, 0, 0]);
    });
    let report = Worker::new(&scene.queue).run(&stop, |_| Outcome::Done).expect("a report");
    assert_eq!(counts(&report), [0; 6], "it was asked before");
}

#[test]
fn those_that_run_may_end_after_the_wish_to_stop() {
    let scene = scene();
    scene.push(2);
    let stop = Stop::new();
    let (hold, running, go_on) = held_up();
    let worker = Worker::new(&scene.queue);
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            worker.run(&stop, |job| {
                hold();
                assert!(job.is_stopping());
                Outcome::Done
            })
        });
        running.recv().expect("it runs");
        stop.now();
        go_on.send(()).expect("it waits");
        let report = work.join().expect("no panic").expect("a report");
        assert_eq!(counts(&report), [1, 1, 0, 0, 0, 0]);
    });
    assert_eq!(scene.count(JobState::Ready), 1);
}

#[test]
fn after_the_grace_jobs_are_given_back_and_answers_count_no_more() {
    let scene = scene();
    scene.push(1);
    let stop = Stop::new();
    let worker = Worker::new(&scene.queue).grace(Duration::ZERO);
    let report = worker.run(&stop, |job| {
        let (told, was_told) = channel();
        job.on_lease_lost(move || told.send(()).expect("it looks"));
        assert!(!job.lease_is_lost());
        stop.now();
        was_told.recv().expect("it is told");
        assert!(job.lease_is_lost());
        // Late, but at once.
        let (told, was_told) = channel();
        job.on_lease_lost(move || told.send(()).expect("it looks"));
        was_told.recv().expect("it is told");
        Outcome::Dead { reason: "too late".to_owned() }
    });
    assert_eq!(counts(&report.expect("a report")), [1, 0, 0, 0, 1, 0]);
    assert_eq!(scene.queue.claim().expect("a look").expect("a job").attempt, 1);
}

#[test]
fn leases_live_as_long_as_their_handlers() {
    let scene = scene();
    scene.push(2);
    let lease = Duration::from_millis(30);
    let lease_ends = || -> i64 {
        let reader = scene.writer.reader().expect("a reader");
        let sql = "SELECT min(due_at_ms) FROM leafpress_job WHERE state = 1";
        reader.query_row(sql, [], |row| row.get(0)).expect("leased jobs")
    };
    let worker = Worker::new(&scene.queue).concurrency(2).lease(lease).until_empty();
    let report = worker.run(&Stop::new(), |job| {
        // The clock of the queue goes on by hand, and the keeper's by itself: it
        // extends again and again, whatever the queue takes for the time.
        for _ in 0..3 {
            let before = lease_ends();
            scene.clock.advance_ms(1);
            while lease_ends() <= before {
                std::thread::yield_now();
            }
        }
        assert!(!job.lease_is_lost());
        Outcome::Done
    });
    assert_eq!(counts(&report.expect("a report")), [2, 2, 0, 0, 0, 0]);
}

#[test]
fn a_lease_that_is_lost_is_told_and_counted() {
    let scene = scene();
    scene.push(1);
    let lease = Duration::from_millis(30);
    let worker = Worker::new(&scene.queue).lease(lease).jobs_max(1);
    let report = worker.run(&Stop::new(), |job| {
        let (told, was_told) = channel();
        job.on_lease_lost(move || told.send(()).expect("it looks"));
        scene.clock.advance_ms(1_000_000);
        was_told.recv().expect("the keeper tells it");
        assert!(job.lease_is_lost());
        Outcome::Done
    });
    assert_eq!(counts(&report.expect("a report")), [1, 0, 0, 0, 0, 1]);
    let again = scene.queue.claim().expect("a look").expect("it comes again");
    assert_eq!(again.token.claim, 2);
}

/// A queue elsewhere with one job, whose lease is extended as the answers say, the last one again
/// and again.
#[derive(Debug)]
struct OneJob {
    is_claimed: AtomicBool,
    claim_began: OnceLock<Instant>,
    asked: AtomicU32,
    answers: Vec<fn() -> crate::Result<UnixTime>>,
}

impl OneJob {
    fn new(answers: &[fn() -> crate::Result<UnixTime>]) -> Arc<Self> {
        let (is_claimed, claim_began, asked) = Default::default();
        Arc::new(Self { is_claimed, claim_began, asked, answers: answers.to_vec() })
    }
}

impl QueueElsewhere for OneJob {
    fn lease(&self) -> crate::Result<Duration> {
        Ok(LONG)
    }

    fn claim_now(&self, _options: &ClaimOptions) -> crate::Result<Vec<Claim>> {
        let began = *self.claim_began.get_or_init(Instant::now);
        while Instant::now() <= began {
            std::thread::yield_now();
        }
        let is_first = !self.is_claimed.swap(true, Ordering::SeqCst);
        let token = Token { job: 1, claim: 1 };
        Ok(is_first
            .then(|| elsewhere::claim(token, Payload::Bytes(Vec::new())))
            .into_iter()
            .collect())
    }

    fn may_have_jobs(&self) -> crate::Result<bool> {
        Ok(false)
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(10)
    }

    fn ack(&self, _token: Token, _result: Option<Payload>) -> crate::Result<()> {
        Ok(())
    }

    fn nack(&self, _token: Token, _nack: Nack) -> crate::Result<Retry> {
        Ok(Retry::Dead)
    }

    fn fail(&self, _token: Token, _reason: &str) -> crate::Result<()> {
        Ok(())
    }

    fn release(&self, _token: Token) -> crate::Result<()> {
        Ok(())
    }

    fn extend_many(
        &self,
        _tokens: &[Token],
        _lease: Duration,
    ) -> crate::Result<Vec<crate::Result<UnixTime>>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst) as usize;
        let answer = self.answers[asked.min(self.answers.len() - 1)]();
        // An answer of the call, or of its one job.
        answer.map(|until| vec![Ok(until)])
    }
}

fn fails() -> crate::Result<UnixTime> {
    Err(Error::unsupported("the disk is gone"))
}

fn is_stopped() -> crate::Result<UnixTime> {
    Err(Error::stopped("it was closed"))
}

fn is_held() -> crate::Result<UnixTime> {
    let source = rusqlite::Error::QueryReturnedNoRows;
    Err(ErrorKind::Busy { waited: Duration::ZERO, source }.into())
}

/// The lease begins within the call, which may take long to commit.
#[test]
fn a_lease_counts_from_before_the_call_that_claims_the_job() {
    let queue = OneJob::new(&[is_held]);
    let worker = Worker::elsewhere(queue.clone()).jobs_max(1);
    let pool = Pool::new(&worker, LONG, &Stop::new());
    let outcome = pool.run(&|job: &JobContext| {
        let counts_from = pool.lock().running[&job.token].extended_at;
        let is_before = Some(&counts_from) <= queue.claim_began.get();
        if is_before { Outcome::Done } else { Outcome::Release }
    });
    let (report, failure) = outcome.expect("its threads start");
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!(counts(&report), [1, 1, 0, 0, 0, 0]);
}

/// The keeper asks with pauses, or not at all if that is useless, until the lease ends.
#[test]
fn a_lease_that_cannot_be_extended_ends_and_its_handler_is_told() {
    for (answer, asked_max) in [(fails as fn() -> _, 12), (is_stopped, 1), (is_held, 12)] {
        let queue = OneJob::new(&[answer]);
        let worker = Worker::elsewhere(queue.clone()).lease(Duration::from_millis(240));
        let report = worker.jobs_max(1).run(&Stop::new(), |job| {
            let (told, was_told) = channel();
            job.on_lease_lost(move || told.send(()).expect("it looks"));
            was_told.recv_timeout(Duration::from_secs(20)).expect("it is told");
            assert!(job.lease_is_lost());
            // Nothing is left to be asked for.
            let asked = queue.asked.load(Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(queue.asked.load(Ordering::SeqCst), asked);
            Outcome::Done
        });
        let asked = queue.asked.load(Ordering::SeqCst);
        assert!((1..=asked_max).contains(&asked), "{asked} calls");
        match report {
            Ok(report) => assert_eq!(counts(&report), [1, 0, 0, 0, 0, 1]),
            Err(error) => assert!(!matches!(error.kind(), ErrorKind::Busy { .. }), "{error}"),
        }
    }
}

/// The control: failures in between end nothing.
#[test]
fn a_lease_that_is_extended_after_a_failure_goes_on() {
    let queue = OneJob::new(&[is_held, is_held, || Ok(UnixTime::default())]);
    let lease = Duration::from_millis(600);
    let worker = Worker::elsewhere(queue.clone()).lease(lease).jobs_max(1);
    let report = worker.run(&Stop::new(), |job| {
        std::thread::sleep(2 * lease);
        assert!(!job.lease_is_lost());
        Outcome::Done
    });
    assert_eq!(counts(&report.expect("a report")), [1, 1, 0, 0, 0, 0]);
    let asked = queue.asked.load(Ordering::SeqCst);
    assert!((3..12).contains(&asked), "{asked} calls");
}

/// The call that extends the lease waits for a lock, as long as the test wants.
#[test]
fn a_handler_is_told_that_its_lease_ended_while_the_call_that_extends_it_waits() {
    static LOCKED: Mutex<()> = Mutex::new(());
    let held = LOCKED.lock().expect("no thread panicked");
    let queue = OneJob::new(&[|| {
        drop(LOCKED.lock());
        is_held()
    }]);
    let worker = Worker::elsewhere(queue).lease(Duration::from_millis(240)).jobs_max(1);
    std::thread::scope(|scope| {
        let (told, was_told) = channel();
        scope.spawn(move || {
            let report = worker.run(&Stop::new(), |job| {
                let (lost, was_lost) = channel();
                job.on_lease_lost(move || lost.send(()).expect("it looks"));
                let outcome = was_lost.recv_timeout(Duration::from_secs(60));
                told.send(outcome.is_ok()).expect("the test waits");
                Outcome::Done
            });
            assert_eq!(counts(&report.expect("a report")), [1, 0, 0, 0, 0, 1]);
        });
        // On a slow machine the lease has ended before the handler ran.
        let is_told = was_told.recv().unwrap_or(true);
        drop(held);
        assert!(is_told);
    });
}

#[test]
fn a_lease_without_an_end_is_a_very_long_one() {
    let scene = scene();
    scene.push(1);
    let worker = Worker::new(&scene.queue).lease(Duration::MAX).until_empty();
    let report = worker.run(&Stop::new(), |_| Outcome::Done).expect("a report");
    assert_eq!(counts(&report), [1, 1, 0, 0, 0, 0]);
}

#[test]
fn a_late_answer_is_counted_where_it_was_not_noticed_before() {
    let scene = scene();
    scene.push(1);
    let worker = Worker::new(&scene.queue).lease(LONG).jobs_max(1);
    let report = worker.run(&Stop::new(), |_| {
        scene.clock.advance_ms(2 * 3_600_000);
        Outcome::Done
    });
    assert_eq!(counts(&report.expect("a report")), [1, 0, 0, 0, 0, 1]);
}

#[test]
fn an_error_of_the_database_ends_it() {
    let scene = scene();
    scene.push(1);
    let writer = Arc::new(Mutex::new(Some(scene.writer.clone())));
    let worker = Worker::new(&scene.queue).concurrency(3).lease(LONG);
    let error = worker.run(&Stop::new(), |_| {
        let writer = writer.lock().expect("no thread panicked").take().expect("the first");
        writer.close().expect("it closes");
        Outcome::Done
    });
    let error = error.expect_err("no ack without a writer");
    assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
}

#[test]
fn a_number_of_handlers_that_makes_no_sense_is_refused() {
    let scene = scene();
    for handlers in [0, 1 << 20] {
        let worker = Worker::new(&scene.queue).concurrency(handlers);
        let error = worker.run(&Stop::new(), |_| Outcome::Done).expect_err("it is refused");
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    }
}

#[test]
fn handlers_may_be_async_and_wait_for_calls_of_the_writer() {
    let scene = scene();
    let done = Queue::open(&scene.writer, "done").expect("a queue");
    scene.push(20);
    let worker = Worker::new(&scene.queue).concurrency(3).until_empty();
    let handler = async |job: &JobContext| {
        let pushed = done.push_async(job.payload.clone()).await;
        if job.payload.as_bytes() == b"7" {
            return Outcome::Dead { reason: "seven".to_owned() };
        }
        pushed.map(drop).into()
    };
    let report = worker.run_async(&Stop::new(), handler).expect("a report");
    assert_eq!(counts(&report), [20, 19, 0, 1, 0, 0]);
    assert_eq!(scene.count(JobState::Ready), 20, "those of the other queue");
}

/// Waits until it is so; returns false if it does not come to that.
fn becomes_so(is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// A scene whose writer does not wait for other connections, and such a connection.
fn impatient_scene() -> (Scene, rusqlite::Connection) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.db");
    let writer = Writer::builder(&path)
        .profile(Profile::Relaxed)
        .busy_limit(Duration::ZERO)
        .open()
        .expect("a writer");
    let (clock, manual) = Clock::manual(1_000_000);
    let queue = Queue::builder(&writer, "test").clock(clock).open().expect("a queue");
    let other = rusqlite::Connection::open(&path).expect("another connection");
    (Scene { _folder: folder, writer, queue, clock: manual }, other)
}

#[test]
fn a_worker_does_not_spin_while_another_connection_holds_the_database() {
    let (scene, other) = impatient_scene();
    scene.push(1);
    other.execute_batch("BEGIN IMMEDIATE").expect("it holds the database");
    let calls = || scene.writer.stats().calls;
    let (before, stop) = (calls(), Stop::new());
    let worker = Worker::new(&scene.queue).lease(LONG);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| worker.run(&stop, |_| Outcome::Done));
        std::thread::sleep(Duration::from_millis(300));
        let asked = calls() - before;
        stop.now();
        let report = run.join().expect("no panic").expect("a report");
        assert!((1..20).contains(&asked), "{asked} claims");
        assert_eq!(counts(&report), [0; 6]);
    });
}

#[test]
fn jobs_are_given_back_once_the_database_is_free() {
    let (scene, other) = impatient_scene();
    scene.push(2);
    let (hold, running, go_on) = held_up();
    let stop = Stop::new();
    let worker = Worker::new(&scene.queue).concurrency(2).lease(LONG).grace(Duration::ZERO);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            worker.run(&stop, |_| {
                hold();
                Outcome::Done
            })
        });
        running.recv().expect("the first handler runs");
        // The second handler waits for the ends that the first one holds.
        let are_claimed = becomes_so(|| scene.count(JobState::Leased) == 2);
        other.execute_batch("BEGIN IMMEDIATE").expect("it holds the database");
        stop.now();
        std::thread::sleep(Duration::from_millis(50));
        other.execute_batch("COMMIT").expect("it is free");
        let are_given_back = becomes_so(|| scene.count(JobState::Leased) == 0);
        (0..2).for_each(|_| go_on.send(()).expect("the handlers wait"));
        let report = run.join().expect("no panic").expect("a report");
        assert!(are_claimed && are_given_back);
        assert_eq!(counts(&report), [2, 0, 0, 0, 2, 0]);
    });
}

/// The thread that extends leases tells it.
#[test]
fn a_callback_that_panics_as_a_lease_is_lost_does_not_end_the_other_leases() {
    let scene = scene();
    scene.push(2);
    let (told, was_told) = channel();
    let was_told = Mutex::new(was_told);
    let lease_end = || -> Option<i64> {
        let reader = scene.writer.reader().expect("a reader");
        let sql = "SELECT max(due_at_ms) FROM leafpress_job WHERE state = 1";
        reader.query_row(sql, [], |row| row.get(0)).expect("a maximum")
    };
    let worker = Worker::new(&scene.queue).concurrency(2).lease(Duration::from_millis(60));
    let report = worker.until_empty().run(&Stop::new(), |job| {
        if job.payload.as_bytes() == b"0" {
            let told = told.clone();
            job.on_lease_lost(move || {
                told.send(()).expect("it looks");
                panic!("a callback panics");
            });
            scene.queue.ack(job.token).expect("it is settled behind the worker's back");
            assert!(becomes_so(|| job.lease_is_lost()));
        } else {
            let was_told = was_told.lock().expect("no thread panicked");
            was_told.recv_timeout(Duration::from_secs(20)).expect("the first job is lost");
            for _ in 0..3 {
                let before = lease_end();
                scene.clock.advance_ms(1);
                assert!(becomes_so(|| lease_end() > before));
            }
            assert!(!job.lease_is_lost());
        }
        Outcome::Done
    });
    let report = report.expect("a report");
    assert_eq!((counts(&report), report.panicked), ([2, 1, 0, 0, 0, 1], 0));
}

#[test]
fn a_lease_under_a_millisecond_is_refused_before_a_job_is_claimed() {
    let scene = scene();
    scene.push(1);
    for lease in [Duration::ZERO, Duration::from_micros(999)] {
        let worker = Worker::new(&scene.queue).lease(lease).jobs_max(1);
        let error = worker.run(&Stop::new(), |_| panic!("no job is claimed")).expect_err("a lease");
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    }
    assert_eq!(scene.count(JobState::Ready), 1);
}

#[test]
fn a_job_may_wait_for_a_job_that_it_pushes_where_a_handler_is_idle() {
    let scene = scene();
    scene.push(1);
    let (child_ran, has_run) = channel();
    let has_run = Mutex::new(has_run);
    let worker = Worker::new(&scene.queue).concurrency(2).lease(LONG).until_empty();
    let report = worker.run(&Stop::new(), |job| {
        if job.payload.as_bytes() == b"child" {
            child_ran.send(()).expect("the parent waits");
            return Outcome::Done;
        }
        // The worker has found nothing for its idle handler by then.
        std::thread::sleep(Duration::from_millis(50));
        scene.queue.push("child").expect("a job");
        let has_run = has_run.lock().expect("no thread panicked");
        has_run.recv_timeout(Duration::from_secs(20)).expect("the child has run");
        Outcome::Done
    });
    let report = report.expect("a report");
    assert_eq!((counts(&report), report.panicked), ([2, 2, 0, 0, 0, 0], 0));
}
