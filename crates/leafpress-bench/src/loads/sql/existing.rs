//! Additions to a database that exists, by the rival: a new table, more rows, an index.
//!
//! A database that holds something must survive a crash, so journal and syncs
//! stay as they are there: `WAL` and `FULL` for rows, both as for ours. Only the
//! index is also made with neither, as what it is compared with has been.

use std::ops::Range;
use std::path::Path;

use super::insert::{DURABLE_PRAGMAS, INDEX_PRAGMAS, Insert, finish, open};
use super::keys::{EVENT_INSERT, bind_event};
use super::users::{USER_TABLE, insert_users};
use crate::connect;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::generate::INDEXED_COLUMN;

/// Inserts users into a new table, `statement_rows` with one statement, in one
/// transaction. Closing, which moves the rows from the WAL to the file, is part
/// of it.
pub(in crate::loads) fn attach_users(
    rows_count: u64,
    database: &Path,
    statement_rows: u64,
) -> Result<u64> {
    let connection = open(database, DURABLE_PRAGMAS)?;
    connection
        .execute_batch(&format!("BEGIN IMMEDIATE; {USER_TABLE}"))
        .map_err(Error::sqlite("create the table"))?;
    insert_users(&connection, rows_count, statement_rows)?;
    finish(connection)?;
    Ok(rows_count)
}

/// Inserts more rows with random keys, as they come and one by one, in one
/// transaction. Closing is part of it.
pub(in crate::loads) fn append_keys(rows: Range<u64>, database: &Path) -> Result<u64> {
    let connection = open(database, DURABLE_PRAGMAS)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(Error::sqlite("begin"))?;
    let rows_count = rows.end - rows.start;
    let one_by_one = Insert { statement_rows: 1, ..EVENT_INSERT };
    one_by_one.insert(&connection, rows_count, &mut Events::new(rows), bind_event)?;
    finish(connection)?;
    Ok(rows_count)
}

/// Makes the index of the CSV file's table.
pub(in crate::loads) fn create_index(database: &Path, pragmas: &str) -> Result<()> {
    let connection = open(database, pragmas)?;
    let sql =
        format!("{INDEX_PRAGMAS} CREATE INDEX data_{INDEXED_COLUMN} ON data({INDEXED_COLUMN})");
    connection.execute_batch(&sql).map_err(Error::sqlite("create the index"))?;
    connect::close(connection)
}
