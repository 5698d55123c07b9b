//! The call of Linux that starts to write what the page cache holds of a file.

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Starts to write the changed pages of a file from the page cache, and does not wait for the disk.
pub fn start(file: BorrowedFd<'_>) {
    // SAFETY: numbers are passed, and the descriptor is open. A refusal changes nothing.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
