//! The request to stop a load, which its input looks at too.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{ErrorKind, Result};

/// Request to stop a running load. All clones are one token.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests the stop; the load ends within about a block, with nothing written.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if the stop was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if the stop was requested.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(ErrorKind::Cancelled.into()) } else { Ok(()) }
    }
}

/// A reader that fails once the stop is requested.
pub struct Stoppable<R> {
    pub reader: R,
    pub cancel: CancelToken,
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("stopped before the end, as asked"));
        }
        self.reader.read(buffer)
    }
}
