//! Statistics against what was done, and against plain queries.

use std::time::Duration;

use proptest::prelude::*;

use super::super::tests::{Bench, bench, bench_with};
use super::*;
use crate::Profile;
use crate::queue::Queue;
use crate::queue::{Claim, ClaimOptions, Clock, Job, JobState, Nack, Purge, Retry, UniqueFor};
use crate::writer::Writer;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn stats(bench: &Bench) -> QueueStats {
    bench.queue.stats().expect("statistics")
}

#[test]
fn a_small_day() {
    let bench = bench_with(|settings| {
        settings.keep_done = Duration::from_secs(60);
        settings.concurrency = Some(9);
    });
    bench.push(Job::bytes("a").priority(1));
    bench.push(Job::bytes("b"));
    bench.push(Job::bytes("later").delay(Duration::from_secs(500)));
    bench.push(Job::bytes("1").group("g").unique("k", UniqueFor::Waiting));
    bench.push(Job::bytes("2").group("g"));
    assert!(!bench.queue.push(Job::bytes("3").unique("k", UniqueFor::Waiting)).expect("no").is_new);
    bench.clock.advance_ms(2_000);
    let claim = bench.claim();
    bench.clock.advance_ms(100);
    bench.queue.ack(claim.token).expect("it is ours");
    bench.claim();
    bench.clock.advance_ms(900);
    let now = stats(&bench);
    assert_eq!((now.queue.as_str(), now.now.as_ms(), now.is_paused), ("mail", 1_003_000, false));
    let jobs = JobCounts { ready: 1, leased: 1, delayed: 1, blocked: 1, done: 1, dead: 0 };
    assert_eq!((now.jobs, now.jobs.open(), now.groups_blocked), (jobs, 4, 1));
    assert_eq!((now.oldest_ready, now.oldest_lease), (Some(ms(3_000)), Some(ms(900))));
    assert_eq!(
        (now.next_lease_end.map(UnixTime::as_ms), now.next_due.map(UnixTime::as_ms)),
        (Some(1_032_100), Some(1_500_000))
    );
    assert_eq!((now.limits.concurrency, now.limits.group_concurrency), (Some(9), 1));
    let totals = Events { pushed: 5, duplicates: 1, claimed: 2, acked: 1, ..Events::default() };
    assert_eq!(now.totals, totals);
    assert_eq!(now.per_second_last_minute, totals.map(|number| number as f64 / 60.0));
    assert_eq!(now.per_second_last_hour, totals.map(|number| number as f64 / 3_600.0));
    assert_eq!((now.wait.count, now.wait.max, now.wait.sum), (2, ms(2_100), ms(4_100)));
    assert_eq!((now.run.count, now.run.max, now.attempts_per_ack), (1, ms(100), Some(1.0)));

    bench.clock.advance_ms(3_700_000);
    let later = stats(&bench);
    assert_eq!((later.totals, later.totals_wait.count), (totals, 2));
    assert_eq!((later.per_second_last_hour, later.wait.count), (Events::default(), 0));
    assert_eq!(later.attempts_per_ack, None);
}

#[test]
fn each_thing_that_happens_is_counted_once() {
    let bench = bench_with(|settings| settings.attempts_max = 2);
    bench.push(Job::bytes("x").expires_in(Duration::from_secs(100)));
    bench.queue.release(bench.claim().token).expect("it is ours");
    let nack = || Nack::new().delay(Duration::ZERO);
    assert_ne!(bench.queue.nack(bench.claim().token, nack()).expect("ours"), Retry::Dead);
    assert_eq!(bench.queue.nack(bench.claim().token, nack()).expect("ours"), Retry::Dead);
    bench.push(Job::bytes("slow"));
    bench.claim();
    bench.clock.advance_ms(30_000);
    bench.claim();
    bench.clock.advance_ms(30_000);
    bench.nothing();
    bench.push(Job::bytes("late").expires_in(Duration::from_millis(1)));
    bench.clock.advance_ms(1);
    bench.nothing();
    bench.push(Job::bytes("bad"));
    bench.queue.fail(bench.claim().token, "bad").expect("it is ours");
    let totals = Events {
        pushed: 4,
        claimed: 6,
        retried: 1,
        released: 1,
        lease_expired: 2,
        dead: 4,
        expired: 1,
        ..Events::default()
    };
    assert_eq!(stats(&bench).totals, totals);
}

#[test]
fn what_is_undone_is_not_counted() {
    let bench = bench();
    let queue = bench.queue.clone();
    let failed = bench.writer.transaction(move |tx| -> Result<()> {
        queue.push_in(tx, "undone")?;
        Err(crate::Error::aborted("no"))
    });
    failed.expect_err("it gave up");
    let queue = bench.queue.clone();
    bench
        .writer
        .transaction(move |tx| queue.push_in(tx, "kept").map(drop))
        .expect("it is committed");
    let job = || Job::bytes("x");
    bench.queue.push_many([job(), job()]).expect("pushed");
    assert_eq!(stats(&bench).totals.pushed, 3);
}

#[test]
fn pushes_on_connections_of_the_application_are_counted_with_their_transaction() {
    let bench = bench();
    let path = bench.folder.path().join("jobs.db");
    let connection = rusqlite::Connection::open(path).expect("a connection");
    for (end, wanted) in [("ROLLBACK", 0), ("COMMIT", 2)] {
        connection.execute_batch("BEGIN IMMEDIATE").expect("begun");
        let unique = || Job::bytes("x").unique("k", UniqueFor::Waiting);
        for job in [unique(), unique(), Job::bytes("y")] {
            Queue::push_on(&connection, "mail", job).expect("an answer");
        }
        connection.execute_batch(end).expect("ended");
        let totals = stats(&bench).totals;
        assert_eq!((totals.pushed, totals.duplicates), (wanted, wanted / 2));
    }
    bench.push(Job::bytes("from here"));
    let now = stats(&bench);
    assert_eq!(now.totals.pushed, 3);
    assert!(
        (now.per_second_last_minute.pushed * 60.0 - 3.0).abs() < 1e-9,
        "they are in the minute"
    );
}

#[test]
fn they_survive_closing_and_opening() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.db");
    for round in 1..4 {
        let writer = Writer::builder(&path).profile(Profile::Relaxed).open().expect("a writer");
        let queue = Queue::open(&writer, "mail").expect("a queue");
        for _ in 0..10 {
            queue.push("x").expect("pushed");
        }
        if round == 2 {
            // Without waiting for the calls either.
            for _ in 0..10 {
                drop(queue.submit_push("x").expect("submitted"));
            }
            writer.close().expect("closed");
        }
    }
    let writer = Writer::builder(&path).profile(Profile::Relaxed).open().expect("a writer");
    let counts = rusqlite::Connection::open(&path).expect("a connection").query_row(
        "SELECT (SELECT count(*) FROM leafpress_job),
             (SELECT json_extract(counts, '$.events.pushed') FROM leafpress_minute
              WHERE minute = -1)",
        [],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
    );
    assert_eq!(counts.expect("a row"), (40, 40), "all was written");
    let queue = Queue::open(&writer, "mail").expect("a queue");
    assert_eq!(queue.stats().expect("statistics").totals.pushed, 40);
}

#[test]
fn several_writers_add_up() {
    let bench = bench();
    let path = bench.folder.path().join("jobs.db");
    let open = || {
        let writer = Writer::builder(&path).profile(Profile::Relaxed).open().expect("a writer");
        let (clock, manual) = Clock::manual(1_000_000);
        let queue = Queue::builder(&writer, "mail").clock(clock).open().expect("a queue");
        (queue, manual)
    };
    let (other, other_clock) = open();
    for _ in 0..3 {
        bench.push(Job::bytes("x"));
        let claim = other.claim().expect("no error").expect("a job");
        other.ack(claim.token).expect("it is ours");
        bench.clock.advance_ms(1_000);
        other_clock.advance_ms(1_000);
    }
    let totals = Events { pushed: 3, claimed: 3, acked: 3, ..Events::default() };
    let (own, others) = (stats(&bench), other.stats().expect("statistics"));
    assert_eq!((own.totals.pushed, others.totals), (3, totals));
    // The other process has written its counts by now.
    let all = stats(&bench);
    assert_eq!((all.totals, all.wait.count, all.run.count), (totals, 3, 3));
}

#[test]
fn prometheus_is_told_all_of_it() {
    let bench = bench();
    bench.push(Job::bytes("x"));
    bench.push(Job::bytes("y"));
    bench.clock.advance_ms(1_500);
    let token = bench.claim().token;
    bench.clock.advance_ms(4);
    bench.queue.ack(token).expect("it is ours");
    let text = stats(&bench).to_prometheus(&[("state", "a \"b\""), ("queue", "z")]);
    let labels = "exported_state=\"a \\\"b\\\"\",exported_queue=\"z\",queue=\"mail\"";
    for (name, own, value) in [
        ("jobs", ",state=\"ready\"", "1"),
        ("jobs", ",state=\"dead\"", "0"),
        ("oldest_ready_seconds", "", "1.504"),
        ("paused", "", "0"),
        ("pushed_total", "", "2"),
        ("acked_total", "", "1"),
        ("wait_seconds_bucket", ",le=\"1\"", "0"),
        ("wait_seconds_bucket", ",le=\"5\"", "1"),
        ("wait_seconds_sum", "", "1.5"),
        ("run_seconds_bucket", ",le=\"0.005\"", "1"),
        ("run_seconds_count", "", "1"),
    ] {
        let line = format!("\nleafpress_queue_{name}{{{labels}{own}}} {value}\n");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    let of_kind = |kind: &str| text.matches(&format!(" {kind}\n")).count();
    assert_eq!((of_kind("counter"), of_kind("gauge"), of_kind("histogram")), (9, 5, 2));
    assert!(bench.queue.prometheus().expect("a text").contains("leafpress_queue_paused{queue="));
}

/// Something that is done to a queue.
#[derive(Debug, Clone)]
enum Step {
    Push { group: Option<u8>, key: Option<u8>, priority: i32, delay_ms: u64, is_undone: bool },
    Claim { jobs: usize },
    Settle { claim: prop::sample::Index, how: u8 },
    Retry(prop::sample::Index),
    Remove(prop::sample::Index),
    Purge { state: usize, limit: u64 },
    Wait { ms: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let push = (
        prop::option::of(0..3_u8),
        prop::option::of(0..4_u8),
        -2..3_i32,
        prop::sample::select(vec![0_u64, 0, 0, 40]),
        prop::bool::weighted(0.1),
    );
    prop_oneof![
        6 => push.prop_map(|(group, key, priority, delay_ms, is_undone)| {
            Step::Push { group, key, priority, delay_ms, is_undone }
        }),
        4 => (1..4_usize).prop_map(|jobs| Step::Claim { jobs }),
        4 => (any::<prop::sample::Index>(), 0..6_u8)
            .prop_map(|(claim, how)| Step::Settle { claim, how }),
        1 => any::<prop::sample::Index>().prop_map(Step::Retry),
        1 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (0..6_usize, 0..3_u64).prop_map(|(state, limit)| Step::Purge { state, limit }),
        2 => (1..700_i64).prop_map(|ms| Step::Wait { ms }),
    ]
}

/// A queue, and what this test has counted itself.
struct Run {
    bench: Bench,
    claims: Vec<Claim>,
    last_id: i64,
    counted: Events<u64>,
}

impl Run {
    fn take(&mut self, step: &Step) {
        let queue = &self.bench.queue;
        match step.clone() {
            Step::Push { group, key, priority, delay_ms, is_undone } => {
                let mut job =
                    Job::bytes("x").priority(priority).delay(Duration::from_millis(delay_ms));
                if let Some(group) = group {
                    job = job.group(group.to_string());
                }
                if let Some(key) = key {
                    job = job.unique(key.to_string(), UniqueFor::WaitingOrRunning);
                }
                if is_undone {
                    let queue = queue.clone();
                    let undone = self.bench.writer.transaction(move |tx| -> Result<()> {
                        queue.push_in(tx, job.clone())?;
                        Err(crate::Error::aborted("undone"))
                    });
                    undone.expect_err("it gives up");
                    return;
                }
                let pushed = queue.push(job).expect("an answer");
                self.counted.pushed += u64::from(pushed.is_new);
                self.counted.duplicates += u64::from(!pushed.is_new);
                self.last_id = self.last_id.max(pushed.id);
            }
            Step::Claim { jobs } => {
                let claims = queue.claim_with(&ClaimOptions::new().jobs_max(jobs));
                let claims = claims.expect("no error");
                self.counted.claimed += claims.len() as u64;
                self.claims.extend(claims);
            }
            Step::Settle { claim, how } => self.settle(claim, how),
            Step::Retry(id) => {
                queue.retry(id.index(self.last_id as usize + 1) as i64).expect("no error");
            }
            Step::Remove(id) => {
                queue.remove(id.index(self.last_id as usize + 1) as i64).expect("no error");
            }
            Step::Purge { state, limit } => {
                let purge = Purge::new().states([JobState::ALL[state]]).limit(limit);
                assert!(queue.purge(&purge).expect("no error") <= limit);
            }
            Step::Wait { ms } => self.bench.clock.advance_ms(ms),
        }
    }

    fn settle(&mut self, claim: prop::sample::Index, how: u8) {
        if self.claims.is_empty() {
            return;
        }
        let claim = self.claims.swap_remove(claim.index(self.claims.len()));
        let (queue, counted) = (&self.bench.queue, &mut self.counted);
        // Some of them come too late, and count nothing.
        match how {
            0..3 => counted.acked += u64::from(queue.ack(claim.token).is_ok()),
            3 => match queue.nack(claim.token, Nack::new()) {
                Ok(Retry::Dead) => counted.dead += 1,
                Ok(Retry::At { .. }) => counted.retried += 1,
                Err(_) => {}
            },
            4 => counted.dead += u64::from(queue.fail(claim.token, "no").is_ok()),
            _ => counted.released += u64::from(queue.release(claim.token).is_ok()),
        }
    }

    fn check(&self) {
        let now = stats(&self.bench);
        for ((state, count), number) in now.jobs.named().into_iter().zip(0..) {
            let sql = format!("SELECT count(*) FROM leafpress_job WHERE +state = {number}");
            assert_eq!(count as i64, self.bench.count(&sql), "{state}");
        }
        let groups = "SELECT count(DISTINCT +ordering_group) FROM leafpress_job WHERE +state = 3";
        assert_eq!(now.groups_blocked as i64, self.bench.count(groups));
        let oldest = "SELECT coalesce((SELECT due_at_ms FROM leafpress_job NOT INDEXED
             WHERE state = 0 ORDER BY id LIMIT 1), -1)";
        let since_ms = self.bench.count(oldest);
        let age_ms = (since_ms >= 0).then(|| (now.now.as_ms() - since_ms) as u64);
        assert_eq!(now.oldest_ready, age_ms.map(ms));
        // Only a claim's due changes tell which leases ended, and which of them were the last.
        let mut counted = self.counted;
        counted.lease_expired = now.totals.lease_expired;
        assert!(now.totals.dead >= counted.dead, "{:?}", now.totals);
        assert!(now.totals.dead <= counted.dead + counted.lease_expired, "{:?}", now.totals);
        counted.dead = now.totals.dead;
        assert_eq!(now.totals, counted);
        assert_eq!(now.totals_wait.count, counted.claimed);
        assert_eq!(now.totals_run.count, counted.acked);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_are_the_truth_after_whatever_was_done(
        steps in prop::collection::vec(step(), 1..80),
        look_every in 1..30_usize,
    ) {
        let bench = bench_with(|settings| {
            settings.lease = Duration::from_millis(400);
            settings.attempts_max = 2;
            settings.keep_done = Duration::from_millis(900);
        });
        let counted = Events::default();
        let mut run = Run { bench, claims: Vec::new(), last_id: 0, counted };
        for (number, step) in steps.into_iter().enumerate() {
            run.take(&step);
            if number % look_every == 0 {
                run.check();
            }
        }
        run.check();
    }
}

#[test]
fn a_push_outside_that_ends_the_holder_of_its_key_counts_that() {
    let bench = bench();
    let job = || Job::bytes("x").unique("k", UniqueFor::WaitingOrRunning);
    // The pushing connection has the system's clock, which is ahead of the test's.
    bench.push(job().attempts_max(1));
    bench.claim();
    let path = bench.folder.path().join("jobs.db");
    let connection = rusqlite::Connection::open(path).expect("a connection");
    connection.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
    assert!(Queue::push_on(&connection, "mail", job()).expect("an answer").is_new);
    connection.execute_batch("COMMIT").expect("committed");
    let totals = stats(&bench).totals;
    assert_eq!((totals.pushed, totals.lease_expired, totals.dead), (2, 1, 1));
}

#[test]
fn a_job_that_is_given_back_too_late_is_not_counted_as_given_back() {
    let bench = bench();
    for _ in 0..2 {
        bench.push(Job::bytes("late").expires_in(Duration::from_secs(5)));
    }
    let (first, second) = (bench.claim(), bench.claim());
    bench.clock.advance_ms(5_000);
    assert_eq!(bench.queue.nack(first.token, Nack::new()).expect("it is ours"), Retry::Dead);
    bench.queue.release(second.token).expect("it is ours");
    let totals = stats(&bench).totals;
    let counted = (totals.retried, totals.released, totals.dead, totals.expired);
    assert_eq!(counted, (0, 0, 2, 2));
}

/// The writer's last call adds the statistics.
#[test]
fn closing_without_time_refuses_no_call_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let writer = Writer::builder(folder.path().join("jobs.db")).open().expect("a writer");
    let queue = Queue::open(&writer, "test").expect("a queue");
    for _ in 0..2 {
        queue.push("x").expect("pushed");
    }
    writer.close_timeout(Duration::ZERO).expect("no caller had a call");
}
