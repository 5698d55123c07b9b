//! Which process this is, counted by forks.
//!
//! A child of `fork` gets a copy of all that its parent had open, and must use none of it:
//! the threads are gone, and connections and locks are the parent's. What belongs to a
//! process keeps a [`Process`] from its making and asks it first.
//!
//! Stands beside every stage. Must never: ask the system, as each call of a writer asks here.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Forks between the first process and this one, as far as they went through the C library
/// after the first connection was opened.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts a fork, in the child, and says the how manyeth it is.
#[cfg(unix)]
pub(crate) fn count_child() -> u32 {
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1
}

/// The process in which a thing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The one that runs now.
    pub fn current() -> Self {
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Returns true if no fork lies between the making and now.
    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Refuses a call of `thing` in a child of the process that made it.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; nothing was done.
    pub fn check(self, thing: &'static str) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(Error::from(ErrorKind::Forked { thing })
            .on_disk("nothing of this call; the parent process goes on undisturbed")
            .to_do("open a new one in this process, after the fork"))
    }
}
