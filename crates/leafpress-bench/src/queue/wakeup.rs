//! Time that a consumer in another process takes to wake up.
//!
//! ```text
//! this process                        the waiter, a process of its own
//!                                     waits
//! push ─┬─ call
//!       └─ answer                     wakes up, claims
//!                                     └─ answer of the claim
//! waits until the job is gone         acknowledges
//! rests for some milliseconds         waits again
//! ```
//!
//! Both read the same clock, so that the times can be compared. The rests differ, so that
//! no poll of the waiter's falls in step with the pushes.
//!
//! Must never: push before the waiter waits, or leave it behind.

use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use leafpress::queue::{ClaimOptions, Job};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::jobs::JobNumber;
use super::ours::{self, Opened};
use super::rung::{LOGS_MB, WakeupProcess, WakeupRung, Waking, jobs_mb};
use super::{check, sql};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;
use crate::report::{Latency, Safety};
use crate::rung::described::{Described, Found, Given, Left, Topic};
use crate::rung::request::Request;
use crate::rung::result::RungResult;
use crate::statistics::latency;
use crate::usage::Usage;

/// Jobs before the first that is measured: the waiter's process starts with them.
const WARM_UP: u64 = 5;

/// The job after which the waiter ends.
const LAST: JobNumber = JobNumber(u64::MAX);

/// Between two looks of a waiter that polls.
const BETWEEN_POLLS: Duration = Duration::from_millis(1);

/// Between two looks whether the waiter is done with a job, which no time depends on.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// After it is done, until the next push: this, and up to as much again.
const REST: Duration = Duration::from_millis(4);

/// A waiter that takes longer than this never wakes up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Nanoseconds on a clock that all processes of this machine share.
#[cfg(target_os = "linux")]
fn now_ns() -> i64 {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Nanoseconds on a clock that all processes of this machine share. It may be set
/// meanwhile, which would show as a time that cannot be.
#[cfg(not(target_os = "linux"))]
fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX)
}

/// One of the two processes with the queue open.
enum Side {
    Ours(Opened),
    Sql(Connection),
}

impl Side {
    fn open(rung: WakeupRung, database: &Path) -> Result<Self> {
        Ok(match rung.by {
            Waking::Waits | Waking::Polls => {
                Self::Ours(ours::open(Safety::Durable, database, None)?)
            }
            Waking::SqlPolls => Self::Sql(sql::open(database, Safety::Durable, None)?),
        })
    }

    fn push(&self, job: JobNumber) -> Result<()> {
        match self {
            Self::Ours(opened) => {
                opened.queue.push(Job::bytes(job.payload()))?;
                Ok(())
            }
            Self::Sql(connection) => {
                sql::push(connection, &[job]).map_err(Error::sqlite("push the rival's job"))
            }
        }
    }

    fn close(self) -> Result<()> {
        match self {
            Self::Ours(opened) => opened.close(),
            Self::Sql(connection) => connect::close(connection),
        }
    }
}

/// The waiter while it runs; killed if this process fails.
struct Waiter(Option<Child>);

impl Waiter {
    fn start(rung: WakeupRung, database: &Path) -> Result<Self> {
        let mut command = waiter_request(rung.by, database).command("waiter")?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(Error::io("start", Path::new("the waiter")))?;
        Ok(Self(Some(child)))
    }

    fn has_ended(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Its answer when it has ended by itself.
    fn result(mut self) -> Result<RungResult> {
        const NAME: &str = "waiter";
        let Some(child) = self.0.take() else { return Err(Error::rung(NAME, "it has ended")) };
        let output =
            child.wait_with_output().map_err(|error| Error::rung(NAME, error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Error::rung(NAME, said.trim_end()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| Error::rung(NAME, error.to_string()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may be gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Request to the waiter, as `RungKind` writes it: that enum is above this file.
fn waiter_request(by: Waking, database: &Path) -> Request<Value> {
    let waiter = WakeupRung { by, process: WakeupProcess::Waiter, jobs: 0 };
    Request::new(json!({"queue": {"wakeup": waiter}}), database)
}

/// Table of the jobs.
fn table(rung: WakeupRung) -> &'static str {
    if rung.by == Waking::SqlPolls { check::SQL_TABLE } else { check::OUR_TABLE }
}

impl Described for WakeupRung {
    fn name(&self) -> String {
        let process = match self.process {
            WakeupProcess::Pusher => "wake-up",
            WakeupProcess::Waiter => "waiter",
        };
        format!("{process}, {}", self.by.name())
    }

    fn chart(&self) -> String {
        "a consumer in another process wakes up".to_owned()
    }

    fn label(&self) -> String {
        let label = match self.by {
            Waking::Waits => "waiting in the Queue's claim",
            Waking::Polls => "polling each ms, then the Queue's claim",
            Waking::SqlPolls => "polling each ms, SQL",
        };
        label.to_owned()
    }

    /// A consumer that polls our queue is what people do without its wake-ups.
    fn is_ours(&self) -> bool {
        self.by == Waking::Waits
    }

    fn safety(&self) -> Safety {
        Safety::Durable
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::Jobs)
    }

    fn room_mb(&self, _: u64) -> u64 {
        LOGS_MB + jobs_mb(self.jobs)
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        match self.process {
            WakeupProcess::Pusher => run(*self, given.database),
            WakeupProcess::Waiter => wait(*self, given.database),
        }
    }

    /// Those that warm up, and the one that ends it, are not counted.
    fn check(&self, _: &RungResult, found: &Found<'_>) -> Result<Left> {
        let journal_mode = Pragmas::of(self.safety()).journal_left();
        check::jobs(table(*self), [0; 3], None, journal_mode, found.database)
    }
}

/// Pushes, and measures when the other process had each job.
fn run(rung: WakeupRung, database: &Path) -> Result<RungResult> {
    if rung.by == Waking::SqlPolls {
        connect::close(sql::create(database, Safety::Durable, None)?)?;
    }
    let side = Side::open(rung, database)?;
    let watching = Connection::open(database).map_err(Error::sqlite("open the queue to watch"))?;
    let mut waiter = Waiter::start(rung, database)?;
    let (mut called_ns, mut answered_ns) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for n in 0..WARM_UP + rung.jobs {
        called_ns.push(now_ns());
        side.push(JobNumber(n))?;
        answered_ns.push(now_ns());
        wait_until_gone(rung, &watching, &mut waiter)?;
        thread::sleep(REST + REST.mul_f64(n.wrapping_mul(7919) as f64 % 1000.0 / 1000.0));
    }
    let wall_s = begun.elapsed().as_secs_f64();
    side.push(LAST)?;
    let seen = waiter.result()?;
    drop(watching);
    side.close()?;
    let took = |from_ns: &[i64]| latency_of(from_ns, &seen.claimed_at_ns);
    Ok(RungResult {
        wall_s,
        rows: rung.jobs,
        // The cost of waiting is the waiter's.
        cpu_s: seen.cpu_s,
        latency_us: took(&answered_ns),
        from_call_us: took(&called_ns),
        ..RungResult::default()
    })
}

/// Waits until the other process has acknowledged all that was pushed.
fn wait_until_gone(rung: WakeupRung, watching: &Connection, waiter: &mut Waiter) -> Result<()> {
    let query = format!("SELECT count(*) FROM {}", table(rung));
    let begun = Instant::now();
    loop {
        let mut statement =
            watching.prepare_cached(&query).map_err(Error::sqlite("watch the queue"))?;
        let jobs: i64 =
            statement.query_row([], |row| row.get(0)).map_err(Error::sqlite("watch the queue"))?;
        if jobs == 0 {
            return Ok(());
        }
        if waiter.has_ended() || begun.elapsed() > PATIENCE {
            return Err(Error::rung(rung.name(), "the waiter does not claim what was pushed"));
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// Percentiles of the times from those of the first list to those of the second, the warm-up left
/// out; `None` if a time is missing. A claim that was answered before the push was counts as 0.1 µs.
fn latency_of(from_ns: &[i64], to_ns: &[i64]) -> Option<Latency> {
    if from_ns.len() != to_ns.len() {
        return None;
    }
    let pairs = from_ns.iter().zip(to_ns).skip(WARM_UP as usize);
    let took_us: Vec<f64> = pairs.map(|(from, to)| ((to - from) as f64 / 1e3).max(0.1)).collect();
    latency(&took_us)
}

/// The waiter: claims and acknowledges until the last job comes, and notes when it had
/// the answer of each claim.
fn wait(rung: WakeupRung, database: &Path) -> Result<RungResult> {
    let side = Side::open(rung, database)?;
    let before = Usage::now();
    let claimed_at_ns = match &side {
        Side::Ours(opened) if rung.by == Waking::Waits => wait_in_claims(opened)?,
        Side::Ours(opened) => poll(&PolledQueue::new(opened, database)?)?,
        Side::Sql(connection) => poll(&PolledTable(connection))?,
    };
    let used = Usage::now().since(before);
    side.close()?;
    let rows = claimed_at_ns.len() as u64;
    Ok(RungResult { rows, claimed_at_ns, ..RungResult::of(used) })
}

/// The Queue's own way.
fn wait_in_claims(opened: &Opened) -> Result<Vec<i64>> {
    let options = ClaimOptions::new().wait(PATIENCE);
    let mut claimed_at_ns = Vec::new();
    loop {
        let claims = opened.queue.claim_with(&options)?;
        let now_ns = now_ns();
        let [claim] = &claims[..] else { return Err(nothing_came()) };
        opened.queue.ack(claim.token)?;
        if ours::number_of(&claim.payload) == Some(LAST) {
            return Ok(claimed_at_ns);
        }
        claimed_at_ns.push(now_ns);
    }
}

fn nothing_came() -> Error {
    Error::rung("waiter", "no job came")
}

/// Something that is asked each millisecond whether it has changed.
trait Polled {
    /// A number that changes with each commit of another connection.
    fn data_version(&self) -> Result<i64>;

    /// Claims and acknowledges a job; which, and when the claim was answered.
    fn take(&self) -> Result<Option<(JobNumber, i64)>>;
}

fn poll(polled: &impl Polled) -> Result<Vec<i64>> {
    let mut claimed_at_ns = Vec::new();
    let mut last_job_at = Instant::now();
    loop {
        // Asked before the claim, so that what comes in between is seen.
        let version = polled.data_version()?;
        if let Some((job, now_ns)) = polled.take()? {
            if job == LAST {
                return Ok(claimed_at_ns);
            }
            claimed_at_ns.push(now_ns);
            last_job_at = Instant::now();
            continue;
        }
        while polled.data_version()? == version {
            if last_job_at.elapsed() > PATIENCE {
                return Err(nothing_came());
            }
            thread::sleep(BETWEEN_POLLS);
        }
    }
}

fn data_version(connection: &Connection) -> Result<i64> {
    let asked = connection
        .prepare_cached("PRAGMA data_version")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
    asked.map_err(Error::sqlite("ask for the data version"))
}

/// The Queue, polled by a connection beside it.
struct PolledQueue<'o> {
    opened: &'o Opened,
    polling: Connection,
}

impl<'o> PolledQueue<'o> {
    fn new(opened: &'o Opened, database: &Path) -> Result<Self> {
        let polling = Connection::open(database).map_err(Error::sqlite("open it to poll"))?;
        Ok(Self { opened, polling })
    }
}

impl Polled for PolledQueue<'_> {
    fn data_version(&self) -> Result<i64> {
        data_version(&self.polling)
    }

    fn take(&self) -> Result<Option<(JobNumber, i64)>> {
        let Some(claim) = self.opened.queue.claim()? else { return Ok(None) };
        let now_ns = now_ns();
        self.opened.queue.ack(claim.token)?;
        Ok(ours::number_of(&claim.payload).map(|job| (job, now_ns)))
    }
}

/// A table of SQLite's, polled by the connection that claims.
struct PolledTable<'c>(&'c Connection);

impl Polled for PolledTable<'_> {
    fn data_version(&self) -> Result<i64> {
        data_version(self.0)
    }

    fn take(&self) -> Result<Option<(JobNumber, i64)>> {
        let (mut claimed, mut leased) = (Vec::new(), Vec::new());
        sql::claim(self.0, 1, &mut claimed, &mut leased)
            .map_err(Error::sqlite("claim the rival's job"))?;
        let now_ns = now_ns();
        let [job] = claimed[..] else { return Ok(None) };
        let is_whole = sql::acknowledge(self.0, &leased)
            .map_err(Error::sqlite("acknowledge the rival's job"))?;
        if is_whole { Ok(Some((job, now_ns))) } else { Err(sql::lease_is_over()) }
    }
}
