//! A database that is read under a lock: no program writes to its file through SQLite.
//!
//! A copy that is made over the file, or a program that goes round SQLite's locks, writes to it all the
//! same. Then some rows would be of one state and some of another. In WAL mode commits are written to the
//! file at any time, so that nothing can be seen from its times.
//!
//! Must never: open the file, as SQLite's locks on it would be lost.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::input::fingerprint::Fingerprint;
use crate::vfs::FileIdentity;

/// State of the file since the transaction began; `None` if others may write to it meanwhile.
pub(super) type SharedHeld = Arc<Mutex<Option<Held>>>;

/// State of a database with a rollback journal during a transaction that reads it.
#[derive(Debug)]
pub(super) struct Held {
    /// Another file that takes its name does not change the one that is read.
    file: FileIdentity,
    state: Fingerprint,
}

impl Held {
    /// The state now, in a transaction.
    pub(super) fn now(connection: &Connection, path: &Path) -> Option<Self> {
        let journal_mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0));
        let is_locked = journal_mode.is_ok_and(|mode: String| mode != "wal");
        is_locked.then(|| Self::of(path)).flatten()
    }

    /// Returns false if the file was written to since.
    pub(super) fn is_unchanged(&self, path: &Path) -> bool {
        Self::of(path).is_none_or(|now| now.file != self.file || now.state == self.state)
    }

    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        let found = path.metadata().ok()?;
        Some(Self { file: FileIdentity::from(&found), state: Fingerprint::of(&found) })
    }

    /// None: files have no identity there, and the system may give a file the time of an older write later.
    #[cfg(not(unix))]
    fn of(_path: &Path) -> Option<Self> {
        None
    }
}
