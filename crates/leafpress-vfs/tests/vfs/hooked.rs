//! A decorator with a hook that is asked before each call: it may count, say no, or panic.

use std::sync::Arc;

use leafpress_vfs::{
    Access, FileControl, FileKind, LockLevel, OpenFlags, Opened, ShmLock, ShmRegion, SyncKind, Vfs,
    VfsFile, VfsResult,
};

/// What is about to be done; for a file with its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Open(FileKind),
    Delete,
    Exists,
    FullPath,
    Read(FileKind),
    Write(FileKind),
    Truncate(FileKind),
    Sync(FileKind),
    Size(FileKind),
    Lock(FileKind),
    Unlock(FileKind),
    IsReserved(FileKind),
    Control(FileKind),
    Sector(FileKind),
    Characteristics(FileKind),
    ShmMap,
    ShmLock,
    ShmBarrier,
    ShmUnmap,
    Close(FileKind),
}

pub type Hook = Arc<dyn Fn(Call) -> VfsResult<()> + Send + Sync>;

pub struct Hooked<V> {
    inner: V,
    hook: Hook,
}

impl<V: Vfs> Hooked<V> {
    pub fn new(inner: V, hook: impl Fn(Call) -> VfsResult<()> + Send + Sync + 'static) -> Self {
        Self { inner, hook: Arc::new(hook) }
    }
}

impl<V: Vfs> Vfs for Hooked<V> {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let kind = flags.kind();
        (self.hook)(Call::Open(kind))?;
        let Opened { file, flags } = self.inner.open(path, flags)?;
        Ok(Opened {
            file: Box::new(HookedFile { inner: file, kind, hook: Arc::clone(&self.hook) }),
            flags,
        })
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        (self.hook)(Call::Delete)?;
        self.inner.delete(path, sync_folder)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        (self.hook)(Call::Exists)?;
        self.inner.exists(path, access)
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        (self.hook)(Call::FullPath)?;
        self.inner.full_path(path)
    }
}

struct HookedFile {
    inner: Box<dyn VfsFile>,
    kind: FileKind,
    hook: Hook,
}

impl Drop for HookedFile {
    fn drop(&mut self) {
        let _ = (self.hook)(Call::Close(self.kind));
    }
}

impl VfsFile for HookedFile {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        (self.hook)(Call::Read(self.kind))?;
        self.inner.read(buffer, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        (self.hook)(Call::Write(self.kind))?;
        self.inner.write(bytes, offset)
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        (self.hook)(Call::Truncate(self.kind))?;
        self.inner.truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        (self.hook)(Call::Sync(self.kind))?;
        self.inner.sync(kind)
    }

    fn size(&mut self) -> VfsResult<u64> {
        (self.hook)(Call::Size(self.kind))?;
        self.inner.size()
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        (self.hook)(Call::Lock(self.kind))?;
        self.inner.lock(level)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        (self.hook)(Call::Unlock(self.kind))?;
        self.inner.unlock(level)
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        (self.hook)(Call::IsReserved(self.kind))?;
        self.inner.is_reserved()
    }

    fn file_control(&mut self, control: FileControl<'_>) -> VfsResult<()> {
        (self.hook)(Call::Control(self.kind))?;
        self.inner.file_control(control)
    }

    fn sector_bytes(&self) -> u32 {
        let _ = (self.hook)(Call::Sector(self.kind));
        self.inner.sector_bytes()
    }

    fn device_characteristics(&self) -> i32 {
        let _ = (self.hook)(Call::Characteristics(self.kind));
        self.inner.device_characteristics()
    }

    fn has_shared_memory(&self) -> bool {
        self.inner.has_shared_memory()
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        (self.hook)(Call::ShmMap)?;
        self.inner.shm_map(region, bytes, extend)
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        (self.hook)(Call::ShmLock)?;
        self.inner.shm_lock(first, count, lock)
    }

    fn shm_barrier(&mut self) {
        let _ = (self.hook)(Call::ShmBarrier);
        self.inner.shm_barrier();
    }

    fn shm_unmap(&mut self, delete: bool) -> VfsResult<()> {
        (self.hook)(Call::ShmUnmap)?;
        self.inner.shm_unmap(delete)
    }
}
