//! Durable jobs in a table, without a server. Any number of processes share it, and nothing is
//! lost.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("app.db");
//! use leafpress::queue::{Job, Queue};
//! use leafpress::writer::Writer;
//!
//! let writer = Writer::builder(&path).open()?;
//! let mail = Queue::open(&writer, "mail")?;
//!
//! // On disk when this returns.
//! mail.push(Job::json(&("welcome", "ann@example.org"))?)?;
//!
//! // A claim is a lease: if this process dies, the job comes again.
//! while let Some(claim) = mail.claim()? {
//!     println!("{:?}", claim.payload);
//!     mail.ack(claim.token)?;
//! }
//! # Ok::<(), leafpress::Error>(())
//! ```
//!
//! A job that belongs to a row exists exactly if that row does:
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("app.db");
//! # use leafpress::queue::{Job, Queue};
//! # use leafpress::writer::Writer;
//! # let writer = Writer::builder(&path).open()?;
//! # writer.execute_batch("CREATE TABLE customer(name TEXT)")?;
//! # let mail = Queue::open(&writer, "mail")?;
//! let queue = mail.clone();
//! writer.transaction(move |tx| {
//!     tx.execute("INSERT INTO customer VALUES (?1)", ["Ann"])?;
//!     queue.push_in(tx, Job::json(&("welcome", "Ann"))?)
//! })?;
//! # assert!(mail.claim()?.is_some());
//! # Ok::<(), leafpress::Error>(())
//! ```
//!
//! ```text
//! push ─► ready ──claim──► leased ──ack──► done (kept for a time, or gone)
//!   │      ▲ ▲               │ └─fail, or no attempts left─► dead
//!   │      │ └── lease ended,┤
//!   │      │     release     └─nack─► delayed ─┐
//!   ├─► delayed ── due ─┘ ◄────────────────────┘
//!   └─► blocked ── the group's turn ─► ready
//! ```
//!
//! 1. At least once: a job that was pushed is delivered until it is acked, dead or
//!    removed, even if processes die meanwhile.
//! 2. A job that was acked is never delivered again.
//! 3. What push has answered is as durable as the writer's profile promises.
//! 4. Jobs of an ordering group run in the order of their pushes.
//! 5. No two jobs hold one unique key at a time.
//! 6. A child of `fork` never touches its parent's queues: each call there is
//!    [`Forked`](crate::ErrorKind::Forked).
//!
//! The operations are plain functions over `Work`, one file each:
//! `push`, `claim`, `settle` (ack, nack, fail, release, extend), and `due` for
//! what time does. `group`, `key` and `rate` keep their part of the tables right.
//! Each operation is one call of the [`Writer`], and so shares commits with all
//! others.
//!
//! Must never: deliver what is not committed, or rely on the clocks of processes
//! to agree for anything but when.

#[macro_use]
mod states;

mod admin;
mod claim;
mod clock;
mod due;
#[doc(hidden)]
pub mod elsewhere;
mod group;
mod inspect;
mod job;
mod key;
mod latest;
mod pending;
mod push;
mod rate;
mod schedule;
mod schema;
mod session;
mod settings;
mod settle;
mod stats;
mod transaction;
mod transaction_hooks;
mod view;
mod wakeup;
mod worker;

use std::cmp::Ordering;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

#[doc(hidden)]
pub use self::admin::Affected;
pub use self::admin::Purge;
pub use self::clock::{Clock, ManualClock};
pub use self::inspect::{Attempt, AttemptOutcome, JobInfo, ListOptions, names};
#[doc(hidden)]
pub use self::job::json_fault;
pub use self::job::{
    Claim, ClaimOptions, Job, JobState, LeaseLost, Nack, Payload, Pushed, Retry, Token, UniqueFor,
};
pub use self::schedule::{Missed, Schedule, ScheduleInfo};
pub use self::settings::{Backoff, Rate, Settings};
pub use self::stats::{Events, JobCounts, Limits, QueueStats, Times};
pub use self::transaction::{Committed, QueueTransaction};
pub use self::view::QueuesView;
pub use self::worker::{JobContext, Outcome, Stop, WorkReport, Worker};
pub use crate::times::UnixTime;

use self::claim::Found;
use self::pending::{Caller, now};
use self::session::{Session, Work, failed};
use crate::error::{Error, Result};
use crate::fork::{OfProcess, Process};
use crate::vfs::kept::KeepingConnection;
use crate::writer::{Ticket, Transaction, Writer};

const FIND_QUEUE: &str = "SELECT id FROM leafpress_queue WHERE name = ?1";

/// One named queue of a database. Clones are the same queue; any number of
/// threads and processes may use it.
///
/// Each process opens it for itself: in a child of `fork`, each call to a queue that
/// its parent opened is answered [`Forked`](crate::ErrorKind::Forked). Jobs that the parent
/// has claimed stay the parent's.
#[derive(Debug, Clone)]
pub struct Queue {
    writer: Writer,
    session: OfProcess<Arc<Session>>,
    id: i64,
    name: Arc<str>,
}

// All that changes in it is in the database, or behind a lock that no panic leaves half changed.
impl UnwindSafe for Queue {}
impl RefUnwindSafe for Queue {}

/// Opens a [`Queue`].
#[must_use = "nothing is opened before `open`"]
pub struct QueueBuilder {
    writer: Writer,
    name: String,
    change: Option<SettingsChange>,
    clock: Option<Clock>,
    must_exist: bool,
}

type SettingsChange = Box<dyn FnMut(&mut Settings) + Send>;

impl fmt::Debug for QueueBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl QueueBuilder {
    /// Changes the queue's settings as it is opened. They stand in the database and
    /// hold for all processes.
    pub fn settings(mut self, change: impl FnMut(&mut Settings) + Send + 'static) -> Self {
        self.change = Some(Box::new(change));
        self
    }

    /// Takes this for the time; for tests. All queues of a writer have one clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Does not make the queue if it is missing.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// Opens the queue, and makes it (and its tables) if it is missing.
    ///
    /// # Errors
    /// If the tables are of a later version than this code knows, if the settings
    /// are unusable, or if the queue is missing and must not be. Nothing is changed then.
    pub fn open(self) -> Result<Queue> {
        let Self { writer, name, mut change, clock, must_exist } = self;
        if name.is_empty() {
            return Err(Error::misuse("a queue needs a name").on_disk("nothing was changed"));
        }
        let session = writer.hooks(Session::new)?;
        if let Some(clock) = clock {
            session.set_clock(clock)?;
        }
        let (inner, wanted) = (Arc::clone(&session), name.clone());
        let session = OfProcess::new("queue", session);
        let id = writer.internal(move |connection| {
            let work = Work::new(connection, &inner);
            let id = find_or_make(&work, &wanted, must_exist)?;
            if let Some(change) = &mut change {
                configure(&work, id, change)?;
            }
            due::measure_if_set_back(&work)?;
            Ok(id)
        })?;
        Ok(Queue { writer, session, id, name: name.into() })
    }
}

fn find_or_make(work: &Work<'_>, name: &str, must_exist: bool) -> Result<i64> {
    if must_exist && schema::version(work.connection)? == 0 {
        return Err(no_such_queue(name));
    }
    schema::bring_up(work.connection)?;
    if let Some(id) = find_queue(work, name)? {
        return Ok(id);
    }
    if must_exist {
        return Err(no_such_queue(name));
    }
    work.execute("INSERT INTO leafpress_queue(name) VALUES (?1)", [name])?;
    Ok(work.connection.last_insert_rowid())
}

fn find_queue(work: &Work<'_>, name: &str) -> Result<Option<i64>> {
    work.first(FIND_QUEUE, [name], |row| row.get(0))
}

fn no_such_queue(name: &str) -> Error {
    Error::not_found("queue", name, format!("there is no queue '{name}' in this database"))
        .on_disk("nothing was changed")
        .to_do("open it without must_exist, or push to it, which makes it")
}

fn configure(
    work: &Work<'_>,
    queue: i64,
    change: &mut (impl FnMut(&mut Settings) + ?Sized),
) -> Result<Settings> {
    let before = work.row(queue)?;
    let mut settings = before.settings.clone();
    let process = Process::current();
    change(&mut settings);
    process.check("queue")?;
    settings.check()?;
    if settings != before.settings {
        settings.store(work.connection, queue).map_err(failed)?;
        work.forget_row(queue);
        let row = work.row(queue)?;
        // Before their slots are given or taken, by due times of another rate.
        if settings.group_rate != before.settings.group_rate {
            claim::let_go(work, &row)?;
        }
        match settings.group_concurrency.cmp(&before.settings.group_concurrency) {
            Ordering::Greater => group::fill_all(work, &row)?,
            Ordering::Less => group::narrow_all(work, &row)?,
            Ordering::Equal => {}
        }
        let kept = |settings: &Settings| (settings.keep_done, settings.keep_dead);
        if kept(&settings) != kept(&before.settings) {
            settle::keep_anew(work, queue)?;
        }
        rate::changed(work, &row, &before.settings)?;
        // Limits may be wider, and sleepers must look at due times again.
        work.wake(&row, u32::MAX);
    }
    Ok(settings)
}

impl Queue {
    /// The queue of this name in the writer's database; it is made if it is missing.
    ///
    /// # Errors
    /// As [`QueueBuilder::open`].
    pub fn open(writer: &Writer, name: &str) -> Result<Self> {
        Self::builder(writer, name).open()
    }

    /// A builder for the queue of this name.
    pub fn builder(writer: &Writer, name: &str) -> QueueBuilder {
        QueueBuilder {
            writer: writer.clone(),
            name: name.to_owned(),
            change: None,
            clock: None,
            must_exist: false,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The writer that carries out its operations.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Its settings, as they stand in the database now.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn settings(&self) -> Result<Settings> {
        self.settings_async().wait()
    }

    /// Changes its settings, for all processes. Jobs that are under way keep the
    /// lease that they have. `change` may be called again.
    ///
    /// # Errors
    /// If they would make the queue unusable: they stay as they were.
    pub fn configure(
        &self,
        change: impl FnMut(&mut Settings) + Send + 'static,
    ) -> Result<Settings> {
        self.configure_async(change).wait()
    }

    /// Pushes a job and waits until it is on disk.
    ///
    /// # Errors
    /// As [`Writer::execute`]. There is no job then, but after
    /// [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown), when it is not known; with a
    /// unique key it can be pushed again without harm.
    pub fn push(&self, job: impl Into<Job>) -> Result<Pushed> {
        self.push_async(job).wait()
    }

    /// As [`push`](Self::push), without waiting: the ticket is answered once the job is on disk.
    ///
    /// # Errors
    /// If the writer is closed.
    pub fn submit_push(&self, job: impl Into<Job>) -> Result<Ticket<Pushed>> {
        self.push_async(job).submit()
    }

    /// Pushes all of these jobs, in order, or none of them.
    ///
    /// # Errors
    /// As [`push`](Self::push): none of them is there.
    pub fn push_many(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<Pushed>> {
        self.push_many_async(jobs).wait()
    }

    /// Pushes a job inside a transaction of the same [`Writer`]: it exists exactly
    /// if all else that the closure does is committed.
    ///
    /// # Errors
    /// If the transaction is one of another writer, or SQLite refuses. Give the
    /// error on from the closure to undo all.
    pub fn push_in(&self, transaction: &Transaction<'_>, job: impl Into<Job>) -> Result<Pushed> {
        let (job, session) = (job.into(), self.session.get()?);
        transaction.internal(session, |connection| {
            let work = Work::new(connection, session);
            let pushed = push::insert(&work, &*work.row(self.id)?, &job)?;
            latest::note(&work)?;
            Ok(pushed)
        })
    }

    /// Pushes a job on a connection of the application's own, inside a transaction
    /// that it has begun there (best with BEGIN IMMEDIATE). The queue must exist.
    /// Waiters see the job within a second, or at once if [`wake`](Self::wake) is
    /// called after the commit.
    ///
    /// # Errors
    /// If no transaction is open, if there is no such queue, or SQLite refuses; what
    /// the transaction did before stays in it.
    pub fn push_on(connection: &Connection, queue: &str, job: impl Into<Job>) -> Result<Pushed> {
        if connection.is_autocommit() {
            return Err(Error::misuse("no transaction is open on this connection")
                .on_disk("nothing was changed")
                .to_do("begin one, or use `push`, which has its own"));
        }
        let work = Work::outside(connection);
        if schema::version(connection)? == 0 {
            return Err(no_such_queue(queue));
        }
        schema::bring_up(connection)?;
        let id = find_queue(&work, queue)?.ok_or_else(|| no_such_queue(queue))?;
        let pushed = push::insert(&work, &*work.row(id)?, &job.into())?;
        latest::note(&work)?;
        Ok(pushed)
    }

    /// Tells those who wait, in all processes, to look for jobs: after a commit
    /// that leafpress did not see. Does nothing in a child of `fork`.
    pub fn wake(&self) {
        if let Some(session) = self.session.here() {
            session.wake_ups().wake(&self.name, u32::MAX);
        }
    }

    /// Claims the next job, if there is one, for the lease that the settings say.
    ///
    /// # Errors
    /// As [`Writer::execute`]: nothing is claimed then. (If the outcome is unknown
    /// and it was, the job comes again after its lease.)
    pub fn claim(&self) -> Result<Option<Claim>> {
        Ok(self.claim_with(&ClaimOptions::new())?.pop())
    }

    /// Claims jobs, and waits for one if asked to. It may return fewer jobs than wanted, but none
    /// only if there is none (or none in time).
    ///
    /// # Errors
    /// As [`claim`](Self::claim); [`Stopped`](crate::ErrorKind::Stopped) if the writer is
    /// closed while it waits.
    pub fn claim_with(&self, options: &ClaimOptions) -> Result<Vec<Claim>> {
        now(self.claim_by(Caller::Thread, options))
    }

    fn look(&self, options: &ClaimOptions) -> Result<Found> {
        self.look_async(options).wait()
    }

    /// Acks a job: it is done, and never delivered again.
    ///
    /// # Errors
    /// [`LeaseLost`](crate::ErrorKind::LeaseLost) if the token is no good any more,
    /// [`NoSuchClaim`](crate::ErrorKind::NoSuchClaim) if it was never given, and as
    /// [`Writer::execute`]. Nothing is changed then; if the outcome is unknown, the job may
    /// come again.
    pub fn ack(&self, token: Token) -> Result<()> {
        self.ack_async(token).wait()
    }

    /// Acks a job with its result, which is kept as long as [`keep_done`](Settings::keep_done)
    /// says.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn ack_with(&self, token: Token, result: impl Into<Payload>) -> Result<()> {
        self.ack_with_async(token, result).wait()
    }

    /// Acks many jobs in one transaction, each answered for itself, in order.
    ///
    /// # Errors
    /// As [`Writer::execute`]: then none is acked. A token that is no good is an
    /// error in its place only.
    pub fn ack_many(&self, tokens: &[Token]) -> Result<Vec<Result<()>>> {
        self.ack_many_async(tokens).wait()
    }

    /// Gives back a job that did not succeed: it is tried again after a while, or is a dead letter
    /// if that was its last attempt.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn nack(&self, token: Token, nack: Nack) -> Result<Retry> {
        self.nack_async(token, nack).wait()
    }

    /// Makes a job a dead letter, with this reason.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn fail(&self, token: Token, reason: &str) -> Result<()> {
        self.fail_async(token, reason).wait()
    }

    /// Gives the job back, to be claimed again at once; that was no attempt.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn release(&self, token: Token) -> Result<()> {
        self.release_async(token).wait()
    }

    /// Lets the lease end this long after now; returns the time of its end.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn extend(&self, token: Token, lease: Duration) -> Result<UnixTime> {
        self.extend_async(token, lease).wait()
    }

    /// Extends many leases in one transaction, each answered for itself, in order.
    ///
    /// # Errors
    /// As [`ack_many`](Self::ack_many).
    pub fn extend_many(&self, tokens: &[Token], lease: Duration) -> Result<Vec<Result<UnixTime>>> {
        self.extend_many_async(tokens, lease).wait()
    }

    /// An operation as a call of the writer.
    fn operation<T, R>(
        &self,
        mut run: R,
    ) -> Result<impl FnMut(&KeepingConnection) -> Result<T> + Send + 'static + use<T, R>>
    where
        R: FnMut(&Work<'_>, i64) -> Result<T> + Send + 'static,
    {
        let (session, queue) = (Arc::clone(self.session.get()?), self.id);
        Ok(move |connection: &KeepingConnection| {
            let work = Work::new(connection, &session);
            let value = run(&work, queue)?;
            stats::write_if_due(&work)?;
            latest::note(&work)?;
            Ok(value)
        })
    }
}

/// The SQL of all operations that are run all the time, by name: for tests of
/// their query plans.
#[doc(hidden)]
pub fn statements() -> Vec<(&'static str, &'static str)> {
    let all: [&[(&str, &str)]; 11] = [
        &[("find a queue", FIND_QUEUE)],
        &session::STATEMENTS,
        &push::STATEMENTS,
        &claim::STATEMENTS,
        &settle::STATEMENTS,
        &due::STATEMENTS,
        &group::STATEMENTS,
        &key::STATEMENTS,
        &rate::STATEMENTS,
        &schedule::STATEMENTS,
        &latest::STATEMENTS,
    ];
    all.concat()
}

#[cfg(test)]
mod tests;
