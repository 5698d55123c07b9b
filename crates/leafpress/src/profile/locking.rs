//! Who may use the database beside a connection, and what holding it alone
//! makes possible.
//!
//! Stands beside [`super::open`], which takes the lock as the last step of an
//! opening. A connection that holds the database alone need not look, at each
//! transaction, whether somebody else has changed something: it reads no change
//! counter, writes none, and takes and gives back no locks.
//!
//! Invariants:
//! 1. Where [`hold`] succeeds, nobody else can read or write the database until
//!    the connection is closed, and nothing was written for it.
//! 2. [`close_journal`] leaves the journal where it was, in a file, or
//!    says that it did not.
//!
//! Must never: leave a connection with its journal in memory and say nothing.

use std::fmt;

use rusqlite::Connection;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use serde::{Deserialize, Serialize};

use super::in_force::{JournalMode, MAIN};
use crate::error::{Error, Result};

/// Who else may use the database while a connection is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locking {
    /// Everybody, between this connection's transactions.
    #[default]
    Shared,
    /// Nobody, not even to read: the database is held from the opening on until
    /// the connection is closed.
    Exclusive,
}

impl Locking {
    /// Its name: `shared` or `exclusive`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }
}

impl fmt::Display for Locking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromSql for Locking {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "normal" => Ok(Self::Shared),
            "exclusive" => Ok(Self::Exclusive),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// How the main database of a connection is locked; without its name, SQLite
/// tells how databases will be that are attached next.
pub(super) fn ask_locking(connection: &Connection) -> rusqlite::Result<Locking> {
    connection.pragma_query_value(MAIN, "locking_mode", |row| row.get(0))
}

/// Takes the main database for this connection alone, and keeps it.
///
/// The journal is kept in memory meanwhile, since to begin a transaction on an
/// empty file makes its first page, and so a journal. All of that is rolled
/// back before anything is written.
///
/// # Errors
/// `SQLITE_BUSY` if somebody else has a lock for longer than the busy timeout.
pub(super) fn hold(connection: &Connection, journal_mode: JournalMode) -> rusqlite::Result<()> {
    connection.pragma_update(MAIN, "locking_mode", Locking::Exclusive.name())?;
    change_journal(connection, JournalMode::Memory)?;
    let held = connection.execute_batch("BEGIN EXCLUSIVE; ROLLBACK");
    // Also where it is not held: the connection may be handed on with an error.
    change_journal(connection, journal_mode).and(held)
}

/// Closes the journal that stands open with exclusive locking: in memory there
/// is no file, and back in a file there is none until it is needed.
///
/// # Errors
/// If the journal stays in memory; the connection must not write then.
pub(crate) fn close_journal(connection: &Connection) -> Result<()> {
    let flip = || {
        change_journal(connection, JournalMode::Memory)?;
        // Should it fail once, it is tried again: what stays in memory is lost in a crash.
        change_journal(connection, JournalMode::Delete)
            .or_else(|_| change_journal(connection, JournalMode::Delete))
    };
    match flip() {
        Ok(JournalMode::Delete) => Ok(()),
        Ok(other) => Err(not_back(&format!("it is in journal mode {other}"))),
        Err(source) => Err(not_back(&source.to_string())),
    }
}

fn not_back(reason: &str) -> Error {
    Error::usage(format!("the journal could not be closed and opened again: {reason}"))
        .on_disk("the database is as it was")
        .to_do("close this connection without writing to it, and open the database again")
}

/// Gives back a database that a connection held alone ([`Locking::Exclusive`]), and
/// takes the journal away that stood open: others find one file.
///
/// Closing the connection gives it back too, but can leave a journal beside it that
/// says that it is void. The [`Writer`](crate::writer::Writer) does this as it closes.
///
/// # Errors
/// SQLite's, as within a transaction. The database holds what was committed; beside it
/// may be a journal that says that it is void, or one that is to be rolled back.
pub fn give_back(connection: &Connection) -> Result<()> {
    let give = || {
        roll_back_what_failed(connection)?;
        // SQLite deletes a journal on the way from PERSIST, if it is not held alone.
        change_journal(connection, JournalMode::Persist)?;
        connection.pragma_update(MAIN, "locking_mode", "normal")?;
        change_journal(connection, JournalMode::Delete)?;
        // The lock goes with the end of the next transaction, if only to read.
        roll_back_what_failed(connection)
    };
    let failed = |source| {
        Error::sqlite("give the database back", source)
            .on_disk("the database holds what was committed; a journal may be beside it")
            .to_do("close the connection: whoever opens the database next puts it in order")
    };
    give().map_err(failed)
}

/// Where an I/O error has left a journal that is still needed, the next read puts
/// it back into the database, also for who holds that alone.
pub(super) fn roll_back_what_failed(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_query_value(MAIN, "schema_version", |_| Ok(()))
}

/// What the mode is afterwards is for the caller to see.
fn change_journal(connection: &Connection, wanted: JournalMode) -> rusqlite::Result<JournalMode> {
    let name = wanted.name();
    connection.pragma_update_and_check(MAIN, "journal_mode", name, |row| row.get(0))
}

#[cfg(test)]
mod tests;
