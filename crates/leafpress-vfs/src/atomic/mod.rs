//! Commits of one page without a journal. The disk must write a page whole.
//!
//! SQLite can commit a transaction that changes a single page by writing that page
//! in place, if the VFS says that such a write is atomic. That saves the journal:
//! one write and one sync instead of two files, three syncs and a deletion. This
//! folder says so, but only as long as it is true, and closes the gaps that SQLite's
//! own option leaves.
//!
//! ```text
//! SQLite ─► AtomicPages ─┬─► the VFS below      (all ordinary calls)
//!                        └─► an AtomicDisk      (whole pages, folder syncs, stamps)
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the seam: what is needed of a disk, and the words of reports |
//! | `pages.rs` | [`AtomicPages`], the VFS |
//! | `database.rs` | what all openings of one database know together |
//! | `file.rs` | the database file: when the bit is set, and how a page is written |
//! | `journal.rs` | journal and WAL: whether they are open, and which of their bytes are synced |
//!
//! The bit is exactly one, the one of the page's size, and is set only while *all*
//! of this holds: the disk writes pages of this size whole; the file may be written;
//! its header says that it is not in WAL mode; no journal file and no WAL of it is
//! open in this process; no such write was refused so far. Exactly then a write goes
//! to [`AtomicFile::write`]; a write that it refuses is an I/O error, and from the
//! next transaction on there is a journal again.
//!
//! # The safeguards
//! SQLite's option trusts that a journal that was deleted stays away. Without these
//! a power cut brings it back, and it rolls back a transaction *older* than ones
//! that are kept ([`Safeguard`] lists them; each has a crash test that fails without it).
//!
//! Must never: write a page plainly where SQLite was told that it is atomic, or say
//! anything about durability: a sync follows as ever.

mod database;
mod file;
mod journal;
mod pages;
#[cfg(all(test, unix))]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::VfsResult;
use crate::c_api::connection::compiled_with;
use crate::error::{Error, Result};

pub use pages::AtomicPages;

/// Services that atomic pages need of the disk under a VFS, beside the VFS itself.
///
/// Paths are as [`Vfs::full_path`](super::Vfs::full_path) made them.
pub trait AtomicDisk: Send + Sync + 'static {
    /// Opens the database at `path`, which the VFS has just opened for writing, for
    /// writes of whole pages; or says why there are none.
    ///
    /// # Errors
    /// If it cannot be found out; the database is not opened then.
    fn open(
        &self,
        path: &str,
    ) -> VfsResult<std::result::Result<Arc<dyn AtomicFile>, NoAtomicWrites>>;

    /// Makes all names in the folder of `path` safe from a power cut.
    ///
    /// # Errors
    /// `IO_SYNC_FOLDER`.
    fn sync_folder_of(&self, path: &str) -> VfsResult<()>;

    /// Makes the content of a journal safe from a power cut, if it is there.
    ///
    /// # Errors
    /// `IO_SYNC`.
    fn sync_file(&self, path: &str) -> VfsResult<()>;

    /// A stamp that differs from an earlier one whenever a name in the folder of `path`
    /// was made or taken away in between, by whatever process. `None` where that is not
    /// certain.
    ///
    /// # Errors
    /// `IO_ACCESS`.
    fn folder_stamp(&self, path: &str) -> VfsResult<Option<Stamp>>;

    /// Such a stamp for the content of a file.
    ///
    /// # Errors
    /// `IO_ACCESS`. That it is not there is no error.
    fn file_stamp(&self, path: &str) -> VfsResult<FileStamp>;
}

/// A database file that can be written by whole pages.
pub trait AtomicFile: Send + Sync {
    /// The sizes in which it can, and the proof of that.
    fn units(&self) -> AtomicUnits;

    /// Writes a page so that a power cut leaves all of it or nothing, and that every
    /// read after it sees it. It is durable only after a sync.
    ///
    /// # Errors
    /// `FULL` if the disk is full, else `IO_WRITE`. The page holds its old content or,
    /// whole, the new.
    fn write(&self, page: &[u8], offset: u64) -> VfsResult<()>;
}

/// The sizes of writes that are whole or not at all, powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AtomicUnits {
    /// The smallest, in bytes.
    pub bytes_min: u32,
    /// The largest, in bytes.
    pub bytes_max: u32,
    /// Proof of it.
    pub by: AtomicProof,
}

impl AtomicUnits {
    /// Returns true if a page of this size can be written whole.
    pub const fn cover(self, page_bytes: u32) -> bool {
        self.bytes_min <= page_bytes && page_bytes <= self.bytes_max
    }
}

/// Proof that a write is whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AtomicProof {
    /// The disk's own.
    Hardware,
    /// The file system's, which writes elsewhere first.
    Software,
    /// The user's, without proof.
    Assumed,
}

impl fmt::Display for AtomicProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hardware => "hardware",
            Self::Software => "software",
            Self::Assumed => "assumed",
        })
    }
}

/// Reason for which a file cannot be written by whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum NoAtomicWrites {
    /// Only Linux has them.
    NotOnThisSystem,
    /// The kernel or the file system does not tell; such writes need Linux 6.13.
    NotTold,
    /// Disk and file system have none.
    NotOffered,
    /// The file could not be opened a second time for such writes.
    NotOpened,
    /// This process plays a disk that has none.
    Simulated,
}

impl fmt::Display for NoAtomicWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOnThisSystem => "this operating system has no atomic writes",
            Self::NotTold => "the kernel does not say whether writes are atomic",
            Self::NotOffered => "neither the disk nor the file system offers atomic writes",
            Self::NotOpened => "the file cannot be opened for atomic writes",
            Self::Simulated => "the disk that is simulated has no atomic writes",
        })
    }
}

/// A number for a state: another state has another number. Only equality means anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp(pub u128);

/// The stamp of a file that may not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileStamp {
    /// The file does not exist.
    Absent,
    /// The file exists; `None` if its stamp is not reliable.
    There(Option<Stamp>),
}

/// The way in which a transaction of one page is committed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtomicState {
    /// Commits write in place, by one write that is whole or not at all.
    Whole {
        /// Proof of it.
        by: AtomicProof,
        /// The size of the database's pages.
        page_bytes: u32,
    },
    /// Commits use a journal, as all others do.
    Journal {
        /// Reason.
        why: WhyJournal,
    },
}

impl fmt::Display for AtomicState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole { by: AtomicProof::Hardware, page_bytes } => {
                write!(f, "atomic pages of {page_bytes} bytes, by the disk itself")
            }
            Self::Whole { by: AtomicProof::Software, page_bytes } => {
                write!(f, "atomic pages of {page_bytes} bytes, by the file system")
            }
            Self::Whole { by: AtomicProof::Assumed, page_bytes } => {
                write!(f, "atomic pages of {page_bytes} bytes, ASSUMED on your word alone")
            }
            Self::Journal { why } => write!(f, "journal: {why}"),
        }
    }
}

/// As `{"by": "software", "page_bytes": 4096}` or `{"by": "journal", "why": "…"}`.
impl Serialize for AtomicState {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(2))?;
        match self {
            Self::Whole { by, page_bytes } => {
                map.serialize_entry("by", by)?;
                map.serialize_entry("page_bytes", page_bytes)?;
            }
            Self::Journal { why } => {
                map.serialize_entry("by", "journal")?;
                map.serialize_entry("why", &why.to_string())?;
            }
        }
        map.end()
    }
}

/// Reason for which a transaction of one page needs a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyJournal {
    /// The disk has no atomic writes.
    NoAtomicWrites(NoAtomicWrites),
    /// The disk has atomic writes, but not of this size.
    PageSize {
        /// The size of the database's pages.
        page_bytes: u32,
        /// The sizes that the disk can write whole.
        units: AtomicUnits,
    },
    /// The database has no page yet, or none was read.
    NotKnownYet,
    /// The database is in WAL mode, and needs no journal.
    Wal,
    /// The database was opened for reading only.
    ReadOnly,
    /// A journal file stands open, as it does after a larger transaction with
    /// `locking_mode = EXCLUSIVE`.
    JournalOpen,
    /// An atomic write has failed.
    Refused,
    /// This SQLite was compiled without such commits, or with an option that excludes them.
    CompileOptions(&'static str),
}

impl fmt::Display for WhyJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAtomicWrites(why) => why.fmt(f),
            Self::PageSize { page_bytes, units } => write!(
                f,
                "the database has pages of {page_bytes} bytes, and writes are atomic from {} to \
                 {} bytes",
                units.bytes_min, units.bytes_max
            ),
            Self::NotKnownYet => f.write_str("the database has no pages yet"),
            Self::Wal => f.write_str("the database is in WAL mode"),
            Self::ReadOnly => f.write_str("the database is open for reading only"),
            Self::JournalOpen => f.write_str("a journal stands open"),
            Self::Refused => f.write_str("an atomic write has failed"),
            Self::CompileOptions(what) => f.write_str(what),
        }
    }
}

/// One thing that [`AtomicPages`] does beyond setting a bit. All are always done. A crash test leaves
/// one out, and must then see the damage that it prevents.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Safeguard {
    /// Deleting a journal syncs its folder, whatever `synchronous` says.
    FolderSyncOnDelete,
    /// Cutting a journal to nothing is followed by a sync of it.
    SyncOnTruncate,
    /// Before the first page is written in place, after others may have written, the
    /// journal that they left and the folder are synced.
    SyncBeforeFirst,
    /// Then the database is synced as well, if others did write: a process that was
    /// killed may have left a page that it had written in place and not synced.
    SyncLeftPages,
    /// A journal that SQLite moved from memory into a file, because its cache was full
    /// in the middle of a transaction, is synced before the page is written: SQLite
    /// itself forgets it.
    SyncSpilledJournal,
    /// The bit is not set beside an open journal file, as the page with the change
    /// counter would be written in place without being in that journal.
    NoBitBesideJournal,
}

impl Safeguard {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::FolderSyncOnDelete,
        Self::SyncOnTruncate,
        Self::SyncBeforeFirst,
        Self::SyncLeftPages,
        Self::SyncSpilledJournal,
        Self::NoBitBesideJournal,
    ];
}

/// The fault in the compile options of the linked SQLite, if there is one.
pub fn compile_options_missing() -> Option<&'static str> {
    if compiled_with(c"ENABLE_BATCH_ATOMIC_WRITE") {
        return Some("this SQLite was compiled with SQLITE_ENABLE_BATCH_ATOMIC_WRITE");
    }
    let is_there = compiled_with(c"ENABLE_ATOMIC_WRITE");
    (!is_there).then_some("this SQLite was compiled without SQLITE_ENABLE_ATOMIC_WRITE")
}

/// Fails unless the linked SQLite can commit a page without a journal, safely.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) that says what to do if `SQLITE_ENABLE_ATOMIC_WRITE` is missing, or
/// `SQLITE_ENABLE_BATCH_ATOMIC_WRITE` is there. Nothing was changed.
pub fn check_compile_options() -> Result<()> {
    let Some(what) = compile_options_missing() else { return Ok(()) };
    let advice = if what.contains("BATCH") {
        "take that option out: with both, other connections can read stale pages"
    } else {
        "write LIBSQLITE3_FLAGS = \"-DSQLITE_ENABLE_ATOMIC_WRITE\" under [env] in your program's \
         .cargo/config.toml, and build it anew"
    };
    let reason = format!("{what}, so that a page cannot be committed without a journal");
    Err(Error::unsupported(reason).advise(advice))
}
