//! A feed of jobs: claims for its consumers, keeps their leases, and settles what they have done.
//!
//! ```text
//! queue ─claim─► ready ─next─► consumer ─settle─► to_settle ─ack_many, nack─► queue
//!                  └────── leases extended ──────────┘
//! ```
//!
//! One thread of Rust does it all (`driver`), so leases are extended even while Python is busy,
//! and many jobs share a commit. The consumers are threads or tasks of Python.
//!
//! Must never: need the interpreter in its thread.

mod driver;
mod state;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar};
use std::task::{Context, Poll};
use std::time::Instant;

use leafpress::queue::{Claim, Nack};
use leafpress::vfs::fork::Process;
use pyo3::prelude::*;

use self::state::{Counts, Options, Outcome, Phase, Shared, State};
use super::answer::{To, answer_of};
use super::convert::{claim_object, duration, json_object, payload_of};
use super::{NativeQueue, token_of};
use crate::errors::{Raise, bug};
use crate::writer::{EndsBefore, NativeWriter};

/// Jobs of a queue for consumers.
#[pyclass(frozen, weakref, module = "leafpress._leafpress")]
pub struct NativeFeed {
    writer: Py<NativeWriter>,
    shared: Arc<Shared>,
}

#[pymethods]
impl NativeFeed {
    #[new]
    fn open(
        py: Python<'_>,
        queue: &NativeQueue,
        ahead: usize,
        lease: Option<f64>,
        worker: Option<String>,
        jobs_max: Option<u64>,
        until_empty: bool,
    ) -> PyResult<Self> {
        let lease = lease.map(|lease| duration(py, "lease", lease)).transpose()?;
        let mut state = State::default();
        if jobs_max == Some(0) {
            state.move_on(Phase::Drained);
        }
        let shared = Arc::new(Shared {
            queue: queue.here(py)?.clone(),
            options: Options { ahead, lease, worker, jobs_max, until_empty },
            process: Process::current(),
            state: state.into(),
            over: Condvar::new(),
        });
        py.detach(|| driver::start(&shared))?;
        let work: Arc<dyn EndsBefore> = shared.clone();
        queue.writer.get().end_before_close(Arc::downgrade(&work));
        Ok(Self { writer: queue.writer.clone_ref(py), shared })
    }

    /// A job that is ready, or None at once.
    fn try_next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.shared.check_process().raise(py)?;
        let claim = self.shared.lock().take_ready();
        claim.map(|claim| claim_object(py, claim)).transpose()
    }

    /// The next job; None at the end.
    fn next(&self, py: Python<'_>, to: To) -> PyResult<Py<PyAny>> {
        self.shared.check_process().raise(py)?;
        self.refuse_inside(py, &to)?;
        let next = Next { shared: Arc::clone(&self.shared), taker: None };
        answer_of(py, next, to, |py, given| match given {
            None => Ok(py.None()),
            Some(given) => claim_object(py, given.take(py)?),
        })
    }

    /// The job is done.
    fn done(&self, py: Python<'_>, token: &str, result: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let result = result.map(payload_of).transpose()?;
        self.settle(py, token, Outcome::Done(result))
    }

    /// The attempt failed.
    fn retry(&self, py: Python<'_>, token: &str, error: &str) -> PyResult<()> {
        self.settle(py, token, Outcome::Retry(Nack::new().error(error)))
    }

    /// Nothing was done.
    fn release(&self, py: Python<'_>, token: &str) -> PyResult<()> {
        self.settle(py, token, Outcome::Release)
    }

    /// Keeps the lease of this job no more: its consumer settles it.
    fn forget(&self, py: Python<'_>, token: &str, became: &str) -> PyResult<()> {
        let token = token_of(py, token)?;
        let mut state = self.shared.lock();
        // An extension beside it may have found that its lease is over, as it is settled.
        state.held.remove(&token);
        match became {
            "done" => state.counts.done += 1,
            "dead" => state.counts.dead += 1,
            "released" => state.counts.released += 1,
            _ => state.counts.retried += 1,
        }
        state.finished += 1;
        state.unpark();
        Ok(())
    }

    /// Returns true if the lease of this job is kept.
    fn holds(&self, py: Python<'_>, token: &str) -> PyResult<bool> {
        let token = token_of(py, token)?;
        Ok(self.shared.lock().held.contains_key(&token))
    }

    /// Takes no more jobs, and gives those back that no consumer has.
    fn stop(&self) {
        if self.shared.check_process().is_ok() {
            self.shared.stop();
        }
    }

    /// Ends without a wait. All is handed in to the writer when this returns, so that it comes
    /// before the writer's close. The job of this token was not done, because of `error`.
    fn abandon(&self, py: Python<'_>, token: Option<&str>, error: &str) -> PyResult<()> {
        if self.shared.check_process().is_ok() {
            if let Some(token) = token {
                let retry = Outcome::Retry(Nack::new().error(error));
                self.shared.lock().to_settle.push((token_of(py, token)?, retry));
            }
            self.shared.abandon();
        }
        Ok(())
    }

    /// Ends once all that consumers have said is in the database; answers with the counts.
    fn close(&self, py: Python<'_>, to: To) -> PyResult<Py<PyAny>> {
        self.shared.check_process().raise(py)?;
        self.refuse_inside(py, &to)?;
        self.shared.close();
        let end = End { shared: Arc::clone(&self.shared) };
        answer_of(py, end, to, |py, counts| json_object(py, &counts))
    }
}

impl NativeFeed {
    /// Refuses a wait of this thread for what the writer can do only after a transaction of its own.
    fn refuse_inside(&self, py: Python<'_>, to: &To) -> PyResult<()> {
        if to.is_some() { Ok(()) } else { self.writer.get().refuse_inside(py) }
    }

    fn settle(&self, py: Python<'_>, token: &str, outcome: Outcome) -> PyResult<()> {
        self.shared.check_process().raise(py)?;
        self.shared.settle(token_of(py, token)?, outcome);
        Ok(())
    }
}

impl Drop for NativeFeed {
    fn drop(&mut self) {
        if self.shared.check_process().is_ok() && self.shared.lock().phase != Phase::Over {
            self.shared.abandon();
        }
    }
}

impl State {
    fn take_ready(&mut self) -> Option<Claim> {
        let claim = self.ready.pop_front()?;
        self.moved_at = Some(Instant::now());
        if self.ready.len() < self.refill_below {
            self.unpark();
        }
        Some(claim)
    }
}

/// A consumer that waits for its next job.
struct Next {
    shared: Arc<Shared>,
    taker: Option<u64>,
}

impl Future for Next {
    type Output = leafpress::Result<Option<Given>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if let Some(claim) = state.take_ready() {
            drop(state);
            return Poll::Ready(Ok(Some(Given { shared, claim: Some(claim) })));
        }
        if let Some(failure) = state.failure.take() {
            return Poll::Ready(Err(failure));
        }
        if state.phase >= Phase::Drained {
            return Poll::Ready(Ok(None));
        }
        let waker = context.waker().clone();
        let known = state.takers.iter_mut().find(|(id, _)| Some(*id) == self.taker);
        if let Some((_, place)) = known {
            *place = waker;
        } else {
            state.last_taker += 1;
            self.taker = Some(state.last_taker);
            let taker = (state.last_taker, waker);
            state.takers.push(taker);
            state.unpark();
        }
        Poll::Pending
    }
}

impl Drop for Next {
    fn drop(&mut self) {
        if let Some(taker) = self.taker {
            self.shared.lock().takers.retain(|(id, _)| *id != taker);
        }
    }
}

/// A job on its way to a consumer: if it does not arrive, it is given back.
struct Given {
    shared: Arc<Shared>,
    claim: Option<Claim>,
}

impl Given {
    fn take(mut self, py: Python<'_>) -> PyResult<Claim> {
        self.claim.take().ok_or_else(|| bug(py, "a job was taken twice"))
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.shared.settle(claim.token, Outcome::Release);
        }
    }
}

/// A caller that waits for the end.
struct End {
    shared: Arc<Shared>,
}

impl Future for End {
    type Output = leafpress::Result<Counts>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.lock();
        if state.phase != Phase::Over {
            state.enders.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(state.counts),
        })
    }
}
