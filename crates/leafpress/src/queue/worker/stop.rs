//! The wish to stop, for every worker that looks at it.
//!
//! Stands beside the pool: the part of the program that handles signals holds a clone. Must never:
//! stop a handler by force, since a thread cannot be ended from outside.
//!
//! 1. Once asked, it stays asked.
//! 2. A worker that registered is woken at least once after that, also if it was asked before.
//! 3. A child of `fork` has a wish of its own from then on, and cannot wake
//!    the workers of its parent, nor register its own.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::fork::OfProcess;
use crate::sync::lock;

/// Asks workers to take no more jobs. Clones are the same wish.
///
/// It may be asked from any thread, but not from inside of a signal handler in
/// the sense of C, as it takes a lock; crates for signals call a thread.
///
/// In a child of `fork` it asks no worker of the parent, and a worker of the child
/// needs one that was made there.
#[derive(Clone, Default)]
pub struct Stop {
    wish: Arc<Wish>,
}

struct Wish {
    is_asked: AtomicBool,
    wakers: OfProcess<Mutex<Wakers>>,
}

impl Default for Wish {
    fn default() -> Self {
        let wakers = OfProcess::new("wish to stop", Mutex::default());
        Self { is_asked: AtomicBool::default(), wakers }
    }
}

#[derive(Default)]
struct Wakers {
    last_id: u64,
    entries: Vec<(u64, Waker)>,
}

type Waker = Box<dyn Fn() + Send>;

impl Stop {
    /// A wish that is not asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every worker that looks at it to take no more jobs.
    pub fn now(&self) {
        self.wish.is_asked.store(true, Ordering::SeqCst);
        let Some(wakers) = self.wish.wakers.here() else { return };
        for (_, wake) in &lock(wakers).entries {
            wake();
        }
    }

    /// Returns true if it was asked.
    pub fn is_asked(&self) -> bool {
        self.wish.is_asked.load(Ordering::SeqCst)
    }

    /// Has `wake` called when it is asked, until the registration is dropped.
    ///
    /// # Errors
    /// A child of the process that made the stop.
    pub(super) fn on_stop(&self, wake: impl Fn() + Send + 'static) -> Result<Registration> {
        let mut wakers = lock(self.wish.wakers.get()?);
        wakers.last_id += 1;
        let id = wakers.last_id;
        // Asked between this look and the push it cannot be without our lock
        // being waited for: `now` sets the flag before it takes the lock.
        if self.is_asked() {
            wake();
        }
        wakers.entries.push((id, Box::new(wake)));
        drop(wakers);
        Ok(Registration { stop: self.clone(), id })
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("is_asked", &self.is_asked()).finish_non_exhaustive()
    }
}

/// Ends with the worker that registered.
pub(super) struct Registration {
    stop: Stop,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(wakers) = self.stop.wish.wakers.here() {
            lock(wakers).entries.retain(|(id, _)| *id != self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_thread_that_registers_is_woken_early_or_late_and_not_after_it_left() {
        let stop = Stop::new();
        let calls = Arc::new(AtomicU32::new(0));
        let count = |calls: &Arc<AtomicU32>| {
            let calls = Arc::clone(calls);
            move || {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        drop(stop.on_stop(count(&calls)).expect("no fork"));
        let early = stop.on_stop(count(&calls)).expect("no fork");
        assert!(!stop.is_asked() && calls.load(Ordering::SeqCst) == 0);
        stop.clone().now();
        assert!(stop.is_asked());
        assert_eq!(calls.load(Ordering::SeqCst), 1, "the one that left is not called");
        let _late = stop.on_stop(count(&calls)).expect("no fork");
        assert_eq!(calls.load(Ordering::SeqCst), 2, "asked before");
        drop(early);
    }
}
