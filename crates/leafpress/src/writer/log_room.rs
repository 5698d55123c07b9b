//! Room at the end of the write-ahead log, made before commits need it.
//!
//! A sync of a file that has become longer makes the file system write its own records too: with ext4
//! a commit of one row takes twice as long then. So the file is lengthened by zeros, in steps, and the
//! commits overwrite them.
//!
//! Must never: touch the log outside of a write transaction, or make a commit fail that would succeed
//! without the room.

use rusqlite::Connection;

use crate::profile::{InForce, JournalMode, Synchronous};
use crate::vfs::database_file::make_room_in_log;

/// A shorter log gets no room: most writers commit a few times, and leave.
const USED_BYTES_MIN: u64 = 32 << 10;

/// A step has room for this many groups as the last one.
const GROUPS_OF_STEP: u64 = 8;
/// Smallest step, unless the limit of the file leaves less.
const STEP_BYTES_MIN: u64 = 256 << 10;
/// Largest step.
const STEP_BYTES_MAX: u64 = 4 << 20;

/// The room in the log of one writer.
#[derive(Debug)]
pub(super) struct LogRoom {
    /// Bytes that the log had after the commit before.
    used_bytes: u64,
    /// Bytes of the last commit that made it longer, since it was rewound.
    last_growth_bytes: u64,
    /// Size of its file, as far as it is known.
    file_bytes: u64,
    /// Size to which its file is lengthened at most.
    file_bytes_max: u64,
}

impl LogRoom {
    /// Room up to a size of the file; none where commits do not wait for a sync of the log.
    pub(super) fn of(in_force: &InForce, file_bytes_max: u64) -> Option<Self> {
        let syncs = in_force.shares_syncs || in_force.synchronous >= Synchronous::Full;
        let is_wal = in_force.journal_mode == JournalMode::Wal;
        (syncs && is_wal).then_some(Self {
            used_bytes: 0,
            last_growth_bytes: 0,
            file_bytes: 0,
            file_bytes_max,
        })
    }

    /// Returns true if the log, of which the commits up to now use `used_bytes`, has room for the
    /// next transaction, or needs none.
    pub(super) fn suffices(&mut self, used_bytes: u64) -> bool {
        if used_bytes < self.used_bytes {
            // The log was rewound, and perhaps cut.
            (self.file_bytes, self.last_growth_bytes) = (0, 0);
        } else if used_bytes > self.used_bytes {
            self.last_growth_bytes = used_bytes - self.used_bytes;
        }
        self.used_bytes = used_bytes;
        used_bytes < USED_BYTES_MIN
            || used_bytes + self.last_growth_bytes.saturating_mul(2) <= self.file_bytes
    }

    /// Makes room if the log, of which the commits up to now use `used_bytes`, may lack it in the
    /// transaction that was begun.
    pub(super) fn prepare(&mut self, connection: &Connection, used_bytes: u64) {
        if self.suffices(used_bytes) {
            return;
        }
        let growth = self.last_growth_bytes;
        let needed = growth.saturating_mul(2);
        let step = growth.saturating_mul(GROUPS_OF_STEP).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
        let step = step.min(self.file_bytes_max.saturating_sub(used_bytes));
        self.file_bytes =
            make_room_in_log(connection, used_bytes, needed, step).unwrap_or_else(|error| {
                // Such as a full disk: the commit finds out whether there is room for itself.
                tracing::debug!(%error, "no room was made in the log");
                u64::MAX
            });
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use crate::Writer;
    use crate::checkpoint::CheckpointLimits;
    use crate::profile::Profile;
    use crate::rights::Rights;
    use crate::vfs::locks::FileHandle;

    fn log_of(database: &Path) -> PathBuf {
        database.with_extension("db-wal")
    }

    /// Copies a file of a database that is open, without a lock dropped.
    fn copy_file(from: &Path, to: &Path) {
        let mut from = FileHandle::open(from).unwrap();
        let mut to = FileHandle::create(to, Rights::new_database()).unwrap();
        std::io::copy(&mut from, &mut to).unwrap();
    }

    /// Size of the log's file, and bytes that frames use of it, after this many commits of a row.
    fn after_commits(folder: &Path, writer: &Writer, commits: u64) -> (u64, u64) {
        for _ in 0..commits {
            writer.execute("INSERT INTO t VALUES (randomblob(100))", ()).unwrap();
        }
        (log_of(&folder.join("a.db")).metadata().unwrap().len(), writer.stats().wal_bytes)
    }

    #[test]
    fn the_log_has_room_where_commits_wait_for_syncs_and_only_there() {
        for (profile, has_room) in [(Profile::Durable, true), (Profile::Relaxed, false)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            let writer = Writer::builder(&path).profile(profile).open().unwrap();
            writer.execute_batch("CREATE TABLE t (x)").unwrap();
            let (size, used) = after_commits(folder.path(), &writer, 3);
            assert_eq!(size, used, "a short log is left alone");
            let (size, used) = after_commits(folder.path(), &writer, 60);
            assert_eq!(
                size > used,
                has_room,
                "{profile:?}: {size} bytes, of which {used} are used"
            );
            let copy = folder.path().join("copy.db");
            copy_file(&path, &copy);
            copy_file(&log_of(&path), &log_of(&copy));
            // As after a power cut, as the index of the log is not there.
            let copy = rusqlite::Connection::open(&copy).unwrap();
            let rows = copy.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
            assert_eq!(rows, Ok(63));
            let verdict =
                copy.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
            assert_eq!(verdict.as_deref(), Ok("ok"));
        }
    }

    #[test]
    fn room_is_made_again_after_the_log_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        // The writer itself does not cut it meanwhile, however long this thread is stopped.
        let idle_before_truncate = Duration::from_secs(3600);
        let limits = CheckpointLimits { idle_before_truncate, ..CheckpointLimits::default() };
        let writer = Writer::builder(&path).checkpoint_limits(limits).open().unwrap();
        writer.execute_batch("CREATE TABLE t (x)").unwrap();
        let beside = rusqlite::Connection::open(&path).unwrap();
        for _ in 0..2 {
            let (size, used) = after_commits(folder.path(), &writer, 60);
            assert!(size > used, "{size} bytes, of which {used} are used");
            let cut = "PRAGMA wal_checkpoint(TRUNCATE)";
            let busy = beside.query_row(cut, [], |row| row.get::<_, i64>(0));
            assert_eq!(busy, Ok(0));
            assert_eq!(log_of(&path).metadata().unwrap().len(), 0);
        }
    }
}
