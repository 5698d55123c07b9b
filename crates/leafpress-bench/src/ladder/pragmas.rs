//! SQLite's settings, as the ladder and the cycles set them, and what they promise.
//!
//! The promise is not decided here: `atomic/promise.rs` says it for every journal mode
//! that syncs, and what never syncs promises nothing.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::atomic::promise;
use crate::atomic::{Journal, Synchronous};
use crate::error::{Error, Result};
use crate::report::Safety;

/// A journal mode, and when it syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pragmas {
    /// `journal_mode`.
    pub journal: Journal,
    /// `synchronous`; none is OFF.
    pub synchronous: Option<Synchronous>,
}

impl Pragmas {
    /// What holds where nothing is set.
    pub(crate) const DEFAULT: Self = Self::of(Journal::Delete, Synchronous::Full);
    /// A log, each commit synced.
    pub(crate) const WAL_FULL: Self = Self::of(Journal::Wal, Synchronous::Full);
    /// A log, synced at checkpoints.
    pub(crate) const WAL_NORMAL: Self = Self::of(Journal::Wal, Synchronous::Normal);
    /// A journal, and its folder synced when it is deleted.
    pub(crate) const DELETE_EXTRA: Self = Self::of(Journal::Delete, Synchronous::Extra);
    /// A journal that a crash takes with it, and no syncs.
    pub(crate) const MEMORY_OFF: Self = Self { journal: Journal::Memory, synchronous: None };

    const fn of(journal: Journal, synchronous: Synchronous) -> Self {
        Self { journal, synchronous: Some(synchronous) }
    }

    /// "default", "WAL + NORMAL".
    pub(crate) fn label(self) -> String {
        if self == Self::DEFAULT {
            return "default".to_owned();
        }
        let synchronous = self.synchronous.map_or("off", Synchronous::name);
        format!("{} + {}", self.journal.name(), synchronous).to_uppercase()
    }

    /// What is left after a crash right after the work.
    pub(crate) fn safety(self) -> Safety {
        let syncs = |synchronous| promise::of(self.journal, synchronous);
        self.synchronous.map_or(Safety::Rebuildable, syncs)
    }

    /// The journal mode that a database says it has once it is closed: only a log is
    /// written down in it.
    pub(crate) fn journal_left(self) -> &'static str {
        if self.journal == Journal::Wal { "wal" } else { "delete" }
    }

    /// Sets them.
    ///
    /// # Errors
    /// If SQLite does not take the journal mode, as on a file system without shared memory.
    pub(crate) fn set(self, connection: &Connection) -> Result<()> {
        let failed = Error::sqlite("set up the rival's database");
        let wanted = self.journal.name();
        let set = || -> rusqlite::Result<String> {
            let synchronous = self.synchronous.map_or("off", Synchronous::name);
            connection.pragma_update(None, "synchronous", synchronous)?;
            connection.pragma_update_and_check(None, "journal_mode", wanted, |row| row.get(0))
        };
        let in_force = set().map_err(failed)?;
        if in_force == wanted {
            return Ok(());
        }
        let reason = format!("journal_mode is {in_force}, not {wanted}");
        Err(Error::Rung { name: format!("SQL, {}", self.label()), reason })
    }
}
