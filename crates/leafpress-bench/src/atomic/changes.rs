//! The one-row changes, and the rows that they leave.
//!
//! The table is that of the experiments with commits, so that its rows can be
//! checked in the same way: each text follows from the number of its call.
//!
//! | change | the n-th of them | leaves |
//! |---|---|---|
//! | insert | adds row n | rows 0 to n in order |
//! | update | makes row `n % 100` the n-th call, in place | the last 100 calls, each in its row |
//!
//! A table that is updated begins with calls 0 to 99. No text is longer than
//! another, so that an update never moves a row to another page.
//!
//! Must never: make two changes that cannot be told from one another.

use std::path::Path;

use rusqlite::{Statement, params};

use super::rung::Change;
use crate::commits::{Call, INSERT, TABLE};
use crate::connect;
use crate::error::{Error, Result};

/// Rows that updates go over in turns: two pages of them.
pub(super) const ROWS_UPDATED: u64 = 100;

const UPDATE: &str = "UPDATE call SET n = ?1, text = ?2 WHERE id = ?3";

impl Change {
    /// Changes that count as made when the table is new.
    pub(super) fn first(self) -> u64 {
        if self == Self::Update { ROWS_UPDATED } else { 0 }
    }

    /// Its statement.
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::Insert => INSERT,
            Self::Update => UPDATE,
        }
    }

    /// Makes the n-th change, a transaction of its own.
    pub(super) fn make(self, statement: &mut Statement<'_>, n: u64) -> rusqlite::Result<()> {
        let call = Call::new(0, n);
        let changed = match self {
            Self::Insert => statement.execute(params![call.caller, n as i64, call.text()])?,
            Self::Update => {
                let id = (n % ROWS_UPDATED) as i64 + 1;
                statement.execute(params![n as i64, call.text(), id])?
            }
        };
        if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
    }
}

/// Makes the database as its first transaction finds it, and closes it. By plain
/// SQLite, for all rivals: the measured work begins with a database that is there.
pub(super) fn set_up(database: &Path, change: Change) -> Result<()> {
    let connection = connect::open(database, None)?;
    let fill = || -> rusqlite::Result<()> {
        connection.execute_batch(&format!("BEGIN; {TABLE}"))?;
        let mut statement = connection.prepare(INSERT)?;
        for n in 0..change.first() {
            Change::Insert.make(&mut statement, n)?;
        }
        drop(statement);
        connection.execute_batch("COMMIT")
    };
    fill().map_err(Error::sqlite("fill a new database"))?;
    connect::close(connection)
}

/// Contents that the updates left: "207 updates, each in its row; delete; ok", with the journal
/// mode and the verdict of `integrity_check`; or the first row that is wrong.
pub(super) fn left_of_updates(database: &Path) -> Result<String> {
    connect::look(database, true, |connection| {
        let count: i64 = connection.query_row("SELECT max(n) + 1 FROM call", [], |it| it.get(0))?;
        let count = count.cast_unsigned();
        let mut statement = connection.prepare("SELECT id, n, text FROM call ORDER BY id")?;
        let mut rows = statement.query([])?;
        let mut rows_count = 0;
        while let Some(row) = rows.next()? {
            let (id, n): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (id, n) = (id.cast_unsigned(), n.cast_unsigned());
            let text: String = row.get(2)?;
            let is_its_own = n % ROWS_UPDATED + 1 == id && text == Call::new(0, n).text();
            if !is_its_own || n + ROWS_UPDATED < count {
                return Ok(format!("row {id} is call {n}, text '{text}', after {count} calls"));
            }
            rows_count += 1;
        }
        if rows_count != ROWS_UPDATED {
            return Ok(format!("{rows_count} rows"));
        }
        Ok(format!("{} updates, each in its row", count - ROWS_UPDATED))
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn what_was_not_updated_is_found_out() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = folder.path().join("a.db");
        set_up(&database, Change::Update).expect("a new database");
        let connection = Connection::open(&database).expect("it opens");
        let mut statement = connection.prepare(Change::Update.sql()).expect("a statement");
        for n in 100..307 {
            Change::Update.make(&mut statement, n).expect("an update");
        }
        let left = || left_of_updates(&database).expect("it can be read");
        assert_eq!(left(), "207 updates, each in its row; delete; ok");
        // An old row that came back, with all that belongs to it.
        connection.execute(UPDATE, params![105, Call::new(0, 105).text(), 6]).expect("an update");
        assert!(left().starts_with("row 6 is call 105"), "{}", left());
        Change::Update.make(&mut statement, 305).expect("an update");
        assert_eq!(left(), "207 updates, each in its row; delete; ok");
        connection.execute_batch("DELETE FROM call WHERE id = 50").expect("it is done");
        assert_eq!(left(), "99 rows; delete; ok");
    }

    #[test]
    fn an_update_without_its_row_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = folder.path().join("a.db");
        set_up(&database, Change::Insert).expect("a new database");
        let connection = Connection::open(&database).expect("it opens");
        let mut statement = connection.prepare(Change::Update.sql()).expect("a statement");
        assert!(Change::Update.make(&mut statement, 100).is_err());
    }
}
