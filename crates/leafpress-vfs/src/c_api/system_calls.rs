//! SQLite's system calls, replaced: `open`, `close`, `fcntl` and those that map files go to
//! Rust.
//!
//! SQLite's Unix VFS makes each system call through a table that
//! `sqlite3_vfs.xSetSystemCall` can change, for this copy of SQLite alone. What is done
//! instead is decided in `locks/`; `system_calls.c` is the part that must be C.
//!
//! Must never: replace a call that another part of the program has replaced already.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;

use rusqlite::ffi;

use super::handle::Platform;
use super::mappings;
use super::range_lock::{Bytes, How, Lock};

/// The work that Rust does for SQLite.
pub struct Calls {
    /// Opens a file as `open(2)` does; the flags and the mode are the system's.
    pub open: fn(path: &CStr, flags: c_int, mode: c_int) -> io::Result<RawFd>,
    /// Takes a descriptor back that `open` gave; `false` if it did not.
    pub close: fn(descriptor: RawFd) -> bool,
    /// Closes a descriptor that came from elsewhere.
    pub close_unknown: fn(descriptor: OwnedFd),
    /// Locks; `None` leaves the call to the system.
    pub lock: fn(descriptor: RawFd, how: How, lock: Lock, bytes: Bytes) -> Option<io::Result<Lock>>,
}

/// Reason why SQLite's system calls were not replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReplaced {
    /// The linked SQLite has no Unix VFS whose calls can be replaced.
    #[error("this SQLite has no VFS 'unix' whose system calls can be replaced")]
    NoUnixVfs,
    /// Another part of the program did it before.
    #[error("another part of the program has replaced SQLite's system call '{0}'")]
    ByAnother(&'static str),
}

static CALLS: OnceLock<&'static Calls> = OnceLock::new();

#[repr(C)]
struct Replacements {
    open: unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int,
    close: unsafe extern "C" fn(c_int) -> c_int,
    lock: unsafe extern "C" fn(c_int, c_int, *mut c_int, i64, i64) -> c_int,
    map: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void,
    unmap: unsafe extern "C" fn(*mut c_void, usize) -> c_int,
    remap: Option<unsafe extern "C" fn(*mut c_void, usize, usize, c_int) -> *mut c_void>,
}

#[repr(C)]
struct SystemCall {
    name: *const c_char,
    replacement: unsafe extern "C" fn(),
}

unsafe extern "C" {
    fn leafpress_replace_by(by: *const Replacements);
    fn leafpress_system_calls(first: *mut *const SystemCall) -> c_int;
    fn leafpress_mask_devices(generation: u32);
    fn leafpress_set_holder(number: c_int, holder: c_int);
}

/// Replaces SQLite's system calls by `calls`, for good.
///
/// To be called once, by one thread.
///
/// # Errors
/// Nothing was replaced then.
pub fn replace(calls: &'static Calls) -> Result<(), NotReplaced> {
    let platform = Platform::find().ok_or(NotReplaced::NoUnixVfs)?;
    let vfs = platform.pointer();
    // SAFETY: SQLite's own VFS lives for ever.
    let (version, set, get) =
        unsafe { ((*vfs).iVersion, (*vfs).xSetSystemCall, (*vfs).xGetSystemCall) };
    let (Some(set), Some(get)) = (set, get) else { return Err(NotReplaced::NoUnixVfs) };
    if version < 3 {
        return Err(NotReplaced::NoUnixVfs);
    }
    let table = system_calls();
    for call in table {
        // SAFETY: the names end with a zero. A null pointer asks for SQLite's own call, so
        // that it shows whether the one before was another's, which is put back.
        let is_own = unsafe {
            let before = get(vfs, call.name);
            let known = set(vfs, call.name, None) == ffi::SQLITE_OK;
            let own = get(vfs, call.name);
            let is_own = known && address(before) == address(own);
            if !is_own {
                set(vfs, call.name, before);
            }
            is_own
        };
        if !is_own {
            return Err(NotReplaced::ByAnother(name_of(call)));
        }
    }
    let _ = CALLS.set(calls);
    #[cfg(target_os = "linux")]
    let remap = Some(mappings::remap as _);
    #[cfg(not(target_os = "linux"))]
    let remap = None;
    let (map, unmap) = (mappings::map, mappings::unmap);
    let replacements = Replacements { open, close, lock, map, unmap, remap };
    // SAFETY: they are copied before the call returns.
    unsafe { leafpress_replace_by(&raw const replacements) };
    for call in table {
        // SAFETY: each replacement takes and answers what SQLite's own call of that name does.
        unsafe { set(vfs, call.name, Some(call.replacement)) };
    }
    Ok(())
}

/// Says that `holder` holds all locks of the file behind `number`, so that [`Calls::lock`]
/// is not asked for them; `None` has it asked again.
pub fn set_holder(number: RawFd, holder: Option<RawFd>) {
    // SAFETY: a number is stored in one step.
    unsafe { leafpress_set_holder(number, holder.unwrap_or(-1)) };
}

/// From now on the `generation`th child of a fork tells SQLite other device numbers than
/// its parent did, so that no file is taken for one that the parent had open.
pub(super) fn mask_devices(generation: u32) {
    // SAFETY: a number is stored. Only the one thread of a new child calls this.
    unsafe { leafpress_mask_devices(generation) };
}

/// Calls `ask` with the descriptor of this number, which may be none that is open.
pub fn with_descriptor<T>(
    number: RawFd,
    ask: impl FnOnce(BorrowedFd<'_>) -> Option<T>,
) -> Option<T> {
    if number < 0 {
        return None;
    }
    // SAFETY: the number is not -1. The callers only ask which file it is; if it is closed
    // meanwhile, the answer is an error or another file's, which they expect.
    ask(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Lets `number` be another name of `file` from now on, to be closed by `exec`. What it was
/// before is closed in this process, also where the limit of open files is below the number.
pub fn put_in_place_of(number: RawFd, file: &OwnedFd) {
    // SAFETY: numbers are passed; the caller gives up the descriptor that `number` was.
    unsafe {
        if libc::dup2(file.as_raw_fd(), number) == number {
            libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        } else {
            close_inherited(number);
        }
    }
}

/// Closes a number that this process, a child, has inherited. Its owner here must not use it any more.
pub fn close_inherited(number: RawFd) {
    // SAFETY: a number is passed; the caller gives up the descriptor that it was.
    unsafe { libc::close(number) };
}

fn system_calls() -> &'static [SystemCall] {
    let mut first = ptr::null();
    // SAFETY: what is answered are the first and the number of a constant table.
    unsafe {
        let count = leafpress_system_calls(&raw mut first);
        std::slice::from_raw_parts(first, count as usize)
    }
}

fn address(call: ffi::sqlite3_syscall_ptr) -> usize {
    call.map_or(0, |call| call as usize)
}

fn name_of(call: &SystemCall) -> &'static str {
    // SAFETY: names are constants that end with a zero.
    unsafe { CStr::from_ptr(call.name) }.to_str().unwrap_or_default()
}

/// A negative error number, as `system_calls.c` takes it.
fn refused(error: &io::Error) -> c_int {
    -error.raw_os_error().filter(|code| *code > 0).unwrap_or(libc::EIO)
}

/// Runs what Rust does for a system call. A panic ends here, as `EIO`; its payload is not
/// dropped, since that may panic once more.
fn guarded(call: impl FnOnce(&Calls) -> c_int) -> c_int {
    let Some(calls) = CALLS.get() else { return -libc::EIO };
    catch_unwind(AssertUnwindSafe(|| call(calls))).unwrap_or_else(|payload| {
        std::mem::forget(payload);
        -libc::EIO
    })
}

unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: SQLite gives a path that ends with a zero.
    let path = unsafe { CStr::from_ptr(path) };
    guarded(|calls| (calls.open)(path, flags, mode).unwrap_or_else(|error| refused(&error)))
}

unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    if descriptor < 0 {
        return -libc::EBADF;
    }
    guarded(|calls| {
        if !(calls.close)(descriptor) {
            // SAFETY: SQLite gives the descriptor up, and the table does not have it.
            (calls.close_unknown)(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        0
    })
}

/// The answer of `system_calls.c` for a call that is left to the system.
const AS_BEFORE: c_int = 1;

unsafe extern "C" fn lock(
    descriptor: c_int,
    how: c_int,
    lock: *mut c_int,
    start: i64,
    length: i64,
) -> c_int {
    let how = match how {
        0 => How::Get,
        1 => How::Set,
        _ => How::Wait,
    };
    guarded(|calls| {
        // SAFETY: `system_calls.c` gives a number of its own.
        let asked = Lock::from_c(unsafe { *lock });
        match (calls.lock)(descriptor, how, asked, Bytes { start, length }) {
            None => AS_BEFORE,
            Some(Err(error)) => refused(&error),
            Some(Ok(found)) => {
                // SAFETY: as above.
                unsafe { *lock = found as c_int };
                0
            }
        }
    })
}
