//! An input that is given by its name and is no regular file: a pipe, a terminal, a device.
//!
//! A pipe may say nothing for as long as it likes, and one without a writer cannot be opened by
//! then. Must never: wait for it beyond the wish to stop.

use std::io::{self, Read};
use std::path::Path;

use crate::cancel::CancelToken;
use crate::vfs::locks::{FileHandle, Open};

/// A file whose reader is asked to stop by the token.
pub struct Pipe {
    file: FileHandle,
    #[cfg_attr(not(unix), expect(dead_code, reason = "nothing waits for a file there"))]
    token: CancelToken,
}

impl Pipe {
    /// Opens the file to be read.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path, token: &CancelToken) -> io::Result<Self> {
        // Only Linux lets `poll` wait for the first writer of a pipe; other systems take the pipe
        // for one that has ended.
        let how = if cfg!(target_os = "linux") { Open::ReadAtOnce } else { Open::Read };
        Ok(Self { file: FileHandle::open_as(path, how)?, token: token.clone() })
    }

    #[cfg(unix)]
    fn wait(&self) -> io::Result<()> {
        wait_to_read(&self.file, &self.token)
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on Unix")]
    fn wait(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until there is something to read, or the token is cancelled.
///
/// # Errors
/// The system's, and one that says "stopped".
#[cfg(unix)]
pub fn wait_to_read(file: &std::fs::File, token: &CancelToken) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !token.is_cancelled() {
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&tick)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("stopped"))
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match self.file.read(buffer) {
                // Another reader was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}
