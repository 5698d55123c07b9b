//! Record batches of other libraries, by the `PyCapsule` interface of Arrow.
//!
//! An object exports a stream (`__arrow_c_stream__`) or one record batch (`__arrow_c_array__`).
//! The buffers are used where they are: nothing is copied but UUIDs, which become text.
//!
//! Must never: read a stream while the interpreter is held.

mod capsule;
mod rows;
mod uuids;

use arrow_array::{RecordBatchIterator, RecordBatchReader};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

pub use self::rows::FrameRows;
use crate::errors::misuse;

/// Record batches that another library exports.
pub type Exported = Box<dyn RecordBatchReader + Send>;

/// The record batches of an object.
///
/// # Errors
/// The object's own exception; `ProgrammingError` if it exports no rows of a table.
pub fn batches_of(object: &Bound<'_, PyAny>) -> PyResult<Exported> {
    let py = object.py();
    let failed = |reason: arrow_schema::ArrowError| no_table(object, &reason.to_string());
    if object.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let exported = object.call_method0(intern!(py, "__arrow_c_stream__"))?;
        let stream = capsule::stream_of(exported.cast::<PyCapsule>()?)?.map_err(failed)?;
        return Ok(uuids::as_text(Box::new(stream)));
    }
    let exported = object.call_method0(intern!(py, "__arrow_c_array__"))?;
    let pair = exported.cast::<PyTuple>()?;
    let (schema, array) = (pair.get_item(0)?, pair.get_item(1)?);
    let batch = capsule::batch_of(schema.cast()?, array.cast()?)?.map_err(failed)?;
    let schema = batch.schema();
    Ok(uuids::as_text(Box::new(RecordBatchIterator::new([Ok(batch)], schema))))
}

fn no_table(object: &Bound<'_, PyAny>, reason: &str) -> PyErr {
    let type_name = object.get_type().to_string();
    misuse(object.py(), format!("{type_name} gives no rows of a table: {reason}"))
}
