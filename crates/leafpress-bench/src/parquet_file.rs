//! The rows of [`crate::generate`] as a Parquet file, as other tools write one by default: Snappy,
//! dictionaries where they help.
//!
//! The values go to the file's columns as they are. By way of Arrow's arrays the command would hold
//! Arrow's kernels for all types of arrays, which make it larger and slower to start.
//!
//! Must never: write other values than the CSV file has.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::error::{Error, Result};
use crate::generate::{CSV_COLUMNS, ColumnKind, TableFile, integer_of, push_value, real_of};

/// Rows that one thread makes at a time.
const BLOCK_ROWS: u64 = 16_384;

/// Blocks of a row group, at most.
const GROUP_BLOCKS: u64 = 16;

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

type Written<T> = std::result::Result<T, ParquetError>;

fn write_rows(file: File, bytes: u64, progress: &mut dyn FnMut(u64)) -> Written<u64> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema()?), Arc::new(properties))?;
    let (mut rows, mut written_bytes) = (0, 0);
    while written_bytes < bytes {
        // The first group is of one block, which tells how large rows are.
        let wanted = (bytes - written_bytes) * rows / written_bytes.max(1);
        let blocks = wanted.div_ceil(BLOCK_ROWS).clamp(1, GROUP_BLOCKS);
        write_group(&mut writer, rows, blocks)?;
        rows += blocks * BLOCK_ROWS;
        written_bytes = writer.bytes_written() as u64;
        progress(written_bytes);
    }
    writer.close()?;
    Ok(rows)
}

fn schema() -> Written<Type> {
    let column = |(name, kind): (&str, ColumnKind)| {
        let (physical, logical) = match kind {
            ColumnKind::Integer => (PhysicalType::INT64, None),
            ColumnKind::Real => (PhysicalType::DOUBLE, None),
            ColumnKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let column = Type::primitive_type_builder(name, physical);
        let column = column.with_repetition(Repetition::REQUIRED).with_logical_type(logical);
        column.build().map(Arc::new)
    };
    let columns = CSV_COLUMNS.into_iter().map(column).collect::<Written<Vec<_>>>()?;
    Type::group_type_builder("schema").with_fields(columns).build()
}

/// Writes a row group of so many blocks, from this row on.
fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    first_row: u64,
    blocks_count: u64,
) -> Written<()> {
    let blocks = made_blocks(first_row, blocks_count);
    let mut group = writer.next_row_group()?;
    for column in 0..CSV_COLUMNS.len() {
        let Some(mut writer) = group.next_column()? else {
            return Err(ParquetError::General("the file has too few columns".to_owned()));
        };
        for block in &blocks {
            block[column].write(&mut writer)?;
        }
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

/// Values of a column.
enum Values {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Texts(Vec<ByteArray>),
}

impl Values {
    fn make(column: usize, kind: ColumnKind, rows: Range<u64>) -> Self {
        match kind {
            ColumnKind::Integer => {
                Self::Integers(rows.map(|row| integer_of(row, column)).collect())
            }
            ColumnKind::Real => Self::Reals(rows.map(|row| real_of(row, column)).collect()),
            ColumnKind::Text => Self::Texts(
                rows.map(|row| {
                    let mut text = Vec::new();
                    push_value(&mut text, row, column);
                    ByteArray::from(text)
                })
                .collect(),
            ),
        }
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Written<()> {
        match self {
            Self::Integers(values) => column.typed::<Int64Type>().write_batch(values, None, None),
            Self::Reals(values) => column.typed::<DoubleType>().write_batch(values, None, None),
            Self::Texts(values) => column.typed::<ByteArrayType>().write_batch(values, None, None),
        }
        .map(drop)
    }
}

/// Consecutive blocks from this row on, made by all cores.
fn made_blocks(first_row: u64, count: u64) -> Vec<Vec<Values>> {
    let threads_count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut blocks: Vec<Vec<Values>> = (0..count).map(|_| Vec::new()).collect();
    let share = blocks.len().div_ceil(threads_count).max(1);
    thread::scope(|scope| {
        let mut first_row = first_row;
        for blocks in blocks.chunks_mut(share) {
            let rows = blocks.len() as u64 * BLOCK_ROWS;
            let starts = (first_row..first_row + rows).step_by(BLOCK_ROWS as usize);
            scope.spawn(move || {
                for (block, start) in blocks.iter_mut().zip(starts) {
                    *block = made_block(start..start + BLOCK_ROWS);
                }
            });
            first_row += rows;
        }
    });
    blocks
}

/// The columns of these rows.
fn made_block(rows: Range<u64>) -> Vec<Values> {
    let columns = CSV_COLUMNS.iter().enumerate();
    columns.map(|(column, (_, kind))| Values::make(column, *kind, rows.clone())).collect()
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
