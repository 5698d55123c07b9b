//! Costs of each transaction to the disk, and causes that defeat one-page commits.
//!
//! A commit costs what it makes the disk do. [`measure`] runs a script on a copy of a
//! database, counts every call that SQLite makes of its VFS, cut at the ends of the
//! transactions, and says why a transaction was not one page written in place where
//! it could have been.
//!
//! ```text
//! statements ─► Machine (on a Copy) ─► what each transaction did ─► causes ─► IoReport
//! ```
//!
//! | file | does |
//! |---|---|
//! | `mod.rs` | the run from its beginning to its end |
//! | `options.rs` | what may be asked for |
//! | `script.rs` | files and standard input to statements |
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
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leafpress::Candidate;
use leafpress::profile::Profile;
use leafpress::script::Statement;
use leafpress::{Error, ErrorKind, Result, ScriptError, counted, memory};

mod attached;
mod causes;
mod collect;
mod copy;
mod diagnose;
mod options;
mod owners;
mod report;
mod run;
pub mod script;
#[cfg(test)]
mod tests;
mod trace;

pub use causes::Finding;
pub use options::IoOptions;
pub use report::{Calls, IoReport, RanOn, Shape, Transaction};

use attached::Copies;
use collect::{Collected, collect};
use owners::Schemas;
use report::HowCommitted;
use run::{Done, Machine};
use trace::Redirect;

/// Runs a script on a copy of a database, and says what each transaction cost.
///
/// The copy is made beside the database, by SQLite's online backup, with what its `-wal`
/// holds, and is removed afterwards, also after an error or a panic. So are copies of
/// databases that the script attaches. A writer of the database waits while it is
/// copied, unless it is in WAL mode.
///
/// # Errors
/// When there is no database, it cannot be copied, another program holds it, a
/// statement fails ([`ErrorKind::Script`] names its place), or the caller stopped. The
/// database is as it was. With [`IoOptions::in_place`] the transactions before the error
/// are committed; the error says how many.
pub fn measure(database: &Path, statements: &[Statement], options: &IoOptions) -> Result<IoReport> {
    let began = Instant::now();
    let untouched = |error: Error| error.on_disk(copy::UNTOUCHED);
    if statements.is_empty() {
        return Err(untouched(Error::misuse("there is no statement to run")));
    }
    options.check().map_err(untouched)?;
    let candidate = Candidate::look_at(database).map_err(untouched)?;
    candidate.refuse_unless_written_here().map_err(untouched)?;
    let usual = if candidate.is_wal() { Profile::Durable } else { Profile::Rollback };
    let profile = options.profile.unwrap_or(usual);
    let mut report = if options.in_place {
        Run { options, statements, copies: None }.report(candidate.path(), profile)?
    } else {
        let (folder, wait) = (options.copy_to.as_deref(), options.busy_timeout);
        let copies = Arc::new(Copies::of(database, folder, wait, &options.stop)?);
        let run = Run { options, statements, copies: Some(Arc::clone(&copies)) };
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
    let Some(why) = why else { return error };
    let error = with_script(error, |failed| {
        failed.reason = format!("{}: {}", failed.reason, why.kind());
    });
    match why.advice() {
        Some(advice) => error.to_do(advice),
        None => error,
    }
}

/// The error of a statement with another account of it; other errors stay.
fn with_script(error: Error, change: impl FnOnce(&mut ScriptError)) -> Error {
    let ErrorKind::Script(failed) = error.kind() else { return error };
    let mut failed = failed.clone();
    change(&mut failed);
    let mut changed = Error::from(ErrorKind::Script(failed));
    changed = changed.held_by(error.holders().map(str::to_owned));
    if let Some(state) = error.state_on_disk() {
        changed = changed.on_disk(state);
    }
    match error.advice() {
        Some(advice) => changed.to_do(advice),
        None => changed,
    }
}

/// One run on one file.
struct Run<'a> {
    options: &'a IoOptions,
    statements: &'a [Statement],
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
        let statements = self.statements;
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
            counted(statements as u64, "statement", "statements"),
            counted(done().count() as u64, "transaction", "transactions")
        );
        if !self.options.in_place {
            return error.on_disk(format!("{}; {ran}", copy::UNTOUCHED));
        }
        let state = match committed {
            0 => format!("the database holds what it held; {ran}"),
            _ => format!(
                "the database itself has what {} before it had committed; the one that failed \
                 was undone; {ran}",
                counted(committed, "transaction", "transactions")
            ),
        };
        let error = match (error.kind(), committed) {
            // More than "stopped, and nothing changed" has to be said.
            (ErrorKind::Cancelled, 1..) => {
                let next = &self.statements[statements % self.statements.len()];
                next.error_at(0, "stopped here, as asked")
            }
            _ => error,
        };
        with_script(error, |failed| failed.transactions_committed = committed).on_disk(state)
    }
}
