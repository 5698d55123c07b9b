//! Databases that stand before a load begins: the table that gets an index, or the database that a
//! new table or more rows go to.

use std::fs;
use std::path::Path;

use super::rung::{LoadRung, Work};
use super::{ours, sql};
use crate::connect;
use crate::error::{Error, Result};
use crate::generate::{self, FileSize, TextFormat};
use crate::rung::described::{Fixture, MakeDatabase};

/// A table beside the one that is attached has a hundredth of its rows.
const NEIGHBOUR_FRACTION: u64 = 100;

/// Fixture of a rung; `None` if it makes a new database.
pub(super) fn of(rung: LoadRung) -> Option<Fixture> {
    let make: MakeDatabase = match rung.work() {
        Work::Csv
        | Work::CsvIndex
        | Work::Ndjson
        | Work::Parquet
        | Work::Process
        | Work::Users
        | Work::Keys => return None,
        Work::Index => Box::new(move |database| press_data(database, rung.rows)),
        Work::Attach => {
            let rows = (rung.rows / NEIGHBOUR_FRACTION).max(1);
            Box::new(move |database| keys_in_wal(database, rows))
        }
        Work::Append => Box::new(move |database| keys_in_wal(database, rung.rows_before())),
    };
    // The rung's own room has it in it.
    Some(Fixture { name: rung.work().name().to_owned(), room_mb: 0, make })
}

/// Presses the table of a CSV file.
fn press_data(database: &Path, rows: u64) -> Result<()> {
    let csv = database.with_extension("csv");
    generate::write_table(&csv, TextFormat::Csv, FileSize::Rows(rows), &mut |_| ())?;
    ours::load_file(&csv, database, true)?;
    fs::remove_file(&csv).map_err(Error::io("remove", &csv))
}

/// Fills a table with random keys, and puts the database in WAL mode, in which it stays.
fn keys_in_wal(database: &Path, rows: u64) -> Result<()> {
    sql::load_keys_presorted(0..rows, database)?;
    let connection = connect::open(database, None)?;
    connection
        .execute_batch("PRAGMA journal_mode = WAL")
        .map_err(Error::sqlite("set the fixture's journal mode"))?;
    connect::close(connection)
}
