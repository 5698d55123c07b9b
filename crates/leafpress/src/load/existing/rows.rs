//! Rows from the staged file into the destination, one by one.
//!
//! Slower than INSERT … SELECT, and used where that cannot be: a destination
//! in UTF-16, which nothing can be attached to, and to find out which row it
//! was that SQLite refused.

use std::sync::atomic::Ordering;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Row, params_from_iter};

use super::Settings;

/// Rows between two reports of how far it is.
const ROWS_BETWEEN_REPORTS: u64 = 1024;
/// Values are shown up to this many characters.
const SHOWN_MAX: usize = 60;

/// A row that SQLite refused.
#[derive(Debug)]
pub struct RefusedRow {
    /// Its number in the order of the staged rows, from 1.
    pub number: u64,
    /// Its values, as SQL would write them.
    pub values: String,
    /// SQLite's reason.
    pub error: rusqlite::Error,
}

/// What became of the rows.
#[derive(Debug)]
pub enum RowsEnd {
    /// All are in; so many were changed.
    Inserted(u64),
    /// This one was refused, and the ones before it are in.
    Refused(RefusedRow),
}

/// Runs `insert` with each row that `select` finds.
pub fn insert_rows(
    from: &Connection,
    select: &str,
    into: &Connection,
    insert: &str,
    settings: &Settings,
) -> rusqlite::Result<RowsEnd> {
    let mut source = from.prepare(select)?;
    let columns = source.column_count();
    let mut statement = into.prepare(insert)?;
    let mut rows = source.query([])?;
    let (mut number, mut changed) = (0_u64, 0);
    while let Some(row) = rows.next()? {
        number += 1;
        let values = (0..columns)
            .map(|column| row.get_ref(column).map(ToSqlOutput::Borrowed))
            .collect::<rusqlite::Result<Vec<_>>>()?;
        match statement.execute(params_from_iter(values)) {
            Ok(rows) => changed += rows as u64,
            Err(error) if is_refusal(&error) => {
                return Ok(RowsEnd::Refused(RefusedRow {
                    number,
                    values: shown(row, columns),
                    error,
                }));
            }
            Err(error) => return Err(error),
        }
        if number.is_multiple_of(ROWS_BETWEEN_REPORTS) {
            settings.rows_done.fetch_add(ROWS_BETWEEN_REPORTS, Ordering::Relaxed);
        }
    }
    settings.rows_done.fetch_add(number % ROWS_BETWEEN_REPORTS, Ordering::Relaxed);
    Ok(RowsEnd::Inserted(changed))
}

/// Whether the row is to blame, and not the disk or another program.
pub fn is_refusal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    )
}

/// The row's values as SQL would write them, cut where long.
fn shown(row: &Row<'_>, columns: usize) -> String {
    let values = (0..columns).map(|column| match row.get_ref(column) {
        Ok(value) => shown_value(value),
        Err(error) => error.to_string(),
    });
    values.collect::<Vec<_>>().join(", ")
}

/// A value as SQL would write it, cut where long.
pub fn shown_value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => format!("{value:?}"),
        ValueRef::Text(text) => {
            let text = String::from_utf8_lossy(text);
            let cut: String = text.chars().take(SHOWN_MAX).collect();
            let more = if cut.len() < text.len() { "…" } else { "" };
            format!("'{}{more}'", cut.replace('\'', "''"))
        }
        ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
    }
}
