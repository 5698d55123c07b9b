//! A database in WAL mode that no program has open: its file alone is all of it.
//!
//! Must never: say so of a database with a log, whose last commits are not in the file.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

use crate::paths::companion_of;
use crate::vfs::locks::FileHandle;

/// Offset of the two bytes in the header that are 2 in WAL mode.
const MODE_AT: usize = 18;

/// State of the file, by which a change is found.
#[derive(Debug, PartialEq, Eq)]
pub struct AtRest {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl AtRest {
    /// The state of a database at rest; `None` if it is none.
    pub fn of(path: &Path) -> Option<Self> {
        // SQLite looks for the log beside the file that a link leads to.
        let path = &path.canonicalize().ok()?;
        let mut header = [0; MODE_AT + 2];
        FileHandle::open(path).ok()?.read_exact(&mut header).ok()?;
        let has_log = match companion_of(path, "-wal").metadata() {
            Ok(log) => log.len() > 0,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let metadata: Metadata = path.metadata().ok()?;
        let state = Self { bytes: metadata.len(), modified: metadata.modified().ok() };
        (header[MODE_AT..] == [2, 2] && !has_log).then_some(state)
    }
}
