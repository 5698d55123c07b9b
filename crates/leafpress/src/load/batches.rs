//! Record batches of Arrow as the input of a load.

use arrow_array::RecordBatch;
use leafpress_format::Value;

use super::inputs::typed;
use super::monitor::Monitor;
use super::{Batched, DryRun, Goal, Loader, Report, beginning_anew, flow};
use crate::error::{Error, Result};
use crate::input::arrow::{ArrowBatch, ArrowSource, OpenBatches};
use crate::input::rows::RowBatch as _;

impl Loader {
    /// Loads record batches of Arrow. `name` is their name in messages and that of the table.
    ///
    /// They are read once. Where a second pass may be needed (keys, unique indexes, an existing
    /// table, columns whose values tell the type) they are kept in an anonymous temporary file
    /// beside the database.
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file).
    pub fn load_record_batches(
        self,
        name: &str,
        reader: impl arrow_array::RecordBatchReader + Send,
    ) -> Result<Report> {
        let may_read_again = self.has_rules();
        self.run_batches(name, reader, may_read_again, flow::load)
    }

    /// As [`dry_run_file`](Self::dry_run_file), for record batches.
    ///
    /// # Errors
    ///
    /// As [`dry_run_file`](Self::dry_run_file).
    pub fn dry_run_record_batches(
        self,
        name: &str,
        reader: impl arrow_array::RecordBatchReader + Send,
    ) -> Result<DryRun> {
        self.counting()?.run_batches(name, reader, true, flow::dry_run)
    }

    fn run_batches<R>(
        &self,
        name: &str,
        reader: impl arrow_array::RecordBatchReader + Send,
        may_read_again: bool,
        goal: Goal<R>,
    ) -> Result<R> {
        let (options, monitor) = (&self.options, &Monitor::default());
        self.run(monitor, goal, || {
            let folder = options.folder_beside(&options.database);
            let open = |reader| Ok(ArrowSource::once(name, reader, &folder, may_read_again));
            typed(options, monitor, vec![Box::new(reader) as Batched<'_>], open)
        })
    }

    /// As [`load_record_batches`](Self::load_record_batches), for record batches that `open` gives
    /// anew for each pass, in the same order: nothing is copied.
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file); [`ErrorKind::Aborted`](crate::ErrorKind::Aborted) with an error
    /// of `open`.
    pub fn load_record_batch_source<'b, E>(
        self,
        name: &str,
        open: impl FnMut() -> std::result::Result<Batched<'b>, E>,
    ) -> Result<Report>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.run_batch_source(name, open, flow::load)
    }

    /// As [`dry_run_file`](Self::dry_run_file), for record batches that `open` gives anew for each
    /// pass.
    ///
    /// # Errors
    ///
    /// As [`load_record_batch_source`](Self::load_record_batch_source).
    pub fn dry_run_record_batch_source<'b, E>(
        self,
        name: &str,
        open: impl FnMut() -> std::result::Result<Batched<'b>, E>,
    ) -> Result<DryRun>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.counting()?.run_batch_source(name, open, flow::dry_run)
    }

    fn run_batch_source<'b, R, E>(
        &self,
        name: &str,
        mut open: impl FnMut() -> std::result::Result<Batched<'b>, E>,
        goal: Goal<R>,
    ) -> Result<R>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        beginning_anew(|| true, || self.run_batch_source_once(name, &mut open, goal))
    }

    fn run_batch_source_once<'b, R, E>(
        &self,
        name: &str,
        open: &mut impl FnMut() -> std::result::Result<Batched<'b>, E>,
        goal: Goal<R>,
    ) -> Result<R>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (options, monitor) = (&self.options, &Monitor::default());
        let again: OpenBatches<'_> = Box::new(move || open().map_err(Error::aborted));
        self.run(monitor, goal, || {
            typed(options, monitor, vec![again], |again| ArrowSource::again(name, again))
        })
    }
}

/// The values that a load stores of a record batch, row by row, for callers that bind them.
///
/// # Errors
/// If an array is of no type that we know or contradicts itself, and for text that is not UTF-8.
pub fn values_of_batch(
    batch: &RecordBatch,
) -> std::result::Result<Vec<Vec<rusqlite::types::Value>>, String> {
    let names = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    let taken = ArrowBatch::new(&names, batch, 0..batch.num_rows(), 1)?;
    let value = |row: usize, column: usize| match taken.value(row, column) {
        Value::Null => Ok(rusqlite::types::Value::Null),
        Value::Integer(integer) => Ok(integer.into()),
        Value::Real(real) => Ok(real.into()),
        Value::Blob(bytes) => Ok(bytes.to_vec().into()),
        Value::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(text.to_owned().into()),
            Err(error) => Err(format!("column \"{}\": {error}", names[column])),
        },
    };
    (0..taken.rows())
        .map(|row| (0..names.len()).map(|column| value(row, column)).collect())
        .collect()
}
