//! Writes to the database file, gathered: pages that follow one another are written by one call of
//! the system, or by one for each 64 KiB.
//!
//! For transactions that change most pages of a file. SQLite writes each page by a call of its own, in
//! a checkpoint too. Where Linux keeps a file in folios of many pages (ext4 since Linux 6.16), each such
//! call looks at all blocks of its folio: a checkpoint of 350,000 pages took 4 s of processor time.
//!
//! ```text
//! page, page, … ──► memory ──► one write: before a sync, before a lock is given back, when memory is
//!                              full, and when a page does not follow
//! ```
//!
//! # Invariants
//!
//! 1. A sync returns when all that was written before is in the file, and synced. Before it SQLite
//!    lets no other connection read these pages: with a rollback journal its lock keeps them out, and
//!    from a log they read until the checkpoint is done.
//! 2. A checkpoint gathers only if it will copy the whole log. SQLite ends a shorter one without a
//!    sync, or any other call that could fail, and other connections read its pages from then on.
//! 3. This connection reads the bytes that it wrote, even if they are still gathered.
//! 4. Bytes that cannot be written are forgotten, and a call fails: SQLite rolls back from the journal,
//!    or checkpoints once more.
//!
//! A checkpoint copies the whole log if it keeps writers out, and no reader needs an older state. Both
//! show in the locks of the log's index that it takes: it asks for the writers' lock unless it is PASSIVE,
//! and for that of each reader whose state is older. The numbers of the locks are those of SQLite's document
//! "WAL-mode File Format", section 2.3.
//!
//! A killed process loses the gathered bytes. SQLite takes it from the log, or rolls it back.
//!
//! Must never: be under a connection with `synchronous = OFF`, which makes no syncs.

use std::sync::OnceLock;

use rusqlite::ffi::{SQLITE_FCNTL_CKPT_DONE, SQLITE_FCNTL_CKPT_START};

use super::c_api::platform::WRITE_BYTES_MAX;
use super::c_api::registration::{Registration, register};
use super::gathered_log::{GatheredLog, registered_once};
use super::{
    FileControl, FileKind, FileLayer, LockLevel, OpenFlags, Opened, PlatformVfs, ShmLock, SyncKind,
    Vfs, VfsFile, VfsLayer, VfsResult,
};
use crate::error::Result;
use crate::write_buffer::WriteBuffer;

/// A VFS that gathers writes to the database, over any other.
#[derive(Debug)]
pub struct GatheredDatabase<V> {
    inner: V,
    rules: Rules,
}

/// Invariants 1 and 2 are kept.
#[derive(Debug, Clone, Copy)]
struct Rules {
    writes_at_syncs: bool,
    gathers_only_whole_logs: bool,
}

const RULES: Rules = Rules { writes_at_syncs: true, gathers_only_whole_logs: true };

impl<V: Vfs> GatheredDatabase<V> {
    /// Gathers the writes to databases of `inner`.
    pub const fn new(inner: V) -> Self {
        Self { inner, rules: RULES }
    }

    /// Without invariant 1: for a test that must find lost pages.
    pub const fn without_syncs(inner: V) -> Self {
        Self { inner, rules: Rules { writes_at_syncs: false, ..RULES } }
    }

    /// Without invariant 2: for a test that must find old pages.
    pub const fn in_each_checkpoint(inner: V) -> Self {
        Self { inner, rules: Rules { gathers_only_whole_logs: false, ..RULES } }
    }
}

impl<V: Vfs> VfsLayer for GatheredDatabase<V> {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let Opened { file: below, flags } = self.inner.open(path, flags)?;
        if flags.kind() != FileKind::MainDb {
            return Ok(Opened { file: below, flags });
        }
        Ok(Opened { file: Box::new(DatabaseFile::new(below, self.rules)), flags })
    }
}

/// The name of the VFS that gathers writes to the log and to the database. It is registered at the
/// first call. `None` as for [`gathered_log_vfs`](super::gathered_log::gathered_log_vfs).
pub fn gathered_database_vfs() -> Option<&'static str> {
    static REGISTERED: OnceLock<Result<Registration>> = OnceLock::new();
    registered_once(&REGISTERED, || {
        let vfs = GatheredDatabase::new(GatheredLog::new(PlatformVfs::new()));
        register("leafpress-bulk", vfs, false)
    })
}

struct DatabaseFile {
    below: Box<dyn VfsFile>,
    gathered: WriteBuffer,
    rules: Rules,
    locks: LogLocks,
    /// True in a checkpoint that may copy less than the whole log.
    writes_through: bool,
    /// Outcome of the last writes of a checkpoint, until a call can give it back.
    ended: VfsResult<()>,
}

/// Locks of the log's index, as far as they tell about a checkpoint.
#[derive(Debug, Default)]
struct LogLocks {
    keeps_writers_out: bool,
    /// A bit for each lock of readers with an older state.
    readers_behind: u32,
}

impl LogLocks {
    const WRITERS: u32 = 0;
    const CHECKPOINT: u32 = 1;
    const FIRST_READERS: u32 = 3;

    fn tried(&mut self, first: u32, lock: ShmLock, is_taken: bool) {
        match (first, lock) {
            (Self::WRITERS, ShmLock::LockExclusive) => self.keeps_writers_out |= is_taken,
            (Self::WRITERS, ShmLock::UnlockExclusive) => self.keeps_writers_out = false,
            (Self::CHECKPOINT, ShmLock::LockExclusive) => self.readers_behind = 0,
            (Self::FIRST_READERS.., ShmLock::LockExclusive) => {
                let bit = 1 << first;
                self.readers_behind = (self.readers_behind & !bit) | (bit * u32::from(!is_taken));
            }
            _ => {}
        }
    }

    fn copies_whole_log(&self) -> bool {
        self.keeps_writers_out && self.readers_behind == 0
    }
}

impl DatabaseFile {
    fn new(below: Box<dyn VfsFile>, rules: Rules) -> Self {
        let (gathered, locks) = (WriteBuffer::default(), LogLocks::default());
        Self { below, gathered, rules, locks, writes_through: false, ended: Ok(()) }
    }

    fn flush(&mut self) -> VfsResult<()> {
        self.gathered.flush(&mut *self.below)
    }
}

impl FileLayer for DatabaseFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.below
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.gathered.read(&mut *self.below, buffer, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.gathered.put(&mut *self.below, bytes, offset)?;
        let is_due = self.writes_through || self.gathered.len() >= WRITE_BYTES_MAX;
        if is_due { self.flush() } else { Ok(()) }
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        std::mem::replace(&mut self.ended, Ok(()))?;
        self.flush()?;
        self.below.truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        if self.rules.writes_at_syncs {
            self.flush()?;
        }
        self.below.sync(kind)
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.gathered.size(&mut *self.below)
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        let outcome = self.below.shm_lock(first, count, lock);
        self.locks.tried(first, lock, outcome.is_ok());
        outcome
    }

    /// The checkpoint of a whole log goes on with `truncate`, which says if its last writes failed.
    /// SQLite does not look at the answer here.
    fn file_control(&mut self, control: FileControl<'_>) -> VfsResult<()> {
        match control.opcode() {
            SQLITE_FCNTL_CKPT_START => {
                self.ended = Ok(());
                self.writes_through =
                    self.rules.gathers_only_whole_logs && !self.locks.copies_whole_log();
            }
            SQLITE_FCNTL_CKPT_DONE => {
                self.writes_through = false;
                if self.rules.gathers_only_whole_logs {
                    self.ended = self.flush();
                }
            }
            _ => {}
        }
        self.below.file_control(control)
    }

    /// Gives the lock back in any case.
    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        let flushed = self.flush();
        self.below.unlock(level)?;
        flushed
    }
}
