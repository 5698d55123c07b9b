//! The ticket of a call that was submitted, behind `leafpress.Ticket`.
//!
//! Must never: wait with the interpreter held, or lose an answer that was fetched.

use std::sync::{Mutex, PoisonError};

use leafpress::writer::{Executed, Ticket};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use super::wait::wait_answered;
use super::{open_here, rows};
use crate::errors::{Raise, bug};

/// A ticket, and the answer once it was fetched.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeTicket {
    ticket: Ticket<Executed>,
    /// The writer, by the address of its object.
    writer: usize,
    answer: Mutex<Option<PyResult<Py<PyAny>>>>,
}

impl NativeTicket {
    pub fn new(ticket: Ticket<Executed>, writer: usize) -> Self {
        Self { ticket, writer, answer: Mutex::new(None) }
    }
}

#[pymethods]
impl NativeTicket {
    /// Waits at most for `timeout` seconds; true if the answer is there.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
        let limit = timeout.map(|it| super::options::duration("timeout", &it)).transpose()?;
        if !self.ticket.is_answered() && open_here::is_open_here(py, self.writer) {
            return Err(open_here::waits_for_itself(py));
        }
        wait_answered(py, &self.ticket, limit)
    }

    /// The answer, which must be there.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // Python code runs under this lock, so who waits for it must not hold the interpreter.
        let answer = self.answer.lock_py_attached(py);
        let mut answer = answer.unwrap_or_else(PoisonError::into_inner);
        if answer.is_none() {
            *answer = self.ticket.fetch().map(|it| rows::executed(py, it.raise(py)?));
        }
        match &*answer {
            Some(Ok(value)) => Ok(value.clone_ref(py)),
            Some(Err(error)) => Err(error.clone_ref(py)),
            None => Err(bug(py, "there is no answer yet")),
        }
    }

    /// True if the answer is there.
    fn done(&self) -> bool {
        self.ticket.is_answered()
    }

    /// Takes the call back if no thread has begun with it; false if it is too late.
    fn cancel(&self) -> bool {
        self.ticket.cancel()
    }

    /// Takes the call back, or stops it if it runs; false if it is answered.
    fn interrupt(&self) -> bool {
        self.ticket.interrupt()
    }
}
