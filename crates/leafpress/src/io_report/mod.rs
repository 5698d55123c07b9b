//! Costs of each transaction to the disk, and causes that defeat one-page commits.
//!
//! A commit costs what it makes the disk do. [`measure`] runs a script on a copy of a
//! database, counts every call that SQLite makes of its VFS, cut at the ends of the
//! transactions, and says why a transaction was not one page written in place where
//! it could have been.
//!
//! ```text
//! Script ─► Machine (on a Copy) ─► what each transaction did ─► causes ─► IoReport
//! ```
//!
//! | file | does |
//! |---|---|
//! | `mod.rs` | what may be asked for, and the run from its beginning to its end |
//! | `script.rs` | SQL text to statements, each with its place |
//! | `copy.rs`, `attached.rs` | a copy to run them on, gone afterwards; one of what is attached too |
//! | `run.rs` | runs the statements, and cuts the figures at the ends of transactions |
//! | `trace.rs` | which pages were written |
//! | `owners.rs` | whose pages these are |
//! | `diagnose.rs`, `causes.rs` | why a transaction was more than one page, and what to change |
//! | `collect.rs`, `report.rs` | the report |
//!
//! Must never: write to the database itself, unless the caller means it
//! ([`IoOptions::in_place`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::memory;
use crate::profile::{Locking, Profile};
use crate::verify::Candidate;
use crate::vfs::PlatformDisk;
use crate::vfs::atomic::AtomicDisk;

mod attached;
mod causes;
mod collect;
mod copy;
mod diagnose;
mod owners;
mod report;
mod run;
mod script;
#[cfg(test)]
mod tests;
mod trace;

pub use causes::Finding;
pub use report::{Calls, Commits, HowCommitted, IoReport, RanOn, Shape, Transaction};
pub use script::{Script, Statement};

use attached::Copies;
use collect::{Collected, collect};
use owners::Schemas;
use run::{Done, Machine};
use trace::Redirect;

type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// Longest wait for locks, unless set: that of every connection of a profile.
const BUSY_WAIT: Duration = Duration::from_secs(5);
const LISTED_MAX: usize = 1000;

/// Options for running a script.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "options are")]
#[must_use]
pub struct IoOptions {
    profile: Option<Profile>,
    locking: Locking,
    small: bool,
    assume_atomic: bool,
    rounds: u32,
    in_place: bool,
    copy_to: Option<PathBuf>,
    memory: bool,
    listed_max: usize,
    busy_timeout: Duration,
    stop: Stop,
    disk: Option<Arc<dyn AtomicDisk>>,
    with_dbstat: bool,
}

impl Default for IoOptions {
    fn default() -> Self {
        Self {
            profile: None,
            locking: Locking::default(),
            small: false,
            assume_atomic: false,
            rounds: 1,
            in_place: false,
            copy_to: None,
            memory: false,
            listed_max: LISTED_MAX,
            busy_timeout: BUSY_WAIT,
            stop: Arc::new(|| false),
            disk: None,
            with_dbstat: true,
        }
    }
}

impl IoOptions {
    /// Runs under this profile. Unless set it is the one whose journal mode the database
    /// has: `durable` for WAL mode, else `rollback`.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets whether the connection holds the database alone (shared unless set).
    pub fn locking(mut self, locking: Locking) -> Self {
        self.locking = locking;
        self
    }

    /// Runs with little memory; see [`memory::shrink`].
    pub fn small(mut self, small: bool) -> Self {
        self.small = small;
        self
    }

    /// Takes the caller's word that the disk writes pages whole. On a copy nothing can
    /// come of it; a database that is changed in place can be damaged by a power cut if
    /// the word is not true.
    pub fn assume_atomic(mut self, assume: bool) -> Self {
        self.assume_atomic = assume;
        self
    }

    /// Runs the script `rounds` times, one run after the other on the same copy (once unless
    /// set; 0 is taken as 1).
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds.max(1);
        self
    }

    /// Runs on the database itself, which the script then changes for good.
    pub fn in_place(mut self, in_place: bool) -> Self {
        self.in_place = in_place;
        self
    }

    /// Makes the copy in this folder, in the place of the database's own. What is
    /// measured is then the disk of that folder.
    pub fn copy_to(mut self, folder: impl Into<PathBuf>) -> Self {
        self.copy_to = Some(folder.into());
        self
    }

    /// Adds what SQLite's memory was to the report.
    pub fn memory(mut self, memory: bool) -> Self {
        self.memory = memory;
        self
    }

    /// Lists at most `listed_max` transactions (1,000 unless set); all are counted.
    pub fn listed_max(mut self, listed_max: usize) -> Self {
        self.listed_max = listed_max;
        self
    }

    /// Longest wait for locks of other connections (5 s unless set).
    pub fn busy_timeout(mut self, wait: Duration) -> Self {
        self.busy_timeout = wait;
        self
    }

    /// Asks `stop` again and again; once it says true, [`measure`] ends.
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Arc::new(stop);
        self
    }

    /// Runs on another disk than the platform's: for tests.
    #[doc(hidden)]
    pub fn on_disk(mut self, disk: Arc<dyn AtomicDisk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Judges without the virtual table that a foreign SQLite may lack: for tests.
    #[doc(hidden)]
    pub fn without_dbstat(mut self) -> Self {
        self.with_dbstat = false;
        self
    }

    fn disk(&self) -> Arc<dyn AtomicDisk> {
        match &self.disk {
            Some(disk) => Arc::clone(disk),
            None if self.assume_atomic => Arc::new(PlatformDisk::assuming()),
            None => Arc::new(PlatformDisk::new()),
        }
    }

    fn check(&self, script: &Script) -> Result<()> {
        if script.is_empty() {
            return Err(Error::misuse("there is no statement to run"));
        }
        if self.in_place && self.copy_to.is_some() {
            return Err(Error::misuse("a folder for the copy was named, but none is to be made"));
        }
        if self.in_place && self.profile == Some(Profile::Rebuildable) {
            return Err(Error::misuse(
                "under profile rebuildable any crash can destroy the database",
            )
            .to_do("leave out ⟦in_place⟧: on a copy nothing can be lost"));
        }
        Ok(())
    }
}

/// Runs a script on a copy of a database, and says what each transaction cost.
///
/// The copy is made beside the database, by SQLite's online backup, with what its `-wal`
/// holds, and is removed afterwards, also after an error or a panic. So are copies of
/// databases that the script attaches. A writer of the database waits while it is
/// copied, unless it is in WAL mode. Do not call it in a process that has the database
/// open in rollback mode: on Unix its locks would be lost.
///
/// ```
/// use leafpress::io_report::{IoOptions, Script, measure};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("shop.db");
/// # let table = "CREATE TABLE stock (id INTEGER PRIMARY KEY, n); INSERT INTO stock VALUES (7, 9)";
/// # rusqlite::Connection::open(&path).unwrap().execute_batch(table).unwrap();
/// let mut script = Script::default();
/// script.push("sale", "UPDATE stock SET n = n - 1 WHERE id = 7")?;
/// let report = measure(&path, &script, &IoOptions::default())?;
/// println!("{}: {} calls", report.transactions[0].statement, report.transactions[0].calls.total());
/// for finding in &report.findings {
///     println!("{} of {}: {}", finding.transactions, finding.of, finding.why);
/// }
/// # Ok::<(), leafpress::Error>(())
/// ```
///
/// # Errors
/// When there is no database, it cannot be copied, another program holds it, a
/// statement fails ([`ErrorKind::Script`] names its place), or the caller stopped. The
/// database is as it was. With [`IoOptions::in_place`] the transactions before the error
/// are committed; the error says how many.
pub fn measure(
    database: impl AsRef<Path>,
    script: &Script,
    options: &IoOptions,
) -> Result<IoReport> {
    let (began, database) = (Instant::now(), database.as_ref());
    let untouched = |error: Error| error.on_disk(copy::UNTOUCHED);
    options.check(script).map_err(untouched)?;
    let candidate = Candidate::look_at(database).map_err(untouched)?;
    let usual = if candidate.is_wal() { Profile::Durable } else { Profile::Rollback };
    let profile = options.profile.unwrap_or(usual);
    let mut report = if options.in_place {
        Run { options, script, copies: None }.report(candidate.path(), profile)?
    } else {
        let copies = Copies::of(database, options.copy_to.as_deref(), &options.stop)?;
        let copies = Arc::new(copies);
        let run = Run { options, script, copies: Some(Arc::clone(&copies)) };
        let outcome = run.report(copies.main(), profile);
        // SQLite knows only that a database cannot be opened.
        let why = copies.take_error();
        outcome.map_err(|error| explained(error, why)).map_err(untouched)?
    };
    database.clone_into(&mut report.database);
    report.elapsed = began.elapsed();
    Ok(report)
}

/// Adds why a database could not be copied to the error of the statement that attaches it.
fn explained(error: Error, why: Option<Error>) -> Error {
    match (error.kind(), why) {
        (ErrorKind::Script(failed), Some(why)) => {
            let mut failed = failed.clone();
            failed.reason = format!("{}: {}", failed.reason, why.kind());
            let advice = why.advice().map(str::to_owned);
            let error = Error::from(ErrorKind::Script(failed));
            match advice {
                Some(advice) => error.to_do(advice),
                None => error,
            }
        }
        _ => error,
    }
}

/// One run on one file.
struct Run<'a> {
    options: &'a IoOptions,
    script: &'a Script,
    copies: Option<Arc<Copies>>,
}

impl Run<'_> {
    fn report(&self, path: &Path, profile: Profile) -> Result<IoReport> {
        let options = self.options;
        if options.memory {
            memory::reset_highwater();
        }
        let redirect = self.copies.clone().map(|it| -> Arc<dyn Redirect> { it });
        let machine = Machine::open(path, profile, options, redirect)?;
        let statements = self.script.statements();
        let state = machine.state();
        let before = machine.io();
        let mut rounds: Vec<Vec<Done>> = Vec::new();
        for _ in 0..options.rounds {
            let mut done = Vec::new();
            let outcome = machine.run(statements, &mut done);
            rounds.push(done);
            outcome.map_err(|error| self.failed(error, &rounds))?;
        }
        let io = machine.io().since(&before);
        let memory = options.memory.then(|| memory::of(&machine.connection));
        let checkpoint = profile.is_wal().then(|| machine.checkpoint()).transpose()?;
        let schemas = self.schemas(&machine, &rounds);
        let found = collect(statements, &rounds, &schemas, options.listed_max);
        let Collected { commits, transactions, transactions_left_out, shapes, findings, summary } =
            found;
        Ok(IoReport {
            database: path.to_owned(),
            ran_on: if options.in_place { RanOn::Database } else { RanOn::Copy },
            in_force: machine.in_force.clone(),
            one_page_commits: state,
            rounds: options.rounds,
            statements: statements.len() as u64,
            transactions_total: rounds.iter().map(|it| it.len() as u64).sum(),
            commits,
            transactions,
            transactions_left_out,
            shapes,
            findings,
            summary,
            io,
            checkpoint,
            memory,
            elapsed: Duration::ZERO,
        })
    }

    /// Whose pages were written where more than one was.
    fn schemas(&self, machine: &Machine, rounds: &[Vec<Done>]) -> Schemas {
        let in_question = |it: &&Done| it.how.is_write() && it.how != HowCommitted::InPlace;
        let done = rounds.iter().flatten().filter(in_question);
        let tables: BTreeSet<String> =
            done.clone().flat_map(|it| it.writes.iter().map(|write| write.table.clone())).collect();
        let changes = done.flat_map(|it| &it.changes);
        Schemas::read(&machine.connection, &changes, &tables, self.options.with_dbstat)
    }

    /// Adds what ran before the failure, and what of it stays.
    fn failed(&self, error: Error, rounds: &[Vec<Done>]) -> Error {
        let done = || rounds.iter().flatten();
        let statements: usize = done().map(|it| it.last + 1 - it.first).sum();
        let committed = done().filter(|it| it.how.is_write()).count() as u64;
        let ran = format!(
            "before it, {} ran, in {}",
            counted(statements as u64, "statement"),
            counted(done().count() as u64, "transaction")
        );
        if !self.options.in_place {
            return error.on_disk(format!("{}; {ran}", copy::UNTOUCHED));
        }
        let state = match committed {
            0 => format!("the database holds what it held; {ran}"),
            _ => format!(
                "the database itself has what {} before it had committed; the one that failed \
                 was undone; {ran}",
                counted(committed, "transaction")
            ),
        };
        let error = match (error.kind(), committed) {
            // More than "stopped, and nothing changed" has to be said.
            (ErrorKind::Cancelled, 1..) => {
                let all = self.script.statements();
                all[statements % all.len()].error_at(0, "stopped here, as asked")
            }
            _ => error,
        };
        error.with_commits(committed).on_disk(state)
    }
}

fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
