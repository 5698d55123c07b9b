//! That every row is there, once, under its own key: read in the order of the keys by plain
//! SQLite.
//!
//! Keys that rise are all different, and each is that of the number in its row's data. So as
//! many rows as there should be, of numbers below that, are all of them.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::rows::{Key, number_of};
use super::{BatchesRung, Filler, Keys};
use crate::check::Left;
use crate::error::{Error, Result};

/// Looking at every page of a larger table takes longer than the rung.
const INTEGRITY_ROWS_MAX: u64 = 200_000;

/// Looks at the database that the rung left.
pub(super) fn by(rung: &BatchesRung, database: &Path) -> Result<Left> {
    let journal_mode = if rung.by == Filler::Pressed { "delete" } else { "wal" };
    let tree = if rung.keys == Keys::Integer { "a rowid" } else { "no rowid" };
    let expected = format!("{} rows, each its own; {tree}; {journal_mode}; ok", rung.rows());
    let found = look(rung, database).map_err(Error::sqlite("read what the batches left"))?;
    Ok(Left { expected, found })
}

fn look(rung: &BatchesRung, database: &Path) -> rusqlite::Result<String> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
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
    let tree = text(
        "SELECT iif(wr, 'no rowid', 'a rowid') FROM pragma_table_list('event') WHERE schema = 'main'",
    )?;
    let journal_mode = text("PRAGMA journal_mode")?;
    let is_small = rung.rows() <= INTEGRITY_ROWS_MAX;
    let verdict = if is_small { text("PRAGMA integrity_check(1)")? } else { "ok".to_owned() };
    Ok(format!("{rows_count} rows, each its own; {tree}; {journal_mode}; {verdict}"))
}

fn is_key(found: ValueRef<'_>, key: &Key) -> bool {
    match (found, key) {
        (ValueRef::Integer(found), Key::Integer(integer)) => found == *integer,
        (ValueRef::Blob(found), Key::Blob(bytes, length)) => *found == bytes[..*length],
        _ => false,
    }
}
