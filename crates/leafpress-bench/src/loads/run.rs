//! One load in this process: makes what belongs to neither rival, then times the work.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use leafpress::load::Report;

use super::process::{self, Tool};
use super::rung::{Load, LoadRung};
use super::{disk, ours, sql};
use crate::error::Result;
use crate::rung::described::Given;
use crate::rung::result::{RungResult, stages_of};
use crate::usage::Usage;

/// Answer of a rival's work: rows and, where it says them, seconds per stage.
struct Done {
    rows: u64,
    stages_s: BTreeMap<String, f64>,
}

impl From<u64> for Done {
    fn from(rows: u64) -> Self {
        Self { rows, stages_s: BTreeMap::new() }
    }
}

impl From<Report> for Done {
    fn from(report: Report) -> Self {
        Self { rows: report.rows_loaded, stages_s: stages_of(&report) }
    }
}

/// Does the rung's work and measures it.
pub(super) fn run(rung: LoadRung, given: &Given<'_>) -> Result<RungResult> {
    // As `leafpress load` does; the rivals have it too.
    leafpress::vfs::memory::keep_freed();
    let Given { database, input } = *given;
    let (rows, numbers) = (rung.rows, rung.row_numbers());
    match rung.by {
        Load::CsvSql => timed(|| sql::load_csv(input, database, 1)),
        Load::CsvBatchedSql => timed(|| sql::load_csv(input, database, sql::CSV_STATEMENT_ROWS)),
        Load::CsvLeafpress => timed(|| ours::load_file(input, database, false)),
        Load::CsvTypedLeafpress => timed(|| ours::load_file(input, database, true)),
        Load::CsvDisk => {
            disk_alone(database, Some(input), &ours::load_file(input, database, true)?)
        }
        Load::CsvIndexSql => timed(|| sql::load_csv_with_index(input, database)),
        Load::CsvIndexLeafpress => timed(|| ours::load_csv_with_index(input, database)),
        Load::NdjsonSql => timed(|| sql::load_ndjson(input, database, 1)),
        Load::NdjsonBatchedSql => {
            timed(|| sql::load_ndjson(input, database, sql::CSV_STATEMENT_ROWS))
        }
        Load::ParquetSql => timed(|| sql::load_parquet(input, database, 1)),
        Load::ParquetBatchedSql => {
            timed(|| sql::load_parquet(input, database, sql::CSV_STATEMENT_ROWS))
        }
        Load::NdjsonLeafpress | Load::ParquetLeafpress => {
            timed(|| ours::load_file(input, database, false))
        }
        Load::ProcessShell => process::load(Tool::Shell, rows, database),
        Load::ProcessLeafpress => process::load(Tool::Leafpress, rows, database),
        Load::UsersSql => timed(|| sql::load_users(rows, database)),
        Load::UsersIteratorLeafpress => timed(|| ours::load_user_rows(rows, database)),
        Load::AttachSql => timed(|| sql::attach_users(rows, database, 1)),
        Load::AttachBatchedSql => timed(|| sql::attach_users(rows, database, sql::STATEMENT_ROWS)),
        // The loader sees for itself whether the database exists.
        Load::UsersLeafpress | Load::AttachLeafpress => {
            timed(|| ours::load_user_parts(rows, database))
        }
        Load::UsersDisk => disk_alone(database, None, &ours::load_user_parts(rows, database)?),
        Load::KeysDisk => {
            disk_alone(database, None, &ours::load_keys(&numbers, database, rung.memory_bytes)?)
        }
        Load::KeysSql => timed(|| sql::load_keys_unsorted(numbers, database)),
        Load::KeysPresortedSql => timed(|| sql::load_keys_presorted(numbers, database)),
        Load::KeysBatchedSql => timed(|| sql::load_keys_in_batches(numbers, database)),
        Load::KeysLeafpress | Load::KeysSpilledLeafpress => {
            timed(|| ours::load_keys(&numbers, database, rung.memory_bytes))
        }
        Load::AppendSql => timed(|| sql::append_keys(numbers, database)),
        Load::AppendLeafpress => timed(|| ours::append_keys(&numbers, database)),
        Load::IndexSql => timed(|| sql::create_index(database, sql::PRAGMAS).map(|()| rows)),
        Load::IndexDurableSql => {
            timed(|| sql::create_index(database, sql::DURABLE_PRAGMAS).map(|()| rows))
        }
        Load::IndexLeafpress => timed(|| ours::create_index(database).map(|()| rows)),
    }
}

/// Times the disk alone, beside a database that was pressed before.
fn disk_alone(database: &Path, input: Option<&Path>, pressed: &Report) -> Result<RungResult> {
    disk::alone(database, input, |work| timed(|| work().map(|()| pressed.rows_loaded)))
}

fn timed<D: Into<Done>>(work: impl FnOnce() -> Result<D>) -> Result<RungResult> {
    let before = Usage::now();
    let start = Instant::now();
    let Done { rows, stages_s } = work()?.into();
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    Ok(RungResult { wall_s, rows, stages_s, ..RungResult::of(used) })
}
