//! The Writer, behind `leafpress.Writer` and `leafpress.AsyncWriter`.
//!
//! Must never: hold the interpreter while it waits for a commit.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leafpress::Writer;
use pyo3::prelude::*;

use crate::errors::{Raise, misuse};

/// A writer, until it is closed.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeWriter {
    writer: Mutex<Option<Writer>>,
}

impl NativeWriter {
    fn place(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A clone of the writer.
    ///
    /// # Errors
    /// If it is closed.
    pub fn get(&self, py: Python<'_>) -> PyResult<Writer> {
        let writer = self.place().clone();
        writer.ok_or_else(|| misuse(py, "the writer is closed"))
    }
}

#[pymethods]
impl NativeWriter {
    #[new]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| Writer::builder(path).open());
        Ok(Self { writer: Mutex::new(Some(opened.raise(py)?)) })
    }

    /// Waits until all accepted calls are committed, and closes the database.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(writer) = self.place().take() else { return Ok(()) };
        py.detach(|| writer.close()).raise(py)
    }
}
