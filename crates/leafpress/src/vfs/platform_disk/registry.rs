//! The descriptors of databases that this process holds for whole-page writes.
//!
//! SQLite's locks are POSIX locks: when a process closes *any* descriptor of a file,
//! all locks that it holds on that file are gone, and two writers may meet. SQLite
//! knows of its own descriptors, not of ours. So ours are counted here, and closed
//! only when that can drop nothing.
//!
//! How that is known: a lock on the whole file that belongs to our descriptor alone
//! (`c_api/range_lock.rs`) can be had only while nobody holds any lock there,
//! connections of this process that never heard of us included, and nobody can take
//! one as long as it is held. So: with that lock the descriptor is closed, and the
//! lock goes with it. Without, it is *parked*: it stays, is used again when its file is
//! opened again, and closing is tried again whenever any file is opened or released.
//! For the moment between the two calls others find the database busy, as they do
//! during a commit.
//!
//! Invariants:
//! 1. A descriptor of a database is closed only under a lock of its own on the whole
//!    file.
//! 2. There is at most one descriptor for each inode and [`Way`] that is not about to
//!    be closed under 1.
//! 3. A descriptor is open as long as `users` of its slot is more than 0.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

use super::detect::{Facts, Inode};
use crate::c_api::range_lock::lock_whole_file;

/// How a descriptor writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Past the page cache, as atomic writes must be.
    Direct,
    /// Into the page cache.
    Cached,
}

impl Way {
    fn open(self, path: &Path) -> io::Result<File> {
        let flag = match self {
            Self::Direct => OFlags::DIRECT,
            Self::Cached => OFlags::empty(),
        };
        // std adds O_CLOEXEC. Should a pipe have taken the file's name, this must not wait.
        let flags = (flag | OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        File::options().read(true).write(true).custom_flags(flags.cast_signed()).open(path)
    }
}

struct Slot {
    inode: Inode,
    way: Way,
    file: Arc<File>,
    users: usize,
}

/// A process has few databases: a list is searched faster than it is hashed.
static SLOTS: Mutex<Vec<Slot>> = Mutex::new(Vec::new());

fn slots() -> MutexGuard<'static, Vec<Slot>> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes what nobody uses and nobody holds a lock on.
fn close_unused(slots: &mut Vec<Slot>) {
    // What cannot be locked at all stays for ever, rather than dropping a lock.
    slots.retain(|slot| slot.users > 0 || !lock_whole_file(&slot.file).unwrap_or(false));
}

/// A descriptor for writing whole pages, shared by all who opened the same file.
#[derive(Debug)]
pub(super) struct Descriptor {
    file: Arc<File>,
}

impl Descriptor {
    /// A descriptor of the file that `path` named when it was asked for `inode`.
    ///
    /// # Errors
    /// If it cannot be opened, or `path` names another file by now.
    pub fn of(path: &Path, inode: Inode, way: Way) -> io::Result<Self> {
        let mut slots = slots();
        let is_wanted = |slot: &Slot| slot.inode == inode && slot.way == way;
        if !slots.iter().any(is_wanted) {
            let slot = Self::open(path, way)?;
            // Also if it is another file: what has been opened is not simply closed.
            slots.push(slot);
        }
        let found = slots.iter_mut().find(|slot| is_wanted(slot)).map(|slot| {
            slot.users += 1;
            Self { file: Arc::clone(&slot.file) }
        });
        close_unused(&mut slots);
        found.ok_or_else(|| io::Error::other("another file has taken the database's name"))
    }

    fn open(path: &Path, way: Way) -> io::Result<Slot> {
        let file = way.open(path)?;
        match Facts::of_open(file.as_fd()) {
            Ok(facts) => Ok(Slot { inode: facts.inode, way, file: Arc::new(file), users: 0 }),
            Err(error) => {
                // Nobody knows whose locks closing it would drop.
                std::mem::forget(file);
                Err(error)
            }
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let mut slots = slots();
        let is_ours = |slot: &&mut Slot| Arc::ptr_eq(&slot.file, &self.file);
        if let Some(slot) = slots.iter_mut().find(is_ours) {
            slot.users -= 1;
        }
        // If this was the last, the slot goes here and the file with `self.file`, a moment
        // later; the lock lasts as long as the file.
        close_unused(&mut slots);
    }
}

/// How many descriptors this process holds on a file.
#[cfg(test)]
pub(super) fn count_of(inode: Inode) -> usize {
    slots().iter().filter(|slot| slot.inode == inode).count()
}
