//! Rows of a frame, for `insert_many`: the values that a load would store of it.
//!
//! An unsigned integer beyond 64 bits is a text, which a column of numbers would make a real: `large` tells.

use std::collections::HashMap;
use std::sync::Mutex;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
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
    large: HashMap<String, usize>,
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
        let (rows, large) = py.detach(|| read(batches)).raise(py)?;
        Ok(Self { names, large, rows: Mutex::new(rows) })
    }

    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Columns with an integer beyond 64 bits, and the number of its row from 1.
    #[getter]
    fn large(&self) -> HashMap<String, usize> {
        self.large.clone()
    }

    /// Leaves the columns at these places, in this order.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 gives it so")]
    fn pick(&self, places: Vec<usize>) {
        for row in &mut *lock(&self.rows) {
            *row = places.iter().filter_map(|place| row.get(*place).cloned()).collect();
        }
    }
}

type Read = (Vec<Vec<Value>>, HashMap<String, usize>);

fn read(batches: Exported) -> leafpress::Result<Read> {
    let failed = |reason: String| Error::input("<frame>", reason).on_disk("nothing of this call");
    let (mut rows, mut large) = (Vec::new(), HashMap::new());
    for batch in batches {
        let batch = batch.map_err(|error| failed(error.to_string()))?;
        let values = values_of_batch(&batch).map_err(failed)?;
        note_large(&batch, &values, rows.len(), &mut large);
        rows.extend(values);
    }
    Ok((rows, large))
}

/// Notes the first unsigned integer of each column that SQLite has no integer for: its value is a text.
fn note_large(
    batch: &RecordBatch,
    rows: &[Vec<Value>],
    before: usize,
    large: &mut HashMap<String, usize>,
) {
    for (place, field) in batch.schema().fields().iter().enumerate() {
        if field.data_type() == &DataType::UInt64 && !large.contains_key(field.name()) {
            let first = rows.iter().position(|row| matches!(row.get(place), Some(Value::Text(_))));
            large.extend(first.map(|row| (field.name().clone(), before + row + 1)));
        }
    }
}
