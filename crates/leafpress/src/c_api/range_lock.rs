//! A lock on a whole file that belongs to one opening of it, not to the process.
//!
//! SQLite's locks are POSIX locks, which belong to a process and a file: closing
//! *any* descriptor of the file drops all of them. Linux has a second kind, "open file
//! description locks", which keep POSIX locks out and are kept out by them, those of
//! the same process included. So whoever gets one on a whole file knows that nobody
//! holds a lock there, and that nobody can take one until it is given up: such a
//! descriptor can be closed and nothing is dropped.
//!
//! Used by `vfs/platform_disk/registry.rs` only. Must never: wait.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Takes a lock on the whole of `file` alone, for as long as this opening of it lasts
/// (closing it gives the lock up); `false` if anybody holds any lock on any part of it.
///
/// Until then every other attempt to lock the file, of this process too, finds it busy.
///
/// # Errors
/// Where such locks are not known, or the file is not open for writing. No lock is held.
pub(crate) fn lock_whole_file(file: &File) -> io::Result<bool> {
    let range = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        // To the end of the file, wherever that comes to be.
        l_len: 0,
        // Must be 0 for locks of this kind.
        l_pid: 0,
    };
    loop {
        // SAFETY: the descriptor is open as long as `file` is borrowed, and this command
        // reads one `flock`, which outlives the call.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
        if answer == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_opening_keeps_the_others_out_until_it_is_closed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (first, second) = (open(), open());
        assert!(lock_whole_file(&first).unwrap());
        assert!(lock_whole_file(&first).unwrap(), "held already");
        assert!(!lock_whole_file(&second).unwrap());
        drop(first);
        assert!(lock_whole_file(&second).unwrap());
    }

    #[test]
    fn a_file_that_cannot_be_written_cannot_be_locked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = File::open(file.path()).unwrap();
        assert!(lock_whole_file(&reader).is_err());
    }
}
