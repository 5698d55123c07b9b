//! The batches by SQL, as in the original: a prepared INSERT for each row, a transaction for
//! each batch, one connection.
//!
//! Sorting is inside of the time, of the keys as numbers with their row's; the rows are made
//! when they go in, which is cheaper than to fetch them from memory in the order of the keys.
//! All else is as the original's library sets it, but for the cache, which is scaled, and for
//! foreign keys, of which the table has none.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, Statement};

use super::rows::{BatchRow, Key};
use super::rung::{BatchesRung, Keys};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;
use crate::rung::result::RungResult;

const INSERT: &str = "INSERT INTO event(id, data) VALUES (?1, ?2)";

/// Order of a batch: the numbers of its rows, sorted.
pub(super) type Sort = fn(Keys, Range<u64>) -> Vec<u64>;

/// Fills a new table, and measures each batch; the rows of a batch go in sorted, or as they come.
pub(super) fn fill(rung: &BatchesRung, sort: Option<Sort>, database: &Path) -> Result<RungResult> {
    let mut batches_s = Vec::new();
    let result = RungResult::timed(rung.rows(), |_| {
        let connection = open(rung, database)?;
        batches_s = insert(&connection, rung, sort).map_err(Error::sqlite("insert a batch"))?;
        // The last connection moves what is still in the WAL, and removes it.
        connect::close(connection)?;
        Ok(rung.rows())
    })?;
    Ok(result.with_batches(batches_s))
}

fn open(rung: &BatchesRung, database: &Path) -> Result<Connection> {
    let connection = connect::open(database, None)?;
    let (cache_pages, settings) = (rung.cache_pages(), Pragmas::WAL_FULL.sql());
    let set_up = format!(
        "PRAGMA page_size = 4096; PRAGMA cache_size = {cache_pages}; {settings}; \
         PRAGMA temp_store = MEMORY; {}",
        rung.keys.table()
    );
    connection.execute_batch(&set_up).map_err(Error::sqlite("set up the rival's database"))?;
    Ok(connection)
}

fn insert(
    connection: &Connection,
    rung: &BatchesRung,
    sort: Option<Sort>,
) -> rusqlite::Result<Vec<f64>> {
    let mut insert = connection.prepare(INSERT)?;
    let mut batches_s = Vec::with_capacity(rung.batches as usize);
    for batch in 0..u64::from(rung.batches) {
        let begun = Instant::now();
        let rows = batch * rung.batch_rows..(batch + 1) * rung.batch_rows;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        match sort {
            Some(sort) => {
                insert_rows(&mut insert, rung.keys, sort(rung.keys, rows).into_iter())?;
            }
            None => insert_rows(&mut insert, rung.keys, rows)?,
        }
        connection.execute_batch("COMMIT")?;
        batches_s.push(begun.elapsed().as_secs_f64());
    }
    Ok(batches_s)
}

/// Inserts the rows of these numbers, one after the other.
fn insert_rows(
    insert: &mut Statement<'_>,
    keys: Keys,
    rows: impl Iterator<Item = u64>,
) -> rusqlite::Result<()> {
    for row in rows {
        let BatchRow { key, data } = BatchRow::of_row(keys, row);
        match key {
            Key::Integer(integer) => insert.raw_bind_parameter(1, integer)?,
            Key::Blob(bytes, length) => insert.raw_bind_parameter(1, &bytes[..length])?,
        }
        insert.raw_bind_parameter(2, &data[..])?;
        insert.raw_execute()?;
    }
    Ok(())
}

/// The numbers of the rows in the order of the first eight bytes of their keys.
pub(super) fn sorted_by_prefix(keys: Keys, rows: Range<u64>) -> Vec<u64> {
    sorted_by(rows, |row| Key::of_row(keys, row).words()[0])
}

/// The numbers of the rows in the order of their keys.
pub(super) fn sorted(keys: Keys, rows: Range<u64>) -> Vec<u64> {
    sorted_by(rows, |row| Key::of_row(keys, row).words())
}

fn sorted_by<K: Ord>(rows: Range<u64>, key: impl Fn(u64) -> K) -> Vec<u64> {
    let mut sorted: Vec<(K, u64)> = rows.map(|row| (key(row), row)).collect();
    sorted.sort_unstable();
    sorted.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Filler;
    use super::*;

    #[test]
    fn a_batch_is_sorted_as_sqlite_sorts_blobs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let rows = 100..3_100;
        for keys in [Keys::Bytes, Keys::Uuid4, Keys::Uuid7, Keys::Integer] {
            let by = Filler::SqlAsTheyCome;
            let rung = BatchesRung { keys, by, batches: 1, batch_rows: 1 };
            let database = folder.path().join(format!("{keys:?}.db"));
            let connection = open(&rung, &database).expect("it opens");
            let mut insert = connection.prepare(INSERT).expect("it compiles");
            insert_rows(&mut insert, keys, rows.clone()).expect("they go in");
            let mut query = connection.prepare("SELECT data FROM event ORDER BY id").expect("SQL");
            let by_sqlite: Vec<u64> = query
                .query_map([], |row| row.get::<_, Vec<u8>>(0))
                .expect("rows")
                .map(|data| super::super::rows::number_of(&data.expect("a row")).expect("a number"))
                .collect();
            assert_eq!(sorted(keys, rows.clone()), by_sqlite, "{keys:?}");
            // No two of so few have the same first eight bytes.
            assert_eq!(sorted_by_prefix(keys, rows.clone()), by_sqlite, "{keys:?}");
        }
    }
}
