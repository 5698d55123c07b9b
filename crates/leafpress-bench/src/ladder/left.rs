//! That each row was left as it should be: read back by plain SQLite, value by value.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::LadderRung;
use super::records::Record;
use crate::check::Left;
use crate::error::{Error, Result};
use crate::rung::RungResult;

/// Looks at the database of a rung that gave this.
pub(super) fn by(rung: LadderRung, result: &RungResult, database: &Path) -> Result<Left> {
    // A rung that did not say that it has stopped must have done everything.
    let rows = if result.rows_in_full == Some(rung.rows) { result.rows } else { rung.rows };
    let expected = summary(rows, rung.journal_left(), rung.page_bytes(), "ok");
    let found = look(database).map_err(Error::sqlite("read what the rung left"))?;
    Ok(Left { expected, found })
}

/// "5 rows, each its own; delete; pages of 4096; ok".
fn summary(rows: u64, journal_mode: &str, page_bytes: u32, verdict: &str) -> String {
    format!("{rows} rows, each its own; {journal_mode}; pages of {page_bytes}; {verdict}")
}

fn look(database: &Path) -> rusqlite::Result<String> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = connection.prepare("SELECT * FROM record ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut rows_count = 0;
    while let Some(row) = rows.next()? {
        let own = Record::of_row(rows_count);
        let is_own = row.get_ref(0)?.as_i64() == Ok(own.id)
            && row.get_ref(1)?.as_str() == Ok(&own.name)
            && row.get_ref(2)?.as_str() == Ok(&own.number)
            && row.get_ref(3)?.as_i64() == Ok(own.amount);
        if !is_own {
            return Ok(format!(
                "({:?}, {:?}, {:?}, {:?}) where {own:?} was the next",
                row.get_ref(0)?,
                row.get_ref(1)?,
                row.get_ref(2)?,
                row.get_ref(3)?
            ));
        }
        rows_count += 1;
    }
    let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let journal_mode = text("PRAGMA journal_mode")?;
    let page_bytes = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(summary(rows_count, &journal_mode, page_bytes, &text("PRAGMA integrity_check(1)")?))
}
