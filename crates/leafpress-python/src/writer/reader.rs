//! A read-only connection of the writer's pool, behind `leafpress.Reader` and `Writer.query`.
//!
//! Must never: hold the interpreter while SQLite reads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use leafpress::Error;
use leafpress::rusqlite::ffi;
use leafpress::vfs::fork::Process;
use leafpress::vfs::sync::lock;
use leafpress::writer::{Executed, Reader};
use pyo3::prelude::*;

use super::parameters::{parameters_of, sql_of};
use super::rows;
use super::wait::SLICE;
use crate::ending;
use crate::errors::{Raise, misuse};

/// A reader that is out, until it is given back.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeReader {
    /// With its part of the count of its writer's readers that are out.
    reader: Mutex<Option<(Reader, Arc<()>)>>,
    process: Process,
}

impl NativeReader {
    pub fn new(py: Python<'_>, mut reader: Reader, out: Arc<()>) -> PyResult<Self> {
        reader.stop_when(signal_look()).raise(py)?;
        Ok(Self { reader: Mutex::new(Some((reader, out))), process: Process::current() })
    }
}

/// Stops a read, from another thread.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct StopRead(Arc<AtomicBool>);

impl StopRead {
    /// The flag that it sets.
    pub fn asked(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl StopRead {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Stops the read, also one that has not begun.
    fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    /// The exception of a signal handler that stopped a read of this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// A function that runs Python's signal handlers now and then, which do something in the main thread
/// only; it returns true if one raised an exception, and keeps that for [`take_signal`].
pub fn signal_look() -> impl FnMut() -> bool + Clone + Send + Sync + 'static {
    let mut next = Instant::now() + SLICE;
    move || {
        let now = Instant::now();
        if now < next {
            return false;
        }
        next = now + SLICE;
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is for one lifetime"
        )]
        let signal = ending::attach(|py| py.check_signals()).err();
        let stops = signal.is_some();
        if stops {
            RAISED.set(signal);
        }
        stops
    }
}

/// The exception that stopped the read that this thread has just made. Other threads may read by the
/// same object meanwhile, and must not get it.
pub fn take_signal() -> Option<PyErr> {
    RAISED.take()
}

#[pymethods]
impl NativeReader {
    /// The rows of a query, as a `Result`. With a `stop`, that ends it, in place of signals.
    #[pyo3(signature = (sql, parameters, stop=None))]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 gives it so")]
    fn query(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
        stop: Option<&StopRead>,
    ) -> PyResult<Py<PyAny>> {
        self.process.check("reader").map_err(Error::from).raise(py)?;
        let parameters = parameters_of(&sql, parameters)?;
        let read = || {
            let mut reader = lock(&self.reader);
            let (reader, _) = reader.as_mut()?;
            if let Some(StopRead(asked)) = stop {
                let asked = Arc::clone(asked);
                if let Err(error) = reader.stop_when(move || asked.load(Ordering::Relaxed)) {
                    return Some(Err(error));
                }
            }
            let prepared = reader.prepare_cached(&sql).map_err(Error::from);
            Some(prepared.and_then(|mut it| rows::all_rows(&mut it, &parameters)))
        };
        let Some(read) = py.detach(read) else {
            return Err(misuse(py, "the reader is closed"));
        };
        if let Some(signal) = take_signal() {
            return Err(signal);
        }
        let (columns, rows) = read.map_err(write_elsewhere).raise(py)?;
        rows::result(py, columns, rows, Executed::new(0, 0))
    }

    /// Gives it back.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.reader).take()));
    }
}

/// Adds to the error of a statement that writes which method writes.
fn write_elsewhere(error: Error) -> Error {
    if error.sqlite_code() == Some(ffi::SQLITE_READONLY) {
        return error.to_do("queries and readers only read: write with execute");
    }
    error
}
