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
//! 2. [`regain_atomic_pages`] leaves the journal where it was, in a file, or
//!    says that it did not.
//!
//! Must never: leave a connection with its journal in memory.

use std::fmt;

use rusqlite::Connection;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use serde::Serialize;

use super::in_force::{JournalMode, MAIN};

/// Who else may use the database while a connection is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
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

/// What the mode is afterwards is for the caller to see.
fn change_journal(connection: &Connection, wanted: JournalMode) -> rusqlite::Result<JournalMode> {
    let name = wanted.name();
    connection.pragma_update_and_check(MAIN, "journal_mode", name, |row| row.get(0))
}

#[cfg(test)]
mod tests;
