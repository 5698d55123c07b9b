//! The transaction that a caller's closure is given.
//!
//! It is a part of the group's transaction, and is undone as a whole if it fails. The closure
//! sees what earlier calls did, and is answered only after all of it is
//! committed.
//!
//! Must never: hand out the connection itself, or run a statement once SQLite
//! has rolled the transaction back: it would be committed by itself. Nor in a child
//! of a closure that forked.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use rusqlite::Row;

use super::guard::Guard;
use super::insert_many::{InsertPlans, insert_sorted};
use super::interrupt::Interrupts;
use super::refused::refused;
use super::request::{Executed, IntoParameters, Parameters, insert_many_request};
use super::statement::LastStatement;
use super::transaction_hooks::{TransactionHooks, TransactionHooksPlace};
use super::{batch, statement};
use crate::error::{Error, Result};
use crate::fork::Process;
use crate::vfs::kept::KeepingConnection;

/// A transaction inside the writer's.
#[derive(Debug)]
pub struct Transaction<'c> {
    parts: Parts<'c>,
    process: Process,
}

/// Rows that a statement returned, and what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Returned<T> {
    /// Names of the columns; none for a statement that returns no rows.
    pub columns: Vec<String>,
    /// The rows, in the order in which SQLite gave them.
    pub rows: Vec<T>,
    /// Changes and the last rowid.
    pub executed: Executed,
}

/// The parts of the writer's target that a transaction needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'c> {
    pub(super) connection: &'c KeepingConnection,
    /// The path of the database, if it has one.
    pub(super) path: Option<&'c Path>,
    pub(super) guard: &'c Guard,
    pub(super) plans: &'c RefCell<InsertPlans>,
    pub(super) hooks: &'c TransactionHooksPlace,
    pub(super) interrupts: &'c Interrupts,
}

impl<'c> Transaction<'c> {
    pub(super) fn new(parts: Parts<'c>) -> Self {
        Self { parts, process: Process::current() }
    }

    /// Runs one statement; rows that it returns are dropped.
    ///
    /// # Errors
    /// If SQLite or the writer refuses it. The transaction goes on, unless
    /// SQLite rolled it back (`OR ROLLBACK`, a full disk); return the error to
    /// undo all that the closure did.
    pub fn execute(&self, sql: &str, parameters: impl IntoParameters) -> Result<Executed> {
        let parameters = parameters.into_parameters()?;
        self.guarded(|connection| statement::execute(connection, sql, &parameters))
    }

    /// Runs one statement for each row of parameters, and compiles it once: for all of them or none.
    /// The result counts the changes of all rows; rows that the statement returns are dropped.
    ///
    /// # Errors
    /// A statement that is no INSERT, UPDATE or DELETE, and that of the first row that fails
    /// ([`Error::failed_row`]), as with [`execute`](Self::execute). The transaction goes on without
    /// any of the rows, unless SQLite rolled it back; so it does after a panic of `rows`.
    pub fn execute_many(
        &self,
        sql: &str,
        rows: impl IntoIterator<Item = impl Borrow<Parameters>>,
    ) -> Result<Executed> {
        self.still_open()?;
        let own = |sql| {
            let run = || self.parts.connection.execute_batch(sql);
            let done = self.parts.guard.as_writer(run);
            done.map_err(|source| self.named(Error::sqlite("carry out the rows", source)))
        };
        own("SAVEPOINT leafpress_rows")?;
        // The closure may catch a panic of `rows`, and go on.
        let each_row = catch_unwind(AssertUnwindSafe(|| self.each_row(sql, rows)));
        let done = each_row.unwrap_or_else(|panic| {
            let is_open = self.process.is_current() && !self.parts.connection.is_autocommit();
            if is_open
                && let Err(error) =
                    own("ROLLBACK TO leafpress_rows").and_then(|()| own("RELEASE leafpress_rows"))
            {
                tracing::debug!(%error, "the rows before a panic were not undone");
            }
            resume_unwind(panic)
        });
        if self.parts.connection.is_autocommit() {
            // With the transaction the savepoint is gone.
            let state = "nothing of the transaction, which SQLite has rolled back";
            return done.map_err(|error| error.on_disk(state));
        }
        if done.is_err() {
            own("ROLLBACK TO leafpress_rows")?;
        }
        own("RELEASE leafpress_rows")?;
        done.map_err(|error| error.on_disk("nothing of this call"))
    }

    fn each_row(
        &self,
        sql: &str,
        rows: impl IntoIterator<Item = impl Borrow<Parameters>>,
    ) -> Result<Executed> {
        let connection = self.parts.connection;
        let refused = |source| self.refused(source);
        if !statement::changes_rows(connection, sql).map_err(refused)? {
            return Err(Error::misuse(
                "only INSERT, UPDATE and DELETE are carried out once for each row, and this is \
                 another statement",
            )
            .to_do("give it to a call of its own"));
        }
        let known = RefCell::default();
        let mut statement = LastStatement::new(connection, &known);
        statement.select(&sql.into());
        let mut all = Executed::new(0, connection.last_insert_rowid());
        for (number, row) in (1..).zip(rows) {
            self.still_open()?;
            let done = statement.execute(row.borrow());
            let done = done.map_err(|source| refused(source).at_row(number))?;
            all.rows_changed += done.rows_changed;
            all.last_insert_rowid = done.last_insert_rowid;
        }
        self.still_open().map(|()| all)
    }

    /// Runs any number of statements without parameters.
    ///
    /// # Errors
    /// As with [`execute`](Self::execute), with the statement that failed
    /// ([`Error::failed_statement`]); those before it have had their effect.
    pub fn execute_script(&self, sql: &str) -> Result<()> {
        self.still_open()?;
        let done = batch::script(self.parts.connection, self.parts.guard, sql, 0);
        done.map(drop).map_err(|error| self.named(error))
    }

    /// The first row of a query, or of a statement with RETURNING, if there is one.
    ///
    /// # Errors
    /// As with [`execute`](Self::execute), or what `read` gives.
    pub fn query_row<T>(
        &self,
        sql: &str,
        parameters: impl IntoParameters,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let parameters = parameters.into_parameters()?;
        self.guarded(|connection| {
            statement::prepared(connection, sql, &parameters, |compiled| {
                let only_reads = compiled.readonly();
                let mut rows = compiled.raw_query();
                let first = rows.next()?.map(read).transpose()?;
                // A statement with RETURNING must come to its end to be done.
                while !only_reads && rows.next()?.is_some() {}
                Ok(first)
            })
        })
    }

    /// All rows of a query, or of a statement with RETURNING.
    ///
    /// # Errors
    /// As with [`execute`](Self::execute), or what `read` gives.
    pub fn query_map<T>(
        &self,
        sql: &str,
        parameters: impl IntoParameters,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let parameters = parameters.into_parameters()?;
        self.guarded(|connection| {
            statement::prepared(connection, sql, &parameters, |compiled| {
                compiled.raw_query().mapped(read).collect()
            })
        })
    }

    /// Runs one statement of any kind, and gives its rows with the names of their columns.
    ///
    /// # Errors
    /// As with [`execute`](Self::execute), or what `read` gives.
    pub fn run<T>(
        &self,
        sql: &str,
        parameters: impl IntoParameters,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Returned<T>> {
        let parameters = parameters.into_parameters()?;
        self.guarded(|connection| {
            let before = connection.total_changes();
            let (columns, rows) = statement::prepared(connection, sql, &parameters, |compiled| {
                let rows = compiled.raw_query().mapped(read).collect::<rusqlite::Result<_>>()?;
                // Only now: the first step compiles a kept statement again for another schema.
                let column = |index| compiled.column_name(index).map(str::to_owned);
                let columns =
                    (0..compiled.column_count()).map(column).collect::<rusqlite::Result<_>>()?;
                Ok((columns, rows))
            })?;
            Ok(Returned { columns, rows, executed: statement::executed(connection, before) })
        })
    }

    /// Inserts many rows, sorted by the table's key first.
    ///
    /// # Errors
    /// As [`Writer::insert_many`](super::Writer::insert_many). The transaction
    /// goes on without any of the rows.
    pub fn insert_many<R: IntoParameters>(
        &self,
        table: &str,
        columns: &[&str],
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64> {
        let request = insert_many_request(table, columns, rows)?;
        self.still_open()?;
        let plans = &mut self.parts.plans.borrow_mut();
        let inserted =
            self.parts.guard.as_writer(|| insert_sorted(self.parts.connection, plans, &request));
        inserted.map_err(|error| self.named(error))
    }

    /// The rowid that the last INSERT into a table with rowids gave.
    pub fn last_insert_rowid(&self) -> i64 {
        self.parts.connection.last_insert_rowid()
    }

    /// Runs work of this crate inside the transaction, for the writer that has these `hooks`. An
    /// error undoes nothing by itself: the closure is undone as a whole if it returns the error.
    pub(crate) fn internal<T>(
        &self,
        hooks: &Arc<impl TransactionHooks>,
        run: impl FnOnce(&KeepingConnection) -> Result<T>,
    ) -> Result<T> {
        self.still_open()?;
        let is_ours = self
            .parts
            .hooks
            .get()
            .is_some_and(|ours| std::ptr::addr_eq(Arc::as_ptr(ours), Arc::as_ptr(hooks)));
        if !is_ours {
            return Err(Error::misuse("this transaction is one of another writer"));
        }
        let done = self.parts.guard.as_writer(|| run(self.parts.connection));
        done.map_err(|error| self.named(error))
    }

    fn guarded<T>(&self, run: impl FnOnce(&KeepingConnection) -> rusqlite::Result<T>) -> Result<T> {
        self.still_open()?;
        run(self.parts.connection).map_err(|source| self.refused(source))
    }

    /// The error of a statement of this transaction.
    fn refused(&self, source: rusqlite::Error) -> Error {
        self.named(refused(self.parts.guard, source))
    }

    /// Names the database in an error of its own whose cause is a full disk, or its damage.
    fn named(&self, error: Error) -> Error {
        match self.parts.path {
            Some(path) => error.on_full_disk(path).of_damaged(path),
            None => error,
        }
    }

    fn still_open(&self) -> Result<()> {
        self.process.check("transaction")?;
        self.parts.interrupts.check()?;
        if self.parts.connection.is_autocommit() {
            return Err(Error::misuse("SQLite has rolled this transaction back"));
        }
        Ok(())
    }
}
