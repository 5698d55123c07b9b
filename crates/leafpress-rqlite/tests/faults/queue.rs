//! The queue over a connection that loses requests and answers.
//!
//! 1. A push that is answered with success makes one job, others none, or at most one if that is unknown.
//! 2. Each job is claimed once, acked once, and never given again after its ack.
//! 3. A group runs in the order of its pushes; a key has one holder.
//! 4. All times in the tables are those of the nodes' clock.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, UNIX_EPOCH};

use leafpress::queue::{
    ClaimOptions, Job, JobState, ListOptions, Nack, Outcome, Payload, Purge, Rate, Stop, Token,
    UniqueFor,
};
use leafpress::{Error, ErrorKind};
use leafpress_rqlite::{RqliteQueue, RqliteQueues, RqliteQueuesBuilder};

use super::server::{Fault, Server};

const CALLERS: usize = 8;
const PUSHES: usize = 25;
const HOUR: Duration = Duration::from_secs(3_600);

pub fn builder(server: &Server) -> RqliteQueuesBuilder {
    RqliteQueues::builder(server.url.parse().unwrap())
        .time_limit(Duration::from_secs(20))
        .pause(Duration::from_millis(5))
}

fn open(server: &Server) -> RqliteQueue {
    builder(server).connect().unwrap().open("mail").unwrap()
}

fn number(server: &Server, sql: &str) -> i64 {
    server.database.lock().unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Producers and consumers at once. Returns the payloads that were pushed, and those that were acked, in
/// the order in which they were handed out.
fn work_off(queue: &RqliteQueue) -> (Vec<String>, Vec<String>) {
    let handed_out = Mutex::new(Vec::new());
    let pushed = std::thread::scope(|scope| {
        let produce = |caller: usize| {
            let job = move |number| {
                let job = Job::bytes(format!("{caller}.{number}"));
                if caller.is_multiple_of(2) { job.group(format!("of {caller}")) } else { job }
            };
            let mut pushed = Vec::new();
            for number in 0..PUSHES {
                let answer = queue.push(job(number)).unwrap();
                assert!(answer.is_new && answer.id > 0);
                pushed.push(format!("{caller}.{number}"));
            }
            pushed
        };
        let consume = || {
            let begun = Instant::now();
            while handed_out.lock().unwrap().len() < CALLERS * PUSHES
                && begun.elapsed() < Duration::from_secs(60)
            {
                let options =
                    ClaimOptions::new().jobs_max(3).lease(HOUR).wait(Duration::from_millis(20));
                for claim in queue.claim_with(&options).unwrap() {
                    let name = String::from_utf8(claim.payload.as_bytes().to_vec()).unwrap();
                    // Before the ack: the next one of the group may be handed out at once after it.
                    handed_out.lock().unwrap().push(name);
                    queue.ack(claim.token).unwrap();
                }
            }
        };
        let producers: Vec<_> =
            (0..CALLERS).map(|caller| scope.spawn(move || produce(caller))).collect();
        for _ in 0..CALLERS {
            scope.spawn(consume);
        }
        producers.into_iter().flat_map(|it| it.join().unwrap()).collect::<Vec<String>>()
    });
    (pushed, handed_out.into_inner().unwrap())
}

/// Number of jobs that stand in the tables otherwise than once, done, by one claim.
fn wrong(server: &Server, pushed: &[String]) -> usize {
    // Late requests arrive within this time.
    std::thread::sleep(Duration::from_millis(100));
    let database = server.database.lock().unwrap();
    let sql = "SELECT count(*), coalesce(sum(state = 4 AND claims = 1), 0) FROM leafpress_job
               WHERE payload = CAST(?1 AS BLOB)";
    let is_wrong = |name: &&String| {
        let found = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        database.query_row(sql, [name], found).unwrap() != (1, 1)
    };
    pushed.iter().filter(is_wrong).count()
}

#[test]
fn jobs_are_pushed_claimed_and_acked_once_whatever_is_lost() {
    for seed in 0..4 {
        let server = Server::start(30, seed);
        let queue = open(&server);
        queue.configure(|settings| settings.keep_done = HOUR).unwrap();
        let (pushed, acked) = work_off(&queue);
        assert_eq!(acked.iter().collect::<HashSet<_>>().len(), acked.len(), "acked twice");
        assert_eq!(acked.len(), pushed.len(), "seed {seed}");
        assert_eq!(wrong(&server, &pushed), 0, "seed {seed}");
        assert_eq!(number(&server, "SELECT count(*) FROM leafpress_attempt"), 0);
        assert_eq!(number(&server, "SELECT count(*) FROM _leafpress_queue_step"), 0);
        assert!(!server.has_written_time.load(Ordering::Relaxed));
        let mut last = BTreeMap::new();
        for name in acked.iter().filter(|name| !name.starts_with(['1', '3', '5', '7'])) {
            let (caller, at) = name.split_once('.').unwrap();
            let at: i64 = at.parse().unwrap();
            assert_eq!(last.insert(caller, at).map_or(0, |it| it + 1), at, "order of {caller}");
        }
    }
}

/// rqlite commits a transaction without the statements that it cannot prepare.
#[test]
fn a_group_of_which_a_statement_cannot_be_prepared_is_applied_once() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let run = |sql: &str| server.database.lock().unwrap().execute_batch(sql).unwrap();
    let tables = ["_leafpress_queue_group", "_leafpress_queue_step", "_leafpress_floor"];
    for (before, table) in tables.into_iter().enumerate() {
        run(&format!("DROP TABLE {table}"));
        assert!(queue.push("x").unwrap().is_new, "{table}");
        assert_eq!(number(&server, "SELECT count(*) FROM leafpress_job"), before as i64 + 1);
    }
    run("DROP INDEX leafpress_job_blocked");
    let error = queue.push(Job::bytes("x").group("g")).unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(number(&server, "SELECT count(*) FROM leafpress_job") <= 4);
    assert!(queue.push(Job::bytes("x").group("g")).unwrap().is_new, "the index is there again");
}

#[test]
fn without_the_rows_of_groups_jobs_are_pushed_twice() {
    let found = (0..4).any(|seed| {
        let server = Server::start(30, seed);
        let queue = builder(&server).without_dedupe().connect().unwrap().open("mail").unwrap();
        let pushed: Vec<String> = (0..60).map(|it| it.to_string()).collect();
        for name in &pushed {
            let _ = queue.push(Job::bytes(name.as_str()));
        }
        number(&server, "SELECT count(*) FROM leafpress_job") > pushed.len() as i64
    });
    assert!(found, "the faults of the server test nothing");
}

#[test]
fn times_are_those_of_the_nodes() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let begun_ms = server.clock_ms.load(Ordering::Relaxed);
    queue.push(Job::bytes("a").delay(HOUR)).unwrap();
    queue.push("b").unwrap();
    let claim = queue.claim().unwrap().unwrap();
    let time = number(&server, "SELECT min(pushed_at_ms) FROM leafpress_job");
    // The clock of the nodes stands in 2001, and what has passed since is added to it.
    assert!((begun_ms..begun_ms + 60_000).contains(&time), "{time}");
    assert!((begun_ms + 30_000..begun_ms + 90_000).contains(&claim.lease_until.as_ms()));
    // It is set back by an hour: the lease ends 30 s after that time, not an hour later.
    server.clock_ms.fetch_sub(3_600_000, Ordering::Relaxed);
    queue.push("c").unwrap();
    queue.push("d").unwrap();
    let end = number(&server, "SELECT due_at_ms FROM leafpress_job WHERE state = 1");
    assert!(end < begun_ms - 3_000_000, "{end}");
    // An hour and more goes by: the lease ends, and the delayed job is due.
    server.clock_ms.fetch_add(3 * 3_600_000, Ordering::Relaxed);
    queue.push("e").unwrap();
    let again = queue.claim_with(&ClaimOptions::new().jobs_max(9)).unwrap();
    assert_eq!(again.iter().map(|it| (it.id, it.attempt)).collect::<Vec<_>>(), {
        [(1, 1), (2, 2), (3, 1), (4, 1), (5, 1)]
    });
    let error = queue.ack(claim.token).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LeaseLost { .. }), "{error}");
    assert!(!server.has_written_time.load(Ordering::Relaxed));
}

#[test]
fn a_clock_set_back_does_not_hold_a_key_for_hours() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let keyed = || Job::bytes("a").unique("k", UniqueFor::Time(HOUR));
    assert!(queue.push(keyed()).unwrap().is_new);
    server.clock_ms.fetch_sub(24 * 3_600_000, Ordering::Relaxed);
    // The answer to the first push tells the time.
    queue.push("b").unwrap();
    assert!(!queue.push(keyed()).unwrap().is_new, "its time begins anew");
    server.clock_ms.fetch_add(2 * 3_600_000, Ordering::Relaxed);
    queue.push("c").unwrap();
    assert!(queue.push(keyed()).unwrap().is_new);
}

#[test]
fn a_key_has_one_holder_however_many_push_it_at_once() {
    let server = Server::start(20, 5);
    let queue = open(&server);
    for round in 0..5 {
        let key = format!("invoice {round}");
        let answers = std::thread::scope(|scope| {
            let push =
                || queue.push(Job::bytes("x").unique(&*key, UniqueFor::WaitingOrRunning)).unwrap();
            let threads: Vec<_> = (0..CALLERS).map(|_| scope.spawn(push)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(answers.iter().filter(|it| it.is_new).count(), 1);
        assert!(answers.iter().all(|it| it.id == answers[0].id));
    }
    let twice = [(); 2].map(|()| Job::bytes("y").unique("one", UniqueFor::Waiting));
    let pushed = queue.push_many(twice).unwrap();
    assert_eq!(pushed.iter().map(|it| it.is_new).collect::<Vec<_>>(), [true, false]);
    assert_eq!(number(&server, "SELECT count(*) FROM leafpress_job"), 6);
}

#[test]
fn a_token_that_is_acked_twice_in_one_call_is_good_once() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    queue.push_many(["a", "b"].map(Job::bytes)).unwrap();
    let claims = queue.claim_with(&ClaimOptions::new().jobs_max(5)).unwrap();
    let [a, b] = [0, 1].map(|at: usize| claims[at].token);
    let answers = queue.ack_many(&[a, b, a]).unwrap();
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    assert!(queue.ack_many(&[]).unwrap().is_empty());
}

#[test]
fn a_waiting_claim_finds_a_job_that_is_pushed_or_comes_due() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let wait = ClaimOptions::new().wait(Duration::from_secs(20));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.claim_with(&wait).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        queue.push("now").unwrap();
        assert_eq!(waiting.join().unwrap()[0].payload, Payload::bytes("now"));
    });
    let groups = number(&server, "SELECT count(*) FROM _leafpress_queue_group");
    let none = queue.claim_with(&ClaimOptions::new().wait(Duration::from_millis(100))).unwrap();
    assert!(none.is_empty());
    // The first look is a claim; those after it are reads.
    assert_eq!(number(&server, "SELECT count(*) FROM _leafpress_queue_group"), groups + 1);
    let begun = Instant::now();
    assert!(queue.claim_with(&ClaimOptions::new().wait(Duration::ZERO)).unwrap().is_empty());
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_waiting_claim_writes_nothing_while_the_queue_is_at_its_limit() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    queue.configure(|settings| settings.concurrency = Some(1)).unwrap();
    queue.push_many(["a", "b"].map(Job::bytes)).unwrap();
    let claim = queue.claim().unwrap().unwrap();
    let groups = number(&server, "SELECT count(*) FROM _leafpress_queue_group");
    let none = queue.claim_with(&ClaimOptions::new().wait(Duration::from_millis(100))).unwrap();
    assert!(none.is_empty());
    // The first look is a claim.
    assert_eq!(number(&server, "SELECT count(*) FROM _leafpress_queue_group"), groups + 1);
    let wait = ClaimOptions::new().wait(Duration::from_secs(20));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.claim_with(&wait).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        queue.ack(claim.token).unwrap();
        assert_eq!(waiting.join().unwrap()[0].payload, Payload::bytes("b"));
    });
}

#[test]
fn a_waiting_claim_finds_a_job_whose_group_is_free_as_another_expires() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let job = || Job::bytes("of a group").group("g");
    queue.push(job().expires_in(Duration::from_secs(60))).unwrap();
    let head = queue.claim().unwrap().unwrap();
    queue.nack(head.token, Nack::new().delay(HOUR)).unwrap();
    let behind = queue.push(job()).unwrap();
    let wait = ClaimOptions::new().wait(Duration::from_secs(20));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.claim_with(&wait).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        server.clock_ms.fetch_add(60_000, Ordering::Relaxed);
        assert_eq!(waiting.join().unwrap()[0].id, behind.id);
    });
}

#[test]
fn jobs_that_could_only_expire_are_refused_by_the_clock_of_the_leader() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let now_ms = server.clock_ms.load(Ordering::Relaxed) as u64;
    let at = |second| UNIX_EPOCH + Duration::from_millis(now_ms) + Duration::from_secs(second);
    let job = || Job::bytes("late");
    for (late, why) in [
        (job().expires(UNIX_EPOCH), "has expired by now"),
        (job().due(at(9_000)).expires_in(HOUR), "would expire before it is due"),
        (job().delay(2 * HOUR).expires(at(3_600)), "would expire before it is due"),
    ] {
        let error = queue.push_many([job(), late]).unwrap_err();
        assert!(error.to_string().starts_with(&format!("job 2 of 2: the job {why}")), "{error}");
    }
    assert_eq!(number(&server, "SELECT count(*) FROM leafpress_job"), 0);
    queue.push(job().expires(at(3_600))).unwrap();
}

#[test]
fn a_worker_works_jobs_off_and_keeps_their_leases() {
    let server = Server::start(10, 2);
    let queue = open(&server);
    queue.push_many((0..20).map(|it| Job::bytes(it.to_string()).attempts_max(2))).unwrap();
    let worker = queue.worker().concurrency(4).lease(HOUR).name("w").until_empty();
    let report = worker.run(&Stop::new(), |job| match job.payload.as_bytes() {
        b"3" => Outcome::Dead { reason: "three".to_owned() },
        b"4" => Outcome::Retry { error: "four".to_owned(), delay: Some(HOUR) },
        _ => Outcome::Done,
    });
    let report = report.unwrap();
    assert_eq!((report.done, report.dead, report.retried), (18, 1, 1));
    let stats = queue.stats().unwrap();
    assert_eq!((stats.jobs.delayed, stats.jobs.dead, stats.jobs.open()), (1, 1, 1));
    assert_eq!(number(&server, "SELECT count(*) FROM leafpress_job WHERE worker = 'w'"), 2);
    // A worker that waits is ended by the wish to stop, and finds what is pushed meanwhile.
    let stop = Stop::new();
    let ends = queue.worker();
    std::thread::scope(|scope| {
        let work = scope.spawn(|| ends.run(&stop, |_| Outcome::Done).unwrap());
        queue.push("late").unwrap();
        while queue.stats().unwrap().jobs.open() > 1 {
            std::thread::yield_now();
        }
        stop.now();
        assert_eq!(work.join().unwrap().done, 1);
    });
}

#[test]
fn what_a_cluster_does_not_keep_is_refused() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let rate = Rate { jobs: 1, per: HOUR };
    let error = queue.configure(|settings| settings.rate = Some(rate)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
    assert!(queue.configure(|settings| settings.attempts_max = 0).is_err());
    let set = "UPDATE leafpress_queue SET rate_jobs = 1, rate_per_ms = 1";
    server.database.lock().unwrap().execute_batch(set).unwrap();
    let error = queue.queues().open("mail").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
    let error = queue.queues().existing("none").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
    assert_eq!(queue.queues().names().unwrap(), ["mail"]);
    let error = queue.push(Job::bytes(vec![0; 20 << 20])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
    let later = "UPDATE leafpress_schema SET version = 2";
    server.database.lock().unwrap().execute_batch(later).unwrap();
    assert!(queue.queues().open("other").is_err());
}

/// Each removal frees the next job of a group, which takes the place of a job that was there.
#[test]
fn a_purge_of_many_jobs_takes_those_that_were_there_and_no_others() {
    const GROUPS: usize = 600;
    for (state, delay, age) in [
        (JobState::Ready, Duration::ZERO, None),
        (JobState::Ready, Duration::ZERO, Some(HOUR)),
        (JobState::Delayed, 10 * HOUR, None),
    ] {
        let server = Server::start(0, 1);
        let queue = open(&server);
        let of_group = |group| [(); 2].map(|()| Job::bytes("x").group(group).delay(delay));
        let groups: Vec<String> = (0..GROUPS).map(|it| format!("g{it}")).collect();
        let pushed = queue.push_many(groups.iter().flat_map(|it| of_group(it.as_str()))).unwrap();
        let mut followers: Vec<i64> = pushed.iter().skip(1).step_by(2).map(|it| it.id).collect();
        let mut purge = Purge::new().states([state]);
        if let Some(age) = age {
            server.clock_ms.fetch_add(2 * 3_600_000, Ordering::Relaxed);
            // The answer brings the new time.
            queue.ack(Token { job: 1 << 40, claim: 1 }).unwrap_err();
            purge = purge.older_than(age);
        }
        assert_eq!(queue.purge(&purge.clone().limit(1)).unwrap(), 1);
        // The first head is gone, so that its follower is in this state now.
        if age.is_none() {
            followers.remove(0);
        }
        let removed = pushed.len() - 1 - followers.len();
        assert_eq!(queue.purge(&purge).unwrap(), removed as u64);
        let left = queue.list(&ListOptions::new().limit(usize::MAX)).unwrap();
        assert_eq!(left.iter().map(|job| job.id).collect::<Vec<_>>(), followers);
    }
}

#[test]
fn a_push_has_the_bytes_that_are_counted() {
    const JSON_BYTES: usize = 15 << 20;
    const LIMIT: usize = 16 << 20;
    let server = Server::start(0, 1);
    let queue = open(&server);
    let long = Job::json(&"x".repeat(JSON_BYTES)).unwrap();
    assert!(queue.push(long.unique("k", UniqueFor::Waiting).group("g")).unwrap().is_new);
    let stored = number(&server, "SELECT length(payload) FROM leafpress_job");
    assert_eq!(stored as usize, JSON_BYTES + 2);
    // Signs that JSON escapes, and once more as a text in JSON; digits of bytes; keys that several statements have.
    for job in [
        Job::json(&vec![""; 2_000_000]).unwrap(),
        Job::bytes("x").metadata(&"\u{1}".repeat(2_000_000)).unwrap(),
        Job::bytes(vec![1; 9 << 20]),
        Job::bytes("x").unique("k".repeat(4 << 20), UniqueFor::Waiting),
    ] {
        let error = queue.push(job).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
    }
    let bytes = server.bytes_max.load(Ordering::Relaxed);
    assert!((JSON_BYTES..LIMIT).contains(&bytes), "{bytes}");
}

#[test]
fn a_queue_of_a_file_that_was_booted_is_taken_up() {
    let server = Server::start(0, 1);
    open(&server).push(Job::bytes("first")).unwrap();
    let change = |sql: &str| server.database.lock().unwrap().execute_batch(sql).unwrap();
    change("DROP TABLE _leafpress_queue_group; DROP TABLE _leafpress_queue_step");
    let queues = builder(&server).connect().unwrap();
    assert_eq!(queues.names().unwrap(), ["mail"]);
    let mail = queues.existing("mail").unwrap();
    let claim = mail.claim().unwrap().unwrap();
    mail.ack(claim.token).unwrap();
    assert_eq!(number(&server, "SELECT count(*) FROM leafpress_job WHERE state < 4"), 0);
    change("UPDATE leafpress_schema SET version = 0; DROP TABLE _leafpress_queue_step");
    let error = queues.existing("mail").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
    let step = "SELECT count(*) FROM sqlite_schema WHERE name = '_leafpress_queue_step'";
    assert_eq!(number(&server, step), 0);
}

#[test]
fn a_node_that_falls_silent_costs_seconds_and_no_outcome() {
    let server = Server::start(0, 5);
    let queue = open(&server);
    queue.push("first").unwrap();
    for requests in [1, 2] {
        server.silent.store(requests, Ordering::Relaxed);
        let begun = Instant::now();
        let pushed = queue.push("second").unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!(number(&server, "SELECT count(*) FROM leafpress_job"), pushed.id);
        assert_eq!(pushed.id, 1 + i64::from(requests));
    }
}

#[test]
fn an_outcome_that_stays_unknown_is_said_to_be_and_no_node_is_told_apart() {
    let nowhere = RqliteQueues::builder("rqlite://127.0.0.1:1".parse().unwrap());
    let queues = nowhere.time_limit(Duration::from_millis(50)).connect().unwrap();
    let error = queues.open("mail").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    let server = Server::start(0, 3);
    let queues = builder(&server).time_limit(Duration::from_millis(300)).connect().unwrap();
    let queue = queues.open("mail").unwrap();
    queue.push("x").unwrap();
    server.faults_in_100.store(100, Ordering::Relaxed);
    let error: Error = queue.push("y").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
    server.faults_in_100.store(0, Ordering::Relaxed);
    queue.push("z").unwrap();
}

/// 20/11 is a number that a reader of JSON may take for its neighbour.
#[test]
fn settings_with_a_long_fraction_can_be_changed() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let set = "UPDATE leafpress_queue SET backoff_factor = 20.0 / 11.0";
    server.database.lock().unwrap().execute_batch(set).unwrap();
    let changed = queue.configure(|settings| settings.attempts_max = 7).unwrap();
    assert_eq!((changed.backoff.factor, changed.attempts_max), (20.0 / 11.0, 7));
    let kept = "SELECT count(*) FROM leafpress_queue WHERE backoff_factor = 20.0 / 11.0";
    assert_eq!(number(&server, kept), 1);
}

/// Another program changes the settings before this one has its answer.
#[test]
fn a_change_of_settings_is_made_once_and_answered_by_its_group() {
    const OTHER: &str = "UPDATE leafpress_queue SET keep_done_ms = 77";
    let server = Server::start(0, 1);
    let queue = open(&server);
    let before = queue.settings().unwrap().attempts_max;
    server.plan("SET lease_ms", Fault::Then(OTHER));
    let mut calls = 0;
    let changed = queue.configure(|settings| {
        calls += 1;
        settings.attempts_max += 1;
    });
    assert_eq!((calls, changed.unwrap().attempts_max), (1, before + 1));
    let now = queue.settings().unwrap();
    assert_eq!((now.attempts_max, now.keep_done), (before + 1, Duration::from_millis(77)));
    // One that comes before the change has it made anew.
    let other = "UPDATE leafpress_queue SET keep_done_ms = 78";
    let mut calls = 0;
    let changed = queue.configure(|settings| {
        calls += 1;
        if calls == 1 {
            server.database.lock().unwrap().execute_batch(other).unwrap();
        }
        settings.attempts_max += 1;
    });
    assert_eq!((calls, changed.unwrap().attempts_max), (2, before + 2));
    assert_eq!(queue.settings().unwrap().keep_done, Duration::from_millis(78));
}

/// The request of a call comes once more, after a later call has been answered.
#[test]
fn a_late_request_of_an_operator_undoes_no_later_one() {
    let server = Server::start(0, 1);
    let queue = open(&server);
    let before = queue.settings().unwrap();
    let late = Fault::Late(Duration::from_millis(500));
    server.plan("SET is_paused", late);
    server.plan("SET lease_ms", late);
    queue.pause().unwrap();
    queue.configure(|settings| settings.attempts_max = 100).unwrap();
    queue.resume().unwrap();
    queue.configure(|settings| *settings = before.clone()).unwrap();
    assert!(server.is_past_plans());
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(number(&server, "SELECT is_paused FROM leafpress_queue"), 0);
    assert_eq!(queue.settings().unwrap(), before);
}
