//! A disk whose syncs are slow, over any other VFS.
//!
//! For tests and benchmarks of what a slow disk (an SD card, a network volume)
//! makes of a program. Must never skip a sync: it only waits after it.

use std::thread;
use std::time::Duration;

use super::{FileLayer, OpenFlags, Opened, SyncKind, Vfs, VfsFile, VfsLayer, VfsResult};

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

impl<V: Vfs> VfsLayer for SlowSync<V> {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

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
}

struct SlowFile {
    inner: Box<dyn VfsFile>,
    delay: Duration,
}

impl FileLayer for SlowFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.inner
    }

    fn maps_memory(&self) -> bool {
        self.inner.maps_memory()
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        self.inner.sync(kind)?;
        thread::sleep(self.delay);
        Ok(())
    }
}
