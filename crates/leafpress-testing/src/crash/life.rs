//! A process that can be killed, between any two of its system calls.
//!
//! Everything that the process does to its files goes through its [`Life`]: as
//! soon as that has ended nothing reaches a file, and every call fails. What was
//! done before stays as it is, journals included, as a dead process cleans nothing
//! up. The files are closed when the connections are dropped, and their locks with
//! them, as the system does it for a dead process.
//!
//! ```text
//! SQLite ─► AtomicPages (ours only) ─► Mortal ─► Recorder ─► MemoryVfs
//!                     └──────────────► SimulatedDisk (asks the same Life)
//! ```
//!
//! Must never: keep a lock back, or let a dead process write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leafpress::vfs::{
    Access, FileLayer, LockLevel, OpenFlags, Opened, ShmLock, SyncKind, Vfs, VfsError, VfsFile,
    VfsLayer, VfsResult,
};

/// Number of changes of files that a process has yet to live; clones share it.
#[derive(Clone, Debug)]
pub struct Life(Arc<AtomicU64>);

impl Default for Life {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Life {
    /// A process that dies of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The process dies after this many more changes of files.
    pub fn ends_after(&self, changes: u64) {
        self.0.store(changes, Ordering::Relaxed);
    }

    /// Returns true if the life is over.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// The process is about to look at something.
    pub(super) fn look(&self) -> VfsResult<()> {
        if self.is_over() { Err(VfsError::IO) } else { Ok(()) }
    }

    /// The process is about to change something.
    pub(super) fn act(&self) -> VfsResult<()> {
        let spend = |left: u64| left.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
            .map(drop)
            .map_err(|_| VfsError::IO)
    }
}

/// A VFS of a process that can be killed.
#[derive(Debug)]
pub struct Mortal<V> {
    inner: V,
    life: Life,
}

impl<V: Vfs> Mortal<V> {
    /// Whatever goes through here needs that life.
    pub const fn new(inner: V, life: Life) -> Self {
        Self { inner, life }
    }
}

impl<V: Vfs> VfsLayer for Mortal<V> {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let makes = flags.contains(OpenFlags::CREATE);
        if makes { self.life.act() } else { self.life.look() }?;
        let Opened { file, flags } = self.inner.open(path, flags)?;
        Ok(Opened { file: Box::new(MortalFile { inner: file, life: self.life.clone() }), flags })
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        self.life.act()?;
        self.inner.delete(path, sync_folder)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        self.life.look()?;
        self.inner.exists(path, access)
    }
}

struct MortalFile {
    inner: Box<dyn VfsFile>,
    life: Life,
}

impl FileLayer for MortalFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.inner
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.life.look()?;
        self.inner.read(buffer, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.life.act()?;
        self.inner.write(bytes, offset)
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.life.act()?;
        self.inner.truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        self.life.act()?;
        self.inner.sync(kind)
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.life.look()?;
        self.inner.size()
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.life.look()?;
        self.inner.lock(level)
    }

    fn shm_lock(&mut self, first: u32, count: u32, change: ShmLock) -> VfsResult<()> {
        if matches!(change, ShmLock::LockShared | ShmLock::LockExclusive) {
            self.life.look()?;
        }
        self.inner.shm_lock(first, count, change)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::super::{MemoryVfs, Recorder, Snapshot};
    use super::*;
    use leafpress::vfs::register;

    /// Dies after each number of changes in turn: what it left is recovered by the
    /// next process, and is the whole transaction or none of it.
    #[test]
    fn the_dead_leave_their_journals_and_no_locks() {
        let flags = rusqlite::OpenFlags::default();
        let mut journals_left = 0;
        for changes in 0..40 {
            let memory = Arc::new(Recorder::new(MemoryVfs::new()));
            memory.watch_from(super::super::MEMORY_FOLDER, Snapshot::default());
            let life = Life::new();
            let name = format!("life-{changes}");
            let mortal = Mortal::new(Arc::clone(&memory), life.clone());
            let mortal = register(&name, mortal).unwrap();
            let heir = register(&format!("{name}-heir"), Arc::clone(&memory)).unwrap();
            let open = |name| Connection::open_with_flags_and_vfs("a.db", flags, name).unwrap();
            let connection = open(mortal.name());
            let sql = "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)";
            connection.execute_batch(sql).unwrap();
            life.ends_after(changes);
            let outcome = connection.execute_batch(
                "PRAGMA cache_size = 1; BEGIN; UPDATE t SET a = a + 10;
                 INSERT INTO t VALUES (zeroblob(100000)); SELECT count(*) FROM t; COMMIT",
            );
            assert!(outcome.is_ok() || life.is_over());
            drop(connection);
            journals_left += u32::from(memory.inner().has("a.db-journal"));
            let sum = "SELECT sum(a) FROM t WHERE a < 100";
            let sum: i64 = open(heir.name()).query_row(sum, [], |row| row.get(0)).unwrap();
            assert!(sum == 3 || sum == 23, "{sum}");
        }
        assert!(journals_left > 5, "{journals_left}");
    }
}
