//! An open file whose calls are counted.
//!
//! Must never: change a call, its answer or its error on the way through, or count
//! under another kind than the one that the file was opened as. Shared memory, which
//! SQLite asks of the *database*, is counted under `wal`, as only a WAL needs it.

use std::sync::Arc;

use super::counters::{IoCounters, KindCounters};
use super::stats::{Kind, Operation};

use crate::{FileLayer, LockLevel, MappedBytes, ShmLock, ShmRegion, SyncKind, VfsFile, VfsResult};

pub(super) struct CountedFile {
    pub(super) below: Box<dyn VfsFile>,
    pub(super) own: Arc<KindCounters>,
    /// Those of `wal`, once the shared memory of a database is used.
    pub(super) shared_memory: Option<Arc<KindCounters>>,
    pub(super) all: IoCounters,
    /// True if the platform's VFS syncs the folder with the next sync.
    pub(super) syncs_folder: bool,
}

fn wal_of<'f>(slot: &'f mut Option<Arc<KindCounters>>, all: &IoCounters) -> &'f KindCounters {
    slot.get_or_insert_with(|| all.of_file(Kind::Wal))
}

impl FileLayer for CountedFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.below
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let answer = self.own.timed(Operation::Read, || self.below.read(buffer, offset));
        self.own.moved(Operation::Read, answer.unwrap_or(0));
        answer
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let answer = self.own.timed(Operation::Write, || self.below.write(bytes, offset));
        if answer.is_ok() {
            self.own.moved(Operation::Write, bytes.len());
        }
        answer
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.own.timed(Operation::Truncate, || self.below.truncate(size))
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        self.own.timed(Operation::Sync, || self.below.sync(kind))?;
        if std::mem::take(&mut self.syncs_folder) {
            self.own.untimed(Operation::FolderSync);
        }
        Ok(())
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.own.timed(Operation::Stat, || self.below.size())
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.own.timed(Operation::Lock, || self.below.lock(level))
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.own.timed(Operation::Lock, || self.below.unlock(level))
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        self.own.timed(Operation::Lock, || self.below.is_reserved())
    }

    /// Counting needs to know only that a page is mapped, not what is read there.
    fn maps_memory(&self) -> bool {
        self.below.maps_memory()
    }

    /// Not timed: this call only adds to a pointer, for each page that SQLite reads.
    fn fetch(&mut self, offset: u64, bytes: usize) -> VfsResult<Option<MappedBytes>> {
        let answer = self.below.fetch(offset, bytes);
        self.own.untimed(Operation::Map);
        if let Ok(Some(mapped)) = &answer {
            self.own.moved(Operation::Map, mapped.bytes());
        }
        answer
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        let answer = self.below.shm_map(region, bytes, extend);
        let wal = wal_of(&mut self.shared_memory, &self.all);
        wal.untimed(Operation::Map);
        if let Ok(Some(region)) = &answer {
            wal.moved(Operation::Map, region.bytes());
        }
        answer
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        let wal = wal_of(&mut self.shared_memory, &self.all);
        wal.timed(Operation::Lock, || self.below.shm_lock(first, count, lock))
    }
}
