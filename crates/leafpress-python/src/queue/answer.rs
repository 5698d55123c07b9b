//! Receiver of a call's answer: the thread that made the call, or a future of asyncio.
//!
//! Must never: hold the interpreter while it waits, or wait so that Ctrl-C cannot end it.

use std::future::Future;

use leafpress::writer::PendingCall;
use pyo3::prelude::*;

use crate::bridge::{self, Loop};
use crate::errors::Raise;
use crate::writer::wait;

/// An event loop and the future that gets the answer; `None` if the calling thread waits.
pub type To = Option<(Py<Loop>, Py<PyAny>)>;

/// The value of a call, or the task that gives it to the future.
///
/// # Errors
/// Those of the call, and those of `convert`.
pub fn answer<T, C>(py: Python<'_>, call: PendingCall<T>, to: To, convert: C) -> PyResult<Py<PyAny>>
where
    T: Send + 'static,
    C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    match to {
        None => convert(py, wait::carried_out(py, call)?),
        Some(to) => start(py, &to, call, convert),
    }
}

/// As [`answer`], for a future that may wait long: Ctrl-C drops it.
///
/// # Errors
/// As [`answer`], and `KeyboardInterrupt`.
pub fn answer_of<T, F, C>(py: Python<'_>, future: F, to: To, convert: C) -> PyResult<Py<PyAny>>
where
    T: Send + 'static,
    F: Future<Output = leafpress::Result<T>> + Send + 'static,
    C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    match to {
        None => {
            let value = wait::block_on(py, future)?.raise(py)?;
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
