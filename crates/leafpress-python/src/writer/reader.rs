//! A read-only connection of the writer's pool, behind `leafpress.Reader` and `Writer.query`.
//!
//! Must never: hold the interpreter while SQLite reads.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use leafpress::vfs::sync::lock;
use leafpress::writer::{Executed, Reader};
use pyo3::prelude::*;

use super::parameters::parameters_of;
use super::rows;
use super::wait::SLICE;
use crate::errors::{Raise, misuse};

/// A reader that is out, until it is given back.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeReader {
    reader: Mutex<Option<Reader>>,
    /// The exception of a signal handler that stopped the read.
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl NativeReader {
    pub fn new(py: Python<'_>, mut reader: Reader) -> PyResult<Self> {
        let raised = Arc::default();
        reader.stop_when(signal_look(Arc::clone(&raised))).raise(py)?;
        Ok(Self { reader: Mutex::new(Some(reader)), raised })
    }
}

/// A function that runs Python's signal handlers now and then, which do something in the main thread
/// only; it returns true if one raised an exception, and keeps that.
pub fn signal_look(
    raised: Arc<Mutex<Option<PyErr>>>,
) -> impl FnMut() -> bool + Clone + Send + Sync + 'static {
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
        let signal = Python::attach(|py| py.check_signals()).err();
        let stops = signal.is_some();
        if stops {
            *lock(&raised) = signal;
        }
        stops
    }
}

#[pymethods]
impl NativeReader {
    /// The rows of a query, as a `Result`.
    fn query(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let parameters = parameters_of(sql, parameters)?;
        let read = || {
            let reader = lock(&self.reader);
            let reader = reader.as_ref()?;
            let prepared = reader.prepare_cached(sql).map_err(leafpress::Error::from);
            Some(prepared.and_then(|mut it| rows::all_rows(&mut it, &parameters)))
        };
        let Some(read) = py.detach(read) else {
            return Err(misuse(py, "the reader is closed"));
        };
        if let Some(signal) = lock(&self.raised).take() {
            return Err(signal);
        }
        let (columns, rows) = read.raise(py)?;
        rows::result(py, columns, rows, Executed::new(0, 0))
    }

    /// Gives it back.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.reader).take()));
    }
}
