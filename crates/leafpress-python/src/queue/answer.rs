//! Where the answer of a call goes: to the thread that made it, or to a future of asyncio.
//!
//! Must never: hold the interpreter while it waits, or wait so that Ctrl-C cannot end it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use leafpress::writer::PendingCall;
use pyo3::prelude::*;

use crate::bridge::{self, Loop};
use crate::errors::Raise;

/// Longest time until a waiting thread sees that Ctrl-C was pressed.
const LOOK_FOR_SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// An event loop and the future that gets the answer; `None` if the calling thread waits.
pub type To = Option<(Py<Loop>, Py<PyAny>)>;

/// The value of a call, or the task that gives it to the future.
///
/// # Errors
/// Those of the call, and those of `convert`.
pub fn answer<T, C>(
    py: Python<'_>,
    to: To,
    call: PendingCall<T>,
    convert: C,
) -> PyResult<Py<PyAny>>
where
    T: Send + 'static,
    C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    match to {
        None => {
            let value = py.detach(|| call.wait()).raise(py)?;
            convert(py, value)
        }
        Some(to) => start(py, &to, call, convert),
    }
}

/// As [`answer`], for a future that may wait long: Ctrl-C drops it.
///
/// # Errors
/// As [`answer`], and KeyboardInterrupt.
pub fn answer_of<T, F, C>(py: Python<'_>, to: To, future: F, convert: C) -> PyResult<Py<PyAny>>
where
    T: Send + 'static,
    F: Future<Output = leafpress::Result<T>> + Send + 'static,
    C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    match to {
        None => {
            let value = wait(py, future)?;
            convert(py, value)
        }
        Some(to) => start(py, &to, future, convert),
    }
}

fn start<T, F, C>(
    py: Python<'_>,
    (to, answered): &(Py<Loop>, Py<PyAny>),
    future: F,
    convert: C,
) -> PyResult<Py<PyAny>>
where
    T: Send + 'static,
    F: Future<Output = leafpress::Result<T>> + Send + 'static,
    C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    let task = bridge::start(py, to.get(), answered.clone_ref(py), future, convert)?;
    Ok(Py::new(py, task)?.into_any())
}

/// Waits for a future on this thread.
fn wait<T: Send>(
    py: Python<'_>,
    future: impl Future<Output = leafpress::Result<T>> + Send,
) -> PyResult<T> {
    let mut future = pin!(future);
    let parked = Arc::new(Parked::default());
    let waker = Waker::from(Arc::clone(&parked));
    loop {
        let polled = py.detach(|| {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_pending() {
                parked.park(LOOK_FOR_SIGNALS_EVERY);
            }
            polled
        });
        match polled {
            Poll::Ready(output) => return output.raise(py),
            Poll::Pending => py.check_signals()?,
        }
    }
}

/// Waker of the thread that made it.
pub struct Parked {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Default for Parked {
    fn default() -> Self {
        Self { thread: thread::current(), is_woken: AtomicBool::new(false) }
    }
}

impl Parked {
    /// Sleeps until it is woken, or was since the last sleep, and so long at most.
    pub fn park(&self, limit: Duration) {
        if !self.is_woken.load(Ordering::SeqCst) {
            thread::park_timeout(limit);
        }
        self.is_woken.store(false, Ordering::SeqCst);
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}
