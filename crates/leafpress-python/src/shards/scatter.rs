//! Scattered rows: a file of Arrow IPC, each batch with rows of one part.
//!
//! The footer says under `leafpress.batches` which part each batch is of, and how many rows it has, and under
//! `leafpress.wide` which columns have integers of more than 64 bits: such a column is TEXT, in all parts.

use std::io::BufWriter;
use std::path::Path;

use arrow_array::{RecordBatch, RecordBatchReader as _};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::interleave::interleave_record_batch;
use leafpress::load::may_be_wide;
use leafpress::vfs::locks::FileHandle;
use leafpress::vfs::rights::Rights;
use leafpress::{Error, Result, path_text};
use leafpress_shards::Routing;
use serde::{Deserialize, Serialize};

use super::{keys, types};
use crate::arrow::Exported;

/// Key of the list of batches in the footer.
pub const BATCHES: &str = "leafpress.batches";
/// Key of the places of columns with integers of more than 64 bits.
pub const WIDE: &str = "leafpress.wide";
/// Rows that are looked at in one go: a column of them is read once for each part, and stays in the
/// cache of the core meanwhile.
const SLICE_ROWS: usize = 64 << 10;
/// Columns of more bytes are written without a copy.
const BUFFER_BYTES: usize = 64 << 10;
/// Rows and bytes that are kept in memory until they are written.
const KEPT_ROWS_MAX: usize = 256 << 10;
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A batch in the list.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Batch {
    pub part: usize,
    pub rows: u64,
}

/// Writes the batches into a new file; returns the number of rows of each part, and a text of all that the file tells
/// of the columns. Where no key says the part, all rows are of part 0.
///
/// The file is not synced: a run whose machine dies is done anew.
///
/// # Errors
/// As [`keys::places_of`] and [`keys::each`]; the system's. Then the file is gone.
pub fn scatter(
    path: &Path,
    routing: &Routing,
    parts: usize,
    batches: Exported,
) -> Result<(Vec<u64>, String)> {
    let written = Scatter::new(path, routing, parts, &batches.schema()).and_then(|mut scatter| {
        for batch in batches {
            scatter.add(&batch.map_err(|error| failed(path, error))?)?;
        }
        scatter.finish()
    });
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

fn failed(path: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) => Error::io("write", path, source),
        other => Error::input(path_text(path), other.to_string()),
    }
}

struct Scatter<'r> {
    path: &'r Path,
    routing: &'r Routing,
    places: Vec<usize>,
    schema: SchemaRef,
    writer: FileWriter<BufWriter<FileHandle>>,
    kept: Vec<RecordBatch>,
    kept_bytes: usize,
    /// For each part its rows among those that are kept: number of the batch, and of the row in it.
    rows: Vec<Vec<(usize, usize)>>,
    counts: Vec<u64>,
    written: Vec<Batch>,
    /// Columns that may yet turn out to be wide, and those that did.
    unsettled: Vec<usize>,
    wide: Vec<usize>,
}

impl<'r> Scatter<'r> {
    fn new(path: &'r Path, routing: &'r Routing, parts: usize, given: &Schema) -> Result<Self> {
        let places = keys::places_of(routing.columns(), given)?;
        let parts = if places.is_empty() { 1 } else { parts };
        // Tasks may differ in what else a schema says.
        let nullable = |field: &arrow_schema::FieldRef| field.as_ref().clone().with_nullable(true);
        let schema =
            SchemaRef::new(Schema::new(given.fields().iter().map(nullable).collect::<Vec<_>>()));
        let file = FileHandle::create(path, Rights::private(path))
            .map_err(|source| Error::io("make", path, source))?;
        let writer = FileWriter::try_new(BufWriter::with_capacity(BUFFER_BYTES, file), &schema)
            .map_err(|error| failed(path, error))?;
        let fields = schema.fields().iter().enumerate();
        let unsettled = fields.filter(|(_, field)| may_be_wide(field.data_type()));
        let unsettled = unsettled.map(|(place, _)| place).collect();
        Ok(Self {
            path,
            routing,
            places,
            schema,
            writer,
            kept: Vec::new(),
            kept_bytes: 0,
            rows: vec![Vec::new(); parts],
            counts: vec![0; parts],
            written: Vec::new(),
            unsettled,
            wide: Vec::new(),
        })
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = SchemaRef::clone(&self.schema);
        let batch = RecordBatch::try_new(schema, batch.columns().to_vec())
            .map_err(|error| failed(self.path, error))?;
        self.look_for_wide(&batch)?;
        if self.places.is_empty() {
            self.counts[0] += batch.num_rows() as u64;
            return self.write(0, &batch);
        }
        let rows = batch.num_rows();
        let bytes_of_row = batch.get_array_memory_size().div_ceil(rows.max(1));
        for begin in (0..rows).step_by(SLICE_ROWS) {
            let slice = batch.slice(begin, SLICE_ROWS.min(rows - begin));
            self.kept_bytes += bytes_of_row * slice.num_rows();
            self.add_slice(slice)?;
        }
        Ok(())
    }

    fn look_for_wide(&mut self, batch: &RecordBatch) -> Result<()> {
        for at in (0..self.unsettled.len()).rev() {
            let is_wide = types::is_wide(batch.column(self.unsettled[at]));
            if is_wide.map_err(|error| failed(self.path, error))? {
                self.wide.push(self.unsettled.swap_remove(at));
            }
        }
        Ok(())
    }

    fn add_slice(&mut self, slice: RecordBatch) -> Result<()> {
        let (number, parts) = (self.kept.len(), self.rows.len());
        keys::each(&slice, &self.places, |row, key| {
            let part = self.routing.part_of(key, parts).unwrap_or(0);
            self.rows[part].push((number, row));
            Ok(())
        })?;
        self.kept.push(slice);
        let kept_rows: usize = self.kept.iter().map(RecordBatch::num_rows).sum();
        if kept_rows >= KEPT_ROWS_MAX || self.kept_bytes >= KEPT_BYTES_MAX {
            self.write_kept()?;
        }
        Ok(())
    }

    fn write_kept(&mut self) -> Result<()> {
        let kept = std::mem::take(&mut self.kept);
        let kept: Vec<&RecordBatch> = kept.iter().collect();
        for part in 0..self.rows.len() {
            let rows = std::mem::take(&mut self.rows[part]);
            if !rows.is_empty() {
                let batch = interleave_record_batch(&kept, &rows)
                    .map_err(|error| failed(self.path, error))?;
                self.counts[part] += rows.len() as u64;
                self.write(part, &batch)?;
            }
        }
        self.kept_bytes = 0;
        Ok(())
    }

    fn write(&mut self, part: usize, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(|error| failed(self.path, error))?;
        self.written.push(Batch { part, rows: batch.num_rows() as u64 });
        Ok(())
    }

    fn finish(mut self) -> Result<(Vec<u64>, String)> {
        self.write_kept()?;
        self.wide.sort_unstable();
        let fields = self.schema.fields().iter().map(|field| (field.name(), field.data_type()));
        let columns = format!("{:?} {:?}", fields.collect::<Vec<_>>(), self.wide);
        let list = crate::json::as_json(&self.written)?;
        self.writer.write_metadata(BATCHES, list);
        self.writer.write_metadata(WIDE, crate::json::as_json(&self.wide)?);
        self.writer.finish().map_err(|error| failed(self.path, error))?;
        Ok((self.counts, columns))
    }
}
