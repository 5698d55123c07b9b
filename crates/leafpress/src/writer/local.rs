//! The database in this process: one connection that carries out whole groups.
//!
//! 1. Each call has its whole effect or none: one statement by SQLite's own
//!    atomicity, many rows that come first by that of the transaction,
//!    everything else by a savepoint.
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

use std::cell::RefCell;
use std::ffi::c_int;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode};

use super::batch;
use super::busy::BusyClock;
use super::call::{Answer, AnyValue, Call, ClosureValue};
use super::caught::{Caught, drop_caught, text_of};
use super::guard::Guard;
use super::insert_many::{Alone, InsertMany, InsertPlans, insert_alone, insert_sorted};
use super::interrupt::Interrupts;
use super::open_journal::OpenJournal;
use super::own::{Companion, CompanionPlace};
use super::place::{self, Place, is_moved_database};
use super::statement::{LastStatement, execute, is_no_statement};
use super::target::{CommitTarget, Group};
use super::transaction::{Parts, Transaction};
use crate::c_api::connection::unresolved_deferred_keys;
use crate::checkpoint::{Gate, is_failed_sync, leave_wal_as_it_is};
use crate::error::{Error, ErrorKind, Result};
use crate::fork::Process;
use crate::profile::{self, InForce, Locking};
use crate::vfs::atomic::{AtomicState, WhyJournal};
use crate::vfs::locks;

/// Compiled statements that are kept for the next groups.
const STATEMENTS_KEPT: usize = 128;

/// After such a wait some milliseconds more, to name who was in the way, do not matter.
const LIMIT_WORTH_A_LOOK: Duration = Duration::from_millis(500);

/// The state on disk after a call that failed.
const NOTHING: &str = "nothing of this call; other callers' are not touched";

/// The state on disk after a call whose database was moved as it was committed.
const IN_THE_MOVED_FILE: &str = "all of this call, in the file that the writer has open; nothing \
     of it in a file that the path names now";
const PUT_BACK: &str = "if the file was moved, put it and its -wal file back together, and open \
     the writer again";

/// What the target counts while it works.
#[derive(Debug, Default)]
pub(super) struct LocalCounts {
    /// Times that somebody else's lock was waited for.
    pub(super) busy_waits: AtomicU64,
    /// Transactions that were lost with calls in them.
    pub(super) rolled_back: AtomicU64,
    /// Calls that are carried out again because of that.
    pub(super) calls_replayed: AtomicU64,
    /// Nanoseconds that COMMITs took since the last look.
    pub(super) commit_ns: AtomicU64,
    /// Size of the write-ahead log after the last commit.
    pub(super) wal_bytes: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct LocalTarget {
    connection: Connection,
    guard: Arc<Guard>,
    busy: Arc<BusyClock>,
    counts: Arc<LocalCounts>,
    /// Where the checkpointer is met, if there is one.
    gate: Option<Arc<Gate>>,
    /// The journal that stands open, where it may be closed.
    journal: Option<OpenJournal>,
    /// Whether the database is given back at the end.
    is_alone: bool,
    /// Whether a trigger may say RAISE(FAIL), or a table ON CONFLICT FAIL, which
    /// leaves half a statement.
    schema_may_fail: bool,
    plans: RefCell<InsertPlans>,
    schema_version: Option<i64>,
    companion: CompanionPlace,
    interrupts: Arc<Interrupts>,
    place: Place,
    /// SQLite has found by itself that the database was moved.
    has_moved: bool,
    process: Process,
}

/// How a call ended, within the open transaction.
enum Ran {
    Done(Answer),
    /// It failed, and nothing of it is left.
    Failed(Error),
    /// It failed, and the transaction is gone.
    Lost(Error),
    /// It failed without a savepoint, and was the first: the transaction has to be
    /// rolled back, and all of it carried out again with one.
    Again,
    /// It has forked, and this is the child.
    Forked,
}

/// The place of a call in the range that is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// It is the range.
    Alone,
    /// The others of the range have failed.
    LastLeft,
    /// With others.
    Group,
}

/// How a range of a group ended.
enum RangeEnd {
    /// Every call in it is answered.
    Answered,
    /// The call at this index took the transaction with it.
    LostAt(usize),
    /// COMMIT was refused for reasons that may be those of a part.
    NotCommitted(Error),
    /// Nothing more can be committed.
    Stop(String),
    /// A call has forked, and this is the child.
    Forked,
}

impl LocalTarget {
    /// Takes over a connection that is open under its profile.
    pub(super) fn new(
        mut connection: Connection,
        busy_limit: Duration,
        gate: Option<Arc<Gate>>,
        in_force: &InForce,
        companion: CompanionPlace,
        interrupts: Arc<Interrupts>,
        place: Place,
    ) -> rusqlite::Result<Self> {
        let page_bytes = in_force.page_size_bytes;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        let counts = Arc::new(LocalCounts::default());
        let busy = Arc::new(BusyClock::new(busy_limit, Arc::clone(&interrupts)));
        let (clock, waits) = (Arc::clone(&busy), Arc::clone(&counts));
        connection.busy_handler(Some(move |attempt: i32| {
            waits.busy_waits.fetch_add(u64::from(attempt == 0), Ordering::Relaxed);
            clock.wait(attempt)
        }))?;
        if let Some(gate) = gate.clone() {
            // Only the checkpointer knows whether that may be done.
            leave_wal_as_it_is(&connection)?;
            let counts = Arc::clone(&counts);
            connection.wal_hook(Some(move |_: &mut Wal, frames: c_int| {
                let frames = u32::try_from(frames).unwrap_or_default();
                counts.wal_bytes.store(wal_bytes(frames, page_bytes), Ordering::Relaxed);
                gate.committed(frames);
                Ok(())
            }))?;
        }
        let guard = Guard::install(&mut connection)?;
        interrupts.watch(&mut connection)?;
        let (schema_may_fail, schema_version) = (false, None);
        let plans = RefCell::default();
        let journal = OpenJournal::watch(&connection, in_force);
        let is_alone = in_force.locking == Locking::Exclusive;
        Ok(Self {
            connection,
            guard,
            busy,
            counts,
            gate,
            journal,
            is_alone,
            schema_may_fail,
            plans,
            schema_version,
            companion,
            interrupts,
            place,
            has_moved: false,
            process: Process::current(),
        })
    }

    pub(super) fn counts(&self) -> Arc<LocalCounts> {
        Arc::clone(&self.counts)
    }

    /// Runs one of the writer's own statements. Each has the name leafpress in
    /// it, so that no caller finds it compiled (`statement.rs`).
    fn own(&self, sql: &str) -> rusqlite::Result<()> {
        self.guard.as_owner(|| self.connection.prepare_cached(sql)?.raw_execute().map(drop))
    }

    /// Tells the companion, if there is one.
    fn tell(&self, what: impl FnOnce(&dyn Companion)) {
        if let Some(companion) = self.companion.get() {
            what(&**companion);
        }
    }

    /// Ends whatever transaction is open. Should that fail, SQLite has ended it.
    fn roll_back(&self) {
        self.plans.borrow_mut().rolled_back();
        self.tell(Companion::not_committed);
        if !self.connection.is_autocommit()
            && let Err(error) = self.own("ROLLBACK /* leafpress */")
        {
            tracing::debug!(%error, "ROLLBACK after a failure failed too");
        }
    }

    fn parts(&self) -> Parts<'_> {
        let Self { connection, guard, plans, companion, interrupts, .. } = self;
        Parts { connection, guard, plans, companion, interrupts }
    }

    fn count_replay(&self, calls: usize) {
        self.counts.rolled_back.fetch_add(1, Ordering::Relaxed);
        self.counts.calls_replayed.fetch_add(calls as u64, Ordering::Relaxed);
    }

    fn begin(&mut self) -> Result<()> {
        if let Some(path) = self.connection.path() {
            locks::refuse_beside_another_copy(Path::new(path))?;
        }
        self.busy.restart();
        self.own("BEGIN IMMEDIATE /* leafpress */").map_err(|source| self.not_begun(source))?;
        self.read_schema().map_err(|source| {
            self.roll_back();
            self.not_begun(source)
        })?;
        self.tell(Companion::began);
        Ok(())
    }

    fn not_begun(&self, source: rusqlite::Error) -> Error {
        let error = match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                self.naming_the_holder(self.busy.error(source))
            }
            _ => self.naming_the_disk(Error::sqlite("begin a transaction", source)),
        };
        error.on_disk("nothing of this call")
    }

    /// An error whose cause is a full disk says which database lies on it.
    fn naming_the_disk(&self, error: Error) -> Error {
        match self.connection.path() {
            Some(path) => error.on_full_disk(Path::new(path)),
            None => error,
        }
    }

    /// The look at all processes costs some milliseconds: too many for a caller that does not
    /// wait and tries again by itself.
    fn naming_the_holder(&self, error: Error) -> Error {
        match self.connection.path() {
            Some(path) if self.busy.limit >= LIMIT_WORTH_A_LOOK => error.held_by(Path::new(path)),
            _ => error,
        }
    }

    /// Looks, where the schema may be another one, whether it may make statements
    /// leave half of what they did.
    fn read_schema(&mut self) -> rusqlite::Result<()> {
        let version = self.guard.as_owner(|| {
            let mut statement = self.connection.prepare_cached("PRAGMA schema_version")?;
            statement.query_row([], |row| row.get(0))
        })?;
        let changed = self.guard.take_changed_schema();
        if changed || self.schema_version != Some(version) {
            self.schema_version = Some(version);
            self.schema_may_fail = self.guard.as_owner(|| {
                self.connection.query_row(
                    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE
                         (type = 'trigger' AND sql LIKE '%fail%')
                         OR (type = 'table' AND sql LIKE '%conflict%fail%'))",
                    [],
                    |row| row.get(0),
                )
            })?;
        }
        Ok(())
    }

    /// Carries out a range of the group in one transaction.
    fn commit_range(&mut self, group: &mut Group, range: &Range<usize>) -> RangeEnd {
        self.try_range(group, range, true).unwrap_or_else(|| {
            // Nothing asks for that twice: its first call has a savepoint now.
            self.try_range(group, range, false).unwrap_or(RangeEnd::Answered)
        })
    }

    /// The same; `None` if the first call was to be carried out again, with a savepoint,
    /// for which it has none if `spares_first`.
    fn try_range(
        &mut self,
        group: &mut Group,
        range: &Range<usize>,
        spares_first: bool,
    ) -> Option<RangeEnd> {
        if range.clone().all(|index| group.has_failed(index)) {
            return Some(RangeEnd::Answered);
        }
        if let Err(error) = self.begin() {
            answer_all(group, range.clone(), &error);
            return Some(RangeEnd::Answered);
        }
        let mut last = LastStatement::new(&self.connection);
        let mut needs_no_savepoint = spares_first;
        let within = match range.clone().filter(|&index| !group.has_failed(index)).count() {
            1 if range.len() == 1 => Within::Alone,
            1 => Within::LastLeft,
            _ => Within::Group,
        };
        for index in range.clone() {
            if group.has_failed(index) {
                continue;
            }
            let is_first = std::mem::take(&mut needs_no_savepoint);
            let ran = self.run_at(group, index, (within, is_first), &mut last);
            if let Ran::Failed(error) | Ran::Lost(error) = &ran {
                self.has_moved |= place::is_moved(error);
            }
            let answer = match ran {
                Ran::Done(answer) => Ok(answer),
                Ran::Failed(error) => Err(self.naming_the_disk(error)),
                Ran::Lost(error) => {
                    drop(last);
                    self.roll_back();
                    group.answer(index, Err(self.naming_the_disk(error)));
                    return Some(RangeEnd::LostAt(index));
                }
                Ran::Again => {
                    drop(last);
                    self.roll_back();
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

    /// Carries out the call at `index`, unless its end was asked for before. The first of a
    /// transaction may go without a savepoint.
    fn run_at(
        &self,
        group: &mut Group,
        index: usize,
        (within, is_first): (Within, bool),
        last: &mut LastStatement<'_>,
    ) -> Ran {
        let (number, limit) = group.terms(index);
        if let Err(error) = self.interrupts.begin(number, limit) {
            return Ran::Failed(error);
        }
        let ran = match group.call(index) {
            Call::InsertMany(rows) if is_first => self.run_rows_first(rows),
            call => self.run(call, within, last),
        };
        self.interrupts.end();
        ran
    }

    /// Commits the open transaction, in which the range was carried out.
    fn commit_open(&mut self, group: &mut Group, range: &Range<usize>) -> RangeEnd {
        let began = Instant::now();
        self.busy.restart();
        let committed = self.guard.as_committer(|| {
            self.connection.prepare_cached("COMMIT /* leafpress */")?.raw_execute().map(drop)
        });
        let took_ns = began.elapsed().as_nanos() as u64;
        self.counts.commit_ns.fetch_add(took_ns, Ordering::Relaxed);
        match committed {
            Ok(()) => {
                self.plans.borrow_mut().committed();
                self.tell(Companion::committed);
                match self.place.check_after(&self.connection) {
                    Ok(()) => self.close_journal().unwrap_or(RangeEnd::Answered),
                    Err(reason) => self.committed_elsewhere(group, range, reason),
                }
            }
            Err(source) => self.not_committed(group, range, source),
        }
    }

    /// The database was moved or replaced, at the latest during the commit.
    fn committed_elsewhere(
        &self,
        group: &mut Group,
        range: &Range<usize>,
        reason: String,
    ) -> RangeEnd {
        self.leave_all_as_it_is(&reason);
        for index in range.clone() {
            if !group.has_failed(index) {
                let error = Error::from(ErrorKind::OutcomeUnknown { reason: reason.clone() });
                group.answer(index, Err(error.on_disk(IN_THE_MOVED_FILE).to_do(PUT_BACK)));
            }
        }
        RangeEnd::Stop(reason)
    }

    /// No checkpoint may copy what may be another database's, or cut its log.
    fn leave_all_as_it_is(&self, reason: &str) {
        if let Some(gate) = &self.gate {
            gate.break_off(reason.to_owned());
        }
    }

    /// After a commit; what it was stays committed, whatever comes of this.
    fn close_journal(&mut self) -> Option<RangeEnd> {
        let journal = self.journal.as_mut()?;
        let closed = self.guard.as_owner(|| journal.committed(&self.connection));
        closed.err().map(|error| RangeEnd::Stop(error.to_string()))
    }

    /// COMMIT failed: rolls back, and finds out what that means for the calls.
    fn not_committed(
        &self,
        group: &mut Group,
        range: &Range<usize>,
        source: rusqlite::Error,
    ) -> RangeEnd {
        self.roll_back();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                let busy = self.naming_the_holder(self.busy.error(source));
                let busy = busy.on_disk("nothing of this call");
                answer_all(group, range.clone(), &busy);
                RangeEnd::Answered
            }
            Some(
                ErrorCode::DiskFull
                | ErrorCode::ConstraintViolation
                | ErrorCode::OperationInterrupted
                | ErrorCode::OutOfMemory
                | ErrorCode::TooBig,
            ) => {
                let error = self.naming_the_disk(Error::sqlite("commit", source));
                RangeEnd::NotCommitted(error.on_disk("nothing of this call"))
            }
            _ => {
                let reason = format!(
                    "a commit failed, and whether it is on disk is not known: {source}{}",
                    self.about_atomic_pages()
                );
                if let Some(gate) = self.gate.as_ref().filter(|_| is_failed_sync(&source)) {
                    gate.break_off(reason.clone());
                }
                for index in range.clone() {
                    if !group.has_failed(index) {
                        group.answer(index, Err(Error::unknown_outcome(reason.clone())));
                    }
                }
                RangeEnd::Stop(reason)
            }
        }
    }

    /// What to do where it was a page that the disk did not take whole.
    fn about_atomic_pages(&self) -> &'static str {
        match profile::page_writes(&self.connection) {
            Ok(Some(AtomicState::Journal { why: WhyJournal::Refused })) => {
                "; the disk did not take a page that it offered to write whole: if that happens \
                 again after the writer was opened anew, open it with atomic(AtomicWish::Off)"
            }
            _ => "",
        }
    }

    /// Carries out one call inside the open transaction.
    fn run(&self, call: &mut Call, place: Within, last: &mut LastStatement<'_>) -> Ran {
        let single = match call {
            // A statement that fails may leave what it did so far: OR FAIL, RAISE(FAIL).
            Call::Execute(statement)
                if !self.schema_may_fail
                    && !self.guard.has_changed_schema()
                    && last.is_whole(&statement.sql) =>
            {
                let code = || match place {
                    // Nothing can make it run again.
                    Within::Alone => last.execute(statement.parameters.take()),
                    Within::LastLeft | Within::Group => last.execute(&statement.parameters),
                };
                Some(self.interrupts.run(code).map(Answer::Executed))
            }
            _ => None,
        };
        let mut ran = match single {
            Some(Ok(_)) if unresolved_deferred_keys(&self.connection) => {
                Ran::Lost(broken_deferred_key())
            }
            // Nothing that is known of does that; what followed would be lost.
            Some(Ok(_)) if self.connection.is_autocommit() => {
                Ran::Lost(Error::usage("the statement ended the transaction of others"))
            }
            Some(Ok(answer)) => Ran::Done(answer),
            Some(Err(source)) => match self.interrupts.stopped() {
                // SQLite can be stopped after the last step of a statement, which then stays.
                Some(error) => Ran::Lost(error),
                None => self.failed(refused(&self.guard, source)),
            },
            None if matches!(call, Call::Own(_)) => self.run_unfenced(call),
            None if place != Within::Group => self.run_alone(call),
            None => self.run_fenced(call),
        };
        if matches!(ran, Ran::Forked) {
            return ran;
        }
        if self.guard.take_used_pragma()
            && !self.connection.is_autocommit()
            && let Err(source) = self.own("PRAGMA defer_foreign_keys = OFF /* leafpress */")
        {
            ran = Ran::Lost(Error::sqlite("end the call", source));
        }
        ran
    }

    /// A failed call, and whether the transaction has gone with it.
    fn failed(&self, error: Error) -> Ran {
        let error = error.on_disk(NOTHING);
        if self.connection.is_autocommit() { Ran::Lost(error) } else { Ran::Failed(error) }
    }

    /// Inserts rows before anything else is done in the transaction, which can so be
    /// rolled back for them alone.
    fn run_rows_first(&self, rows: &InsertMany) -> Ran {
        self.tell(Companion::call_began);
        let plans = &mut self.plans.borrow_mut();
        let code = || self.guard.as_owner(|| insert_alone(&self.connection, plans, rows));
        let inserted = self.interrupts.run(code);
        if let Some(error) = self.interrupts.stopped() {
            return Ran::Lost(error);
        }
        match inserted {
            Ok(Alone::Inserted(_)) if unresolved_deferred_keys(&self.connection) => {
                Ran::Lost(broken_deferred_key())
            }
            Ok(Alone::Inserted(rows)) => Ran::Done(Answer::Inserted(rows)),
            Ok(Alone::Refused) => Ran::Again,
            Ok(Alone::Broken(error)) => Ran::Lost(error.on_disk(NOTHING)),
            Err(error) => {
                self.tell(Companion::call_undone);
                self.failed(error)
            }
        }
    }

    /// Carries out a call of this crate itself. If it fails after a change, the
    /// transaction goes with it, as it has no savepoint.
    fn run_unfenced(&self, call: &mut Call) -> Ran {
        let before = self.connection.total_changes();
        self.tell(Companion::call_began);
        let outcome = self.run_whole(call);
        if !self.process.is_current() {
            return Ran::Forked;
        }
        match outcome {
            Ok(_) if unresolved_deferred_keys(&self.connection) => Ran::Lost(broken_deferred_key()),
            Ok(answer) => Ran::Done(answer),
            Err(error) if self.connection.total_changes() == before => {
                self.tell(Companion::call_undone);
                self.failed(error)
            }
            Err(error) => Ran::Lost(error.on_disk(NOTHING)),
        }
    }

    /// Carries out a call that has the transaction for itself: what undoes that undoes the
    /// call. A savepoint would make SQLite keep each page as it was, and full-text indexes
    /// write down what they gather.
    fn run_alone(&self, call: &mut Call) -> Ran {
        self.tell(Companion::call_began);
        let outcome = self.run_whole(call);
        if !self.process.is_current() {
            return Ran::Forked;
        }
        match outcome {
            Ok(_) if unresolved_deferred_keys(&self.connection) => Ran::Lost(broken_deferred_key()),
            Ok(_) if self.connection.is_autocommit() => Ran::Lost(went_on_after_rollback()),
            Ok(answer) => Ran::Done(answer),
            Err(error) => Ran::Lost(error.on_disk(NOTHING)),
        }
    }

    /// Carries out a call between SAVEPOINT and RELEASE.
    fn run_fenced(&self, call: &mut Call) -> Ran {
        if let Err(source) = self.own("SAVEPOINT leafpress_call") {
            return lost("begin the call", source);
        }
        self.tell(Companion::call_began);
        let outcome = self.run_whole(call);
        if !self.process.is_current() {
            return Ran::Forked;
        }
        let outcome = outcome.and_then(|answer| {
            if unresolved_deferred_keys(&self.connection) {
                return Err(broken_deferred_key());
            }
            Ok(answer)
        });
        if self.connection.is_autocommit() {
            return self.failed(outcome.err().unwrap_or_else(went_on_after_rollback));
        }
        match outcome {
            Ok(answer) => match self.own("RELEASE leafpress_call") {
                Ok(()) => Ran::Done(answer),
                Err(source) => lost("end the call", source),
            },
            Err(error) => {
                self.plans.borrow_mut().rolled_back();
                self.tell(Companion::call_undone);
                let undone = self
                    .own("ROLLBACK TO leafpress_call")
                    .and_then(|()| self.own("RELEASE leafpress_call"));
                match undone {
                    Ok(()) => self.failed(error),
                    Err(_) => Ran::Lost(error.on_disk("nothing of this call")),
                }
            }
        }
    }

    /// Lets the call's own code run. If it was stopped, that is its error, whatever it makes
    /// of SQLite's.
    fn run_whole(&self, call: &mut Call) -> Result<Answer> {
        let outcome = self.interrupts.run(|| self.run_code(call));
        match self.interrupts.stopped() {
            Some(error) => {
                drop_caught(outcome);
                Err(error)
            }
            None => outcome,
        }
    }

    fn run_code(&self, call: &mut Call) -> Result<Answer> {
        match call {
            Call::Execute(statement) => execute(&self.connection, statement)
                .map(Answer::Executed)
                .map_err(|source| refused(&self.guard, source)),
            Call::Batch(batch) => {
                batch::run(&self.connection, &self.guard, batch).map(|()| Answer::Done)
            }
            Call::InsertMany(rows) => {
                let plans = &mut self.plans.borrow_mut();
                let insert = || insert_sorted(&self.connection, plans, rows);
                self.guard.as_owner(insert).map(Answer::Inserted)
            }
            Call::Own(own) => {
                let body = own.0.get_mut();
                self.guard.as_owner(|| answered(|| body(&self.connection)))
            }
            Call::Closure(closure) => {
                let transaction = Transaction::new(self.parts());
                let body = closure.0.get_mut();
                answered(|| body(&transaction))
            }
        }
    }
}

impl CommitTarget for LocalTarget {
    fn commit(&mut self, group: &mut Group) -> Result<(), String> {
        let gate = self.gate.clone();
        let held = gate.as_ref().map(|gate| gate.begin_group());
        let whole = 0..group.len();
        if let Some(reason) = gate.as_ref().and_then(|gate| gate.broken()) {
            answer_all(group, whole, &Error::stopped(reason));
            return Err(reason.to_owned());
        }
        if let Err(reason) = self.place.check_before(&self.connection) {
            self.leave_all_as_it_is(&reason);
            answer_all(group, whole, &Error::stopped(reason.clone()));
            return Err(reason);
        }
        // The last is the next in order.
        let mut ranges = vec![whole];
        while let Some(range) = ranges.pop() {
            match self.commit_range(group, &range) {
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
                    // What fits is committed, and only what does not fit fails.
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
        if self.has_moved {
            self.leave_all_as_it_is(place::MOVED);
            return Err(place::MOVED.to_owned());
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.is_alone && self.connection.is_autocommit() {
            // The journal that is left otherwise does no harm: it is void, or it
            // is what the next opening rolls back.
            if let Err(error) = self.guard.as_owner(|| profile::give_back(&self.connection)) {
                tracing::warn!(%error, "the journal could not be tidied away");
            }
        }
        Ok(())
    }
}

/// Gives each call of the range that has not failed by itself this error.
fn answer_all(group: &mut Group, range: Range<usize>, error: &Error) {
    for index in range {
        if !group.has_failed(index) {
            group.answer(index, Err(error.again()));
        }
    }
}

fn went_on_after_rollback() -> Error {
    Error::usage("SQLite rolled the transaction back, and the call went on all the same")
        .on_disk(NOTHING)
}

fn lost(action: &'static str, source: rusqlite::Error) -> Ran {
    Ran::Lost(Error::sqlite(action, source).on_disk("nothing of this call"))
}

fn broken_deferred_key() -> Error {
    let source = rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY),
        Some(
            "FOREIGN KEY constraint failed: a deferred one was still broken at the end of the call"
                .to_owned(),
        ),
    );
    Error::statement(source).on_disk(NOTHING)
}

/// What a body says, a panic of it as an error.
fn answered(body: impl FnOnce() -> Result<AnyValue>) -> Result<Answer> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(outcome) => outcome.map(|value| Answer::Value(ClosureValue(Caught::new(value)))),
        Err(panic) => {
            let message = text_of(&*panic);
            drop_caught(panic);
            Err(ErrorKind::Panicked { message }.into())
        }
    }
}

/// The error of a caller's statement, in the guard's words if it was refused.
pub(super) fn refused(guard: &Guard, source: rusqlite::Error) -> Error {
    if source.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied)
        && let Some(reason) = guard.take_refusal()
    {
        return Error::from(ErrorKind::Refused { reason });
    }
    if is_moved_database(&source) {
        return Error::stopped(place::MOVED).caused_by(source);
    }
    if is_no_statement(&source) {
        return Error::usage("the text holds no statement, but only blanks or comments")
            .to_do("leave the call out, or use execute_batch, for which a text may be empty");
    }
    Error::statement(source)
}

/// The size of a write-ahead log of so many frames: its header, and a header
/// before each page.
fn wal_bytes(frames: u32, page_bytes: u32) -> u64 {
    if frames == 0 { 0 } else { 32 + u64::from(frames) * (24 + u64::from(page_bytes)) }
}
