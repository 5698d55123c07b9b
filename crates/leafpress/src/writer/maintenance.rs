//! Work on the whole database that no transaction can hold: it runs alone, between two groups.
//!
//! Stands beside the calls, which are parts of a transaction. Must never: change what a caller
//! has stored, or a setting of the connection.

use std::fmt;

use rusqlite::{Connection, ffi};

/// Work for [`Writer::maintain`](super::Writer::maintain).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maintenance {
    /// VACUUM: writes the whole database anew, without free pages. It needs up to twice the
    /// database's size on the disk for a while, and rowids of tables without an INTEGER PRIMARY
    /// KEY may change.
    Vacuum,
    /// `PRAGMA optimize`: counts anew what the query planner knows of tables that have changed
    /// much.
    Optimize,
    /// REINDEX: makes all indexes anew, as is needed after a collation has changed.
    Reindex,
    /// Copies all of the write-ahead log into the database, and empties the log. Under profiles
    /// without a log it does nothing.
    Checkpoint,
}

/// Result of work that SQLite did not refuse.
pub(super) enum IsWhole {
    Yes,
    /// A part could not be done, as another connection held the database.
    Held(rusqlite::Error),
}

impl Maintenance {
    const fn sql(self) -> &'static str {
        match self {
            Self::Vacuum => "VACUUM /* leafpress */",
            Self::Optimize => "PRAGMA optimize",
            Self::Reindex => "REINDEX /* leafpress */",
            Self::Checkpoint => "PRAGMA wal_checkpoint(TRUNCATE)",
        }
    }

    /// The work as a verb, for errors.
    pub(super) const fn action(self) -> &'static str {
        match self {
            Self::Vacuum => "vacuum the database",
            Self::Optimize => "optimize the database",
            Self::Reindex => "make the indexes anew",
            Self::Checkpoint => "copy the log into the database",
        }
    }

    /// Does the work on the writer's connection, outside of a transaction.
    pub(super) fn run(self, connection: &Connection) -> rusqlite::Result<IsWhole> {
        let mut statement = connection.prepare(self.sql())?;
        let mut rows = statement.raw_query();
        let mut is_held = false;
        while let Some(row) = rows.next()? {
            // The first column of a checkpoint: it could not be completed.
            is_held = self == Self::Checkpoint && row.get::<_, i64>(0)? != 0;
        }
        if !is_held {
            return Ok(IsWhole::Yes);
        }
        let says = "a reader or another process still needs the log".to_owned();
        let busy = ffi::Error::new(ffi::SQLITE_BUSY);
        Ok(IsWhole::Held(rusqlite::Error::SqliteFailure(busy, Some(says))))
    }
}

impl fmt::Display for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vacuum => "VACUUM",
            Self::Optimize => "PRAGMA optimize",
            Self::Reindex => "REINDEX",
            Self::Checkpoint => "a checkpoint",
        })
    }
}
