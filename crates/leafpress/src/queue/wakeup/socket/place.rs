//! The folder of the sockets of a database: its path, its owner and its rights.
//!
//! Stands under [`OwnSocket`](super::OwnSocket), which makes it, and
//! [`Sender`](super::Sender), which only reads it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};

use crate::paths::companion_of;
use crate::queue::wakeup::message;

/// Bytes of a socket's name at most, `.new` included: three numbers of 32 bits.
pub(super) const NAME_LENGTH_MAX: usize = 40;

/// The folder of the sockets of a database.
#[derive(Debug, Clone)]
pub(in crate::queue::wakeup) struct SocketFolder {
    /// The path as SQLite knows it: without symbolic links.
    database: PathBuf,
    pub(super) folder: PathBuf,
    /// Beginning of the names of this one's own sockets.
    pub(super) own_prefix: String,
    /// Sockets made so far.
    sockets: Arc<AtomicU32>,
}

impl SocketFolder {
    /// `None` where the path leads to no file.
    pub(in crate::queue::wakeup) fn of(database: &Path) -> Option<Self> {
        let database = dunce::canonicalize(database).ok()?;
        let metadata = database.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let beside = companion_of(&database, "-wakeups");
        let folder = if can_be_reached(&beside) {
            beside
        } else {
            // `/tmp` is the same for all processes; a folder named in the environment need not be.
            let of_the_file = format!("{} {}", metadata.dev(), metadata.ino());
            PathBuf::from(format!("/tmp/leafpress-wakeups-{:016x}", message::hash(&of_the_file)))
        };
        let random = RandomState::new().build_hasher().finish() as u32;
        let own_prefix = format!("{}-{random:08x}-", std::process::id());
        Some(Self { database, folder, own_prefix, sockets: Arc::default() })
    }

    /// A name that was never used.
    pub(super) fn new_name(&self) -> String {
        format!("{}{}", self.own_prefix, self.sockets.fetch_add(1, Ordering::Relaxed))
    }

    /// Opens the folder.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        Ok(rustix::fs::open(&self.folder, flags, Mode::empty())?)
    }

    /// Opens the folder, and makes it first where it is missing.
    pub(super) fn make(&self) -> io::Result<OwnedFd> {
        let is_new = rustix::fs::mkdir(&self.folder, Mode::RWXU).is_ok();
        let folder = self.open()?;
        if is_new {
            let owner = self.database.metadata()?;
            // Not every user may give a file away, nor to every group.
            let (user, group) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
            let _ = rustix::fs::fchown(&folder, None, Some(group));
            let _ = rustix::fs::fchown(&folder, Some(user), None);
            let has_group = rustix::fs::fstat(&folder)?.st_gid == owner.gid();
            let mode = for_group(folder_mode(owner.mode()), has_group);
            rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode as _))?;
        }
        Ok(folder)
    }

    /// Gives a socket that this process made to those who may write the database.
    pub(super) fn share(&self, folder: impl AsFd, name: &str) -> io::Result<()> {
        let owner = self.database.metadata()?;
        let (user, group) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
        let no_link = AtFlags::SYMLINK_NOFOLLOW;
        let _ = rustix::fs::chownat(&folder, name, None, Some(group), no_link);
        let _ = rustix::fs::chownat(&folder, name, Some(user), None, no_link);
        let has_group = rustix::fs::statat(&folder, name, no_link)?.st_gid == owner.gid();
        let mode = Mode::from_raw_mode(for_group(owner.mode() & 0o666 | 0o600, has_group) as _);
        Ok(rustix::fs::chmodat(&folder, name, mode, AtFlags::empty())?)
    }

    /// Removes the folder, if nothing is in it.
    pub(super) fn remove_if_empty(&self) {
        let _ = rustix::fs::rmdir(&self.folder);
    }

    /// Path of a socket in the folder, for a socket that is there and for one that is to be made.
    pub(super) fn address(&self, folder: impl AsFd, name: &str) -> PathBuf {
        if has_short_paths() {
            format!("/proc/self/fd/{}/{name}", folder.as_fd().as_raw_fd()).into()
        } else {
            self.folder.join(name)
        }
    }
}

/// Returns true if an open folder has a path of its own.
fn has_short_paths() -> bool {
    cfg!(target_os = "linux") && Path::new("/proc/self/fd").is_dir()
}

/// Returns true if the paths of sockets in a folder are short enough here.
fn can_be_reached(folder: &Path) -> bool {
    let longest = folder.join("x".repeat(NAME_LENGTH_MAX));
    SocketAddr::from_pathname(longest).is_ok() || has_short_paths()
}

/// The folder's permissions: a user who may write the database may make and remove sockets.
fn folder_mode(database_mode: u32) -> u32 {
    let writers = (database_mode & 0o222) | 0o200;
    writers | (writers << 1) | (writers >> 1)
}

/// The mode of a file that may have another group than the database. If it has, its group and all others
/// get only the rights that both have in `mode`.
fn for_group(mode: u32, has_group: bool) -> u32 {
    if has_group {
        return mode;
    }
    let of_others = mode & (mode >> 3) & 0o007;
    mode & 0o700 | of_others << 3 | of_others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write_the_database_may_use_the_folder() {
        assert_eq!(folder_mode(0o100_644), 0o700);
        assert_eq!(folder_mode(0o100_664), 0o770);
        assert_eq!(folder_mode(0o100_666), 0o777);
        assert_eq!(folder_mode(0o100_444), 0o700);
    }

    #[test]
    fn another_group_than_the_databases_gets_no_more_than_all_others() {
        assert_eq!(
            [0o770, 0o777, 0o775, 0o707, 0o700].map(|mode| for_group(mode, false)),
            [0o700, 0o777, 0o755, 0o700, 0o700]
        );
        assert_eq!(for_group(0o770, true), 0o770);
        assert_eq!([0o660, 0o666].map(|mode| for_group(mode, false)), [0o600, 0o666]);
    }
}
