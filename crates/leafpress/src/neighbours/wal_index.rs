//! Reads the index of the write-ahead log, which SQLite keeps in the `-shm` file.
//!
//! SQLite tells how many frames the log has and how many of them are copied, but not
//! where readers stand. The bytes, in the machine's own order:
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | version, 3007000 |
//! | 8 | 4 | counter of transactions |
//! | 12 | 1 | 1 once the header is filled in |
//! | 14 | 2 | page size; 1 stands for 65,536 |
//! | 16 | 4 | frames in the log |
//! | 20 | 4 | pages in the database |
//! | 48 | 48 | the header once more: if both differ, it is being written |
//! | 96 | 4 | frames that are copied into the database |
//! | 100 | 5 × 4 | where each read mark stands; all ones: not used |
//!
//! Must never: open that file but by [`FileHandle`], whose closing drops no lock.

use serde::Serialize;

use super::lock_names::READ_MARKS;
#[cfg(unix)]
use crate::vfs::locks::FileHandle;

const HEADER_BYTES: usize = 48;
const COPIED_OFFSET: usize = 2 * HEADER_BYTES;
const MARKS_OFFSET: usize = COPIED_OFFSET + 4;
const INDEX_BYTES: usize = MARKS_OFFSET + 4 * READ_MARKS;
const MARK_NOT_USED: u32 = u32::MAX;
/// SQLite fills the header in without a lock that could be waited for.
#[cfg(unix)]
const TRIES: usize = 5;

/// The write-ahead log's frames that are filled, copied and read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LogIndex {
    /// Frames in the log: pages that transactions wrote.
    pub frames: u32,
    /// Frames that a checkpoint has copied into the database.
    pub frames_copied: u32,
    /// Bytes in a page.
    pub page_size_bytes: u32,
    /// Changes with each transaction; only a change matters, not the value.
    pub changes: u32,
    /// Frame of each of the five read marks, if the mark is used.
    pub read_marks: [Option<u32>; READ_MARKS],
}

impl LogIndex {
    /// Bytes of the log that are not in the database yet.
    pub fn bytes_not_copied(&self) -> u64 {
        let frames = self.frames.saturating_sub(self.frames_copied);
        u64::from(frames) * (u64::from(self.page_size_bytes) + 24)
    }

    /// Reads the first bytes of a `-shm` file; `None` if they are no index, or one that is
    /// being changed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..INDEX_BYTES)?;
        let number = |at: usize| {
            let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_ne_bytes(four)
        };
        let is_whole = bytes[..HEADER_BYTES] == bytes[HEADER_BYTES..COPIED_OFFSET];
        if number(0) != 3_007_000 || bytes[12] != 1 || !is_whole {
            return None;
        }
        let page_size = match u16::from_ne_bytes([bytes[14], bytes[15]]) {
            1 => 65_536,
            size => u32::from(size),
        };
        if !page_size.is_power_of_two() || page_size < 512 {
            return None;
        }
        let frames = number(16);
        let mark = |index: usize| {
            // SQLite leaves the first at 0 for good: the database without the log.
            Some(number(MARKS_OFFSET + 4 * index)).filter(|&mark| mark != MARK_NOT_USED)
        };
        Some(Self {
            frames,
            frames_copied: number(COPIED_OFFSET).min(frames),
            page_size_bytes: page_size,
            changes: number(8),
            read_marks: std::array::from_fn(mark),
        })
    }
}

/// Reads the index in the file at `path`, if there is one.
#[cfg(unix)]
pub(super) fn read(path: &std::path::Path) -> Option<LogIndex> {
    use std::os::unix::fs::FileExt as _;

    // A pipe of that name would be waited for.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = FileHandle::open(path).ok()?;
    let mut bytes = [0; INDEX_BYTES];
    (0..TRIES).find_map(|_| {
        file.read_exact_at(&mut bytes, 0).ok()?;
        LogIndex::parse(&bytes)
    })
}

#[cfg(not(unix))]
pub(super) fn read(_path: &std::path::Path) -> Option<LogIndex> {
    // Locks are in the way of plain reads there.
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(frames: u32, copied: u32, marks: [u32; READ_MARKS]) -> Vec<u8> {
        let mut header = vec![0_u8; HEADER_BYTES];
        header[0..4].copy_from_slice(&3_007_000_u32.to_ne_bytes());
        header[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        header[12] = 1;
        header[14..16].copy_from_slice(&4096_u16.to_ne_bytes());
        header[16..20].copy_from_slice(&frames.to_ne_bytes());
        let mut bytes = [header.clone(), header].concat();
        bytes.extend(copied.to_ne_bytes());
        bytes.extend(marks.iter().flat_map(|mark| mark.to_ne_bytes()));
        bytes
    }

    #[test]
    fn the_index_gives_frames_and_marks() {
        let found = LogIndex::parse(&index(20, 5, [0, 12, u32::MAX, u32::MAX, 20])).unwrap();
        assert_eq!((found.frames, found.frames_copied, found.changes), (20, 5, 7));
        assert_eq!(found.read_marks, [Some(0), Some(12), None, None, Some(20)]);
        assert_eq!(found.bytes_not_copied(), 15 * 4120);
    }

    #[test]
    fn what_is_half_written_or_none_is_no_index() {
        let whole = index(20, 5, [0; READ_MARKS]);
        for at in [0, 12, 14, 16, 60] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            assert_eq!(LogIndex::parse(&bytes), None, "byte {at} in one copy of the header");
        }
        for at in [0, 12, 14] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xfe;
            bytes[HEADER_BYTES + at] ^= 0xfe;
            assert_eq!(LogIndex::parse(&bytes), None, "byte {at} in both");
        }
        assert_eq!(LogIndex::parse(&whole[..whole.len() - 1]), None);
        assert_eq!(LogIndex::parse(&[]), None);
    }

    #[test]
    #[cfg(unix)]
    fn sqlite_and_the_index_say_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let connection = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
        let index = || read(&folder.path().join("a.db-shm")).unwrap();
        let asked = || -> (u32, u32) {
            let sql = "PRAGMA wal_checkpoint(NOOP)";
            connection.query_row(sql, [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap()
        };
        connection
            .execute_batch(
                "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a);
                 INSERT INTO t VALUES (1); PRAGMA wal_checkpoint(PASSIVE)",
            )
            .unwrap();
        let copied = index();
        assert!(copied.frames_copied > 0);
        assert_eq!((copied.frames, copied.frames_copied), asked());
        connection.execute_batch("INSERT INTO t VALUES (zeroblob(20000))").unwrap();
        let more = index();
        assert_eq!((more.frames, more.frames_copied), asked());
        assert!(more.frames > more.frames_copied && more.changes != copied.changes);
        assert_eq!(more.page_size_bytes, 4096);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = LogIndex::parse(&bytes);
            let mut with_header = index(1, 1, [0; READ_MARKS]);
            for (at, byte) in bytes.iter().enumerate().take(24) {
                with_header[96 + at] = *byte;
            }
            let found = LogIndex::parse(&with_header).unwrap();
            prop_assert!(found.frames_copied <= found.frames);
        }
    }
}
