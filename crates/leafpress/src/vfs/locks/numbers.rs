//! The locks of the file behind each descriptor's number.
//!
//! SQLite asks for locks far more often than it opens files: two in each read transaction,
//! from many threads. So a number whose locks belong to a descriptor that can be written is
//! answered by one load of a *shortcut*, with no mutex: nothing about that file changes
//! until its last number is taken back.
//!
//! Must never: keep a shortcut of a number that SQLite has given back.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

use super::file_locks::FileLocks;
use super::table::Inode;
use crate::c_api::range_lock::{Bytes, How, Lock, ask};

static FILES: RwLock<Vec<Option<Arc<FileLocks>>>> = RwLock::new(Vec::new());

/// Numbers in a chunk of shortcuts; a chunk is made when a number of it is first used.
const CHUNK: usize = 1024;
/// Together the chunks reach as far as Linux lets numbers go unless it is told otherwise
/// (`fs.nr_open`). Higher numbers have no shortcut.
const CHUNKS: usize = 1024;
type Chunk = [AtomicI32; CHUNK];
static SHORTCUTS: [OnceLock<Box<Chunk>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
const NO_SHORTCUT: RawFd = -1;

fn shortcut(number: RawFd) -> Option<&'static AtomicI32> {
    let index = usize::try_from(number).ok()?;
    SHORTCUTS.get(index / CHUNK)?.get()?.get(index % CHUNK)
}

fn set_shortcut(number: RawFd, holder: RawFd) {
    let index = number as usize;
    if let Some(chunk) = SHORTCUTS.get(index / CHUNK) {
        let new_chunk = || Box::new([const { AtomicI32::new(NO_SHORTCUT) }; CHUNK]);
        chunk.get_or_init(new_chunk)[index % CHUNK].store(holder, Ordering::Release);
    }
}

fn files_to_change() -> RwLockWriteGuard<'static, Vec<Option<Arc<FileLocks>>>> {
    FILES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Says whose locks those of `number` are from now on.
pub(super) fn set(number: RawFd, locks: Option<Arc<FileLocks>>) {
    let index = number as usize;
    let mut files = files_to_change();
    set_shortcut(number, NO_SHORTCUT);
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
pub(super) fn inode_of(number: RawFd) -> Option<Inode> {
    locks_of(number).map(|locks| locks.inode)
}

/// The answer to a call for a lock.
pub(super) enum Answer {
    Done(io::Result<Lock>),
    /// The locks belong to the process: SQLite is to call the system itself.
    LeftToSystem,
    /// The number was never given to SQLite from here.
    Unknown,
}

/// Does what SQLite asks for by a number.
pub(super) fn lock(number: RawFd, how: How, lock: Lock, bytes: Bytes) -> Answer {
    if let Some(shortcut) = shortcut(number) {
        let holder = shortcut.load(Ordering::Acquire);
        if holder != NO_SHORTCUT {
            return Answer::Done(ask(holder, how, lock, bytes).map(|it| it.lock));
        }
    }
    let Some(locks) = locks_of(number) else { return Answer::Unknown };
    let Some(answer) = locks.lock(how, lock, bytes) else { return Answer::LeftToSystem };
    // SQLite uses the number now, so it cannot be taken back meanwhile.
    if let Some(holder) = locks.lasting_holder() {
        set_shortcut(number, holder);
    }
    Answer::Done(answer)
}

/// Keeps all as it is until it is dropped.
pub(super) struct Held(RwLockWriteGuard<'static, Vec<Option<Arc<FileLocks>>>>);

pub(super) fn hold() -> Held {
    Held(files_to_change())
}

impl Held {
    /// Forgets all numbers.
    pub(super) fn clear(&mut self) {
        self.0.clear();
        for chunk in SHORTCUTS.iter().filter_map(OnceLock::get) {
            chunk.iter().for_each(|shortcut| shortcut.store(NO_SHORTCUT, Ordering::Release));
        }
    }
}
