//! The argument of a handler, and its answer.
//!
//! Stands between the pool and the caller's handler. Must never: touch the
//! database; the pool settles what the handler answers.

use std::fmt;
use std::ops::Deref;
use std::sync::Mutex;
use std::time::Duration;

use super::Stop;
use crate::fork::OfProcess;
use crate::queue::{Claim, Payload};
use crate::sync::lock;
use crate::writer::caught;

/// The answer of a handler about its job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is done.
    Done,
    /// The job is done, with this result, which is kept as long as the queue keeps done jobs.
    DoneWith(Payload),
    /// The attempt failed. The job is tried again if it has attempts left; else it is dead.
    Retry {
        /// Description of the error.
        error: String,
        /// Delay before the next attempt; if none is given, by the queue's backoff.
        delay: Option<Duration>,
    },
    /// The job can never be done: it becomes a dead letter at once.
    Dead {
        /// Reason of the failure.
        reason: String,
    },
    /// Nothing was done: it is ready again at once, and this was not an attempt.
    Release,
}

/// Done, or to be tried again with the error's text.
impl<E: fmt::Display> From<Result<(), E>> for Outcome {
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => Self::Retry { error: error.to_string(), delay: None },
        }
    }
}

/// A job in a handler's hands: its [`Claim`], and whether it is still ours.
pub struct JobContext {
    claim: Claim,
    stop: Stop,
    lease: OfProcess<Mutex<LeaseState>>,
}

#[derive(Default)]
struct LeaseState {
    is_lost: bool,
    to_tell: Vec<Box<dyn FnOnce() + Send>>,
}

impl JobContext {
    pub(super) fn new(claim: Claim, stop: Stop) -> Self {
        Self { claim, stop, lease: OfProcess::new("job", Mutex::default()) }
    }

    /// The claim: the job and its lease.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Returns true if the lease is lost: another worker may have the job by now, and the handler's
    /// answer will change nothing. A handler with effects that cannot be repeated should look
    /// before each of them. In a child of `fork` it is lost: the job is the parent's.
    pub fn lease_is_lost(&self) -> bool {
        self.lease.here().is_none_or(|lease| lock(lease).is_lost)
    }

    /// Returns true if the worker was asked to stop. Jobs that run may end as they like; one that
    /// takes long may answer [`Outcome::Release`].
    pub fn is_stopping(&self) -> bool {
        self.stop.is_asked()
    }

    /// Has `tell` called once if the lease is lost, from another thread, or at
    /// once if it is lost already. It must not block: other leases wait for it. A panic of it there is
    /// logged.
    pub fn on_lease_lost(&self, tell: impl FnOnce() + Send + 'static) {
        let Some(mut lease) = self.lease.here().map(lock) else { return tell() };
        if lease.is_lost {
            drop(lease);
            tell();
        } else {
            lease.to_tell.push(Box::new(tell));
        }
    }

    /// Tells the handler.
    pub(super) fn lose_lease(&self) {
        let Some(mut lease) = self.lease.here().map(lock) else { return };
        lease.is_lost = true;
        let to_tell = std::mem::take(&mut lease.to_tell);
        drop(lease);
        for tell in to_tell {
            // On a thread that all leases need.
            caught("a callback of `on_lease_lost`", tell);
        }
    }
}

impl Deref for JobContext {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("claim", &self.claim)
            .field("lease_is_lost", &self.lease_is_lost())
            .finish_non_exhaustive()
    }
}
