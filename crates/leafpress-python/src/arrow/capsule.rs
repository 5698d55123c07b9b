//! Structures of Arrow's C interface, taken out of Python's capsules.
//!
//! Must never: leave a structure in its capsule that was taken out, as each is released once.

#![expect(unsafe_code, reason = "the C interface hands over pointers")]

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// The stream in a capsule.
///
/// # Errors
/// The outer error: the capsule holds no stream. The inner one: the stream has no columns.
pub fn stream_of(
    capsule: &Bound<'_, PyCapsule>,
) -> PyResult<Result<ArrowArrayStreamReader, ArrowError>> {
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name points to a stream, by Arrow's interface. It is replaced by a
    // released one, so the capsule does not release it again; the interpreter is held meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    Ok(ArrowArrayStreamReader::try_new(stream))
}

/// The record batch in two capsules.
///
/// # Errors
/// The outer error: the capsules hold no array. The inner one: it is no record batch.
pub fn batch_of(
    schema: &Bound<'_, PyCapsule>,
    array: &Bound<'_, PyCapsule>,
) -> PyResult<Result<RecordBatch, ArrowError>> {
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names point to a schema and to an array, by Arrow's interface.
    // Both are replaced by released ones, as above.
    let (schema, array) = unsafe {
        (FFI_ArrowSchema::from_raw(schema.as_ptr()), FFI_ArrowArray::from_raw(array.as_ptr()))
    };
    // SAFETY: by the same interface, the schema describes the array.
    let data = unsafe { from_ffi(array, &schema) };
    Ok(data.and_then(|data| {
        if !matches!(data.data_type(), DataType::Struct(_)) {
            let found = format!("it is a column of type {}", data.data_type());
            return Err(ArrowError::SchemaError(found));
        }
        let rows = StructArray::from(data);
        if rows.null_count() > 0 {
            return Err(ArrowError::SchemaError("a row is null as a whole".to_owned()));
        }
        Ok(RecordBatch::from(rows))
    }))
}
