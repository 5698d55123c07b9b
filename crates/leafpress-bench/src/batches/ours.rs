//! The same rows by Leafpress, as a user of the library would write it. Nothing is tuned for
//! the benchmark: the defaults of the Writer and of the Loader hold, all syncs included.

use std::path::Path;
use std::thread;
use std::time::Instant;

use leafpress::load::{Column, ColumnType, Loader};
use leafpress::writer::Writer;
use rusqlite::types::Value;

use super::rows::{BatchRow, BatchRows, Key};
use super::{BatchesRung, Keys};
use crate::commits::profile_of;
use crate::error::Result;
use crate::report::Safety;
use crate::rung::RungResult;
use crate::usage::Usage;

/// A call for each batch, which sorts it.
pub(super) fn insert_many(rung: &BatchesRung, database: &Path) -> Result<RungResult> {
    let before = Usage::now();
    let start = Instant::now();
    let writer = Writer::builder(database).profile(profile_of(Safety::Durable)).open()?;
    writer.execute_batch(rung.keys.table())?;
    let mut batches_s = Vec::with_capacity(rung.batches as usize);
    for batch in 0..u64::from(rung.batches) {
        let begun = Instant::now();
        let rows = batch * rung.batch_rows..(batch + 1) * rung.batch_rows;
        let rows = BatchRows::new(rung.keys, rows).map(|row| values(&row));
        writer.insert_many("event", &["id", "data"], rows)?;
        batches_s.push(begun.elapsed().as_secs_f64());
    }
    writer.close()?;
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    let outside_s = Some(wall_s - batches_s.iter().sum::<f64>());
    Ok(RungResult { wall_s, rows: rung.rows(), batches_s, outside_s, ..RungResult::of(used) })
}

fn values(row: &BatchRow) -> Vec<Value> {
    let key = match row.key {
        Key::Integer(integer) => Value::Integer(integer),
        Key::Blob(bytes, length) => Value::Blob(bytes[..length].to_vec()),
    };
    vec![key, Value::Blob(row.data.to_vec())]
}

/// All rows in one load, in parts on all cores. It knows of no batches.
pub(super) fn press(rung: &BatchesRung, database: &Path) -> Result<RungResult> {
    let is_integer = rung.keys == Keys::Integer;
    let key_type = if is_integer { ColumnType::Integer } else { ColumnType::Blob };
    let columns = [Column::new("id", key_type), Column::new("data", ColumnType::Blob)];
    let cores_count = thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let parts = BatchRows::parts(rung.keys, rung.rows(), cores_count);
    let loader = Loader::new(database).table("event").primary_key("id").without_rowid(!is_integer);
    let before = Usage::now();
    let start = Instant::now();
    let report = loader.load_parts(&columns, parts)?;
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    let stages_s =
        report.stages.iter().map(|stage| (stage.name.to_owned(), stage.seconds)).collect();
    Ok(RungResult { wall_s, rows: report.rows_loaded, stages_s, ..RungResult::of(used) })
}
