//! The real disk under atomic pages. It has what [`AtomicPages`](super::atomic::AtomicPages)
//! needs beside SQLite's own VFS.
//!
//! ```text
//! open:   statx(path) ─► units? ─► a descriptor from `locks/` ─► PageFile
//! write:  copy into an aligned buffer ─► pwritev2(RWF_ATOMIC), or an error
//! stamps: statx of folder or journal, where the kernel never repeats a time
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `detect.rs` | the kernel's facts about one file: its identity, and its atomic writes |
//! | `page_file.rs` | the writes, and what the kernel's refusals mean |
//! | `stamps.rs` | times that tell whether another process was there |
//! | `elsewhere.rs` | stubs for other systems, which have no such writes |
//!
//! # The path and the file
//! SQLite has the database open already, by a descriptor that SQLite does not tell, so
//! here it is opened once more, by its path. What is checked: the path is asked which
//! file it names (device and inode), and the descriptor that is used is one of exactly
//! that file, whatever happened to the path in between; it is a regular file. What is
//! *not*: whether that is the file that SQLite opened a moment before. SQLite itself
//! compares the path's inode with its own before each transaction's first write, and
//! refuses to write a database that was moved. So a write can only go astray if the
//! database is replaced, opened here, and then put back under its name.
//!
//! Must never: write a page plainly that was to be atomic, or open the
//! database itself just to sync it or to look at it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::atomic::{AtomicDisk, AtomicFile, FileStamp, NoAtomicWrites, Stamp};
use super::{VfsError, VfsResult};
use crate::locks::FileHandle;
use crate::paths::folder_of;

#[cfg(target_os = "linux")]
mod detect;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod page_file;
#[cfg(target_os = "linux")]
mod stamps;
#[cfg(all(test, target_os = "linux"))]
mod tests;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(not(target_os = "linux"))]
use elsewhere::Stamps;
#[cfg(target_os = "linux")]
use page_file as system;
#[cfg(target_os = "linux")]
use stamps::Stamps;

/// Whole-page writes on the platform's file systems: those of Linux that offer
/// `RWF_ATOMIC`. Elsewhere it says that there are none.
#[derive(Debug)]
pub struct PlatformDisk {
    bare: BareDisk,
}

/// The layer that stands over the platform's disk in all of this process, if one was put there.
static LAYER: OnceLock<Box<dyn AtomicDisk>> = OnceLock::new();

/// Puts `layer`, which stands on a [`BareDisk`], in the place of every [`PlatformDisk`] of this
/// process from now on. There is room for one: returns false if another is there.
pub fn put_over_disk(layer: impl AtomicDisk) -> bool {
    LAYER.set(Box::new(layer)).is_ok()
}

impl Default for PlatformDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl PlatformDisk {
    /// Whole writes only where kernel, file system and disk say so.
    pub fn new() -> Self {
        Self { bare: BareDisk { is_assuming: false, stamps: Some(Stamps::new()) } }
    }

    /// Believes the user that every write of a whole page is atomic by itself, as on ZFS
    /// with records no smaller than a page.
    ///
    /// **A power cut corrupts the database if that is not so.** Nothing is asked of the
    /// disk; pages are written by ordinary writes, and no stamp is trusted.
    pub const fn assuming() -> Self {
        Self { bare: BareDisk { is_assuming: true, stamps: None } }
    }

    fn disk(&self) -> &dyn AtomicDisk {
        LAYER.get().map_or(&self.bare, |layer| &**layer)
    }
}

impl AtomicDisk for PlatformDisk {
    /// Opens a descriptor of its own, shared by all openings of the same file in this process. It
    /// is kept open until it can be closed without dropping a lock.
    fn open(&self, path: &str) -> VfsResult<Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        self.disk().open(path)
    }

    /// Opens the folder, syncs and closes it. Does nothing on Windows, where folders
    /// cannot be synced.
    fn sync_folder_of(&self, path: &str) -> VfsResult<()> {
        self.disk().sync_folder_of(path)
    }

    /// Opens the journal, syncs and closes it.
    fn sync_file(&self, path: &str) -> VfsResult<()> {
        self.disk().sync_file(path)
    }

    fn folder_stamp(&self, path: &str) -> VfsResult<Option<Stamp>> {
        self.disk().folder_stamp(path)
    }

    fn file_stamp(&self, path: &str) -> VfsResult<FileStamp> {
        self.disk().file_stamp(path)
    }
}

/// The platform's disk without the layer of this process: the ground for such a layer.
#[derive(Debug)]
pub struct BareDisk {
    is_assuming: bool,
    /// `None` if nothing here is relied on without proof, stamps included.
    stamps: Option<Stamps>,
}

impl BareDisk {
    /// A disk on which no stamp is trusted.
    pub const fn without_stamps() -> Self {
        Self { is_assuming: false, stamps: None }
    }
}

impl AtomicDisk for BareDisk {
    fn open(&self, path: &str) -> VfsResult<Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        Ok(system::open(Path::new(path), self.is_assuming))
    }

    fn sync_folder_of(&self, path: &str) -> VfsResult<()> {
        sync_folder(folder_of(Path::new(path))).map_err(|error| {
            tracing::warn!(%error, path, "the folder cannot be synced");
            VfsError::IO_SYNC_FOLDER
        })
    }

    fn sync_file(&self, path: &str) -> VfsResult<()> {
        match FileHandle::open(path).and_then(|file| file.sync_data()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, path, "the journal cannot be synced");
                Err(VfsError::IO_SYNC)
            }
            _ => Ok(()),
        }
    }

    fn folder_stamp(&self, path: &str) -> VfsResult<Option<Stamp>> {
        let Some(stamps) = &self.stamps else { return Ok(None) };
        stamps.of_folder(folder_of(Path::new(path))).map_err(|_| VfsError::IO_ACCESS)
    }

    fn file_stamp(&self, path: &str) -> VfsResult<FileStamp> {
        let found = match &self.stamps {
            Some(stamps) => stamps.of_file(Path::new(path)),
            None => stamp_without_times(Path::new(path)),
        };
        found.map_err(|_| VfsError::IO_ACCESS)
    }
}

/// The state of a file where no stamp can be relied on: there or not.
fn stamp_without_times(file: &Path) -> std::io::Result<FileStamp> {
    Ok(if file.try_exists()? { FileStamp::There(None) } else { FileStamp::Absent })
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    FileHandle::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> std::io::Result<()> {
    Ok(())
}
