//! That every row is there, once, under its own key: read in the order of the keys by plain
//! SQLite.
//!
//! Keys that rise are all different, and each is that of the number in its row's data. So as
//! many rows as there should be, of numbers below that, are all of them.

use std::path::Path;

use rusqlite::types::ValueRef;

use super::rows::{Key, number_of};
use super::rung::{BatchesRung, Filler, Keys};
use crate::connect;
use crate::error::Result;
use crate::rung::described::Left;

/// Looking at every page of a larger table takes longer than the rung.
const INTEGRITY_ROWS_MAX: u64 = 200_000;

/// Looks at the database that the rung left.
pub(super) fn check(rung: &BatchesRung, database: &Path) -> Result<Left> {
    let journal_mode = if rung.by == Filler::Pressed { "delete" } else { "wal" };
    let tree = if rung.keys == Keys::Integer { "a rowid" } else { "no rowid" };
    let expected = format!("{} rows, each its own; {tree}; {journal_mode}; ok", rung.rows());
    let is_small = rung.rows() <= INTEGRITY_ROWS_MAX;
    let found = connect::look(database, is_small, |connection| {
        let mut statement = connection.prepare("SELECT id, data FROM event ORDER BY id")?;
        let mut rows = statement.query([])?;
        let (mut rows_count, mut key_before) = (0_u64, None);
        while let Some(row) = rows.next()? {
            let number = row.get_ref(1)?.as_blob().ok().and_then(number_of);
            let Some(number) = number.filter(|number| *number < rung.rows()) else {
                return Ok(format!("data of no row after {rows_count} rows"));
            };
            let key = Key::of_row(rung.keys, number);
            if !is_key(row.get_ref(0)?, &key) {
                return Ok(format!("row {number} under another key"));
            }
            if key_before.is_some_and(|before| before >= key) {
                return Ok(format!("row {number} out of order"));
            }
            (rows_count, key_before) = (rows_count + 1, Some(key));
        }
        let sql = "SELECT iif(wr, 'no rowid', 'a rowid') FROM pragma_table_list('event') \
                   WHERE schema = 'main'";
        let tree: String = connection.query_row(sql, [], |row| row.get(0))?;
        Ok(format!("{rows_count} rows, each its own; {tree}"))
    })?;
    Ok(Left::new(expected, found))
}

fn is_key(found: ValueRef<'_>, key: &Key) -> bool {
    match (found, key) {
        (ValueRef::Integer(found), Key::Integer(integer)) => found == *integer,
        (ValueRef::Blob(found), Key::Blob(bytes, length)) => *found == bytes[..*length],
        _ => false,
    }
}
