//! Runs a script statement by statement and cuts its I/O at the ends of transactions.
//!
//! ```text
//! SQLite ─► Traced ─► AtomicPages ─┬─► Counted ─► the platform's VFS
//!                                  └─► Counted ─► the disk
//! ```
//!
//! The stack is registered for this run alone, so that no other connection of the
//! process is counted. A transaction is what lies between two moments of autocommit:
//! a statement by itself, or all from BEGIN to COMMIT.
//!
//! Invariants:
//! 1. Nothing but the script's statements touches the disk between the first and the
//!    last look at the counters of a transaction.
//! 2. After an error the connection is closed, which undoes the transaction that was open.
//! 3. On a copy no database is opened but through the VFS of this run: a `file:` URI,
//!    which may name another VFS, is refused.
//! 4. The hooks are taken off before that: what rusqlite keeps for them is freed before
//!    SQLite, in closing, calls the one for a rollback.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use leafpress::neighbours::holders_sentence;
use leafpress::profile::{self, InForce, JournalMode, Profile, ProfileRequest};
use leafpress::script::Statement;
use leafpress::sqlite_error::sqlite_says;
use leafpress::vfs::atomic::{
    AtomicDisk, AtomicFile, AtomicPages, AtomicState, FileStamp, NoAtomicWrites, Stamp, WhyJournal,
    compile_options_missing,
};
use leafpress::vfs::count::{Counted, IoCounters, IoStats};
use leafpress::vfs::sync::lock;
use leafpress::vfs::{PlatformVfs, Registration, Vfs, VfsResult, register};
use leafpress::{Error, ErrorKind, Result, path_text};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode, ffi};

use super::diagnose::TableWrite;
use super::options::{IoOptions, Stop};
use super::report::{Calls, HowCommitted};
use super::trace::{Change, Redirect, Trace, Traced};

/// Steps of SQLite's machine between two looks at the wish to stop.
const STEPS_BETWEEN_LOOKS: i32 = 1000;

/// The statements of one transaction and its effects.
pub(super) struct Done {
    /// Its first and last statement, by their numbers in the script.
    pub first: usize,
    pub last: usize,
    pub how: HowCommitted,
    pub calls: Calls,
    pub bytes_written: u64,
    pub time_ns: u64,
    pub rows: u64,
    pub changes: Vec<Change>,
    pub writes: Arc<BTreeSet<TableWrite>>,
    /// The state as it began: how a commit of one page would have been made.
    pub state: AtomicState,
}

/// A disk of which only the calls are known.
struct AnyDisk(Arc<dyn AtomicDisk>);

impl AtomicDisk for AnyDisk {
    fn open(
        &self,
        path: &str,
    ) -> VfsResult<std::result::Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        self.0.open(path)
    }

    fn sync_folder_of(&self, path: &str) -> VfsResult<()> {
        self.0.sync_folder_of(path)
    }

    fn sync_file(&self, path: &str) -> VfsResult<()> {
        self.0.sync_file(path)
    }

    fn folder_stamp(&self, path: &str) -> VfsResult<Option<Stamp>> {
        self.0.folder_stamp(path)
    }

    fn file_stamp(&self, path: &str) -> VfsResult<FileStamp> {
        self.0.file_stamp(path)
    }
}

/// The events that SQLite reports by its hooks.
#[derive(Default)]
struct Watch {
    writes: Mutex<BTreeSet<TableWrite>>,
    rolled_back: AtomicBool,
    /// True if the script runs on a copy: then each attached database must be a copy too.
    is_copy: bool,
    has_refused: AtomicBool,
}

impl Watch {
    fn writes(&self) -> MutexGuard<'_, BTreeSet<TableWrite>> {
        lock(&self.writes)
    }

    /// Called for all that a statement will do, as it is prepared.
    fn prepared(&self, context: &AuthContext<'_>) -> Authorization {
        let is_refused = match context.action {
            AuthAction::Attach { filename } => filename.starts_with("file:"),
            // A name that is computed is not known yet.
            AuthAction::Unknown { code, .. } => code == ffi::SQLITE_ATTACH,
            _ => false,
        };
        if is_refused && self.is_copy {
            self.has_refused.store(true, Ordering::Relaxed);
            return Authorization::Deny;
        }
        self.note_write(context);
        Authorization::Allow
    }

    fn note_write(&self, context: &AuthContext<'_>) {
        let (AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. }) = context.action
        else {
            return;
        };
        let trigger = context.accessor.map(str::to_owned);
        self.writes().insert(TableWrite { table: table_name.to_owned(), trigger });
    }
}

/// A connection whose calls to the disk are counted.
pub(super) struct Machine {
    pub connection: Connection,
    pub in_force: InForce,
    /// That of the database itself.
    journal_mode: Cell<JournalMode>,
    pages: Arc<AtomicPages<Counted<PlatformVfs>>>,
    path: String,
    counters: IoCounters,
    trace: Arc<Trace>,
    watch: Arc<Watch>,
    compile_options: Option<&'static str>,
    _registration: Registration,
}

impl Machine {
    /// Opens the database at `path`, a copy or not, as `options` say.
    ///
    /// # Errors
    /// Those of [`profile::open`].
    pub(super) fn open(
        path: &Path,
        profile: Profile,
        options: &IoOptions,
        redirect: Option<Arc<dyn Redirect>>,
    ) -> Result<Self> {
        if std::path::absolute(path).is_ok_and(|path| path.to_str().is_none()) {
            let reason = "its path is not UTF-8, and its calls cannot be counted".to_owned();
            return Err(Error::from(ErrorKind::Unsupported(format!(
                "{}: {reason}",
                path_text(path)
            )))
            .to_do("measure a copy of it: leave out --in-place"));
        }
        let (counters, trace) = (IoCounters::new(), Arc::new(Trace::default()));
        let below = Counted::new(PlatformVfs::new(), &counters);
        let disk = Counted::new(AnyDisk(Arc::clone(&options.disk)), &counters);
        let pages = Arc::new(AtomicPages::new(below, disk));
        let name = unique_name();
        let registration = register(&name, Traced::new(Arc::clone(&pages), &trace, redirect))?;
        // Profile rebuildable was refused before where it is not a copy.
        let mut request = ProfileRequest::new(profile)
            .rebuildable_ok()
            .vfs(name)
            .busy_timeout(options.busy_timeout)
            .locking(options.locking);
        if options.small {
            request = request.small();
        }
        let (connection, in_force) = profile::open(path, &request)?;
        let compile_options = compile_options_missing();
        let path = path.to_str().map_or_else(String::new, str::to_owned);
        let path = pages.full_path(&path).unwrap_or(path);
        let watch = Arc::new(Watch { is_copy: !options.in_place, ..Watch::default() });
        let mut machine = Self {
            connection,
            journal_mode: Cell::new(in_force.journal_mode),
            in_force,
            pages,
            path,
            counters,
            trace,
            watch,
            compile_options,
            _registration: registration,
        };
        machine
            .set_hooks(&options.stop)
            .map_err(|source| Error::sqlite("set up the run", source))?;
        Ok(machine)
    }

    fn set_hooks(&mut self, stop: &Stop) -> rusqlite::Result<()> {
        let stop = Arc::clone(stop);
        self.connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || stop()))?;
        let watch = Arc::clone(&self.watch);
        self.connection
            .authorizer(Some(move |context: AuthContext<'_>| watch.prepared(&context)))?;
        let watch = Arc::clone(&self.watch);
        let note = move || watch.rolled_back.store(true, Ordering::Relaxed);
        self.connection.rollback_hook(Some(note))
    }

    /// Asks SQLite for the journal mode, which reads no file. Called after each PRAGMA, as
    /// nothing else changes the mode.
    fn look_at_journal_mode(&self) {
        let main = Some("main");
        let mode = self.connection.pragma_query_value(main, "journal_mode", |row| row.get(0));
        self.journal_mode.set(mode.unwrap_or(self.journal_mode.get()));
    }

    /// The present state: how a transaction of one page would be committed.
    pub(super) fn state(&self) -> AtomicState {
        if let Some(what) = self.compile_options {
            return AtomicState::Journal { why: WhyJournal::CompileOptions(what) };
        }
        let unknown = AtomicState::Journal { why: WhyJournal::NotKnownYet };
        self.pages.state(&self.path).unwrap_or(unknown)
    }

    /// All calls up to now.
    pub(super) fn io(&self) -> IoStats {
        self.counters.snapshot()
    }

    /// Copies the log into the database, and says what that took.
    pub(super) fn checkpoint(&self) -> Result<IoStats> {
        let before = self.io();
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|source| Error::sqlite("make a checkpoint", source))?;
        Ok(self.io().since(&before))
    }

    /// Runs all statements once.
    ///
    /// # Errors
    /// The first one, with its place; what was done until then stays in `done`.
    pub(super) fn run(&self, statements: &[Statement], done: &mut Vec<Done>) -> Result<()> {
        let mut at = 0;
        while at < statements.len() {
            at = self.run_transaction(statements, at, done)?;
        }
        Ok(())
    }

    /// Runs one transaction from statement `first` on; returns the statement where the next
    /// begins.
    fn run_transaction(
        &self,
        statements: &[Statement],
        first: usize,
        done: &mut Vec<Done>,
    ) -> Result<usize> {
        let state = self.state();
        self.trace.take();
        self.watch.writes().clear();
        self.watch.rolled_back.store(false, Ordering::Relaxed);
        let before = self.io();
        let (mut rows, mut at) = (0, first);
        let began = Instant::now();
        loop {
            let statement = &statements[at];
            let outcome = self.run_statement(&statement.sql);
            rows += outcome.map_err(|error| self.failed(statement, &error))?;
            at += 1;
            if self.connection.is_autocommit() {
                break;
            }
            if at == statements.len() {
                // What has no COMMIT ends as if the program had ended here.
                let undone = self.connection.execute_batch("ROLLBACK");
                undone.map_err(|error| self.failed(statement, &error))?;
                break;
            }
        }
        let time_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let io = self.io().since(&before);
        let calls = Calls::of(&io);
        let all = io.total();
        let is_pragma = |it: &Statement| {
            it.sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("pragma"))
        };
        if statements[first..at].iter().any(is_pragma) {
            self.look_at_journal_mode();
        }
        done.push(Done {
            first,
            last: at - 1,
            how: self.how(&io, &calls),
            calls,
            bytes_written: all.write.bytes + all.write_atomic.bytes,
            time_ns,
            rows,
            changes: self.trace.take(),
            writes: self.writes_since(done.last()),
            state,
        });
        Ok(at)
    }

    /// The tables that were written; as a rule the same as before, and kept once.
    fn writes_since(&self, before: Option<&Done>) -> Arc<BTreeSet<TableWrite>> {
        let writes = self.watch.writes();
        match before {
            Some(before) if *before.writes == *writes => Arc::clone(&before.writes),
            _ => Arc::new(writes.clone()),
        }
    }

    fn run_statement(&self, sql: &str) -> rusqlite::Result<u64> {
        let mut prepared = self.connection.prepare(sql)?;
        let mut rows = prepared.raw_query();
        let mut count = 0;
        while rows.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn failed(&self, statement: &Statement, error: &rusqlite::Error) -> Error {
        if self.watch.has_refused.load(Ordering::Relaxed) {
            let reason = "on a copy, what is attached must be a copy too, and a file: URI or a \
                          name that is computed could lead past it";
            return statement
                .error_at(0, reason)
                .to_do("attach it by its plain path, or run on the database itself: --in-place");
        }
        failed(Path::new(&self.path), statement, error)
    }

    fn how(&self, io: &IoStats, calls: &Calls) -> HowCommitted {
        let is_written = calls.write_database + calls.write_in_place + calls.write_log > 0;
        if self.watch.rolled_back.load(Ordering::Relaxed) {
            HowCommitted::RolledBack
        } else if calls.total() == 0 {
            HowCommitted::NoCalls
        } else if !is_written {
            HowCommitted::ReadOnly
        } else if io.super_journal.open.calls > 0 {
            HowCommitted::SuperJournal
        } else if calls.write_log > 0 {
            HowCommitted::Log
        } else if calls.write_journal > 0 {
            HowCommitted::Journal
        } else {
            match self.journal_mode.get() {
                JournalMode::Memory | JournalMode::Off => HowCommitted::Unprotected,
                JournalMode::Wal => HowCommitted::Checkpoint,
                _ if calls.write_in_place > 0 => HowCommitted::InPlace,
                _ => HowCommitted::Unprotected,
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Invariant 4. Taking them off cannot fail.
        let _ = self.connection.rollback_hook(None::<fn()>);
        let _ = self.connection.progress_handler(0, None::<fn() -> bool>);
        let _ = self.connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
    }
}

/// The error of a statement, at its place.
fn failed(database: &Path, statement: &Statement, error: &rusqlite::Error) -> Error {
    let offset = match error {
        rusqlite::Error::SqlInputError { offset, .. } => usize::try_from(*offset).unwrap_or(0),
        _ => 0,
    };
    let says = sqlite_says(error);
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => ErrorKind::Cancelled.into(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => statement
            .error_at(offset, format!("{says}: another connection holds it"))
            .held_by(holders_sentence(database))
            .to_do("try again when that is done, or wait for it longer with --busy-timeout"),
        Some(ErrorCode::DiskFull) => statement.error_at(offset, says).to_do("free some space"),
        _ => statement.error_at(offset, says),
    }
}

/// A VFS has its name for the whole process, and several runs may go on at once.
fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("leafpress-io-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
