//! Locking: the connections that may use a database beside this one, and the gain of holding it
//! alone.
//!
//! Stands beside [`super::open`], which takes the lock as the last step of an opening. A connection
//! that holds the database alone need not look, at each transaction, for changes of others: it
//! reads no change counter, writes none, and takes and gives back no locks.
//!
//! Invariants:
//! 1. Where [`hold`] succeeds, no other connection can read or write the database until the
//!    connection is closed, and nothing was written for it.
//! 2. [`close_journal`] leaves the journal where it was, in a file, or
//!    says that it did not.
//!
//! Must never: leave a connection with its journal in memory and say nothing.

use rusqlite::Connection;

use super::settings::{JournalMode, Locking, MAIN};
use crate::error::{Error, Result};
use crate::vfs::database_file::{self, has_moved};

/// Asks for the locking of the connection's main database; without its name, SQLite answers for
/// databases that will be attached next.
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
/// `SQLITE_BUSY` if another connection has a lock for longer than the busy timeout.
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
        Ok(other) => Err(not_back(Error::unsupported(format!(
            "the journal could not be closed and opened again: it is in journal mode {other}"
        )))),
        Err(source) => Err(not_back(Error::sqlite("close the journal and open it again", source))),
    }
}

fn not_back(error: Error) -> Error {
    error
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
/// may be a journal that says that it is void, or one that is to be rolled back. And if the database was
/// moved: a journal at its name may be that of another database, and stays.
pub fn give_back(connection: &Connection) -> Result<()> {
    if has_moved(connection) == Some(true) {
        // Else closing the connection would delete the journal, by its name.
        let _ = change_journal(connection, JournalMode::Persist);
        let path = database_file::path(connection).unwrap_or_default();
        return Err(Error::destination(path, "was moved or replaced while it was open")
            .on_disk("the files that were moved hold what was committed")
            .to_do("close the connection"));
    }
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
            .to_do("close the connection: the next opening of the database puts it in order")
    };
    give().map_err(failed)
}

/// Reads the schema: after an I/O error that left a journal which is still needed, this puts the
/// journal back into the database, also for a connection that holds it alone.
pub(super) fn roll_back_what_failed(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_query_value(MAIN, "schema_version", |_| Ok(()))
}

/// Asks for a journal mode, and returns the one in force afterwards; the caller compares.
fn change_journal(connection: &Connection, wanted: JournalMode) -> rusqlite::Result<JournalMode> {
    let name = wanted.name();
    connection.pragma_update_and_check(MAIN, "journal_mode", name, |row| row.get(0))
}

#[cfg(test)]
mod tests;
