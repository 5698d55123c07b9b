//! That the rows of the last cycle are there, in their order, and no others.
//!
//! A cycle deletes what was there before, so that what is left says nothing of the cycles
//! before the last; that each of them was made is said by its time. Of the number of a
//! row the table has none left either: ids begin again after a deletion.

use std::path::Path;

use super::rung::{CyclesRung, INSERTS, ROWS_OF_CYCLE, text_of};
use crate::connect;
use crate::error::Result;
use crate::rung::described::Left;
use crate::rung::result::RungResult;

/// Looks at the database of a rung that gave this.
pub(super) fn check(rung: CyclesRung, result: &RungResult, database: &Path) -> Result<Left> {
    // A rung that did not say that it has stopped must have done everything.
    let is_stopped = result.rows_in_full == Some(rung.rows());
    let rows = if is_stopped { result.rows } else { rung.rows() };
    let cycles = rows / ROWS_OF_CYCLE;
    let last = u32::try_from(cycles).unwrap_or(u32::MAX).saturating_sub(1);
    let texts: Vec<String> = (INSERTS..2 * INSERTS).map(|index| text_of(last, index)).collect();
    let expected =
        format!("{cycles} cycles, then {}; {}; ok", texts.join(", "), rung.journal_left());
    let found = connect::look(database, true, |connection| {
        let mut statement = connection.prepare("SELECT text FROM entry ORDER BY id")?;
        let texts = statement.query_map([], |row| row.get(0))?;
        let texts: Vec<String> = texts.collect::<rusqlite::Result<_>>()?;
        Ok(format!("{} cycles, then {}", result.cycles_us.len(), texts.join(", ")))
    })?;
    Ok(Left::new(expected, found))
}
