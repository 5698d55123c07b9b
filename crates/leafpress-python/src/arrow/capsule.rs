//! Structures of Arrow's C interface, taken out of Python's capsules.
//!
//! arrow-rs reads some numbers of an array when it imports it. They are checked before.
//!
//! Must never: leave a structure in its capsule that was taken out, as each is released once.

#![expect(unsafe_code, reason = "the C interface hands over pointers")]

use std::ffi::{CStr, c_int};
use std::iter::once_with;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, OffsetSizeTrait, RecordBatch, RecordBatchIterator, RecordBatchOptions,
    RecordBatchReader, StructArray,
};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::checked::{Checked, Exported};

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// The stream in a capsule.
///
/// # Errors
/// The outer error: the capsule holds no stream. The inner one: the stream has no columns.
pub fn stream_of(capsule: &Bound<'_, PyCapsule>) -> PyResult<Result<Exported, ArrowError>> {
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name points to a stream, by Arrow's interface. It is replaced by a
    // released one, so the capsule does not release it again; the interpreter is held meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    Ok(Stream::open(stream).map(|stream| Box::new(Checked(stream)) as Exported))
}

/// The record batch in two capsules.
///
/// # Errors
/// The outer error: the capsules hold no array. The inner one: it is no record batch.
pub fn batch_of(
    schema: &Bound<'_, PyCapsule>,
    array: &Bound<'_, PyCapsule>,
) -> PyResult<Result<Exported, ArrowError>> {
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names point to a schema and to an array, by Arrow's interface.
    // Both are replaced by released ones, as above.
    let (schema, array) = unsafe {
        (FFI_ArrowSchema::from_raw(schema.as_ptr()), FFI_ArrowArray::from_raw(array.as_ptr()))
    };
    Ok(batch_in(&schema, array))
}

fn batch_in(schema: &FFI_ArrowSchema, array: FFI_ArrowArray) -> Result<Exported, ArrowError> {
    if schema.release().is_none() || array.is_released() {
        return Err(taken_before("array"));
    }
    let schema = columns_of(schema)?;
    if array.num_children() != schema.fields().len() {
        let (found, wanted) = (array.num_children(), schema.fields().len());
        return Err(malformed(format!("the array has {found} columns, and its schema {wanted}")));
    }
    // Not before it is asked for: then the interpreter is not held.
    let of = SchemaRef::clone(&schema);
    let rows = once_with(move || rows_in(array, &of));
    Ok(Box::new(Checked(RecordBatchIterator::new(rows, schema))))
}

fn columns_of(schema: &FFI_ArrowSchema) -> Result<SchemaRef, ArrowError> {
    match DataType::try_from(schema)? {
        DataType::Struct(columns) => Ok(Arc::new(Schema::new(columns))),
        other => Err(ArrowError::SchemaError(format!("it is a column of type {other}"))),
    }
}

fn taken_before(what: &str) -> ArrowError {
    malformed(format!("the {what} was taken before; export a new one for each call"))
}

fn malformed(reason: String) -> ArrowError {
    ArrowError::CDataInterface(reason)
}

/// Record batches that another library gives one by one.
struct Stream {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl Stream {
    fn open(mut stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        if stream.release().is_none() {
            return Err(taken_before("stream"));
        }
        let mut schema = FFI_ArrowSchema::empty();
        let Some(get) = stream.get_schema() else { return Err(has_no_function()) };
        // SAFETY: the function is that of this stream, which is not released.
        let code = unsafe { get(&raw mut stream, &raw mut schema) };
        done(&mut stream, code)?;
        Ok(Self { stream, schema: columns_of(&schema)? })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut array = FFI_ArrowArray::empty();
        let Some(get) = self.stream.get_next() else { return Err(has_no_function()) };
        // SAFETY: as above.
        let code = unsafe { get(&raw mut self.stream, &raw mut array) };
        done(&mut self.stream, code)?;
        // A released array is the end.
        (!array.is_released()).then(|| rows_in(array, &self.schema)).transpose()
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

fn has_no_function() -> ArrowError {
    malformed("the stream lacks a function".to_owned())
}

/// Turns the code of a function of a stream into its error.
fn done(stream: &mut FFI_ArrowArrayStream, code: c_int) -> Result<(), ArrowError> {
    if code == 0 {
        return Ok(());
    }
    let message = stream.get_last_error().and_then(|get| {
        // SAFETY: the last function of the stream has failed, so that this one may be called. Its
        // text is valid until the next call.
        unsafe {
            let text = get(stream);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    });
    Err(malformed(message.unwrap_or_else(|| format!("the stream failed with code {code}"))))
}

fn rows_in(array: FFI_ArrowArray, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let data_type = DataType::Struct(schema.fields().clone());
    check(&array, &data_type).map_err(malformed)?;
    // SAFETY: by Arrow's interface the schema describes the array; its values are checked next.
    let rows = StructArray::from(unsafe { from_ffi_and_data_type(array, data_type) }?);
    if rows.null_count() > 0 {
        return Err(malformed("a row is null as a whole".to_owned()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), rows.into_parts().1, &options)
}

/// Checks the numbers that arrow-rs takes as lengths of memory.
fn check(array: &FFI_ArrowArray, data_type: &DataType) -> Result<(), String> {
    let places = array.len().checked_add(array.offset()).filter(|places| *places < PLACES_MAX);
    let Some(places) = places else {
        return Err("a length or an offset is negative or too large".to_owned());
    };
    match data_type {
        DataType::Utf8 | DataType::Binary => check_end::<i32>(array, places),
        DataType::LargeUtf8 | DataType::LargeBinary => check_end::<i64>(array, places),
        DataType::Utf8View | DataType::BinaryView => check_lengths(array),
        DataType::Dictionary(_, values) => {
            array.dictionary().map_or(Ok(()), |dictionary| check(dictionary, values))
        }
        DataType::Struct(fields) => (0..).zip(fields).try_for_each(|(place, field)| {
            check(array.child(place), field.data_type())
                .map_err(|reason| format!("column \"{}\": {reason}", field.name()))
        }),
        DataType::Union(fields, _) => (0..)
            .zip(fields.iter())
            .try_for_each(|(place, (_, field))| check(array.child(place), field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => check(array.child(0), field.data_type()),
        DataType::RunEndEncoded(_, values) => check(array.child(1), values.data_type()),
        _ => Ok(()),
    }
}

/// More values than any memory holds.
const PLACES_MAX: usize = 1 << 48;

/// Checks the last offset of texts or bytes: it is the length of their buffer.
fn check_end<O: OffsetSizeTrait>(array: &FFI_ArrowArray, places: usize) -> Result<(), String> {
    if places == 0 {
        return Ok(());
    }
    if array.num_buffers() < 3 || array.buffer(1).is_null() {
        return Err("texts have no offsets".to_owned());
    }
    // SAFETY: by Arrow's interface there is one more offset than values.
    let end = unsafe { array.buffer(1).cast::<O>().add(places).read_unaligned() };
    if end < O::usize_as(0) {
        return Err(format!("the last offset of texts is {end:?}"));
    }
    Ok(())
}

/// Checks the last buffer of views: it has the lengths of those between.
fn check_lengths(array: &FFI_ArrowArray) -> Result<(), String> {
    let Some(buffers) = array.num_buffers().checked_sub(3) else {
        return Err("views have too few buffers".to_owned());
    };
    let lengths = array.buffer(buffers + 2).cast::<[u8; 8]>();
    // SAFETY: by Arrow's interface there is a length for each buffer but three.
    let length = |buffer: usize| i64::from_ne_bytes(unsafe { *lengths.add(buffer) });
    if buffers > 0 && (lengths.is_null() || (0..buffers).any(|buffer| length(buffer) < 0)) {
        return Err("a buffer of views has no length".to_owned());
    }
    Ok(())
}
