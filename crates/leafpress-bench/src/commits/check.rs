//! That every call left its row: each caller's rows in the order made, each with its own text.

use std::collections::HashMap;
use std::path::Path;

use super::call::Call;
use super::table::Table;
use crate::connect;
use crate::error::Result;

/// Contents that the calls left: "7 rows, each call's own; wal; ok", or the first row that is none
/// of the calls made, or not the next of its caller.
pub(crate) fn left_of_calls(database: &Path) -> Result<String> {
    left_in_table(database, Table::Plain)
}

/// As [`left_of_calls`], with what the table has to do besides for each row: "7 rows, each call's own,
/// all done for each; wal; ok".
pub(super) fn left_in_table(database: &Path, table: Table) -> Result<String> {
    connect::look(database, true, |connection| {
        let mut next_of: HashMap<u32, u64> = HashMap::new();
        let mut rows_count: u64 = 0;
        let mut statement =
            connection.prepare("SELECT caller, n, text FROM call ORDER BY rowid")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (caller, n) = (row.get::<_, u32>(0)?, row.get::<_, i64>(1)?.cast_unsigned());
            let next = next_of.entry(caller).or_default();
            let text = row.get_ref(2)?;
            let is_right = text.as_str().is_ok_and(|text| text == Call::new(caller, n).text());
            if n != *next || !is_right {
                return Ok(format!(
                    "call {n} of caller {caller}, text {text:?}, after {rows_count} rows, \
                     where call {next} was the next"
                ));
            }
            *next += 1;
            rows_count += 1;
        }
        let Some(query) = table.done_query() else {
            return Ok(format!("{rows_count} rows, each call's own"));
        };
        let done_count = connection.query_row(query, [], |row| row.get::<_, i64>(0))?;
        let is_done = done_count.cast_unsigned() == rows_count;
        let done = if is_done { "all".to_owned() } else { format!("{done_count} of it") };
        Ok(format!("{rows_count} rows, each call's own, {done} done for each"))
    })
}
