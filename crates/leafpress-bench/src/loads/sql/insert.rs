//! The rival's settings, and rows by prepared statements.

use std::path::Path;

use rusqlite::{Connection, Statement};

use crate::connect;
use crate::error::{Error, Result};

/// The rival's settings. They hold for a new database; a crash destroys it.
pub(in crate::loads) const PRAGMAS: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
     PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -1000000;";

/// The rival's settings in a database that exists and must survive a crash; the
/// database says itself that it is in WAL mode or has a rollback journal.
pub(in crate::loads) const DURABLE_PRAGMAS: &str =
    "PRAGMA synchronous = FULL; PRAGMA cache_size = -1000000;";

/// The rival's settings for CREATE INDEX, over the others. A small cache makes it
/// sort in small runs that stay in the processor's cache, and two helpers sort
/// while it reads: measured, five times faster than a large cache and sorting in
/// memory.
pub(in crate::loads) const INDEX_PRAGMAS: &str =
    "PRAGMA cache_size = -2000; PRAGMA temp_store = FILE; PRAGMA threads = 2;";

/// Rows of one statement, where rows are made in memory.
pub(in crate::loads) const STATEMENT_ROWS: u64 = 50;

/// Opens a new database with the rival's settings.
pub(super) fn create(database: &Path, table: &str) -> Result<Connection> {
    let connection = open(database, PRAGMAS)?;
    connection
        .execute_batch(&format!("{table}; BEGIN"))
        .map_err(Error::sqlite("create the table"))?;
    Ok(connection)
}

/// Opens a database with these settings.
pub(super) fn open(database: &Path, pragmas: &str) -> Result<Connection> {
    let connection = Connection::open(database).map_err(Error::sqlite("open the database"))?;
    connection.execute_batch(pragmas).map_err(Error::sqlite("set its pragmas"))?;
    Ok(connection)
}

/// Commits and closes, so that all of the work is inside of the time taken.
pub(super) fn finish(connection: Connection) -> Result<()> {
    connection.execute_batch("COMMIT").map_err(Error::sqlite("commit"))?;
    connect::close(connection)
}

/// Prepares an INSERT of `rows_count` rows, each of the values `row`.
pub(super) fn prepare<'c>(
    connection: &'c Connection,
    table: &str,
    row: &str,
    rows_count: usize,
) -> Result<Statement<'c>> {
    let rows = vec![row; rows_count].join(",");
    connection
        .prepare(&format!("INSERT INTO {table} VALUES {rows}"))
        .map_err(Error::sqlite("prepare the statement"))
}

/// Table, and the statements by which rows go in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Insert {
    pub(super) table: &'static str,
    /// Values of one row.
    pub(super) values: &'static str,
    /// Rows of one statement.
    pub(super) statement_rows: u64,
}

impl Insert {
    /// Inserts this many rows with prepared statements; the last ones one by one.
    /// `bind` binds a row to the parameters after those of the rows before it.
    pub(super) fn insert<R>(
        self,
        connection: &Connection,
        rows_count: u64,
        rows: &mut impl Iterator<Item = R>,
        bind: impl Fn(&mut Statement<'_>, usize, &R) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let columns_count = self.values.matches('?').count();
        let statement_rows = self.statement_rows.max(1);
        let (full_count, rest_count) = (rows_count / statement_rows, rows_count % statement_rows);
        for (statements_count, statement_rows) in [(full_count, statement_rows), (rest_count, 1)] {
            let statement_rows = statement_rows as usize;
            let mut insert = prepare(connection, self.table, self.values, statement_rows)?;
            for _ in 0..statements_count {
                for (row_index, row) in rows.by_ref().take(statement_rows).enumerate() {
                    bind(&mut insert, row_index * columns_count, &row)
                        .map_err(Error::sqlite("bind a value"))?;
                }
                insert.raw_execute().map_err(Error::sqlite("insert"))?;
            }
        }
        Ok(())
    }
}
