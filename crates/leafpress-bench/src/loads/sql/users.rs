//! Rows made in memory, by the rival.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};

use super::insert::{Insert, STATEMENT_ROWS, create, finish};
use crate::error::Result;
use crate::users::{User, Users};

/// The table that rows made in memory go to.
pub(super) const USER_TABLE: &str =
    "CREATE TABLE user(id INTEGER PRIMARY KEY, area TEXT, age INTEGER, active INTEGER)";

/// Inserts `rows_count` users made in memory and says how many there were.
pub(in crate::loads) fn load_users(rows_count: u64, database: &Path) -> Result<u64> {
    let connection = create(database, USER_TABLE)?;
    insert_users(&connection, rows_count, STATEMENT_ROWS)?;
    finish(connection)?;
    Ok(rows_count)
}

/// Inserts users, `statement_rows` with one statement.
///
/// SQLite gives the ids, which come out as the generator's, one after the other:
/// that is a quarter faster than to bind them, so the best SQL does it.
pub(super) fn insert_users(
    connection: &Connection,
    rows_count: u64,
    statement_rows: u64,
) -> Result<()> {
    let mut users = Users::new(0..rows_count);
    let table = Insert { table: "user", values: "(NULL,?,?,?)", statement_rows };
    table.insert(connection, rows_count, &mut users, bind_user)
}

#[inline]
fn bind_user(insert: &mut Statement<'_>, bound_before: usize, user: &User) -> rusqlite::Result<()> {
    let area = user.area().map(|area| ToSqlOutput::Borrowed(ValueRef::Text(area)));
    insert.raw_bind_parameter(bound_before + 1, area)?;
    insert.raw_bind_parameter(bound_before + 2, user.age())?;
    insert.raw_bind_parameter(bound_before + 3, user.is_active())
}
