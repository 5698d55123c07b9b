//! The lock under which a connection writes its write-ahead log, as the log's file sees it.
//!
//! SQLite takes locks by methods of the database's file, and writes the log by methods of another
//! file. When a transaction is rolled back, no method of the log's file is called at all: only the lock
//! tells. The glue notes it on its way to the database's file, and gives it to what opens the log.
//!
//! Must never: say that the lock is held when another connection may write the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::beside::{self, Opening};
use super::words::{LockLevel, ShmLock};

/// Number of the lock of writers among the locks of a log's index (SQLite's document "WAL-mode File
/// Format", section 2.3).
const WRITERS: u32 = 0;

/// A bit for each way to hold the lock: by the index of the log, or the database file alone, where
/// SQLite takes no locks of the index.
const BY_INDEX: u64 = 1;
const BY_FILE: u64 = 2;
/// Above the bits is the number of changes.
const CHANGE: u64 = 4;

/// A connection's lock for writing its write-ahead log: whether it is held, and since when.
///
/// One thread at a time uses a connection, and so this.
#[derive(Debug, Default)]
pub struct WriteLock(AtomicU64);

impl WriteLock {
    /// The lock of the connection whose log is being opened on this thread; `None` if it is not
    /// known.
    pub fn of_log_being_opened() -> Option<Arc<Self>> {
        beside::write_lock()
    }

    /// Opens a log, as SQLite would for a connection that has this lock. For implementations that are
    /// called by hand.
    pub fn open_log<T>(self: &Arc<Self>, open: impl FnOnce() -> T) -> T {
        Opening { write_lock: Some(Arc::clone(self)), ..Opening::default() }.run(open)
    }

    /// A number for this time of holding the lock, another each time; `None` if it is not held.
    pub fn holding(&self) -> Option<u64> {
        let state = self.0.load(Ordering::Acquire);
        (state & (BY_INDEX | BY_FILE) != 0).then_some(state)
    }

    /// Notes that the connection has asked for locks of the index of the log.
    pub fn note_shm_lock(&self, first: u32, lock: ShmLock, is_done: bool) {
        match (first, lock) {
            (WRITERS, ShmLock::LockExclusive) if is_done => self.set(BY_INDEX, true),
            (WRITERS, ShmLock::UnlockExclusive) => self.set(BY_INDEX, false),
            _ => {}
        }
    }

    /// Notes that the connection holds the database file at this level now.
    pub fn note_file_lock(&self, level: LockLevel) {
        self.set(BY_FILE, level == LockLevel::Exclusive);
    }

    fn set(&self, way: u64, is_held: bool) {
        let before = self.0.load(Ordering::Acquire);
        let after = if is_held { before | way } else { before & !way };
        if after != before {
            self.0.store(after.wrapping_add(CHANGE), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_of_holding_has_a_number_of_its_own() {
        let lock = WriteLock::default();
        let index = |to, is_done| lock.note_shm_lock(WRITERS, to, is_done);
        assert_eq!(lock.holding(), None);
        index(ShmLock::LockExclusive, false);
        lock.note_shm_lock(1, ShmLock::LockExclusive, true);
        assert_eq!(lock.holding(), None, "not had, and another lock");
        index(ShmLock::LockExclusive, true);
        let first = lock.holding().unwrap();
        lock.note_shm_lock(3, ShmLock::UnlockExclusive, true);
        assert_eq!(lock.holding(), Some(first));
        index(ShmLock::UnlockExclusive, false);
        assert_eq!(lock.holding(), None, "it may be gone");
        index(ShmLock::LockExclusive, true);
        assert!(lock.holding().is_some_and(|second| second != first));
        index(ShmLock::UnlockExclusive, true);
        for level in [LockLevel::Shared, LockLevel::Reserved, LockLevel::Pending] {
            lock.note_file_lock(level);
            assert_eq!(lock.holding(), None);
        }
        lock.note_file_lock(LockLevel::Exclusive);
        assert!(lock.holding().is_some());
        lock.note_file_lock(LockLevel::Shared);
        assert_eq!(lock.holding(), None);
    }
}
