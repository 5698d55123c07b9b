//! Batches: several statements, carried out one after the other, and the error of the one that
//! fails.
//!
//! Must never: go on once SQLite has rolled the transaction back: later statements would be
//! committed by themselves.

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch as Statements, Connection, Rows};

use super::guard::Guard;
use super::refused::refused;
use super::request::{Batch, BatchPart, Statement};
use super::statement::{execute, without_nul};
use crate::error::{Error, FailedStatement, Result};
use crate::script::{shown, split};
use crate::vfs::kept::KeepingConnection;

/// Carries out all statements of a batch.
///
/// # Errors
/// The error of the first statement that fails, with its place in the batch. The statements before
/// it have had their effect.
pub(super) fn run(connection: &KeepingConnection, guard: &Guard, batch: &Batch) -> Result<()> {
    let mut before = 0;
    for part in &batch.parts {
        before += match part {
            BatchPart::Statement(Statement { sql, parameters }) => {
                execute(connection, sql, parameters).map_err(|source| {
                    let (ordinal, sql) = (before + 1, shown(sql.trim()));
                    refused(guard, source).at_statement(FailedStatement { ordinal, line: 1, sql })
                })?;
                1
            }
            BatchPart::Script(sql) => script(connection, guard, sql, before)?,
        };
        if connection.is_autocommit() {
            return Err(Error::misuse("SQLite has rolled this transaction back"));
        }
    }
    Ok(())
}

/// Carries out the statements of a text, before which the batch has carried out `before` others;
/// returns their number.
///
/// # Errors
/// Those of [`run`].
pub(super) fn script(
    connection: &Connection,
    guard: &Guard,
    sql: &str,
    before: u64,
) -> Result<u64> {
    without_nul(sql).map_err(|source| refused(guard, source))?;
    let mut statements = Statements::new(connection, sql);
    let mut done = 0;
    loop {
        let next = statements
            .next()
            .and_then(|next| next.map(|mut next| all_rows(next.raw_query())).transpose());
        match next {
            Ok(None) => return Ok(done),
            Ok(Some(())) => done += 1,
            Err(source) => {
                let error = refused(guard, source);
                return Err(match place(sql, done, before) {
                    Some(place) => error.at_statement(place),
                    None => error,
                });
            }
        }
    }
}

/// Steps through all rows and drops them, as `sqlite3_exec` does. A later row can fail, and some
/// pragmas do a part of their work in each step.
pub(super) fn all_rows(mut rows: Rows<'_>) -> rusqlite::Result<()> {
    while rows.next()?.is_some() {}
    Ok(())
}

/// The place of the statement that has `done` others before it in the text.
fn place(sql: &str, done: u64, before: u64) -> Option<FailedStatement> {
    let failed = split("", sql).ok()?.into_iter().nth(usize::try_from(done).ok()?)?;
    Some(FailedStatement { ordinal: before + done + 1, line: failed.line, sql: shown(&failed.sql) })
}
