//! The work by Leafpress, as a user of the library would write it.
//!
//! The only file that calls the loader. Nothing is tuned for the benchmark: the
//! loader's defaults hold, all syncs included.

use std::ops::Range;
use std::path::Path;
use std::thread;

use leafpress::load::{Column, ColumnType, Loader, Report};

use crate::error::{Error, Result};
use crate::generate::{Areas, CSV_COLUMNS, ColumnKind, Users};

/// Loads the CSV file of [`crate::generate`]; `typed` gives the types instead of
/// having them detected.
pub(crate) fn load_csv(csv_path: &Path, database: &Path, typed: bool) -> Result<Report> {
    let mut loader = Loader::new(database).table("data");
    if typed {
        for (name, kind) in CSV_COLUMNS {
            loader = loader.column_type(name, column_type(kind));
        }
    }
    Ok(loader.load_file(csv_path)?)
}

fn column_type(kind: ColumnKind) -> ColumnType {
    match kind {
        ColumnKind::Integer => ColumnType::Integer,
        ColumnKind::Real => ColumnType::Real,
        ColumnKind::Text => ColumnType::Text,
    }
}

fn user_columns() -> [Column; 4] {
    [
        Column::new("id", ColumnType::Integer),
        Column::new("area", ColumnType::Text),
        Column::new("age", ColumnType::Integer),
        Column::new("active", ColumnType::Integer),
    ]
}

/// Loads `rows_count` users made in memory, on all cores.
pub(crate) fn load_user_parts(areas: &Areas, rows_count: u64, database: &Path) -> Result<Report> {
    let cores_count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let parts = Users::parts(areas, rows_count, cores_count as u64);
    let loader = Loader::new(database).table("user").primary_key("id");
    Ok(loader.load_parts(&user_columns(), parts)?)
}

/// Loads `rows_count` users made in memory by a single iterator.
pub(crate) fn load_user_rows(areas: &Areas, rows_count: u64, database: &Path) -> Result<Report> {
    let loader = Loader::new(database).table("user").primary_key("id");
    Ok(loader.load_rows(&user_columns(), Users::new(areas, 0..rows_count))?)
}

/// Loads the CSV file, types detected, and its index in the same run.
pub(crate) fn load_csv_with_index(_csv_path: &Path, _database: &Path) -> Result<Report> {
    not_available("an index in the same run")
}

/// Loads rows with random keys, on all cores, with as much memory as is given.
pub(crate) fn load_keys(
    _rows: &Range<u64>,
    _database: &Path,
    _memory_bytes: Option<u64>,
) -> Result<Report> {
    not_available("keys in no order")
}

/// Appends rows with random keys to the table that is there.
pub(crate) fn append_keys(_rows: &Range<u64>, _database: &Path) -> Result<Report> {
    not_available("rows for a table that exists")
}

/// Loads users to a new table of the database that is there.
pub(crate) fn attach_users(_areas: &Areas, _rows_count: u64, _database: &Path) -> Result<Report> {
    not_available("a new table in a database that exists")
}

/// Makes the index of the CSV file's table.
pub(crate) fn create_index(_database: &Path) -> Result<()> {
    not_available("an index on a table that exists")
}

/// What this build's loader cannot do yet.
fn not_available<T>(work: &str) -> Result<T> {
    Err(Error::Usage(format!("not available: this build of leafpress cannot make {work}")))
}
