//! Rows from the staged file into the destination, one by one, and the meaning of a refused row.
//!
//! Slower than INSERT … SELECT. Used for a destination in UTF-16, to which nothing can be attached.

use std::sync::atomic::Ordering;

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Row, params_from_iter};

use super::task::Settings;
use crate::words::shown_value;

/// Number of rows between two reports of progress.
const ROWS_BETWEEN_REPORTS: u64 = 1024;

/// Runs `insert` with each row that `select` finds; returns the number of rows that it changed.
/// Ends with the first row that SQLite refuses.
pub fn insert_rows(
    from: &Connection,
    select: &str,
    into: &Connection,
    insert: &str,
    settings: &Settings,
) -> rusqlite::Result<u64> {
    let mut source = from.prepare(select)?;
    let columns = source.column_count();
    let mut statement = into.prepare(insert)?;
    let mut rows = source.query([])?;
    let (mut number, mut changed) = (0_u64, 0);
    while let Some(row) = rows.next()? {
        number += 1;
        changed += statement.execute(params_from_iter(values(row, columns)?))? as u64;
        if number.is_multiple_of(ROWS_BETWEEN_REPORTS) {
            // Not added: the update hook of an insert counts the rows of most tables too.
            settings.rows_done.store(number, Ordering::Relaxed);
        }
    }
    settings.rows_done.store(number, Ordering::Relaxed);
    Ok(changed)
}

/// The first values of a row.
pub fn values<'r>(row: &'r Row<'_>, count: usize) -> rusqlite::Result<Vec<ToSqlOutput<'r>>> {
    (0..count).map(|column| row.get_ref(column).map(ToSqlOutput::Borrowed)).collect()
}

/// The row's values as SQL literals, cut if long.
pub fn shown(row: &Row<'_>, columns: usize) -> String {
    let values = (0..columns).map(|column| match row.get_ref(column) {
        Ok(value) => shown_value(value),
        Err(error) => error.to_string(),
    });
    values.collect::<Vec<_>>().join(", ")
}
