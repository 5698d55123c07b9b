//! The interface of a file system to SQLite: the traits that a VFS implements.
//!
//! Stands under all of this crate; the glue calls them for SQLite. Must never: do anything
//! by itself.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::control::FileControl;
use super::mapped::MappedBytes;
use super::shared_memory::ShmRegion;
use super::words::{Access, LockLevel, OpenFlags, ShmLock, SyncKind, VfsError, VfsResult};

/// A file that was opened, and how.
pub struct Opened {
    /// The file. Dropping it closes it and gives back its locks.
    pub file: Box<dyn VfsFile>,
    /// The flags asked for, changed where the file was opened in another way: with
    /// `READ_ONLY` in the place of `READ_WRITE` and `CREATE`, for one.
    pub flags: OpenFlags,
}

/// A file system, as SQLite sees it.
pub trait Vfs: Send + Sync + 'static {
    /// Opens a file.
    ///
    /// `path` is as [`full_path`](Self::full_path) made it, with `-journal`, `-wal` and
    /// the like at its end; `None` asks for a temporary file, with a name of your choice
    /// or none, that is gone when it is closed. [`OpenFlags::kind`] says what the file
    /// is for. A file that is made here needs no sync to be there for other processes,
    /// but its *name* must be safe from a power cut when the first
    /// [`sync`](VfsFile::sync) of a journal, super-journal or WAL returns.
    ///
    /// # Errors
    /// `CANNOT_OPEN` if it is not there and may not be made, or may not be opened.
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened>;

    /// Deletes a file; others that have it open may go on using it.
    ///
    /// With `sync_folder` the deletion must be safe from a power cut when this returns.
    ///
    /// # Errors
    /// `IO_DELETE_NO_ENTRY` if it is not there, `IO_DELETE` if it cannot be deleted,
    /// `IO_SYNC_FOLDER` if it was deleted and the folder could not be synced.
    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()>;

    /// Returns true if the file exists and allows this access.
    ///
    /// SQLite looks for a journal in this way to know whether to roll back, so the
    /// answer must be what *all* processes would be told now.
    ///
    /// # Errors
    /// `IO_ACCESS` if it cannot be found out. That it is not there is no error.
    fn exists(&self, path: &str, access: Access) -> VfsResult<bool>;

    /// The one name by which all connections know the file, whatever their working
    /// folder. It is made even if there is no file.
    ///
    /// # Errors
    /// `CANNOT_OPEN` if there is none, or it is too long.
    fn full_path(&self, path: &str) -> VfsResult<String>;
}

/// An open file.
///
/// Locks and shared memory matter for main databases only, and belong to this one
/// opening of the file: two openings in one process keep each other out just as two
/// processes do. Dropping the file gives back its locks.
pub trait VfsFile: Send {
    /// Reads from `offset` (in bytes) until `buffer` is full or the file ends, and says
    /// how many bytes were read. The rest of the buffer is zeroed for you. What is in
    /// `buffer` at first is unspecified.
    ///
    /// # Errors
    /// `IO_READ`. The end of the file is no error.
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize>;

    /// Writes all of `bytes` at `offset`; the file grows as needed, with zeros in a gap.
    /// Every read of any connection after it must show them.
    ///
    /// # Errors
    /// `FULL` or `IO_WRITE`. Some of the bytes may have been written then.
    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()>;

    /// Sets the size of the file, in bytes; it may grow.
    ///
    /// # Errors
    /// `IO_TRUNCATE`. The file has either size then.
    fn truncate(&mut self, size: u64) -> VfsResult<()>;

    /// Makes everything written and truncated so far safe from a power cut, and of a
    /// new journal or WAL also its name.
    ///
    /// # Errors
    /// `IO_SYNC`. Nothing may be assumed of what was written since the last sync, even
    /// if a later sync succeeds.
    fn sync(&mut self, kind: SyncKind) -> VfsResult<()>;

    /// The size of the file, in bytes.
    ///
    /// # Errors
    /// `IO_SIZE`.
    fn size(&mut self) -> VfsResult<u64>;

    /// Takes a lock higher than the one held: `Shared` from `None`, `Reserved` from
    /// `Shared`, `Exclusive` from `Shared` or above. Must not wait.
    ///
    /// # Errors
    /// `BUSY` if another connection is in the way; the old lock is still held, or `Pending` if
    /// `Exclusive` was asked for. `IO_LOCK` if it cannot be found out.
    fn lock(&mut self, level: LockLevel) -> VfsResult<()>;

    /// Falls back to `Shared` or `None`; nothing happens if no more is held.
    ///
    /// # Errors
    /// `IO_UNLOCK`.
    fn unlock(&mut self, level: LockLevel) -> VfsResult<()>;

    /// Returns true if any opening of the file, this one included, holds `Reserved` or more.
    ///
    /// # Errors
    /// `IO_IS_RESERVED`.
    fn is_reserved(&mut self) -> VfsResult<bool>;

    /// A question or a hint outside of the usual; a decorator hands it on.
    ///
    /// # Errors
    /// `NOT_FOUND` if it is not known, which SQLite takes well.
    fn file_control(&mut self, control: FileControl<'_>) -> VfsResult<()> {
        let _ = control;
        Err(VfsError::NOT_FOUND)
    }

    /// The smallest number of bytes that a write can touch on the device.
    fn sector_bytes(&self) -> u32 {
        4096
    }

    /// Guarantees of the device: bits of [`characteristics`](super::words::characteristics).
    fn device_characteristics(&self) -> i32 {
        0
    }

    /// May SQLite map this file into memory and read its bytes there, past
    /// [`read`](Self::read)? If not, `PRAGMA mmap_size` answers 0 and the three methods
    /// below are never called. Asked once, when the file has been opened.
    fn maps_memory(&self) -> bool {
        false
    }

    /// `bytes` bytes of the file from `offset` on, mapped; `None` (always right) makes
    /// SQLite read them. What is returned came from a [`PlatformVfs`](super::platform::PlatformVfs)'s file, and stays
    /// mapped as long as it is held, here or by SQLite.
    ///
    /// # Errors
    /// `IO_MAP`, which fails the statement.
    fn fetch(&mut self, offset: u64, bytes: usize) -> VfsResult<Option<MappedBytes>> {
        let _ = (offset, bytes);
        Ok(None)
    }

    /// SQLite needs these bytes no longer. To drop them does, but they count as mapped
    /// until the file they came from is called again.
    ///
    /// # Errors
    /// `IO_MAP`; SQLite does not mind.
    fn unfetch(&mut self, mapped: MappedBytes) -> VfsResult<()> {
        drop(mapped);
        Ok(())
    }

    /// Mapped bytes may not be valid any more, as another process may have cut the file and let it
    /// grow: they are to be mapped anew before the next [`fetch`](Self::fetch).
    ///
    /// # Errors
    /// `IO_MAP` as long as a part is still held; nothing more is mapped until then.
    fn unmap(&mut self) -> VfsResult<()> {
        Ok(())
    }

    /// Returns true if this file's connections can share memory. Without it SQLite refuses WAL mode
    /// except with `locking_mode = EXCLUSIVE`, and the four methods below are never
    /// called. Asked once, when the file has been opened.
    fn has_shared_memory(&self) -> bool {
        false
    }

    /// The region with this number, each of `bytes` bytes, of the memory that all
    /// openings of this database share. It is the same memory for all, zeroed when new.
    ///
    /// With `extend` the region is made if it is not there, else `None` says that it is
    /// not. What was handed out stays in place until [`shm_unmap`](Self::shm_unmap).
    ///
    /// # Errors
    /// `IO_SHM_OPEN`, `IO_SHM_SIZE`, `IO_SHM_MAP`.
    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        let _ = (region, bytes, extend);
        Err(VfsError::IO_SHM_MAP)
    }

    /// Takes or gives back `count` of the eight locks in shared memory, from `first`
    /// on, all or none. Must not wait. They have nothing to do with [`lock`](Self::lock).
    ///
    /// # Errors
    /// `BUSY` if another connection is in the way, `IO_SHM_LOCK` if it cannot be found out.
    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        let _ = (first, count, lock);
        Err(VfsError::IO_SHM_LOCK)
    }

    /// All that this thread wrote to shared memory is seen by other threads before what it
    /// writes after this call; a full memory fence does it.
    fn shm_barrier(&mut self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    /// This opening needs the shared memory no longer, and gives back its locks there. With
    /// `delete` the memory is thrown away, if no other opening uses it.
    ///
    /// # Errors
    /// `IO_SHM_MAP`; SQLite does not mind.
    fn shm_unmap(&mut self, delete: bool) -> VfsResult<()> {
        let _ = delete;
        Ok(())
    }
}

/// A shared VFS: keep a clone to look at its numbers while it is registered.
impl<V: Vfs + ?Sized> Vfs for Arc<V> {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        (**self).open(path, flags)
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        (**self).delete(path, sync_folder)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        (**self).exists(path, access)
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        (**self).full_path(path)
    }
}
