//! The numbers of the standard streams: no file of ours gets one.
//!
//! A program may have closed a stream. The next file that is opened would get its number, and
//! what another part of the program writes to the standard error would go into that file.
//!
//! Must never: close a descriptor of a file, since that drops locks. So the numbers are taken
//! before a file is opened.

use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_getfd;

use crate::c_api::system_calls::with_descriptor;

/// The first number that is not of a standard stream.
const FIRST: RawFd = 3;

/// Puts a dead file in the place of each standard stream that is closed, for good. To the program
/// and those that it starts, the stream is as closed as before.
///
/// # Errors
/// The system's: too many files are open.
pub(crate) fn occupy() -> rustix::io::Result<()> {
    let is_open = |number| with_descriptor(number, |it| fcntl_getfd(it).ok()).is_some();
    while !(0..FIRST).all(is_open) {
        let dead = dead_file()?;
        if dead.as_raw_fd() >= FIRST {
            // Another thread has taken the last number meanwhile.
            break;
        }
        mem::forget(dead);
    }
    Ok(())
}

/// A file that can be neither read nor written nor locked.
pub(crate) fn dead_file() -> rustix::io::Result<OwnedFd> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let flags = OFlags::PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    rustix::fs::open("/", flags | OFlags::CLOEXEC, Mode::empty())
}
