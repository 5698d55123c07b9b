//! The database in this process: one connection that carries out whole groups.
//!
//! 1. Each call has its whole effect or none: one statement by SQLite's own
//!    atomicity, everything else by that of the transaction. If a call fails
//!    there, it alone fails: the others are carried out again, each with a
//!    savepoint. So are those of the next groups, as calls that fail come often
//!    together.
//! 2. If a call takes the group's transaction with it (OR ROLLBACK, a full disk,
//!    an I/O error, an interrupt, a deferred foreign key left broken), it alone
//!    fails. Those before it are carried out again and committed, and those
//!    after it follow in a transaction of their own, so that the order holds.
//! 3. A call has succeeded only once COMMIT has returned. If COMMIT itself fails
//!    and nothing is known of the outcome, callers are told just that, and no
//!    further group is begun.
//! 4. Nothing of one call (pragmas, broken keys, open statements) is there when
//!    the next one begins.
//! 5. If a call forks, the child does nothing more on the connection: it neither
//!    commits nor rolls back, and takes no lock on the way out.
//!
//! Must never: commit outside of [`LocalTarget::commit`], or carry out a call
//! twice whose first failure was its own.

mod failures;
mod itself;
mod maintain;
mod run;
mod schema;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rusqlite::Connection;

use self::failures::answer_all;
use self::run::{Ran, Within};
use super::busy::BusyClock;
use super::guard::Guard;
use super::insert_many::InsertPlans;
use super::interrupt::Interrupts;
use super::log_room::LogRoom;
use super::maintenance::Maintenance;
use super::open_journal::OpenJournal;
use super::place::{self, DatabasePlace};
use super::readers::ReaderPool;
use super::shared::{NotSynced, Sharing};
use super::statement::{KnownStatement, LastStatement};
use super::target::{CommitTarget, Group, Reading};
use super::transaction_hooks::{TransactionHooks, TransactionHooksPlace};
use crate::checkpoint::{Gate, MOVED};
use crate::error::{Error, Result};
use crate::failed_sync::leave_wal_as_it_is;
use crate::fork::Process;
use crate::profile::{self, InForce, Locking};
use crate::vfs::connection::data_version;
use crate::vfs::database_file;
use crate::vfs::kept::KeepingConnection;
use crate::vfs::{hooks, locks};

/// The beginning of a transaction that writes.
const BEGIN: &str = "BEGIN IMMEDIATE /* leafpress */";

/// Number of compiled statements that are kept for the next groups, of callers and of this crate.
const STATEMENTS_KEPT: usize = 128;

/// Number of groups whose calls have savepoints after a call had to be undone without one.
const GROUPS_WITH_SAVEPOINTS: u32 = 64;

/// Counters that the target updates while it works.
#[derive(Debug, Default)]
pub(super) struct LocalCounts {
    /// Number of waits for the lock of another connection.
    pub(super) busy_waits: AtomicU64,
    /// Number of transactions that were lost with calls in them.
    pub(super) rolled_back: AtomicU64,
    /// Number of calls that are carried out again because of that.
    pub(super) calls_replayed: AtomicU64,
    /// Nanoseconds that COMMITs took since the last look.
    pub(super) commit_ns: AtomicU64,
    /// Size of the write-ahead log after the last commit.
    pub(super) wal_bytes: AtomicU64,
}

/// The connection of the database in this process, and the state between groups.
#[derive(Debug)]
pub(super) struct LocalTarget {
    connection: KeepingConnection,
    /// The path of the database, if it has one.
    path: Option<PathBuf>,
    guard: Arc<Guard>,
    busy: Arc<BusyClock>,
    counts: Arc<LocalCounts>,
    /// The gate at which the writer meets the checkpointer, if there is one.
    gate: Option<Arc<Gate>>,
    /// The writers that share the syncs of the log, if COMMIT leaves them to these.
    sharing: Option<Arc<Sharing>>,
    /// Room in the log, where commits wait for its syncs.
    log_room: Option<LogRoom>,
    /// The journal that is open, where closing it is allowed.
    journal: Option<OpenJournal>,
    /// True if the writer holds the database alone, so that closing gives it back.
    is_alone: bool,
    /// True if a trigger may use RAISE(FAIL), or a table ON CONFLICT FAIL: then a statement that
    /// fails may leave half of its changes.
    schema_may_fail: bool,
    plans: RefCell<InsertPlans>,
    known: RefCell<KnownStatement>,
    /// Number of the next groups whose calls have savepoints.
    groups_with_savepoints: u32,
    /// Number of the next ranges that have a BEGIN and a COMMIT, whatever they are.
    ranges_begun: u32,
    schema_version: Option<i64>,
    /// The version of the data for which the schema was read, and all commits since are our own.
    data_version: Option<u32>,
    hooks: TransactionHooksPlace,
    interrupts: Arc<Interrupts>,
    place: DatabasePlace,
    /// Time of the last look for the holder of a lock.
    last_look: Cell<Option<Instant>>,
    /// True if SQLite itself has found that the database was moved.
    has_moved: bool,
    /// The readers, which end with a writer whose database was moved.
    readers: Option<ReaderPool>,
    process: Process,
}

/// The calls of a range that have a savepoint each. A savepoint makes SQLite keep a copy of every
/// page from before its change, and full-text indexes write their buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Savepoints {
    None,
    AllButFirst,
    All,
}

/// The end of a range of a group.
enum RangeEnd {
    /// Every call in it is answered.
    Answered,
    /// The call at this index took the transaction with it.
    LostAt(usize),
    /// COMMIT failed for a reason that may not hold for a part of the range.
    NotCommitted(Error),
    /// Nothing more can be committed, for this reason.
    Stop(String),
    /// A call has forked, and this is the child.
    Forked,
}

impl LocalTarget {
    /// Takes over a connection that was opened under its profile.
    pub(super) fn new(
        mut connection: Connection,
        busy: BusyClock,
        gate: Option<Arc<Gate>>,
        in_force: &InForce,
        hooks: TransactionHooksPlace,
        interrupts: Arc<Interrupts>,
        place: DatabasePlace,
    ) -> rusqlite::Result<Self> {
        let page_bytes = in_force.page_size_bytes;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        let counts = Arc::new(LocalCounts::default());
        let busy = Arc::new(busy);
        let (clock, waits) = (Arc::clone(&busy), Arc::clone(&counts));
        hooks::set_busy_handler(&connection, move |attempt| {
            waits.busy_waits.fetch_add(u64::from(attempt == 0), Ordering::Relaxed);
            clock.wait(attempt)
        })?;
        if let Some(gate) = gate.clone() {
            // Only the checkpointer may copy the log, so closing this connection must not.
            leave_wal_as_it_is(&connection);
            let counts = Arc::clone(&counts);
            let sharing = busy.sharing().map(Arc::clone);
            hooks::set_wal_hook(&connection, move |frames| {
                counts.wal_bytes.store(wal_bytes(frames, page_bytes), Ordering::Relaxed);
                gate.committed(frames);
                if let Some(sharing) = &sharing {
                    sharing.committed(frames);
                }
            })?;
        }
        let guard = Guard::install(&mut connection, &interrupts)?;
        interrupts.watch(&mut connection)?;
        let (schema_may_fail, schema_version) = (false, None);
        let plans = RefCell::default();
        let journal = OpenJournal::watch(&connection, in_force);
        let is_alone = in_force.locking == Locking::Exclusive;
        let sharing = busy.sharing().filter(|_| in_force.shares_syncs).map(Arc::clone);
        let path = database_file::path(&connection);
        Ok(Self {
            connection: KeepingConnection::new(connection, STATEMENTS_KEPT),
            path,
            guard,
            busy,
            counts,
            gate,
            sharing,
            log_room: None,
            journal,
            is_alone,
            schema_may_fail,
            plans,
            known: RefCell::default(),
            groups_with_savepoints: 0,
            ranges_begun: 0,
            schema_version,
            data_version: None,
            hooks,
            interrupts,
            place,
            last_look: Cell::new(None),
            has_moved: false,
            readers: None,
            process: Process::current(),
        })
    }

    /// Makes room in the log before commits, if there is a way to.
    pub(super) fn with_log_room(self, log_room: Option<LogRoom>) -> Self {
        Self { log_room, ..self }
    }

    /// Ends these readers once the database was moved: they would show the old file.
    pub(super) fn with_readers(self, readers: ReaderPool) -> Self {
        Self { readers: Some(readers), ..self }
    }

    pub(super) fn counts(&self) -> Arc<LocalCounts> {
        Arc::clone(&self.counts)
    }

    /// Runs one of the writer's own statements. Each has the name leafpress in it, so that no
    /// caller can get the compiled one (`statement.rs`).
    fn own(&self, sql: &str) -> rusqlite::Result<()> {
        self.guard.as_writer(|| self.connection.with(sql, |own| own.raw_execute().map(drop)))
    }

    /// Tells the hooks, if there are any.
    fn tell(&self, what: impl FnOnce(&dyn TransactionHooks)) {
        if let Some(hooks) = self.hooks.get() {
            what(&**hooks);
        }
    }

    /// Ends the open transaction, if there is one.
    fn roll_back(&self) {
        self.busy.ending();
        self.undo();
        self.busy.ended();
    }

    /// Rolls the open transaction back, and keeps the turn of this process. So calls that run again
    /// find the rows that they found before, unless a program that does not stand in the line of the
    /// writers has changed them.
    fn roll_back_to_go_on(&self) {
        self.undo();
        self.busy.keep_turn();
    }

    /// Undoes the open transaction, if there is one. If that fails, SQLite has ended it.
    fn undo(&self) {
        self.plans.borrow_mut().rolled_back();
        self.tell(TransactionHooks::not_committed);
        if !self.connection.is_autocommit()
            && let Err(error) = self.own("ROLLBACK /* leafpress */")
        {
            tracing::debug!(%error, "ROLLBACK after a failure failed too");
        }
    }

    fn count_replay(&self, calls: usize) {
        self.counts.rolled_back.fetch_add(1, Ordering::Relaxed);
        self.counts.calls_replayed.fetch_add(calls as u64, Ordering::Relaxed);
    }

    fn begin(&mut self) -> Result<()> {
        self.refuse_beside_another_copy()?;
        self.busy.line_up();
        self.own(BEGIN).map_err(|source| {
            self.busy.ending();
            self.busy.ended();
            self.not_begun(source)
        })?;
        self.busy.begun();
        if let Some(room) = &mut self.log_room {
            room.prepare(&self.connection, self.counts.wal_bytes.load(Ordering::Relaxed));
        }
        self.read_schema().map_err(|source| {
            self.roll_back();
            self.not_begun(source)
        })?;
        self.tell(TransactionHooks::began);
        Ok(())
    }

    fn refuse_beside_another_copy(&self) -> Result<()> {
        self.path.as_deref().map_or(Ok(()), |path| Ok(locks::refuse_beside_another_copy(path)?))
    }

    /// Carries out a range of the group in one transaction.
    fn commit_range(&mut self, group: &mut Group<'_>, range: &Range<usize>) -> RangeEnd {
        let savepoints = match self.groups_with_savepoints {
            0 => Savepoints::None,
            _ => Savepoints::AllButFirst,
        };
        self.groups_with_savepoints = self.groups_with_savepoints.saturating_sub(1);
        self.try_range(group, range, savepoints).unwrap_or_else(|| {
            self.groups_with_savepoints = GROUPS_WITH_SAVEPOINTS;
            self.try_range(group, range, Savepoints::All)
                .expect("with a savepoint for each call, no call asks for another try")
        })
    }

    /// Carries out a range once. `None` if a call without a savepoint failed: then the transaction
    /// is rolled back, and the range has to be carried out again.
    fn try_range(
        &mut self,
        group: &mut Group<'_>,
        range: &Range<usize>,
        savepoints: Savepoints,
    ) -> Option<RangeEnd> {
        if range.clone().all(|index| group.has_failed(index)) {
            return Some(RangeEnd::Answered);
        }
        let numbers = range.clone().filter(|&index| !group.has_failed(index));
        self.interrupts.waits_for(numbers.map(|index| group.number(index)));
        let begun = self.begin();
        self.interrupts.waits_for(std::iter::empty());
        if let Err(error) = begun {
            self.answer_waiting(group, range, &error);
            return Some(RangeEnd::Answered);
        }
        let mut last = LastStatement::new(&self.connection, &self.known);
        let mut is_first = true;
        let within = match range.clone().filter(|&index| !group.has_failed(index)).count() {
            1 if range.len() == 1 => Within::Alone,
            1 => Within::LastLeft,
            _ => Within::Group,
        };
        for index in range.clone() {
            if group.has_failed(index) {
                continue;
            }
            let has_savepoint = match savepoints {
                Savepoints::None => false,
                Savepoints::AllButFirst => !is_first,
                Savepoints::All => true,
            };
            is_first = false;
            let ran = self.run_at(group, index, (within, has_savepoint), &mut last);
            if let Ran::Failed(error) | Ran::Lost(error) | Ran::Again(Some(error)) = &ran {
                // The error may be a caller's, about another database.
                self.has_moved |= place::is_moved(error)
                    && database_file::has_moved(&self.connection) == Some(true);
            }
            let answer = match ran {
                Ran::Done(answer) => Ok(answer),
                Ran::Failed(error) => Err(error),
                Ran::Lost(error) => {
                    drop(last);
                    self.roll_back_to_go_on();
                    group.answer(index, Err(error));
                    return Some(RangeEnd::LostAt(index));
                }
                Ran::Again(known) => {
                    drop(last);
                    self.roll_back_to_go_on();
                    self.count_replay(index - range.start);
                    if let Some(error) = known {
                        group.answer(index, Err(error));
                    }
                    return None;
                }
                Ran::Forked => {
                    std::mem::forget(last);
                    return Some(RangeEnd::Forked);
                }
            };
            group.answer(index, answer);
        }
        drop(last);
        Some(self.commit_open(group, range))
    }

    /// Commits the open transaction, in which the range was carried out.
    fn commit_open(&mut self, group: &mut Group<'_>, range: &Range<usize>) -> RangeEnd {
        let began = Instant::now();
        self.busy.restart();
        self.busy.ending();
        let commit = || {
            let sql = "COMMIT /* leafpress */";
            self.connection.with(sql, |own| own.raw_execute().map(drop))
        };
        let committed = self.guard.as_committer(commit);
        let committed = committed.map(|()| {
            self.busy.ended();
            self.make_durable()
        });
        let took_ns = began.elapsed().as_nanos() as u64;
        self.counts.commit_ns.fetch_add(took_ns, Ordering::Relaxed);
        match committed {
            Ok(Ok(())) => {
                self.data_version = data_version(&self.connection);
                self.plans.borrow_mut().committed();
                self.tell(TransactionHooks::committed);
                self.committed(group, range)
            }
            Ok(Err(reason)) => self.not_synced(group, range, reason),
            Err(source) => {
                let has_begun = self.guard.has_begun_commit();
                self.not_committed(group, range, source, has_begun)
            }
        }
    }

    /// Looks, after a commit, whether the database is where it was.
    fn committed(&mut self, group: &mut Group<'_>, range: &Range<usize>) -> RangeEnd {
        match self.place.check_after(&self.connection) {
            Ok(()) => self.close_journal().unwrap_or(RangeEnd::Answered),
            Err(reason) => self.committed_elsewhere(group, range, reason),
        }
    }

    /// Closes the journal after a commit, if that saves syncs. The transaction is committed
    /// already; a failure here only stops the writer.
    fn close_journal(&mut self) -> Option<RangeEnd> {
        let journal = self.journal.as_mut()?;
        let closed = self.guard.as_writer(|| journal.committed(&self.connection));
        closed.err().map(|error| RangeEnd::Stop(error.to_string()))
    }

    /// Waits for the sync that the commit leaves to the writers that share the database. The error is
    /// the reason why the commit may not be on disk.
    fn make_durable(&self) -> Result<(), String> {
        let Some(sharing) = &self.sharing else { return Ok(()) };
        sharing.make_durable(|| database_file::sync_log(&self.connection)).map_err(|not_synced| {
            let why = match not_synced {
                NotSynced::Here(source) => source.to_string(),
                NotSynced::Elsewhere => "a sync of the log failed in another process".to_owned(),
            };
            format!("a commit was written, and whether it is on disk is not known: {why}")
        })
    }
}

impl CommitTarget for LocalTarget {
    fn commit(&mut self, group: &mut Group<'_>) -> Result<(), String> {
        let gate = self.gate.clone();
        let held = gate.as_ref().map(|gate| gate.begin_group());
        let whole = 0..group.len();
        if let Some(reason) = gate.as_ref().and_then(|gate| gate.broken()) {
            answer_all(group, whole, &Error::stopped(reason));
            return Err(reason.to_owned());
        }
        if let Err(reason) = self.place.check_before(&self.connection) {
            self.moved(&reason);
            answer_all(group, whole, &Error::stopped(reason.clone()));
            return Err(reason);
        }
        // The range to try, and those that follow it, the last one first.
        let (mut next, mut ranges) = (Some(whole), Vec::new());
        while let Some(range) = next.take().or_else(|| ranges.pop()) {
            let end = self.commit_itself(group, &range);
            match end.unwrap_or_else(|| self.commit_range(group, &range)) {
                RangeEnd::Answered => {}
                RangeEnd::LostAt(index) => {
                    if range.len() > 1 {
                        self.count_replay(index - range.start);
                    }
                    ranges.push(index + 1..range.end);
                    ranges.push(range.start..index);
                }
                RangeEnd::NotCommitted(error) if range.len() == 1 => {
                    group.answer(range.start, Err(error));
                }
                RangeEnd::NotCommitted(_) => {
                    // The range is tried in two halves, so that only the calls with a failure fail.
                    self.count_replay(range.len());
                    let middle = range.start + range.len() / 2;
                    ranges.push(middle..range.end);
                    ranges.push(range.start..middle);
                }
                RangeEnd::Stop(reason) => {
                    for index in ranges.into_iter().flatten() {
                        group.answer(index, Err(Error::stopped(reason.clone())));
                    }
                    return Err(reason);
                }
                RangeEnd::Forked => {
                    std::mem::forget(held);
                    return Ok(());
                }
            }
        }
        self.busy.give_turn_back();
        if self.has_moved {
            self.moved(MOVED);
            return Err(MOVED.to_owned());
        }
        Ok(())
    }

    fn maintain(&mut self, work: Maintenance) -> Result<()> {
        self.carry_out_maintenance(work)
    }

    fn read(&mut self, read: Reading<'_>) -> Result<()> {
        self.read_between_groups(read)
    }

    fn close(&mut self) -> Result<()> {
        if self.is_alone && self.connection.is_autocommit() {
            // A journal that stays after a failure does no harm: it is void, or the next opening
            // rolls it back.
            if let Err(error) = self.guard.as_writer(|| profile::give_back(&self.connection)) {
                tracing::warn!(%error, "the journal could not be tidied away");
            }
        }
        Ok(())
    }
}

/// The size of a write-ahead log of this many frames: its header, and a header
/// before each page.
fn wal_bytes(frames: u32, page_bytes: u32) -> u64 {
    if frames == 0 { 0 } else { 32 + u64::from(frames) * (24 + u64::from(page_bytes)) }
}
