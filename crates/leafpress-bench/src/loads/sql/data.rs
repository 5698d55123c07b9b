//! The table of the experiment's files, and rows for it of which it is not known how many there will
//! be: each format reads them in its own way.

use std::path::Path;

use rusqlite::{Connection, Statement};

use super::insert::{create, finish, prepare};
use crate::error::{Error, Result};
use crate::generate::CSV_COLUMNS;

/// Declaration of the table that a file goes to.
pub(in crate::loads) const DATA_TABLE: &str = "CREATE TABLE data(id INTEGER, quantity INTEGER, account INTEGER, \
     price REAL, latitude REAL, description TEXT, day TEXT, city TEXT)";

/// Values of one row.
const ROW: &str = "(?,?,?,?,?,?,?,?)";

/// Makes the table in a new database, in one transaction. `fill` inserts its rows, so many with one
/// statement, and says how many there were.
pub(super) fn load(
    database: &Path,
    statement_rows: usize,
    fill: impl FnOnce(&mut Inserter<'_>) -> Result<u64>,
) -> Result<u64> {
    let connection = create(database, DATA_TABLE)?;
    let mut inserter = Inserter::new(&connection, statement_rows.max(1))?;
    let rows = fill(&mut inserter)?;
    drop(inserter);
    finish(connection)?;
    Ok(rows)
}

/// Inserts rows with statements of many rows; the last rows with a statement of their own.
pub(super) struct Inserter<'c> {
    connection: &'c Connection,
    statement_rows: usize,
    insert: Statement<'c>,
}

impl<'c> Inserter<'c> {
    fn new(connection: &'c Connection, statement_rows: usize) -> Result<Self> {
        let insert = prepare(connection, "data", ROW, statement_rows)?;
        Ok(Self { connection, statement_rows, insert })
    }

    /// Rows of one statement.
    pub(super) fn statement_rows(&self) -> usize {
        self.statement_rows
    }

    /// Inserts this many rows, at most those of a statement. `bind` binds the row of an index to the
    /// parameters after so many that are bound before it.
    pub(super) fn insert(
        &mut self,
        rows_count: usize,
        mut bind: impl FnMut(&mut Statement<'_>, usize, usize) -> Result<()>,
    ) -> Result<()> {
        if rows_count == 0 {
            return Ok(());
        }
        let mut rest = None;
        if rows_count < self.statement_rows {
            rest = Some(prepare(self.connection, "data", ROW, rows_count)?);
        }
        let insert = rest.as_mut().unwrap_or(&mut self.insert);
        for index in 0..rows_count {
            bind(insert, index, index * CSV_COLUMNS.len())?;
        }
        insert.raw_execute().map_err(Error::sqlite("insert"))?;
        Ok(())
    }
}
