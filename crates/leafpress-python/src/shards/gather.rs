//! The rows of one part, out of the files of all tasks that scattered rows.

use std::collections::VecDeque;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, new_null_array};
use arrow_ipc::reader::FileReader;
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use leafpress::load::may_be_wide;
use leafpress_shards::{ScratchReader, Shards};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use super::scatter::{BATCHES, Batch, WIDE};
use super::types;

/// Rows of one part in one file.
#[derive(Debug, Clone, FromPyObject)]
pub struct Span {
    path: String,
    part: usize,
    /// Rows of the part that are left out before the first one.
    skip: u64,
    /// Number of rows.
    take: u64,
}

/// The rows of spans, in order.
pub struct Gathered {
    scratch: Shards,
    spans: VecDeque<Span>,
    schema: SchemaRef,
    open: Option<OpenSpan>,
}

struct OpenSpan {
    reader: FileReader<ScratchReader>,
    batches: VecDeque<(usize, Batch)>,
    skip: u64,
    take: u64,
}

impl Gathered {
    /// Opens the files, some of which have no rows of the part, to know the type of each column: a task that has only met NULLs may not, nor one that has
    /// met only integers which fit 64 bits.
    ///
    /// # Errors
    /// A file cannot be read, or the tasks gave different columns.
    pub fn new(scratch: &Shards, spans: Vec<Span>) -> Result<Self, ArrowError> {
        let mut given: Option<SchemaRef> = None;
        let mut wide = Vec::new();
        for span in &spans {
            let OpenSpan { reader, .. } = OpenSpan::new(scratch, span)?;
            wide.extend(listed::<usize>(&reader, WIDE)?);
            given = Some(match given {
                Some(before) => joined(&before, &reader.schema())?,
                None => reader.schema(),
            });
        }
        let given = given.ok_or_else(|| damaged("no file of scattered rows is named"))?;
        let schema = settled(&given, &wide);
        let spans = spans.into_iter().filter(|span| span.take > 0).collect();
        Ok(Self { scratch: scratch.clone(), spans, schema, open: None })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(span) = self.spans.pop_front() else { return Ok(None) };
                self.open = Some(OpenSpan::new(&self.scratch, &span)?);
                continue;
            };
            match open.read()? {
                Some(batch) => return typed(&batch, &self.schema).map(Some),
                None => self.open = None,
            }
        }
    }
}

impl OpenSpan {
    fn new(scratch: &Shards, span: &Span) -> Result<Self, ArrowError> {
        let file = ScratchReader::open(scratch, &span.path)
            .map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        let reader = FileReader::try_new(file, None)?;
        let list: Vec<Batch> = listed(&reader, BATCHES)?;
        let batches = list.into_iter().enumerate().filter(|(_, batch)| batch.part == span.part);
        Ok(Self { reader, batches: batches.collect(), skip: span.skip, take: span.take })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while let Some((index, Batch { rows, .. })) = self.batches.pop_front() {
            if self.take == 0 {
                break;
            }
            if self.skip >= rows {
                self.skip -= rows;
                continue;
            }
            self.reader.set_index(index)?;
            let batch = self.reader.next().ok_or_else(|| damaged("a batch is missing"))??;
            let taken = (rows - self.skip).min(self.take);
            let batch = batch.slice(self.skip as usize, taken as usize);
            self.take -= taken;
            self.skip = 0;
            return Ok(Some(batch));
        }
        if self.take > 0 {
            return Err(damaged("rows are missing"));
        }
        Ok(None)
    }
}

impl Iterator for Gathered {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl RecordBatchReader for Gathered {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// The columns of two files, where one may have met NULLs only.
fn joined(one: &SchemaRef, other: &SchemaRef) -> Result<SchemaRef, ArrowError> {
    if one.fields() == other.fields() {
        return Ok(SchemaRef::clone(one));
    }
    let fit = |(one, other): (&FieldRef, &FieldRef)| match (one.data_type(), other.data_type()) {
        _ if one.name() != other.name() => None,
        (DataType::Null, _) => Some(FieldRef::clone(other)),
        (one_type, other_type) if one_type == other_type || other_type.is_null() => {
            Some(FieldRef::clone(one))
        }
        _ => None,
    };
    let fields = one.fields().iter().zip(other.fields()).map(fit).collect::<Option<Vec<_>>>();
    match fields {
        Some(fields) if one.fields().len() == other.fields().len() => {
            Ok(SchemaRef::new(Schema::new(fields)))
        }
        _ => Err(ArrowError::SchemaError(format!(
            "tasks gave different columns: {} and {}",
            columns_text(one),
            columns_text(other)
        ))),
    }
}

fn columns_text(schema: &Schema) -> String {
    let column = |field: &FieldRef| format!("{} {}", field.name(), field.data_type());
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}

/// The columns of all parts: those that may be wide have the type that the rows of all tasks ask for.
fn settled(given: &SchemaRef, wide: &[usize]) -> SchemaRef {
    let settle = |(place, field): (usize, &FieldRef)| {
        if !may_be_wide(field.data_type()) {
            return FieldRef::clone(field);
        }
        let settled = types::settled_type(wide.contains(&place));
        FieldRef::new(field.as_ref().clone().with_data_type(settled))
    };
    let fields = given.fields().iter().enumerate().map(settle);
    SchemaRef::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The batch with the types of all files.
fn typed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let column = |(array, field): (&ArrayRef, &FieldRef)| match array.data_type() {
        found if found == field.data_type() => Ok(ArrayRef::clone(array)),
        DataType::Null => Ok(new_null_array(field.data_type(), array.len())),
        _ => types::settled(array, field.data_type()),
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column);
    RecordBatch::try_new(SchemaRef::clone(schema), columns.collect::<Result<_, _>>()?)
}

/// A list in the footer.
fn listed<T: DeserializeOwned>(
    reader: &FileReader<ScratchReader>,
    name: &str,
) -> Result<Vec<T>, ArrowError> {
    let list = reader.custom_metadata().get(name).map_or("", String::as_str);
    serde_json::from_str(list)
        .map_err(|error| damaged(&format!("its list {name} is damaged: {error}")))
}

fn damaged(reason: &str) -> ArrowError {
    ArrowError::ParseError(format!("scattered rows: {reason}"))
}
