//! A database in WAL mode that no program has open: its file alone is all of it.
//!
//! Must never: say so of a database with a log, whose last commits are not in the file.

use std::io::{self, Read as _};
use std::path::Path;

use leafpress_format::header;

use crate::input::fingerprint::Fingerprint;
use crate::paths::companion_of;
use crate::refusal::why_not_writable;
use crate::vfs::locks::FileHandle;

/// State of the file, by which a change is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtRest(Fingerprint);

impl AtRest {
    /// The state of a database at rest that this user may only read, and that has no log; `None` if it
    /// is none.
    ///
    /// For a reader SQLite would make the log and its `-shm`. They would be this user's and stay, so
    /// that those who may write to the database could not do it any more.
    pub fn for_reader(path: &Path) -> Option<Self> {
        why_not_writable(path)?;
        let log = companion_of(&dunce::canonicalize(path).ok()?, "-wal");
        let has_log = log.symlink_metadata().is_ok();
        if has_log { None } else { Self::of(path) }
    }

    /// The state of a database at rest; `None` if it is none.
    pub fn of(path: &Path) -> Option<Self> {
        // SQLite looks for the log beside the file that a link leads to.
        let path = &dunce::canonicalize(path).ok()?;
        let mut start = [0; header::READ_VERSION + 1];
        FileHandle::open(path).ok()?.read_exact(&mut start).ok()?;
        let has_log = match companion_of(path, "-wal").metadata() {
            Ok(log) => log.len() > 0,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let state = Self(Fingerprint::of(&path.metadata().ok()?));
        let is_wal = start[header::WRITE_VERSION..] == [header::VERSION_WAL; 2];
        (is_wal && !has_log).then_some(state)
    }
}
