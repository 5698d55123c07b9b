//! The other way to the disk, past the VFS, counted as well: whole pages in place, and
//! what keeps them safe.
//!
//! Paths tell what a file is for, as with deletions. Here syncs of folders are calls of
//! their own, and are timed.
//!
//! Must never: change a call, its answer or its error on the way through.

use std::sync::Arc;

use super::Counted;
use super::counters::KindCounters;
use super::stats::{Kind, Operation};
use crate::VfsResult;
use crate::atomic::{AtomicDisk, AtomicFile, AtomicUnits, FileStamp, NoAtomicWrites, Stamp};

impl<D: AtomicDisk> AtomicDisk for Counted<D> {
    fn open(&self, path: &str) -> VfsResult<Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        let own = self.counters.shared(Kind::Database);
        let opened = own.timed(Operation::Open, || self.inner.open(path))?;
        Ok(opened.map(|below| -> Arc<dyn AtomicFile> {
            Arc::new(CountedAtomicFile { below, own: Arc::clone(own) })
        }))
    }

    fn sync_folder_of(&self, path: &str) -> VfsResult<()> {
        self.by_path(path).timed(Operation::FolderSync, || self.inner.sync_folder_of(path))
    }

    fn sync_file(&self, path: &str) -> VfsResult<()> {
        self.by_path(path).timed(Operation::Sync, || self.inner.sync_file(path))
    }

    fn folder_stamp(&self, path: &str) -> VfsResult<Option<Stamp>> {
        self.by_path(path).timed(Operation::Stat, || self.inner.folder_stamp(path))
    }

    fn file_stamp(&self, path: &str) -> VfsResult<FileStamp> {
        self.by_path(path).timed(Operation::Stat, || self.inner.file_stamp(path))
    }
}

struct CountedAtomicFile {
    below: Arc<dyn AtomicFile>,
    own: Arc<KindCounters>,
}

impl AtomicFile for CountedAtomicFile {
    fn units(&self) -> AtomicUnits {
        self.below.units()
    }

    fn write(&self, page: &[u8], offset: u64) -> VfsResult<()> {
        let answer = self.own.timed(Operation::WriteAtomic, || self.below.write(page, offset));
        if answer.is_ok() {
            self.own.moved(Operation::WriteAtomic, page.len());
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VfsError;
    use crate::atomic::AtomicProof;
    use crate::count::IoCounters;

    const UNITS: AtomicUnits =
        AtomicUnits { bytes_min: 512, bytes_max: 4096, by: AtomicProof::Hardware };

    /// Answers each question in its own way, and refuses what is not at offset 0.
    struct Disk;

    impl AtomicFile for Disk {
        fn units(&self) -> AtomicUnits {
            UNITS
        }

        fn write(&self, _page: &[u8], offset: u64) -> VfsResult<()> {
            if offset == 0 { Ok(()) } else { Err(VfsError::FULL) }
        }
    }

    impl AtomicDisk for Disk {
        fn open(&self, path: &str) -> VfsResult<Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
            match path {
                "/a.db" => Ok(Ok(Arc::new(Self))),
                "/old.db" => Ok(Err(NoAtomicWrites::NotTold)),
                _ => Err(VfsError::CANNOT_OPEN),
            }
        }

        fn sync_folder_of(&self, _path: &str) -> VfsResult<()> {
            Err(VfsError::IO_SYNC_FOLDER)
        }

        fn sync_file(&self, _path: &str) -> VfsResult<()> {
            Err(VfsError::IO_SYNC)
        }

        fn folder_stamp(&self, _path: &str) -> VfsResult<Option<Stamp>> {
            Ok(Some(Stamp(7)))
        }

        fn file_stamp(&self, _path: &str) -> VfsResult<FileStamp> {
            Ok(FileStamp::There(Some(Stamp(8))))
        }
    }

    #[test]
    fn what_goes_past_the_vfs_is_handed_on_and_counted() {
        let counters = IoCounters::new();
        let disk = Counted::new(Disk, &counters);
        let file = disk.open("/a.db").unwrap().unwrap();
        assert_eq!(disk.open("/old.db").unwrap().err(), Some(NoAtomicWrites::NotTold));
        assert_eq!(disk.open("/none.db").err(), Some(VfsError::CANNOT_OPEN));
        assert_eq!(file.units(), UNITS);
        assert_eq!(file.write(&[0; 4096], 0), Ok(()));
        assert_eq!(file.write(&[0; 4096], 4096), Err(VfsError::FULL));
        assert_eq!(disk.sync_folder_of("/a.db"), Err(VfsError::IO_SYNC_FOLDER));
        assert_eq!(disk.sync_file("/a.db-journal"), Err(VfsError::IO_SYNC));
        assert_eq!(disk.folder_stamp("/a.db"), Ok(Some(Stamp(7))));
        assert_eq!(disk.file_stamp("/a.db-journal"), Ok(FileStamp::There(Some(Stamp(8)))));

        let stats = counters.snapshot();
        let (database, journal) = (&stats.database, &stats.journal);
        assert_eq!((database.open.calls, database.stat.calls), (3, 1));
        assert_eq!((database.write_atomic.calls, database.write_atomic.bytes), (2, 4096));
        assert_eq!((journal.sync.calls, journal.stat.calls), (1, 1));
        assert_eq!((database.folder_sync.calls, database.folder_sync.latency.calls()), (1, 1));
        assert_eq!(stats.total().total().calls, 9);
    }
}
