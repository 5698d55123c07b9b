//! The simulated disk in the place of the platform's: what SQLite opens, pages that would be
//! written whole, and the files that Leafpress writes by itself.
//!
//! Each is a layer of its own over a seam that knows no simulation. Must never: be put there
//! twice in a process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::device::{Device, OpenFile};
use super::file::SlowDisk;
use crate::VfsResult;
use crate::atomic::{AtomicDisk, AtomicFile, FileStamp, NoAtomicWrites, Stamp};
use crate::c_api::platform::{BarePlatform, put_over_platform};
use crate::platform_disk::{BareDisk, put_over_disk};
use crate::watch::{Watcher, WriteObserver, watch};

/// Puts `device` in the place of the platform's disk, to the end of the process.
///
/// # Errors
/// When another watcher is told of this process's files; nothing was changed.
pub(super) fn put_in_place(device: &Arc<Device>) -> crate::Result<()> {
    // First, as it can fail.
    watch(Arc::new(OwnFiles(Arc::clone(device))))?;
    let files = put_over_platform(SlowDisk::on(BarePlatform::new(), Arc::clone(device)));
    let pages =
        put_over_disk(SlowPages { below: BareDisk::without_stamps(), device: Arc::clone(device) });
    assert!(files && pages, "there is a layer over the platform's disk already");
    Ok(())
}

/// Pages are never written whole; folders and journals are synced as slowly as files.
struct SlowPages {
    below: BareDisk,
    device: Arc<Device>,
}

impl AtomicDisk for SlowPages {
    fn open(&self, _path: &str) -> VfsResult<Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        Ok(Err(NoAtomicWrites::Simulated))
    }

    fn sync_folder_of(&self, path: &str) -> VfsResult<()> {
        self.device.sync_folder(|| self.below.sync_folder_of(path))
    }

    fn sync_file(&self, path: &str) -> VfsResult<()> {
        self.device.sync_path(Path::new(path), || self.below.sync_file(path))
    }

    fn folder_stamp(&self, path: &str) -> VfsResult<Option<Stamp>> {
        self.below.folder_stamp(path)
    }

    fn file_stamp(&self, path: &str) -> VfsResult<FileStamp> {
        self.below.file_stamp(path)
    }
}

/// The files that Leafpress writes by itself, known by their paths.
struct OwnFiles(Arc<Device>);

/// No sync has so short a time: "it had nothing to do".
const NOTHING_TO_DO: u64 = 0;

impl OwnFiles {
    fn file(&self, path: &Path) -> OpenFile {
        self.0.open(Some(path), false)
    }

    fn synced_by(&self, done: u64) {
        self.0.synced((done != NOTHING_TO_DO).then(|| Duration::from_nanos(done)));
    }
}

impl Watcher for OwnFiles {
    fn created(&self, path: &Path) {
        drop(self.0.open(Some(path), true));
    }

    fn wrote(&self, path: &Path, offset: u64, bytes: &[u8]) {
        self.file(path).wrote(offset, bytes.len());
    }

    fn truncated(&self, path: &Path, bytes: u64) {
        self.file(path).truncated(bytes);
    }

    fn unnamed_created(&self) -> Option<Box<dyn WriteObserver>> {
        Some(Box::new(self.0.open(None, true)))
    }

    fn sync_begins(&self, path: &Path) -> u64 {
        let done = self.0.path_sync_begins(path);
        done.map_or(NOTHING_TO_DO, |done| done.as_nanos() as u64)
    }

    fn synced(&self, _path: &Path, began: u64) {
        self.synced_by(began);
    }

    fn renamed(&self, from: &Path, to: &Path) {
        self.0.renamed(from, to);
    }

    fn removed(&self, path: &Path) {
        self.0.removed(path);
    }

    fn folder_sync_begins(&self, _folder: &Path) -> u64 {
        let done = self.0.folder_sync_begins();
        done.map_or(NOTHING_TO_DO, |done| done.as_nanos() as u64)
    }

    fn folder_synced(&self, _folder: &Path, began: u64) {
        self.synced_by(began);
    }
}

impl WriteObserver for OpenFile {
    fn wrote(&self, offset: u64, bytes: usize) {
        Self::wrote(self, offset, bytes);
    }
}
