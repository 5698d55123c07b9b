//! The database file: when the bit is set, and how a page is written then.
//!
//! Invariants:
//! 1. `device_characteristics` and `write` ask the same question, so that a page goes
//!    to the disk's own whole write if and only if SQLite was told so.
//! 2. `size` is the file's as long as it is known: until the lock is given up no other connection
//!    changes it.
//! 3. `counter` is the change counter in the file, as long as the lock is held.
//! 4. The page whose write failed is not written plainly in the same transaction:
//!    SQLite's rollback would tear it where the disk did write it.

use std::cell::Cell;
use std::sync::Arc;

use super::database::{ChangeCounter, Database, Facts, GuardedDisk, Header};
use super::{AtomicFile, Safeguard};
use crate::{FileLayer, LockLevel, SyncKind, VfsError, VfsFile, VfsResult, characteristics};

/// Bits of the file below that are not passed on: what it says of atomic writes, and of
/// an order that writes past it do not keep. SQLite would also keep a journal in memory
/// beside `SAFE_APPEND` where its cache is full in the middle of a transaction.
const NOT_PASSED_ON: i32 = 0x1ff
    | characteristics::BATCH_ATOMIC
    | characteristics::SAFE_APPEND
    | characteristics::SEQUENTIAL;

pub(super) struct DatabaseFile {
    below: Box<dyn VfsFile>,
    whole: Option<Arc<dyn AtomicFile>>,
    facts: Facts,
    database: Arc<Database>,
    disk: Arc<GuardedDisk>,
    size: Option<u64>,
    counter: Option<ChangeCounter>,
    others_may_have_written: bool,
    failed_at: Cell<Option<u64>>,
}

impl DatabaseFile {
    pub fn new(
        below: Box<dyn VfsFile>,
        whole: Option<Arc<dyn AtomicFile>>,
        facts: Facts,
        database: Arc<Database>,
        disk: Arc<GuardedDisk>,
    ) -> Self {
        database.learned(&facts);
        Self {
            below,
            whole,
            facts,
            database,
            disk,
            size: None,
            counter: None,
            others_may_have_written: true,
            failed_at: Cell::new(None),
        }
    }

    fn look_at_header(&mut self, bytes: &[u8], offset: u64) {
        self.counter = ChangeCounter::look(bytes, offset).or(self.counter);
        if offset != 0 || bytes.len() < Header::BYTES {
            return;
        }
        let header = Header::read(bytes);
        if header != self.facts.header {
            self.facts.header = header;
            self.database.learned(&self.facts);
        }
    }

    fn known_size(&mut self) -> VfsResult<u64> {
        match self.size {
            Some(size) => Ok(size),
            None => FileLayer::size(self),
        }
    }

    fn wrote(&mut self, bytes: &[u8], offset: u64) {
        let end = offset + bytes.len() as u64;
        self.size = self.size.map(|size| size.max(end));
        self.look_at_header(bytes, offset);
    }

    /// The disk's own file, if this write is one of SQLite's in place: bytes beyond the end of the
    /// file are no page yet, and need no such care.
    fn whole_for(&mut self, bytes: &[u8], offset: u64) -> VfsResult<Option<Arc<dyn AtomicFile>>> {
        let Some(page_bytes) = self.database.page_bytes_in_place(&self.facts, &self.disk) else {
            return Ok(None);
        };
        let page_bytes = u64::from(page_bytes);
        let is_page = bytes.len() as u64 == page_bytes && offset.is_multiple_of(page_bytes);
        if !is_page || offset + page_bytes > self.known_size()? {
            return Ok(None);
        }
        Ok(self.whole.clone())
    }

    /// Syncs pages that another process wrote in place and did not live to sync: they must not be
    /// lost while the pages that are written now stay.
    fn sync_left_pages(&mut self) -> VfsResult<()> {
        if self.counter.is_none() || self.database.counter_synced() != self.counter {
            FileLayer::sync(self, SyncKind { full: true, data_only: false })?;
        }
        Ok(())
    }

    fn write_in_place(
        &mut self,
        whole: &dyn AtomicFile,
        bytes: &[u8],
        offset: u64,
    ) -> VfsResult<()> {
        if self.others_may_have_written && self.disk.has(Safeguard::SyncBeforeFirst) {
            self.database.sync_what_others_left(&self.disk)?;
        }
        if self.others_may_have_written && self.disk.has(Safeguard::SyncLeftPages) {
            self.sync_left_pages()?;
        }
        self.others_may_have_written = false;
        whole.write(bytes, offset).inspect_err(|&error| {
            // A full disk may have room again; anything else is taken as "never".
            if error != VfsError::FULL {
                self.database.refuse();
                tracing::warn!(%error, offset, "an atomic write failed; journals are used from now on");
            }
            self.failed_at.set(Some(offset));
        })
    }
}

impl FileLayer for DatabaseFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.below
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let count = self.below.read(buffer, offset)?;
        self.look_at_header(&buffer[..count.min(buffer.len())], offset);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        if self.failed_at.get() == Some(offset) && !self.database.journal_is_open() {
            return Err(VfsError::IO_WRITE);
        }
        if let Some(whole) = self.whole_for(bytes, offset)? {
            self.write_in_place(&*whole, bytes, offset)?;
        } else {
            self.database.sync_spilled_journal(&self.disk)?;
            self.below.write(bytes, offset)?;
        }
        self.wrote(bytes, offset);
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.size = None;
        self.below.truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        let outcome = self.below.sync(kind);
        self.database.pages_synced(self.counter.filter(|_| outcome.is_ok()));
        self.others_may_have_written |= outcome.is_err();
        outcome
    }

    fn size(&mut self) -> VfsResult<u64> {
        let size = self.below.size()?;
        self.size = Some(size);
        Ok(size)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.failed_at.set(None);
        if level == LockLevel::None {
            self.size = None;
            self.others_may_have_written = true;
        }
        self.below.unlock(level)
    }

    /// False where pages are written past the page cache, since they are read through it: mapped
    /// pages would be read without a call.
    fn maps_memory(&self) -> bool {
        self.whole.is_none() && self.below.maps_memory()
    }

    fn device_characteristics(&self) -> i32 {
        // SQLite asks as it begins to write, and never between a failed write and the
        // end of its rollback.
        self.failed_at.set(None);
        let others = self.below.device_characteristics() & !NOT_PASSED_ON;
        let page_bytes = self.database.promise(&self.facts, &self.disk);
        // The bit for pages of 512 bytes is 2, and so on: the size shifted by eight.
        others | page_bytes.map_or(0, |bytes| (bytes >> 8).cast_signed())
    }
}
