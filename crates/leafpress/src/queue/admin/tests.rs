//! Calls of operators on queues, by the public interface.

use std::time::Duration;

use super::super::tests::{Bench, bench, bench_with, why};
use super::*;
use crate::queue::{ClaimOptions, Job, LeaseLost, ListOptions, Nack, UniqueFor};

/// Pushes jobs and makes dead letters of them.
fn dead(bench: &Bench, jobs: usize) -> Vec<i64> {
    let made: Vec<Job> = (0..jobs).map(|_| Job::bytes("dead")).collect();
    bench.queue.push_many(made).expect("pushed");
    let claims = bench.queue.claim_with(&ClaimOptions::new().jobs_max(jobs)).expect("claims");
    assert_eq!(claims.len(), jobs);
    for claim in &claims {
        bench.queue.fail(claim.token, "hopeless").expect("it is ours");
    }
    claims.iter().map(|claim| claim.id).collect()
}

fn in_state(bench: &Bench, state: JobState) -> i64 {
    let number = state.number();
    bench.count(&format!("SELECT count(*) FROM leafpress_job WHERE state = {number}"))
}

#[test]
fn a_dead_letter_begins_anew_under_its_id() {
    let bench = bench();
    let id = bench.push(Job::bytes("x").attempts_max(1));
    bench.queue.nack(bench.claim().token, Nack::new().error("no")).expect("it is ours");
    bench.clock.advance_ms(10);
    assert!(bench.queue.retry(id).expect("no error"));
    assert!(!bench.queue.retry(id).expect("no error"), "it is ready");
    assert!(!bench.queue.retry(99).expect("no error"), "it is not there");
    let claim = bench.claim();
    assert_eq!((claim.id, claim.attempt, claim.token.claim), (id, 1, 2));
    assert_eq!(bench.queue.history(id).expect("attempts").len(), 2);
}

#[test]
fn a_retry_keeps_to_its_group_and_forgets_an_expiry_that_is_over() {
    let bench = bench();
    let first = bench.push(Job::bytes("1").group("g").expires_in(Duration::from_millis(5)));
    let second = bench.push(Job::bytes("2").group("g"));
    bench.clock.advance_ms(5);
    let claim = bench.claim();
    assert_eq!(claim.id, second, "the first has expired");
    assert!(bench.queue.retry(first).expect("no error"));
    let info = bench.queue.job(first).expect("no error").expect("a job");
    assert_eq!((info.state, info.expires_at), (JobState::Blocked, None));
    bench.queue.ack(claim.token).expect("it is ours");
    assert_eq!(bench.claim().id, first);
}

#[test]
fn a_retry_goes_without_a_key_that_is_taken() {
    let bench = bench();
    let job = || Job::bytes("x").unique("k", UniqueFor::WaitingOrRunning);
    let first = bench.push(job());
    bench.queue.fail(bench.claim().token, "no").expect("it is ours");
    let second = bench.push(job());
    assert!(bench.queue.retry(first).expect("no error"));
    let holder = bench.queue.push(job()).expect("an answer");
    assert_eq!((holder.id, holder.is_new), (second, false));
    // The first ends without taking the second one's key away.
    let claim = bench.claim();
    assert_eq!(claim.id, first);
    bench.queue.ack(claim.token).expect("it is ours");
    assert_eq!(bench.queue.push(job()).expect("an answer").id, second);
}

#[test]
fn all_dead_letters_are_retried_in_batches() {
    let bench = bench();
    dead(&bench, 1_201);
    assert_eq!(bench.queue.retry_dead(Some(0)).expect("no error"), 0);
    assert_eq!(bench.queue.retry_dead(Some(700)).expect("no error"), 700);
    assert_eq!(in_state(&bench, JobState::Dead), 501);
    assert_eq!(bench.queue.retry_dead(None).expect("no error"), 501);
    assert_eq!(bench.queue.retry_dead(None).expect("no error"), 0);
    assert_eq!(in_state(&bench, JobState::Ready), 1_201);
}

#[test]
fn what_is_removed_frees_its_slot_and_its_key() {
    let bench = bench_with(|settings| settings.keep_done = Duration::from_secs(60));
    let unique = |text: &str| Job::bytes(text).unique(text, UniqueFor::WaitingOrRunning);
    let leased = bench.push(unique("leased").group("g"));
    let blocked = bench.push(unique("blocked").group("g"));
    let last = bench.push(unique("last").group("g"));
    let token = bench.claim().token;
    for id in [blocked, leased] {
        assert!(bench.queue.remove(id).expect("no error"));
        assert!(!bench.queue.remove(id).expect("no error"), "it is gone");
    }
    assert_eq!(why(bench.queue.ack(token)), LeaseLost::Settled);
    bench.push(unique("leased"));
    bench.push(unique("blocked"));
    let claim = bench.claim();
    assert_eq!(claim.id, last, "the slot is free");
    bench.queue.ack(claim.token).expect("it is ours");
    assert!(bench.queue.remove(last).expect("no error"), "it was done");
    let other = Queue::open(&bench.writer, "other").expect("a queue");
    let foreign = other.push("x").expect("pushed").id;
    assert!(!bench.queue.remove(foreign).expect("no error"), "it is another queue's");
    assert!(other.job(foreign).expect("no error").is_some());
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_key"), 2);
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_attempt"), 0);
}

#[test]
fn a_purge_takes_what_it_was_told_to() {
    let bench = bench_with(|settings| settings.keep_done = Duration::from_secs(60));
    dead(&bench, 3);
    bench.push(Job::bytes("done"));
    bench.queue.ack(bench.claim().token).expect("it is ours");
    bench.clock.advance_ms(1_000);
    dead(&bench, 600);
    bench.push(Job::bytes("ready"));
    let old = Purge::new().older_than(Duration::from_millis(999));
    assert_eq!(bench.queue.purge(&old).expect("no error"), 4);
    assert_eq!(bench.queue.purge(&old).expect("no error"), 0);
    assert_eq!(bench.queue.purge(&Purge::new().limit(599)).expect("no error"), 599);
    let states = |state| Purge::new().states([state]);
    assert_eq!(bench.queue.purge(&states(JobState::Done)).expect("no error"), 0);
    assert_eq!(bench.queue.purge(&states(JobState::Dead)).expect("no error"), 1);
    let ready = states(JobState::Ready).older_than(Duration::from_millis(1));
    assert_eq!(bench.queue.purge(&ready).expect("no error"), 0);
    bench.clock.advance_ms(2);
    assert_eq!(bench.queue.purge(&ready).expect("no error"), 1);
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_job"), 0);
}

#[test]
fn a_purge_of_ready_jobs_leaves_those_that_it_makes_ready() {
    let bench = bench();
    let ids: Vec<i64> = (0..5).map(|_| bench.push(Job::bytes("x").group("g"))).collect();
    let purge = |states: &[JobState]| {
        bench.queue.purge(&Purge::new().states(states.iter().copied())).expect("no error")
    };
    assert_eq!(purge(&[JobState::Ready]), 1);
    assert_eq!(bench.claim().id, ids[1]);
    assert_eq!(purge(&[JobState::Leased, JobState::Blocked]), 4);
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_job"), 0);
}

#[test]
fn a_purge_of_many_jobs_takes_those_that_were_there_and_no_others() {
    for (state, delay) in
        [(JobState::Ready, Duration::ZERO), (JobState::Delayed, Duration::from_secs(60))]
    {
        let bench = bench();
        let (mut heads, mut followers) = (Vec::new(), Vec::new());
        for group in 0..BATCH + 100 {
            for ids in [&mut heads, &mut followers] {
                ids.push(bench.push(Job::bytes("x").group(format!("g{group}")).delay(delay)));
            }
        }
        let purge = Purge::new().states([state]);
        assert_eq!(bench.queue.purge(&purge.clone().limit(1)).expect("no error"), 1);
        let left = heads.split_off(1);
        assert_eq!(heads.len(), 1);
        // The first head is gone, so that its follower is in this state now.
        followers.remove(0);
        assert_eq!(bench.queue.purge(&purge).expect("no error"), left.len() as u64 + 1);
        let list = ListOptions::new().limit(usize::MAX);
        let jobs = bench.queue.list(&list).expect("a list");
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), followers);
        assert!(jobs.iter().all(|job| job.state == state));
    }
}

#[test]
fn a_queue_that_is_paused_takes_jobs_and_gives_none() {
    let bench = bench();
    bench.push(Job::bytes("before"));
    let token = bench.claim().token;
    bench.queue.pause().expect("paused");
    bench.queue.pause().expect("it is already");
    let id = bench.push(Job::bytes("while"));
    bench.nothing();
    bench.queue.ack(token).expect("what is claimed may be acked");
    assert!(bench.queue.stats().expect("stats").is_paused);
    let queue = bench.queue.clone();
    let waiting = std::thread::spawn(move || {
        queue.claim_with(&ClaimOptions::new().wait(Duration::MAX)).expect("claims")
    });
    bench.queue.resume().expect("it goes on");
    assert_eq!(waiting.join().expect("no panic")[0].id, id);
}

#[test]
fn a_queue_that_is_dropped_is_gone_with_all_that_was_in_it() {
    let bench = bench();
    dead(&bench, 501);
    for number in 0..5 {
        let unique = UniqueFor::Time(Duration::from_secs(60));
        let key = format!("key {number}");
        bench.push(Job::bytes("x").group("g").delay(Duration::from_secs(1)).unique(key, unique));
    }
    let other = Queue::open(&bench.writer, "other").expect("a queue");
    other.push("kept").expect("pushed");
    let handle = bench.queue.clone();
    assert_eq!(bench.queue.clone().drop_queue().expect("dropped"), 506);
    for table in ["job", "queue"] {
        let left = bench.count(&format!("SELECT count(*) FROM leafpress_{table}"));
        assert_eq!(left, 1, "{table}");
    }
    for table in ["key", "attempt", "schedule", "rate"] {
        let left = bench.count(&format!("SELECT count(*) FROM leafpress_{table}"));
        assert_eq!(left, 0, "{table}");
    }
    let anew = Queue::open(&bench.writer, "another").expect("a queue");
    let error = handle.push("x").expect_err("it is gone").to_string();
    assert!(error.contains("dropped"), "{error}");
    for error in [handle.stats().map(drop), handle.pause(), handle.clone().drop_queue().map(drop)] {
        assert!(error.expect_err("it is gone").to_string().contains("dropped"));
    }
    assert_eq!(anew.stats().expect("stats").jobs.open(), 0, "ids of queues are not given again");
    assert_eq!(super::super::names(&bench.writer).expect("names"), ["another", "other"]);
}

#[test]
fn what_was_done_before_an_error_is_counted_and_stays() {
    let bench = bench();
    let ids = dead(&bench, 1_201);
    // SQLite refuses a job of the second batch.
    let refused = ids[700];
    let refuse = format!(
        "CREATE TRIGGER refuse BEFORE DELETE ON leafpress_job WHEN old.id = {refused}
         BEGIN SELECT raise(ABORT, 'no'); END;
         CREATE TRIGGER refuse_too BEFORE UPDATE ON leafpress_job WHEN old.id = {refused}
         BEGIN SELECT raise(ABORT, 'no'); END"
    );
    bench.writer.execute_batch(&*refuse).expect("two triggers");
    let (mut removed, mut retried) = (0, Affected::default());
    let purged = bench.queue.purge_counted(&Purge::new(), &mut removed).expect_err("refused");
    assert_eq!((removed, in_state(&bench, JobState::Dead)), (500, 701));
    let state = purged.state_on_disk().expect("a state");
    assert!(state.starts_with("what was done before it stays"), "{state}");
    bench.queue.retry_dead_counted(&mut retried).expect_err("refused in the first batch");
    assert_eq!((retried.jobs, in_state(&bench, JobState::Dead)), (0, 701));
}

#[test]
fn a_retry_gets_its_key_from_a_job_that_is_over() {
    let bench = bench();
    let job = || Job::bytes("x").unique("k", UniqueFor::WaitingOrRunning);
    let first = bench.push(job());
    bench.queue.fail(bench.claim().token, "no").expect("it is ours");
    let second = bench.push(job().expires_in(Duration::from_millis(5)));
    bench.clock.advance_ms(5);
    let retried = bench.queue.retry_counted(first).expect("no error");
    assert_eq!(retried, Affected { jobs: 1, without_key: 0 });
    let info = bench.queue.job(second).expect("no error").expect("a job");
    assert_eq!(info.state, JobState::Dead);
    assert_eq!(bench.queue.push(job()).expect("an answer").id, first);
}

#[test]
fn steps_end_though_more_jobs_come_with_each() {
    let bench = bench();
    let queue = &bench.queue;
    queue.push_many((0..3).map(|_| Job::bytes("x"))).expect("pushed");
    let mut done = Affected::default();
    let step = |after: i64, _| {
        bench.push(Job::bytes("more"));
        queue.call(move |work, _| {
            let (more_after, newest) = (Some(after.max(0) + 1), newest(work)?);
            Ok(Step { jobs: 1, without_key: 0, more_after, newest })
        })
    };
    now(in_steps(Caller::Thread, 100, &mut done, step)).expect("no error");
    assert_eq!(done.jobs, 4, "the jobs that were there in the first step");
}

#[test]
fn a_queue_is_dropped_while_a_producer_pushes_more_than_a_batch_at_a_time() {
    let bench = bench();
    std::thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let jobs = || (0..BATCH + 100).map(|_| Job::bytes("x"));
            (0..60).any(|_| bench.queue.push_many(jobs()).is_err())
        });
        while bench.count("SELECT count(*) FROM leafpress_job") == 0 {
            std::thread::yield_now();
        }
        bench.queue.clone().drop_queue().expect("dropped");
        assert!(producer.join().expect("no panic"), "it was dropped only once no more came");
    });
}

#[test]
fn a_failure_after_a_part_is_not_one_after_which_nothing_was_done() {
    let busy = || {
        let source = rusqlite::Error::QueryReturnedNoRows;
        Error::from(ErrorKind::Busy { waited: Duration::ZERO, source })
    };
    assert!(after_a_part(busy(), 0).is_retryable());
    assert!(!after_a_part(busy(), 500).is_retryable());
}
