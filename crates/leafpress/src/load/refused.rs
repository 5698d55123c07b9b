//! Rows that the table refuses. They are found again in the input, then rejected or reported
//! with advice.
//!
//! Stands between the flow, which knows rows by their sequence, and SQLite, which knows the
//! rule that was broken.
//!
//! Must never: give advice that does not help with the rule that was broken.

use std::sync::Mutex;

use rusqlite::ffi;

use super::existing::RefusedRow;
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::load::passes::feed::Feed;
use crate::load::passes::locate::Wanted;
use crate::load::passes::rejects::{Rejects, Words};
use crate::schema::shape::TableShape;
use crate::sqlite_error::broken_rule;
use crate::sync::lock;

/// Decision about the rows that a table refused.
pub struct RefusedRows<'r> {
    /// Name of the table.
    pub table: &'r str,
    /// Source of the rows.
    pub feed: &'r mut dyn Feed,
    /// Destination of rows that are left out.
    pub rejects: &'r Mutex<Rejects>,
    /// The columns that the input gives.
    pub shape: &'r TableShape,
    /// True if a row's ordinal is its sequence, as the feed was read again. Otherwise it is an
    /// ordinal in the order of the key.
    pub reads_again: bool,
    /// True if the first row ends the load.
    pub stops: bool,
    /// True if another insert mode could leave out rows with a taken key, or change the old ones: the advice
    /// names it.
    pub may_choose_on_conflict: bool,
    /// Number of all rows, if they replace those of the table.
    pub replaced_by: Option<u64>,
}

impl RefusedRows<'_> {
    /// Rejects the rows, or fails with the first of them.
    pub fn decide(&mut self, rows: &[RefusedRow]) -> Result<()> {
        if let Some(first) = rows.first().filter(|_| self.stops) {
            return Err(self.failure(first)?);
        }
        if self.reads_again {
            let wanted = rows.iter().map(|row| self.wanted(row)).collect::<Vec<_>>();
            if !wanted.is_empty() {
                let rejects = self.rejects;
                let mut add = |_, bad_row: BadRow, bytes: &[u8]| {
                    lock(rejects).add(bad_row, bytes, Words::Sqlite)
                };
                self.feed.locate(&wanted, &mut add)?;
            }
        } else {
            for row in rows {
                let bad_row = in_key_order(row);
                let values = row.values.as_deref().unwrap_or("");
                lock(self.rejects).add(bad_row, values.as_bytes(), Words::Sqlite)?;
            }
        }
        let mut rejects = lock(self.rejects);
        rejects.release()?;
        if self.replaced_by.is_some_and(|all| all > 0 && all == rows.len() as u64) {
            let inputs = &self.feed.state().inputs;
            return Err(nothing_to_replace_by(inputs, self.table, &mut rejects));
        }
        rejects.flush()?;
        drop(rejects);
        self.feed.release();
        Ok(())
    }

    fn wanted(&self, row: &RefusedRow) -> Wanted {
        let column = column_of(self.shape, &row.reason);
        Wanted { sequence: row.number, column, reason: row.reason.clone() }
    }

    /// The error for a row, with its place and advice.
    fn failure(&mut self, row: &RefusedRow) -> Result<Error> {
        let kind = ErrorKind::Constraint {
            table: self.table.to_owned(),
            reason: row.reason.clone(),
            row: Some(row.number + 1),
            values: row.values.clone(),
        };
        let mut found = None;
        if self.reads_again {
            let wanted = [self.wanted(row)];
            self.feed.locate(&wanted, &mut |_, bad_row, _| {
                found = Some(bad_row);
                Ok(())
            })?;
        }
        let error = Error::from(kind)
            .caused_by(broken_rule(row.code))
            .on_disk("the database is as it was")
            .to_do(advice(row.code, self.may_choose_on_conflict));
        Ok(match found {
            Some(bad_row) => error.of_row(bad_row),
            None => error,
        })
    }
}

/// The error of an exchange of rows for which no new row is left, as all are bad: the old rows stay.
pub fn nothing_to_replace_by(inputs: &[String], table: &str, rejects: &mut Rejects) -> Error {
    let which = match rejects.count() {
        1 => "its only row is bad".to_owned(),
        rejected => format!("all of its {rejected} rows are bad, the first"),
    };
    let first = rejects.take_shown().into_iter().next();
    let first = first.map_or(String::new(), |row| {
        format!(" at {}:{}:{}: {}", row.file, row.line, row.column, row.reason)
    });
    let reason = format!("no row is left to replace those of {table}: {which}{first}");
    let file = inputs.first().cloned().unwrap_or_default();
    Error::from(ErrorKind::Input { file, reason })
        .on_disk("the database is as it was")
        .to_do("correct the rows or the table; to empty the table, load an input without rows")
}

/// A row of an input that can be read only once, known by its ordinal in the order of the key.
fn in_key_order(row: &RefusedRow) -> BadRow {
    BadRow {
        file: "<rows in the order of the key>".to_owned(),
        line: row.number + 1,
        column: 1,
        reason: row.reason.clone(),
        row: row.values.clone().unwrap_or_default(),
    }
}

/// The error for a row that breaks a rule of its table.
pub fn constraint(table: &str, row: BadRow) -> Error {
    let (table, reason) = (table.to_owned(), row.reason.clone());
    Error::from(ErrorKind::Constraint { table, reason, row: None, values: None }).of_row(row)
}

/// Index of the column that SQLite names in its reason: `UNIQUE constraint failed: t.id, t.day`.
pub fn column_of(shape: &TableShape, reason: &str) -> Option<usize> {
    let (_, named) = reason.split_once(" constraint failed: ")?;
    shape.columns.iter().position(|column| {
        let first = format!("{}.{}", shape.name, column.name);
        let rest = named.get(..first.len()).filter(|it| it.eq_ignore_ascii_case(&first));
        rest.is_some_and(|_| matches!(named[first.len()..].chars().next(), None | Some(',')))
    })
}

/// Advice for a row that breaks a rule, by SQLite's code for the rule.
fn advice(code: i32, may_choose_on_conflict: bool) -> &'static str {
    match code {
        ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_ROWID
            if may_choose_on_conflict =>
        {
            "correct the row; leave rows whose key is there out with ⟦ignore⟧, or give the old rows \
             the new values with ⟦upsert⟧; or leave such rows out as bad rows with ⟦skip_bad_rows⟧"
        }
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => {
            "load the rows that it refers to first, or leave such rows out with ⟦skip_bad_rows⟧"
        }
        _ => "correct the row, or leave such rows out with ⟦skip_bad_rows⟧",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::describe::describe;
    use crate::schema::shape::staged_shape;

    #[test]
    fn the_column_is_the_one_that_sqlite_names_first() {
        let made =
            describe(&["CREATE TABLE \"a.b\"(\"x\", \"x, y\", z)".to_owned()], None).unwrap();
        let shape = staged_shape("a.b", made.columns, None);
        for (reason, expected) in [
            ("UNIQUE constraint failed: a.b.x", Some(0)),
            ("UNIQUE constraint failed: a.b.z, a.b.x", Some(2)),
            ("NOT NULL constraint failed: A.B.Z", Some(2)),
            ("CHECK constraint failed: x > 0", None),
            ("FOREIGN KEY constraint failed", None),
        ] {
            assert_eq!(column_of(&shape, reason), expected, "{reason}");
        }
    }

    #[test]
    fn advice_fits_the_rule() {
        assert!(advice(ffi::SQLITE_CONSTRAINT_PRIMARYKEY, true).contains("⟦upsert⟧"));
        for code in [ffi::SQLITE_CONSTRAINT_CHECK, ffi::SQLITE_CONSTRAINT_FOREIGNKEY] {
            assert!(!advice(code, true).contains("⟦ignore⟧"), "{code}");
        }
    }
}
