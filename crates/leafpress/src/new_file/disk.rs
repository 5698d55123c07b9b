//! File operations of a load that a power cut can undo, all in one place.
//!
//! The loader itself writes a new database, not SQLite. It creates the file, writes by position,
//! cuts, syncs and renames it, and syncs the folder. Each of those steps goes through this module,
//! so that the crash simulator can watch it and try every way in which a power cut may undo what
//! was not synced. The simulated disk ([`crate::vfs::simulate`]) learns of the steps here, too.
//!
//! Must never: do anything else than the plain call when there is no watcher, no listener and no
//! simulated disk, or report a step that failed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::rights::{self, Rights};
use crate::vfs::locks::{FileHandle, Open};
use crate::vfs::watch::{UnnamedFile, tell};
pub use crate::vfs::watch::{Watcher, watch};
use crate::words::path_text;

/// A listener to the writes of one new database. The threads that write call it, several at once.
pub trait Listener: std::fmt::Debug + Send + Sync {
    /// The file has these bytes from `offset` on. Other bytes may take their place later.
    fn wrote(&self, offset: u64, bytes: &[u8]);
}

/// A file of the loader's own, written by position.
#[derive(Debug)]
pub(crate) struct DiskFile {
    file: Arc<FileHandle>,
    path: PathBuf,
    listener: Option<Arc<dyn Listener>>,
}

impl DiskFile {
    /// Creates a file; fails if there is one.
    pub(crate) fn create_new(path: &Path, rights: Rights) -> io::Result<Self> {
        let file = Arc::new(FileHandle::create(path, rights)?);
        tell(|watcher| watcher.created(path));
        Ok(Self { file, path: path.to_owned(), listener: None })
    }

    /// Tells a listener of the writes from now on, through this handle and those that share it later.
    pub(crate) fn tell_of_writes(&mut self, listener: Option<Arc<dyn Listener>>) {
        self.listener = listener;
    }

    /// Returns true if a listener is told of the writes.
    pub(crate) fn has_listener(&self) -> bool {
        self.listener.is_some()
    }

    /// Another handle of the same file.
    pub(crate) fn share(&self) -> Self {
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        Self { file, path, listener: self.listener.clone() }
    }

    /// The opened file, for its lock, which is held until the last of its handles is dropped.
    pub(crate) fn handle(&self) -> &FileHandle {
        &self.file
    }

    /// The plain file, for what a power cut cannot undo, as reserving space.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Opens the file for writes past the page cache. Returns none for a file of the network, as each
    /// write would wait for the server.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_direct(&self) -> Option<FileHandle> {
        use crate::storage::{FileSystem, Nature};

        let nature = FileSystem::of(&self.path).ok()?.nature;
        let is_local = matches!(nature, Nature::Local | Nature::Overlay);
        is_local.then(|| FileHandle::open_for_pages(&self.path, true).ok())?
    }

    /// Returns none: writes past the page cache are for Linux only.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open_direct(&self) -> Option<FileHandle> {
        None
    }

    /// Reports bytes that were written through [`DiskFile::file`].
    pub(crate) fn wrote(&self, bytes: &[u8], offset: u64) {
        tell(|watcher| watcher.wrote(&self.path, offset, bytes));
        if let Some(listener) = &self.listener {
            listener.wrote(offset, bytes);
        }
    }

    /// Cuts the file to this size, or extends it by zeros.
    pub(crate) fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        tell(|watcher| watcher.truncated(&self.path, bytes));
        Ok(())
    }

    /// Makes content and size durable, but not the time of the change.
    pub(crate) fn sync_data(&self) -> io::Result<()> {
        self.sync(File::sync_data)
    }

    /// Makes the content durable.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.sync(File::sync_all)
    }

    fn sync(&self, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let mut began = 0;
        tell(|watcher| began = watcher.sync_begins(&self.path));
        sync(&self.file)?;
        tell(|watcher| watcher.synced(&self.path, began));
        Ok(())
    }
}

/// Makes a temporary file without a name, for what sorting cannot keep in memory.
pub(crate) fn make_unnamed(folder: &Path) -> io::Result<UnnamedFile> {
    let file = rights::unnamed_file(folder)?;
    let mut observer = None;
    tell(|watcher| observer = watcher.unnamed_created());
    Ok(UnnamedFile { file, observer })
}

/// Cuts a file to no bytes.
pub(crate) fn empty(path: &Path) -> io::Result<()> {
    FileHandle::open_as(path, Open::Emptied)?;
    tell(|watcher| watcher.truncated(path, 0));
    Ok(())
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    tell(|watcher| watcher.removed(path));
    Ok(())
}

/// Renames a file. Fails if the new name is taken.
pub(crate) fn rename_over_nothing(from: &Path, to: &Path) -> io::Result<()> {
    platform_rename(from, to)?;
    tell(|watcher| watcher.renamed(from, to));
    Ok(())
}

#[cfg(target_os = "linux")]
fn platform_rename(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not support the flag, and some sandboxes refuse the call.
        Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => {
            link_over_nothing(from, to, |path| fs::remove_file(path))
        }
        result => Ok(result?),
    }
}

#[cfg(not(target_os = "linux"))]
fn platform_rename(from: &Path, to: &Path) -> io::Result<()> {
    link_over_nothing(from, to, |path| fs::remove_file(path))
}

/// Renames by a hard link, which never replaces a file. Without hard links a plain rename follows a
/// look that the name is free.
///
/// Once the new name is there, the file has it, so an old name that `remove` leaves is no failure.
fn link_over_nothing(
    from: &Path,
    to: &Path,
    remove: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => {
            if let Err(error) = remove(from) {
                let (from, to) = (path_text(from), path_text(to));
                tracing::warn!(%error, %from, %to, "the hidden name of a finished file stays");
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if to.symlink_metadata().is_ok() => {
            Err(io::Error::from(io::ErrorKind::AlreadyExists))
        }
        Err(_) => fs::rename(from, to),
    }
}

/// A folder that is open, so that its names can be made durable.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    #[cfg(unix)]
    handle: FileHandle,
}

impl Folder {
    /// Opens a folder, which takes one of the files that this process may have open.
    #[cfg_attr(not(unix), expect(clippy::unnecessary_wraps, reason = "as on Unix"))]
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            #[cfg(unix)]
            handle: FileHandle::open(path)?,
        })
    }

    /// Makes its names durable, on systems where folders can be synced.
    #[cfg_attr(not(unix), expect(clippy::unnecessary_wraps, reason = "as on Unix"))]
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut began = 0;
        tell(|watcher| began = watcher.folder_sync_begins(&self.path));
        #[cfg(unix)]
        self.handle.sync_all()?;
        tell(|watcher| watcher.folder_synced(&self.path, began));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_that_stays_is_no_failure_of_a_rename() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, "all of it").unwrap();
        let denied = |_: &Path| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        link_over_nothing(&from, &to, denied).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"all of it");
        let taken = link_over_nothing(&from, &to, |path| fs::remove_file(path)).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert!(from.exists(), "the name was taken");
    }
}
