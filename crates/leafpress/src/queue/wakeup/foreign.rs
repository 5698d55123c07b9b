//! Changes of the database by other connections: for writers that send no wake-up.
//!
//! Stands beside the wake-up thread, which asks at most once a second while there is a waiter. A
//! producer may be another program, with no more than SQLite; and a claim makes a lease that ends
//! some day without a wake-up.
//!
//! Must never: wait for a lock, write, or stay open long after the last waiter: a connection that
//! outlives the writer's keeps the write-ahead log there.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::connect;
use crate::words::path_text;

/// Result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// There was no change since the last look.
    Same,
    /// There was a change, or this is the first look.
    Changed,
    /// The database cannot be read now.
    Nothing,
}

/// A read-only connection that knows `data_version`.
#[derive(Debug)]
pub(super) struct Foreign {
    database: PathBuf,
    vfs: Option<String>,
    connection: Option<Connection>,
    /// The number at the last look.
    version: Option<i64>,
}

impl Foreign {
    /// Opens nothing yet.
    pub(super) fn new(database: PathBuf, vfs: Option<String>) -> Self {
        Self { database, vfs, connection: None, version: None }
    }

    /// Looks for a change of the database since the last look, by this process or another one.
    pub(super) fn look(&mut self) -> Seen {
        match self.data_version() {
            Ok(version) if self.version.replace(version) == Some(version) => Seen::Same,
            Ok(_) => Seen::Changed,
            // The connection that holds the database is about to change it.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                Seen::Changed
            }
            Err(error) => {
                tracing::debug!(database = %path_text(&self.database), %error, "wake-up: no look");
                // The number is the connection's own: another one begins anew.
                (self.connection, self.version) = (None, None);
                Seen::Nothing
            }
        }
    }

    fn data_version(&mut self) -> rusqlite::Result<i64> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let connection = self.connection.insert(connection);
        connection.pragma_query_value(None, "data_version", |row| row.get(0))
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let connection =
            connect::open_through(&self.database, connect::READ_ONLY, self.vfs.as_deref())?;
        connection.busy_timeout(Duration::ZERO)?;
        Ok(connection)
    }
}
