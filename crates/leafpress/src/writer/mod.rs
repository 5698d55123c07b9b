//! Many callers, one commit. Small transactions come from many threads, each is durable when it
//! is answered, and a group of them costs one sync.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("app.db");
//! use leafpress::writer::Writer;
//!
//! let writer = Writer::builder(&path).open()?;
//! writer.execute_batch("CREATE TABLE event(id INTEGER PRIMARY KEY, what TEXT)")?;
//!
//! // From any thread; answered when it is on disk.
//! let done = writer.execute("INSERT INTO event(what) VALUES (?1)", ["started"])?;
//! assert_eq!(done.rows_changed, 1);
//!
//! // Without waiting: a ticket, to be waited for here or awaited.
//! let ticket = writer.submit("INSERT INTO event(what) VALUES (?1)", ["stopped"])?;
//! ticket.wait()?;
//!
//! // Several statements, and reads among them, as one transaction.
//! let count = writer.transaction(|tx| {
//!     tx.execute("DELETE FROM event WHERE what = ?1", ["started"])?;
//!     tx.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0))
//! })?;
//! assert_eq!(count, Some(1));
//! writer.close()?;
//! # Ok::<(), leafpress::Error>(())
//! ```
//!
//! ```text
//! callers ─► queue ─► group ─► CommitTarget ─► answers
//!                                 └ BEGIN, call, call, …, COMMIT   (gate)   checkpointer
//! ```
//!
//! 1. A call that is answered with success is as durable as the
//!    [`Profile`](crate::Profile) promises.
//! 2. A call that is answered with an error has left nothing in the database,
//!    unless the error says that the outcome is unknown.
//! 3. One call's failure is never another's.
//! 4. Calls take effect in the order in which they were submitted; the calls
//!    of one thread in the order in which it made them.
//! 5. Every call that was accepted is answered; closing and dropping wait for that.
//! 6. A child of `fork` never touches its parent's writer: each call there is
//!    [`Forked`](crate::ErrorKind::Forked), and dropping does nothing. A new writer
//!    of the same database works.
//! 7. No call is answered with success once its database, or the log, was deleted, moved or
//!    replaced under the writer.
//! 8. A call that is interrupted, or runs for too long, fails alone; no other call and no commit
//!    is stopped in its place.
//!
//! Must never: answer before the commit, or lose an accepted call without an error.

mod alone;
mod backup;
mod batch;
mod builder;
mod busy;
mod call;
mod call_queue;
mod caught;
mod driving;
mod engine;
mod group_event;
mod guard;
mod insert_many;
mod internal_call;
mod interrupt;
mod local;
mod log_room;
mod maintenance;
mod on_connect;
mod open_journal;
mod pending;
mod place;
mod prometheus;
mod readers;
mod refused;
mod request;
mod shared;
mod statement;
mod stats;
mod target;
mod ticket;
mod transaction;
mod transaction_hooks;

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use self::backup::BackupProgress;
pub use self::builder::WriterBuilder;
pub use self::call::{Answer, Call, Closure, ClosureValue, InternalCall};
pub(crate) use self::caught::{caught, wake};
pub use self::driving::after_answers;
pub use self::insert_many::InsertMany;
pub use self::maintenance::Maintenance;
pub use self::pending::PendingCall;
pub use self::readers::{OldestReader, Reader};
pub use self::request::{Batch, Executed, IntoParameters, Parameters, Statement};
pub use self::shared::SharingStats;
pub use self::stats::{Bucket, GroupSizes, Latency, WriterStats};
pub use self::target::{CommitTarget, Group};
pub use self::ticket::Ticket;
pub use self::transaction::{Returned, Transaction};
pub(crate) use self::transaction_hooks::TransactionHooks;

use self::call_queue::{CallQueue, CarriedOutBy, Grouping};
use self::caught::Caught;
use self::engine::{End, Engine};
use self::local::LocalCounts;
use self::readers::ReaderPool;
use self::shared::Sharing;
use self::stats::Recorder;
use self::ticket::{Take, waits_in_closure};
use self::transaction_hooks::TransactionHooksPlace;
use crate::checkpoint::Checkpointer;
use crate::error::{Error, ErrorKind, Result};
use crate::fork::OfProcess;
use crate::profile::{InForce, Locking};
use crate::sync::lock;

/// Writes small transactions of many callers to one database. Clones share it.
///
/// When the last clone is dropped, what was accepted is committed first; errors
/// of that are only logged, so call [`close`](Self::close) to learn of them.
///
/// A writer belongs to the process that opened it. In a child of `fork` each call is
/// answered [`Forked`](crate::ErrorKind::Forked), at once and without any effect on
/// the parent. Methods that return no `Result` say in their own documentation what they do
/// there. Dropping the writer does nothing. Open a new writer in the child, after the fork.
#[derive(Debug, Clone)]
pub struct Writer {
    shared: Arc<OfProcess<Shared>>,
    /// Longest time that a call of this clone may run; `None` for no limit.
    call_limit: Option<Duration>,
}

// A panic of a closure, a destructor or a waker is caught where it runs, and that of a caller leaves
// its call whole: no clone is ever seen half changed.
impl UnwindSafe for Writer {}
impl RefUnwindSafe for Writer {}

#[derive(Debug)]
struct Shared {
    queue: Arc<CallQueue>,
    engine: Arc<Mutex<Engine>>,
    recorder: Arc<Recorder>,
    /// The parts that only a writer of a database in this process has.
    local: Option<Local>,
    /// The outcome, once the thread has ended.
    end: Arc<End>,
    /// The writer's thread, until the first caller closes the writer.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The readers, the checkpointer and the settings of a database in this process.
#[derive(Debug)]
struct Local {
    in_force: InForce,
    readers: ReaderPool,
    /// Present under profiles with a write-ahead log, until the writer is closed.
    checkpointer: Arc<Mutex<Option<Checkpointer>>>,
    counts: Arc<LocalCounts>,
    /// The hooks of each transaction, if there are any.
    hooks: TransactionHooksPlace,
    /// If it was asked for: the writers that share the database, while this one is open, or the
    /// reason why it works by itself.
    sharing: Option<Result<Weak<Sharing>, String>>,
}

impl Local {
    /// Ends readers and checkpoints, after the writer's connection is closed.
    fn shut_down(&self) -> engine::ShutDown {
        let (readers, checkpointer) = (self.readers.clone(), Arc::clone(&self.checkpointer));
        Box::new(move || {
            readers.close();
            let checkpointer = lock(&checkpointer).take();
            checkpointer.map_or(Ok(()), Checkpointer::stop)
        })
    }
}

/// Accepted calls that a close still waits for.
#[derive(Debug, Clone, Copy)]
enum Closing {
    /// All accepted calls.
    All,
    /// Calls that end until then, when the limit ends.
    Until(Instant, Duration),
}

/// Time after the limit of a close: for statements that are being undone, and for the last
/// checkpoint.
const GRACE: Duration = Duration::from_secs(1);

impl Writer {
    /// A builder for a writer of the database at `path`.
    pub fn builder(path: impl Into<PathBuf>) -> WriterBuilder {
        WriterBuilder::new(path.into())
    }

    /// A writer whose groups are committed elsewhere: a place that is not a
    /// database of this process. It has no readers.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn with_target(target: impl CommitTarget + 'static, queue_capacity: usize) -> Result<Self> {
        let grouping = Grouping { calls_max: queue_capacity.max(1), delay_max: Duration::ZERO };
        let queue = CallQueue::new(queue_capacity, Arc::default());
        WriterBuilder::start(Box::new(target), queue, grouping, None)
    }

    /// A clone whose calls may run for at most `limit` each, or without a limit
    /// ([`WriterBuilder::call_limit`] tells what happens then). A queue that is opened on it has
    /// that limit too.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// use std::time::Duration;
    /// use leafpress::ErrorKind;
    /// use leafpress::writer::Writer;
    ///
    /// let writer = Writer::builder(&path).open()?;
    /// let hurried = writer.with_call_limit(Some(Duration::from_millis(50)));
    /// let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    ///                SELECT count(*) FROM n";
    /// let error = hurried.execute(endless, ()).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::TimedOut { .. }));
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    #[must_use]
    pub fn with_call_limit(&self, limit: Option<Duration>) -> Self {
        Self { shared: Arc::clone(&self.shared), call_limit: limit }
    }

    /// Stops the call that is carried out now, whichever caller made it. Nothing of it is written, it is
    /// answered [`Interrupted`](crate::ErrorKind::Interrupted), and all others are carried out.
    /// [`Ticket::interrupt`] stops one certain call.
    ///
    /// Returns false if none is carried out now, and in a child of `fork`. True does not say
    /// that the call fails: it may end before it is stopped. BEGIN and COMMIT are never
    /// stopped.
    pub fn interrupt(&self) -> bool {
        self.shared.here().is_some_and(|shared| shared.queue.interrupts().ask_running())
    }

    /// Carries out one statement as a transaction of its own, and waits until
    /// it is committed. Rows that it returns are dropped: for RETURNING use
    /// [`transaction`](Self::transaction).
    ///
    /// # Errors
    /// SQLite's error for the statement; [`Refused`](crate::ErrorKind::Refused) for BEGIN and its
    /// kin and for settings of the connection; [`Busy`](crate::ErrorKind::Busy),
    /// [`Stopped`](crate::ErrorKind::Stopped),
    /// [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown). Nothing of the call is in the database
    /// then, except that the outcome is not known after the last of these.
    pub fn execute(
        &self,
        sql: impl AsRef<str>,
        parameters: impl IntoParameters,
    ) -> Result<Executed> {
        self.carry_out(execute_call(sql.as_ref(), parameters)?, executed)
    }

    /// Submits a statement as [`execute`](Self::execute) does, without waiting for the commit. It
    /// waits for room if the queue is full.
    ///
    /// # Errors
    /// If the writer is closed, or a parameter cannot be a value in SQLite.
    pub fn submit(
        &self,
        sql: impl AsRef<str>,
        parameters: impl IntoParameters,
    ) -> Result<Ticket<Executed>> {
        self.submit_call(execute_call(sql.as_ref(), parameters)?, executed)
    }

    /// Does as [`submit`](Self::submit), and never waits.
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit), and [`QueueFull`](crate::ErrorKind::QueueFull).
    pub fn try_submit(
        &self,
        sql: impl AsRef<str>,
        parameters: impl IntoParameters,
    ) -> Result<Ticket<Executed>> {
        let shared = self.shared.get()?;
        let call = execute_call(sql.as_ref(), parameters)?;
        shared.queue.try_push((call, self.call_limit), executed).inspect_err(|error| {
            if matches!(error.kind(), ErrorKind::QueueFull { .. }) {
                shared.recorder.queue_full();
            }
        })
    }

    /// Carries out several statements as one transaction: a text of SQL without
    /// parameters, or a [`Batch`].
    ///
    /// # Errors
    /// As [`execute`](Self::execute): all of them are undone.
    pub fn execute_batch(&self, batch: impl Into<Batch>) -> Result<()> {
        self.carry_out(Call::Batch(batch.into()), done)
    }

    /// Does as [`execute_batch`](Self::execute_batch), without waiting for the commit.
    ///
    /// # Errors
    /// If the writer is closed.
    pub fn submit_batch(&self, batch: impl Into<Batch>) -> Result<Ticket<()>> {
        self.submit_call(Call::Batch(batch.into()), done)
    }

    /// Runs `body` inside a transaction, which may read and write, and returns its value once the
    /// transaction is committed.
    ///
    /// If it returns an error (of SQLite, or [`Error::aborted`] of its own) or panics, all that it
    /// did is undone. **It may be called again** if another call of its group fails, so what it
    /// does outside of the database should bear that. No call to a writer can be waited for in it,
    /// neither to this one nor to another: it is refused as [`Misuse`](crate::ErrorKind::Misuse),
    /// and nothing of it is done. What it [submits](Self::submit) is a call of its own, which comes
    /// after it and stays if the closure fails.
    ///
    /// It runs on the writer's thread, or on that of any caller that waits for its own call, so it
    /// should count on no thread: neither on its stack and its thread-local variables nor on its
    /// runtime. That holds for closures that are submitted or awaited too.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), the closure's own, and [`Panicked`](crate::ErrorKind::Panicked).
    pub fn transaction<T: Send + 'static>(
        &self,
        body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.carry_out(closure_call(body), value)
    }

    /// Does as [`transaction`](Self::transaction), without waiting for the commit. The closure runs on
    /// [some thread](Self::transaction).
    ///
    /// # Errors
    /// If the writer is closed.
    pub fn submit_transaction<T: Send + 'static>(
        &self,
        body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<Ticket<T>> {
        self.submit_call(closure_call(body), value)
    }

    /// Inserts many rows into a table as one transaction, sorted by the table's
    /// key first, since rows in order find their pages still in memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute): no row is inserted. A row that breaks a
    /// rule is named by its number.
    pub fn insert_many<R: IntoParameters>(
        &self,
        table: &str,
        columns: &[&str],
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64> {
        let request = request::insert_many_request(table, columns, rows)?;
        self.carry_out(Call::InsertMany(request), inserted)
    }

    /// Does as [`insert_many`](Self::insert_many), without waiting for the commit.
    ///
    /// # Errors
    /// If the writer is closed, or a row has more or fewer values than there are columns.
    pub fn submit_insert_many<R: IntoParameters>(
        &self,
        table: &str,
        columns: &[&str],
        rows: impl IntoIterator<Item = R>,
    ) -> Result<Ticket<u64>> {
        let request = request::insert_many_request(table, columns, rows)?;
        self.submit_call(Call::InsertMany(request), inserted)
    }

    /// A read-only connection from the writer's pool, to which it returns when it is dropped. It
    /// sees committed data only. In statistics it has the name of the place in the program that
    /// asked for it.
    ///
    /// # Errors
    /// If all readers are out and none comes back in time; if the writer has stopped because its
    /// database was moved or replaced; if the writer has no database in this process, or holds it alone ([`Locking::Exclusive`]).
    #[track_caller]
    pub fn reader(&self) -> Result<Reader> {
        self.readers()?.get(None)
    }

    /// Does as [`reader`](Self::reader), with a given name.
    ///
    /// # Errors
    /// As [`reader`](Self::reader).
    pub fn reader_named(&self, name: &str) -> Result<Reader> {
        self.readers()?.get(Some(name))
    }

    /// The settings in force on the writer's connection; none if the groups are committed
    /// elsewhere. In a child of `fork`: those that were in force in its parent.
    pub fn in_force(&self) -> Option<&InForce> {
        self.shared.in_any_process().local.as_ref().map(|local| &local.in_force)
    }

    /// Numbers of the writer's work so far. In a child of `fork` all numbers are 0.
    pub fn stats(&self) -> WriterStats {
        let Some(shared) = self.shared.here() else { return WriterStats::default() };
        let mut stats = shared.recorder.snapshot();
        let (depth, depth_max) = shared.queue.depth();
        (stats.queue_depth, stats.queue_depth_max) = (depth as u64, depth_max as u64);
        if let Some(local) = &shared.local {
            stats.oldest_reader = local.readers.oldest();
            stats.sharing = match &local.sharing {
                Some(Ok(sharing)) => sharing.upgrade().map(|sharing| sharing.stats()),
                Some(Err(why_not)) => Some(SharingStats::alone(why_not)),
                None => None,
            };
            stats.checkpoints = lock(&local.checkpointer).as_ref().map(Checkpointer::stats);
            if let Some(checkpoints) = &stats.checkpoints {
                // The log may have been cut since the last commit.
                stats.wal_bytes = stats.wal_bytes.min(checkpoints.wal_bytes);
            }
        }
        stats
    }

    /// Reason why the writer takes no calls any more; `None` if it does. There always is one in a
    /// child of `fork`.
    pub fn stopped(&self) -> Option<String> {
        match self.shared.get() {
            Ok(shared) => shared.queue.closed(),
            Err(forked) => Some(forked.to_string()),
        }
    }

    /// Takes no further call, waits until all that were accepted are answered,
    /// copies the write-ahead log into the database and closes it. Clones of
    /// this writer are closed with it, and a second close waits for the first.
    ///
    /// # Errors
    /// If closing failed, or the writer had stopped because of a failure, so that calls
    /// were refused or their outcome is unknown. What was answered with success is safe all
    /// the same. [`ErrorKind::Misuse`] in a closure inside a transaction, where nothing is done.
    pub fn close(self) -> Result<()> {
        self.shared.get()?.close(Closing::All)
    }

    /// Closes as [`close`](Self::close) does, within `limit`: the call that runs then is stopped, those
    /// that wait are refused with [`Stopped`](crate::ErrorKind::Stopped), and the database is
    /// closed. It returns a second after `limit` at the latest, whatever goes on then.
    ///
    /// # Errors
    /// As [`close`](Self::close), and [`TimedOut`](crate::ErrorKind::TimedOut) if a call was
    /// stopped or refused, or something goes on: a closure that does not come back keeps the
    /// database open until it does, and the last checkpoint until it is done. The error says which
    /// of them it is. A checkpoint that goes on loses nothing: what it has not copied is in the log.
    pub fn close_timeout(self, limit: Duration) -> Result<()> {
        match Instant::now().checked_add(limit) {
            Some(until) => self.close_until(until, limit),
            None => self.close(),
        }
    }

    /// As [`close_timeout`](Self::close_timeout), for a caller whose own work has taken a part of `limit`:
    /// that ends at `until`.
    ///
    /// # Errors
    /// As [`close_timeout`](Self::close_timeout).
    pub fn close_until(self, until: Instant, limit: Duration) -> Result<()> {
        self.shared.get()?.close(Closing::Until(until, limit))
    }

    /// Submits a call to the thread that drives the engine.
    fn submit_call<T>(&self, call: Call<'static>, take: Take<T>) -> Result<Ticket<T>> {
        self.shared.get()?.queue.push((call, self.call_limit), take, CarriedOutBy::Thread)
    }

    /// Runs at once on this thread, if no other thread drives the engine.
    fn carry_out<T>(&self, call: Call<'static>, take: Take<T>) -> Result<T> {
        let shared = self.shared.get()?;
        if driving::is_driving() {
            return Err(waits_in_closure());
        }
        let ticket = shared.queue.push((call, self.call_limit), take, CarriedOutBy::Caller)?;
        engine::help(&shared.engine, &shared.queue, || ticket.is_answered());
        ticket.wait()
    }

    fn readers(&self) -> Result<&ReaderPool> {
        let local = self.shared.get()?.local.as_ref().ok_or_else(|| {
            Error::misuse("this writer's groups are committed elsewhere, so it has no readers")
        })?;
        if local.in_force.locking == Locking::Exclusive {
            return Err(Error::misuse(
                "this writer holds the database alone (exclusive locking), so no other \
                 connection can read it meanwhile",
            )
            .on_disk("nothing was changed")
            .to_do("read inside of `transaction`, or open the writer with shared locking"));
        }
        Ok(&local.readers)
    }
}

impl Shared {
    /// Pushes the hooks' last work. All calls that are accepted before the queue is closed are
    /// carried out, so nothing waits for the work here.
    fn submit_last_work(&self) {
        let hooks = self.local.as_ref().and_then(|local| local.hooks.get());
        let Some(hooks) = hooks.map(Arc::clone) else { return };
        if hooks.has_last_work() || self.queue.depth().0 > 0 {
            let call = internal_call::internal_call(move |connection| hooks.last_work(connection));
            // The push fails if the queue is closed already, or full. Closing does not wait for
            // room: a kill would lose the same counts.
            if let Ok(ticket) = self.queue.try_push((call, None), value::<()>)
                && let Some(number) = ticket.number()
            {
                self.queue.interrupts().set_last_work(number);
            }
        }
    }

    fn close(&self, closing: Closing) -> Result<()> {
        if driving::is_driving() {
            return Err(Error::misuse("a closure inside a transaction cannot close a writer")
                .on_disk("nothing was changed, and the writer is open")
                .to_do("close it after the transaction"));
        }
        let ends_at = match closing {
            Closing::All => None,
            Closing::Until(until, _) => until.checked_add(GRACE),
        };
        self.begin_close();
        let outcome = match closing {
            Closing::All => self.end.wait(None).unwrap_or(Ok(())),
            Closing::Until(until, limit) => {
                let left = until.saturating_duration_since(Instant::now());
                self.end.wait(Some(left)).unwrap_or_else(|| self.break_off(limit))
            }
        };
        self.end.shut_down_rest_until(ends_at);
        if !self.end.is_left_alone()
            && let Some(thread) = lock(&self.thread).take()
        {
            // The thread has reported its end, and has nothing left to do.
            drop(thread.join());
        }
        outcome
    }

    /// Closes the queue. The thread ends by itself once the queue is empty.
    fn begin_close(&self) {
        self.submit_last_work();
        self.queue.close("it was closed");
        if let Some(hooks) = self.local.as_ref().and_then(|local| local.hooks.get()) {
            hooks.closed();
        }
    }

    /// Stops the calls, as the time to close is over.
    fn break_off(&self, limit: Duration) -> Result<()> {
        let refused = self.queue.refuse_waiting("there was no time left to close it");
        let interrupts = self.queue.interrupts();
        interrupts.ask_all();
        let timed_out = |state: &str| {
            Error::not_closed_in_time(limit)
                .on_disk(format!("what was answered with success; nothing of others. {state}"))
                .to_do("make the calls that were refused again, on a writer that is opened anew")
        };
        match self.end.wait(Some(GRACE)) {
            None => {
                let state = if self.end.is_closing() {
                    "No call runs any more; the database is open until the last checkpoint is done"
                } else {
                    "The database is open until the call that runs comes back"
                };
                self.end.leave_alone();
                Err(timed_out(state))
            }
            Some(Ok(())) if refused > 0 || interrupts.has_stopped_all() => {
                Err(timed_out("The database is closed"))
            }
            Some(outcome) => outcome,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.end.is_left_alone() {
            return;
        }
        if driving::is_driving() {
            // The last clone was in a closure, or in an answer that was not fetched.
            self.end.leave_alone();
            self.begin_close();
            return;
        }
        let has_told = self.end.wait(Some(Duration::ZERO)).is_some();
        if let (Err(error), false) = (self.close(Closing::All), has_told) {
            tracing::error!(%error, "closing the writer failed");
        }
    }
}

fn execute_call(sql: &str, parameters: impl IntoParameters) -> Result<Call<'static>> {
    let (sql, parameters) = (request::shared_text(sql), parameters.into_parameters()?);
    Ok(Call::Execute(Statement { sql, parameters }))
}

fn closure_call<T: Send + 'static>(
    mut body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
) -> Call<'static> {
    Call::Closure(Closure(Caught::new(Box::new(move |transaction: &Transaction<'_>| {
        body(transaction).map(|value| Box::new(value) as call::AnyValue)
    }))))
}

fn executed(answer: Answer) -> Result<Executed> {
    match answer {
        Answer::Executed(executed) => Ok(executed),
        other => Err(wrong_answer(&other)),
    }
}

fn done(answer: Answer) -> Result<()> {
    match answer {
        Answer::Done => Ok(()),
        other => Err(wrong_answer(&other)),
    }
}

fn inserted(answer: Answer) -> Result<u64> {
    match answer {
        Answer::Inserted(rows) => Ok(rows),
        other => Err(wrong_answer(&other)),
    }
}

fn value<T: 'static>(answer: Answer) -> Result<T> {
    match answer {
        Answer::Value(ClosureValue(value)) => value
            .into_inner()
            .downcast::<T>()
            .map(|value| *value)
            .map_err(|_| Error::misuse("the target answered with a value of another type")),
        other => Err(wrong_answer(&other)),
    }
}

/// The error for an answer of another kind than the call; only a target from outside this crate
/// gives one.
fn wrong_answer(answer: &Answer) -> Error {
    Error::misuse(format!("the target answered {answer:?}, which does not fit the call"))
}
