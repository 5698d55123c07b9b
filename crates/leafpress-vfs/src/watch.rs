//! A watcher is told each step of Leafpress with files.
//!
//! A load does not write its files by SQLite. So the crash simulator, which tries every way in
//! which a power cut may undo what was not synced, and the simulated disk, which makes writes
//! slow, hear of them here.
//!
//! Must never: tell of a step that failed, or do anything where there is no watcher.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};

/// An observer of the writes of one file.
pub trait WriteObserver: std::fmt::Debug + Send + Sync {
    /// Bytes were written.
    fn wrote(&self, offset: u64, bytes: usize);
}

/// A file without a name, and the observer of writes to it.
#[derive(Debug)]
pub struct UnnamedFile {
    /// The file.
    pub file: File,
    /// Its observer, if there is one.
    pub observer: Option<Box<dyn WriteObserver>>,
}

/// A watcher of the steps. Each call comes after the step was done, except those that say that
/// a sync begins.
pub trait Watcher: Send + Sync {
    /// A new, empty file is there.
    fn created(&self, path: &Path);
    /// Bytes were written.
    fn wrote(&self, path: &Path, offset: u64, bytes: &[u8]);
    /// The file was given a size.
    fn truncated(&self, path: &Path, bytes: u64);
    /// A file without a name is there; its writes are told to the answer.
    fn unnamed_created(&self) -> Option<Box<dyn WriteObserver>> {
        None
    }
    /// A sync of this file is to begin; the answer is given back when it is done.
    fn sync_begins(&self, path: &Path) -> u64;
    /// A sync of a file is done.
    fn synced(&self, path: &Path, began: u64);
    /// A file was given another name.
    fn renamed(&self, from: &Path, to: &Path);
    /// A name was taken away.
    fn removed(&self, path: &Path);
    /// A sync of this folder is to begin; the answer is given back when it is done.
    fn folder_sync_begins(&self, folder: &Path) -> u64 {
        self.sync_begins(folder)
    }
    /// A sync of a folder is done.
    fn folder_synced(&self, folder: &Path, began: u64);
}

static WATCHER: OnceLock<Arc<dyn Watcher>> = OnceLock::new();

/// Watches all loads of this process from now on, to its end.
///
/// # Errors
/// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if another one watches already.
pub fn watch(watcher: Arc<dyn Watcher>) -> Result<()> {
    let taken = |_| Error::misuse("another watcher of this process's files is there already");
    WATCHER.set(watcher).map_err(taken)
}

/// Tells the watcher, if there is one, of a step.
pub fn tell(step: impl FnOnce(&dyn Watcher)) {
    if let Some(watcher) = WATCHER.get() {
        step(&**watcher);
    }
}
