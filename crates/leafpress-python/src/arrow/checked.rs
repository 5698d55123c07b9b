//! Checks of the arrays of other libraries, which may hold anything.
//!
//! Arrow's interface hands over pointers to unchecked bytes: texts may be no UTF-8, and offsets,
//! views and keys of dictionaries may point anywhere. All of that is checked here, once, before any
//! other code reads it. No check can tell the length of a buffer.
//!
//! Must never: look at more of a column than the rows of its batch, or stand around code of our own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, SchemaRef};

/// Record batches of another library, each of which is checked.
pub struct Checked<R>(pub R);

impl<R: RecordBatchReader> Iterator for Checked<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Where a structure contradicts its schema, arrow-rs has assertions.
        let next = || Some(self.0.next()?.and_then(check));
        catch_unwind(AssertUnwindSafe(next)).unwrap_or_else(|_| {
            let reason = "an array contradicts its schema or itself".to_owned();
            Some(Err(ArrowError::CDataInterface(reason)))
        })
    }
}

impl<R: RecordBatchReader> RecordBatchReader for Checked<R> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

fn check(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        check_values(&column.to_data()).map_err(|error| {
            let reason = match error {
                ArrowError::InvalidArgumentError(reason) => reason,
                other => other.to_string(),
            };
            let column = field.name();
            ArrowError::CDataInterface(format!("column \"{column}\": {reason}"))
        })?;
    }
    Ok(batch)
}

fn check_values(data: &ArrayData) -> Result<(), ArrowError> {
    // What has children was checked for its layout when the array of its type was made.
    if data.child_data().is_empty() {
        data.validate()?;
        return data.validate_values().or_else(|error| check_without_nulls(data).ok_or(error));
    }
    data.validate_values()?;
    match data.data_type() {
        DataType::List(_) | DataType::Map(..) => check_values(&elements::<i32>(data)),
        DataType::LargeList(_) => check_values(&elements::<i64>(data)),
        _ => data.child_data().iter().try_for_each(check_values),
    }
}

/// Checks the values that are not NULL: what is in the place of a NULL is of no meaning.
fn check_without_nulls(data: &ArrayData) -> Option<()> {
    let is_valid = |(start, end): (usize, usize)| data.slice(start, end - start).validate_values();
    data.nulls()?.valid_slices().try_for_each(is_valid).ok()
}

/// The elements of some lists. The rows of a batch may be few of those that the elements belong to.
fn elements<O: arrow_array::OffsetSizeTrait>(lists: &ArrayData) -> ArrayData {
    let elements = &lists.child_data()[0];
    let offsets = lists.buffers()[0].typed_data::<O>();
    if lists.is_empty() {
        return elements.slice(0, 0);
    }
    let (first, last) = (lists.offset(), lists.offset() + lists.len());
    let (first, last) = (offsets[first].as_usize(), offsets[last].as_usize());
    elements.slice(first, last - first)
}
