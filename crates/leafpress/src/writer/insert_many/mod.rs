//! Many rows into one table, in the order that its B-tree likes best.
//!
//! ```text
//! request ──► plan (names checked, statements written; cached) ──► rows by key ──► INSERTs of many rows
//!                                                                                    │ one is refused
//!                       error that names the row ◄── rows as they came, one by one ◄─┘
//! ```
//!
//! The stored rows and the error, if there is one, are those of single inserts in the order
//! given. Only rowids that SQLite chooses, in a table whose key is not its rowid, follow the
//! key.
//!
//! Invariants:
//! 1. Where the order of rows can matter to what is stored they are not
//!    sorted, and go in by a statement each ([`Plan::keeps_order`]).
//! 2. A wrong order costs speed only.
//!
//! Must never: begin, commit or roll back the transaction it runs in.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{CachedStatement, Connection};

use self::order::best_order;
pub(super) use self::plan::InsertPlans;
use self::plan::Plan;
use crate::error::{Error, ErrorKind, Result};
use crate::sqlite_error::{is_fault_of_a_row, sqlite_says};
use crate::words::{counted, shown_value};

mod order;
mod plan;
#[cfg(test)]
mod tests;

/// Rows for one table of the main database, in a call that waits for its group.
#[derive(Debug, Clone, PartialEq)]
pub struct InsertMany {
    /// Name of the table, in any case.
    pub table: String,
    /// Columns that get values; the others take their defaults. The rowid may be among them as
    /// `rowid`, `oid` or `_rowid_`.
    pub columns: Vec<String>,
    /// Values for each of those columns, for each row.
    pub rows: Vec<Vec<Value>>,
}

/// Inserts the rows, and returns the number of new rows in the table.
///
/// Runs in a transaction that the caller owns. After an error none of the rows
/// is in it, and it goes on, unless SQLite itself has ended it.
///
/// # Errors
/// A table or column that does not exist or takes no values, a row of another length, and any
/// refusal of a row by SQLite: that error has the row's number, from 1 as given, and its values. A
/// full disk and similar errors end the whole transaction, as always.
pub(super) fn insert_sorted(
    connection: &Connection,
    plans: &mut InsertPlans,
    request: &InsertMany,
) -> Result<u64> {
    let insertion = Insertion::new(connection, plans, request)?;
    let inserted = if request.rows.len() == 1 && !insertion.plan.keeps_order {
        // A statement is all or nothing by itself, unless a conflict clause says FAIL.
        insertion.one_by_one()
    } else {
        insertion.all_or_none()
    };
    inserted.map_err(|failure| match failure {
        Failure::Row(at, source) => insertion.refused(at, &source),
        Failure::Other(source) => Error::sqlite("insert the rows", source),
    })
}

/// Result of an insert without a savepoint.
pub(super) enum Alone {
    /// All rows are in; the number of new rows in the table.
    Inserted(u64),
    /// One row was refused. Which one is unknown.
    Refused,
    /// SQLite could not go on, and no row is at fault.
    Broken(Error),
}

/// Inserts the rows without a savepoint: with one, SQLite would keep a copy of every page from
/// before its change. The transaction has to be rolled back unless all rows are in.
///
/// # Errors
/// A request that is refused before any row is inserted; the transaction can go on.
pub(super) fn insert_alone(
    connection: &Connection,
    plans: &mut InsertPlans,
    request: &InsertMany,
) -> Result<Alone> {
    let insertion = Insertion::new(connection, plans, request)?;
    let inserted =
        if insertion.plan.keeps_order { insertion.one_by_one() } else { insertion.in_best_order() };
    Ok(match inserted {
        Ok(rows) => Alone::Inserted(rows),
        Err(Failure::Row(..)) => Alone::Refused,
        Err(Failure::Other(source)) if is_fault_of_a_row(&source) => Alone::Refused,
        Err(Failure::Other(source)) => Alone::Broken(Error::sqlite("insert the rows", source)),
    })
}

/// One run of a plan.
struct Insertion<'i> {
    connection: &'i Connection,
    plan: &'i Plan,
    rows: &'i [Vec<Value>],
}

/// Reason why rows could not be inserted.
enum Failure {
    /// The row at this index failed.
    Row(usize, rusqlite::Error),
    /// No row is at fault.
    Other(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(source: rusqlite::Error) -> Self {
        Self::Other(source)
    }
}

impl<'i> Insertion<'i> {
    fn new(
        connection: &'i Connection,
        plans: &'i mut InsertPlans,
        request: &'i InsertMany,
    ) -> Result<Self> {
        let plan = plans.plan(connection, request)?;
        let columns = request.columns.len();
        if let Some(at) = request.rows.iter().position(|row| row.len() != columns) {
            return Err(Error::misuse(format!(
                "row {} has {} for {} of {}",
                at + 1,
                counted(request.rows[at].len() as u64, "value", "values"),
                counted(columns as u64, "column", "columns"),
                plan.table
            )));
        }
        Ok(Self { connection, plan, rows: &request.rows })
    }

    fn all_or_none(&self) -> Result<u64, Failure> {
        self.connection.execute_batch("SAVEPOINT leafpress_rows")?;
        let inserted = if self.plan.keeps_order { self.one_by_one() } else { self.by_key() };
        // Without a transaction there is no savepoint any more.
        if inserted.is_err() && !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK TO leafpress_rows")?;
        }
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("RELEASE leafpress_rows")?;
        }
        inserted
    }

    fn by_key(&self) -> Result<u64, Failure> {
        match self.in_best_order() {
            // The first row refused in the order of the key need not be the first as given.
            Err(Failure::Other(error))
                if is_fault_of_a_row(&error) && !self.connection.is_autocommit() =>
            {
                self.connection.execute_batch("ROLLBACK TO leafpress_rows")?;
                self.one_by_one()
            }
            inserted => inserted,
        }
    }

    fn in_best_order(&self) -> Result<u64, Failure> {
        Ok(match best_order(&self.plan.key, self.rows) {
            Some(order) => self.in_order(order.iter().map(|&at| &self.rows[at]))?,
            None if self.plan.rows_at_once == 1 => self.one_by_one()?,
            None => self.in_order(self.rows.iter())?,
        })
    }

    /// Inserts rows by statements of many rows, and the remaining ones singly.
    fn in_order<'r>(
        &self,
        mut rows: impl ExactSizeIterator<Item = &'r Vec<Value>>,
    ) -> rusqlite::Result<u64> {
        let mut inserted = 0;
        let at_once = self.plan.rows_at_once;
        if at_once > 1 && rows.len() >= at_once {
            let mut statement = self.connection.prepare_cached(&self.plan.insert_many)?;
            let mut next: Vec<&Vec<Value>> = Vec::with_capacity(at_once);
            while rows.len() >= at_once {
                next.clear();
                next.extend(rows.by_ref().take(at_once));
                touch(&next);
                inserted += run(&mut statement, next.iter().copied().flatten())?;
            }
        }
        if rows.len() > 0 {
            let mut statement = self.connection.prepare_cached(&self.plan.insert_one)?;
            for row in rows {
                inserted += run(&mut statement, row.iter())?;
            }
        }
        Ok(inserted)
    }

    fn one_by_one(&self) -> Result<u64, Failure> {
        let mut statement = self.connection.prepare_cached(&self.plan.insert_one)?;
        let mut inserted = 0;
        for (at, row) in self.rows.iter().enumerate() {
            match run(&mut statement, row.iter()) {
                Ok(rows) => inserted += rows,
                Err(error) if is_fault_of_a_row(&error) => return Err(Failure::Row(at, error)),
                Err(error) => return Err(Failure::Other(error)),
            }
        }
        Ok(inserted)
    }

    fn refused(&self, at: usize, error: &rusqlite::Error) -> Error {
        let values: Vec<String> =
            self.rows[at].iter().map(|value| shown_value(ValueRef::from(value))).collect();
        Error::from(ErrorKind::Constraint {
            table: self.plan.table.clone(),
            reason: sqlite_says(error),
            row: Some(at as u64 + 1),
            values: Some(values.join(", ")),
        })
        .caused_by(Error::copy_of(error))
        .to_do("correct the row, or leave it out")
    }
}

/// Touches the values of some rows, so that the processor loads them all at once. In the order of
/// their key they lie far apart, and binding would wait for each in turn.
fn touch(rows: &[&Vec<Value>]) {
    let mut sum = 0_u8;
    for value in rows.iter().copied().flatten() {
        let bytes = match value {
            Value::Text(text) => text.as_bytes(),
            Value::Blob(blob) => blob,
            _ => continue,
        };
        sum ^= bytes.first().copied().unwrap_or(0) ^ bytes.last().copied().unwrap_or(0);
    }
    std::hint::black_box(sum);
}

fn run<'v>(
    statement: &mut CachedStatement<'_>,
    values: impl Iterator<Item = &'v Value>,
) -> rusqlite::Result<u64> {
    for (at, value) in values.enumerate() {
        statement.raw_bind_parameter(at + 1, value)?;
    }
    statement.raw_execute().map(|rows| rows as u64)
}
