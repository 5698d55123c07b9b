//! That each row was left as it should be: read back by plain SQLite, value by value.

use std::path::Path;

use super::records::Record;
use super::rung::LadderRung;
use crate::connect;
use crate::error::Result;
use crate::rung::described::Left;
use crate::rung::result::RungResult;

/// Looks at the database of a rung that gave this.
pub(super) fn check(rung: LadderRung, result: &RungResult, database: &Path) -> Result<Left> {
    // A rung that did not say that it has stopped must have done everything.
    let rows = if result.rows_in_full == Some(rung.rows) { result.rows } else { rung.rows };
    let expected = format!("{}; {}; ok", in_words(rows, rung.page_bytes()), rung.journal_left());
    let found = connect::look(database, true, |connection| {
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
        let page_bytes = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        Ok(in_words(rows_count, page_bytes))
    })?;
    Ok(Left::new(expected, found))
}

/// "5 rows, each its own; pages of 4096".
fn in_words(rows: u64, page_bytes: u32) -> String {
    format!("{rows} rows, each its own; pages of {page_bytes}")
}
