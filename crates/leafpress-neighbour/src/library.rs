//! The functions of the second copy as safe Rust, and locks as another process sees them.
//!
//! The one file of this crate with `unsafe`. Must never: call a function of our copy.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::fs::File;
use std::io;
use std::mem::transmute;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use libsqlite3_sys as ffi;

/// An answer of the second copy other than success.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// SQLite's extended code.
    pub code: c_int,
}

impl Error {
    /// Another connection has a lock, and the same may be tried again.
    pub fn is_busy(self) -> bool {
        self.code & 0xff == ffi::SQLITE_BUSY
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Neighbour::load().error_text(self.code);
        write!(f, "{text} (code {})", self.code)
    }
}

fn checked(code: c_int) -> Result<(), Error> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(Error { code }) }
}

/// A connection of the other library; only its functions know what is in it.
#[repr(C)]
struct RawConnection(c_void);

type Version = unsafe extern "C" fn() -> *const c_char;
type Open = unsafe extern "C" fn(
    *const c_char,
    c_int,
    *const c_char,
    c_int,
    *mut *mut RawConnection,
) -> c_int;
type Close = unsafe extern "C" fn(*mut RawConnection) -> c_int;
type Execute = unsafe extern "C" fn(*mut RawConnection, *const c_char) -> c_int;
type Query = unsafe extern "C" fn(*mut RawConnection, *const c_char, *mut i64) -> c_int;
type InTransaction = unsafe extern "C" fn(*mut RawConnection) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;
type Register = unsafe extern "C" fn(*const ffi::sqlite3_vfs) -> c_int;

/// The second copy's functions, in the order of `neighbour.c`.
pub struct Neighbour {
    version: Version,
    open: Open,
    close: Close,
    execute: Execute,
    query: Query,
    in_transaction: InTransaction,
    error: ErrorText,
    register: Register,
}

impl Neighbour {
    /// Loads the library at the first call; it stays loaded.
    ///
    /// # Panics
    /// If the library that the build script made is not there.
    pub fn load() -> &'static Self {
        static LOADED: OnceLock<Neighbour> = OnceLock::new();
        LOADED.get_or_init(|| {
            let path = CString::new(env!("LEAFPRESS_NEIGHBOUR_LIBRARY")).unwrap();
            // SAFETY: the path ends with a zero, and the library's initialisers do nothing.
            let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            assert!(!library.is_null(), "{path:?} cannot be loaded");
            // SAFETY: the library is open, and the types are those in neighbour.c.
            unsafe {
                let of = |name| symbol(library, name);
                Self {
                    version: transmute::<*mut c_void, Version>(of(c"neighbour_version")),
                    open: transmute::<*mut c_void, Open>(of(c"neighbour_open")),
                    close: transmute::<*mut c_void, Close>(of(c"neighbour_close")),
                    execute: transmute::<*mut c_void, Execute>(of(c"neighbour_execute")),
                    query: transmute::<*mut c_void, Query>(of(c"neighbour_query")),
                    in_transaction: transmute::<*mut c_void, InTransaction>(of(
                        c"neighbour_in_transaction",
                    )),
                    error: transmute::<*mut c_void, ErrorText>(of(c"neighbour_error")),
                    register: transmute::<*mut c_void, Register>(of(c"neighbour_register")),
                }
            }
        })
    }

    /// The version of its SQLite.
    ///
    /// # Panics
    /// If it is not ASCII.
    pub fn version(&self) -> &'static str {
        // SAFETY: the function has no conditions, and its text is a constant.
        unsafe { CStr::from_ptr((self.version)()) }.to_str().unwrap()
    }

    /// Opens a database, and makes it if it is missing. A path that begins with `file:`
    /// is a URI. Locks are waited for as long as `busy`.
    ///
    /// # Errors
    /// As SQLite says.
    ///
    /// # Panics
    /// If the path is not UTF-8 or holds a zero byte.
    pub fn open(&'static self, path: &Path, busy: Duration) -> Result<Connection, Error> {
        self.open_by(path.to_str().unwrap(), busy, None)
    }

    /// As [`open`](Self::open), through a VFS that [`Self::borrow_vfs`] registered.
    ///
    /// # Errors
    /// As SQLite says.
    ///
    /// # Panics
    /// If the path holds a zero byte.
    pub fn open_by(
        &'static self,
        path: &str,
        busy: Duration,
        vfs: Option<&CStr>,
    ) -> Result<Connection, Error> {
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_URI;
        let path = CString::new(path).unwrap();
        let vfs = vfs.map_or(ptr::null(), CStr::as_ptr);
        let mut raw = ptr::null_mut();
        let busy_ms = busy.as_millis() as c_int;
        // SAFETY: texts end with a zero and outlive the call; `raw` may be written.
        let code = unsafe { (self.open)(path.as_ptr(), flags, vfs, busy_ms, &raw mut raw) };
        // Closes it also if it was not opened.
        let connection = Connection { raw };
        checked(code).map(|()| connection)
    }

    /// Lets connections of this copy use a VFS that is registered in ours.
    ///
    /// # Errors
    /// As SQLite says.
    ///
    /// # Panics
    /// If our copy knows no VFS of this name.
    pub fn borrow_vfs(&self, name: &CStr) -> Result<(), Error> {
        // SAFETY: the name ends with a zero. The table that is found is copied; it and what
        // it points to are never freed (`leafpress::vfs::register`).
        let code = unsafe {
            let vfs = ffi::sqlite3_vfs_find(name.as_ptr());
            assert!(!vfs.is_null(), "no VFS of the name {name:?}");
            (self.register)(vfs)
        };
        checked(code)
    }

    fn error_text(&self, code: c_int) -> &'static str {
        // SAFETY: any code is good, and the text is a constant.
        unsafe { CStr::from_ptr((self.error)(code)) }.to_str().unwrap()
    }
}

/// # Safety
/// `library` must be an open one.
unsafe fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: by the caller's word, and the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "the library has no {name:?}");
    found
}

/// A connection of the second copy, closed when it is dropped.
pub struct Connection {
    raw: *mut RawConnection,
}

// SAFETY: the copy is built with SQLITE_THREADSAFE=1, which lets a connection go from
// thread to thread.
unsafe impl Send for Connection {}

impl Connection {
    /// Carries out statements whose rows are dropped.
    ///
    /// # Errors
    /// As SQLite says.
    ///
    /// # Panics
    /// If the text holds a zero byte.
    pub fn execute(&self, sql: &str) -> Result<(), Error> {
        let sql = CString::new(sql).unwrap();
        // SAFETY: the connection is open, and the text ends with a zero.
        checked(unsafe { (Neighbour::load().execute)(self.raw, sql.as_ptr()) })
    }

    /// The first column of the first row as an integer.
    ///
    /// # Errors
    /// As SQLite says.
    ///
    /// # Panics
    /// If the text holds a zero byte.
    pub fn query_i64(&self, sql: &str) -> Result<i64, Error> {
        let sql = CString::new(sql).unwrap();
        let mut answer = 0;
        // SAFETY: as above, and `answer` may be written.
        checked(unsafe { (Neighbour::load().query)(self.raw, sql.as_ptr(), &raw mut answer) })?;
        Ok(answer)
    }

    /// A transaction is open, also after a COMMIT that failed.
    pub fn in_transaction(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { (Neighbour::load().in_transaction)(self.raw) != 0 }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: all its statements are finalised, so it is closed and used no more.
        let code = unsafe { (Neighbour::load().close)(self.raw) };
        debug_assert_eq!(code, ffi::SQLITE_OK);
    }
}

/// A lock of another process on some bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignLock {
    /// It keeps writers away.
    Shared,
    /// It keeps all away.
    Exclusive,
}

/// The lock of another process that prevents a lock on these bytes, as a process with a SQLite of
/// its own would meet it. This process must hold no POSIX lock on the file: closing the file drops
/// it.
///
/// # Errors
/// If the file cannot be opened, or its file system has no locks.
pub fn lock_by_others(path: &Path, first: u64, count: u64) -> io::Result<Option<ForeignLock>> {
    let file = File::options().read(true).write(true).open(path)?;
    // SAFETY: all of its fields are numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as _;
    lock.l_whence = libc::SEEK_SET as _;
    (lock.l_start, lock.l_len) = (first as _, count as _);
    // SAFETY: the descriptor is open, and the kernel writes into `lock` only.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match c_int::from(lock.l_type) {
        libc::F_UNLCK => None,
        libc::F_RDLCK => Some(ForeignLock::Shared),
        _ => Some(ForeignLock::Exclusive),
    })
}
