//! Many callers, one commit: small transactions from many threads, each durable
//! when it is answered, for the price of one sync a group.
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
//! 4. Calls take effect in the order in which they were submitted; those of one
//!    thread so in the order in which it made them.
//! 5. Every call that was accepted is answered; closing and dropping wait for that.
//! 6. A child of `fork` never touches its parent's writer: each call there is
//!    [`Forked`](crate::ErrorKind::Forked), and dropping does nothing. A new writer
//!    of the same database works.
//!
//! Must never: answer before the commit, or lose what was accepted in silence.

mod builder;
mod call;
mod engine;
mod guard;
mod insert_many;
mod local;
mod open_journal;
mod own;
mod prometheus;
mod queue;
mod readers;
mod statement;
mod stats;
mod target;
mod ticket;
mod transaction;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub use self::builder::WriterBuilder;
pub use self::call::{
    Answer, Batch, Call, Closure, ClosureValue, Executed, IntoParameters, Parameters, Statement,
};
pub use self::insert_many::InsertMany;
pub(crate) use self::own::Companion;
pub use self::own::Own;
pub use self::readers::{OldestReader, Reader};
pub use self::stats::{Bucket, GroupSizes, Latency, WriterStats};
pub use self::target::{CommitTarget, Group};
pub use self::ticket::Ticket;
pub(crate) use self::ticket::lock;
pub use self::transaction::Transaction;

use self::engine::Engine;
use self::local::LocalCounts;
use self::own::CompanionPlace;
use self::queue::{CallQueue, CarriedOutBy, Grouping};
use self::readers::ReaderPool;
use self::stats::Recorder;
use self::ticket::Take;
use crate::checkpoint::Checkpointer;
use crate::error::{Error, Result};
use crate::fork::OfProcess;
use crate::profile::{InForce, Locking};

/// Writes small transactions of many callers to one database. Clones share it.
///
/// When the last clone is dropped, what was accepted is committed first; errors
/// of that are only logged, so call [`close`](Self::close) to learn of them.
///
/// It belongs to the process that opened it. In a child of `fork` each call is
/// answered [`Forked`](crate::ErrorKind::Forked), at once and without any effect on
/// the parent; what returns no `Result` says what it does there. Dropping it does
/// nothing. Open a new writer in the child, after the fork.
#[derive(Debug, Clone)]
pub struct Writer {
    shared: Arc<OfProcess<Shared>>,
}

#[derive(Debug)]
struct Shared {
    queue: Arc<CallQueue>,
    engine: Arc<Mutex<Engine>>,
    recorder: Arc<Recorder>,
    /// What a database in this process has besides.
    local: Option<Local>,
    /// There until somebody closes the writer.
    thread: Mutex<Option<JoinHandle<Result<()>>>>,
}

/// What belongs to a database in this process.
#[derive(Debug)]
struct Local {
    in_force: InForce,
    readers: ReaderPool,
    /// There under profiles with a write-ahead log, until the writer is closed.
    checkpointer: Mutex<Option<Checkpointer>>,
    counts: Arc<LocalCounts>,
    /// What goes with each transaction.
    companion: CompanionPlace,
}

impl Writer {
    /// How the database at `path` is to be opened.
    pub fn builder(path: impl Into<PathBuf>) -> WriterBuilder {
        WriterBuilder::new(path.into())
    }

    /// A writer whose groups are committed elsewhere: a place that is not a
    /// database of this process. It has no readers.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn with_target(target: impl CommitTarget + 'static, queue_capacity: usize) -> Result<Self> {
        let grouping =
            Grouping { calls_max: queue_capacity.max(1), delay_max: std::time::Duration::ZERO };
        WriterBuilder::start(Box::new(target), queue_capacity, grouping, None)
    }

    /// Carries out one statement as a transaction of its own, and waits until
    /// it is committed. Rows that it returns are dropped: for RETURNING use
    /// [`transaction`](Self::transaction).
    ///
    /// # Errors
    /// What SQLite says to the statement; [`Refused`](crate::ErrorKind::Refused) for BEGIN and its kin and
    /// for settings of the connection; [`Busy`](crate::ErrorKind::Busy), [`Stopped`](crate::ErrorKind::Stopped),
    /// [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown). Nothing of it is in the database then, but for
    /// the last, where nobody knows.
    pub fn execute(
        &self,
        sql: impl Into<String>,
        parameters: impl IntoParameters,
    ) -> Result<Executed> {
        self.shared.get()?.carry_out(execute_call(sql.into(), parameters)?, executed)
    }

    /// As [`execute`](Self::execute), without waiting for the commit. It waits
    /// for room if the queue is full.
    ///
    /// # Errors
    /// If the writer is closed, or a parameter cannot be a value in SQLite.
    pub fn submit(
        &self,
        sql: impl Into<String>,
        parameters: impl IntoParameters,
    ) -> Result<Ticket<Executed>> {
        self.shared.get()?.submit(execute_call(sql.into(), parameters)?, executed)
    }

    /// As [`submit`](Self::submit), and never waits.
    ///
    /// # Errors
    /// [`QueueFull`](crate::ErrorKind::QueueFull) besides.
    pub fn try_submit(
        &self,
        sql: impl Into<String>,
        parameters: impl IntoParameters,
    ) -> Result<Ticket<Executed>> {
        let shared = self.shared.get()?;
        let call = execute_call(sql.into(), parameters)?;
        shared.queue.try_push(call, executed).inspect_err(|error| {
            if matches!(error.kind(), crate::ErrorKind::QueueFull { .. }) {
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
        self.shared.get()?.carry_out(Call::Batch(batch.into()), done)
    }

    /// As [`execute_batch`](Self::execute_batch), without waiting for the commit.
    ///
    /// # Errors
    /// If the writer is closed.
    pub fn submit_batch(&self, batch: impl Into<Batch>) -> Result<Ticket<()>> {
        self.shared.get()?.submit(Call::Batch(batch.into()), done)
    }

    /// Runs `body` inside a transaction, reads among writes, and gives what it
    /// returns once that is committed.
    ///
    /// If it returns an error (of SQLite, or [`Error::aborted`] of its own) or
    /// panics, all that it did is undone. **It may be called again** if another
    /// caller's failure takes the group's transaction with it, so what it does
    /// outside of the database should bear that. Do not call the writer in it:
    /// it would wait for itself.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), the closure's own, and [`Panicked`](crate::ErrorKind::Panicked).
    pub fn transaction<T: Send + 'static>(
        &self,
        body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.shared.get()?.carry_out(closure_call(body), value)
    }

    /// As [`transaction`](Self::transaction), without waiting for the commit.
    ///
    /// # Errors
    /// If the writer is closed.
    pub fn submit_transaction<T: Send + 'static>(
        &self,
        body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<Ticket<T>> {
        self.shared.get()?.submit(closure_call(body), value)
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
        let request = call::insert_many_request(table, columns, rows)?;
        self.shared.get()?.carry_out(Call::InsertMany(request), inserted)
    }

    /// As [`insert_many`](Self::insert_many), without waiting for the commit.
    ///
    /// # Errors
    /// If the writer is closed, or a row has more or fewer values than there are columns.
    pub fn submit_insert_many<R: IntoParameters>(
        &self,
        table: &str,
        columns: &[&str],
        rows: impl IntoIterator<Item = R>,
    ) -> Result<Ticket<u64>> {
        let request = call::insert_many_request(table, columns, rows)?;
        self.shared.get()?.submit(Call::InsertMany(request), inserted)
    }

    /// A read-only connection from the writer's pool, back in it when it is
    /// dropped. It sees what is committed. It is known by the place in the
    /// program that asked for it.
    ///
    /// # Errors
    /// If all are out and none comes back in time; if the writer has no
    /// database in this process, or holds it alone ([`Locking::Exclusive`]).
    #[track_caller]
    pub fn reader(&self) -> Result<Reader> {
        self.readers()?.get(None)
    }

    /// As [`reader`](Self::reader), under a name of its own.
    ///
    /// # Errors
    /// As [`reader`](Self::reader).
    pub fn reader_named(&self, name: &str) -> Result<Reader> {
        self.readers()?.get(Some(name))
    }

    /// What is in force on the writer's connection; none if the groups are
    /// committed elsewhere. In a child of `fork`: what was in force in its parent.
    pub fn in_force(&self) -> Option<&InForce> {
        self.shared.in_any_process().local.as_ref().map(|local| &local.in_force)
    }

    /// What the writer did so far. In a child of `fork` all numbers are 0.
    pub fn stats(&self) -> WriterStats {
        let Some(shared) = self.shared.here() else { return WriterStats::default() };
        let mut stats = shared.recorder.snapshot();
        let (depth, depth_max) = shared.queue.depth();
        (stats.queue_depth, stats.queue_depth_max) = (depth as u64, depth_max as u64);
        if let Some(local) = &shared.local {
            stats.oldest_reader = local.readers.oldest();
            stats.checkpoints = lock(&local.checkpointer).as_ref().map(Checkpointer::stats);
        }
        stats
    }

    /// Why no call is taken any more, if it is so. In a child of `fork` it is.
    pub fn stopped(&self) -> Option<String> {
        match self.shared.get() {
            Ok(shared) => shared.queue.closed(),
            Err(forked) => Some(forked.to_string()),
        }
    }

    /// Takes no further call, waits until all that were accepted are answered,
    /// copies the write-ahead log into the database and closes it. Clones of
    /// this writer are closed with it.
    ///
    /// # Errors
    /// If the end of it failed. What was answered with success is safe all the same.
    pub fn close(self) -> Result<()> {
        self.shared.get()?.close()
    }

    fn readers(&self) -> Result<&ReaderPool> {
        let local = self.shared.get()?.local.as_ref().ok_or_else(|| {
            Error::usage("this writer's groups are committed elsewhere, so it has no readers")
        })?;
        if local.in_force.locking == Locking::Exclusive {
            return Err(Error::usage(
                "this writer holds the database alone (exclusive locking), so nobody else can \
                 read it meanwhile",
            )
            .on_disk("nothing was changed")
            .to_do("read inside of `transaction`, or open the writer with shared locking"));
        }
        Ok(&local.readers)
    }
}

impl Shared {
    /// For the writer's thread, or whoever drives the engine.
    fn submit<T>(&self, call: Call, take: Take<T>) -> Result<Ticket<T>> {
        self.queue.push(call, take, CarriedOutBy::Thread)
    }

    /// At once on this thread, if nobody else is at it.
    fn carry_out<T>(&self, call: Call, take: Take<T>) -> Result<T> {
        let ticket = self.queue.push(call, take, CarriedOutBy::Caller)?;
        engine::help(&self.engine, &self.queue, || ticket.is_answered());
        ticket.wait()
    }

    /// What the companion has left to do. All that is accepted before the queue is
    /// closed is carried out, so nobody waits for it here.
    fn submit_last_work(&self) {
        let companion = self.local.as_ref().and_then(|local| local.companion.get());
        let Some(companion) = companion.map(Arc::clone) else { return };
        if companion.has_last_work() || self.queue.depth().0 > 0 {
            let call = own::own_call(move |connection| companion.last_work(connection));
            // It is closed already, or so full that whoever is in it is not lost either.
            drop(self.queue.try_push(call, value::<()>));
        }
    }

    fn close(&self) -> Result<()> {
        self.submit_last_work();
        self.queue.close("it was closed");
        if let Some(companion) = self.local.as_ref().and_then(|local| local.companion.get()) {
            companion.closed();
        }
        let thread = lock(&self.thread).take();
        let Some(thread) = thread else { return Ok(()) };
        if engine::is_driving() {
            // The last clone lived in a closure. The thread ends by itself once
            // the queue is empty.
            return Ok(());
        }
        let mut outcome = thread.join().unwrap_or_else(|_| {
            Err(Error::stopped("the writer's thread panicked, which is a bug in leafpress"))
        });
        if let Some(local) = &self.local {
            local.readers.close();
            let checkpointer = lock(&local.checkpointer).take();
            let stopped = checkpointer.map_or(Ok(()), Checkpointer::stop);
            outcome = outcome.and(stopped);
        }
        outcome
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "closing the writer failed");
        }
    }
}

fn execute_call(sql: String, parameters: impl IntoParameters) -> Result<Call> {
    Ok(Call::Execute(Statement { sql, parameters: parameters.into_parameters()? }))
}

fn closure_call<T: Send + 'static>(
    mut body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
) -> Call {
    Call::Closure(Closure(Box::new(move |transaction: &Transaction<'_>| {
        body(transaction).map(|value| Box::new(value) as call::AnyValue)
    })))
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
            .downcast::<T>()
            .map(|value| *value)
            .map_err(|_| Error::usage("the target answered with a value of another type")),
        other => Err(wrong_answer(&other)),
    }
}

/// A target of somebody else's may do that.
fn wrong_answer(answer: &Answer) -> Error {
    Error::usage(format!("the target answered {answer:?}, which does not fit the call"))
}
