//! Search for the first row of the input with a foreign key without its parent row, which keeps a
//! new table out.
//!
//! The new table's rows are in the order of its key. So the search gets the same rows once more, in
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

/// A row with a foreign key without its parent row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::load) struct Orphan {
    /// Ordinal of the row in the input, from 0.
    pub number: u64,
    /// The first column of the foreign key.
    pub column: String,
    /// Name of the parent table.
    pub parent: String,
}

/// Search for the first such row.
#[derive(Debug)]
pub(in crate::load) struct Search<'s> {
    /// A database with a table of the same name and columns, without rules, whose rows are in
    /// the order of the input.
    pub rows: &'s Path,
    /// Result of the search.
    pub found: Option<Orphan>,
}

impl Search<'_> {
    /// Searches. `connection` sees the new table.
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
                // A row that was left out for its key is not in the table.
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

/// The columns of the foreign keys, key by key. SQLite reads a table without indexes in the order of its
/// rowids, whose name a column may have.
fn select(keys: &[ForeignKey], table: &str) -> String {
    let columns = keys.iter().flat_map(|key| &key.from).map(|name| quote_identifier(name));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("SELECT {columns} FROM main.{}", quote_identifier(table))
}
