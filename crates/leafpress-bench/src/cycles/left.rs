//! That the rows of the last cycle are there, in their order, and no others.
//!
//! A cycle deletes what was there before, so that what is left says nothing of the cycles
//! before the last; that each of them was made is said by its time. Of the number of a
//! row the table has none left either: ids begin again after a deletion.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::{CyclesRung, INSERTS, ROWS_OF_CYCLE, text_of};
use crate::check::Left;
use crate::error::{Error, Result};
use crate::rung::RungResult;

/// Looks at the database of a rung that gave this.
pub(super) fn by(rung: CyclesRung, result: &RungResult, database: &Path) -> Result<Left> {
    // A rung that did not say that it has stopped must have done everything.
    let is_stopped = result.rows_in_full == Some(rung.rows());
    let rows = if is_stopped { result.rows } else { rung.rows() };
    let cycles = rows / ROWS_OF_CYCLE;
    let last = u32::try_from(cycles).unwrap_or(u32::MAX).saturating_sub(1);
    let texts: Vec<String> = (INSERTS..2 * INSERTS).map(|index| text_of(last, index)).collect();
    let expected =
        format!("{cycles} cycles, then {}; {}; ok", texts.join(", "), rung.journal_left());
    let found = look(database).map_err(Error::sqlite("read what the rung left"))?;
    Ok(Left { expected, found: format!("{} cycles, then {found}", result.cycles_us.len()) })
}

fn look(database: &Path) -> rusqlite::Result<String> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = connection.prepare("SELECT text FROM entry ORDER BY id")?;
    let texts = statement.query_map([], |row| row.get(0))?;
    let texts: Vec<String> = texts.collect::<rusqlite::Result<_>>()?;
    let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let (journal_mode, verdict) =
        (text("PRAGMA journal_mode")?, text("PRAGMA integrity_check(1)")?);
    Ok(format!("{}; {journal_mode}; {verdict}", texts.join(", ")))
}
