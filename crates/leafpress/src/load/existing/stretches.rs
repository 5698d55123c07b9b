//! Insert of many staged rows by one statement, as far as the next row that SQLite refuses.
//!
//! INSERT OR FAIL keeps the rows before the refused one, and SQLite's update hook tells how many they
//! are. So the rows between two refused ones cost as little as in an insert of all rows.
//!
//! Must never: stand in for single statements where many rows in one statement may store another thing.

use rusqlite::{Connection, Statement};

use super::insert::{Counts, Insert};
use super::order::InsertMode;
use super::rows::shown;
use super::staged::STAGED;
use crate::schema::declared::DeclaredTable;
use crate::schema::quote_identifier;

/// Statements for the rows of a load.
pub(super) struct Stretches<'s> {
    connection: &'s Connection,
    counts: &'s Counts,
    insert: Statement<'s>,
    /// Finds the values of a row by its rowid.
    select: Statement<'s>,
    /// Finds the row that was inserted last.
    last: Statement<'s>,
}

/// Outcome of a statement.
pub(super) struct Stretch {
    /// Number of rows that went in.
    pub inserted: u64,
    /// Reason against the row behind them; none if they were the last ones.
    pub refused: Option<rusqlite::Error>,
}

impl<'s> Stretches<'s> {
    /// Prepares the statements; `None` if the rows have to be inserted by single ones. The staged file is
    /// attached.
    pub fn prepare(insert: &'s Insert<'s>, counts: &'s Counts) -> rusqlite::Result<Option<Self>> {
        let connection: &Connection = insert.transaction;
        let (declared, columns) = (&insert.declared, insert.column_list());
        let (Some(there), Some(staged)) = (declared.rowid_name(), insert.numbered_rowid()) else {
            return Ok(None);
        };
        // Rows without a value for any column have no list of columns.
        if insert.columns.is_empty() || !may_take_many(insert.mode, declared) {
            return Ok(None);
        }
        let (into, from) =
            (quote_identifier(&declared.name), quote_identifier(insert.staged.table));
        let (verb, from) = (insert.verb(), format!("{STAGED}.{from}"));
        let sql = format!(
            "{verb} INTO main.{into}({columns})
             SELECT {columns} FROM {from} WHERE {staged} BETWEEN ?1 AND ?2 ORDER BY {staged}"
        );
        let last = format!("SELECT 1 FROM main.{into} WHERE {there} = last_insert_rowid()");
        Ok(Some(Self {
            connection,
            counts,
            insert: connection.prepare(&sql)?,
            select: connection
                .prepare(&format!("SELECT {columns} FROM {from} WHERE {staged} = ?1"))?,
            last: connection.prepare(&last)?,
        }))
    }

    /// Inserts the staged rows from one on, whose ordinal is given, up to one that is refused.
    ///
    /// # Errors
    /// If the rows before the refused one, which SQLite took, are not in.
    pub fn insert_from(&mut self, number: u64) -> rusqlite::Result<Stretch> {
        let before = self.counts.done();
        let outcome = self.insert.execute([rowid(number), i64::MAX]);
        let inserted = self.counts.done() - before;
        let refused = outcome.err();
        let may_be_undone = refused.is_some() && inserted > 0 && !self.connection.is_autocommit();
        if may_be_undone && !self.last.exists([])? {
            // A value of another class than its column's undoes the statement, with OR FAIL, too.
            self.counts.take_back(inserted);
            self.insert.execute([rowid(number), rowid(number + inserted) - 1])?;
        }
        Ok(Stretch { inserted, refused })
    }

    /// Values of a staged row as SQL literals, cut if long.
    pub fn shown(&mut self, number: u64) -> rusqlite::Result<String> {
        let columns = self.select.column_count();
        self.select.query_row([rowid(number)], |row| Ok(shown(row, columns)))
    }
}

/// The rowid of a staged row.
fn rowid(number: u64) -> i64 {
    number.cast_signed() + 1
}

/// Returns true if one statement for many rows stores what a statement for each row does, and nothing
/// but a row's own values can make SQLite refuse it. AUTOINCREMENT is counted at the end of a statement
/// that succeeds.
fn may_take_many(mode: InsertMode, declared: &DeclaredTable) -> bool {
    let adds = matches!(mode, InsertMode::Append | InsertMode::Replace);
    let touches_others =
        !declared.triggers.is_empty() || declared.is_child || !declared.referring.is_empty();
    let needs_single_rows =
        declared.is_virtual || declared.is_order_declared || declared.autoincrement;
    adds && !touches_others && !needs_single_rows
}
