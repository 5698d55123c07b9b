//! A `Vfs` under a name: what SQLite calls with a path.
//!
//! SQLite keeps pointers to a VFS for as long as a connection lives, also one that
//! has no file open, and offers no way to ask. So what it points to, a few hundred
//! bytes a registration, is never freed. The `Vfs` itself is dropped when its name is
//! withdrawn *and* the last file opened through it is closed. Invariants:
//!
//! 1. `sqlite3_vfs` and `Registered`, once handed to SQLite, live for ever.
//! 2. `State::vfs` is there as long as the name is registered or a file is open.
//! 3. `State::open_files` counts the `OpenGuard`s, one in each open file.
//! 4. Names are looked up and given, and a `State` is locked, in [`Turn::Registrations`] only.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex};

use rusqlite::ffi;

use super::beside::{self, Opening};
use super::guard::guarded;
use super::handle::Platform;
use super::interface::Vfs;
use super::words::{Access, FileKind, OpenFlags, VfsError, VfsResult};
use super::write_lock::WriteLock;
use super::{file, watched};
use crate::error::{Error, Result};
use crate::fork::Turn;
use crate::sync::lock;

/// As [`register`](crate::register), where the locks are in force already.
pub fn register(name: &str, vfs: impl Vfs, default: bool) -> Result<Registration> {
    register_for(Files::All, name, vfs, default)
}

/// Registers `vfs` for write-ahead logs. All other files are opened by the platform's VFS itself, and
/// SQLite calls its methods, those for a database's locks through ours (`watched.rs`).
pub fn register_for_logs(name: &str, vfs: impl Vfs) -> Result<Registration> {
    register_for(Files::Logs, name, vfs, false)
}

fn register_for(files: Files, name: &str, vfs: impl Vfs, default: bool) -> Result<Registration> {
    let unusable = || Error::misuse(format!("{name:?} cannot be the name of a VFS"));
    let c_name = CString::new(name).map_err(|_| unusable())?;
    if name.is_empty() {
        return Err(unusable());
    }
    let _turn = Turn::Registrations.take();
    // Before ours is there, so that the platform's is never ours.
    let platform = Platform::find()
        .ok_or_else(|| Error::sqlite("find the platform's VFS", sqlite_error(ffi::SQLITE_ERROR)))?;
    if find(Some(&c_name)).is_some() {
        return Err(Error::misuse(format!("there is a VFS of the name {name:?} already"))
            .advise("drop its Registration first, or choose another name"));
    }
    let default_before = if default { name_of_default() } else { None };
    let state = State { vfs: Some(Arc::new(vfs)), open_files: 0, is_registered: true };
    let registered: &'static Registered =
        Box::leak(Box::new(Registered { platform, files, state: Mutex::new(state) }));
    let name: &'static CStr = Box::leak(c_name.into_boxed_c_str());
    let c_vfs = CVfs(Box::leak(Box::new(method_table(name, registered))));
    // SAFETY: the table and all that it points to live for ever (invariant 1).
    let code = unsafe { ffi::sqlite3_vfs_register(c_vfs.0, c_int::from(default)) };
    if code != ffi::SQLITE_OK {
        return Err(Error::sqlite("register a VFS", sqlite_error(code)));
    }
    Ok(Registration { name, c_vfs, registered, default_before })
}

/// A VFS that connections can be opened with, by its name.
///
/// Dropping it withdraws the name: no new connection finds the VFS, and if it was the
/// default, the one before is again. Connections that have files open through it go on
/// undisturbed to their end, journals included, but can attach no further database.
/// When the last of the files is closed, the `Vfs` is dropped. SQLite's own record of it, a few hundred bytes, is never freed.
pub struct Registration {
    name: &'static CStr,
    c_vfs: CVfs,
    registered: &'static Registered,
    default_before: Option<CString>,
}

impl Registration {
    /// The name, as rusqlite's `open_with_flags_and_vfs` takes it.
    pub const fn name(&self) -> &'static CStr {
        self.name
    }

    /// Number of files that are open through it now.
    pub fn open_files(&self) -> usize {
        self.registered.in_turn(|state| state.open_files)
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open_files = self.open_files();
        f.debug_struct("Registration")
            .field("name", &self.name)
            .field("open_files", &open_files)
            .finish_non_exhaustive()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        {
            let _turn = Turn::Registrations.take();
            let was_default = find(None) == Some(self.c_vfs.0);
            // SAFETY: the table was registered and lives for ever (invariant 1).
            unsafe { ffi::sqlite3_vfs_unregister(self.c_vfs.0) };
            // SQLite takes the next in its list, which may have come later.
            let before = self.default_before.as_deref().and_then(|name| find(Some(name)));
            if let (true, Some(before)) = (was_default, before) {
                // SAFETY: SQLite has just found it in its list.
                unsafe { ffi::sqlite3_vfs_register(before, 1) };
            }
        }
        let unused = self.registered.in_turn(|state| {
            state.is_registered = false;
            state.take_if_unused()
        });
        drop(unused);
    }
}

/// Files that a `Vfs` opens; the platform opens the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    All,
    /// Write-ahead logs whose path is UTF-8.
    Logs,
}

/// The target of the `pAppData` of our VFS.
pub(super) struct Registered {
    platform: Platform,
    files: Files,
    state: Mutex<State>,
}

struct State {
    vfs: Option<Arc<dyn Vfs>>,
    open_files: usize,
    is_registered: bool,
}

impl State {
    /// The `Vfs`, if it cannot be used any more; to be dropped outside of the lock.
    fn take_if_unused(&mut self) -> Option<Arc<dyn Vfs>> {
        let is_unused = !self.is_registered && self.open_files == 0;
        self.vfs.take_if(|_| is_unused)
    }
}

impl Registered {
    fn in_turn<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        let _turn = Turn::Registrations.take();
        action(&mut lock(&self.state))
    }

    fn vfs(&self) -> VfsResult<Arc<dyn Vfs>> {
        self.in_turn(|state| state.vfs.clone()).ok_or(VfsError::CANNOT_OPEN)
    }

    fn opening(&'static self) -> VfsResult<(Arc<dyn Vfs>, OpenGuard)> {
        self.in_turn(|state| {
            let vfs = state.vfs.clone().ok_or(VfsError::CANNOT_OPEN)?;
            state.open_files += 1;
            Ok((vfs, OpenGuard(self)))
        })
    }
}

/// Keeps the `Vfs` as long as a file is open.
pub(super) struct OpenGuard(&'static Registered);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let unused = self.0.in_turn(|state| {
            state.open_files -= 1;
            state.take_if_unused()
        });
        drop(unused);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct CVfs(*mut ffi::sqlite3_vfs);

// SAFETY: the table lives for ever, and only SQLite, under its own lock, changes it.
unsafe impl Send for CVfs {}
// SAFETY: as above.
unsafe impl Sync for CVfs {}

fn sqlite_error(code: c_int) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

/// The VFS of this name, or the default one.
fn find(name: Option<&CStr>) -> Option<*mut ffi::sqlite3_vfs> {
    // SAFETY: the name, if any, ends with a zero and outlives the call.
    let found = unsafe { ffi::sqlite3_vfs_find(name.map_or(ptr::null(), CStr::as_ptr)) };
    (!found.is_null()).then_some(found)
}

fn name_of_default() -> Option<CString> {
    // SAFETY: a registered VFS has a name that ends with a zero; it is copied at once.
    find(None).map(|vfs| unsafe { CStr::from_ptr((*vfs).zName) }.to_owned())
}

fn method_table(name: &'static CStr, registered: &'static Registered) -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        // Room for a file of ours or of the platform's.
        szOsFile: file::SIZE_OF_FILE.max(watched::bytes_of_file(registered.platform.file_bytes())),
        mxPathname: registered.platform.path_bytes_max(),
        pNext: ptr::null_mut(),
        zName: name.as_ptr(),
        pAppData: ptr::from_ref(registered).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path),
        xDlOpen: Some(extension_open),
        xDlError: Some(extension_error),
        xDlSym: Some(extension_symbol),
        xDlClose: Some(extension_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_ms),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

/// # Safety
/// `vfs` must be one of [`method_table`]'s.
unsafe fn registered(vfs: *mut ffi::sqlite3_vfs) -> &'static Registered {
    // SAFETY: by the caller's word, and `Registered` lives for ever (invariant 1).
    unsafe { &*(*vfs).pAppData.cast::<Registered>() }
}

/// The VFS whose methods SQLite calls for databases: the platform's for one that is for logs only.
///
/// # Safety
/// `vfs` must be registered.
pub(super) unsafe fn vfs_of_databases(vfs: *mut ffi::sqlite3_vfs) -> *mut ffi::sqlite3_vfs {
    type Open = unsafe extern "C" fn(
        *mut ffi::sqlite3_vfs,
        ffi::sqlite3_filename,
        *mut ffi::sqlite3_file,
        c_int,
        *mut c_int,
    ) -> c_int;
    // SAFETY: by the caller's word.
    let is_ours = unsafe { (*vfs).xOpen }.is_some_and(|it| ptr::fn_addr_eq(it, open as Open));
    // SAFETY: only our tables have this method.
    match is_ours.then(|| unsafe { registered(vfs) }) {
        Some(Registered { files: Files::Logs, platform, .. }) => platform.pointer(),
        _ => vfs,
    }
}

/// # Safety
/// `path` must be null or end with a zero, and stay as it is as long as `'a`.
unsafe fn text<'a>(path: *const c_char) -> VfsResult<Option<&'a str>> {
    if path.is_null() {
        return Ok(None);
    }
    // SAFETY: by the caller's word.
    let path = unsafe { CStr::from_ptr(path) };
    path.to_str().map(Some).map_err(|_| VfsError::CANNOT_OPEN)
}

/// # Safety
/// `path` must be a main database's, as SQLite gives it to `xOpen`.
unsafe fn uri_parameters(path: *const c_char) -> Vec<CString> {
    let mut parameters = Vec::new();
    for index in 0.. {
        // SAFETY: by the caller's word; what is found is copied at once.
        let (name, value) = unsafe {
            let name = ffi::sqlite3_uri_key(path, index);
            if name.is_null() {
                break;
            }
            let value = ffi::sqlite3_uri_parameter(path, name);
            let value = if value.is_null() { c"" } else { CStr::from_ptr(value) };
            (CStr::from_ptr(name).to_owned(), value.to_owned())
        };
        parameters.extend([name, value]);
    }
    parameters
}

/// The lock under which SQLite will write this log; `None` if the database's file is another VFS's.
///
/// # Safety
/// `path` must be a log's, as SQLite gives it to `xOpen`.
unsafe fn write_lock_of_log(path: ffi::sqlite3_filename) -> Option<Arc<WriteLock>> {
    // SAFETY: by the caller's word; the file of its database is open.
    unsafe {
        let database = ffi::sqlite3_database_file_object(path);
        file::write_lock(database).or_else(|| watched::write_lock(database))
    }
}

/// Hands a call on to the platform's VFS, or answers `$missing` if it has no such method.
macro_rules! to_platform {
    ($vfs:ident, $method:ident($($argument:expr),*), $missing:expr) => {{
        // SAFETY: SQLite's contract, which the platform's VFS may rely on as we do.
        unsafe {
            let platform = registered($vfs).platform.pointer();
            match (*platform).$method {
                Some(method) => method(platform $(, $argument)*),
                None => $missing,
            }
        }
    }};
}

/// Returns true if the `Vfs` opens this file, and not the platform.
///
/// # Safety
/// As SQLite calls `xOpen`.
unsafe fn is_ours(vfs: *mut ffi::sqlite3_vfs, path: ffi::sqlite3_filename, flags: c_int) -> bool {
    // SAFETY: by the caller's word.
    match unsafe { registered(vfs) }.files {
        Files::All => true,
        // SAFETY: as above.
        Files::Logs => OpenFlags(flags).kind() == FileKind::Wal && unsafe { text(path) }.is_ok(),
    }
}

// The callbacks. All their SAFETY lines rest on SQLite's contract: `vfs` is ours,
// texts end with a zero, and places for answers may be written.

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    place: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's contract.
    if !unsafe { is_ours(vfs, path, flags) } {
        let code = to_platform!(vfs, xOpen(path, place, flags, flags_out), ffi::SQLITE_CANTOPEN);
        if code == ffi::SQLITE_OK && OpenFlags(flags).kind() == FileKind::MainDb {
            // SAFETY: it is open, and our `szOsFile` has room for what is put behind it.
            unsafe { watched::watch(place, registered(vfs).platform.file_bytes()) };
        }
        return code;
    }
    // SAFETY: `place` has room for SIZE_OF_FILE bytes. Until a file is in it, null
    // tells SQLite that there is nothing to close.
    unsafe { (*place).pMethods = ptr::null() };
    guarded(|| {
        let flags = OpenFlags(flags);
        // SAFETY: SQLite's contract.
        let (registered, text) = unsafe { (registered(vfs), text(path)?) };
        let is_uri = flags.kind() == FileKind::MainDb && flags.contains(OpenFlags::URI);
        let uri_parameters = if is_uri && text.is_some() {
            // SAFETY: it is a main database's.
            unsafe { uri_parameters(path) }
        } else {
            Vec::new()
        };
        let is_log = flags.kind() == FileKind::Wal && text.is_some();
        // SAFETY: it is a log's, as SQLite gives it to `xOpen`.
        let write_lock = if is_log { unsafe { write_lock_of_log(path) } } else { None };
        let (vfs, guard) = registered.opening()?;
        let opening = Opening { uri_parameters, write_lock };
        let opened = opening.run(|| vfs.open(text, flags))?;
        // SAFETY: as above, and `flags_out` is null or may be written.
        unsafe {
            file::place(place, opened.file, guard);
            if !flags_out.is_null() {
                *flags_out = opened.flags.0;
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite's contract.
    if unsafe { registered(vfs) }.files == Files::Logs {
        return to_platform!(vfs, xDelete(path, sync_folder), ffi::SQLITE_IOERR_DELETE);
    }
    guarded(|| {
        // SAFETY: SQLite's contract.
        let (registered, path) = unsafe { (registered(vfs), text(path)?) };
        registered.vfs()?.delete(path.ok_or(VfsError::IO_DELETE)?, sync_folder != 0)
    })
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's contract.
    if unsafe { registered(vfs) }.files == Files::Logs {
        return to_platform!(vfs, xAccess(path, flags, answer), ffi::SQLITE_IOERR_ACCESS);
    }
    guarded(|| {
        let access = match flags {
            ffi::SQLITE_ACCESS_READWRITE => Access::ReadWrite,
            ffi::SQLITE_ACCESS_READ => Access::Read,
            _ => Access::Exists,
        };
        // SAFETY: SQLite's contract.
        let (registered, path) = unsafe { (registered(vfs), text(path)?) };
        let exists = registered.vfs()?.exists(path.ok_or(VfsError::IO_ACCESS)?, access)?;
        // SAFETY: SQLite's contract.
        unsafe { *answer = c_int::from(exists) };
        Ok(())
    })
}

unsafe extern "C" fn full_path(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    room_bytes: c_int,
    place: *mut c_char,
) -> c_int {
    // SAFETY: SQLite's contract.
    if unsafe { registered(vfs) }.files == Files::Logs {
        return to_platform!(vfs, xFullPathname(path, room_bytes, place), ffi::SQLITE_CANTOPEN);
    }
    let mut followed_link = false;
    let code = guarded(|| {
        // SAFETY: SQLite's contract.
        let (registered, path) = unsafe { (registered(vfs), text(path)?) };
        let vfs = registered.vfs()?;
        let path = path.ok_or(VfsError::CANNOT_OPEN)?;
        let (full_path, link) = beside::watch_links(|| vfs.full_path(path));
        let full_path = CString::new(full_path?).map_err(|_| VfsError::CANNOT_OPEN)?;
        let bytes = full_path.as_bytes_with_nul();
        if bytes.len() > usize::try_from(room_bytes).unwrap_or(0) {
            return Err(VfsError::CANNOT_OPEN);
        }
        // SAFETY: there is room for that many bytes, and the text is our own.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), place, bytes.len()) };
        followed_link = link;
        Ok(())
    });
    if code == ffi::SQLITE_OK && followed_link { ffi::SQLITE_OK_SYMLINK } else { code }
}

unsafe extern "C" fn extension_open(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
) -> *mut c_void {
    to_platform!(vfs, xDlOpen(path), ptr::null_mut())
}

unsafe extern "C" fn extension_error(
    vfs: *mut ffi::sqlite3_vfs,
    room_bytes: c_int,
    message: *mut c_char,
) {
    to_platform!(vfs, xDlError(room_bytes, message), ());
}

type Symbol = unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *mut c_void, *const c_char);

unsafe extern "C" fn extension_symbol(
    vfs: *mut ffi::sqlite3_vfs,
    library: *mut c_void,
    symbol: *const c_char,
) -> Option<Symbol> {
    to_platform!(vfs, xDlSym(library, symbol), None)
}

unsafe extern "C" fn extension_close(vfs: *mut ffi::sqlite3_vfs, library: *mut c_void) {
    to_platform!(vfs, xDlClose(library), ());
}

unsafe extern "C" fn randomness(
    vfs: *mut ffi::sqlite3_vfs,
    bytes: c_int,
    place: *mut c_char,
) -> c_int {
    to_platform!(vfs, xRandomness(bytes, place), 0)
}

unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    to_platform!(vfs, xSleep(microseconds), 0)
}

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, julian_days: *mut f64) -> c_int {
    to_platform!(vfs, xCurrentTime(julian_days), ffi::SQLITE_ERROR)
}

unsafe extern "C" fn last_error(
    vfs: *mut ffi::sqlite3_vfs,
    room_bytes: c_int,
    message: *mut c_char,
) -> c_int {
    to_platform!(vfs, xGetLastError(room_bytes, message), 0)
}

unsafe extern "C" fn current_time_ms(vfs: *mut ffi::sqlite3_vfs, answer: *mut i64) -> c_int {
    to_platform!(vfs, xCurrentTimeInt64(answer), ffi::SQLITE_ERROR)
}
