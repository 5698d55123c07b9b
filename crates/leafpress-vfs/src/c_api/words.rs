//! The words of a VFS: what SQLite asks for and what is answered, as types.
//!
//! Plain values without behaviour; their numbers are SQLite's own, so that the
//! boundary to C translates nothing. The lists are SQLite's, for any VFS: Leafpress uses a part of
//! them. Nothing in here does I/O.

use std::fmt;
use std::ops::BitOr;

use rusqlite::ffi;

/// The answer of every method of a VFS.
pub type VfsResult<T> = Result<T, VfsError>;

/// An extended result code of SQLite, as `SQLITE_IOERR_WRITE` or `SQLITE_FULL`.
///
/// It reaches the caller of SQLite as it is. `VfsError(0)` would be "no error" and
/// is passed on as `SQLITE_IOERR`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VfsError(pub i32);

impl VfsError {
    /// An I/O error that has no code of its own.
    pub const IO: Self = Self(ffi::SQLITE_IOERR);
    /// A read failed.
    pub const IO_READ: Self = Self(ffi::SQLITE_IOERR_READ);
    /// A write failed, for another reason than a full disk.
    pub const IO_WRITE: Self = Self(ffi::SQLITE_IOERR_WRITE);
    /// A sync of a file failed.
    pub const IO_SYNC: Self = Self(ffi::SQLITE_IOERR_FSYNC);
    /// A sync of a folder failed.
    pub const IO_SYNC_FOLDER: Self = Self(ffi::SQLITE_IOERR_DIR_FSYNC);
    /// A file could not be cut or extended.
    pub const IO_TRUNCATE: Self = Self(ffi::SQLITE_IOERR_TRUNCATE);
    /// A file's size could not be found out.
    pub const IO_SIZE: Self = Self(ffi::SQLITE_IOERR_FSTAT);
    /// A file could not be deleted.
    pub const IO_DELETE: Self = Self(ffi::SQLITE_IOERR_DELETE);
    /// A file to be deleted is not there; SQLite mostly does not mind.
    pub const IO_DELETE_NO_ENTRY: Self = Self(ffi::SQLITE_IOERR_DELETE_NOENT);
    /// The check for a file's existence failed.
    pub const IO_ACCESS: Self = Self(ffi::SQLITE_IOERR_ACCESS);
    /// A lock failed for another reason than another connection's lock.
    pub const IO_LOCK: Self = Self(ffi::SQLITE_IOERR_LOCK);
    /// A lock could not be given back.
    pub const IO_UNLOCK: Self = Self(ffi::SQLITE_IOERR_UNLOCK);
    /// The check for a RESERVED lock failed.
    pub const IO_IS_RESERVED: Self = Self(ffi::SQLITE_IOERR_CHECKRESERVEDLOCK);
    /// Shared memory could not be opened.
    pub const IO_SHM_OPEN: Self = Self(ffi::SQLITE_IOERR_SHMOPEN);
    /// Shared memory could not be made larger.
    pub const IO_SHM_SIZE: Self = Self(ffi::SQLITE_IOERR_SHMSIZE);
    /// Shared memory could not be mapped.
    pub const IO_SHM_MAP: Self = Self(ffi::SQLITE_IOERR_SHMMAP);
    /// A lock of the shared memory failed for another reason than another connection's lock.
    pub const IO_SHM_LOCK: Self = Self(ffi::SQLITE_IOERR_SHMLOCK);
    /// A file could not be mapped into memory, or not yet be unmapped.
    pub const IO_MAP: Self = Self(ffi::SQLITE_IOERR_MMAP);
    /// The disk is full.
    pub const FULL: Self = Self(ffi::SQLITE_FULL);
    /// Another connection holds a lock that stands in the way.
    pub const BUSY: Self = Self(ffi::SQLITE_BUSY);
    /// A file cannot be opened.
    pub const CANNOT_OPEN: Self = Self(ffi::SQLITE_CANTOPEN);
    /// The file or the folder may be read only.
    pub const READ_ONLY: Self = Self(ffi::SQLITE_READONLY);
    /// This file control is not known here.
    pub const NOT_FOUND: Self = Self(ffi::SQLITE_NOTFOUND);
    /// Memory ran out.
    pub const NO_MEMORY: Self = Self(ffi::SQLITE_NOMEM);
}

impl fmt::Display for VfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", ffi::code_to_str(self.0), self.0)
    }
}

impl fmt::Debug for VfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VfsError({}: {})", self.0, ffi::code_to_str(self.0))
    }
}

impl std::error::Error for VfsError {}

/// Flags for opening a file, or of an open file, with its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpenFlags(pub i32);

impl OpenFlags {
    /// For reading only.
    pub const READ_ONLY: Self = Self(ffi::SQLITE_OPEN_READONLY);
    /// For reading and writing. Where that is not allowed, a file may be opened for
    /// reading only instead, and the flags in [`Opened`](super::interface::Opened) must say so.
    pub const READ_WRITE: Self = Self(ffi::SQLITE_OPEN_READWRITE);
    /// Make the file if it is not there.
    pub const CREATE: Self = Self(ffi::SQLITE_OPEN_CREATE);
    /// Delete the file when it is closed.
    pub const DELETE_ON_CLOSE: Self = Self(ffi::SQLITE_OPEN_DELETEONCLOSE);
    /// Fail if the file is there already.
    pub const EXCLUSIVE: Self = Self(ffi::SQLITE_OPEN_EXCLUSIVE);
    /// The database was named by a URI, which may hold parameters.
    pub const URI: Self = Self(ffi::SQLITE_OPEN_URI);
    /// Fail if the path holds a symbolic link.
    pub const NO_FOLLOW: Self = Self(ffi::SQLITE_OPEN_NOFOLLOW);
    /// The database itself.
    pub const MAIN_DB: Self = Self(ffi::SQLITE_OPEN_MAIN_DB);
    /// The database's rollback journal.
    pub const MAIN_JOURNAL: Self = Self(ffi::SQLITE_OPEN_MAIN_JOURNAL);
    /// The database's write-ahead log.
    pub const WAL: Self = Self(ffi::SQLITE_OPEN_WAL);
    /// A journal that binds those of several attached databases into one transaction.
    pub const SUPER_JOURNAL: Self = Self(ffi::SQLITE_OPEN_SUPER_JOURNAL);
    /// A connection's temporary tables.
    pub const TEMP_DB: Self = Self(ffi::SQLITE_OPEN_TEMP_DB);
    /// The journal of a temporary database, and the runs of a sort.
    pub const TEMP_JOURNAL: Self = Self(ffi::SQLITE_OPEN_TEMP_JOURNAL);
    /// The journal of a savepoint or a statement.
    pub const SUBJOURNAL: Self = Self(ffi::SQLITE_OPEN_SUBJOURNAL);
    /// A table that lives as long as a statement.
    pub const TRANSIENT_DB: Self = Self(ffi::SQLITE_OPEN_TRANSIENT_DB);

    pub(super) const KINDS: Self = Self(0x000f_ff00);

    /// Returns true if all of these flags are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns true if the first sync of a file opened so makes its name durable as well.
    ///
    /// SQLite's Unix VFS syncs the folder then, after the file and whether or not the file
    /// was new (`os_unix.c`). On Windows no folder is synced.
    pub const fn syncs_folder(self) -> bool {
        let is_journal =
            matches!(self.kind(), FileKind::MainJournal | FileKind::SuperJournal | FileKind::Wal);
        is_journal && self.contains(Self::CREATE)
    }

    /// Kind of the file. SQLite always says it; a guess is "a transient table".
    pub const fn kind(self) -> FileKind {
        match Self(self.0 & Self::KINDS.0) {
            Self::MAIN_DB => FileKind::MainDb,
            Self::MAIN_JOURNAL => FileKind::MainJournal,
            Self::WAL => FileKind::Wal,
            Self::SUPER_JOURNAL => FileKind::SuperJournal,
            Self::TEMP_DB => FileKind::TempDb,
            Self::TEMP_JOURNAL => FileKind::TempJournal,
            Self::SUBJOURNAL => FileKind::Subjournal,
            _ => FileKind::TransientDb,
        }
    }
}

impl BitOr for OpenFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// The database itself.
    MainDb,
    /// The database's rollback journal.
    MainJournal,
    /// The database's write-ahead log.
    Wal,
    /// A journal that binds those of several attached databases into one transaction.
    SuperJournal,
    /// A connection's temporary tables.
    TempDb,
    /// The journal of a temporary database, and the runs of a sort.
    TempJournal,
    /// The journal of a savepoint or a statement.
    Subjournal,
    /// A table that lives as long as a statement.
    TransientDb,
}

impl FileKind {
    /// Returns true if the file outlives the connection, so that a crash can leave it behind.
    pub const fn is_lasting(self) -> bool {
        matches!(self, Self::MainDb | Self::MainJournal | Self::Wal | Self::SuperJournal)
    }
}

/// Question about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Is there a file? (One of zero bytes may count as none, as with SQLite's own VFS.)
    Exists,
    /// Reading and writing are allowed.
    ReadWrite,
    /// Reading is allowed.
    Read,
}

/// Levels of a connection's lock on a database file, each more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(i32)]
pub enum LockLevel {
    /// Nothing.
    #[default]
    None = ffi::SQLITE_LOCK_NONE,
    /// Reads; any number of connections may.
    Shared = ffi::SQLITE_LOCK_SHARED,
    /// Means to write; one connection, beside readers.
    Reserved = ffi::SQLITE_LOCK_RESERVED,
    /// Waits for the readers to end; no new reader may come. SQLite never asks for
    /// it: a connection holds it while it cannot get [`Exclusive`](Self::Exclusive) yet.
    Pending = ffi::SQLITE_LOCK_PENDING,
    /// Writes, alone.
    Exclusive = ffi::SQLITE_LOCK_EXCLUSIVE,
}

/// Kind of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyncKind {
    /// `PRAGMA fullfsync`: also empty the disk's own cache, where that is a call apart.
    pub full: bool,
    /// The file's times need not be synced; its size must be.
    pub data_only: bool,
}

/// A change of some of the eight locks in the shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShmLock {
    /// Take one lock beside others who hold it shared.
    LockShared,
    /// Take locks alone.
    LockExclusive,
    /// Give back a lock held shared.
    UnlockShared,
    /// Give back locks held alone.
    UnlockExclusive,
}

impl ShmLock {
    /// The request that `xShmLock` is called with these flags for.
    pub(super) fn of_flags(flags: std::ffi::c_int) -> Self {
        let is_lock = flags & ffi::SQLITE_SHM_LOCK != 0;
        match (is_lock, flags & ffi::SQLITE_SHM_SHARED != 0) {
            (true, true) => Self::LockShared,
            (true, false) => Self::LockExclusive,
            (false, true) => Self::UnlockShared,
            (false, false) => Self::UnlockExclusive,
        }
    }
}

/// Guarantees of a device: bits of
/// [`VfsFile::device_characteristics`](super::interface::VfsFile::device_characteristics).
pub mod characteristics {
    use rusqlite::ffi;

    /// Writes of any size are atomic.
    pub const ATOMIC: i32 = ffi::SQLITE_IOCAP_ATOMIC;
    /// Aligned writes of 512 bytes are atomic.
    pub const ATOMIC_512: i32 = ffi::SQLITE_IOCAP_ATOMIC512;
    /// Aligned writes of 4,096 bytes are atomic.
    pub const ATOMIC_4K: i32 = ffi::SQLITE_IOCAP_ATOMIC4K;
    /// A file that grows never shows bytes that were not written.
    pub const SAFE_APPEND: i32 = ffi::SQLITE_IOCAP_SAFE_APPEND;
    /// Writes reach the disk in their order, without a sync.
    pub const SEQUENTIAL: i32 = ffi::SQLITE_IOCAP_SEQUENTIAL;
    /// An open file cannot be deleted.
    pub const UNDELETABLE_WHEN_OPEN: i32 = ffi::SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN;
    /// A power cut changes no byte beside those being written.
    pub const POWERSAFE_OVERWRITE: i32 = ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    /// The file never changes.
    pub const IMMUTABLE: i32 = ffi::SQLITE_IOCAP_IMMUTABLE;
    /// Several writes can be made atomic by file controls.
    pub const BATCH_ATOMIC: i32 = ffi::SQLITE_IOCAP_BATCH_ATOMIC;
}
