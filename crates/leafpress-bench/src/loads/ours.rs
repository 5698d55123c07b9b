//! The work by Leafpress, as a user of the library would write it.
//!
//! The only file that calls the loader. Nothing is tuned for the benchmark: the
//! loader's defaults hold, all syncs included.

use std::ops::Range;
use std::path::Path;

use leafpress::load::{Column, ColumnType, Indexer, IntoTable, Loader, Report, Row, Value};

use crate::error::Result;
use crate::events::{Event, Events, KEY_BYTES, PAYLOAD_BYTES};
use crate::generate::{CSV_COLUMNS, ColumnKind, INDEXED_COLUMN};
use crate::machine::cores;
use crate::users::{AREA_DIGITS, User, Users};

/// Loads a file of the rows of [`crate::generate`], of any format; `typed` gives the types instead of
/// having them detected.
pub(super) fn load_file(path: &Path, database: &Path, typed: bool) -> Result<Report> {
    let mut loader = Loader::new(database).table("data");
    if typed {
        for (name, kind) in CSV_COLUMNS {
            loader = loader.column_type(name, column_type(kind));
        }
    }
    Ok(loader.load_file(path)?)
}

fn column_type(kind: ColumnKind) -> ColumnType {
    match kind {
        ColumnKind::Integer => ColumnType::Integer,
        ColumnKind::Real => ColumnType::Real,
        ColumnKind::Text => ColumnType::Text,
    }
}

impl Row for User {
    #[inline]
    fn columns(&self) -> usize {
        4
    }

    #[inline]
    fn value(&self, column: usize) -> Value<'_> {
        match column {
            0 => Value::Integer(self.id()),
            1 => self.area().map_or(Value::Null, Value::Text),
            2 => Value::Integer(self.age()),
            _ => Value::Integer(i64::from(self.is_active())),
        }
    }

    #[inline]
    fn content_bytes(&self) -> usize {
        AREA_DIGITS
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
pub(super) fn load_user_parts(rows_count: u64, database: &Path) -> Result<Report> {
    let parts = Users::parts(rows_count, cores() as u64);
    let loader = Loader::new(database).table("user").primary_key("id");
    Ok(loader.load_parts(&user_columns(), parts)?)
}

/// Loads `rows_count` users made in memory by a single iterator.
pub(super) fn load_user_rows(rows_count: u64, database: &Path) -> Result<Report> {
    let loader = Loader::new(database).table("user").primary_key("id");
    Ok(loader.load_rows(&user_columns(), Users::new(0..rows_count))?)
}

/// Loads the CSV file, types detected, and its index in the same run.
pub(super) fn load_csv_with_index(csv_path: &Path, database: &Path) -> Result<Report> {
    Ok(Loader::new(database).table("data").index(INDEXED_COLUMN).load_file(csv_path)?)
}

impl Row for Event {
    #[inline]
    fn columns(&self) -> usize {
        2
    }

    #[inline]
    fn value(&self, column: usize) -> Value<'_> {
        Value::Blob(if column == 0 { self.key() } else { self.payload() })
    }

    #[inline]
    fn content_bytes(&self) -> usize {
        KEY_BYTES + PAYLOAD_BYTES
    }
}

fn event_columns() -> [Column; 2] {
    [Column::new("key", ColumnType::Blob), Column::new("payload", ColumnType::Blob)]
}

/// For the sort where nothing limits it: SQL's cache and its sorted keys take
/// as much.
const SORT_MEMORY_BYTES: usize = 2 << 30;

/// Loads rows with random keys, on all cores; `memory_bytes` limits the sort.
pub(super) fn load_keys(
    rows: &Range<u64>,
    database: &Path,
    memory_bytes: Option<u64>,
) -> Result<Report> {
    let memory = memory_bytes
        .map_or(SORT_MEMORY_BYTES, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let loader = Loader::new(database).table("event").primary_key("key").without_rowid(true);
    Ok(loader.memory(memory).load_parts(&event_columns(), Events::parts(rows, cores() as u64))?)
}

/// Appends rows with random keys to the table that is there.
pub(super) fn append_keys(rows: &Range<u64>, database: &Path) -> Result<Report> {
    let loader = Loader::new(database).table("event").into_table(IntoTable::Append);
    Ok(loader.load_parts(&event_columns(), Events::parts(rows, cores() as u64))?)
}

/// Makes the index of the CSV file's table.
pub(super) fn create_index(database: &Path) -> Result<()> {
    Indexer::new(database, "data").build(INDEXED_COLUMN)?;
    Ok(())
}
