//! State of write-ahead logs on the disk, as far as this process knows.
//!
//! A process learns of another that uses a log when it begins to use the `-shm` file: SQLite asks for the
//! byte there that each process locks. What it is told later it keeps until its last connection is closed.

use std::path::Path;

/// State of a write-ahead log on the disk, as far as this process knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOnDisk {
    /// The disk may lack bytes that SQLite reads, after a sync that failed.
    Unknown,
    /// The disk has all of it; or another process used it before this one did.
    Whole,
    /// It alone has pages that SQLite counts as copied into the database: a sync of a checkpoint failed.
    Uncopied,
}

impl LogOnDisk {
    /// State of the log of this database. Always unknown for a log whose index is no file, and on Windows.
    pub fn of(database: &Path) -> Self {
        #[cfg(unix)]
        let known = unix::locks_of_index(database).map(|locks| locks.log());
        #[cfg(not(unix))]
        let known = {
            let _ = database;
            None
        };
        known.unwrap_or(Self::Unknown)
    }

    /// Notes it of the log of this database, until the last connection of this process is closed.
    pub fn note(self, database: &Path) {
        #[cfg(unix)]
        if let Some(locks) = unix::locks_of_index(database) {
            locks.set_log(self);
        }
        #[cfg(not(unix))]
        let _ = database;
    }
}

#[cfg(unix)]
mod unix {
    use std::path::Path;
    use std::sync::Arc;

    use super::super::file_locks::FileLocks;
    use super::super::table;
    use crate::paths::companion_of;

    pub fn locks_of_index(database: &Path) -> Option<Arc<FileLocks>> {
        table::locks_of(&companion_of(database, "-shm"))
    }
}
