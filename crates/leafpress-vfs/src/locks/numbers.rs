//! The locks of the file behind each descriptor's number.
//!
//! SQLite asks for locks far more often than it opens files: two in each read transaction,
//! from many threads. So once it is settled which descriptor holds a file's locks,
//! `c_api/system_calls.c` is told, and locks without asking here. Nothing about that file
//! changes until its last number is taken back.
//!
//! Must never: leave a holder set for a number that SQLite has given back.

use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::file_locks::FileLocks;
use crate::FileIdentity;
use crate::c_api::range_lock::{Bytes, How, Lock};
use crate::c_api::system_calls::set_holder;

type Files = Vec<Option<Arc<FileLocks>>>;

static FILES: RwLock<Files> = RwLock::new(Vec::new());

fn files_to_change() -> RwLockWriteGuard<'static, Files> {
    FILES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the file behind `number`, by its locks; `None` if the number was given back.
pub(super) fn set(number: RawFd, locks: Option<Arc<FileLocks>>) {
    let index = number as usize;
    let mut files = files_to_change();
    set_holder(number, None);
    if files.len() <= index {
        files.resize(index + 1, None);
    }
    files[index] = locks;
}

fn locks_of(number: RawFd) -> Option<Arc<FileLocks>> {
    let files = FILES.read().unwrap_or_else(PoisonError::into_inner);
    files.get(usize::try_from(number).ok()?)?.clone()
}

/// The file behind a number that SQLite was given.
pub(super) fn identity_of(number: RawFd) -> Option<FileIdentity> {
    locks_of(number).map(|locks| locks.identity)
}

/// The answer to a call for a lock.
pub(super) enum Answer {
    Done(io::Result<Lock>),
    /// The locks belong to the process: SQLite is to call the system itself.
    LeftToSystem,
    /// The number was never given to SQLite from here.
    Unknown,
}

/// Asks for a lock, takes it or gives it back, for SQLite, which names the file by a number.
pub(super) fn lock(number: RawFd, how: How, lock: Lock, bytes: Bytes) -> Answer {
    let Some(locks) = locks_of(number) else { return Answer::Unknown };
    let Some(answer) = locks.lock(how, lock, bytes) else { return Answer::LeftToSystem };
    // SQLite uses the number now, so it cannot be taken back meanwhile.
    if let Some(holder) = locks.lasting_holder() {
        set_holder(number, Some(holder));
    }
    Answer::Done(answer)
}

/// Keeps all as it is until it is dropped.
pub(super) struct Held(RwLockWriteGuard<'static, Files>);

pub(super) fn hold() -> Held {
    Held(files_to_change())
}

impl Held {
    /// Forgets all numbers.
    pub(super) fn clear(&mut self) {
        for number in 0..self.0.len() {
            set_holder(number as RawFd, None);
        }
        self.0.clear();
    }
}
