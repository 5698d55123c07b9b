//! The first row of the input that keeps a new table out, as it refers to nothing.
//!
//! The new table's rows stand in the order of its key. So the same rows are given once more, in
//! the order of the input, while the transaction that holds the new table is still open.
//!
//! Must never: change a row.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::references::{ForeignKey, foreign_keys};
use super::rows::values;
use super::staged::open;
use super::task::Staged;
use crate::schema::quote_identifier;

/// A row that refers to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::load) struct Orphan {
    /// Its place in the input, from 0.
    pub number: u64,
    /// The first column of the foreign key.
    pub column: String,
    /// The table that it refers to.
    pub parent: String,
}

/// The wish to know the first row that refers to nothing.
#[derive(Debug)]
pub(in crate::load) struct Search<'s> {
    /// A database with a table of the same name and columns, without rules, whose rows are in
    /// the order of the input.
    pub rows: &'s Path,
    /// The answer.
    pub found: Option<Orphan>,
}

impl Search<'_> {
    /// Looks for the row. `connection` sees the new table.
    pub(super) fn run(&mut self, connection: &Connection, table: &str) -> rusqlite::Result<()> {
        let keys = foreign_keys(connection, table)?;
        let mut queries = Vec::new();
        for key in &keys {
            let parent = connection.prepare(&key.parent_sql())?;
            let child = connection.prepare(&key.children_sql(table))?;
            queries.push((key, parent, child));
        }
        let source = open(&Staged { file: self.rows, table, rows: 0 })?;
        let mut select = source.prepare(&select(&keys, table))?;
        let mut rows = select.query([])?;
        let mut number = 0;
        while let Some(row) = rows.next()? {
            let mut rest = values(row, keys.iter().map(|key| key.from.len()).sum())?;
            for (key, parent, child) in &mut queries {
                let later = rest.split_off(key.from.len());
                let given = std::mem::replace(&mut rest, later);
                let is_null = given.contains(&ToSqlOutput::Borrowed(ValueRef::Null));
                // A row that was left out, as its key was there, is not in the table.
                if !is_null
                    && !parent.exists(params_from_iter(&given))?
                    && child.exists(params_from_iter(&given))?
                {
                    let (column, parent) = (key.from[0].clone(), key.parent.clone());
                    self.found = Some(Orphan { number, column, parent });
                    return Ok(());
                }
            }
            number += 1;
        }
        Ok(())
    }
}

/// The columns that refer, key by key.
fn select(keys: &[ForeignKey], table: &str) -> String {
    let columns = keys.iter().flat_map(|key| &key.from).map(|name| quote_identifier(name));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("SELECT {columns} FROM main.{} ORDER BY rowid", quote_identifier(table))
}
