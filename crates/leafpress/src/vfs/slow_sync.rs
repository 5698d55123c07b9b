//! A disk whose syncs are slow, over any other VFS.
//!
//! For tests and benchmarks of what a slow disk (an SD card, a network volume)
//! makes of a program. Must never skip a sync: it only waits after it.

use std::thread;
use std::time::Duration;

use super::{
    Access, FileControl, LockLevel, OpenFlags, Opened, ShmLock, ShmRegion, SyncKind, Vfs, VfsFile,
    VfsResult,
};

/// A VFS that hands everything on and sleeps after each sync: of a file, and of a
/// folder, which SQLite asks for with a deletion.
#[derive(Debug)]
pub struct SlowSync<V> {
    inner: V,
    delay: Duration,
}

impl<V: Vfs> SlowSync<V> {
    /// Every sync takes `delay` longer than `inner` needs for it.
    pub const fn new(inner: V, delay: Duration) -> Self {
        Self { inner, delay }
    }
}

impl<V: Vfs> Vfs for SlowSync<V> {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let Opened { file, flags } = self.inner.open(path, flags)?;
        Ok(Opened { file: Box::new(SlowFile { inner: file, delay: self.delay }), flags })
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        self.inner.delete(path, sync_folder)?;
        if sync_folder {
            thread::sleep(self.delay);
        }
        Ok(())
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        self.inner.exists(path, access)
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        self.inner.full_path(path)
    }
}

struct SlowFile {
    inner: Box<dyn VfsFile>,
    delay: Duration,
}

impl VfsFile for SlowFile {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.inner.read(buffer, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.inner.write(bytes, offset)
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.inner.truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        self.inner.sync(kind)?;
        thread::sleep(self.delay);
        Ok(())
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.inner.size()
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.inner.lock(level)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.inner.unlock(level)
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        self.inner.is_reserved()
    }

    fn file_control(&mut self, control: FileControl<'_>) -> VfsResult<()> {
        self.inner.file_control(control)
    }

    fn sector_bytes(&self) -> u32 {
        self.inner.sector_bytes()
    }

    fn device_characteristics(&self) -> i32 {
        self.inner.device_characteristics()
    }

    fn has_shared_memory(&self) -> bool {
        self.inner.has_shared_memory()
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        self.inner.shm_map(region, bytes, extend)
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        self.inner.shm_lock(first, count, lock)
    }

    fn shm_barrier(&mut self) {
        self.inner.shm_barrier();
    }

    fn shm_unmap(&mut self, delete: bool) -> VfsResult<()> {
        self.inner.shm_unmap(delete)
    }
}
