//! The queue on rqlite beside the local queue, which is the model: the same calls at the same times.
//!
//! 1. Each call has the same answer.
//! 2. After each call the tables hold the same rows.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leafpress::queue::{
    Claim, ClaimOptions, Clock, Job, JobState, ListOptions, ManualClock, Nack, Purge, Queue, Token,
    UniqueFor,
};
use leafpress::{Profile, Result, Writer};
use leafpress_rqlite::RqliteQueue;
use rusqlite::Connection;

use super::queue::builder;
use super::server::Server;

const STEPS: usize = 250;

struct Pair {
    server: Server,
    there: RqliteQueue,
    here: Queue,
    clock: ManualClock,
    tokens: Vec<Token>,
    random: fastrand::Rng,
    _folder: tempfile::TempDir,
    file: Connection,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let server = Server::start(0, seed);
        let there = builder(&server).connect().unwrap().open("mail").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let writer = Writer::builder(&path).profile(Profile::Relaxed).open().unwrap();
        let (clock, manual) = Clock::manual(server.clock_ms.load(Ordering::Relaxed));
        let here = Queue::builder(&writer, "mail").clock(clock).open().unwrap();
        let file = Connection::open(&path).unwrap();
        let random = fastrand::Rng::with_seed(seed);
        let tokens = Vec::new();
        Self { server, there, here, clock: manual, tokens, random, _folder: folder, file }
    }

    /// The clock of the local queue is that of the last group.
    fn same_time(&self) {
        let sql = "SELECT at_ms FROM _leafpress_queue_group ORDER BY number DESC LIMIT 1";
        let now = self.server.database.lock().unwrap().query_row(sql, [], |row| row.get(0));
        self.clock.set_ms(now.unwrap_or_else(|_| self.server.clock_ms.load(Ordering::Relaxed)));
    }

    fn time_passes(&mut self) {
        let ms = [3, 50, 1_500, 40_000, 4_000_000][self.random.usize(..5)];
        self.server.clock_ms.fetch_add(ms, Ordering::Relaxed);
        // The answer brings the new time.
        self.there.ack(Token { job: 1 << 40, claim: 1 }).unwrap_err();
    }

    fn duration(&mut self) -> Duration {
        Duration::from_millis([0, 1, 700, 20_000, 3_000_000][self.random.usize(..5)])
    }

    fn job(&mut self) -> Job {
        let mut job = Job::bytes(self.random.u32(..).to_string());
        if self.random.bool() {
            job = Job::json(&["é", "\u{0}"]).unwrap().metadata(&1).unwrap().correlation_id("c");
        }
        if self.random.bool() {
            job = job.priority(self.random.i32(-2..3));
        }
        if self.random.u8(..3) == 0 {
            job = job.group(["g", "h", ""][self.random.usize(..3)]);
        }
        // If the holder of a key expires while a job that lost the key in its claim comes back, the local
        // queue deals with the one after the other, and the cluster with both at once. So jobs that can
        // lose their keys so have one of their own, and do not expire.
        let mut may_expire = true;
        if self.random.u8(..3) == 0 {
            let time = self.duration().max(Duration::from_millis(1));
            let scopes = [UniqueFor::Waiting, UniqueFor::WaitingOrRunning, UniqueFor::Time(time)];
            let scope = scopes[self.random.usize(..3)];
            may_expire = scope != UniqueFor::Waiting;
            let key = if may_expire { ["k", "l"][self.random.usize(..2)] } else { "w" };
            job = job.unique(key, scope);
        }
        match self.random.u8(..6) {
            0 => job = job.delay(self.duration()),
            1 if may_expire => job = job.expires_in(self.duration()),
            2 => job = job.attempts_max(self.random.u32(1..3)),
            3 => {
                let now_ms = self.server.clock_ms.load(Ordering::Relaxed) as u64;
                let at = std::time::UNIX_EPOCH + Duration::from_millis(now_ms) + self.duration();
                let is_due = !may_expire || self.random.bool();
                // The two clocks may differ by a moment, and one that is over by then is refused.
                let expires_at = at + Duration::from_secs(20);
                job = if is_due { job.due(at) } else { job.expires(expires_at) };
            }
            _ => {}
        }
        job
    }

    fn token(&mut self) -> Token {
        match self.tokens.len() {
            0 => Token { job: self.random.i64(-1..9), claim: self.random.u32(..3) },
            // Mostly one of the last.
            many => {
                let last = if self.random.bool() { 4.min(many) } else { many };
                self.tokens[many - 1 - self.random.usize(..last)]
            }
        }
    }

    fn step(&mut self) -> String {
        match self.random.u8(..20) {
            0..=3 => {
                let jobs: Vec<Job> = (0..self.random.usize(1..4)).map(|_| self.job()).collect();
                let there = self.there.push_many(jobs.clone());
                self.same_time();
                same("push", there, self.here.push_many(jobs))
            }
            4..=7 => self.claim(),
            8 => {
                let token = self.token();
                let there = self.there.ack_with(token, "result");
                self.same_time();
                same("ack with", there, self.here.ack_with(token, "result"))
            }
            9 => {
                let mut tokens = vec![self.token(), self.token()];
                // Tokens of one job go in groups of their own, at times of their own.
                tokens.dedup_by_key(|token| token.job);
                let there = self.there.ack_many(&tokens).unwrap();
                self.same_time();
                let here = self.here.ack_many(&tokens).unwrap();
                let pairs = there.into_iter().zip(here);
                pairs.map(|(there, here)| same("ack", there, here)).collect()
            }
            10 | 11 => {
                let (token, mut nack) = (self.token(), Nack::new());
                if self.random.bool() {
                    nack = nack.error("why");
                }
                if self.random.bool() {
                    nack = nack.delay(self.duration());
                }
                let there = self.there.nack(token, nack.clone());
                self.same_time();
                same("nack", there, self.here.nack(token, nack))
            }
            12 => {
                let token = self.token();
                let is_release = self.random.bool();
                let there = if is_release {
                    self.there.release(token)
                } else {
                    self.there.fail(token, "bad")
                };
                self.same_time();
                let here = if is_release {
                    self.here.release(token)
                } else {
                    self.here.fail(token, "bad")
                };
                same("release or fail", there, here)
            }
            13 => {
                let (token, lease) = (self.token(), self.duration() + Duration::from_millis(5));
                let there = self.there.extend(token, lease);
                self.same_time();
                same("extend", there, self.here.extend(token, lease))
            }
            14 => self.configure(),
            15 => self.look(),
            16 | 17 => self.repair(),
            18 => self.purge(),
            _ => {
                self.time_passes();
                "time".to_owned()
            }
        }
    }

    fn claim(&mut self) -> String {
        let mut options = ClaimOptions::new().jobs_max(self.random.usize(1..4));
        if self.random.bool() {
            options = options.worker("w").lease(self.duration() + Duration::from_millis(9));
        }
        let there = self.there.claim_with(&options);
        self.same_time();
        let here = self.here.claim_with(&options);
        let claims: &Vec<Claim> = there.as_ref().unwrap();
        self.tokens.extend(claims.iter().map(|claim| claim.token));
        same("claim", there, here)
    }

    fn repair(&mut self) -> String {
        let id = self.random.i64(..self.here.stats().unwrap().jobs.open() as i64 + 40);
        let limit = Some(self.random.u64(..3)).filter(|limit| *limit > 0);
        let what = self.random.u8(..3);
        let there = match what {
            0 => self.there.retry(id).map(u64::from),
            1 => self.there.remove(id).map(u64::from),
            _ => self.there.retry_dead(limit),
        };
        self.same_time();
        let here = match what {
            0 => self.here.retry(id).map(u64::from),
            1 => self.here.remove(id).map(u64::from),
            _ => self.here.retry_dead(limit),
        };
        same("repair", there, here)
    }

    fn states(&mut self) -> Vec<JobState> {
        JobState::ALL.into_iter().filter(|_| self.random.bool()).collect()
    }

    fn purge(&mut self) -> String {
        let mut purge = Purge::new();
        if self.random.u8(..3) == 0 {
            // Each state goes in a group of its own, which has a time of its own.
            purge = purge.states([JobState::ALL[self.random.usize(..6)]]);
        } else if self.random.bool() {
            // Which jobs of other states go first is not said.
            purge = purge.limit(self.random.u64(..3));
        }
        if self.random.bool() {
            purge = purge.older_than(Duration::from_secs(self.random.u64(..2) * 2_000));
        }
        let there = self.there.purge(&purge);
        self.same_time();
        same("purge", there, self.here.purge(&purge))
    }

    fn look(&mut self) -> String {
        let mut options = ListOptions::new()
            .newest_first(self.random.bool())
            .with_payload(self.random.bool())
            .limit([0, 3, usize::MAX][self.random.usize(..3)]);
        if self.random.bool() {
            options = options.states(self.states());
        }
        if self.random.bool() {
            options = options.group(["g", "h", "none"][self.random.usize(..3)]);
        }
        if self.random.bool() {
            options = options.after_id(self.random.i64(..30));
        }
        let (there, here) = (self.there.list(&options), self.here.list(&options));
        let ids: Vec<i64> = there.as_ref().unwrap().iter().map(|job| job.id).collect();
        same("list", there, here);
        for id in ids.into_iter().take(4).chain([1 << 40]) {
            same("job", self.there.job(id), self.here.job(id));
            same("history", self.there.history(id), self.here.history(id));
            let queue = self.there.queues().queue_of(id).unwrap();
            assert_eq!(queue.is_some(), self.here.job(id).unwrap().is_some());
        }
        format!("{options:?}")
    }

    fn configure(&mut self) -> String {
        let (concurrency, places) = (self.random.u32(..4), self.random.u32(1..4));
        let (keep_done, keep_dead) = (self.duration(), self.duration());
        let (pauses, lease) = (self.random.u8(..6) == 0, self.duration());
        let change = move |settings: &mut leafpress::queue::Settings| {
            settings.backoff.jitter = 0.0;
            settings.concurrency = Some(concurrency).filter(|it| *it > 0);
            settings.group_concurrency = places;
            (settings.keep_done, settings.keep_dead) = (keep_done, Some(keep_dead));
            settings.lease = lease.max(Duration::from_millis(10));
        };
        self.there.configure(change).unwrap();
        // It is no group, so the time of its changes is that of the statistics.
        let now = "SELECT max(changed_at_ms) FROM leafpress_job";
        let latest = |connection: &Connection| -> Option<i64> {
            connection.query_row(now, [], |row| row.get(0)).unwrap()
        };
        let there = latest(&self.server.database.lock().unwrap());
        if there > latest(&self.file) {
            self.clock.set_ms(there.unwrap());
        } else {
            self.same_time();
        }
        self.here.configure(change).unwrap();
        if pauses {
            self.there.pause().unwrap();
            self.here.pause().unwrap();
        } else {
            self.there.resume().unwrap();
            self.here.resume().unwrap();
        }
        "configure".to_owned()
    }

    fn check(&self, seed: u64, at: usize, what: &str) {
        for (table, order) in [
            ("leafpress_queue", "id"),
            ("leafpress_job", "id"),
            ("leafpress_key", "queue, key"),
            ("leafpress_attempt", "job, claim"),
        ] {
            let sql = format!("SELECT * FROM {table} ORDER BY {order}");
            let there = rows(&self.server.database.lock().unwrap(), &sql);
            let here = rows(&self.file, &sql);
            let only = |one: &[Vec<_>], other: &[Vec<_>]| -> Vec<_> {
                one.iter().filter(|row| !other.contains(row)).cloned().collect()
            };
            let differ = (only(&there, &here), only(&here, &there));
            assert!(there == here, "{table} after step {at} of seed {seed}: {what}: {differ:?}");
        }
    }
}

fn rows(connection: &Connection, sql: &str) -> Vec<Vec<rusqlite::types::Value>> {
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement
        .query_map([], |row| (0..columns).map(|at| row.get(at)).collect::<rusqlite::Result<_>>())
        .unwrap();
    rows.map(Result::unwrap).collect()
}

/// The two answers, which are the same, as text.
fn same<T: std::fmt::Debug>(what: &str, there: Result<T>, here: Result<T>) -> String {
    let text = |it: Result<T>| match it {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    };
    let (there, here) = (text(there), text(here));
    assert_eq!(there, here, "{what}");
    format!("{what} {there}")
}

fn run(seed: u64, steps: usize) {
    let mut pair = Pair::new(seed);
    pair.configure();
    for at in 0..steps {
        let what = pair.step();
        pair.check(seed, at, &what);
        // The local queue makes due changes at most once a millisecond.
        pair.server.clock_ms.fetch_add(50, Ordering::Relaxed);
    }
    assert!(!pair.server.has_written_time.load(Ordering::Relaxed));
}

#[test]
fn the_tables_are_those_of_the_local_queue_after_each_call() {
    std::thread::scope(|scope| {
        for seed in 0..6 {
            scope.spawn(move || run(seed, STEPS));
        }
    });
}
