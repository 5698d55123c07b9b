//! A journal or WAL of a database, of which the database must know that it is open.
//!
//! Hands everything on. Must never: keep a byte back, write one of its own, or leave
//! out a sync that has something to do.

use std::sync::Arc;

use super::Mend;
use super::database::{Database, Ground};
use crate::vfs::{FileLayer, SyncKind, VfsFile, VfsResult};

/// A rollback journal.
pub(super) struct JournalFile {
    below: Box<dyn VfsFile>,
    database: Arc<Database>,
    ground: Arc<Ground>,
    /// Nothing was changed since it was synced here.
    is_synced: bool,
}

impl JournalFile {
    pub fn new(below: Box<dyn VfsFile>, database: Arc<Database>, ground: Arc<Ground>) -> Self {
        database.journal_opened(&ground);
        Self { below, database, ground, is_synced: false }
    }
}

impl FileLayer for JournalFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.below
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.is_synced = false;
        self.below.write(bytes, offset)
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.is_synced = false;
        self.below.truncate(size)?;
        if size == 0 && self.ground.does(Mend::SyncOnTruncate) {
            self.below.sync(SyncKind { full: true, data_only: false })?;
            self.is_synced = true;
        }
        Ok(())
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        // With FULL, SQLite asks for what was just done.
        if !self.is_synced {
            self.below.sync(kind)?;
        }
        self.database.journal_synced();
        Ok(())
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        self.database.journal_closed();
    }
}

/// A write-ahead log.
pub(super) struct WalFile {
    below: Box<dyn VfsFile>,
    database: Arc<Database>,
}

impl WalFile {
    pub fn new(below: Box<dyn VfsFile>, database: Arc<Database>) -> Self {
        database.wal_opened();
        Self { below, database }
    }
}

impl FileLayer for WalFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.below
    }
}

impl Drop for WalFile {
    fn drop(&mut self) {
        self.database.wal_closed();
    }
}
