//! A read-only connection of the writer's pool, behind `leafpress.Reader` and `Writer.query`.
//!
//! Must never: hold the interpreter while SQLite reads.

use std::sync::Mutex;

use leafpress::vfs::sync::lock;
use leafpress::writer::{Executed, Reader};
use pyo3::prelude::*;

use super::parameters::parameters_of;
use super::rows;
use crate::errors::{Raise, misuse};

/// A reader that is out, until it is given back.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeReader {
    reader: Mutex<Option<Reader>>,
}

impl NativeReader {
    pub fn new(reader: Reader) -> Self {
        Self { reader: Mutex::new(Some(reader)) }
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
        let (columns, rows) = read.raise(py)?;
        rows::result(py, columns, rows, Executed::new(0, 0))
    }

    /// Gives it back.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.reader).take()));
    }
}
