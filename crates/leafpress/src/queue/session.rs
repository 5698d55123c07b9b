//! State that all queues of one writer share, and the tools of one operation.
//!
//! The [`Session`] is called for each transaction of the writer. It forgets the settings that it has
//! read when the next one begins, and wakes the waiting threads once it is committed. [`Work`] is
//! one operation inside such a transaction.
//!
//! 1. The settings of a queue are those of this transaction.
//! 2. No waiter is woken for a job that is not committed.
//!
//! Must never: keep anything of a transaction that was rolled back.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rusqlite::{Connection, OptionalExtension, Params, Row, Statement};

use super::clock::{BACK_MS, Clock, ClockWatch};
use super::settings::{NamedSettings, READ_QUEUE, Settings};
use super::stats::Counters;
use super::wakeup::WakeUps;
use crate::error::{Error, Result};
use crate::sync::lock;
use crate::vfs::kept::KeepingConnection;

/// Row of a queue's settings.
#[derive(Debug)]
pub(super) struct QueueRow {
    pub(super) id: i64,
    pub(super) name: Arc<str>,
    pub(super) is_paused: bool,
    pub(super) settings: Settings,
}

/// State shared by the queues of one writer.
#[derive(Debug)]
pub(super) struct Session {
    database: PathBuf,
    vfs: Option<String>,
    clock: OnceLock<Clock>,
    watch: OnceLock<ClockWatch>,
    /// True if leases are to be measured anew, by a transaction that is committed.
    went_back: AtomicBool,
    wake_ups: OnceLock<Arc<WakeUps>>,
    counters: Counters,
    transaction: Mutex<OpenTransaction>,
}

/// State of the open transaction.
#[derive(Debug, Default)]
struct OpenTransaction {
    rows: Vec<Arc<QueueRow>>,
    /// Queues whose waiters are woken after the commit, with the number of new jobs.
    to_wake: Vec<(Arc<str>, u32)>,
    due_changes: Vec<DueChanges>,
    /// True if leases were measured anew in it.
    is_measured_anew: bool,
    latest_time: LatestTime,
}

/// Time of an operation that was last stored as the latest; none if that is not known.
#[derive(Debug, Default)]
struct LatestTime {
    /// In a transaction that is committed.
    committed_ms: Option<i64>,
    /// In the open transaction.
    open_ms: Option<i64>,
}

/// Time at which the due changes of a queue were last made.
#[derive(Debug)]
struct DueChanges {
    queue: i64,
    /// In a transaction that is committed.
    committed_ms: Option<i64>,
    /// In the open transaction.
    open_ms: Option<i64>,
}

impl Session {
    /// State for the writer of this database.
    pub(super) fn new(database: &Path, vfs: Option<&str>) -> Arc<Self> {
        Arc::new(Self {
            database: database.to_owned(),
            vfs: vfs.map(str::to_owned),
            clock: OnceLock::new(),
            watch: OnceLock::new(),
            went_back: AtomicBool::new(false),
            wake_ups: OnceLock::new(),
            counters: Counters::default(),
            transaction: Mutex::default(),
        })
    }

    /// Sets the clock; fails if the writer's queues have one already.
    pub(super) fn set_clock(&self, clock: Clock) -> Result<()> {
        self.clock.set(clock).map_err(|_| {
            Error::misuse("the writer's queues have a clock already: give it to the first of them")
        })
    }

    pub(super) fn clock(&self) -> &Clock {
        self.clock.get_or_init(Clock::system)
    }

    /// Wake-ups of claims that wait for jobs.
    pub(super) fn wake_ups(&self) -> &Arc<WakeUps> {
        self.wake_ups.get_or_init(|| {
            let clock = self.clock().clone();
            WakeUps::new(&self.database, self.vfs.as_deref(), Arc::new(move || clock.now_ms()))
        })
    }

    /// Counters of jobs' events since they were last written to the table.
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the time. Every operation compares it with the steady clock: without that, one
    /// operation could store a time of a clock that is ahead, and the way back would not be
    /// noticed.
    fn now_ms(&self) -> i64 {
        let now_ms = self.clock().now_ms();
        if self.watch.get_or_init(|| ClockWatch::new(self.clock())).went_back(now_ms) {
            self.went_back.store(true, Ordering::Relaxed);
        }
        now_ms
    }

    /// Returns true if the wall clock was set back: the caller measures leases anew then. Notes that,
    /// so that it returns false once this transaction is committed.
    pub(super) fn begin_measuring_anew(&self) -> bool {
        let went_back = self.went_back.load(Ordering::Relaxed);
        if went_back {
            lock(&self.transaction).is_measured_anew = true;
        }
        went_back
    }

    /// Notes that the time is stored now. Returns false if that was done in the last second.
    pub(super) fn begin_noting_time(&self, now_ms: i64) -> bool {
        let latest = &mut lock(&self.transaction).latest_time;
        let noted_ms = latest.open_ms.or(latest.committed_ms);
        let since_ms = noted_ms.map(|noted_ms| now_ms.saturating_sub(noted_ms));
        // The difference is negative if the clock was set back.
        let is_due = since_ms.is_none_or(|since_ms| !(0..BACK_MS).contains(&since_ms));
        if is_due {
            latest.open_ms = Some(now_ms);
        }
        is_due
    }

    /// Forgets which time was stored and that leases were measured anew, as the call that may have
    /// done so was undone.
    pub(super) fn call_undone(&self) {
        self.counters.call_undone();
        let mut transaction = lock(&self.transaction);
        transaction.latest_time = LatestTime::default();
        transaction.is_measured_anew = false;
    }

    /// Forgets the state of the last transaction, as a new one has begun.
    pub(super) fn began(&self) {
        lock(&self.transaction).rows.clear();
    }

    /// Wakes the waiters of the jobs that the transaction has committed.
    pub(super) fn committed(&self) {
        self.counters.committed();
        let (to_wake, is_measured_anew) = {
            let mut transaction = lock(&self.transaction);
            for changes in &mut transaction.due_changes {
                changes.committed_ms = changes.open_ms.take().or(changes.committed_ms);
            }
            let latest = &mut transaction.latest_time;
            latest.committed_ms = latest.open_ms.take().or(latest.committed_ms);
            (
                std::mem::take(&mut transaction.to_wake),
                std::mem::take(&mut transaction.is_measured_anew),
            )
        };
        if is_measured_anew {
            self.went_back.store(false, Ordering::Relaxed);
        }
        for (queue, jobs) in to_wake {
            self.wake_ups().wake(&queue, jobs);
        }
    }

    /// Drops the state of a transaction that was rolled back, or whose outcome is unknown.
    pub(super) fn not_committed(&self) {
        self.counters.rolled_back();
        let mut transaction = lock(&self.transaction);
        let mut due_changes = std::mem::take(&mut transaction.due_changes);
        for changes in &mut due_changes {
            changes.open_ms = None;
        }
        *transaction = OpenTransaction { due_changes, ..OpenTransaction::default() };
    }

    /// True if waiters are to be woken after the commit.
    #[cfg(test)]
    pub(super) fn wakes_after_commit(&self) -> bool {
        !lock(&self.transaction).to_wake.is_empty()
    }

    /// Ends all waits, as the writer takes no calls any more.
    pub(super) fn close(&self) {
        if let Some(wake_ups) = self.wake_ups.get() {
            wake_ups.close();
        }
    }

    /// Notes that the due changes of this queue are made now. Returns false if they were made in this
    /// millisecond already.
    pub(super) fn begin_due_changes(&self, queue: i64, now_ms: i64) -> bool {
        let known = &mut lock(&self.transaction).due_changes;
        let Some(changes) = known.iter_mut().find(|changes| changes.queue == queue) else {
            known.push(DueChanges { queue, committed_ms: None, open_ms: Some(now_ms) });
            return true;
        };
        let is_due = changes.open_ms.or(changes.committed_ms) != Some(now_ms);
        if is_due {
            changes.open_ms = Some(now_ms);
        }
        is_due
    }

    /// Lets the next look make due changes in any case, as this one left some over.
    pub(super) fn repeat_due_changes(&self, queue: i64) {
        lock(&self.transaction).due_changes.retain(|changes| changes.queue != queue);
    }
}

/// SQLite's error for a statement.
pub(super) fn failed(source: rusqlite::Error) -> Error {
    Error::sqlite("carry out the queue's operation", source)
}

/// One operation, inside of a write transaction.
pub(super) struct Work<'c> {
    pub(super) connection: &'c Connection,
    /// That connection, with its compiled statements, if it is the writer's.
    kept: Option<&'c KeepingConnection>,
    /// `None` on a connection of the application.
    pub(super) session: Option<&'c Session>,
    /// The time of the operation.
    pub(super) now_ms: i64,
    /// True once the operation has changed a row.
    has_changed: Cell<bool>,
}

impl<'c> Work<'c> {
    /// An operation of the writer whose session is `session`.
    pub(super) fn new(connection: &'c KeepingConnection, session: &'c Session) -> Self {
        let (kept, session_here) = (Some(connection), Some(session));
        let (now_ms, has_changed) = (session.now_ms(), Cell::default());
        Self { connection, kept, session: session_here, now_ms, has_changed }
    }

    /// An operation inside a transaction on a connection of the application.
    pub(super) fn outside(connection: &'c Connection) -> Self {
        let (now_ms, has_changed) = (Clock::system().now_ms(), Cell::default());
        Self { connection, kept: None, session: None, now_ms, has_changed }
    }

    /// Runs a statement, which is compiled once.
    ///
    /// SQLite plans with the value of a bare parameter where a partial index or a LIMIT
    /// depends on it, and compiles the statement again whenever it is bound, which costs
    /// ten times as much as to run it. So it is `queue = +?1` and `LIMIT +?2` there.
    pub(super) fn run<T>(
        &self,
        sql: &'static str,
        run: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let done = match self.kept {
            Some(connection) => connection.with(sql, run),
            None => self.connection.prepare_cached(sql).and_then(|mut compiled| run(&mut compiled)),
        };
        done.map_err(failed)
    }

    /// Carries out a statement; returns the number of rows that it changed.
    pub(super) fn execute(&self, sql: &'static str, parameters: impl Params) -> Result<usize> {
        let changed = self.run(sql, |compiled| {
            let changed = compiled.execute(parameters);
            // The statement is kept, and a payload may be long.
            compiled.clear_bindings();
            changed
        })?;
        if changed > 0 {
            self.has_changed.set(true);
        }
        Ok(changed)
    }

    /// Returns true if the operation has changed something.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    /// The first row of a query, if it has one.
    pub(super) fn first<T>(
        &self,
        sql: &'static str,
        parameters: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.run(sql, |compiled| compiled.query_row(parameters, read).optional())
    }

    /// All rows of a query.
    pub(super) fn all<T>(
        &self,
        sql: &'static str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.run(sql, |compiled| compiled.query_map(parameters, read)?.collect())
    }

    /// Settings of the queue, as this transaction sees them.
    pub(super) fn row(&self, queue: i64) -> Result<Arc<QueueRow>> {
        if let Some(session) = self.session {
            let transaction = lock(&session.transaction);
            if let Some(row) = transaction.rows.iter().find(|row| row.id == queue) {
                return Ok(Arc::clone(row));
            }
        }
        let row = self.first(READ_QUEUE, [queue], NamedSettings::from_row)?;
        let NamedSettings { name, is_paused, settings } = row.ok_or_else(dropped)?;
        let row = Arc::new(QueueRow { id: queue, name: name.into(), is_paused, settings });
        if let Some(session) = self.session {
            lock(&session.transaction).rows.push(Arc::clone(&row));
        }
        Ok(row)
    }

    /// Forgets the settings of a queue, as this operation has changed them.
    pub(super) fn forget_row(&self, queue: i64) {
        if let Some(session) = self.session {
            lock(&session.transaction).rows.retain(|row| row.id != queue);
        }
    }

    /// Wakes the threads that wait for jobs of this queue, once all is committed. `jobs` is the
    /// number of jobs that have become ready, or 1 if due times have changed.
    pub(super) fn wake(&self, queue: &QueueRow, jobs: u32) {
        let Some(session) = self.session else { return };
        let mut transaction = lock(&session.transaction);
        match transaction.to_wake.iter_mut().find(|(name, _)| *name == queue.name) {
            Some((_, all)) => *all = all.saturating_add(jobs),
            None => transaction.to_wake.push((Arc::clone(&queue.name), jobs)),
        }
    }
}

/// The error of a queue that was there when it was opened.
pub fn dropped() -> Error {
    Error::changed("the queue was dropped meanwhile").to_do("open it again, which makes it anew")
}

/// The statements of this file.
pub(super) const STATEMENTS: [(&str, &str); 1] = [("read the queue's settings", READ_QUEUE)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_is_not_forgotten_with_the_call_that_was_undone() {
        let session = Session::new(Path::new("jobs.db"), None);
        let (clock, manual) = Clock::manual(1_000_000);
        session.set_clock(clock).expect("the first clock");
        session.now_ms();
        manual.advance_ms(-900_000);
        session.now_ms();
        assert!(session.begin_measuring_anew());
        session.call_undone();
        session.committed();
        assert!(session.begin_measuring_anew(), "nothing was measured yet");
        session.committed();
        assert!(!session.begin_measuring_anew());
    }
}
