//! Limits of a process or of the system: whether one was met, and advice about it.

use std::io;
use std::path::Path;

/// Advice for `SQLITE_FULL`, behind that to free some space: SQLite gives the same answer for each of
/// the three causes.
pub const OR_FULL_OTHERWISE: &str = "; if the disk has room, the database is as large as its \
     PRAGMA max_page_count allows, or a table's last rowid is taken";

/// Advice where no file can be made, though bytes are free.
pub const FEWER_FILES: &str = "the file system has no inode left (df -i): delete files, of any size, and \
     try again";

/// Advice where memory is wanting.
pub const MORE_MEMORY: &str = "end programs that need much memory, or allow this one more (ulimit -v, \
     limits of its container)";

/// Advice for an error of the system about a limit of the process or of the system.
pub fn what_to_allow(source: &io::Error) -> Option<&'static str> {
    if source.kind() == io::ErrorKind::FileTooLarge {
        return Some(
            "the file may not grow further: raise the limit (ulimit -f), or choose a file system \
             that takes larger files",
        );
    }
    #[cfg(unix)]
    match rustix::io::Errno::from_io_error(source) {
        Some(rustix::io::Errno::MFILE) => {
            return Some(
                "close files that this process has open, or allow it more of them (ulimit -n)",
            );
        }
        Some(rustix::io::Errno::NFILE) => {
            return Some("end programs with many open files, or allow the system more");
        }
        _ => {}
    }
    None
}

/// Returns true if no file can be made in a folder, or beside a file, however many bytes are free.
#[cfg(unix)]
pub fn has_no_inodes(path: &Path) -> bool {
    let folder = if path.is_dir() { path } else { crate::paths::folder_of(path) };
    // A file system without a fixed number of inodes (btrfs, vfat) counts none at all.
    rustix::fs::statvfs(folder).is_ok_and(|answer| answer.f_files > 0 && answer.f_favail == 0)
}

#[cfg(not(unix))]
pub fn has_no_inodes(_path: &Path) -> bool {
    false
}

/// Returns the system's error if it does not let this process open as many files as a connection may need:
/// the database, its log or journal, the memory that connections share, the folder and temporary files.
///
/// SQLite says "unable to open database file" then, and has closed the files that it could open.
#[cfg(unix)]
pub fn lack_of_files() -> Option<io::Error> {
    use rustix::fs::{Mode, OFlags};
    use rustix::io::Errno;

    const FILES_OF_A_CONNECTION: usize = 8;
    let folder = || rustix::fs::open("/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let opened: rustix::io::Result<Vec<_>> = (0..FILES_OF_A_CONNECTION).map(|_| folder()).collect();
    let limit = opened.err().filter(|errno| matches!(*errno, Errno::MFILE | Errno::NFILE));
    limit.map(io::Error::from)
}

#[cfg(not(unix))]
pub fn lack_of_files() -> Option<io::Error> {
    None
}
