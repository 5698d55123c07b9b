//! Durable jobs on a cluster of rqlite: the words, types and tables of [`leafpress::queue`].
//!
//! The operations of the local queue look at jobs and then change them, on one connection. A cluster
//! has none for a client, so each operation is rewritten as statements that need no look before, and
//! calls of all threads go in one request.
//!
//! ```text
//! caller ─ submit ─► engine's thread ─ group ─► one request: sql::begun … sql::ANSWER
//!        ◄──────────── answers ◄───────────────── rows of the answer, or read later if it was lost
//! ```
//!
//! 1. At least once: a job that was pushed is delivered until it is acked, dead or removed.
//! 2. A job that was acked is never delivered again; a late ack changes nothing.
//! 3. What is answered with success is in the log of most nodes, and was applied once.
//! 4. Jobs of an ordering group run in the order of their pushes.
//! 5. No two jobs hold one unique key at a time.
//! 6. Times are those of the leader's clock. No clock of a client counts.
//!
//! Must never: claim jobs of a queue that has settings which are not kept here.

mod admin;
mod engine;
mod group;
mod inspect;
mod request;
mod settings;
mod sql;
mod stats;

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use leafpress::queue::elsewhere::{QueueElsewhere, When};
use leafpress::queue::{
    Claim, ClaimOptions, Job, Nack, Payload, Pushed, Retry, Token, UniqueFor, UnixTime, Worker,
};
use leafpress::times::in_milliseconds;
use leafpress::vfs::fork::Process;
use leafpress::vfs::locks;
use leafpress::{Error, Result};
use serde_json::{Value, json};

pub use self::stats::RqliteQueueStats;

use self::engine::Engine;
use self::group::{Answer, Call, ClaimCall, Push, Settle, Settled, Submitted, payload_text};
use crate::address::Address;
use crate::client::Client;
use crate::limits::{CALL_BYTES_MAX, TIME_LIMIT_MAX};

/// The queues of a cluster, and the thread that sends the calls of all threads of this process.
///
/// Clones are the same session. In a child of `fork` each call is answered
/// [`Forked`](leafpress::ErrorKind::Forked).
#[derive(Clone)]
pub struct RqliteQueues {
    calls: Sender<Submitted>,
    process: Process,
    pause: Duration,
}

impl fmt::Debug for RqliteQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RqliteQueues").field("pause", &self.pause).finish_non_exhaustive()
    }
}

/// Options of a session.
#[derive(Debug, Clone)]
#[must_use = "nothing is sent before a queue is opened"]
pub struct RqliteQueuesBuilder {
    address: Address,
    time_limit: Duration,
    pause: Duration,
    has_dedupe: bool,
}

impl RqliteQueuesBuilder {
    /// The longest time for which calls whose outcome is unknown are sent again (30 s; at most 10 minutes).
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit.min(TIME_LIMIT_MAX);
        self
    }

    /// The time between two looks of a claim that waits (100 ms). rqlite wakes no client, so a job is
    /// found so much later.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause.max(Duration::from_millis(1));
        self
    }

    /// Leaves out what applies a group once: for the test that shows its use.
    #[doc(hidden)]
    pub fn without_dedupe(mut self) -> Self {
        self.has_dedupe = false;
        self
    }

    /// Begins the session. Nothing is sent yet.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn connect(self) -> Result<RqliteQueues> {
        // From now on forks are counted.
        locks::ensure();
        let (calls, received) = channel();
        let engine = Engine::new(Client::new(self.address), self.time_limit, self.has_dedupe);
        let run = move || engine.run(&received);
        let spawned = thread::Builder::new().name("leafpress-rqlite".to_owned()).spawn(run);
        spawned.map_err(|source| Error::no_thread("for a cluster", source))?;
        Ok(RqliteQueues { calls, process: Process::current(), pause: self.pause })
    }
}

impl RqliteQueues {
    /// A session with the cluster at `address`.
    pub fn builder(address: Address) -> RqliteQueuesBuilder {
        RqliteQueuesBuilder {
            address,
            time_limit: Duration::from_secs(30),
            pause: Duration::from_millis(100),
            has_dedupe: true,
        }
    }

    /// The names of the queues, in alphabetical order.
    ///
    /// # Errors
    /// If the cluster cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        settings::names(self)
    }

    /// The queue of this name; it and the tables are made if they are missing.
    ///
    /// # Errors
    /// If the tables are of a later version, if the queue has rates or schedules, which are not kept
    /// on a cluster, or if no node answers.
    pub fn open(&self, name: &str) -> Result<RqliteQueue> {
        settings::open(self, name, true)
    }

    /// The queue that a job is in; `None` if there is no such job.
    ///
    /// # Errors
    /// If the cluster cannot be read; as [`open`](Self::open), for that queue.
    pub fn queue_of(&self, job: i64) -> Result<Option<RqliteQueue>> {
        settings::queue_of(self, job)
    }

    /// The queue of this name, which must be there.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if there is no such queue.
    pub fn existing(&self, name: &str) -> Result<RqliteQueue> {
        settings::open(self, name, false)
    }

    fn call(&self, call: Call) -> Result<Answer> {
        self.process.check("queue")?;
        let (answer, answered) = channel();
        let gone = || Error::stopped("the thread of the cluster has ended");
        self.calls.send(Submitted { call, answer }).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    /// The rows of each query, read at the leader.
    fn read(&self, queries: Vec<Value>) -> Result<Vec<Vec<Value>>> {
        match self.call(Call::Read(queries))? {
            Answer::Rows(rows) => Ok(rows),
            _ => Err(confused()),
        }
    }

    /// Carries out statements that do no harm if they are carried out twice.
    fn repeatable(&self, statements: Vec<Value>) -> Result<()> {
        self.call(Call::Repeatable(statements)).map(drop)
    }
}

/// One named queue of a cluster. Clones are the same queue, for any number of threads.
///
/// ```no_run
/// use leafpress::queue::Job;
/// use leafpress_rqlite::{Address, RqliteQueue};
///
/// let address: Address = "rqlite://db1:4001,db2:4001,db3:4001".parse()?;
/// let mail = RqliteQueue::open(address, "mail")?;
/// mail.push(Job::json(&("welcome", "ann@example.org"))?)?; // on most nodes now
/// while let Some(claim) = mail.claim()? {
///     mail.ack(claim.token)?;
/// }
/// # Ok::<(), leafpress::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RqliteQueue {
    queues: RqliteQueues,
    id: i64,
    name: Arc<str>,
}

impl RqliteQueue {
    /// The queue of this name on the cluster at `address`; it is made if it is missing.
    ///
    /// # Errors
    /// As [`RqliteQueues::open`].
    pub fn open(address: Address, name: &str) -> Result<Self> {
        RqliteQueues::builder(address).connect()?.open(name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The session that sends its calls.
    pub fn queues(&self) -> &RqliteQueues {
        &self.queues
    }

    /// Pushes a job, and waits until it is in the log of most nodes.
    ///
    /// # Errors
    /// There is no job then, but after [`OutcomeUnknown`](leafpress::ErrorKind::OutcomeUnknown), when it
    /// is not known; with a unique key it can be pushed again without harm.
    pub fn push(&self, job: impl Into<Job>) -> Result<Pushed> {
        let pushed = self.push_many([job.into()])?;
        pushed.into_iter().next().ok_or_else(confused)
    }

    /// Pushes all of these jobs, in order, or none of them.
    ///
    /// # Errors
    /// As [`push`](Self::push), and if they are more than 16 MB as they are sent: payloads of bytes count twice, and
    /// quotation marks of JSON four times. None of them is there then.
    pub fn push_many(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<Pushed>> {
        let pushes: Vec<Push> = jobs.into_iter().map(|job| self.pushed(job)).collect();
        if pushes.is_empty() {
            return Ok(Vec::new());
        }
        check_bytes(pushes.iter().map(|it| it.bytes).sum())?;
        match self.queues.call(Call::Push(pushes))? {
            Answer::Pushed(answers) => Ok(answers),
            _ => Err(confused()),
        }
    }

    fn pushed(&self, job: Job) -> Push {
        let time = |when: When| match when {
            When::Now => (None, Some(0)),
            When::After(delay) => (None, Some(milliseconds(delay))),
            When::At(at_ms) => (Some(at_ms), None),
        };
        let (due_at, due_in) = time(job.when);
        let (expires_at, expires_in) = job.expires.map_or((None, None), time);
        let (scope, held_for) = match job.unique.as_ref().map(|(_, scope)| *scope) {
            None => (None, None),
            Some(UniqueFor::Waiting) => (Some(0), None),
            // For no time at all, two jobs of one group would each hold it.
            Some(UniqueFor::Time(time)) => (Some(2), Some(milliseconds(time).max(1))),
            // Waiting or running.
            Some(_) => (Some(1), None),
        };
        let key = job.unique.map(|(key, _)| key);
        let place = json!([self.id, job.group, key, scope, held_for]).to_string();
        let content = json!([
            payload_text(&job.payload),
            job.priority,
            due_at,
            due_in,
            job.attempts_max,
            expires_at,
            expires_in,
            job.correlation_id,
            job.metadata,
        ]);
        let content = content.to_string();
        let of_key = key.as_ref().map_or(0, |key| sent_bytes(&json!([self.id, key]).to_string()));
        let bytes =
            200 + sent_bytes(&place) + sent_bytes(&content) + of_key * sql::STATEMENTS_OF_KEYS;
        Push {
            queue: self.id,
            place,
            content,
            has_group: job.group.is_some(),
            when: job.when,
            expires: job.expires,
            key,
            bytes,
        }
    }

    /// Claims the next job, if there is one, for the lease that the settings say.
    ///
    /// # Errors
    /// Nothing is claimed then. (If the outcome is unknown and it was, the job comes again after its
    /// lease.)
    pub fn claim(&self) -> Result<Option<Claim>> {
        Ok(self.claim_with(&ClaimOptions::new())?.pop())
    }

    /// Claims jobs, and waits for one if asked to: it looks each [`pause`](RqliteQueuesBuilder::pause), by
    /// a read of the leader, which is no entry of the log. It may return fewer jobs than wanted.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub fn claim_with(&self, options: &ClaimOptions) -> Result<Vec<Claim>> {
        options.check()?;
        let wait = options.wait.unwrap_or_default();
        // Too far away for the clock is never.
        let deadline = Instant::now().checked_add(wait);
        loop {
            let claims = self.look(options)?;
            if !claims.is_empty() || options.jobs_max == 0 {
                return Ok(claims);
            }
            loop {
                let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    return Ok(Vec::new());
                }
                thread::sleep(left.map_or(self.queues.pause, |left| left.min(self.queues.pause)));
                if self.may_find_jobs()? {
                    break;
                }
            }
        }
    }

    /// Claims jobs without waiting.
    fn look(&self, options: &ClaimOptions) -> Result<Vec<Claim>> {
        if options.jobs_max == 0 {
            return Ok(Vec::new());
        }
        let call = ClaimCall {
            queue: self.id,
            // More are a slip of the keyboard, and would be one answer.
            jobs_max: options.jobs_max.min(10_000),
            lease_ms: options.lease.map(milliseconds),
            worker: options.worker.clone(),
        };
        match self.queues.call(Call::Claim(call))? {
            Answer::Claimed(claims) => Ok(claims),
            _ => Err(confused()),
        }
    }

    fn may_find_jobs(&self) -> Result<bool> {
        let rows = self.queues.read(vec![json!([sql::MAY_HAVE_JOBS, self.id])])?;
        let answer = rows.first().and_then(|rows| rows.first()?.get(0)?.as_i64());
        answer.map(|answer| answer != 0).ok_or_else(confused)
    }

    /// Acks a job: it is done, and never delivered again.
    ///
    /// # Errors
    /// [`LeaseLost`](leafpress::ErrorKind::LeaseLost) if the token is no good any more,
    /// [`NoSuchClaim`](leafpress::ErrorKind::NoSuchClaim) if it was never given. Nothing is changed then; if
    /// the outcome is unknown, the job may come again.
    pub fn ack(&self, token: Token) -> Result<()> {
        self.settle_one("ack", token, Value::Null, None).map(drop)
    }

    /// Acks a job with its result, which is kept as long as the setting `keep_done` says.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn ack_with(&self, token: Token, result: impl Into<Payload>) -> Result<()> {
        self.settle_one("ack", token, json!(payload_text(&result.into())), None).map(drop)
    }

    /// Acks many jobs, each answered for itself, in order.
    ///
    /// # Errors
    /// If the cluster does not answer. A token that is no good is an error in its place only.
    pub fn ack_many(&self, tokens: &[Token]) -> Result<Vec<Result<()>>> {
        let answers = self.settle_all("ack", tokens, None)?;
        Ok(answers.into_iter().map(|it| it.map(drop)).collect())
    }

    /// Gives back a job that did not succeed: it is tried again after a while, or is a dead letter if
    /// that was its last attempt.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn nack(&self, token: Token, nack: Nack) -> Result<Retry> {
        let Nack { error, delay, .. } = nack;
        let settled = self.settle_one("nack", token, json!(error), delay.map(milliseconds))?;
        Ok(if settled.is_dead { Retry::Dead } else { Retry::At { due_at: settled.at } })
    }

    /// Makes a job a dead letter, with this reason.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn fail(&self, token: Token, reason: &str) -> Result<()> {
        self.settle_one("fail", token, json!(reason), None).map(drop)
    }

    /// Gives the job back, to be claimed again at once; that was no attempt.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn release(&self, token: Token) -> Result<()> {
        self.settle_one("release", token, Value::Null, None).map(drop)
    }

    /// Lets the lease end this long after now; returns the time of its end.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn extend(&self, token: Token, lease: Duration) -> Result<UnixTime> {
        let settled = self.settle_one("extend", token, Value::Null, Some(milliseconds(lease)))?;
        Ok(settled.at)
    }

    /// Extends many leases, each answered for itself, in order.
    ///
    /// # Errors
    /// As [`ack_many`](Self::ack_many).
    pub fn extend_many(&self, tokens: &[Token], lease: Duration) -> Result<Vec<Result<UnixTime>>> {
        let answers = self.settle_all("extend", tokens, Some(milliseconds(lease)))?;
        Ok(answers.into_iter().map(|it| it.map(|settled| settled.at)).collect())
    }

    /// A worker of this queue. While there is nothing to do, it looks each
    /// [`pause`](RqliteQueuesBuilder::pause).
    pub fn worker(&self) -> Worker {
        Worker::elsewhere(Arc::new(self.clone()))
    }

    fn settle_one(
        &self,
        what: &str,
        token: Token,
        words: Value,
        ms: Option<i64>,
    ) -> Result<Settled> {
        let answers = self.settle(vec![settle(what, token, words, ms)])?;
        answers.into_iter().next().ok_or_else(confused)?
    }

    /// Settles tokens. Those of one job go one after the other.
    fn settle_all(
        &self,
        what: &str,
        tokens: &[Token],
        ms: Option<i64>,
    ) -> Result<Vec<Result<Settled>>> {
        let mut answers: Vec<Option<Result<Settled>>> = Vec::new();
        answers.resize_with(tokens.len(), || None);
        let mut left: Vec<usize> = (0..tokens.len()).collect();
        while !left.is_empty() {
            let mut jobs = std::collections::HashSet::new();
            let (now, later): (Vec<usize>, Vec<usize>) =
                left.into_iter().partition(|at| jobs.insert(tokens[*at].job));
            let of_token = |at: &usize| settle(what, tokens[*at], Value::Null, ms);
            let settled = self.settle(now.iter().map(of_token).collect())?;
            for (at, answer) in now.into_iter().zip(settled) {
                answers[at] = Some(answer);
            }
            left = later;
        }
        answers.into_iter().map(|answer| answer.ok_or_else(confused)).collect()
    }

    fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        check_bytes(settles.iter().map(|it| it.bytes).sum())?;
        match self.queues.call(Call::Settle(settles))? {
            Answer::Settled(answers) => Ok(answers),
            _ => Err(confused()),
        }
    }
}

impl QueueElsewhere for RqliteQueue {
    fn lease(&self) -> Result<Duration> {
        Ok(self.settings()?.lease)
    }

    fn claim_now(&self, options: &ClaimOptions) -> Result<Vec<Claim>> {
        self.look(options)
    }

    fn may_have_jobs(&self) -> Result<bool> {
        self.may_find_jobs()
    }

    fn pause(&self) -> Duration {
        self.queues.pause
    }

    fn ack(&self, token: Token, result: Option<Payload>) -> Result<()> {
        match result {
            Some(result) => self.ack_with(token, result),
            None => Self::ack(self, token),
        }
    }

    fn nack(&self, token: Token, nack: Nack) -> Result<Retry> {
        Self::nack(self, token, nack)
    }

    fn fail(&self, token: Token, reason: &str) -> Result<()> {
        Self::fail(self, token, reason)
    }

    fn release(&self, token: Token) -> Result<()> {
        Self::release(self, token)
    }

    fn extend_many(&self, tokens: &[Token], lease: Duration) -> Result<Vec<Result<UnixTime>>> {
        Self::extend_many(self, tokens, lease)
    }
}

fn settle(what: &str, token: Token, words: Value, ms: Option<i64>) -> Settle {
    let chance = json!(fastrand::f64());
    let json = vec![json!(what), json!(token.job), json!(token.claim), words, json!(ms), chance];
    let json = Value::Array(json);
    let bytes = 100 + sent_bytes(&json.to_string());
    Settle { token, json, bytes }
}

/// Bytes of a text of JSON in a request, where it is a text in JSON.
fn sent_bytes(json: &str) -> usize {
    json.len() + json.bytes().filter(|it| matches!(it, b'"' | b'\\')).count()
}

/// Milliseconds of a duration, so that a time never becomes too large.
fn milliseconds(time: Duration) -> i64 {
    in_milliseconds(time).min(sql::LONGEST_MS)
}

fn check_bytes(bytes: usize) -> Result<()> {
    if bytes <= CALL_BYTES_MAX {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "a call of {bytes} bytes would stop the cluster: {CALL_BYTES_MAX} are allowed"
    ))
    .on_disk("nothing of this call")
    .to_do("divide it into several calls, and keep large payloads elsewhere"))
}

/// The error of an answer that is none to the call.
fn confused() -> Error {
    Error::unknown_outcome("the node's answer is not one to the call")
}
