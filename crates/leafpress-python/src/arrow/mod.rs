//! Record batches of other libraries, by the `PyCapsule` interface of Arrow.
//!
//! An object exports a stream (`__arrow_c_stream__`) or one record batch (`__arrow_c_array__`).
//! The buffers are used where they are: nothing is copied but UUIDs, which become text. Types whose
//! bytes only another program can read are refused.
//!
//! Must never: read a stream while the interpreter is held, or let an array out that is not checked.

mod capsule;
mod checked;
mod opaque;
mod rows;
mod uuids;

use arrow_schema::ArrowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

pub use self::checked::Exported;
pub use self::rows::{FrameRows, arrow_columns};
use crate::ending;
use crate::errors::misuse;

/// The record batches of an object.
///
/// # Errors
/// The object's own exception; `ProgrammingError` if it exports no rows of a table.
pub fn batches_of(object: &Bound<'_, PyAny>) -> PyResult<Exported> {
    let py = object.py();
    let _inside = ending::Inside::enter(py);
    if object.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let exported = object.call_method0(intern!(py, "__arrow_c_stream__"))?;
        let stream = exported.cast::<PyCapsule>().map_err(PyErr::from);
        return batches_in(object, stream.and_then(capsule::stream_of));
    }
    let exported = object.call_method0(intern!(py, "__arrow_c_array__"))?;
    let pair = exported.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>();
    batches_in(object, pair.and_then(|(schema, array)| capsule::batch_of(&schema, &array)))
}

fn batches_in(
    object: &Bound<'_, PyAny>,
    taken: PyResult<Result<Exported, ArrowError>>,
) -> PyResult<Exported> {
    let refused = |reason: String| no_table(object, &reason);
    let batches = taken.map_err(|error| refused(error.value(object.py()).to_string()))?;
    let batches = batches.map_err(|error| refused(error.to_string()))?;
    opaque::refuse(&batches.schema()).map_err(|reason| misuse(object.py(), reason))?;
    Ok(uuids::as_text(batches))
}

fn no_table(object: &Bound<'_, PyAny>, reason: &str) -> PyErr {
    let type_name = object.get_type().to_string();
    misuse(object.py(), format!("{type_name} gives no rows of a table: {reason}"))
}
