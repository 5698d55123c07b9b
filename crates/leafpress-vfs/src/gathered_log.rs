//! Writes to the write-ahead log, gathered: a transaction is written by one call of the system, or
//! by one for each 64 KiB.
//!
//! SQLite writes each frame by two calls, 24 bytes of header and a page. Each costs a call of the
//! system, and where the file grows, the system first clears the rest of the block that the call
//! begins in.
//!
//! ```text
//! header, page, header, page, … ──► memory ──► one write: before a frame that ends a transaction
//!                                              is answered, before a sync, and when memory is full
//! ```
//!
//! # Invariants
//!
//! 1. When a write returns that completes a frame which ends a transaction, all frames are in the
//!    file. Until then only this connection reads them: the index of the log does not know them yet.
//! 2. This connection reads the bytes that it wrote, even if they are still gathered.
//! 3. Gathered bytes are of a transaction that has not ended: they are forgotten when the connection
//!    gives the lock for writing the log back. After a rollback SQLite calls no method of the log, and
//!    another connection may write its frames to the same place. Where the lock cannot be seen
//!    ([`WriteLock`]), nothing is gathered.
//! 4. Bytes that cannot be written are forgotten: SQLite rolls the transaction back then.
//! 5. A sync returns when all that was written before is in the file, and synced.
//!
//! A killed process loses the gathered bytes, as it loses its transaction.
//!
//! Must never: gather what SQLite does not follow with the last frame of a transaction or a sync.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::c_api::platform::{WRITE_BYTES_MAX, is_bare_default};
use super::c_api::registration::{Registration, register_for_logs};
use super::c_api::write_lock::WriteLock;
use super::{
    FileKind, FileLayer, OpenFlags, Opened, PlatformVfs, SyncKind, Vfs, VfsFile, VfsLayer,
    VfsResult,
};
use crate::error::Result;
use crate::fork::Turn;
use crate::write_buffer::WriteBuffer;

/// Length of the log's header, and where it has the size of pages (file format, section 4.1).
const LOG_HEADER_BYTES: usize = 32;
const PAGE_SIZE: Range<usize> = 8..12;

/// Length of a frame's header, and where it has the size of the database; only the last frame of a
/// transaction has one.
const FRAME_HEADER_BYTES: usize = 24;
const DATABASE_SIZE: Range<usize> = 4..8;

/// A VFS that gathers writes to the log, over any other.
#[derive(Debug)]
pub struct GatheredLog<V> {
    inner: V,
    rules: Rules,
}

/// Invariants 1 and 3 are kept.
#[derive(Debug, Clone, Copy)]
struct Rules {
    commits_at_once: bool,
    forgets: bool,
}

const RULES: Rules = Rules { commits_at_once: true, forgets: true };

impl<V: Vfs> GatheredLog<V> {
    /// Gathers the writes to logs of `inner`.
    pub const fn new(inner: V) -> Self {
        Self { inner, rules: RULES }
    }

    /// Without invariant 1: for a test that must find lost commits.
    pub const fn without_commits(inner: V) -> Self {
        Self { inner, rules: Rules { commits_at_once: false, ..RULES } }
    }

    /// Without invariant 3: for a test that must find frames of a transaction that was rolled back.
    pub const fn without_forgetting(inner: V) -> Self {
        Self { inner, rules: Rules { forgets: false, ..RULES } }
    }
}

impl<V: Vfs> VfsLayer for GatheredLog<V> {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let Opened { file, flags } = self.inner.open(path, flags)?;
        let is_log = flags.kind() == FileKind::Wal;
        let Some(lock) = is_log.then(WriteLock::of_log_being_opened).flatten() else {
            return Ok(Opened { file, flags });
        };
        Ok(Opened { file: Box::new(LogFile::new(file, lock, self.rules)), flags })
    }
}

/// The name of the VFS that gathers writes to the log, and leaves all other files to the platform's
/// own methods. It is registered at the first call. `None` where connections that name no VFS go
/// through another one than the platform's, and on Windows, where it was not tested.
pub fn gathered_log_vfs() -> Option<&'static str> {
    static REGISTERED: OnceLock<Result<Registration>> = OnceLock::new();
    registered_once(&REGISTERED, || {
        register_for_logs("leafpress-log", GatheredLog::new(PlatformVfs::new()))
    })
}

/// The name of a VFS of the process that `register` registers at the first call.
pub(super) fn registered_once(
    registered: &'static OnceLock<Result<Registration>>,
    register: impl FnOnce() -> Result<Registration>,
) -> Option<&'static str> {
    if !cfg!(unix) || !is_bare_default() {
        return None;
    }
    let registered = {
        let _turn = Turn::LeafpressVfs.take();
        registered.get_or_init(|| {
            register().inspect_err(|error| tracing::warn!(%error, "writes are not gathered"))
        })
    };
    registered.as_ref().ok()?.name().to_str().ok()
}

struct LogFile {
    below: Box<dyn VfsFile>,
    /// Length of a frame; none before the log has a header.
    frame_bytes: Option<u64>,
    gathered: WriteBuffer,
    /// True from the header of a frame that ends a transaction to the header of the next frame.
    ends_transaction: bool,
    lock: Arc<WriteLock>,
    /// The time of holding the lock in which the bytes were gathered.
    gathered_in: Option<u64>,
    rules: Rules,
}

impl LogFile {
    fn new(below: Box<dyn VfsFile>, lock: Arc<WriteLock>, rules: Rules) -> Self {
        let (frame_bytes, gathered) = (None, WriteBuffer::default());
        let (ends_transaction, gathered_in) = (false, None);
        Self { below, frame_bytes, gathered, ends_transaction, lock, gathered_in, rules }
    }

    /// Forgets what was gathered before the lock was given back (invariant 3).
    fn forget_rolled_back(&mut self) {
        let holding = self.lock.holding();
        if holding != self.gathered_in && self.rules.forgets {
            self.gathered.forget();
        }
        self.gathered_in = holding;
    }

    /// Writes what is gathered.
    fn flush(&mut self) -> VfsResult<()> {
        self.gathered.flush(&mut *self.below)
    }

    /// Returns true if the gathered bytes may wait for the next write. `is_header` is true if the
    /// newest of them are the header of a frame.
    fn may_wait(&self, is_header: bool) -> bool {
        // No bytes wait that are written without the lock; a header waits for its page.
        let is_held = self.gathered_in.is_some();
        if !is_held || is_header {
            return is_held;
        }
        let next_frame = self.frame_bytes.map_or(0, |bytes| bytes as usize);
        let is_full = self.gathered.len() + next_frame > WRITE_BYTES_MAX;
        let is_committed = self.ends_transaction && self.rules.commits_at_once;
        !is_full && !is_committed
    }

    /// Returns true if this write is the header of a frame. SQLite writes a page in two parts where
    /// a sync has to come between them, so the length alone does not tell.
    fn is_frame_header(&mut self, bytes: &[u8], offset: u64) -> VfsResult<bool> {
        let Some(in_frames) = offset.checked_sub(LOG_HEADER_BYTES as u64) else {
            self.frame_bytes = frame_bytes(bytes);
            return Ok(false);
        };
        if self.frame_bytes.is_none() {
            let mut header = [0; LOG_HEADER_BYTES];
            let count = FileLayer::read(self, &mut header, 0)?;
            self.frame_bytes = frame_bytes(&header[..count]);
        }
        let begins_frame = self.frame_bytes.is_some_and(|bytes| in_frames.is_multiple_of(bytes));
        Ok(begins_frame && bytes.len() == FRAME_HEADER_BYTES)
    }
}

/// Length of the frames of a log with this header.
fn frame_bytes(header: &[u8]) -> Option<u64> {
    let page_bytes = header.get(PAGE_SIZE)?.try_into().ok()?;
    Some(u64::from(u32::from_be_bytes(page_bytes)) + FRAME_HEADER_BYTES as u64)
}

impl FileLayer for LogFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.below
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.forget_rolled_back();
        let is_header = self.is_frame_header(bytes, offset)?;
        if is_header {
            self.ends_transaction = bytes[DATABASE_SIZE] != [0; 4];
        }
        // A header that does not follow may be one that is written again: no page comes after it.
        let is_alone = is_header && !self.gathered.is_followed_at(offset);
        let is_large = bytes.len() >= WRITE_BYTES_MAX || self.frame_bytes.is_none();
        if is_large {
            self.flush()?;
        }
        self.gathered.put(&mut *self.below, bytes, offset)?;
        if is_alone || is_large || !self.may_wait(is_header) {
            self.flush()?;
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.forget_rolled_back();
        self.gathered.read(&mut *self.below, buffer, offset)
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.forget_rolled_back();
        self.flush()?;
        self.below.truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        self.forget_rolled_back();
        self.flush()?;
        self.below.sync(kind)
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.forget_rolled_back();
        self.gathered.size(&mut *self.below)
    }
}
