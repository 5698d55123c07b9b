//! A VFS over another VFS, and its files over files: only the differences are stored.
//!
//! ```text
//! SQLite ──► your VfsLayer, your FileLayer ──► the VFS below, its file ──► …
//!              override what they change; the rest goes straight through
//! ```
//!
//! Apart from [`Vfs`] and [`VfsFile`], so that the compiler still objects if a VFS or a file that
//! stands on nothing leaves a method out.
//!
//! Must never: do anything by itself, as callers that stack layers rely on each of them changing
//! only what it says.

use super::{
    Access, FileControl, LockLevel, MappedBytes, OpenFlags, Opened, ShmLock, ShmRegion, SyncKind,
    Vfs, VfsFile, VfsResult,
};

/// A [`Vfs`] that hands on to another whatever it does not override.
///
/// Every method but the first is the [`Vfs`]'s of the same name: the VFS below answers, with
/// its errors. [`FileLayer`] has an example.
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "Vfs has the same methods and documents them"
)]
pub trait VfsLayer: Send + Sync + 'static {
    /// The VFS below.
    fn below(&self) -> &dyn Vfs;

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        self.below().open(path, flags)
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        self.below().delete(path, sync_folder)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        self.below().exists(path, access)
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        self.below().full_path(path)
    }
}

impl<L: VfsLayer> Vfs for L {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        VfsLayer::open(self, path, flags)
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        VfsLayer::delete(self, path, sync_folder)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        VfsLayer::exists(self, path, access)
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        VfsLayer::full_path(self, path)
    }
}

/// A [`VfsFile`] that hands on to another whatever it does not override.
///
/// Every method but the first two is the [`VfsFile`]'s of the same name: the file
/// below answers, with its errors. Calls on the file below go through
/// [`below_mut`](Self::below_mut), or through your own field, which is the same.
///
/// The exception is mapped memory, as it is read past every layer. A layer that does
/// not mind says so by overriding [`maps_memory`](Self::maps_memory) with what the file
/// below answers; then [`fetch`](Self::fetch) is handed on too.
///
/// ```
/// use leafpress_vfs::{
///     FileLayer, OpenFlags, Opened, PlatformVfs, Vfs, VfsError, VfsFile, VfsLayer, VfsResult,
///     register,
/// };
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.db");
///
/// /// No file grows beyond this many bytes.
/// struct SmallDisk(PlatformVfs, u64);
///
/// impl VfsLayer for SmallDisk {
///     fn below(&self) -> &dyn Vfs {
///         &self.0
///     }
///
///     fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
///         let Opened { file, flags } = self.0.open(path, flags)?;
///         Ok(Opened { file: Box::new(SmallFile { below: file, bytes_max: self.1 }), flags })
///     }
/// }
///
/// struct SmallFile {
///     below: Box<dyn VfsFile>,
///     bytes_max: u64,
/// }
///
/// impl FileLayer for SmallFile {
///     fn below(&self) -> &dyn VfsFile {
///         &*self.below
///     }
///
///     fn below_mut(&mut self) -> &mut dyn VfsFile {
///         &mut *self.below
///     }
///
///     fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
///         if offset + bytes.len() as u64 > self.bytes_max {
///             return Err(VfsError::FULL);
///         }
///         self.below.write(bytes, offset)
///     }
/// }
///
/// let small = register("small-disk", SmallDisk(PlatformVfs::new(), 100_000))?;
/// let connection = rusqlite::Connection::open_with_flags_and_vfs(
///     path, rusqlite::OpenFlags::default(), small.name(),
/// )?;
/// connection.execute_batch("CREATE TABLE t (x)")?;
/// let error = connection.execute("INSERT INTO t VALUES (zeroblob(100000))", []).unwrap_err();
/// assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "VfsFile has the same methods and says it"
)]
pub trait FileLayer: Send {
    /// The file below, for questions that change nothing.
    fn below(&self) -> &dyn VfsFile;

    /// The file below, for all other calls.
    fn below_mut(&mut self) -> &mut dyn VfsFile;

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.below_mut().read(buffer, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.below_mut().write(bytes, offset)
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.below_mut().truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        self.below_mut().sync(kind)
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.below_mut().size()
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.below_mut().lock(level)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.below_mut().unlock(level)
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        self.below_mut().is_reserved()
    }

    fn file_control(&mut self, control: FileControl<'_>) -> VfsResult<()> {
        self.below_mut().file_control(control)
    }

    fn sector_bytes(&self) -> u32 {
        self.below().sector_bytes()
    }

    fn device_characteristics(&self) -> i32 {
        self.below().device_characteristics()
    }

    /// False by default: mapped bytes are read without this layer's [`read`](Self::read). A layer that
    /// allows that returns `self.below().maps_memory()`.
    fn maps_memory(&self) -> bool {
        false
    }

    fn fetch(&mut self, offset: u64, bytes: usize) -> VfsResult<Option<MappedBytes>> {
        if self.maps_memory() { self.below_mut().fetch(offset, bytes) } else { Ok(None) }
    }

    fn unfetch(&mut self, mapped: MappedBytes) -> VfsResult<()> {
        self.below_mut().unfetch(mapped)
    }

    fn unmap(&mut self) -> VfsResult<()> {
        self.below_mut().unmap()
    }

    fn has_shared_memory(&self) -> bool {
        self.below().has_shared_memory()
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        self.below_mut().shm_map(region, bytes, extend)
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        self.below_mut().shm_lock(first, count, lock)
    }

    fn shm_barrier(&mut self) {
        self.below_mut().shm_barrier();
    }

    fn shm_unmap(&mut self, delete: bool) -> VfsResult<()> {
        self.below_mut().shm_unmap(delete)
    }
}

/// All of them, so that no default of [`VfsFile`]'s stands in for the file below.
impl<L: FileLayer> VfsFile for L {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        FileLayer::read(self, buffer, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        FileLayer::write(self, bytes, offset)
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        FileLayer::truncate(self, size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        FileLayer::sync(self, kind)
    }

    fn size(&mut self) -> VfsResult<u64> {
        FileLayer::size(self)
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        FileLayer::lock(self, level)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        FileLayer::unlock(self, level)
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        FileLayer::is_reserved(self)
    }

    fn file_control(&mut self, control: FileControl<'_>) -> VfsResult<()> {
        FileLayer::file_control(self, control)
    }

    fn sector_bytes(&self) -> u32 {
        FileLayer::sector_bytes(self)
    }

    fn device_characteristics(&self) -> i32 {
        FileLayer::device_characteristics(self)
    }

    fn maps_memory(&self) -> bool {
        FileLayer::maps_memory(self)
    }

    fn fetch(&mut self, offset: u64, bytes: usize) -> VfsResult<Option<MappedBytes>> {
        FileLayer::fetch(self, offset, bytes)
    }

    fn unfetch(&mut self, mapped: MappedBytes) -> VfsResult<()> {
        FileLayer::unfetch(self, mapped)
    }

    fn unmap(&mut self) -> VfsResult<()> {
        FileLayer::unmap(self)
    }

    fn has_shared_memory(&self) -> bool {
        FileLayer::has_shared_memory(self)
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        FileLayer::shm_map(self, region, bytes, extend)
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        FileLayer::shm_lock(self, first, count, lock)
    }

    fn shm_barrier(&mut self) {
        FileLayer::shm_barrier(self);
    }

    fn shm_unmap(&mut self, delete: bool) -> VfsResult<()> {
        FileLayer::shm_unmap(self, delete)
    }
}
