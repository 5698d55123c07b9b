//! The Parquet file, by the rival: record batches by the `parquet` crate, bound column by column.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rusqlite::Statement;

use super::data::{self, Inserter};
use crate::error::{Error, Result};
use crate::parquet_file::broken;

/// Rows of a record batch: a multiple of those of a statement, and few enough for the processor's
/// cache.
const BATCH_ROWS: usize = 8_000;

/// A column of a record batch, as what it is.
enum Column<'a> {
    Integer(&'a Int64Array),
    Real(&'a Float64Array),
    Text(&'a StringArray),
}

/// Loads the Parquet file, so many rows with one statement, and says how many rows it had.
pub(in crate::loads) fn load_parquet(
    path: &Path,
    database: &Path,
    statement_rows: usize,
) -> Result<u64> {
    data::load(database, statement_rows, |inserter| {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(|builder| builder.with_batch_size(BATCH_ROWS).build())
            .map_err(|error| broken(path, &error))?;
        let mut rows = 0;
        for batch in reader {
            let batch = batch.map_err(|error| broken(path, &error))?;
            insert_batch(inserter, &batch)?;
            rows += batch.num_rows() as u64;
        }
        Ok(rows)
    })
}

fn insert_batch(inserter: &mut Inserter<'_>, batch: &RecordBatch) -> Result<()> {
    let columns = columns(batch).ok_or_else(|| Error::rung("parquet, SQL", "another type"))?;
    let statement_rows = inserter.statement_rows();
    for first_row in (0..batch.num_rows()).step_by(statement_rows) {
        let count = statement_rows.min(batch.num_rows() - first_row);
        inserter.insert(count, |insert, index, bound_before| {
            for (column, parameter) in columns.iter().zip(bound_before + 1..) {
                bind(insert, parameter, column, first_row + index)
                    .map_err(Error::sqlite("bind a value"))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The columns by their types; `None` if one of them is none of those that were generated.
fn columns(batch: &RecordBatch) -> Option<Vec<Column<'_>>> {
    batch.columns().iter().map(column).collect()
}

fn column(array: &ArrayRef) -> Option<Column<'_>> {
    let integer = array.as_primitive_opt::<Int64Type>().map(Column::Integer);
    let real = || array.as_primitive_opt::<Float64Type>().map(Column::Real);
    integer.or_else(real).or_else(|| array.as_string_opt::<i32>().map(Column::Text))
}

#[inline]
fn bind(
    insert: &mut Statement<'_>,
    parameter: usize,
    column: &Column<'_>,
    row: usize,
) -> rusqlite::Result<()> {
    match column {
        Column::Integer(array) => insert.raw_bind_parameter(parameter, array.value(row)),
        Column::Real(array) => insert.raw_bind_parameter(parameter, array.value(row)),
        Column::Text(array) => insert.raw_bind_parameter(parameter, array.value(row)),
    }
}
