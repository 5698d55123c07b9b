//! The platform's VFS and its open files, as SQLite's C interface has them.
//!
//! An open file is closed when neither the file nor memory that it mapped is held any more.
//!
//! Must never: know the traits, or be used from two threads at a time.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, OnceLock};

use rusqlite::ffi;

use super::beside;
use super::guard::checked;
use super::words::{FileKind, OpenFlags, VfsError, VfsResult};
use crate::sync::lock;

/// The VFS that SQLite brings along for the platform.
#[derive(Clone, Copy)]
pub(super) struct Platform(NonNull<ffi::sqlite3_vfs>);

// SAFETY: SQLite's own VFS is made for use by all threads, and lives for ever.
unsafe impl Send for Platform {}
// SAFETY: as above.
unsafe impl Sync for Platform {}

/// By name, as a VFS that a program made its default may be withdrawn again.
const PLATFORM_NAME: &CStr = if cfg!(windows) { c"win32" } else { c"unix" };

impl Platform {
    /// Finds it, once; `None` only if SQLite cannot be initialised.
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

    /// Bytes that SQLite has to reserve for a file.
    pub(super) fn file_bytes(self) -> c_int {
        // SAFETY: it lives for ever.
        unsafe { (*self.pointer()).szOsFile }
    }

    /// Returns true if connections that name no VFS go through it.
    pub(super) fn is_default(self) -> bool {
        // SAFETY: null asks for the default.
        unsafe { ffi::sqlite3_vfs_find(ptr::null()) == self.pointer() }
    }

    /// Largest length of a path, in bytes.
    pub(super) fn path_bytes_max(self) -> c_int {
        // SAFETY: it lives for ever.
        unsafe { (*self.pointer()).mxPathname }
    }
}

pub(super) fn c_path(path: &str) -> VfsResult<CString> {
    CString::new(path).map_err(|_| VfsError::CANNOT_OPEN)
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
    pub(super) file: NonNull<ffi::sqlite3_file>,
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
    pub(super) fn open(
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
            // On Windows the answer names no kind of file.
            Ok((handle, OpenFlags(flags_out | flags.0 & OpenFlags::KINDS.0)))
        }
    }

    pub(super) fn methods(&self) -> Option<&ffi::sqlite3_io_methods> {
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

/// Address of memory that the platform mapped. Also of a file's own bytes.
#[derive(Clone, Copy)]
pub(super) struct PlatformPointer(pub(super) *mut c_void);

// SAFETY: the pointer is only handed to SQLite, whose use of shared memory is made for
// several threads, and which only reads a file's bytes; `PlatformHandle` keeps it valid
// and is `Send` and `Sync` itself.
unsafe impl Send for PlatformPointer {}
// SAFETY: as above; there is nothing to do with a shared reference to it.
unsafe impl Sync for PlatformPointer {}

/// The arguments with which a reference is given back to the platform.
#[derive(Clone, Copy)]
pub(super) struct Reference {
    pub(super) offset: i64,
    pub(super) pointer: PlatformPointer,
}

/// References to a file that were dropped, and that the platform still counts.
#[derive(Default)]
pub(super) struct Dropped(Mutex<Vec<Reference>>);

impl Dropped {
    pub(super) fn note(&self, reference: Reference) {
        lock(&self.0).push(reference);
    }

    pub(super) fn take(&self) -> Vec<Reference> {
        std::mem::take(&mut lock(&self.0))
    }
}
