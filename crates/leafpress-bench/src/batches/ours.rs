//! The rows by Leafpress, as a user of the library would write it. Nothing is tuned for
//! the benchmark: the defaults of the Writer and of the Loader hold, all syncs included.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use leafpress::load::{Column, ColumnType, Loader};
use rusqlite::types::Value;

use super::rows::{BatchRow, BatchRows, Key};
use super::rung::{BatchesRung, Keys};
use crate::connect;
use crate::error::Result;
use crate::machine::cores;
use crate::report::Safety;
use crate::rung::result::{RungResult, stages_of};

/// A call for each batch, which sorts it.
pub(super) fn insert_many(rung: &BatchesRung, database: &Path) -> Result<RungResult> {
    let mut batches_s = Vec::with_capacity(rung.batches as usize);
    let result = RungResult::timed(rung.rows(), |_| {
        let writer = connect::open_writer(Safety::Durable, database, None)?;
        writer.execute_batch(rung.keys.table())?;
        for batch in 0..u64::from(rung.batches) {
            let begun = Instant::now();
            let rows = batch * rung.batch_rows..(batch + 1) * rung.batch_rows;
            let rows = BatchRows::new(rung.keys, rows).map(|row| values(&row));
            writer.insert_many("event", &["id", "data"], rows)?;
            batches_s.push(begun.elapsed().as_secs_f64());
        }
        writer.close()?;
        Ok(rung.rows())
    })?;
    Ok(result.with_batches(batches_s))
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
    let parts = BatchRows::parts(rung.keys, rung.rows(), cores() as u64);
    let loader = Loader::new(database).table("event").primary_key("id").without_rowid(!is_integer);
    let mut stages_s = BTreeMap::new();
    let result = RungResult::timed(rung.rows(), |_| {
        let report = loader.load_parts(&columns, parts)?;
        stages_s = stages_of(&report);
        Ok(report.rows_loaded)
    })?;
    Ok(RungResult { stages_s, ..result })
}
