//! The rows of [`crate::generate`] as a Parquet file, as other tools write one by default: Snappy,
//! dictionaries where they help.
//!
//! Must never: write other values than the CSV file has.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::error::{Error, Result};
use crate::generate::{CSV_COLUMNS, ColumnKind, TableFile, integer_of, push_value, real_of};

/// Rows that one thread makes at a time.
const BLOCK_ROWS: u64 = 16_384;

/// Rows of a row group.
const GROUP_ROWS: usize = 16 * BLOCK_ROWS as usize;

/// Writes a file of about so many bytes, and syncs it. `progress` is told the bytes so far.
///
/// # Errors
/// If the file cannot be written; it may then be there, cut short.
pub(crate) fn write_table(
    path: &Path,
    bytes: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<TableFile> {
    let file = File::create(path).map_err(Error::io("create", path))?;
    let rows = write_rows(file, bytes, progress).map_err(|error| broken(path, &error))?;
    let file = File::open(path).map_err(Error::io("open", path))?;
    file.sync_all().map_err(Error::io("sync", path))?;
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    Ok(TableFile { bytes, rows })
}

/// Error of a Parquet file of the experiment.
pub(crate) fn broken(path: &Path, error: &dyn std::error::Error) -> Error {
    Error::io("read or write", path)(io::Error::other(error.to_string()))
}

fn write_rows(
    file: File,
    bytes: u64,
    progress: &mut dyn FnMut(u64),
) -> std::result::Result<u64, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(file, Arc::new(schema()), Some(properties))?;
    let threads_count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (mut rows, mut written_bytes) = (0, 0);
    while written_bytes < bytes {
        for batch in blocks(rows, threads_count) {
            // Every block ends the file alike, whatever the number of threads.
            if written_bytes < bytes {
                writer.write(&batch?)?;
                rows += BLOCK_ROWS;
                written_bytes = (writer.bytes_written() + writer.in_progress_size()) as u64;
            }
        }
        progress(written_bytes);
    }
    writer.inner_mut().flush()?;
    writer.close()?;
    Ok(rows)
}

fn schema() -> Schema {
    let field = |(name, kind): (&str, ColumnKind)| {
        let data_type = match kind {
            ColumnKind::Integer => DataType::Int64,
            ColumnKind::Real => DataType::Float64,
            ColumnKind::Text => DataType::Utf8,
        };
        Field::new(name, data_type, false)
    };
    Schema::new(CSV_COLUMNS.map(field).to_vec())
}

type Block = std::result::Result<RecordBatch, ParquetError>;

/// Consecutive blocks from this row on, each made by a thread.
fn blocks(first_row: u64, count: usize) -> Vec<Block> {
    thread::scope(|scope| {
        let make = |index: usize| {
            let start = first_row + index as u64 * BLOCK_ROWS;
            scope.spawn(move || block(start..start + BLOCK_ROWS))
        };
        let threads: Vec<_> = (0..count.max(1)).map(make).collect();
        let joined = |thread: thread::ScopedJoinHandle<'_, Block>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(joined).collect()
    })
}

fn block(rows: Range<u64>) -> Block {
    let columns = CSV_COLUMNS.iter().enumerate().map(|(column, (_, kind))| -> ArrayRef {
        let rows = rows.clone();
        match kind {
            ColumnKind::Integer => {
                Arc::new(Int64Array::from_iter_values(rows.map(|row| integer_of(row, column))))
            }
            ColumnKind::Real => {
                Arc::new(Float64Array::from_iter_values(rows.map(|row| real_of(row, column))))
            }
            ColumnKind::Text => Arc::new(StringArray::from_iter_values(rows.map(|row| {
                let mut text = Vec::new();
                push_value(&mut text, row, column);
                String::from_utf8_lossy(&text).into_owned()
            }))),
        }
    });
    Ok(RecordBatch::try_new(Arc::new(schema()), columns.collect())?)
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    #[test]
    fn a_file_has_its_size_and_says_its_rows() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.parquet");
        let written = write_table(&path, 3_000_000, &mut |_| ()).expect("it can be written");
        assert!((1_500_000..6_000_000).contains(&written.bytes), "{written:?}");
        let file = File::open(&path).expect("it opens");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("it is Parquet");
        assert_eq!(reader.metadata().file_metadata().num_rows().cast_unsigned(), written.rows);
    }

    #[test]
    fn values_are_those_of_the_csv_file() {
        for row in 0..5_000 {
            for (column, (name, kind)) in CSV_COLUMNS.iter().enumerate() {
                let mut text = Vec::new();
                push_value(&mut text, row, column);
                let text = String::from_utf8(text).expect("UTF-8");
                let is_same = match kind {
                    ColumnKind::Integer => text.parse() == Ok(integer_of(row, column)),
                    ColumnKind::Real => {
                        text.parse().map(f64::to_bits) == Ok(real_of(row, column).to_bits())
                    }
                    ColumnKind::Text => true,
                };
                assert!(is_same, "{name} {text}");
            }
        }
    }
}
