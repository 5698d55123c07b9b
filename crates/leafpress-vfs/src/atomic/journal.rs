//! A journal or WAL of a database, of which the database must know that it is open.
//!
//! Hands everything on, but for one thing. SQLite writes a journal, syncs it, and only
//! then writes into its header how many pages it holds, so that a journal that a power
//! cut tore is none. A journal that it kept in memory and moves to a file because its
//! cache is full has that number already, as in memory it was "synced". Here the
//! steps are done after all ([`JournalFile::write_spilled`]).
//!
//! Must never: write a byte of its own, or leave out a sync that has something to do.

use std::sync::Arc;

use super::Safeguard;
use super::database::{Database, GuardedDisk};
use crate::{FileLayer, SyncKind, VfsFile, VfsResult};

/// The magic number and the number of pages, at the start of a journal. They are
/// zero until the pages are synced.
const VALID_BYTES: usize = 12;
/// Page count of a journal that is never synced: it holds as many pages as fit.
const COUNTS_NOTHING: [u8; 4] = [0xff; 4];

/// A rollback journal.
pub(super) struct JournalFile {
    below: Box<dyn VfsFile>,
    database: Arc<Database>,
    disk: Arc<GuardedDisk>,
    /// Nothing was changed since it was synced here.
    is_synced: bool,
    /// Nothing was written here yet.
    is_untouched: bool,
}

impl JournalFile {
    pub fn new(below: Box<dyn VfsFile>, database: Arc<Database>, disk: Arc<GuardedDisk>) -> Self {
        database.journal_opened(&disk);
        Self { below, database, disk, is_synced: false, is_untouched: true }
    }

    /// Returns true for the start of a journal that was in memory when SQLite "synced" it.
    fn is_spilled(&self, bytes: &[u8], offset: u64) -> bool {
        let is_valid = |valid: &[u8]| valid[..8] != [0; 8] && valid[8..] != COUNTS_NOTHING;
        self.is_untouched
            && offset == 0
            && self.database.may_be_spilled()
            && bytes.get(..VALID_BYTES).is_some_and(is_valid)
    }

    /// Writes it as SQLite does in a file: first all but what makes it valid, which
    /// follows when the rest is synced. What an older transaction left in the file is
    /// thrown away, as one of its headers could stand just where this journal ends.
    ///
    /// After an error the file is no valid journal, and nothing was written to the
    /// database yet.
    fn write_spilled(&mut self, bytes: &[u8]) -> VfsResult<()> {
        if self.below.size()? > 0 {
            self.below.truncate(0)?;
        }
        let mut pages = bytes.to_vec();
        pages[..VALID_BYTES].fill(0);
        self.below.write(&pages, 0)?;
        self.below.sync(SyncKind { full: true, data_only: false })?;
        self.below.write(&bytes[..VALID_BYTES], 0)
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
        let is_spilled = self.is_spilled(bytes, offset);
        self.is_untouched = false;
        if is_spilled { self.write_spilled(bytes) } else { self.below.write(bytes, offset) }
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.is_synced = false;
        self.below.truncate(size)?;
        if size == 0 && self.disk.has(Safeguard::SyncOnTruncate) {
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
