//! The connection of the inspection, kept for the change: a small load opens the database once.
//!
//! It has no transaction in between, so other programs read and write. But as long as it is open they
//! cannot leave WAL mode, so it is closed before anything that may take long.
//!
//! Must never: give the connection out after the file at the path was replaced by another. SQLite itself
//! notices that in rollback mode only.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::profile::identity_of;
use crate::sync::lock;
use crate::vfs::FileIdentity;

/// The place of the connection, which all clones share.
#[derive(Debug, Clone, Default)]
pub struct Kept(Arc<Mutex<Option<Held>>>);

/// An open connection, and the file that had the name just before.
#[derive(Debug)]
pub struct Held {
    pub connection: Connection,
    file: Option<FileIdentity>,
}

impl Held {
    /// Opens a connection to the file at `path`.
    pub fn open<E>(path: &Path, open: impl FnOnce() -> Result<Connection, E>) -> Result<Self, E> {
        let file = identity_of(path);
        open().map(|connection| Self { connection, file })
    }
}

impl Kept {
    /// Keeps the connection.
    pub fn keep(&self, held: Held) {
        *lock(&self.0) = Some(held);
    }

    /// The connection, if its file still has the name `path`; else it is closed.
    pub fn take(&self, path: &Path) -> Option<Held> {
        lock(&self.0).take().filter(|held| held.file == identity_of(path))
    }

    /// Closes the connection.
    pub fn close(&self) {
        lock(&self.0).take();
    }
}
