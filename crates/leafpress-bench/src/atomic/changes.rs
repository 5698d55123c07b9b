//! The one-row changes, and what they leave.
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

use rusqlite::{Connection, OpenFlags, Statement, params};

use super::Change;
use crate::commits::{Call, INSERT, TABLE};
use crate::error::{Error, Result};

/// Rows that updates go over in turns: two pages of them.
pub(crate) const ROWS_UPDATED: u64 = 100;

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
/// SQLite, for everybody: what is measured begins with a database that is there.
pub(super) fn set_up(database: &Path, change: Change) -> Result<()> {
    let connection = Connection::open(database).map_err(Error::sqlite("make a new database"))?;
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
    connection.close().map_err(|(_, error)| Error::sqlite("close a new database")(error))
}

/// What the changes left: "207 updates, each in its row; delete; ok", with the
/// journal mode and what `integrity_check` says; or the first row that is wrong.
pub(crate) fn left_of_updates(database: &Path) -> Result<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(database, flags)
        .map_err(Error::sqlite("open the database that the rung left"))?;
    let read = || -> rusqlite::Result<String> {
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
        let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
        let journal_mode = one("PRAGMA journal_mode")?;
        let verdict = one("PRAGMA integrity_check(1)")?;
        let updates = count - ROWS_UPDATED;
        Ok(format!("{updates} updates, each in its row; {journal_mode}; {verdict}"))
    };
    read().map_err(Error::sqlite("read what the updates left"))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(left(), "99 rows");
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
