//! Checks of the arrays of other libraries, which may hold anything.
//!
//! Arrow's interface hands over pointers to unchecked bytes: texts may be no UTF-8, and offsets,
//! views and keys of dictionaries may point anywhere. All of that is checked here, once, before any
//! other code reads it. No check can tell the length of a buffer.
//!
//! Must never: look at more of a column than the rows of its batch, or stand around code of our own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{Array, OffsetSizeTrait, RecordBatch, RecordBatchReader};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, SchemaRef};

/// Record batches that another library exports.
pub type Exported = Box<dyn RecordBatchReader + Send>;

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
        if are_texts(data).is_some() {
            return Ok(());
        }
        return data.validate_values().or_else(|error| check_without_nulls(data).ok_or(error));
    }
    data.validate_values()?;
    match data.data_type() {
        DataType::List(_) | DataType::Map(..) => check_values(&elements::<i32>(data)),
        DataType::LargeList(_) => check_values(&elements::<i64>(data)),
        _ => data.child_data().iter().try_for_each(check_values),
    }
}

/// Checks texts, which are most of the work, in a sixth of the time that arrow-rs takes. `None`: they
/// may not be good, or are of another type; arrow-rs is to look, and tells what is wrong.
fn are_texts(data: &ArrayData) -> Option<()> {
    match data.data_type() {
        DataType::Utf8 => are_texts_between::<i32>(data),
        DataType::LargeUtf8 => are_texts_between::<i64>(data),
        DataType::Utf8View => are_views_of_texts(data),
        _ => None,
    }
}

fn are_texts_between<O: OffsetSizeTrait>(data: &ArrayData) -> Option<()> {
    let offsets = data.buffers()[0].typed_data::<O>();
    let offsets = offsets.get(data.offset()..=data.offset() + data.len())?;
    let (first, last) = (offsets[0].as_usize(), offsets[data.len()].as_usize());
    let texts = data.buffers()[1].get(first..last)?;
    // A loop that does not end early becomes one over vectors.
    let is_sorted = offsets.windows(2).filter(|ends| ends[0] > ends[1]).count() == 0;
    let starts_text = |offset: &O| is_start(texts.get(offset.as_usize() - first));
    let are_texts = is_sorted
        && (texts.is_ascii()
            || (simdutf8::basic::from_utf8(texts).is_ok() && offsets.iter().all(starts_text)));
    are_texts.then_some(())
}

/// Returns true for a byte that is the first of a character, and at the end of the text.
fn is_start(byte: Option<&u8>) -> bool {
    byte.is_none_or(|byte| byte & 0xc0 != 0x80)
}

fn are_views_of_texts(data: &ArrayData) -> Option<()> {
    let views = data.buffers()[0].typed_data::<u128>();
    // Most texts follow one another in a buffer. They are looked at together.
    let (mut buffer, mut run) = (&data.buffers()[0], 0..0);
    for view in views.get(data.offset()..data.offset() + data.len())? {
        // A view: the length, then a short text or four of its bytes, a buffer and an offset.
        let word = |at: u32| (view >> (32 * at)) as u32 as usize;
        let length = word(0);
        if length <= INLINE_MAX {
            if (view >> 32) & HIGH_BITS != 0 {
                std::str::from_utf8(view.to_le_bytes().get(4..4 + length)?).ok()?;
            }
            continue;
        }
        let (its_buffer, start) = (data.buffers().get(1 + word(2))?, word(3));
        if start != run.end || !std::ptr::eq(its_buffer, buffer) || !is_start(buffer.get(start)) {
            simdutf8::basic::from_utf8(buffer.get(run)?).ok()?;
            (buffer, run) = (its_buffer, start..start);
        }
        run.end += length;
    }
    simdutf8::basic::from_utf8(buffer.get(run)?).ok().map(|_| ())
}

/// Longest text that a view has in itself.
const INLINE_MAX: usize = 12;
/// The bits of bytes that are not ASCII.
const HIGH_BITS: u128 = u128::MAX / 0xff * 0x80;

/// Checks the values that are not NULL: what is in the place of a NULL is of no meaning.
fn check_without_nulls(data: &ArrayData) -> Option<()> {
    let is_valid = |(start, end): (usize, usize)| data.slice(start, end - start).validate_values();
    data.nulls()?.valid_slices().try_for_each(is_valid).ok()
}

/// The elements of some lists. The rows of a batch may be few of those that the elements belong to.
fn elements<O: OffsetSizeTrait>(lists: &ArrayData) -> ArrayData {
    let elements = &lists.child_data()[0];
    let offsets = lists.buffers()[0].typed_data::<O>();
    if lists.is_empty() {
        return elements.slice(0, 0);
    }
    let (first, last) = (lists.offset(), lists.offset() + lists.len());
    let (first, last) = (offsets[first].as_usize(), offsets[last].as_usize());
    elements.slice(first, last - first)
}
