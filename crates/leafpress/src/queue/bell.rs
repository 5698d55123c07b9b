//! Waiting for jobs within one process; foreign writers are noticed once a second.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::writer::lock;

const LOOK_AT_LEAST: Duration = Duration::from_secs(1);

/// The bells of one database.
pub(super) struct Bells {
    rung: Mutex<(u64, bool)>,
    changed: Condvar,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl std::fmt::Debug for Bells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bells(..)")
    }
}

/// Why a waiter woke up.
pub(super) enum Woken {
    Look,
    TimedOut,
    Closed,
}

/// Somebody who waits.
pub(super) struct Waiter {
    bells: Arc<Bells>,
    seen: u64,
}

impl Bells {
    pub(super) fn new(
        _database: &Path,
        _vfs: Option<&str>,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self { rung: Mutex::default(), changed: Condvar::new(), now_ms })
    }

    pub(super) fn ring(&self, _queue: &str, _jobs: u32) {
        lock(&self.rung).0 += 1;
        self.changed.notify_all();
    }

    pub(super) fn waiter(self: &Arc<Self>, _queue: &str) -> Result<Waiter> {
        let seen = lock(&self.rung).0;
        Ok(Waiter { bells: Arc::clone(self), seen })
    }

    pub(super) fn close(&self) {
        lock(&self.rung).1 = true;
        self.changed.notify_all();
    }
}

/// Calls one waiter away from the bell, whatever it waits for.
#[derive(Clone)]
pub(super) struct Caller(Arc<Bells>);

impl Caller {
    /// Ends the waiter's wait, or its next one, with [`Woken::Look`].
    pub(super) fn call(&self) {
        self.0.ring("", 1);
    }
}

impl Waiter {
    /// For whoever may have to end its waits from another thread.
    pub(super) fn caller(&self) -> Caller {
        Caller(Arc::clone(&self.bells))
    }

    /// To be called when the look found a job.
    pub(super) fn found(&mut self) {}

    pub(super) fn wait(&mut self, next_due_ms: Option<i64>, deadline: Option<Instant>) -> Woken {
        let now_ms = (self.bells.now_ms)();
        let due = next_due_ms.map_or(LOOK_AT_LEAST, |due_ms| {
            Duration::from_millis(u64::try_from(due_ms - now_ms).unwrap_or(0)).min(LOOK_AT_LEAST)
        });
        let look_at = Instant::now() + due;
        let mut rung = lock(&self.bells.rung);
        loop {
            if rung.1 {
                return Woken::Closed;
            }
            if rung.0 != self.seen {
                self.seen = rung.0;
                return Woken::Look;
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Woken::TimedOut;
            }
            if look_at <= now {
                return Woken::Look;
            }
            let until = deadline.map_or(look_at, |deadline| deadline.min(look_at));
            let woken = self.bells.changed.wait_timeout(rung, until - now);
            rung = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
