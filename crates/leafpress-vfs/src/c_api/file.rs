//! The methods that SQLite calls on an open file of ours.
//!
//! SQLite makes room for [`SIZE_OF_FILE`] bytes a file. A `CFile` is there, with a pointer to our
//! own state. No call allocates, except the first one of each shared region.
//!
//! SQLite uses one file from one thread at a time (its own VFS, which keeps a file's
//! lock state in plain fields, relies on it), so the state may be borrowed mutably.

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::Arc;

use rusqlite::ffi;

use super::control::FileControl;
use super::guard::guarded;
use super::interface::VfsFile;
use super::mapped::MappedBytes;
use super::registration::OpenGuard;
use super::shared_memory::ShmRegion;
use super::words::{LockLevel, ShmLock, SyncKind, VfsError, VfsResult};
use super::write_lock::WriteLock;

/// Bytes that SQLite reserves for a file.
pub(super) const SIZE_OF_FILE: c_int = size_of::<CFile>() as c_int;

#[repr(C)]
struct CFile {
    base: ffi::sqlite3_file,
    state: *mut OpenFile,
}

/// An open file. The fields are dropped in this order: memory that the file mapped before the file,
/// and the owner of its `Vfs` last.
struct OpenFile {
    /// One entry for each pointer that SQLite was given and has not given back: a page for each
    /// level of each open cursor, so only a few.
    mapped: Vec<MappedBytes>,
    regions: Vec<ShmRegion>,
    maps_memory: bool,
    write_lock: Arc<WriteLock>,
    file: Box<dyn VfsFile>,
    _guard: OpenGuard,
}

/// Puts an open file into SQLite's memory for it.
///
/// # Safety
/// `place` must have room for [`SIZE_OF_FILE`] bytes, aligned to 8.
pub(super) unsafe fn place(
    place: *mut ffi::sqlite3_file,
    file: Box<dyn VfsFile>,
    guard: OpenGuard,
) {
    let maps_memory = file.maps_memory();
    let methods = match (file.has_shared_memory(), maps_memory) {
        (true, true) => &METHODS,
        (false, true) => &METHODS_WITHOUT_SHM,
        (true, false) => &METHODS_WITHOUT_MAPPING,
        (false, false) => &METHODS_WITHOUT_BOTH,
    };
    let (mapped, regions, write_lock) = (Vec::new(), Vec::new(), Arc::default());
    let open = OpenFile { mapped, regions, maps_memory, write_lock, file, _guard: guard };
    let open = Box::new(open);
    let c_file =
        CFile { base: ffi::sqlite3_file { pMethods: methods }, state: Box::into_raw(open) };
    // SAFETY: by the caller's word.
    unsafe { place.cast::<CFile>().write(c_file) };
}

/// The lock for writing the log that is noted for this file; `None` if the file is not ours.
///
/// # Safety
/// `file` must be null or open.
pub(super) unsafe fn write_lock(file: *mut ffi::sqlite3_file) -> Option<Arc<WriteLock>> {
    type Close = unsafe extern "C" fn(*mut ffi::sqlite3_file) -> c_int;
    // SAFETY: by the caller's word. Only our files have this method.
    unsafe {
        let methods = file.as_ref()?.pMethods.as_ref()?;
        methods.xClose.filter(|it| std::ptr::fn_addr_eq(*it, close as Close))?;
        Some(Arc::clone(&(*(*file.cast::<CFile>()).state).write_lock))
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

static METHODS_WITHOUT_SHM: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    ..METHODS
};

/// SQLite sees by the version that it need not even try to map, so a file that does not map costs
/// no more calls.
static METHODS_WITHOUT_MAPPING: ffi::sqlite3_io_methods =
    ffi::sqlite3_io_methods { iVersion: 2, xFetch: None, xUnfetch: None, ..METHODS };

static METHODS_WITHOUT_BOTH: ffi::sqlite3_io_methods =
    ffi::sqlite3_io_methods { iVersion: 1, xFetch: None, xUnfetch: None, ..METHODS_WITHOUT_SHM };

/// Runs `call` on the state of an open file.
///
/// # Safety
/// `file` must have been made by [`place`], not be closed, and not be in use.
unsafe fn with_file(
    file: *mut ffi::sqlite3_file,
    call: impl FnOnce(&mut OpenFile) -> VfsResult<()>,
) -> c_int {
    // SAFETY: by the caller's word.
    guarded(|| call(unsafe { &mut *(*file.cast::<CFile>()).state }))
}

/// A length or place in a file, which SQLite counts with a sign.
fn unsigned(number: i64, error: VfsError) -> VfsResult<u64> {
    u64::try_from(number).map_err(|_| error)
}

fn lock_level(level: c_int, error: VfsError) -> VfsResult<LockLevel> {
    Ok(match level {
        ffi::SQLITE_LOCK_NONE => LockLevel::None,
        ffi::SQLITE_LOCK_SHARED => LockLevel::Shared,
        ffi::SQLITE_LOCK_RESERVED => LockLevel::Reserved,
        ffi::SQLITE_LOCK_PENDING => LockLevel::Pending,
        ffi::SQLITE_LOCK_EXCLUSIVE => LockLevel::Exclusive,
        _ => return Err(error),
    })
}

// The callbacks. All their SAFETY lines rest on SQLite's contract: `file` is open,
// ours and used by this thread only; buffers have the size that is said; places for
// answers may be written.

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's contract; it never uses a file that it has closed.
        let open = unsafe {
            (*file).pMethods = std::ptr::null();
            Box::from_raw((*file.cast::<CFile>()).state)
        };
        drop(open);
        Ok(())
    })
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    let read = |open: &mut OpenFile| {
        let bytes = usize::try_from(bytes).map_err(|_| VfsError::IO_READ)?;
        let offset = unsigned(offset, VfsError::IO_READ)?;
        // SAFETY: SQLite's contract. That the bytes may be uninitialised is nothing that
        // the compiler can see or use, as they come from C.
        let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes) };
        let count = open.file.read(buffer, offset)?;
        match buffer.get_mut(count..) {
            Some([]) => Ok(()),
            Some(rest) => {
                rest.fill(0);
                Err(VfsError(ffi::SQLITE_IOERR_SHORT_READ))
            }
            None => Err(VfsError::IO_READ),
        }
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, read) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    buffer: *const c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    let write = |open: &mut OpenFile| {
        let bytes = usize::try_from(bytes).map_err(|_| VfsError::IO_WRITE)?;
        let offset = unsigned(offset, VfsError::IO_WRITE)?;
        // SAFETY: SQLite's contract.
        let buffer = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), bytes) };
        open.file.write(buffer, offset)
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, write) }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    let truncate = |open: &mut OpenFile| open.file.truncate(unsigned(size, VfsError::IO_TRUNCATE)?);
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, truncate) }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let kind = SyncKind {
        full: flags & 0xf == ffi::SQLITE_SYNC_FULL,
        data_only: flags & ffi::SQLITE_SYNC_DATAONLY != 0,
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, |open| open.file.sync(kind)) }
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, answer: *mut i64) -> c_int {
    let size = |open: &mut OpenFile| {
        let size = i64::try_from(open.file.size()?).map_err(|_| VfsError::IO_SIZE)?;
        // SAFETY: SQLite's contract.
        unsafe { *answer = size };
        Ok(())
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, size) }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    let lock = |open: &mut OpenFile| {
        let level = lock_level(level, VfsError::IO_LOCK)?;
        open.file.lock(level)?;
        if level == LockLevel::Exclusive {
            open.write_lock.note_file_lock(level);
        }
        Ok(())
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, lock) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    let unlock = |open: &mut OpenFile| {
        // Before the file may fail: SQLite takes the lock for given back then.
        open.write_lock.note_file_lock(LockLevel::None);
        open.file.unlock(lock_level(level, VfsError::IO_UNLOCK)?)
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, unlock) }
}

unsafe extern "C" fn check_reserved_lock(
    file: *mut ffi::sqlite3_file,
    answer: *mut c_int,
) -> c_int {
    let is_reserved = |open: &mut OpenFile| {
        let is_reserved = open.file.is_reserved()?;
        // SAFETY: SQLite's contract.
        unsafe { *answer = c_int::from(is_reserved) };
        Ok(())
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, is_reserved) }
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    opcode: c_int,
    argument: *mut c_void,
) -> c_int {
    let control = |open: &mut OpenFile| {
        // If a decorator does not map, its file must not be mapped below it either. The answer is
        // then that zero bytes are mapped, for any requested number.
        if opcode == ffi::SQLITE_FCNTL_MMAP_SIZE && !open.maps_memory {
            if !argument.is_null() {
                // SAFETY: SQLite's contract; for this opcode it is a place for an answer.
                unsafe { *argument.cast::<i64>() = 0 };
            }
            return Ok(());
        }
        open.file.file_control(FileControl::new(opcode, argument))
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, control) }
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    let mut sector_bytes = 4096;
    // SAFETY: SQLite's contract. After a panic the value above stays, as this call cannot return an
    // error.
    unsafe {
        with_file(file, |open| {
            sector_bytes = c_int::try_from(open.file.sector_bytes()).unwrap_or(sector_bytes);
            Ok(())
        })
    };
    sector_bytes
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    let mut characteristics = 0;
    // SAFETY: SQLite's contract. After a panic nothing is promised, as this call cannot return an
    // error.
    unsafe {
        with_file(file, |open| {
            characteristics = open.file.device_characteristics();
            Ok(())
        })
    };
    characteristics
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite's contract.
    unsafe { *answer = std::ptr::null_mut() };
    let map = |open: &mut OpenFile| {
        let number = u32::try_from(region).map_err(|_| VfsError::IO_SHM_MAP)?;
        let bytes = usize::try_from(bytes).map_err(|_| VfsError::IO_SHM_MAP)?;
        let Some(region) = open.file.shm_map(number, bytes, extend != 0)? else { return Ok(()) };
        if region.bytes() < bytes {
            return Err(VfsError::IO_SHM_SIZE);
        }
        // SAFETY: SQLite's contract; the region is held until it is given up below.
        unsafe { *answer = region.pointer() };
        let is_read_only = region.is_read_only();
        if open.regions.iter().all(|held| held.pointer() != region.pointer()) {
            open.regions.push(region);
        }
        if is_read_only { Err(VfsError::READ_ONLY) } else { Ok(()) }
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, map) }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let lock = |open: &mut OpenFile| {
        let first = u32::try_from(first).map_err(|_| VfsError::IO_SHM_LOCK)?;
        let count = u32::try_from(count).map_err(|_| VfsError::IO_SHM_LOCK)?;
        let lock = ShmLock::of_flags(flags);
        let outcome = open.file.shm_lock(first, count, lock);
        open.write_lock.note_shm_lock(first, lock, outcome.is_ok());
        outcome
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, lock) }
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    let barrier = |open: &mut OpenFile| {
        open.file.shm_barrier();
        Ok(())
    };
    // SAFETY: SQLite's contract. A panic cannot be reported to a caller.
    unsafe { with_file(file, barrier) };
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    let unmap = |open: &mut OpenFile| {
        // Our own regions go first: the platform unmaps only regions that are not held any more.
        open.regions.clear();
        open.file.shm_unmap(delete != 0)
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, unmap) }
}

unsafe extern "C" fn fetch(
    file: *mut ffi::sqlite3_file,
    offset: i64,
    bytes: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite's contract.
    unsafe { *answer = std::ptr::null_mut() };
    let fetch = |open: &mut OpenFile| {
        let bytes = usize::try_from(bytes).map_err(|_| VfsError::IO_MAP)?;
        let offset = unsigned(offset, VfsError::IO_MAP)?;
        let Some(mapped) = open.file.fetch(offset, bytes)? else { return Ok(()) };
        if mapped.bytes() < bytes || !mapped.pointer().cast::<u64>().is_aligned() {
            // SQLite reads the page instead.
            return open.file.unfetch(mapped);
        }
        // SAFETY: SQLite's contract; the bytes are held until they are given up below.
        unsafe { *answer = mapped.pointer() };
        open.mapped.push(mapped);
        Ok(())
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, fetch) }
}

unsafe extern "C" fn unfetch(
    file: *mut ffi::sqlite3_file,
    _offset: i64,
    pointer: *mut c_void,
) -> c_int {
    let unfetch = |open: &mut OpenFile| {
        if pointer.is_null() {
            // The mapped bytes may be wrong by now: another process cut the file.
            return if open.mapped.is_empty() { open.file.unmap() } else { Ok(()) };
        }
        // Two entries for one place are alike, so either may go.
        match open.mapped.iter().rposition(|held| held.pointer() == pointer) {
            Some(index) => open.file.unfetch(open.mapped.swap_remove(index)),
            None => Ok(()),
        }
    };
    // SAFETY: SQLite's contract.
    unsafe { with_file(file, unfetch) }
}
