//! Standard input that ctrl-C can end. A load must end even while it waits for a pipe that says
//! nothing.
//!
//! Stands before the loader, which sees an ordinary reader. Must never: buffer,
//! since what the loader reads is large enough already.

use std::io::{self, Read};

use leafpress::load::CancelToken;
#[cfg(unix)]
use leafpress::load::wait_to_read;

/// Name of standard input in messages and in the default table's name.
pub const STDIN_NAME: &str = "<stdin>";

/// Standard input, until the token is cancelled.
#[cfg(unix)]
pub struct InterruptibleStdin {
    file: std::fs::File,
    token: CancelToken,
}

#[cfg(unix)]
impl InterruptibleStdin {
    /// Takes standard input; no other code of the process may read it meanwhile.
    pub fn new(token: CancelToken) -> io::Result<Self> {
        use std::os::fd::AsFd as _;

        let file = io::stdin().as_fd().try_clone_to_owned()?.into();
        Ok(Self { file, token })
    }
}

#[cfg(unix)]
impl Read for InterruptibleStdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait_to_read(&self.file, &self.token)?;
        self.file.read(buffer)
    }
}

/// Standard input; where it cannot be waited for, only a second ctrl-C ends the wait.
#[cfg(not(unix))]
pub struct InterruptibleStdin;

#[cfg(not(unix))]
impl InterruptibleStdin {
    /// Takes standard input.
    pub fn new(_token: CancelToken) -> io::Result<Self> {
        Ok(Self)
    }
}

#[cfg(not(unix))]
impl Read for InterruptibleStdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().read(buffer)
    }
}
