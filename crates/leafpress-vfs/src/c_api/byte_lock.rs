//! The lock of one byte behind the end of a file, as the lock of a whole file on Windows.
//!
//! There a lock forbids all other openings to read and write the bytes that it covers. A lock of the whole file,
//! which the standard library takes, would keep SQLite out of a file that a load has just written.

use std::fs::{File, TryLockError};
use std::io;
use std::os::windows::io::AsRawHandle as _;

use windows_sys::Win32::Foundation::ERROR_LOCK_VIOLATION;
use windows_sys::Win32::Storage::FileSystem::{
    LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};

/// No database is as large (SQLite's limit is 256 TiB), and its own locks are at 1 GiB.
const BYTE: u64 = 1 << 62;

/// Waits for the lock, and holds it until the file is closed.
pub fn lock(file: &File) -> io::Result<()> {
    take(file, LOCKFILE_EXCLUSIVE_LOCK)
}

/// Takes the lock, and holds it until the file is closed.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    take(file, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY).map_err(|error| {
        match error.raw_os_error() {
            Some(code) if code as u32 == ERROR_LOCK_VIOLATION => TryLockError::WouldBlock,
            _ => TryLockError::Error(error),
        }
    })
}

fn take(file: &File, flags: u32) -> io::Result<()> {
    let place = OVERLAPPED_0_0 { Offset: BYTE as u32, OffsetHigh: (BYTE >> 32) as u32 };
    let mut place =
        OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: place }, ..OVERLAPPED::default() };
    // SAFETY: the handle is open and was not opened for calls that end later, so `place` is used
    // until this call returns only.
    match unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
