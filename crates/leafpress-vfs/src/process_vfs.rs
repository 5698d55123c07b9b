//! The VFS of Leafpress, one for each process. It counts, and commits one page in place where
//! the disk proves that it writes pages whole. A child of `fork` makes one of its own, under
//! another name: threads of its parent may have been in the locks of the one that it inherits.
//!
//! ```text
//! SQLite ─► AtomicPages ─┬─► Counted ─► the platform's VFS
//!                        └─► Counted ─► the platform's disk
//! ```
//!
//! A connection gets it only on demand: it is never the default VFS. The profile `rollback` asks
//! for it; other callers may, by its name.
//!
//! Must never: be withdrawn, as connections may be open through it to the end.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use super::atomic::{AtomicPages, AtomicState, AtomicUnits, NoAtomicWrites};
use super::count::{Counted, IoCounters, IoStats};
use super::platform_disk::PlatformDisk;
use super::{PlatformVfs, Registration, Vfs, register};
use crate::error::Result;
use crate::fork::{Process, Turn};
use crate::sync::lock;

/// A VFS of the whole process, known to SQLite by its [`name`](Self::name).
pub struct LeafpressVfs {
    name: &'static str,
    pages: Arc<AtomicPages<Counted<PlatformVfs>>>,
    counters: IoCounters,
    _registration: Registration,
}

/// The VFS `leafpress`. In a child of `fork`, `-fork-1` is added to the name, in a child's child
/// `-fork-2`, and so on.
///
/// It is registered at the first call. On systems other than Linux all transactions
/// have a journal, and all else is the same.
///
/// ```
/// let vfs = leafpress_vfs::leafpress_vfs()?;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("a.db");
/// let connection = rusqlite::Connection::open_with_flags_and_vfs(
///     &path, rusqlite::OpenFlags::default(), vfs.name(),
/// ).unwrap();
/// connection.execute_batch("PRAGMA synchronous = EXTRA; CREATE TABLE t (x)").unwrap();
/// println!("{}", vfs.state(&path).unwrap());
/// println!("{}", vfs.io());
/// # Ok::<(), leafpress_vfs::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if something else has taken the name; SQLite's own.
pub fn leafpress_vfs() -> Result<&'static LeafpressVfs> {
    vfs_of(false)
}

/// The VFS `leafpress-assume-atomic`: as [`leafpress_vfs`], and takes the user's word that the disk
/// writes pages of 512 to 65,536 bytes whole.
///
/// The word is for file systems that write whole records but do not say so, as ZFS with a
/// `recordsize` of at least a page; if it is not true, a power cut can corrupt the database.
///
/// # Errors
/// As [`leafpress_vfs`].
pub fn leafpress_vfs_assumed() -> Result<&'static LeafpressVfs> {
    vfs_of(true)
}

fn vfs_of(assume: bool) -> Result<&'static LeafpressVfs> {
    let _turn = Turn::LeafpressVfs.take();
    let mut made = made();
    if let Some(vfs) = made.of_this_process(assume) {
        return Ok(vfs);
    }
    let vfs: &'static LeafpressVfs = Box::leak(Box::new(LeafpressVfs::register(assume)?));
    made.0.push((Process::current(), assume, vfs));
    Ok(vfs)
}

/// The VFSs that this process made, and those of the processes that it was forked from.
struct Made(Vec<(Process, bool, &'static LeafpressVfs)>);

/// Call it in [`Turn::LeafpressVfs`].
fn made() -> MutexGuard<'static, Made> {
    static MADE: Mutex<Made> = Mutex::new(Made(Vec::new()));
    lock(&MADE)
}

impl LeafpressVfs {
    /// The one of this process that SQLite knows by `name`.
    #[doc(hidden)]
    pub fn named(name: &str) -> Option<&'static Self> {
        let _turn = Turn::LeafpressVfs.take();
        let made = made();
        [false, true]
            .into_iter()
            .filter_map(|assume| made.of_this_process(assume))
            .find(|vfs| vfs.name == name)
    }

    fn register(assume: bool) -> Result<Self> {
        let name = if assume { "leafpress-assume-atomic" } else { "leafpress" };
        let name: &'static str = match Process::current().forks() {
            0 => name,
            forks => Box::leak(format!("{name}-fork-{forks}").into_boxed_str()),
        };
        let disk = if assume { PlatformDisk::assuming() } else { PlatformDisk::new() };
        let counters = IoCounters::new();
        let below = Counted::new(PlatformVfs::new(), &counters);
        let pages = Arc::new(AtomicPages::new(below, Counted::new(disk, &counters)));
        let registration = register(name, Arc::clone(&pages))?;
        Ok(Self { name, pages, counters, _registration: registration })
    }

    /// As `open_with_flags_and_vfs` and `?vfs=` in a URI take it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Counts of all connections through it up to now.
    pub fn io(&self) -> IoStats {
        self.counters.snapshot()
    }

    /// The way in which a transaction of one page would be committed now; `None` if no connection
    /// has the database open through this VFS.
    pub fn state(&self, database: &Path) -> Option<AtomicState> {
        self.pages.state(&self.full_path(database)?)
    }

    /// The sizes of whole writes that the disk has for this database, whatever the size of its
    /// pages; `None` if no connection has it open through this VFS.
    pub fn units(
        &self,
        database: &Path,
    ) -> Option<std::result::Result<AtomicUnits, NoAtomicWrites>> {
        self.pages.units(&self.full_path(database)?)
    }

    /// Returns true if a connection has the journal file of this database open.
    pub fn journal_is_open(&self, database: &Path) -> bool {
        self.full_path(database).is_some_and(|path| self.pages.journal_is_open(&path))
    }

    /// As [`journal_is_open`](Self::journal_is_open), for the path as SQLite itself
    /// knows the database: asks nothing of the system.
    #[doc(hidden)]
    pub fn journal_is_open_at(&self, full_path: &str) -> bool {
        self.pages.journal_is_open(full_path)
    }

    /// The path as SQLite knows the database.
    fn full_path(&self, database: &Path) -> Option<String> {
        self.pages.full_path(database.to_str()?).ok()
    }
}

impl Made {
    fn of_this_process(&self, assume: bool) -> Option<&'static LeafpressVfs> {
        let wanted = (Process::current(), assume);
        self.0.iter().find(|(process, assumes, _)| (*process, *assumes) == wanted).map(|it| it.2)
    }
}

impl std::fmt::Debug for LeafpressVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeafpressVfs").field("name", &self.name).finish_non_exhaustive()
    }
}
