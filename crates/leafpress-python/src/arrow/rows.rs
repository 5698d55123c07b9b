//! Rows of a frame, for `insert_many`: the values that a load would store of it.

use std::sync::Mutex;

use leafpress::Error;
use leafpress::load::values_of_batch;
use leafpress::rusqlite::types::Value;
use leafpress::vfs::sync::lock;
use pyo3::prelude::*;

use super::{Exported, batches_of};
use crate::errors::Raise;

/// Rows of an object that exports Arrow, in memory until they are taken.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct FrameRows {
    names: Vec<String>,
    rows: Mutex<Vec<Vec<Value>>>,
}

impl FrameRows {
    /// The rows, once.
    pub fn take(&self) -> Vec<Vec<Value>> {
        std::mem::take(&mut *lock(&self.rows))
    }
}

#[pymethods]
impl FrameRows {
    #[new]
    fn new(py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        let batches = batches_of(frame)?;
        let names = batches.schema().fields().iter().map(|field| field.name().clone()).collect();
        let rows = py.detach(|| read(batches)).raise(py)?;
        Ok(Self { names, rows: Mutex::new(rows) })
    }

    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Leaves the columns at these places, in this order.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 gives it so")]
    fn pick(&self, places: Vec<usize>) {
        for row in &mut *lock(&self.rows) {
            *row = places.iter().filter_map(|place| row.get(*place).cloned()).collect();
        }
    }
}

fn read(batches: Exported) -> leafpress::Result<Vec<Vec<Value>>> {
    let failed = |reason: String| Error::input("<frame>", reason).on_disk("nothing of this call");
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch.map_err(|error| failed(error.to_string()))?;
        rows.extend(values_of_batch(&batch).map_err(failed)?);
    }
    Ok(rows)
}
