//! One call inside the open transaction.
//!
//! A single statement needs nothing but SQLite's own atomicity, as far as that goes: after an error
//! that leaves a part of it, it is undone with the transaction. Another call runs between SAVEPOINT
//! and RELEASE, or is undone with the transaction: one that is alone in it, one of this crate, and
//! those for which `local/mod.rs` spares the savepoint. The result ([`Ran`]) tells it whether the
//! transaction is still open.
//!
//! Must never: commit, or leave a part of a failed call in a transaction that goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::LocalTarget;
use crate::error::{Error, Result};
use crate::vfs::connection::unresolved_deferred_keys;
use crate::writer::batch;
use crate::writer::call::{Answer, AnyValue, Call, ClosureValue};
use crate::writer::caught::{Caught, drop_caught, panicked};
use crate::writer::insert_many::{Alone, InsertMany, insert_alone, insert_sorted};
use crate::writer::refused::refused;
use crate::writer::statement::{LastStatement, execute};
use crate::writer::target::Group;
use crate::writer::transaction::{Parts, Transaction};
use crate::writer::transaction_hooks::TransactionHooks;

/// The state on disk after a call that failed.
pub(super) const NOTHING: &str = "nothing of this call; other callers' are not touched";

/// The end of a call, within the open transaction.
pub(super) enum Ran {
    Done(Answer),
    /// The call failed, and nothing of it is left.
    Failed(Error),
    /// The call failed, and the transaction is gone.
    Lost(Error),
    /// The call failed without a savepoint: the transaction has to be rolled back, and the other
    /// calls carried out again. So has this one, if its error is only known with a savepoint.
    Again(Option<Error>),
    /// The call has forked, and this is the child.
    Forked,
}

/// The place of a call in the range that is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// The call is the only one of the range.
    Alone,
    /// All other calls of the range have failed.
    LastLeft,
    /// The call is one of several.
    Group,
}

impl LocalTarget {
    /// Carries out the call at `index`, unless it was stopped before.
    pub(super) fn run_at(
        &self,
        group: &mut Group<'_>,
        index: usize,
        (within, has_savepoint): (Within, bool),
        last: &mut LastStatement<'_>,
    ) -> Ran {
        let (number, limit) = (group.number(index), group.call_limit(index));
        if let Err(error) = self.interrupts.begin(number, limit) {
            return Ran::Failed(error);
        }
        let call = group.call(index);
        // Its error may be about another database; the transaction names the disk in its own.
        let is_closure = matches!(call, Call::Closure(_));
        let ran = match call {
            Call::InsertMany(rows) if !has_savepoint => self.run_rows(rows),
            call => self.run(call, (within, has_savepoint), last),
        };
        self.interrupts.end();
        match ran {
            ran if is_closure => ran,
            Ran::Failed(error) => Ran::Failed(self.naming_the_disk(error)),
            Ran::Lost(error) => Ran::Lost(self.naming_the_disk(error)),
            Ran::Again(Some(error)) => Ran::Again(Some(self.naming_the_disk(error))),
            ran => ran,
        }
    }

    /// Carries out one call inside the open transaction.
    fn run(
        &self,
        call: &mut Call<'_>,
        (place, has_savepoint): (Within, bool),
        last: &mut LastStatement<'_>,
    ) -> Ran {
        let single = match call {
            // A statement that fails may leave the changes that it made so far: OR FAIL,
            // RAISE(FAIL).
            Call::Execute(statement)
                if !self.schema_may_fail && !self.guard.has_changed_schema() =>
            {
                last.select(&statement.sql);
                let is_atomic = last.is_atomic();
                let code = || match place {
                    // This call cannot be carried out again, so its values are not needed any more.
                    Within::Alone => last.execute(statement.parameters.take()),
                    Within::LastLeft | Within::Group => last.execute(&statement.parameters),
                };
                is_atomic.then(|| self.interrupts.run(code).map(Answer::Executed))
            }
            _ => None,
        };
        let mut ran = match single {
            Some(Ok(_)) if unresolved_deferred_keys(&self.connection) => {
                Ran::Lost(broken_deferred_key())
            }
            // No known statement ends the transaction here; if one did, later calls would run
            // outside of it.
            Some(Ok(_)) if self.connection.is_autocommit() => {
                Ran::Lost(Error::bug("the statement ended the transaction of others"))
            }
            Some(Ok(answer)) => Ran::Done(answer),
            Some(Err(source)) => match self.interrupts.stopped() {
                // SQLite can be stopped after the last step of a statement, which then stays.
                Some(error) => Ran::Lost(error),
                None if last.is_undone(&source) => self.failed(refused(&self.guard, source)),
                None => Ran::Lost(refused(&self.guard, source).on_disk(NOTHING)),
            },
            None if matches!(call, Call::Internal(_)) => self.run_internal(call),
            None if place != Within::Group => self.run_unfenced(call).unwrap_or_else(Ran::Lost),
            None if !has_savepoint => self.run_unfenced(call).unwrap_or_else(|error| {
                if self.connection.is_autocommit() {
                    Ran::Lost(error)
                } else {
                    Ran::Again(Some(error))
                }
            }),
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

    /// The end of a failed call: `Lost` if SQLite has ended the transaction with it.
    fn failed(&self, error: Error) -> Ran {
        let error = error.on_disk(NOTHING);
        if self.connection.is_autocommit() { Ran::Lost(error) } else { Ran::Failed(error) }
    }

    /// Inserts rows without a savepoint.
    fn run_rows(&self, rows: &InsertMany) -> Ran {
        self.tell(TransactionHooks::call_began);
        let plans = &mut self.plans.borrow_mut();
        let code = || self.guard.as_writer(|| insert_alone(&self.connection, plans, rows));
        let inserted = self.interrupts.run(code);
        if let Some(error) = self.interrupts.stopped() {
            return Ran::Lost(error);
        }
        match inserted {
            Ok(Alone::Inserted(_)) if unresolved_deferred_keys(&self.connection) => {
                Ran::Lost(broken_deferred_key())
            }
            Ok(Alone::Inserted(rows)) => Ran::Done(Answer::Inserted(rows)),
            Ok(Alone::Refused) => Ran::Again(None),
            Ok(Alone::Broken(error)) => Ran::Lost(error.on_disk(NOTHING)),
            Err(error) => {
                self.tell(TransactionHooks::call_undone);
                self.failed(error)
            }
        }
    }

    /// Carries out a call of this crate itself. If it fails after a change, the transaction is lost
    /// with it, as it has no savepoint.
    fn run_internal(&self, call: &mut Call<'_>) -> Ran {
        let before = self.connection.total_changes();
        self.tell(TransactionHooks::call_began);
        let outcome = self.run_whole(call);
        if !self.process.is_current() {
            return Ran::Forked;
        }
        match outcome {
            Ok(_) if unresolved_deferred_keys(&self.connection) => Ran::Lost(broken_deferred_key()),
            Ok(answer) => Ran::Done(answer),
            Err(error) if self.connection.total_changes() == before => {
                self.tell(TransactionHooks::call_undone);
                self.failed(error)
            }
            Err(error) => Ran::Lost(error.on_disk(NOTHING)),
        }
    }

    /// Carries out a call without a savepoint.
    ///
    /// # Errors
    /// That of the call, or of its deferred foreign keys: then the transaction has to be rolled
    /// back, which undoes the call.
    fn run_unfenced(&self, call: &mut Call<'_>) -> Result<Ran> {
        self.tell(TransactionHooks::call_began);
        let outcome = self.run_whole(call);
        if !self.process.is_current() {
            return Ok(Ran::Forked);
        }
        match outcome {
            Ok(_) if unresolved_deferred_keys(&self.connection) => Err(broken_deferred_key()),
            Ok(_) if self.connection.is_autocommit() => Err(went_on_after_rollback()),
            Ok(answer) => Ok(Ran::Done(answer)),
            Err(error) => Err(error.on_disk(NOTHING)),
        }
    }

    /// Carries out a call between SAVEPOINT and RELEASE.
    fn run_fenced(&self, call: &mut Call<'_>) -> Ran {
        if let Err(source) = self.own("SAVEPOINT leafpress_call") {
            return lost("begin the call", source);
        }
        self.tell(TransactionHooks::call_began);
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
                self.tell(TransactionHooks::call_undone);
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

    /// Runs the call's own code. If the call was stopped, that is its error, even if the code
    /// ignores SQLite's.
    fn run_whole(&self, call: &mut Call<'_>) -> Result<Answer> {
        let outcome = self.interrupts.run(|| self.run_code(call));
        match self.interrupts.stopped() {
            Some(error) => {
                drop_caught(outcome);
                Err(error)
            }
            None => outcome,
        }
    }

    fn run_code(&self, call: &mut Call<'_>) -> Result<Answer> {
        match call {
            Call::Execute(one) => execute(&self.connection, &one.sql, &one.parameters)
                .map(Answer::Executed)
                .map_err(|source| refused(&self.guard, source)),
            Call::Batch(batch) => {
                batch::run(&self.connection, &self.guard, batch).map(|()| Answer::Done)
            }
            Call::InsertMany(rows) => {
                let plans = &mut self.plans.borrow_mut();
                let insert = || insert_sorted(&self.connection, plans, rows);
                self.guard.as_writer(insert).map(Answer::Inserted)
            }
            Call::Internal(own) => {
                let body = own.0.get_mut();
                self.guard.as_writer(|| answered(|| body(&self.connection)))
            }
            Call::Closure(closure) => {
                let transaction = Transaction::new(self.parts());
                let body = closure.0.get_mut();
                answered(|| body(&transaction))
            }
        }
    }

    fn parts(&self) -> Parts<'_> {
        let Self { connection, path, guard, plans, hooks, interrupts, .. } = self;
        Parts { connection, path: path.as_deref(), guard, plans, hooks, interrupts }
    }
}

fn went_on_after_rollback() -> Error {
    Error::misuse("SQLite rolled the transaction back, and the call went on all the same")
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

/// The answer of a body; a panic becomes an error.
fn answered(body: impl FnOnce() -> Result<AnyValue>) -> Result<Answer> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(outcome) => outcome.map(|value| Answer::Value(ClosureValue(Caught::new(value)))),
        Err(panic) => Err(panicked(panic)),
    }
}
