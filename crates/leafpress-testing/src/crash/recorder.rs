//! A VFS that hands everything on and records what happens to some folders.
//!
//! Registered as the process's default VFS it sees every connection of the
//! library. A folder without a log costs nothing but a look-up at each opening,
//! so tests with folders of their own may share one recorder.
//!
//! Beyond the calls themselves, the log gets what `SQLite`'s Unix VFS does inside
//! of them (`os_unix.c`):
//! - `delete` with `sync_folder` syncs the folder after the deletion;
//! - the first sync of each opening of a main journal, super-journal or WAL that
//!   was opened with `CREATE` syncs the folder as well, after the file, whether
//!   or not the file was new. Nothing else syncs a folder, a new database neither.
//!
//! The loader writes new databases without SQLite; it tells of its steps through
//! `leafpress::load::disk`, and they go to the same logs.
//!
//! Must never: let a file of a watched folder pass unrecorded (it panics, which
//! SQLite sees as an I/O error), or log what failed as if it had been done.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use leafpress::load::disk::Watcher;
use leafpress::vfs::gathered_database::GatheredDatabase;
use leafpress::vfs::gathered_log::GatheredLog;
use leafpress::vfs::{
    FileKind, FileLayer, OpenFlags, Opened, PlatformVfs, Registration, SyncKind, Vfs, VfsError,
    VfsFile, VfsLayer, VfsResult, register,
};

use super::log::{FileId, Log, Snapshot};

/// A VFS over another that records; keep an `Arc` of it to ask it to watch.
#[derive(Debug)]
pub struct Recorder<V> {
    inner: V,
    folders: Mutex<BTreeMap<String, Arc<Log>>>,
}

/// The recorder that all tests of one process share, over the platform's VFS,
/// and the name under which connections reach it. Writes to the log are gathered above it, as they
/// are where a caller names no VFS, and those to the database, as a load into a table gathers them.
///
/// # Panics
/// If SQLite refuses to register it.
pub fn shared_recorder() -> &'static (Arc<Recorder<PlatformVfs>>, Registration) {
    static SHARED: OnceLock<(Arc<Recorder<PlatformVfs>>, Registration)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let recorder = Arc::new(Recorder::new(PlatformVfs::new()));
        let gathers = GatheredDatabase::new(GatheredLog::new(Arc::clone(&recorder)));
        let registration = register("crash-recorder", gathers).unwrap();
        (recorder, registration)
    })
}

impl<V: Vfs> Recorder<V> {
    /// Watches nothing yet.
    pub fn new(inner: V) -> Self {
        Self { inner, folders: Mutex::default() }
    }

    /// The VFS below.
    pub fn inner(&self) -> &V {
        &self.inner
    }

    /// Records what happens to a folder of the platform's from now on. No
    /// connection may be open on a file in it.
    ///
    /// # Panics
    /// If the folder cannot be read.
    pub fn watch(&self, folder: &Path) -> Arc<Log> {
        let folder = folder.canonicalize().unwrap();
        self.watch_from(folder.to_str().unwrap(), Snapshot::of_folder(&folder))
    }

    /// Records what happens to a folder of any kind, known by the start of its files' paths.
    pub fn watch_from(&self, folder: &str, start: Snapshot) -> Arc<Log> {
        let log = Arc::new(Log::new(start));
        self.folders().insert(folder.to_owned(), Arc::clone(&log));
        log
    }

    /// Files that are opened from now on are not recorded.
    pub fn unwatch(&self, folder: &str) {
        self.folders().remove(folder);
    }
}

impl<V: Vfs> VfsLayer for Recorder<V> {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let is_lasting = flags.kind().is_lasting() && !flags.contains(OpenFlags::DELETE_ON_CLOSE);
        let watched = path.filter(|_| is_lasting).and_then(|path| self.watched(path));
        let Some((log, name)) = watched else {
            return self.inner.open(path, flags);
        };
        // Held over the call: the order of changes of names is that of the log.
        let mut state = log.lock();
        let opened = self.inner.open(path, flags)?;
        let file = match state.file(name) {
            Some(file) => file,
            None if opened.flags.contains(OpenFlags::CREATE) => state.created(name),
            None => panic!("{name} came into a watched folder unrecorded"),
        };
        let knows_failure = state.has_failed(file);
        drop(state);
        let file = RecordedFile {
            inner: opened.file,
            log,
            file,
            kind: flags.kind(),
            syncs_folder: flags.syncs_folder(),
            knows_failure,
        };
        Ok(Opened { file: Box::new(file), flags: opened.flags })
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        let Some((log, name)) = self.watched(path) else {
            return self.inner.delete(path, sync_folder);
        };
        let mut state = log.lock();
        self.inner.delete(path, sync_folder)?;
        state.deleted(name);
        if sync_folder {
            state.synced_folder();
        }
        Ok(())
    }
}

/// The loader's own file work, in the order in which the loader reports it.
impl<V: Vfs> Watcher for Recorder<V> {
    fn created(&self, path: &Path) {
        self.tell(path, |log, name| {
            log.lock().created(name);
        });
    }

    fn wrote(&self, path: &Path, offset: u64, bytes: &[u8]) {
        self.tell_of_file(path, |log, file| log.wrote(file, offset, bytes));
    }

    fn truncated(&self, path: &Path, bytes: u64) {
        self.tell_of_file(path, |log, file| log.truncated(file, bytes));
    }

    fn sync_begins(&self, path: &Path) -> u64 {
        let inside = self.watched(path.to_str().unwrap()).map(|(log, _)| log);
        inside.or_else(|| self.log_of(path)).map_or(0, |log| log.position() as u64)
    }

    fn synced(&self, path: &Path, began: u64) {
        self.tell_of_file(path, |log, file| log.synced_file(file, began as usize));
    }

    fn renamed(&self, from: &Path, to: &Path) {
        let (_, to) = to.to_str().unwrap().rsplit_once('/').unwrap();
        self.tell(from, |log, from| log.lock().renamed(from, to));
    }

    fn removed(&self, path: &Path) {
        self.tell(path, |log, name| log.lock().deleted(name));
    }

    fn folder_synced(&self, folder: &Path, began: u64) {
        if let Some(log) = self.log_of(folder) {
            log.synced_folder(began as usize);
        }
    }
}

impl<V> Recorder<V> {
    fn folders(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Log>>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log of the folder that `path` is in, and the name there.
    pub(super) fn watched<'p>(&self, path: &'p str) -> Option<(Arc<Log>, &'p str)> {
        let (folder, name) = path.rsplit_once('/')?;
        Some((Arc::clone(self.folders().get(folder)?), name))
    }

    fn log_of(&self, folder: &Path) -> Option<Arc<Log>> {
        self.folders().get(folder.to_str().unwrap()).cloned()
    }

    fn tell(&self, path: &Path, step: impl FnOnce(&Log, &str)) {
        if let Some((log, name)) = self.watched(path.to_str().unwrap()) {
            step(&log, name);
        }
    }

    fn tell_of_file(&self, path: &Path, step: impl FnOnce(&Log, FileId)) {
        self.tell(path, |log, name| {
            let file = log.file(name).unwrap_or_else(|| panic!("{name} was never made"));
            step(log, file);
        });
    }
}

struct RecordedFile {
    inner: Box<dyn VfsFile>,
    log: Arc<Log>,
    file: FileId,
    kind: FileKind,
    syncs_folder: bool,
    knows_failure: bool,
}

impl FileLayer for RecordedFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.inner
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.inner.write(bytes, offset)?;
        self.log.wrote(self.file, offset, bytes);
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.inner.truncate(size)?;
        self.log.truncated(self.file, size);
        Ok(())
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        let begun = self.log.lock().sync_begins(self.file, self.kind, &mut self.knows_failure);
        let Some(covers) = begun else { return Err(VfsError::IO_SYNC) };
        let outcome = self.inner.sync(kind);
        self.log.lock().sync_ends(self.file, covers, outcome.is_ok());
        outcome?;
        if std::mem::take(&mut self.syncs_folder) {
            self.log.synced_folder(covers);
        }
        Ok(())
    }
}
