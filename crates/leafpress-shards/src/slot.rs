//! The connection of a part, which one thread uses at a time.
//!
//! Must never: wait for another thread without a look at the caller's wish to stop.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use leafpress::vfs::sync::lock;
use leafpress::{ErrorKind, Result};
use rusqlite::Connection;

use crate::cache::Cached;
#[cfg(feature = "object-store")]
use crate::remote::RemoteDatabase;
use crate::threads::WAIT_SLICE;

/// Returns true once the caller wants the work to stop.
pub type Look = Box<dyn FnMut() -> bool + Send>;

/// The connection of a part.
#[derive(Default)]
pub struct Slot {
    place: Mutex<SlotState>,
    is_back: Condvar,
    /// The number of its last use, among those of all parts.
    pub used: AtomicU64,
}

enum SlotState {
    /// No thread uses the part; there is none if it was not opened, or was closed.
    Here(Option<Box<Part>>),
    /// A thread uses it.
    Taken,
}

impl Default for SlotState {
    fn default() -> Self {
        Self::Here(None)
    }
}

/// A part that this thread uses, until this is dropped.
pub struct InUse<'s> {
    slot: &'s Slot,
    pub part: Option<Box<Part>>,
}

impl Slot {
    /// Takes the part, for which the thread waits.
    ///
    /// # Errors
    /// [`Cancelled`](ErrorKind::Cancelled) once `stop` returns true.
    pub fn take(&self, stop: impl FnOnce() -> Look) -> Result<InUse<'_>> {
        if let Some(found) = self.try_take() {
            return Ok(found);
        }
        let mut stop = stop();
        loop {
            let place = lock(&self.place);
            if matches!(*place, SlotState::Taken) {
                // Without a mutex that is held, since a look may wait for other threads.
                drop(
                    self.is_back
                        .wait_timeout(place, WAIT_SLICE)
                        .unwrap_or_else(PoisonError::into_inner),
                );
                if stop() {
                    return Err(ErrorKind::Cancelled.into());
                }
            } else {
                drop(place);
            }
            if let Some(found) = self.try_take() {
                return Ok(found);
            }
        }
    }

    /// Takes the part, unless another thread has it.
    pub fn try_take(&self) -> Option<InUse<'_>> {
        match std::mem::replace(&mut *lock(&self.place), SlotState::Taken) {
            SlotState::Here(part) => Some(InUse { slot: self, part }),
            SlotState::Taken => None,
        }
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        *lock(&self.slot.place) = SlotState::Here(self.part.take());
        self.slot.is_back.notify_one();
    }
}

/// A part that is open.
pub struct Part {
    pub connection: Connection,
    /// The space that its copy takes.
    pub _copy: Option<Cached>,
    /// Counts the files that are open; `None` for an object.
    pub _file: Option<Arc<()>>,
    /// The object that the connection reads by ranges.
    #[cfg(feature = "object-store")]
    pub remote: Option<RemoteDatabase>,
}
