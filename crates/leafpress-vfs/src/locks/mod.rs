//! Locks that belong to a descriptor. So closing a file elsewhere drops none.
//!
//! SQLite's locks on Unix are POSIX locks. They belong to a process and a file, with two
//! consequences: two copies of SQLite in one process never exclude each other, and closing
//! *any* descriptor of a database, by another copy or by `std::fs::read`, drops all locks
//! of the process on it. Commits are lost, and databases break.
//!
//! Here SQLite's system calls are replaced (`c_api/system_calls.rs`), for this copy of it:
//!
//! ```text
//! open  ─► table: which file (device and inode) is it? a parked descriptor of it, or a new one
//! fcntl ─► file_locks: the same lock, as OFD lock on the one descriptor that locks this file
//! close ─► table: parked; closed once that drops no lock of another copy
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `file_locks.rs` | the locks of one file, and to whom they belong |
//! | `numbers.rs` | the locks of the file behind each number, found without a mutex |
//! | `table.rs` | the process's descriptors, and when one may be closed |
//! | `handle.rs` | files that Leafpress opens itself: inputs, copies, pages written whole |
//! | `log_on_disk.rs` | state of a write-ahead log on the disk, as far as this process knows |
//! | `lock_file.rs` | bytes that processes lock to tell one another what they do |
//! | `foreign.rs` | descriptors of this process that are not in the table |
//! | `another_copy.rs` | another copy of SQLite, where the system has no such locks |
//!
//! # Invariants
//! 1. All locks of one file are held on one descriptor, or all belong to the process as
//!    SQLite itself would have it. Which of the two is decided with the first lock.
//! 2. A descriptor is closed only while an OFD lock on the whole file is held, which can be
//!    had only if no other owner, POSIX locks of this process included, holds any lock
//!    there; or on the end of files that can only be read, if none is seen; or, once many
//!    are parked, while this process has no other descriptor of the file, and the pending
//!    byte of a database is locked.
//! 3. The descriptor that holds a file's locks is open as long as any other one is used.
//! 4. In a child of `fork` no descriptor of the parent can be reached: each number stands
//!    for a dead file there.
//! 5. No file has the number of a standard stream, even if the program has closed that.
//!
//! # What was open before
//! A connection of this copy of SQLite that had locks before [`install`] holds POSIX locks,
//! and all connections to that file go on with those until the last is closed, as SQLite by
//! itself does. So call [`install`] first.
//!
//! Must never: close or lock a file whose lock may be another owner's, or wait for a lock
//! while a mutex of this module is held.

#[cfg(unix)]
mod another_copy;
#[cfg(unix)]
mod file_locks;
#[cfg(unix)]
mod foreign;
mod handle;
#[cfg(unix)]
mod lock_file;
mod log_on_disk;
#[cfg(unix)]
mod numbers;
#[cfg(unix)]
mod table;
#[cfg(all(test, target_os = "linux"))]
mod tests;

#[doc(hidden)]
pub use handle::Open;
pub use handle::{FileHandle, read, read_to_string};
#[cfg(unix)]
#[doc(hidden)]
pub use lock_file::LockFile;
#[doc(hidden)]
pub use log_on_disk::LogOnDisk;

use std::path::Path;
#[cfg(unix)]
use std::sync::Arc;

use crate::c_api::interface::Vfs;
use crate::c_api::registration::{self, Registration};
use crate::error::Result;
#[cfg(unix)]
use crate::paths::companion_of;

/// Makes the locks of this process's SQLite belong to descriptors, for all connections that
/// are opened from now on, also by `rusqlite` itself.
///
/// Everything in this crate that opens a database does this by itself. A program that opens
/// connections of its own calls it at its start, before the first of them: then another copy
/// of SQLite in the process (as Python's `sqlite3`) and `std::fs::read` or `std::fs::copy`
/// of a database cannot take locks away, on Linux and macOS. See `docs/neighbours.md` for
/// what holds on other systems. Calling it again does nothing.
///
/// ```
/// leafpress_vfs::locks::install()?;
/// # Ok::<(), leafpress_vfs::Error>(())
/// ```
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) if another part of the program has replaced one of SQLite's system calls,
/// or this SQLite has no VFS `unix`. Then nothing was changed, and locks are SQLite's own.
pub fn install() -> Result<()> {
    #[cfg(unix)]
    if let Err(reason) = system::installed() {
        return Err(crate::error::Error::unsupported(format!(
            "the locks of SQLite cannot be made to belong to descriptors: {reason}"
        ))
        .on_disk("nothing was changed")
        .advise("call leafpress::vfs::locks::install() before that part does, or leave one of the two out"));
    }
    Ok(())
}

/// Calls [`install`]; a failure leaves SQLite as it is.
#[doc(hidden)]
pub fn ensure() {
    #[cfg(unix)]
    if let Err(reason) = system::installed() {
        static TOLD: std::sync::Once = std::sync::Once::new();
        TOLD.call_once(|| tracing::warn!(%reason, "locks stay SQLite's own"));
    }
}

/// Registers `vfs` under `name`, for all connections of the process that ask for it.
///
/// # Errors
/// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if the name is empty, holds a zero byte or is taken already; SQLite's
/// own if it cannot be initialised. Nothing is registered then.
pub fn register(name: &str, vfs: impl Vfs) -> Result<Registration> {
    // Its files will be the platform's.
    ensure();
    registration::register(name, vfs, false)
}

/// Registers `vfs` as [`register`] does, and as the default: connections that ask for no VFS get
/// it too, until the registration is dropped.
///
/// # Errors
/// As [`register`].
pub fn register_default(name: &str, vfs: impl Vfs) -> Result<Registration> {
    ensure();
    registration::register(name, vfs, true)
}

/// Refuses to write a database that another copy of SQLite in this process has open, where
/// the system has no locks that belong to descriptors.
///
/// # Errors
/// [`ErrorKind::Destination`](crate::ErrorKind::Destination); nothing was changed.
#[doc(hidden)]
pub fn refuse_beside_another_copy(database: &Path) -> Result<()> {
    #[cfg(unix)]
    return another_copy::refuse(database);
    #[cfg(not(unix))]
    {
        let _ = database;
        Ok(())
    }
}

/// Locks of the `-shm` file of this database, if this process has opened it.
#[cfg(unix)]
fn locks_of_log_index(database: &Path) -> Option<Arc<file_locks::FileLocks>> {
    table::locks_of(&companion_of(database, "-shm"))
}

/// State of the log of this database. Always unknown for a log whose index is no file, and on Windows.
#[doc(hidden)]
pub fn log_on_disk(database: &Path) -> LogOnDisk {
    #[cfg(unix)]
    let known = locks_of_log_index(database).map(|locks| locks.log());
    #[cfg(not(unix))]
    let known = {
        let _ = database;
        None
    };
    known.unwrap_or(LogOnDisk::Unknown)
}

/// Returns true if the connections of this process have opened the `-shm` file of this database for reading
/// only. SQLite opens it once for all of them, so none can write until all are closed.
#[doc(hidden)]
pub fn only_reads_log(database: &Path) -> bool {
    #[cfg(unix)]
    let only_reads = locks_of_log_index(database).is_some_and(|locks| locks.is_read_only());
    #[cfg(not(unix))]
    let only_reads = {
        let _ = database;
        false
    };
    only_reads
}

/// Notes the state of the log of this database, until the last connection of this process is closed.
#[doc(hidden)]
pub fn note_log_on_disk(database: &Path, log: LogOnDisk) {
    #[cfg(unix)]
    if let Some(locks) = locks_of_log_index(database) {
        locks.set_log(log);
    }
    #[cfg(not(unix))]
    let _ = (database, log);
}

/// Goes on as on a system without locks that belong to descriptors, for tests.
#[doc(hidden)]
#[cfg(unix)]
pub fn pretend_there_are_none() {
    file_locks::pretend_there_are_none();
}

/// Numbers of the descriptors that this module gave to SQLite or keeps open.
#[doc(hidden)]
#[cfg(unix)]
pub fn own_descriptors() -> Vec<std::os::fd::RawFd> {
    table::all_numbers()
}

/// Numbers of those [`own_descriptors`] that SQLite does not use: no connection has opened their
/// names.
#[doc(hidden)]
#[cfg(unix)]
pub fn descriptors_unused_by_sqlite() -> Vec<std::os::fd::RawFd> {
    table::numbers_unused_by_sqlite()
}

#[cfg(unix)]
mod system {
    //! Putting all of it in force.

    use std::sync::OnceLock;

    use super::table;
    use crate::c_api::fork::{self, AroundFork};
    use crate::c_api::system_calls::{self, Calls, NotReplaced};

    const CALLS: Calls = Calls {
        open: table::open_for_sqlite,
        close: table::release_number,
        close_unknown: table::close_unknown,
        lock: table::lock,
    };
    const AROUND_FORK: AroundFork = AroundFork {
        before: table::hold_for_fork,
        in_parent: table::let_go_after_fork,
        in_child: table::start_anew_in_child,
    };

    /// Puts it in force at the first call.
    pub(super) fn installed() -> Result<(), NotReplaced> {
        static INSTALLED: OnceLock<Result<(), NotReplaced>> = OnceLock::new();
        *INSTALLED.get_or_init(|| {
            system_calls::replace(&CALLS)?;
            if let Err(error) = fork::register(&AROUND_FORK) {
                tracing::warn!(%error, "a child of fork will not be told from its parent");
            }
            Ok(())
        })
    }
}
