//! The way out again: SQLite's own VFS as a `Vfs`, on which decorators stand.
//!
//! Each open file is one `sqlite3_file` of the platform's, in memory of ours, with a
//! copy of its path that lives as long as the file does: the platform's VFS keeps the
//! pointer, and looks behind the path for the parameters of a URI.
//!
//! SQLite's own path pointer, which has all that too, is not passed through: it is
//! valid until SQLite closes *its* file, and a decorator may keep ours longer.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use rusqlite::ffi;

use super::control::FileControl;
use super::mapped::{Dropped, MappedBytes, Reference};
use super::shared_memory::{PlatformPointer, ShmRegion};
use super::{beside, checked};
use crate::vfs::{
    self, Access, FileKind, LockLevel, OpenFlags, Opened, ShmLock, SyncKind, Vfs, VfsError,
    VfsFile, VfsResult,
};

/// The VFS that SQLite brings along for the platform.
#[derive(Clone, Copy)]
pub(super) struct Platform(NonNull<ffi::sqlite3_vfs>);

// SAFETY: SQLite's own VFS is made for use by all threads, and lives for ever.
unsafe impl Send for Platform {}
// SAFETY: as above.
unsafe impl Sync for Platform {}

/// Size of the regions that SQLite asks for. The platform uses the first size that it is given for
/// all regions, so another size would be wrong about the memory behind it.
const SHM_REGION_BYTES: usize = 32 * 1024;
/// Limit of regions: the platform counts them in 16 bits, and would count for ever above. This
/// limit is a WAL of a terabyte.
const SHM_REGIONS_MAX: u32 = 60_000;

/// The platform adds the bytes that it wants to be readable behind mapped bytes (256 of them) to
/// the end of the request, without a check for overflow.
const ROOM_BEHIND_MAPPED: i64 = 4096;

/// Found by name, as a VFS that a program made the default may be withdrawn again.
const PLATFORM_NAME: &CStr = if cfg!(windows) { c"win32" } else { c"unix" };

impl Platform {
    /// Finds the platform's VFS, once; `None` only if SQLite cannot be initialised.
    pub(super) fn find() -> Option<Self> {
        static FOUND: OnceLock<Option<Platform>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            // SAFETY: the name ends with a zero; null asks for the default.
            let (named, default) = unsafe {
                let named = ffi::sqlite3_vfs_find(PLATFORM_NAME.as_ptr());
                (named, ffi::sqlite3_vfs_find(ptr::null()))
            };
            NonNull::new(named).or(NonNull::new(default)).map(Self)
        })
    }

    pub(super) const fn pointer(self) -> *mut ffi::sqlite3_vfs {
        self.0.as_ptr()
    }

    /// Largest length of a path, in bytes.
    pub(super) fn path_bytes_max(self) -> c_int {
        // SAFETY: it lives for ever.
        unsafe { (*self.pointer()).mxPathname }
    }
}

/// The platform's own VFS, the one that SQLite calls `unix` or `win32`, with all that it
/// can do: shared memory, and memory-mapped files where `PRAGMA mmap_size` asks for it.
///
/// Its files and those of plain connections lock each other out as they should, in one
/// process and between processes. They are slow where the process
/// [plays a slow disk](crate::vfs::simulate).
pub struct PlatformVfs {
    platform: Option<Platform>,
}

impl PlatformVfs {
    /// Finds the platform's VFS. If SQLite cannot be initialised, nothing can be opened.
    pub fn new() -> Self {
        Self { platform: Platform::find() }
    }

    fn platform(&self) -> VfsResult<Platform> {
        self.platform.ok_or(VfsError::CANNOT_OPEN)
    }

    fn delete_now(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        let (vfs, path) = (self.platform()?.pointer(), c_path(path)?);
        // SAFETY: the VFS lives for ever, and the path ends with a zero.
        checked(unsafe {
            let method = (*vfs).xDelete.ok_or(VfsError::IO_DELETE)?;
            method(vfs, path.as_ptr(), c_int::from(sync_folder))
        })
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

fn c_path(path: &str) -> VfsResult<CString> {
    CString::new(path).map_err(|_| VfsError::CANNOT_OPEN)
}

impl Vfs for PlatformVfs {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        if path.is_none() && flags.kind().is_lasting() {
            return Err(VfsError::CANNOT_OPEN);
        }
        let (handle, flags) = PlatformHandle::open(self.platform()?, path, flags)?;
        let file =
            PlatformFile { handle: Arc::new(handle), mapped_references: 0, unmap_is_due: false };
        Ok(vfs::on_device(Opened { file: Box::new(file), flags }, path))
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        match vfs::slow_device() {
            Some(device) => {
                device.remove(Path::new(path), sync_folder, || self.delete_now(path, sync_folder))
            }
            None => self.delete_now(path, sync_folder),
        }
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

/// A path in the form that SQLite's own VFS may rely on: parameters of the URI behind
/// it, and zeros behind those.
struct Filename(NonNull<c_char>);

impl Filename {
    fn new(path: &str, parameters: &[CString]) -> VfsResult<Self> {
        let path = c_path(path)?;
        let mut pointers: Vec<*const c_char> = parameters.iter().map(|p| p.as_ptr()).collect();
        // SAFETY: all texts end with a zero and are copied; there are as many of them as
        // is said, two a parameter.
        let name = unsafe {
            ffi::sqlite3_create_filename(
                path.as_ptr(),
                c"".as_ptr(),
                c"".as_ptr(),
                (pointers.len() / 2) as c_int,
                pointers.as_mut_ptr(),
            )
        };
        NonNull::new(name.cast_mut()).map(Self).ok_or(VfsError::NO_MEMORY)
    }
}

impl Drop for Filename {
    fn drop(&mut self) {
        // SAFETY: made by `sqlite3_create_filename`, and freed once.
        unsafe { ffi::sqlite3_free_filename(self.0.as_ptr()) };
    }
}

/// An open `sqlite3_file` of the platform's.
///
/// Held by the one `PlatformFile` that uses it, and by the `ShmRegion`s and `MappedBytes`
/// that it mapped.
/// Invariants: `file` was opened, and its path lives in `_name` (dropped after it).
pub(super) struct PlatformHandle {
    file: NonNull<ffi::sqlite3_file>,
    _name: Option<Filename>,
    pub(super) dropped: Dropped,
}

// SAFETY: the platform's file may be used from any thread, one at a time. Only the
// `PlatformFile` uses it, through `&mut self`; a `ShmRegion` or a `MappedBytes` never
// does, but may be the last to hold it, and then closes it alone.
unsafe impl Send for PlatformHandle {}
// SAFETY: as above; a shared reference offers nothing.
unsafe impl Sync for PlatformHandle {}

impl PlatformHandle {
    fn open(
        platform: Platform,
        path: Option<&str>,
        flags: OpenFlags,
    ) -> VfsResult<(Self, OpenFlags)> {
        let parameters =
            if flags.kind() == FileKind::MainDb { beside::uri_parameters() } else { Vec::new() };
        let name = path.map(|path| Filename::new(path, &parameters)).transpose()?;
        let c_name = name.as_ref().map_or(ptr::null(), |name| name.0.as_ptr().cast_const());
        let vfs = platform.pointer();
        let mut flags_out = flags.0;
        // SAFETY: the file gets as much zeroed memory as the VFS asks for; the path lives
        // until the file is closed; what could not be opened is closed if the platform
        // says that it must be, and freed.
        unsafe {
            let open = (*vfs).xOpen.ok_or(VfsError::CANNOT_OPEN)?;
            let bytes = usize::try_from((*vfs).szOsFile).map_err(|_| VfsError::CANNOT_OPEN)?;
            let memory = ffi::sqlite3_malloc64(bytes as u64).cast::<ffi::sqlite3_file>();
            let file = NonNull::new(memory).ok_or(VfsError::NO_MEMORY)?;
            file.as_ptr().cast::<u8>().write_bytes(0, bytes);
            let code = open(vfs, c_name, file.as_ptr(), flags.0, &raw mut flags_out);
            let handle = Self { file, _name: name, dropped: Dropped::default() };
            checked(code)?;
            Ok((handle, OpenFlags(flags_out)))
        }
    }

    fn methods(&self) -> Option<&ffi::sqlite3_io_methods> {
        // SAFETY: the file's memory is there, and its methods are null or live for ever.
        unsafe { (*self.file.as_ptr()).pMethods.as_ref() }
    }
}

impl Drop for PlatformHandle {
    fn drop(&mut self) {
        let file = self.file.as_ptr();
        if let Some(methods) = self.methods() {
            let (unfetch, unmap, close) = (methods.xUnfetch, methods.xShmUnmap, methods.xClose);
            let dropped = self.dropped.take();
            // SAFETY: the file is open, and memory that it mapped is not held any more. Each of the
            // references is given back once. Unmapping does nothing if nothing is mapped.
            unsafe {
                if let Some(unfetch) = unfetch {
                    for Reference { offset, pointer } in dropped {
                        unfetch(file, offset, pointer.0);
                    }
                }
                if let Some(unmap) = unmap {
                    unmap(file, 0);
                }
                if let Some(close) = close {
                    close(file);
                }
            }
        }
        // SAFETY: it was allocated by SQLite, and is freed once.
        unsafe { ffi::sqlite3_free(file.cast()) };
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

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let error = VfsError::IO_WRITE;
        let (count, place) = (c_size(bytes.len(), error)?, c_offset(offset, error)?);
        platform!(self, xWrite(bytes.as_ptr().cast(), count, place), error)
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
