//! The queue by its public calls, small examples of each promise. What random
//! sequences do is in `tests/queue_model`.

use std::time::Duration;

use super::worker::block_on::block_on;
use super::*;
use crate::{ErrorKind, Profile};

pub(super) struct Bench {
    pub(super) folder: tempfile::TempDir,
    pub(super) writer: Writer,
    pub(super) queue: Queue,
    pub(super) clock: ManualClock,
}

pub(super) fn bench_with(settings: impl FnMut(&mut Settings) + Send + 'static) -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.db");
    let writer = Writer::builder(path).profile(Profile::Relaxed).open().expect("a writer");
    let (clock, manual) = Clock::manual(1_000_000);
    let queue = Queue::builder(&writer, "mail").settings(settings).clock(clock).open();
    Bench { folder, writer, queue: queue.expect("a queue"), clock: manual }
}

pub(super) fn bench() -> Bench {
    bench_with(|_| {})
}

impl Bench {
    /// This queue, opened anew by another writer.
    fn reopened(self) -> Self {
        let Self { folder, writer, queue, clock } = self;
        drop(queue);
        writer.close().expect("it closes");
        let path = folder.path().join("jobs.db");
        let writer = Writer::builder(path).profile(Profile::Relaxed).open().expect("a writer");
        let (anew, manual) = Clock::manual(clock.now_ms());
        let queue = Queue::builder(&writer, "mail").clock(anew).open().expect("the queue");
        Self { folder, writer, queue, clock: manual }
    }

    pub(super) fn claim(&self) -> Claim {
        self.queue.claim().expect("no error").expect("a job")
    }

    pub(super) fn nothing(&self) {
        assert_eq!(self.queue.claim().expect("no error"), None);
    }

    pub(super) fn push(&self, job: Job) -> i64 {
        let pushed = self.queue.push(job).expect("it goes in");
        assert!(pushed.is_new);
        pushed.id
    }

    pub(super) fn count(&self, sql: &str) -> i64 {
        let sql = sql.to_owned();
        let row = self.writer.transaction(move |tx| tx.query_row(&sql, [], |row| row.get(0)));
        row.expect("a query").expect("a row")
    }
}

pub(super) fn why<T: fmt::Debug>(outcome: Result<T>) -> LeaseLost {
    match outcome.expect_err("the token is no good").kind() {
        ErrorKind::LeaseLost { why, .. } => *why,
        other => panic!("another error: {other:?}"),
    }
}

#[test]
fn jobs_come_by_priority_then_in_order_and_go_with_their_ack() {
    let bench = bench();
    let low = bench.push(Job::bytes("low").priority(-1));
    let first = bench.push(Job::bytes("first"));
    let second = bench.push(Job::bytes("second"));
    let high = bench.push(Job::bytes("high").priority(9));
    for id in [high, first, second, low] {
        let claim = bench.claim();
        assert_eq!((claim.id, claim.attempt, claim.attempts_max), (id, 1, 5));
        bench.queue.ack(claim.token).expect("it is ours");
        assert_eq!(why(bench.queue.ack(claim.token)), LeaseLost::Settled);
    }
    bench.nothing();
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_job"), 0);
    assert!(bench.push(Job::bytes("new")) > high, "ids are not given again");
}

#[test]
fn a_lease_that_ended_gives_the_job_to_others_and_tells_late_acks_apart() {
    let bench = bench();
    bench.push(Job::bytes("slow"));
    let first = bench.claim();
    bench.nothing();
    bench.clock.advance_ms(29_999);
    let until_ms = bench.queue.extend(first.token, Duration::from_secs(30)).expect("it is ours");
    assert_eq!(until_ms.as_ms(), bench.clock.now_ms() + 30_000);
    bench.clock.advance_ms(30_000);
    assert_eq!(why(bench.queue.ack(first.token)), LeaseLost::Expired);
    let second = bench.claim();
    assert_eq!((second.id, second.attempt), (first.id, 2));
    assert_eq!(why(bench.queue.ack(first.token)), LeaseLost::ClaimedAgain);
    bench.queue.release(second.token).expect("it is ours");
    assert_eq!(why(bench.queue.nack(second.token, Nack::new())), LeaseLost::GivenBack);
    let third = bench.claim();
    assert_eq!(third.attempt, 2, "a release is no attempt");
    bench.queue.ack(third.token).expect("it is ours");
    assert_eq!(why(bench.queue.extend(third.token, Duration::from_secs(1))), LeaseLost::Settled);
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_attempt"), 0);
}

#[test]
fn attempts_back_off_and_end_in_a_dead_letter() {
    let bench = bench_with(|settings| {
        settings.attempts_max = 2;
        settings.backoff.jitter = 0.0;
    });
    let id = bench.push(Job::bytes("bad"));
    let claim = bench.claim();
    let retry = bench.queue.nack(claim.token, Nack::new().error("no route")).expect("it is ours");
    assert_eq!(retry, Retry::At { due_at: UnixTime::from_ms(bench.clock.now_ms() + 1_000) });
    bench.nothing();
    bench.clock.advance_ms(1_000);
    let claim = bench.claim();
    assert_eq!(bench.queue.nack(claim.token, Nack::new()).expect("it is ours"), Retry::Dead);
    bench.nothing();
    assert_eq!(bench.count("SELECT state FROM leafpress_job"), JobState::Dead.number());
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_attempt"), 2);
    assert_eq!(why(bench.queue.ack(Token { job: id, claim: 2 })), LeaseLost::Settled);
}

#[test]
fn a_group_runs_in_order_one_at_a_time() {
    let bench = bench();
    let job = |text: &str| Job::bytes(text).group("customer");
    let (first, second) = (bench.push(job("1")), bench.push(job("2").priority(9)));
    let other = bench.push(Job::bytes("other").group("another"));
    let claims = bench.queue.claim_with(&ClaimOptions::new().jobs_max(9)).expect("no error");
    assert_eq!(claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [first, other]);
    bench.queue.nack(claims[0].token, Nack::new().delay(Duration::from_secs(5))).expect("ours");
    bench.nothing();
    bench.clock.advance_ms(5_000);
    let again = bench.claim();
    assert_eq!(again.id, first, "a job that is tried again keeps its place");
    bench.queue.fail(again.token, "hopeless").expect("it is ours");
    assert_eq!(bench.claim().id, second, "a dead letter holds up no other job");
}

#[test]
fn unique_keys_are_held_as_long_as_their_scope_says() {
    let bench = bench();
    let waiting = || Job::bytes("w").unique("w", UniqueFor::Waiting);
    let first = bench.push(waiting());
    let again = bench.queue.push(waiting()).expect("no error");
    assert_eq!(again, Pushed { id: first, is_new: false });
    let claim = bench.claim();
    let second = bench.push(waiting());
    bench
        .queue
        .release(claim.token)
        .expect("the key is taken, and the job comes back all the same");
    let claims = bench.queue.claim_with(&ClaimOptions::new().jobs_max(2)).expect("no error");
    assert_eq!(claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [first, second]);

    let running = || Job::bytes("r").unique("r", UniqueFor::WaitingOrRunning);
    bench.push(running());
    let claim = bench.claim();
    assert!(!bench.queue.push(running()).expect("no error").is_new);
    bench.queue.ack(claim.token).expect("it is ours");
    bench.push(running());

    let timed = || Job::bytes("t").unique("t", UniqueFor::Time(Duration::from_secs(60)));
    let id = bench.push(timed().priority(1));
    let claim = bench.claim();
    bench.queue.ack(claim.token).expect("it is ours");
    assert_eq!(bench.queue.push(timed()).expect("no error"), Pushed { id, is_new: false });
    bench.clock.advance_ms(60_000);
    bench.push(timed());
}

#[test]
fn a_job_exists_exactly_if_its_row_does() {
    let bench = bench();
    bench.writer.execute_batch("CREATE TABLE customer(name TEXT)").expect("a table");
    for is_good in [false, true] {
        let queue = bench.queue.clone();
        let outcome = bench.writer.transaction(move |tx| {
            tx.execute("INSERT INTO customer VALUES (?1)", ["Ann"])?;
            queue.push_in(tx, "welcome")?;
            if is_good { Ok(()) } else { Err(Error::aborted("thought better of it")) }
        });
        assert_eq!(outcome.is_ok(), is_good);
        let jobs = bench.count("SELECT count(*) FROM leafpress_job");
        assert_eq!(
            (jobs, bench.count("SELECT count(*) FROM customer")),
            (i64::from(is_good), jobs)
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let other = Writer::builder(folder.path().join("other.db")).open().expect("a writer");
    let queue = bench.queue.clone();
    let error = other.transaction(move |tx| queue.push_in(tx, "lost")).expect_err("not its own");
    assert!(error.to_string().contains("another writer"), "{error}");
}

#[test]
fn limits_hold_claims_back_until_they_may() {
    let bench = bench_with(|settings| {
        settings.concurrency = Some(2);
        settings.rate = Some(Rate { jobs: 3, per: Duration::from_secs(3) });
    });
    for _ in 0..6 {
        bench.push(Job::bytes("x"));
    }
    let many = ClaimOptions::new().jobs_max(9);
    let claims = bench.queue.claim_with(&many).expect("no error");
    assert_eq!(claims.len(), 2, "concurrency");
    let acked = bench.queue.ack_many(&[claims[0].token, claims[1].token]).expect("no error");
    assert!(acked.iter().all(Result::is_ok));
    assert_eq!(bench.queue.claim_with(&many).expect("no error").len(), 1, "rate");
    bench.nothing();
    bench.clock.advance_ms(999);
    bench.nothing();
    bench.clock.advance_ms(1);
    assert_eq!(bench.queue.claim_with(&many).expect("no error").len(), 1);
}

#[test]
fn a_smaller_group_concurrency_holds_for_jobs_that_wait_and_for_those_that_come_back() {
    let bench = bench_with(|settings| settings.group_concurrency = 3);
    bench.queue.push_many((1..=4).map(|id| Job::bytes(id.to_string()).group("g"))).expect("in");
    let (first, second) = (bench.claim(), bench.claim());
    bench.queue.configure(|settings| settings.group_concurrency = 1).expect("good settings");
    bench.nothing();
    bench.queue.release(second.token).expect("it is ours");
    bench.nothing();
    bench.queue.ack(first.token).expect("it is ours");
    assert_eq!(bench.claim().id, second.id);
    bench.nothing();
    bench.queue.configure(|settings| settings.group_concurrency = 2).expect("good settings");
    assert_eq!(bench.claim().id, 3);
    bench.nothing();
}

#[test]
fn a_job_that_comes_back_to_no_slot_frees_its_place_for_another_group() {
    let bench = bench_with(|settings| {
        (settings.concurrency, settings.group_concurrency) = (Some(2), 2);
    });
    bench.queue.push_many([1, 2].map(|id| Job::bytes(id.to_string()).group("g"))).expect("in");
    let (_first, second) = (bench.claim(), bench.claim());
    let other = bench.push(Job::bytes("other"));
    bench.queue.configure(|settings| settings.group_concurrency = 1).expect("good settings");
    bench.nothing();
    let queue = bench.queue.clone();
    let wakes = bench.writer.transaction(move |tx| {
        let session = queue.session.get()?;
        tx.internal(session, |connection| {
            let work = Work::new(connection, session);
            let job = settle::find(&work, second.id)?.expect("a job");
            settle::nack(&work, &*work.row(queue.id)?, &job, &Nack::new(), 0.5)?;
            Ok(session.wakes_after_commit())
        })
    });
    assert!(wakes.expect("a nack"), "a waiter is told of the place");
    assert_eq!(bench.claim().id, other);
}

#[test]
fn jobs_that_have_ended_are_kept_as_long_as_the_settings_say_now() {
    let hours = |hours: u64| Duration::from_secs(3_600 * hours);
    let bench = bench_with(move |settings| {
        (settings.keep_done, settings.keep_dead) = (hours(1), Some(hours(1)));
    });
    bench.queue.push_many([Job::bytes("done"), Job::bytes("dead")]).expect("in");
    bench.queue.ack(bench.claim().token).expect("it is ours");
    bench.queue.fail(bench.claim().token, "bad").expect("it is ours");
    let configure = |keep_done, keep_dead| {
        let change = move |settings: &mut Settings| {
            (settings.keep_done, settings.keep_dead) = (keep_done, keep_dead);
        };
        bench.queue.configure(change).expect("good settings");
        bench.clock.advance_ms(1);
        bench.nothing();
        bench.count("SELECT count(*) FROM leafpress_job")
    };
    assert_eq!(configure(hours(4), None), 2);
    bench.clock.advance_ms(3 * 3_600_000);
    bench.nothing();
    assert_eq!(configure(Duration::MAX, Some(Duration::MAX)), 2);
    assert_eq!(configure(hours(4), Some(hours(2))), 1);
    assert_eq!(configure(hours(2), Some(hours(2))), 0);
}

#[test]
fn a_job_behind_its_group_is_due_though_the_clock_was_set_back() {
    let bench = bench();
    let hour = Duration::from_secs(3_600);
    bench.clock.set_ms(100 * 3_600_000);
    let job = || Job::bytes("of a group").group("g");
    bench.queue.push_many([job(), job(), job().delay(hour)]).expect("in");
    let first = bench.claim();
    bench.clock.advance_ms(-3_600_000);
    bench.queue.ack(first.token).expect("it is ours");
    let second = bench.claim();
    bench.queue.ack(second.token).expect("it is ours");
    bench.clock.advance_ms(7_199_999);
    bench.nothing();
    bench.clock.advance_ms(1);
    assert_eq!(bench.claim().id, 3, "its caller gave its time");
}

#[test]
fn a_job_that_is_given_back_after_its_expiry_is_dead_and_the_answer_says_so() {
    let bench = bench();
    for give_back in [
        |queue: &Queue, token| queue.nack(token, Nack::new().error("no route")),
        |queue: &Queue, token| queue.release(token).map(|()| Retry::Dead),
    ] {
        let id = bench.push(Job::bytes("late").expires_in(Duration::from_secs(1)).group("g"));
        let claim = bench.claim();
        bench.clock.advance_ms(1_000);
        assert_eq!(give_back(&bench.queue, claim.token).expect("it is ours"), Retry::Dead);
        let job = bench.queue.job(id).expect("no error").expect("it is kept");
        assert_eq!((job.state, job.error.as_deref()), (JobState::Dead, Some("expired")));
    }
}

#[test]
fn claims_of_many_jobs_remove_as_many_that_were_kept_long_enough() {
    let bench = bench_with(|settings| settings.keep_done = Duration::from_secs(1));
    let many = ClaimOptions::new().jobs_max(1_000);
    for _ in 0..4 {
        let unique = UniqueFor::Time(Duration::from_secs(1));
        let job = |number: usize| Job::bytes("x").unique(number.to_string(), unique);
        bench.queue.push_many((0..1_000).map(job)).expect("in");
        let claims = bench.queue.claim_with(&many).expect("claims");
        let tokens: Vec<Token> = claims.iter().map(|claim| claim.token).collect();
        bench.queue.ack_many(&tokens).expect("an answer for each");
        bench.clock.advance_ms(1_000);
    }
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_job"), 1_000);
}

#[test]
fn a_claim_that_waits_gets_a_job_whose_group_is_free_as_another_expires() {
    let folder = tempfile::tempdir().expect("a folder");
    let writer = Writer::builder(folder.path().join("jobs.db")).open().expect("a writer");
    let queue = Queue::open(&writer, "mail").expect("a queue");
    let job = || Job::bytes("of a group").group("g");
    queue.push(job().expires_in(Duration::from_millis(300))).expect("in");
    let head = queue.claim().expect("no error").expect("a job");
    let later = Nack::new().delay(Duration::from_secs(3_600));
    queue.nack(head.token, later).expect("it is ours");
    let behind = queue.push(job()).expect("in");
    let claims = queue.claim_with(&ClaimOptions::new().wait(Duration::from_secs(20)));
    assert_eq!(claims.expect("no error").pop().map(|claim| claim.id), Some(behind.id));
}

#[test]
fn a_job_that_could_only_expire_is_refused_wherever_it_is_pushed() {
    let bench = bench();
    let (queue, in_it) = (&bench.queue, bench.queue.clone());
    let seconds = Duration::from_secs;
    let at = |second| std::time::UNIX_EPOCH + seconds(second);
    let is_refused = |outcome: Result<()>| {
        let error = outcome.expect_err("it would never be claimed");
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
        let text = error.to_string();
        let why = ["before it is due", "has expired by now"].iter().any(|why| text.contains(why));
        assert!(why && text.contains("Job::expires_in be"), "{text}");
        text
    };
    let job = || Job::bytes("late");
    for late in [
        job().expires_in(Duration::ZERO),
        job().expires(at(1_000)),
        job().delay(seconds(5)).expires_in(seconds(5)),
        job().delay(seconds(5)).expires(at(1_004)),
        job().due(at(2_000)).expires_in(seconds(5)),
        job().due(at(2_000)).expires(at(2_000)).unique("key", UniqueFor::Waiting),
    ] {
        is_refused(queue.push(late.clone()).map(drop));
        let named = is_refused(queue.push_many([job(), late.clone()]).map(drop));
        assert!(named.starts_with("job 2 of 2: the job "), "{named}");
        let mut transaction = queue.begin(seconds(9)).expect("it begins");
        transaction.push(job());
        transaction.push(late.clone());
        let named = is_refused(transaction.commit().map(drop));
        assert!(named.starts_with("job 2 of 2: the job "), "{named}");
        let in_it = in_it.clone();
        let body = move |tx: &Transaction<'_>| in_it.push_in(tx, late.clone()).map(drop);
        is_refused(bench.writer.transaction(body));
    }
    let connection = Connection::open(bench.folder.path().join("jobs.db")).expect("it opens");
    connection.execute_batch("BEGIN IMMEDIATE").expect("no connection writes");
    is_refused(Queue::push_on(&connection, "mail", job().expires(at(1))).map(drop));
    drop(connection);
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_job"), 0);
    bench.push(job().due(at(1)).expires_in(Duration::from_millis(1)));
    bench.claim();
}

#[test]
fn a_job_that_sqlite_cannot_store_is_refused_by_its_place() {
    let bench = bench();
    let jobs = [Job::bytes("small"), Job::bytes(vec![0; 1_000_000_000]), Job::bytes("small")];
    let error = bench.queue.push_many(jobs).expect_err("it is too large");
    let text = error.to_string();
    assert!(text.starts_with("job 2 of 3: the job has 1000000000 bytes, and SQLite"), "{text}");
    assert_eq!(bench.count("SELECT count(*) FROM leafpress_job"), 0);
}

#[test]
fn a_claim_looks_on_behind_any_number_of_jobs_that_are_over() {
    let bench = bench();
    let one = ClaimOptions::new();
    let ways: [&dyn Fn() -> Result<Vec<Claim>>; 3] = [
        &|| bench.queue.claim_with(&one),
        &|| block_on(bench.queue.claim_with_async(&one)),
        &|| bench.queue.begin(Duration::from_secs(60))?.claim_many(1),
    ];
    for claim in ways {
        let old = || Job::bytes("old").expires_in(Duration::from_millis(1));
        bench.queue.push_many((0..2_500).map(|_| old())).expect("pushed");
        let good = bench.push(Job::bytes("good"));
        bench.clock.advance_ms(1);
        let claims = claim().expect("no error");
        assert_eq!(claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [good]);
        bench.queue.remove(good).expect("no error");
        assert!(claim().expect("no error").is_empty());
    }
}

#[test]
fn a_claim_looks_on_behind_any_number_of_leases_that_are_over() {
    let bench = bench();
    bench.queue.push_many((0..600).map(|_| Job::bytes("spent").attempts_max(1))).expect("pushed");
    let all = ClaimOptions::new().jobs_max(600).lease(Duration::from_secs(1));
    assert_eq!(bench.queue.claim_with(&all).expect("claims").len(), 600);
    let last = bench.push(Job::bytes("last"));
    let longer = ClaimOptions::new().lease(Duration::from_secs(2));
    bench.queue.claim_with(&longer).expect("claims");
    bench.clock.advance_ms(2_000);
    assert_eq!(bench.claim().id, last);
}

#[test]
fn a_job_that_a_rate_held_off_goes_at_once_when_the_rate_is_changed() {
    let hour = Duration::from_secs(3_600);
    let bench = bench_with(move |settings| {
        settings.group_rate = Some(Rate { jobs: 1, per: hour });
        settings.group_concurrency = 4;
    });
    let [first, second, third] = [(); 3].map(|()| bench.push(Job::bytes("x").group("g")));
    let later = bench.push(Job::bytes("later").group("g").delay(hour));
    assert_eq!(bench.claim().id, first);
    bench.nothing();
    let rate = Some(Rate { jobs: 4, per: Duration::from_secs(4) });
    bench.queue.configure(move |settings| settings.group_rate = rate).expect("settings");
    bench.clock.advance_ms(1_000);
    assert_eq!(bench.claim().id, second);
    bench.nothing();
    bench.queue.configure(|settings| settings.group_rate = None).expect("settings");
    assert_eq!(bench.claim().id, third);
    bench.nothing();
    let job = bench.queue.job(later).expect("no error").expect("it is there");
    assert_eq!(job.state, JobState::Delayed, "a delay that a caller gave stays");
}

#[test]
fn a_job_that_a_rate_held_off_and_that_lost_its_slot_goes_once_it_has_one() {
    for together in [false, true] {
        let bench = bench_with(|settings| {
            settings.group_rate = Some(Rate { jobs: 1, per: Duration::from_secs(3_600) });
            settings.group_concurrency = 2;
        });
        let [first, second] = [(); 2].map(|()| bench.push(Job::bytes("x").group("g")));
        let claim = bench.claim();
        assert_eq!(claim.id, first);
        bench.nothing();
        let narrow = |settings: &mut Settings| settings.group_concurrency = 1;
        let free = |settings: &mut Settings| settings.group_rate = None;
        let configured = if together {
            bench.queue.configure(move |settings| {
                narrow(settings);
                free(settings);
            })
        } else {
            bench.queue.configure(narrow).and_then(|_| bench.queue.configure(free))
        };
        configured.expect("settings");
        bench.nothing();
        bench.queue.ack(claim.token).expect("it is ours");
        assert_eq!(bench.claim().id, second, "{together}");
    }
}

#[test]
fn a_lease_that_was_extended_while_the_clock_was_ahead_is_not_longer_for_it() {
    let bench = bench();
    bench.push(Job::bytes("x"));
    let token = bench.claim().token;
    bench.queue.extend(token, Duration::from_secs(4_000)).expect("extended");
    // For a while an hour ahead, and just then it is extended.
    bench.clock.advance_ms(3_600_000);
    bench.queue.extend(token, Duration::from_secs(30)).expect("extended");
    bench.clock.advance_ms(-3_599_000);
    bench.nothing();
    bench.clock.advance_ms(29_999);
    bench.nothing();
    bench.clock.advance_ms(1);
    assert_eq!(bench.claim().attempt, 2);
}

/// It would take a look at each job of the database.
#[test]
fn an_opening_measures_nothing_anew_unless_the_clock_was_set_back() {
    let mut bench = bench();
    bench.push(Job::bytes("x"));
    bench.claim();
    // As a clock that was ahead, of a program that told no one, could have left it.
    let ahead = "UPDATE leafpress_job SET due_at_ms = due_at_ms + 600000";
    bench.writer.transaction(|tx| tx.execute(ahead, [])).expect("a change");
    let until_ms = "SELECT due_at_ms FROM leafpress_job";
    let before_ms = bench.count(until_ms);
    for _ in 0..2 {
        bench.clock.advance_ms(1_000);
        bench = bench.reopened();
        assert_eq!(bench.count(until_ms), before_ms, "the job was not looked at");
    }
    bench.clock.advance_ms(-3_001);
    bench = bench.reopened();
    assert_eq!(bench.count(until_ms), bench.clock.now_ms() + 30_000);
}

/// The latest time is stored at most once a second; what is stored is enough all the same.
#[test]
fn an_opening_sees_that_the_clock_was_set_back_by_more_than_a_second() {
    for (later_ms, back_ms) in [(0, 1_001), (1, 1_001), (999, 1_001), (999, 1_998), (2_500, 1_001)]
    {
        let mut bench = bench();
        bench.push(Job::bytes("x"));
        bench.push(Job::bytes("y"));
        bench.claim();
        bench.clock.advance_ms(later_ms);
        bench.claim();
        // The process is killed, and the next one begins with a clock that was set back.
        let copy = tempfile::tempdir().expect("a folder");
        for name in ["jobs.db", "jobs.db-wal"] {
            std::fs::copy(bench.folder.path().join(name), copy.path().join(name)).expect("a copy");
        }
        bench.clock.advance_ms(-back_ms);
        bench.folder = copy;
        let path = bench.folder.path().join("jobs.db");
        let writer = Writer::builder(path).profile(Profile::Relaxed).open().expect("a writer");
        let (clock, manual) = Clock::manual(bench.clock.now_ms());
        bench.queue = Queue::builder(&writer, "mail").clock(clock).open().expect("the queue");
        (bench.writer, bench.clock) = (writer, manual);
        bench.clock.advance_ms(30_000);
        let mut again = vec![bench.claim().id];
        // The lease that began up to a second from then is longer by as much.
        bench.clock.advance_ms(1_000);
        again.extend(bench.queue.claim().expect("no error").map(|claim| claim.id));
        again.sort_unstable();
        assert_eq!(again, [1, 2], "{later_ms} {back_ms}");
    }
}

#[test]
fn a_clock_that_is_set_back_does_not_lengthen_leases() {
    let bench = bench();
    bench.push(Job::bytes("x"));
    bench.claim();
    bench.clock.advance_ms(-900_000);
    bench.nothing();
    bench.clock.advance_ms(29_999);
    bench.nothing();
    bench.clock.advance_ms(1);
    assert_eq!(bench.claim().attempt, 2);
}

/// The queue is open all the time, or opened anew once the clock is right; the rate is that of a
/// group, or of the queue.
#[test]
fn a_clock_that_is_set_back_does_not_lengthen_what_a_rate_holds_off() {
    for (is_reopened, is_whole) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut bench = bench_with(move |settings| {
            let rate = Some(Rate { jobs: 1, per: Duration::from_secs(10) });
            *if is_whole { &mut settings.rate } else { &mut settings.group_rate } = rate;
            settings.group_concurrency = 3;
        });
        bench.push(Job::bytes("first").group("g"));
        bench.push(Job::bytes("held off").group("g"));
        let due_ms = 1_060_000;
        let due = std::time::UNIX_EPOCH + Duration::from_millis(due_ms);
        bench.push(Job::bytes("later").group("g").due(due));
        bench.queue.ack(bench.claim().token).expect("it is ours");
        bench.nothing();
        bench.clock.advance_ms(-900_000);
        if is_reopened {
            bench = bench.reopened();
        }
        bench.nothing();
        bench.clock.advance_ms(9_999);
        bench.nothing();
        bench.clock.advance_ms(1);
        let claim = bench.claim();
        assert_eq!(claim.payload.as_bytes(), b"held off", "{is_reopened}");
        bench.queue.ack(claim.token).expect("it is ours");
        // What a caller asked for stays.
        bench.clock.set_ms(due_ms as i64 - 1);
        bench.nothing();
        bench.clock.set_ms(due_ms as i64);
        assert_eq!(bench.claim().payload.as_bytes(), b"later", "{is_reopened}");
    }
}

#[test]
fn who_waits_is_woken_by_a_push_and_by_the_end_of_the_writer() {
    let bench = bench();
    let options = ClaimOptions::new().wait(Duration::MAX);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.queue.claim_with(&options));
        bench.push(Job::bytes("x"));
        let claims = waiting.join().expect("no panic").expect("no error");
        assert_eq!(claims.len(), 1);
        let waiting = scope.spawn(|| bench.queue.claim_with(&options));
        bench.writer.clone().close().expect("it closes");
        let error = waiting.join().expect("no panic").expect_err("the writer is closed");
        assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
    });
}

#[test]
fn a_queue_must_exist_if_it_is_said_so_and_settings_are_for_all() {
    let bench = bench();
    let error =
        Queue::builder(&bench.writer, "typo").must_exist().open().expect_err("it is missing");
    assert!(error.to_string().contains("no queue 'typo'"), "{error}");
    let same = Queue::open(&bench.writer, "mail").expect("the same queue");
    bench.queue.configure(|settings| settings.attempts_max = 9).expect("good settings");
    assert_eq!(same.settings().expect("settings").attempts_max, 9);
    let error = bench.queue.configure(|settings| settings.attempts_max = 0).expect_err("bad");
    assert!(error.to_string().contains("attempts_max"), "{error}");
    assert_eq!(same.settings().expect("settings").attempts_max, 9);
}

/// A token that no claim gave is not said to be done.
#[test]
fn a_token_that_was_never_given_is_no_such_claim() {
    let bench = bench();
    let job = bench.push(Job::bytes("x"));
    let unknown = |token: Token| {
        let error = bench.queue.ack(token).expect_err("it was never given");
        assert!(matches!(error.kind(), ErrorKind::NoSuchClaim { .. }), "{token}: {error}");
        let many = bench.queue.extend_many(&[token], Duration::from_secs(1)).expect("it looks");
        let error = many[0].as_ref().expect_err("it was never given");
        assert!(matches!(error.kind(), ErrorKind::NoSuchClaim { .. }), "{token}: {error}");
    };
    // Before any claim, and of a job that never was.
    unknown(Token { job, claim: 1 });
    unknown(Token { job: 99, claim: 1 });
    let claim = bench.claim();
    unknown(Token { job, claim: 2 });
    unknown(Token { job, claim: 0 });
    unknown(Token { job: 0, claim: 1 });
    unknown(Token { job: -1, claim: 1 });
    bench.queue.ack(claim.token).expect("it is ours");
    // Nothing tells any more how often it was claimed.
    assert_eq!(why(bench.queue.ack(claim.token)), LeaseLost::Settled);
    unknown(Token { job: job + 1, claim: 1 });
}

#[test]
fn a_writer_and_a_queue_can_be_used_where_panics_are_caught() {
    let Bench { writer, queue, folder, .. } = bench();
    // Compiles only for types that bear it.
    std::panic::catch_unwind(|| {
        writer.execute_batch("CREATE TABLE t(a)").expect("a table");
        queue.push(Job::bytes("x")).expect("a push");
    })
    .expect("no panic");
    drop(folder);
}
