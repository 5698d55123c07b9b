//! A database file of the platform's whose locks are noted on their way.
//!
//! For a VFS that is for logs only: SQLite calls the platform's methods for the database, except the
//! four that open or close a lock. These note the outcome in a [`WriteLock`] for the log.
//!
//! ```text
//! SQLite's memory for the file:  platform's file │ pointer to the WriteLock
//! its methods:                   the platform's, four of them replaced │ the platform's own, …
//! ```
//!
//! Invariants:
//! 1. A file whose methods are a [`Table`]'s has a pointer from `Arc::into_raw` behind it.
//! 2. Tables live for ever, as the platform's do.

use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Mutex};

use rusqlite::ffi;

use super::words::{LockLevel, ShmLock};
use super::write_lock::WriteLock;
use crate::fork::Turn;
use crate::sync::lock;

type Methods = ffi::sqlite3_io_methods;
type Slot = *const WriteLock;
type Close = unsafe extern "C" fn(*mut ffi::sqlite3_file) -> c_int;

/// Methods for files of one kind of the platform's.
#[repr(C)]
struct Table {
    /// The methods that SQLite calls. The first field: a pointer to it is one to the table.
    watched: Methods,
    platforms: &'static Methods,
    /// Offset of the pointer behind the platform's file.
    slot_at: usize,
}

static TABLES: Mutex<Vec<&'static Table>> = Mutex::new(Vec::new());

/// Bytes of memory for a file of the platform's that takes `platform_bytes`.
pub(super) fn bytes_of_file(platform_bytes: c_int) -> c_int {
    (slot_at(platform_bytes) + size_of::<Slot>()) as c_int
}

fn slot_at(platform_bytes: c_int) -> usize {
    usize::try_from(platform_bytes).unwrap_or(0).next_multiple_of(align_of::<Slot>())
}

/// Watches the locks of a file that the platform has just opened.
///
/// # Safety
/// `file` must be open, of a VFS whose files take `platform_bytes`, and there must be
/// [`bytes_of_file`] bytes for it, aligned to 8. The platform's methods live for ever, in their
/// version 3.
pub(super) unsafe fn watch(file: *mut ffi::sqlite3_file, platform_bytes: c_int) {
    // SAFETY: by the caller's word; null stands for a file that is not open.
    let Some(platforms) = (unsafe { (*file).pMethods.as_ref::<'static>() }) else { return };
    let table = table_of(platforms, slot_at(platform_bytes));
    // SAFETY: by the caller's word, there is room for the pointer.
    unsafe {
        slot(file, table).write(Arc::into_raw(Arc::default()));
        // From the whole table, as `table` gets it back.
        (*file).pMethods = ptr::from_ref(table).cast::<Methods>();
    }
}

/// The lock that is noted for this file; `None` if it is not watched.
///
/// # Safety
/// `file` must be null or open.
pub(super) unsafe fn write_lock(file: *mut ffi::sqlite3_file) -> Option<Arc<WriteLock>> {
    // SAFETY: by the caller's word. Only our tables have this method.
    unsafe {
        let methods = file.as_ref()?.pMethods.as_ref()?;
        methods.xClose.filter(|it| ptr::fn_addr_eq(*it, close as Close))?;
        let pointer = *slot(file, table(file));
        Arc::increment_strong_count(pointer);
        Some(Arc::from_raw(pointer))
    }
}

/// The table with these methods of the platform's, made at its first file.
fn table_of(platforms: &'static Methods, slot_at: usize) -> &'static Table {
    let _turn = Turn::Registrations.take();
    let mut tables = lock(&TABLES);
    let is_it = |table: &&&Table| ptr::eq(table.platforms, platforms) && table.slot_at == slot_at;
    if let Some(table) = tables.iter().find(is_it) {
        return table;
    }
    let watched = Methods {
        xClose: Some(close),
        xLock: platforms.xLock.map(|_| lock_file as _),
        xUnlock: platforms.xUnlock.map(|_| unlock_file as _),
        xShmLock: platforms.xShmLock.map(|_| shm_lock as _),
        ..*platforms
    };
    let table: &'static Table = Box::leak(Box::new(Table { watched, platforms, slot_at }));
    tables.push(table);
    table
}

/// # Safety
/// `file` must be watched.
unsafe fn table(file: *mut ffi::sqlite3_file) -> &'static Table {
    // SAFETY: by the caller's word, its methods are the first field of a table (invariant 2).
    unsafe { &*(*file).pMethods.cast::<Table>() }
}

/// # Safety
/// There must be room for the pointer behind `file`.
unsafe fn slot(file: *mut ffi::sqlite3_file, table: &Table) -> *mut Slot {
    // SAFETY: by the caller's word; the offset is aligned, as the memory is.
    unsafe { file.cast::<Slot>().byte_add(table.slot_at) }
}

/// Runs a method of the platform's, then `note` with its code.
///
/// # Safety
/// `file` must be watched, and `call` must be SQLite's call of the method.
unsafe fn noted(
    file: *mut ffi::sqlite3_file,
    call: impl FnOnce(&Methods) -> Option<c_int>,
    note: impl FnOnce(&WriteLock, c_int),
) -> c_int {
    // SAFETY: by the caller's word, and invariant 1.
    let (table, lock) = unsafe { (table(file), &**slot(file, table(file))) };
    let code = call(table.platforms).unwrap_or(ffi::SQLITE_ERROR);
    note(lock, code);
    code
}

// The callbacks. All their SAFETY lines rest on SQLite's contract: `file` is open and watched, and
// used by this thread only; the platform's methods may rely on that contract as we do.

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite's contract. The pointer is read before the platform forgets its file, and is
    // not used again.
    unsafe {
        let table = table(file);
        let pointer = *slot(file, table);
        (*file).pMethods = table.platforms;
        let code = table.platforms.xClose.map_or(ffi::SQLITE_OK, |close| close(file));
        drop(Arc::from_raw(pointer));
        code
    }
}

unsafe extern "C" fn lock_file(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite's contract.
    let call = |it: &Methods| it.xLock.map(|method| unsafe { method(file, level) });
    let note = |lock: &WriteLock, code| {
        if code == ffi::SQLITE_OK && level == ffi::SQLITE_LOCK_EXCLUSIVE {
            lock.note_file_lock(LockLevel::Exclusive);
        }
    };
    // SAFETY: SQLite's contract.
    unsafe { noted(file, call, note) }
}

unsafe extern "C" fn unlock_file(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite's contract.
    let call = |it: &Methods| it.xUnlock.map(|method| unsafe { method(file, level) });
    // SAFETY: SQLite's contract. It only gives back to SHARED or NONE.
    unsafe { noted(file, call, |lock, _| lock.note_file_lock(LockLevel::None)) }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let call = |it: &Methods| {
        // SAFETY: SQLite's contract.
        it.xShmLock.map(|method| unsafe { method(file, first, count, flags) })
    };
    let note = |lock: &WriteLock, code| {
        let first = u32::try_from(first).unwrap_or(0);
        lock.note_shm_lock(first, ShmLock::of_flags(flags), code == ffi::SQLITE_OK);
    };
    // SAFETY: SQLite's contract.
    unsafe { noted(file, call, note) }
}
