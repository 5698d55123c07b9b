//! Rows with random keys, by the rival: as they come, sorted beforehand, and
//! sorted a million at a time where all of them are too many to be held.
//!
//! Sorting is part of the work and done as well as it can be: whole keys of 20
//! bytes in integers with the row's number, on all cores. The rows themselves are
//! made when they are inserted. That is cheaper than to fetch them from memory in
//! the order of the keys, and the rival holds 24 bytes a row and not 120.

use std::ops::Range;
use std::path::Path;
use std::thread;

use rusqlite::{Connection, Statement};

use super::insert::{Insert, PRAGMAS, STATEMENT_ROWS, create, finish, open};
use crate::connect;
use crate::error::{Error, Result};
use crate::events::{Event, Events};
use crate::machine::cores;

/// The table that the rows go to.
const EVENT_TABLE: &str = "CREATE TABLE event(key BLOB PRIMARY KEY, payload BLOB) WITHOUT ROWID";

/// Rows of one batch: as in the published experiment that presorts.
const BATCH_ROWS: u64 = 1_000_000;

pub(super) const EVENT_INSERT: Insert =
    Insert { table: "event", values: "(?,?)", statement_rows: STATEMENT_ROWS };

#[inline]
pub(super) fn bind_event(
    insert: &mut Statement<'_>,
    bound_before: usize,
    event: &Event,
) -> rusqlite::Result<()> {
    insert.raw_bind_parameter(bound_before + 1, event.key())?;
    insert.raw_bind_parameter(bound_before + 2, event.payload())
}

/// Inserts the rows as they come, 50 a statement, in one transaction.
pub(in crate::loads) fn load_keys_unsorted(rows: Range<u64>, database: &Path) -> Result<u64> {
    let connection = create(database, EVENT_TABLE)?;
    let rows_count = rows.end - rows.start;
    EVENT_INSERT.insert(&connection, rows_count, &mut Events::new(rows), bind_event)?;
    finish(connection)?;
    Ok(rows_count)
}

/// Inserts the rows in order of their keys, 50 a statement, in one transaction.
pub(in crate::loads) fn load_keys_presorted(rows: Range<u64>, database: &Path) -> Result<u64> {
    let connection = create(database, EVENT_TABLE)?;
    let rows_count = rows.end - rows.start;
    insert_sorted(&connection, rows)?;
    finish(connection)?;
    Ok(rows_count)
}

/// Inserts a million rows at a time in order of their keys, each batch in a
/// transaction of its own.
pub(in crate::loads) fn load_keys_in_batches(rows: Range<u64>, database: &Path) -> Result<u64> {
    load_batches(rows, BATCH_ROWS, database)
}

fn load_batches(rows: Range<u64>, batch_rows: u64, database: &Path) -> Result<u64> {
    let connection = open(database, PRAGMAS)?;
    let run = |sql: &str, action| connection.execute_batch(sql).map_err(Error::sqlite(action));
    run(EVENT_TABLE, "create the table")?;
    let mut start = rows.start;
    while start < rows.end {
        let end = rows.end.min(start + batch_rows);
        run("BEGIN", "begin")?;
        insert_sorted(&connection, start..end)?;
        run("COMMIT", "commit")?;
        start = end;
    }
    connect::close(connection)?;
    Ok(rows.end - rows.start)
}

fn insert_sorted(connection: &Connection, rows: Range<u64>) -> Result<()> {
    let first_row = rows.start;
    let rows_count = rows.end - rows.start;
    let sorted = sort(&rows, cores());
    let event = |key: &SortKey| Event::of_row(first_row + u64::from(key.row));
    EVENT_INSERT.insert(connection, rows_count, &mut sorted.iter().flatten().map(event), bind_event)
}

/// A key as integers that compare as its bytes do, and where its row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SortKey {
    head: u64,
    middle: u64,
    tail: u32,
    /// From the first row on that is sorted.
    row: u32,
}

impl SortKey {
    fn new(event: &Event, row: u32) -> Self {
        let word = |range: Range<usize>| {
            event.key()[range].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        Self { head: word(0..8), middle: word(8..16), tail: word(16..20) as u32, row }
    }

    /// Number of the equal range of keys that the key is in.
    fn range(&self, ranges_count: usize) -> usize {
        ((u128::from(self.head) * ranges_count as u128) >> u64::BITS) as usize
    }
}

/// The keys of the rows in order: consecutive ranges, each made and sorted by a
/// thread. The keys are spread evenly, so the ranges are of about the same size.
fn sort(rows: &Range<u64>, threads_count: usize) -> Vec<Vec<SortKey>> {
    let parts = thread::scope(|scope| {
        let first_row = rows.start;
        let each = (rows.end - rows.start).div_ceil(threads_count as u64);
        let part = |index: usize| {
            let start = (first_row + index as u64 * each).min(rows.end);
            start..(start + each).min(rows.end)
        };
        let threads: Vec<_> = (0..threads_count)
            .map(|index| (index, part(index)))
            .map(|(_, part)| scope.spawn(move || distribute(part, first_row, threads_count)))
            .collect();
        joined(threads)
    });
    thread::scope(|scope| {
        let parts = &parts;
        let threads = (0..threads_count).map(|range| {
            scope.spawn(move || {
                let mut keys: Vec<SortKey> =
                    parts.iter().flat_map(|ranges: &Vec<Vec<_>>| &ranges[range]).copied().collect();
                keys.sort_unstable();
                keys
            })
        });
        joined(threads.collect())
    })
}

/// The results of threads; a panic in one of them goes on here.
fn joined<T>(threads: Vec<thread::ScopedJoinHandle<'_, T>>) -> Vec<T> {
    let result = |thread: thread::ScopedJoinHandle<'_, T>| {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    threads.into_iter().map(result).collect()
}

/// The keys of these rows by the ranges that they fall in.
fn distribute(rows: Range<u64>, first_row: u64, ranges_count: usize) -> Vec<Vec<SortKey>> {
    let expected = (rows.end - rows.start) as usize / ranges_count;
    let with_slack = expected + expected / 16;
    let mut ranges: Vec<Vec<SortKey>> =
        (0..ranges_count).map(|_| Vec::with_capacity(with_slack)).collect();
    for row in rows {
        let key = SortKey::new(&Event::of_row(row), (row - first_row) as u32);
        ranges[key.range(ranges_count)].push(key);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::{Load, LoadRung};
    use crate::rung::described::{Described as _, Found};
    use crate::rung::result::RungResult;

    #[test]
    fn keys_are_sorted_as_bytes_by_any_number_of_threads() {
        for threads_count in [1, 2, 3, 7] {
            let sorted = sort(&(100..5100), threads_count);
            let rows: Vec<u64> =
                sorted.iter().flatten().map(|key| 100 + u64::from(key.row)).collect();
            assert_eq!(rows.len(), 5000, "{threads_count} threads");
            let events: Vec<Event> = rows.into_iter().map(Event::of_row).collect();
            assert!(events.windows(2).all(|pair| pair[0].key() < pair[1].key()));
        }
    }

    #[test]
    fn every_way_leaves_the_same_rows() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let rows = 7..3_021;
        let done = [
            load_keys_unsorted(rows.clone(), &path("unsorted")),
            load_keys_presorted(rows.clone(), &path("presorted")),
            load_batches(rows.clone(), 1000, &path("batches")),
        ];
        for rows in done {
            assert_eq!(rows.expect("it loads"), 3_014);
        }
        let left = |name| {
            let rung = LoadRung { by: Load::KeysSql, rows: 3_014, memory_bytes: None };
            let result = RungResult { rows: 3_014, ..RungResult::default() };
            let database = path(name);
            let found =
                Found { database: &database, input_rows: 0, is_first: true, is_alone: false };
            rung.check(&result, &found).expect("it can be read")
        };
        let unsorted = left("unsorted");
        assert_eq!(unsorted.found, unsorted.expected);
        assert_eq!(left("presorted"), unsorted);
        assert_eq!(left("batches"), unsorted);
    }
}
