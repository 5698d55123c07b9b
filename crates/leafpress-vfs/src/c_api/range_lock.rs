//! A lock on a part of a file that belongs to one opening of it, not to the process.
//!
//! SQLite's locks are POSIX locks, which belong to a process and a file: closing *any*
//! descriptor of the file drops all of them, and two copies of SQLite in one process never
//! exclude each other. Linux and macOS have a second kind, *open file description locks*
//! (OFD), which keep POSIX locks out and are kept out by them, those of this process
//! included. Used by `locks/` only.
//!
//! Must never: wait unless [`How::Wait`] says so.

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, RawFd};

/// Way to ask for a lock; as in `system_calls.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Returns the lock of another owner that is in the way.
    Get = 0,
    /// Takes or releases the lock, at once or not at all.
    Set = 1,
    /// Takes the lock, and waits for it.
    Wait = 2,
}

/// Kind of a lock; as in `system_calls.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// No lock: the one that is held there is released.
    None = 0,
    /// Shared by all who read.
    Read = 1,
    /// Held by one owner alone.
    Write = 2,
}

impl Lock {
    pub(super) const fn from_c(lock: c_int) -> Self {
        match lock {
            1 => Self::Read,
            2 => Self::Write,
            _ => Self::None,
        }
    }
}

/// Bytes of a file; a length of 0 means up to the end of the file, also after it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    pub start: i64,
    pub length: i64,
}

impl Bytes {
    pub const ALL: Self = Self { start: 0, length: 0 };

    /// Offsets of the bytes.
    pub const fn range(self) -> Range<i64> {
        let end = if self.length == 0 { i64::MAX } else { self.start.saturating_add(self.length) };
        self.start..end
    }
}

/// A lock of another owner, or [`Lock::None`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTheWay {
    pub lock: Lock,
    /// The process that holds it; -1 where the lock belongs to an open file description.
    pub process: i64,
}

unsafe extern "C" {
    fn leafpress_range_lock(
        descriptor: c_int,
        how: c_int,
        lock: *mut c_int,
        start: i64,
        bytes: i64,
        process: *mut i64,
    ) -> c_int;
}

/// Asks for `lock` on `bytes` of the open file behind `descriptor`.
///
/// For [`How::Get`] the answer is the lock that is in the way. Otherwise it is the lock that was
/// asked for, and that lock is held now.
///
/// # Errors
/// `EAGAIN` or `EACCES` if another owner's lock is in the way, `EBADF` if the descriptor
/// is not open for reading or writing as the lock needs it, `EINVAL` or `ENOTSUP` where
/// there are no such locks. What was held before is still held.
pub fn ask(descriptor: RawFd, how: How, lock: Lock, bytes: Bytes) -> io::Result<InTheWay> {
    let (mut found, mut process) = (lock as c_int, 0);
    // SAFETY: the two numbers outlive the call; what else is passed are numbers, and one that
    // is no open file gives an error.
    let answer = unsafe {
        leafpress_range_lock(
            descriptor,
            how as c_int,
            &raw mut found,
            bytes.start,
            bytes.length,
            &raw mut process,
        )
    };
    match -answer {
        0 => Ok(InTheWay { lock: Lock::from_c(found), process }),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Returns true if this error means that another owner holds a lock there.
pub fn is_held(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

/// Takes a lock on the whole of `file` alone, for as long as this opening of it lasts
/// (closing it gives the lock up); `false` if any lock of another owner is on any part of it.
///
/// Until then every other attempt to lock the file, of this process too, finds it busy.
///
/// # Errors
/// If such locks are not known here, or the file is not open for writing. No lock is held.
pub fn lock_whole_file(file: &std::fs::File) -> io::Result<bool> {
    match ask(file.as_raw_fd(), How::Set, Lock::Write, Bytes::ALL) {
        Ok(_) => Ok(true),
        Err(error) if is_held(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Does another owner hold a lock on any part of `file`? Takes none.
///
/// # Errors
/// If such locks are not known here.
pub fn is_locked(file: &std::fs::File) -> io::Result<bool> {
    let found = ask(file.as_raw_fd(), How::Get, Lock::Write, Bytes::ALL)?;
    Ok(found.lock != Lock::None)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn one_opening_keeps_the_others_out_until_it_is_closed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (first, second) = (open(), open());
        assert!(lock_whole_file(&first).unwrap());
        assert!(lock_whole_file(&first).unwrap(), "held already");
        assert!(!lock_whole_file(&second).unwrap());
        assert!(is_locked(&second).unwrap() && !is_locked(&first).unwrap());
        drop(first);
        assert!(lock_whole_file(&second).unwrap());
    }

    #[test]
    fn a_file_that_cannot_be_written_cannot_be_locked_but_asked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = File::open(file.path()).unwrap();
        assert!(lock_whole_file(&reader).is_err());
        assert!(!is_locked(&reader).unwrap());
        let writer = File::options().write(true).open(file.path()).unwrap();
        assert!(lock_whole_file(&writer).unwrap());
        assert!(is_locked(&reader).unwrap());
    }

    #[test]
    fn an_owner_is_told_from_a_process() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (first, second) = (open(), open());
        let bytes = Bytes { start: 120, length: 1 };
        ask(first.as_raw_fd(), How::Set, Lock::Read, bytes).unwrap();
        let found = ask(second.as_raw_fd(), How::Get, Lock::Write, bytes).unwrap();
        assert_eq!(found, InTheWay { lock: Lock::Read, process: -1 });
        rustix::fs::fcntl_lock(&second, rustix::fs::FlockOperation::LockShared).unwrap();
        let posix = ask(first.as_raw_fd(), How::Get, Lock::Write, Bytes::ALL).unwrap();
        assert_eq!(posix.process, i64::from(std::process::id()));
    }

    #[test]
    fn bytes_without_a_length_go_to_the_end() {
        assert_eq!(Bytes::ALL.range(), 0..i64::MAX);
        assert_eq!(Bytes { start: 5, length: 2 }.range(), 5..7);
        assert_eq!(Bytes { start: i64::MAX, length: 9 }.range(), i64::MAX..i64::MAX);
    }
}
