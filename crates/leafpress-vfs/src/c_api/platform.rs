//! The way out again: SQLite's own VFS as a `Vfs`, on which decorators stand.
//!
//! Each open file is one `sqlite3_file` of the platform's, in memory of ours, with a
//! copy of its path that lives as long as the file does: the platform's VFS keeps the
//! pointer, and looks behind the path for the parameters of a URI.
//!
//! SQLite's own path pointer, which has all that too, is not passed through: it is
//! valid until SQLite closes *its* file, and a decorator may keep ours longer.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use rusqlite::ffi;

use super::beside;
use super::control::FileControl;
use super::guard::checked;
use super::handle::{Platform, PlatformHandle, PlatformPointer, Reference, c_path};
use super::interface::{Opened, Vfs, VfsFile};
use super::mapped::MappedBytes;
use super::shared_memory::ShmRegion;
use super::words::{Access, LockLevel, OpenFlags, ShmLock, SyncKind, VfsError, VfsResult};

/// Size of the regions that SQLite asks for. The platform uses the first size that it is given for
/// all regions, so another size would be wrong about the memory behind it.
const SHM_REGION_BYTES: usize = 32 * 1024;
/// Limit of regions: the platform counts them in 16 bits, and would count for ever above. This
/// limit is a WAL of a terabyte.
const SHM_REGIONS_MAX: u32 = 60_000;

/// Bytes of one write at most: SQLite makes none that is longer, and its VFS `unix` would take no
/// byte of one of 128 KiB.
pub const WRITE_BYTES_MAX: usize = 64 << 10;

/// The platform adds the bytes that it wants to be readable behind mapped bytes (256 of them) to
/// the end of the request, without a check for overflow.
const ROOM_BEHIND_MAPPED: i64 = 4096;

/// The platform's own VFS, the one that SQLite calls `unix` or `win32`, with all that it
/// can do: shared memory, and memory-mapped files where `PRAGMA mmap_size` asks for it.
///
/// Its files and those of plain connections lock each other out as they should, in one
/// process and between processes. They are slow where the process
/// [plays a slow disk](crate::simulate).
pub struct PlatformVfs {
    bare: BarePlatform,
}

/// The layer that stands over the platform's VFS in all of this process, if one was put there.
static LAYER: OnceLock<Box<dyn Vfs>> = OnceLock::new();

/// Puts `layer`, which stands on a [`BarePlatform`], in the place of the platform's VFS, for all
/// that this process opens through a [`PlatformVfs`] from now on. There is room for one: returns
/// false if another is there.
pub fn put_over_platform(layer: impl Vfs) -> bool {
    LAYER.set(Box::new(layer)).is_ok()
}

/// Returns true if connections that name no VFS go through the platform's, with no layer over it.
pub fn is_bare_default() -> bool {
    LAYER.get().is_none() && Platform::find().is_some_and(Platform::is_default)
}

impl PlatformVfs {
    /// Finds the platform's VFS. If SQLite cannot be initialised, nothing can be opened.
    pub fn new() -> Self {
        Self { bare: BarePlatform::new() }
    }

    fn vfs(&self) -> &dyn Vfs {
        LAYER.get().map_or(&self.bare, |layer| &**layer)
    }
}

impl Default for PlatformVfs {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for PlatformVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlatformVfs")
    }
}

impl Vfs for PlatformVfs {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        self.vfs().open(path, flags)
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        self.vfs().delete(path, sync_folder)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        self.vfs().exists(path, access)
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        self.vfs().full_path(path)
    }
}

/// The platform's VFS without the layer of this process: the ground for such a layer.
pub struct BarePlatform {
    platform: Option<Platform>,
}

impl BarePlatform {
    /// Finds the platform's VFS. If SQLite cannot be initialised, nothing can be opened.
    pub fn new() -> Self {
        Self { platform: Platform::find() }
    }

    fn platform(&self) -> VfsResult<Platform> {
        self.platform.ok_or(VfsError::CANNOT_OPEN)
    }
}

impl Vfs for BarePlatform {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        if path.is_none() && flags.kind().is_lasting() {
            return Err(VfsError::CANNOT_OPEN);
        }
        let (handle, flags) = PlatformHandle::open(self.platform()?, path, flags)?;
        let file =
            PlatformFile { handle: Arc::new(handle), mapped_references: 0, unmap_is_due: false };
        Ok(Opened { file: Box::new(file), flags })
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        let (vfs, path) = (self.platform()?.pointer(), c_path(path)?);
        // SAFETY: the VFS lives for ever, and the path ends with a zero.
        checked(unsafe {
            let method = (*vfs).xDelete.ok_or(VfsError::IO_DELETE)?;
            method(vfs, path.as_ptr(), c_int::from(sync_folder))
        })
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        let (vfs, path) = (self.platform()?.pointer(), c_path(path)?);
        let access = match access {
            Access::Exists => ffi::SQLITE_ACCESS_EXISTS,
            Access::ReadWrite => ffi::SQLITE_ACCESS_READWRITE,
            Access::Read => ffi::SQLITE_ACCESS_READ,
        };
        let mut answer = 0;
        // SAFETY: as above, and the answer outlives the call.
        checked(unsafe {
            let method = (*vfs).xAccess.ok_or(VfsError::IO_ACCESS)?;
            method(vfs, path.as_ptr(), access, &raw mut answer)
        })?;
        Ok(answer != 0)
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        let platform = self.platform()?;
        let (vfs, path) = (platform.pointer(), c_path(path)?);
        let room_bytes = platform.path_bytes_max() + 1;
        let mut room = vec![0_u8; room_bytes as usize];
        // SAFETY: as above, and there is room for the bytes that are said.
        let code = unsafe {
            let method = (*vfs).xFullPathname.ok_or(VfsError::CANNOT_OPEN)?;
            method(vfs, path.as_ptr(), room_bytes, room.as_mut_ptr().cast())
        };
        if code == ffi::SQLITE_OK_SYMLINK {
            beside::note_link();
        } else {
            checked(code)?;
        }
        let text = CStr::from_bytes_until_nul(&room).map_err(|_| VfsError::CANNOT_OPEN)?;
        text.to_str().map(str::to_owned).map_err(|_| VfsError::CANNOT_OPEN)
    }
}

/// The platform's file as a `VfsFile`.
struct PlatformFile {
    handle: Arc<PlatformHandle>,
    /// References that the platform counts; those in `handle.dropped` too.
    mapped_references: usize,
    /// True if SQLite was told that mapped bytes may not be valid any more while some of them were
    /// still held.
    unmap_is_due: bool,
}

/// Calls a method of the platform's file; `$missing` is the error if there is none.
macro_rules! platform {
    ($self:ident, $method:ident($($argument:expr),*), $missing:expr) => {{
        let method = $self.handle.methods().and_then(|methods| methods.$method).ok_or($missing)?;
        // SAFETY: the file is open and used by this thread only, as `&mut self` says;
        // buffers have the size that is said, and places for answers outlive the call.
        checked(unsafe { method($self.handle.file.as_ptr() $(, $argument)*) })
    }};
}

impl PlatformFile {
    /// Number of bytes of a read that got fewer than it wanted: the platform does not return it.
    fn bytes_before_end(&mut self, wanted: usize, offset: u64) -> VfsResult<usize> {
        let there = self.size()?.saturating_sub(offset);
        let less_than_wanted = wanted.saturating_sub(1);
        Ok(usize::try_from(there).unwrap_or(less_than_wanted).min(less_than_wanted))
    }

    fn give_back(&mut self, Reference { offset, pointer }: Reference) -> VfsResult<()> {
        self.mapped_references -= 1;
        platform!(self, xUnfetch(offset, pointer.0), VfsError::IO_MAP)
    }

    /// Gives back the references that were dropped since the last call. Without mapping there are
    /// none.
    fn give_back_dropped(&mut self) {
        if self.mapped_references > 0 {
            for reference in self.handle.dropped.take() {
                // The platform cannot fail in it, and no caller needs the result.
                let _ = self.give_back(reference);
            }
        }
    }
}

/// A number of bytes for SQLite, which counts them in an `int`.
fn c_size(bytes: usize, error: VfsError) -> VfsResult<c_int> {
    c_int::try_from(bytes).map_err(|_| error)
}

fn c_offset(offset: u64, error: VfsError) -> VfsResult<i64> {
    i64::try_from(offset).map_err(|_| error)
}

impl VfsFile for PlatformFile {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let error = VfsError::IO_READ;
        let (bytes, place) = (c_size(buffer.len(), error)?, c_offset(offset, error)?);
        match platform!(self, xRead(buffer.as_mut_ptr().cast(), bytes, place), error) {
            Ok(()) => Ok(buffer.len()),
            Err(VfsError(ffi::SQLITE_IOERR_SHORT_READ)) => {
                self.bytes_before_end(buffer.len(), offset)
            }
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, bytes: &[u8], mut offset: u64) -> VfsResult<()> {
        let error = VfsError::IO_WRITE;
        for part in bytes.chunks(WRITE_BYTES_MAX) {
            let (count, place) = (c_size(part.len(), error)?, c_offset(offset, error)?);
            platform!(self, xWrite(part.as_ptr().cast(), count, place), error)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        let error = VfsError::IO_TRUNCATE;
        platform!(self, xTruncate(c_offset(size, error)?), error)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        let strength = if kind.full { ffi::SQLITE_SYNC_FULL } else { ffi::SQLITE_SYNC_NORMAL };
        let extent = if kind.data_only { ffi::SQLITE_SYNC_DATAONLY } else { 0 };
        platform!(self, xSync(strength | extent), VfsError::IO_SYNC)
    }

    fn size(&mut self) -> VfsResult<u64> {
        let mut size = 0;
        platform!(self, xFileSize(&raw mut size), VfsError::IO_SIZE)?;
        u64::try_from(size).map_err(|_| VfsError::IO_SIZE)
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        platform!(self, xLock(level as c_int), VfsError::IO_LOCK)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        platform!(self, xUnlock(level as c_int), VfsError::IO_UNLOCK)
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        let mut answer = 0;
        platform!(self, xCheckReservedLock(&raw mut answer), VfsError::IO_IS_RESERVED)?;
        Ok(answer != 0)
    }

    fn file_control(&mut self, control: FileControl<'_>) -> VfsResult<()> {
        // The platform changes no mapping of which it counts references.
        self.give_back_dropped();
        // SQLite made the argument for this opcode.
        platform!(self, xFileControl(control.opcode, control.argument), VfsError::NOT_FOUND)
    }

    fn sector_bytes(&self) -> u32 {
        let method = self.handle.methods().and_then(|methods| methods.xSectorSize);
        // SAFETY: the file is open, and used by this thread only.
        let bytes = method.map(|method| unsafe { method(self.handle.file.as_ptr()) });
        bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(4096)
    }

    fn device_characteristics(&self) -> i32 {
        let method = self.handle.methods().and_then(|methods| methods.xDeviceCharacteristics);
        // SAFETY: as above.
        method.map_or(0, |method| unsafe { method(self.handle.file.as_ptr()) })
    }

    fn maps_memory(&self) -> bool {
        self.handle
            .methods()
            .is_some_and(|methods| methods.iVersion >= 3 && methods.xFetch.is_some())
    }

    fn fetch(&mut self, offset: u64, bytes: usize) -> VfsResult<Option<MappedBytes>> {
        let error = VfsError::IO_MAP;
        let (place, count) = (c_offset(offset, error)?, c_size(bytes, error)?);
        if place.checked_add(i64::from(count) + ROOM_BEHIND_MAPPED).is_none() {
            return Err(error);
        }
        self.give_back_dropped();
        if self.unmap_is_due && self.unmap().is_err() {
            return Ok(None);
        }
        let mut pointer: *mut c_void = ptr::null_mut();
        platform!(self, xFetch(place, count, &raw mut pointer), error)?;
        if pointer.is_null() {
            return Ok(None);
        }
        self.mapped_references += 1;
        let reference = Reference { offset: place, pointer: PlatformPointer(pointer) };
        Ok(Some(MappedBytes::of_platform(reference, bytes, Arc::clone(&self.handle))))
    }

    fn unfetch(&mut self, mapped: MappedBytes) -> VfsResult<()> {
        mapped.taken_back(&self.handle).map_or(Ok(()), |reference| self.give_back(reference))
    }

    fn unmap(&mut self) -> VfsResult<()> {
        self.give_back_dropped();
        self.unmap_is_due = self.mapped_references > 0;
        if self.unmap_is_due {
            return Err(VfsError::IO_MAP);
        }
        platform!(self, xUnfetch(0, ptr::null_mut()), VfsError::IO_MAP)
    }

    fn has_shared_memory(&self) -> bool {
        self.handle
            .methods()
            .is_some_and(|methods| methods.iVersion >= 2 && methods.xShmMap.is_some())
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        let error = VfsError::IO_SHM_MAP;
        if region >= SHM_REGIONS_MAX || bytes != SHM_REGION_BYTES {
            return Err(error);
        }
        let number = c_int::try_from(region).map_err(|_| error)?;
        let (size, extend) = (c_size(bytes, error)?, c_int::from(extend));
        let mut pointer: *mut c_void = ptr::null_mut();
        let answer = platform!(self, xShmMap(number, size, extend, &raw mut pointer), error);
        // A region that may only be read comes with an error as well.
        let read_only = answer == Err(VfsError::READ_ONLY) && !pointer.is_null();
        if !read_only {
            answer?;
        }
        let region = || ShmRegion::of_platform(pointer, bytes, read_only, Arc::clone(&self.handle));
        Ok((!pointer.is_null()).then(region))
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        let error = VfsError::IO_SHM_LOCK;
        let first = c_int::try_from(first).map_err(|_| error)?;
        let count = c_int::try_from(count).map_err(|_| error)?;
        if !matches!((first, count), (0..8, 1..=8)) || first + count > 8 {
            return Err(error);
        }
        let flags = match lock {
            ShmLock::LockShared => ffi::SQLITE_SHM_LOCK | ffi::SQLITE_SHM_SHARED,
            ShmLock::LockExclusive => ffi::SQLITE_SHM_LOCK | ffi::SQLITE_SHM_EXCLUSIVE,
            ShmLock::UnlockShared => ffi::SQLITE_SHM_UNLOCK | ffi::SQLITE_SHM_SHARED,
            ShmLock::UnlockExclusive => ffi::SQLITE_SHM_UNLOCK | ffi::SQLITE_SHM_EXCLUSIVE,
        };
        platform!(self, xShmLock(first, count, flags), error)
    }

    fn shm_barrier(&mut self) {
        if let Some(method) = self.handle.methods().and_then(|methods| methods.xShmBarrier) {
            // SAFETY: the file is open, and used by this thread only.
            unsafe { method(self.handle.file.as_ptr()) };
        }
    }

    /// Fails while a region is held: its memory would be gone. The last region that is given back
    /// unmaps it then.
    fn shm_unmap(&mut self, delete: bool) -> VfsResult<()> {
        if Arc::strong_count(&self.handle) > 1 {
            return Err(VfsError::IO_SHM_MAP);
        }
        platform!(self, xShmUnmap(c_int::from(delete)), VfsError::IO_SHM_MAP)
    }
}
