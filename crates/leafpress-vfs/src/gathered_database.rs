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
//!    from a log they read until the checkpoint has synced.
//! 2. What this connection reads is what it wrote, gathered or not.
//! 3. Bytes that cannot be written are forgotten, and the call that found it fails: SQLite rolls back
//!    from the journal, or checkpoints once more.
//!
//! A killed process loses what is gathered. SQLite takes it from the log, or rolls it back.
//!
//! Must never: be under a connection with `synchronous = OFF`, which makes no syncs.

use std::sync::OnceLock;

use super::c_api::platform::WRITE_BYTES_MAX;
use super::c_api::registration::{Registration, register};
use super::gathered_log::{GatheredLog, registered_once};
use super::{
    FileKind, FileLayer, LockLevel, OpenFlags, Opened, PlatformVfs, SyncKind, Vfs, VfsFile,
    VfsLayer, VfsResult,
};
use crate::error::Result;
use crate::write_buffer::WriteBuffer;

/// A VFS that gathers writes to the database, over any other.
#[derive(Debug)]
pub struct GatheredDatabase<V> {
    inner: V,
    writes_at_syncs: bool,
}

impl<V: Vfs> GatheredDatabase<V> {
    /// Gathers the writes to databases of `inner`.
    pub const fn new(inner: V) -> Self {
        Self { inner, writes_at_syncs: true }
    }

    /// Without invariant 1: for a test that must find lost pages.
    pub const fn without_syncs(inner: V) -> Self {
        Self { inner, writes_at_syncs: false }
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
        let (gathered, writes_at_syncs) = (WriteBuffer::default(), self.writes_at_syncs);
        Ok(Opened { file: Box::new(DatabaseFile { below, gathered, writes_at_syncs }), flags })
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
    writes_at_syncs: bool,
}

impl DatabaseFile {
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
        if self.gathered.len() >= WRITE_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.flush()?;
        self.below.truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        if self.writes_at_syncs {
            self.flush()?;
        }
        self.below.sync(kind)
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.gathered.size(&mut *self.below)
    }

    /// Gives the lock back in any case.
    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        let flushed = self.flush();
        self.below.unlock(level)?;
        flushed
    }
}
