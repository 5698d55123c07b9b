//! Rows of a frame, for `insert_many`: the values that a load would store of it.
//!
//! An integer beyond 64 bits is a text, which a column of numbers would make a real: `large` tells.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use leafpress::load::values_of_batch;
use leafpress::rusqlite::types::Value;
use leafpress::{Error, ErrorKind};
use pyo3::prelude::*;

use super::{Exported, batches_of};
use crate::errors::Raise;
use crate::values::{is_large_integer, object_of};

/// Rows of an object that exports Arrow.
pub struct FrameRows {
    pub names: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    /// For the place of each column with an integer beyond 64 bits, the number of its row from 0.
    pub large: HashMap<usize, usize>,
}

impl FrameRows {
    /// Reads the rows of a frame, until `is_stopped` says so.
    ///
    /// # Errors
    /// Those of the frame; `Cancelled` once it is stopped.
    pub fn of(
        frame: &Bound<'_, PyAny>,
        mut is_stopped: impl FnMut() -> bool + Send,
    ) -> PyResult<Self> {
        let py = frame.py();
        let batches = batches_of(frame)?;
        let names = batches.schema().fields().iter().map(|field| field.name().clone()).collect();
        let (rows, large) = py.detach(|| read(batches, &mut is_stopped)).raise(py)?;
        Ok(Self { names, rows, large })
    }
}

/// The columns of a frame, as lists of the values that a load would store. An integer beyond 64 bits is a
/// Decimal: as a text, it would not be told from one.
///
/// # Errors
/// Those of [`FrameRows::of`].
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as pyo3 gives it")]
pub fn arrow_columns(frame: Bound<'_, PyAny>) -> PyResult<Vec<Vec<Bound<'_, PyAny>>>> {
    let py = frame.py();
    let FrameRows { names, rows, large } = FrameRows::of(&frame, || false)?;
    let decimal = py.import("decimal")?.getattr("Decimal")?;
    let column = |place: usize| {
        let has_large = large.contains_key(&place);
        let values = rows.iter().filter_map(|row| row.get(place));
        let object = |value: &Value| {
            let object = object_of(py, value)?;
            let is_large = has_large && is_large_integer(value);
            if is_large { decimal.call1((object,)) } else { Ok(object) }
        };
        values.map(object).collect()
    };
    (0..names.len()).map(column).collect()
}

type Read = (Vec<Vec<Value>>, HashMap<usize, usize>);

/// Rows that are read between two looks whether to stop.
const ROWS_AT_ONCE: usize = 16_384;

fn read(batches: Exported, is_stopped: &mut dyn FnMut() -> bool) -> leafpress::Result<Read> {
    let failed = |reason: String| Error::input("<frame>", reason).on_disk("nothing of this call");
    let (mut rows, mut large) = (Vec::new(), HashMap::new());
    for batch in batches {
        let batch = batch.map_err(|error| failed(error.to_string()))?;
        for first in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
            if is_stopped() {
                return Err(ErrorKind::Cancelled.into());
            }
            let some = batch.slice(first, ROWS_AT_ONCE.min(batch.num_rows() - first));
            let values = values_of_batch(&some).map_err(failed)?;
            note_large(&some, &values, rows.len(), &mut large);
            rows.extend(values);
        }
    }
    Ok((rows, large))
}

/// Notes the first integer of each column that SQLite has no integer for: its value is a text.
fn note_large(
    batch: &RecordBatch,
    rows: &[Vec<Value>],
    before: usize,
    large: &mut HashMap<usize, usize>,
) {
    for (place, field) in batch.schema().fields().iter().enumerate() {
        if may_be_large(field.data_type()) && !large.contains_key(&place) {
            let is_large = |row: &Vec<Value>| row.get(place).is_some_and(is_large_integer);
            large.extend(rows.iter().position(is_large).map(|row| (place, before + row)));
        }
    }
}

/// Returns true for a type of numbers with integers beyond 64 bits.
fn may_be_large(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => may_be_large(values),
        DataType::RunEndEncoded(_, values) => may_be_large(values.data_type()),
        DataType::UInt64 => true,
        other => other.is_decimal(),
    }
}
