//! Locks of others, for tests: leases on files, as file servers take them, and POSIX locks of this
//! process, as another copy of SQLite has them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Sets the signal that asks for a lease; `libc` does not have it.
const F_SETSIG: libc::c_int = 10;

/// Takes a read lease on a file that is open for reading alone. Each opening for writing waits until
/// it is given back.
///
/// # Errors
/// The system's.
pub fn take_lease(file: &File) -> io::Result<()> {
    // One that is ignored unless it is waited for.
    set(file, F_SETSIG, libc::SIGURG)?;
    set(file, libc::F_SETLEASE, libc::F_RDLCK)
}

/// Gives the lease back.
///
/// # Errors
/// The system's.
pub fn give_lease_back(file: &File) -> io::Result<()> {
    set(file, libc::F_SETLEASE, libc::F_UNLCK)
}

fn set(file: &File, command: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open, and these commands take a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, value) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Takes a read lock of the process on one byte, which lasts until any descriptor of the file is
/// closed.
///
/// # Errors
/// The system's.
pub fn lock_byte_as_process(file: &File, start: i64) -> io::Result<()> {
    let lock = libc::flock {
        l_type: libc::F_RDLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: start as _,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the lock outlives the call, which reads it.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Closes the standard streams of this process.
pub fn close_standard_streams() {
    for number in 0..3 {
        // SAFETY: a number is passed. The standard library opens none of them by itself.
        unsafe { libc::close(number) };
    }
}
