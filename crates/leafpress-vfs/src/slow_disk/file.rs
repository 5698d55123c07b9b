//! SQLite's files on a simulated disk: [`SlowDisk`] over any other VFS.
//!
//! Must never: change a call or its answer; it only waits after writes and syncs.

use std::path::Path;
use std::sync::Arc;

use super::device::{Device, OpenFile, SimulationStats};
use super::model::DiskModel;
use crate::{FileLayer, OpenFlags, Opened, SyncKind, Vfs, VfsFile, VfsLayer, VfsResult};

/// A VFS as slow as a disk of a [`DiskModel`], over any other.
///
/// For one database or a few; [`simulate`](super::simulate) makes the whole process slow,
/// and neither is to be put over the other.
///
/// ```
/// use leafpress_vfs::{DiskModel, PlatformVfs, SlowDisk, register};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.db");
///
/// let card = SlowDisk::new(PlatformVfs::new(), DiskModel::SDCARD);
/// let registration = register("card", card)?;
/// let connection = rusqlite::Connection::open_with_flags_and_vfs(
///     path, rusqlite::OpenFlags::default(), registration.name(),
/// )?;
/// connection.execute_batch("CREATE TABLE t (x)")?; // some 20 ms
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SlowDisk<V> {
    inner: V,
    device: Arc<Device>,
}

impl<V: Vfs> SlowDisk<V> {
    /// A disk of its own, with nothing unwritten.
    pub fn new(inner: V, model: DiskModel) -> Self {
        Self::on(inner, Device::new(model))
    }

    pub(super) fn on(inner: V, device: Arc<Device>) -> Self {
        Self { inner, device }
    }

    /// Numbers of the disk's work up to now.
    pub fn stats(&self) -> SimulationStats {
        self.device.stats()
    }
}

impl<V: Vfs> VfsLayer for SlowDisk<V> {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        Ok(slowed(&self.device, self.inner.open(path, flags)?, path))
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        let real = || self.inner.delete(path, sync_folder);
        self.device.remove(Path::new(path), sync_folder, real)
    }
}

/// A file that was just opened, on this disk.
pub(super) fn slowed(device: &Arc<Device>, opened: Opened, path: Option<&str>) -> Opened {
    let Opened { file: mut inner, flags } = opened;
    // A file without content counts as new: if it is not, its first sync has no less to do.
    let is_new = flags.contains(OpenFlags::CREATE) && inner.size() == Ok(0);
    let on_disk = device.open(path.map(Path::new), is_new);
    Opened { file: Box::new(SlowFile { inner, on_disk }), flags }
}

struct SlowFile {
    inner: Box<dyn VfsFile>,
    on_disk: OpenFile,
}

impl FileLayer for SlowFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.inner
    }

    /// Reads come from memory on a real slow disk too.
    fn maps_memory(&self) -> bool {
        self.inner.maps_memory()
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.inner.write(bytes, offset)?;
        self.on_disk.wrote(offset, bytes.len());
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.inner.truncate(size)?;
        self.on_disk.truncated(size);
        Ok(())
    }

    /// The folder that the platform syncs with a new journal takes no time of its own: its
    /// names went with the file's flush.
    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        let inner = &mut self.inner;
        self.on_disk.sync(|| inner.sync(kind))
    }
}
