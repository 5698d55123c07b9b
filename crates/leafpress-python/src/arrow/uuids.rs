//! UUIDs of Arrow as text, which is what objects of Python's `UUID` are stored as.
//!
//! Arrow has them as 16 bytes, with the name of an extension in the field.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader as _};
use arrow_array::{FixedSizeBinaryArray, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::checked::Exported;

const EXTENSION: &str = "ARROW:extension:name";
const UUID: &str = "arrow.uuid";
const UUID_BYTES: i32 = 16;

/// The record batches with their columns of UUIDs as text.
pub fn as_text(batches: Exported) -> Exported {
    let given = batches.schema();
    if !given.fields().iter().any(|field| is_uuid(field)) {
        return batches;
    }
    let field = |field: &Arc<Field>| {
        if !is_uuid(field) {
            return Arc::clone(field);
        }
        Arc::new(Field::new(field.name(), DataType::Utf8, field.is_nullable()))
    };
    let fields: Vec<_> = given.fields().iter().map(field).collect();
    let schema = SchemaRef::new(Schema::new(fields));
    let made = SchemaRef::clone(&schema);
    let batches = batches.map(move |batch| written(&batch?, &given, &made));
    Box::new(RecordBatchIterator::new(batches, schema))
}

fn is_uuid(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(UUID_BYTES)
        && field.metadata().get(EXTENSION).is_some_and(|name| name == UUID)
}

fn written(
    batch: &RecordBatch,
    given: &Schema,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let column = |(column, field): (&ArrayRef, &Arc<Field>)| match column
        .as_fixed_size_binary_opt()
        .filter(|_| is_uuid(field))
    {
        Some(uuids) => Arc::new(texts(uuids)),
        None => Arc::clone(column),
    };
    let columns = batch.columns().iter().zip(given.fields()).map(column).collect();
    RecordBatch::try_new(Arc::clone(schema), columns)
}

fn texts(uuids: &FixedSizeBinaryArray) -> StringArray {
    let text = |row| uuids.is_valid(row).then(|| text_of(uuids.value(row)));
    (0..uuids.len()).map(text).collect()
}

/// As `8-4-4-4-12` hexadecimal digits.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // A String takes all that is written.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
