//! The caller's thread: it runs all code of the caller while other threads load.
//!
//! ```text
//! caller's thread   serve: wait ─► job (a batch of rows, a read, progress) ─► signals? ─► wait …
//! load's threads    ask: job ─► wait for its answer         tell: job
//! ```
//!
//! So iterators, files and callbacks of Python run on the thread that has called `load`, as some
//! (cursors of `sqlite3`) must, and Ctrl-C is noticed at any time.
//!
//! Must never: run code of the caller after it has failed, or after a signal.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use leafpress::load::CancelToken;
use pyo3::prelude::*;

use crate::ending;

/// Longest time until a signal is noticed.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

type Job = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

/// The caller's thread, as the threads of the load see it.
#[derive(Clone)]
pub struct Caller(Sender<Job>);

/// The error of a thread whose caller has stopped.
#[derive(Debug)]
pub struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the caller has stopped the load")
    }
}

impl std::error::Error for Gone {}

impl Caller {
    /// Runs `work` on the caller's thread, and waits for its result. An exception ends the load.
    ///
    /// # Errors
    /// The caller has stopped, or `work` has raised.
    pub fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(Python<'_>) -> PyResult<R> + Send + 'static,
    ) -> Result<R, Gone> {
        let (answer, answered) = channel();
        self.tell(move |py| {
            // The thread that asked waits.
            let _ = answer.send(work(py)?);
            Ok(())
        });
        answered.recv().map_err(|_| Gone)
    }

    /// Runs `work` on the caller's thread, later. An exception ends the load.
    pub fn tell(&self, work: impl FnOnce(Python<'_>) -> PyResult<()> + Send + 'static) {
        // A caller that has stopped runs nothing.
        let _ = self.0.send(Box::new(work));
    }
}

/// Runs `work` on a thread of its own, and serves it on this one. Returns its result, and the
/// exception that has ended it, if there is one.
///
/// # Errors
/// `OSError` if the system gives no thread.
pub fn serve<R: Send>(
    py: Python<'_>,
    token: &CancelToken,
    work: impl FnOnce(Caller) -> R + Send,
) -> PyResult<(R, Option<PyErr>)> {
    let (jobs, waiting) = channel();
    let served = py.detach(move || {
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new()
                .name("leafpress-load".to_owned())
                .spawn_scoped(scope, move || work(Caller(jobs)))?;
            let fault = attend(&waiting, token);
            match worker.join() {
                Ok(result) => Ok((result, fault)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    });
    served.map_err(|error: std::io::Error| error.into())
}

/// Runs jobs until all threads that may give one have ended. Returns the first exception.
fn attend(waiting: &Receiver<Job>, token: &CancelToken) -> Option<PyErr> {
    let mut fault = None;
    loop {
        let job = match waiting.recv_timeout(SIGNALS_EVERY) {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Timeout) => None,
            // Ctrl-C after the last job: the caller is to learn what the load came to.
            Err(RecvTimeoutError::Disconnected) => return fault.or_else(signal),
        };
        if fault.is_some() {
            continue;
        }
        let done = ending::attach(|py| {
            job.map_or(Ok(()), |job| job(py))?;
            py.check_signals()
        });
        if let Err(error) = done {
            token.cancel();
            fault = Some(error);
        }
    }
}

/// The exception of a signal handler, if one has raised.
fn signal() -> Option<PyErr> {
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is for one lifetime")]
    ending::attach(|py| py.check_signals()).err()
}
