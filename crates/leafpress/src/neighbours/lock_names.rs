//! From byte ranges to the names of SQLite's locks.
//!
//! SQLite locks bytes that hold no data of its own meaning. The numbers are part
//! of its file format, since all programs that share a database must agree:
//!
//! | file | byte | lock |
//! |---|---|---|
//! | database | 0x40000000 | pending |
//! | database | the next one | reserved |
//! | database | the 510 after that | shared, or exclusive if locked for writing |
//! | `-shm` | 120 | the right to append to the log |
//! | `-shm` | 121 | the right to copy the log into the database |
//! | `-shm` | 122 | the right to rebuild the log's index |
//! | `-shm` | 123 to 127 | read marks 0 to 4 |
//! | `-shm` | 128 | the shared memory is in use |
//!
//! Linux joins ranges that touch, so one range can be several locks.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Which;

const PENDING_BYTE: u64 = 0x4000_0000;
const RESERVED_BYTE: u64 = PENDING_BYTE + 1;
const SHARED_FIRST: u64 = PENDING_BYTE + 2;
const SHARED_LAST: u64 = SHARED_FIRST + 509;
const WAL_WRITE_BYTE: u64 = 120;
const WAL_CHECKPOINT_BYTE: u64 = 121;
const WAL_RECOVER_BYTE: u64 = 122;
const WAL_READ_FIRST: u64 = 123;
/// Read marks of a write-ahead log.
pub const READ_MARKS: usize = 5;
const SHARED_MEMORY_BYTE: u64 = 128;
// In the file `-shared`; see `writer/shared/membership.rs`.
const SYNC_BYTE: u64 = 1;
const CHECKPOINTS_BYTE: u64 = 2;
const WRITERS_FIRST: u64 = 1_000;

/// A lock of SQLite's, on the database or on the memory of its write-ahead log; or of Leafpress's
/// writers that share a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SqliteLock {
    /// The database is read; in WAL mode each connection has it all the time.
    Shared,
    /// One connection writes, or is about to; others still read.
    Reserved,
    /// A connection waits until all others have stopped reading.
    Pending,
    /// One connection has the database alone.
    Exclusive,
    /// A connection appends to the write-ahead log.
    WalWrite,
    /// A connection copies the log into the database.
    WalCheckpoint,
    /// A connection rebuilds the log's index.
    WalRecover,
    /// A connection reads as of the mark with this number (0 to 4).
    WalRead(u8),
    /// A connection uses the memory of the log's index.
    SharedMemory,
    /// A writer shares the database with those of other processes.
    SharingWriter,
    /// One of these writers syncs the log for all.
    SharingSync,
    /// One of these writers makes the checkpoints for all.
    SharingCheckpoints,
}

impl SqliteLock {
    /// Returns true if its holder keeps other connections from writing.
    pub fn keeps_writers_out(self) -> bool {
        matches!(
            self,
            Self::Reserved | Self::Pending | Self::Exclusive | Self::WalWrite | Self::WalRecover
        )
    }

    /// Returns true if its holder keeps other connections from reading.
    pub fn keeps_readers_out(self) -> bool {
        matches!(self, Self::Pending | Self::Exclusive | Self::WalRecover)
    }

    /// The locks of a range of bytes, first to last, of one of the files.
    pub(super) fn in_range(which: Which, first: u64, last: u64, is_write: bool) -> Vec<Self> {
        let has = |from: u64, to: u64| first <= to && last >= from;
        let mut locks = Vec::new();
        let mut add = |is_there: bool, lock: Self| {
            if is_there {
                locks.push(lock);
            }
        };
        match which {
            Which::Database => {
                let all = if is_write { Self::Exclusive } else { Self::Shared };
                add(has(SHARED_FIRST, SHARED_LAST), all);
                add(has(RESERVED_BYTE, RESERVED_BYTE), Self::Reserved);
                // Held for reading, it is the moment before a shared lock.
                add(is_write && has(PENDING_BYTE, PENDING_BYTE), Self::Pending);
            }
            Which::SharedMemory => {
                add(has(WAL_WRITE_BYTE, WAL_WRITE_BYTE), Self::WalWrite);
                add(has(WAL_CHECKPOINT_BYTE, WAL_CHECKPOINT_BYTE), Self::WalCheckpoint);
                add(has(WAL_RECOVER_BYTE, WAL_RECOVER_BYTE), Self::WalRecover);
                for mark in 0..READ_MARKS as u8 {
                    let byte = WAL_READ_FIRST + u64::from(mark);
                    add(has(byte, byte), Self::WalRead(mark));
                }
                add(has(SHARED_MEMORY_BYTE, SHARED_MEMORY_BYTE), Self::SharedMemory);
            }
            Which::Sharing => {
                add(has(WRITERS_FIRST, u64::MAX), Self::SharingWriter);
                add(has(SYNC_BYTE, SYNC_BYTE), Self::SharingSync);
                add(has(CHECKPOINTS_BYTE, CHECKPOINTS_BYTE), Self::SharingCheckpoints);
            }
            // SQLite locks neither.
            Which::Log | Which::Journal => {}
        }
        locks
    }
}

/// Name in JSON: `reserved`, `wal_write`, `wal_read_3`.
impl fmt::Display for SqliteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Reserved => "reserved",
            Self::Pending => "pending",
            Self::Exclusive => "exclusive",
            Self::WalWrite => "wal_write",
            Self::WalCheckpoint => "wal_checkpoint",
            Self::WalRecover => "wal_recover",
            Self::WalRead(mark) => return write!(f, "wal_read_{mark}"),
            Self::SharedMemory => "shared_memory",
            Self::SharingWriter => "sharing_writer",
            Self::SharingSync => "sharing_sync",
            Self::SharingCheckpoints => "sharing_checkpoints",
        })
    }
}

impl Serialize for SqliteLock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE_START: u64 = 1_073_741_824;

    fn of_database(first: u64, last: u64, is_write: bool) -> Vec<SqliteLock> {
        SqliteLock::in_range(
            Which::Database,
            DATABASE_START + first,
            DATABASE_START + last,
            is_write,
        )
    }

    #[test]
    fn each_byte_of_the_database_has_its_lock() {
        assert_eq!(of_database(2, 511, false), [SqliteLock::Shared]);
        assert_eq!(of_database(2, 511, true), [SqliteLock::Exclusive]);
        assert_eq!(of_database(1, 1, true), [SqliteLock::Reserved]);
        assert_eq!(of_database(0, 0, true), [SqliteLock::Pending]);
        assert_eq!(of_database(0, 0, false), []);
        assert_eq!(of_database(512, 600, true), []);
        assert_eq!(SqliteLock::in_range(Which::Database, 0, 1000, true), []);
        let all = [SqliteLock::Exclusive, SqliteLock::Reserved, SqliteLock::Pending];
        assert_eq!(of_database(0, 511, true), all);
        assert_eq!(SqliteLock::in_range(Which::Database, 0, u64::MAX, true), all);
    }

    #[test]
    fn each_byte_of_the_shared_memory_has_its_lock() {
        let at = |byte| SqliteLock::in_range(Which::SharedMemory, byte, byte, true);
        assert_eq!(at(119), []);
        assert_eq!(at(120), [SqliteLock::WalWrite]);
        assert_eq!(at(121), [SqliteLock::WalCheckpoint]);
        assert_eq!(at(122), [SqliteLock::WalRecover]);
        assert_eq!(at(123), [SqliteLock::WalRead(0)]);
        assert_eq!(at(127), [SqliteLock::WalRead(4)]);
        assert_eq!(at(128), [SqliteLock::SharedMemory]);
        assert_eq!(at(129), []);
        let two = SqliteLock::in_range(Which::SharedMemory, 120, 121, true);
        assert_eq!(two, [SqliteLock::WalWrite, SqliteLock::WalCheckpoint]);
        assert_eq!(SqliteLock::in_range(Which::Log, 0, u64::MAX, true), []);
    }

    #[test]
    fn a_lock_is_named_in_json_as_it_is_shown() {
        let text = serde_json::to_string(&[SqliteLock::WalRead(3), SqliteLock::Pending]).unwrap();
        assert_eq!(text, r#"["wal_read_3","pending"]"#);
    }
}
