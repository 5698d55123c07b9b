//! The locks of one file, on one descriptor, whichever connection asks for them.
//!
//! SQLite keeps one record a file and takes locks as the process's: through the descriptor
//! of one connection, and gives them back through that of another. OFD locks belong to a
//! descriptor, so all of a file's go through the same one.
//!
//! The first call tells whether SQLite held a lock on the file before its calls were
//! replaced: a connection that holds nothing begins with a read lock on the pending byte,
//! or, on the `-shm` file, with a question for its byte 128. Any other call means that
//! there are POSIX locks already, and the file stays with those (invariant 1 of [`super`]).
//!
//! Must never: wait while the mutex is held.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{Mode, OFlags};

use super::log_on_disk::LogOnDisk;
use crate::FileIdentity;
use crate::c_api::range_lock::{Bytes, How, Lock, ask};
use crate::sync::lock;

/// SQLite's pending byte, the first of the bytes that are locked in a database; those of a
/// `-shm` file are all before it.
pub(super) const PENDING_BYTE: i64 = 0x4000_0000;

/// The byte of a `-shm` file that each process locks as long as it uses it, and asks for first.
const USERS_BYTE: i64 = 128;

/// Set once the system has refused an OFD lock.
static NONE_HERE: AtomicBool = AtomicBool::new(false);

/// Returns true if the system has no OFD locks, as far as it was asked.
pub(super) fn none_here() -> bool {
    NONE_HERE.load(Ordering::Relaxed)
}

pub(super) fn pretend_there_are_none() {
    NONE_HERE.store(true, Ordering::Relaxed);
}

/// Owner of the locks of this copy of SQLite on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// There are none yet.
    Undecided,
    /// A descriptor: closing others drops nothing.
    Descriptor,
    /// The process, as SQLite by itself has it.
    Process,
}

impl Owner {
    /// By the first call for a file.
    fn by_first_call(how: How, lock: Lock, bytes: Bytes) -> Self {
        let takes_nothing = lock == Lock::None;
        let is_beginning = how != How::Get && lock == Lock::Read && bytes.start == PENDING_BYTE;
        if none_here() || takes_nothing {
            return Self::Process;
        }
        if bytes.start < PENDING_BYTE || is_beginning { Self::Descriptor } else { Self::Process }
    }
}

/// The locks of one file.
#[derive(Debug)]
pub(super) struct FileLocks {
    pub identity: FileIdentity,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    owner: Owner,
    /// Holds the locks. Open as long as any descriptor of the file is used.
    descriptor: RawFd,
    is_writable: bool,
    /// Read locks that are held, while the descriptor cannot be written: one that can be
    /// takes them over.
    read_locked: Vec<Range<i64>>,
    /// Of a `-shm` file: the log beside it.
    log: LogOnDisk,
}

impl FileLocks {
    pub fn new(identity: FileIdentity, descriptor: RawFd, is_writable: bool) -> Self {
        let state = State {
            owner: Owner::Undecided,
            descriptor,
            is_writable,
            read_locked: Vec::new(),
            log: LogOnDisk::Unknown,
        };
        Self { identity, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub fn owner(&self) -> Owner {
        self.state().owner
    }

    /// Asks for a lock, takes it or gives it back, for SQLite; `None` leaves it to the system.
    pub fn lock(&self, how: How, lock: Lock, bytes: Bytes) -> Option<io::Result<Lock>> {
        let mut state = self.state();
        if state.owner == Owner::Undecided {
            state.owner = Owner::by_first_call(how, lock, bytes);
        }
        if state.owner == Owner::Process {
            return None;
        }
        if how == How::Wait {
            let descriptor = state.descriptor;
            drop(state);
            return Some(ask(descriptor, how, lock, bytes).map(|it| it.lock));
        }
        match ask(state.descriptor, how, lock, bytes) {
            Ok(found) => {
                if how == How::Get && bytes.start == USERS_BYTE && found.lock != Lock::None {
                    state.log = LogOnDisk::Whole;
                }
                if !state.is_writable && how == How::Set {
                    note(&mut state.read_locked, lock, bytes.range());
                }
                Some(Ok(found.lock))
            }
            Err(error) if is_unknown_here(&error) => {
                if are_unknown_to_system() {
                    NONE_HERE.store(true, Ordering::Relaxed);
                }
                state.owner = Owner::Process;
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// The descriptor that holds the locks, if no other will while SQLite uses the file.
    pub fn lasting_holder(&self) -> Option<RawFd> {
        let state = self.state();
        (state.owner == Owner::Descriptor && state.is_writable).then_some(state.descriptor)
    }

    /// Moves the locks to a descriptor that can be written, if the present one cannot: write
    /// locks need it. Read locks exclude no others, so they are held by both for a moment.
    pub fn prefer(&self, descriptor: RawFd, is_writable: bool) {
        let mut state = self.state();
        if state.is_writable || !is_writable {
            return;
        }
        if state.owner == Owner::Descriptor {
            for range in &state.read_locked {
                let length = if range.end == i64::MAX { 0 } else { range.end - range.start };
                let bytes = Bytes { start: range.start, length };
                if let Err(error) = ask(descriptor, How::Set, Lock::Read, bytes) {
                    tracing::warn!(%error, "locks stay on a descriptor that cannot be written");
                    return;
                }
            }
            // Those on the new descriptor are held from here on.
            let _ = ask(state.descriptor, How::Set, Lock::None, Bytes::ALL);
        }
        state.descriptor = descriptor;
        state.is_writable = true;
        state.read_locked.clear();
    }

    /// True if no descriptor of the file can write.
    pub fn is_read_only(&self) -> bool {
        !self.state().is_writable
    }

    /// State of the log beside this `-shm` file.
    pub fn log(&self) -> LogOnDisk {
        self.state().log
    }

    /// Sets the state of that log; pages that are not copied stay so until all connections are closed.
    pub fn set_log(&self, log: LogOnDisk) {
        let mut state = self.state();
        if state.log != LogOnDisk::Uncopied {
            state.log = log;
        }
    }

    /// Gives back all locks, when no descriptor of the file is used any more: SQLite relies
    /// on `close` for that of a `-shm` file, and ours may stay open.
    pub fn give_back(&self) {
        let mut state = self.state();
        if state.owner == Owner::Descriptor {
            let _ = ask(state.descriptor, How::Set, Lock::None, Bytes::ALL);
        }
        state.owner = Owner::Undecided;
        state.read_locked.clear();
        state.log = LogOnDisk::Unknown;
    }
}

/// Returns true for the error of a system or file system without OFD locks.
fn is_unknown_here(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP | libc::ENOSYS))
}

/// Returns true if the system has no OFD locks; false if only the file system of one file has none.
fn are_unknown_to_system() -> bool {
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    null.is_ok_and(|null| {
        ask(null.as_raw_fd(), How::Get, Lock::Read, Bytes::ALL)
            .is_err_and(|error| is_unknown_here(&error))
    })
}

/// Adds or takes away a range of read-locked bytes.
fn note(held: &mut Vec<Range<i64>>, lock: Lock, range: Range<i64>) {
    let mut rest = Vec::with_capacity(held.len() + 1);
    for old in held.drain(..) {
        if old.start < range.start.min(old.end) {
            rest.push(old.start..old.end.min(range.start));
        }
        if old.end > range.end.max(old.start) {
            rest.push(old.start.max(range.end)..old.end);
        }
    }
    if lock == Lock::Read {
        rest.push(range);
    }
    *held = rest;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_tells_whether_sqlite_held_a_lock_before() {
        let bytes = |start| Bytes { start, length: 1 };
        for (how, lock, start, expected) in [
            (How::Set, Lock::Read, PENDING_BYTE, Owner::Descriptor),
            (How::Get, Lock::Write, 128, Owner::Descriptor),
            (How::Set, Lock::Read, 123, Owner::Descriptor),
            (How::Get, Lock::Write, PENDING_BYTE + 1, Owner::Process),
            (How::Set, Lock::Write, PENDING_BYTE + 1, Owner::Process),
            (How::Set, Lock::Write, PENDING_BYTE, Owner::Process),
            (How::Set, Lock::Write, PENDING_BYTE + 2, Owner::Process),
            (How::Set, Lock::None, 0, Owner::Process),
        ] {
            assert_eq!(Owner::by_first_call(how, lock, bytes(start)), expected, "{how:?} {lock:?}");
        }
    }

    #[test]
    fn ranges_are_added_and_cut() {
        let mut held = Vec::new();
        note(&mut held, Lock::Read, 10..20);
        note(&mut held, Lock::Read, 15..30);
        assert_eq!(held, [10..15, 15..30]);
        note(&mut held, Lock::None, 12..16);
        assert_eq!(held, [10..12, 16..30]);
        note(&mut held, Lock::None, 0..11);
        assert_eq!(held, [11..12, 16..30]);
        note(&mut held, Lock::None, 0..i64::MAX);
        assert!(held.is_empty());
    }
}
