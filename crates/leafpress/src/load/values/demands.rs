//! Demands of a table on the values of its columns, and the keys that a load makes for it.
//!
//! Shared by inputs of text (`fields`) and of typed rows (`typed`). Must never: know a value.

use super::uuid7::Uuid7Range;
use crate::load::options::LoadOptions;
use crate::schema::names::{ColumnName, column_named};
use crate::schema::shape::{ShapeColumn, TableShape};
use crate::schema::sql_words::is_before_trigger;

/// Fault of a row without a value for its primary key.
pub const KEY_IS_EMPTY: &str = "the primary key is empty";

/// The demands on a table's columns.
#[derive(Debug, Clone, Default)]
pub struct Demands {
    /// True for each column that refuses NULL; empty if none does. The rowid's column always does,
    /// and is not listed ([`for_rowid`](Self::for_rowid)).
    pub not_null: Vec<bool>,
    /// True for each column of the key that was asked for; empty if none was.
    pub key: Vec<bool>,
    /// True if the rowid's column was detected, so that a value that is no integer makes no bad
    /// row.
    pub key_is_detected: bool,
    /// Range from which [`ValueSource::Uuid7`](super::sources::ValueSource::Uuid7) takes its keys.
    pub uuid7: Option<Uuid7Range>,
}

impl Demands {
    /// The demands of a table; `names` are those of its columns.
    pub fn of_table(options: &LoadOptions, shape: &TableShape, names: &[ColumnName]) -> Self {
        let columns = &shape.columns;
        let key = options.primary_key.iter().chain(&options.later_key);
        let key: Vec<usize> = key.filter_map(|name| column_named(names, name).ok()).collect();
        // The trigger may pass over the row, before SQLite refuses it.
        let asks_trigger =
            shape.through_sql.is_some() && shape.beside.iter().any(|sql| is_before_trigger(sql));
        let refuses_null = |(at, it): (usize, &ShapeColumn)| {
            // A row that brings no rowid is given one.
            it.not_null && !it.generated && !asks_trigger && shape.rowid_column != Some(at)
        };
        Self {
            not_null: columns.iter().enumerate().map(refuses_null).collect(),
            key: (0..columns.len()).map(|at| key.contains(&at)).collect(),
            ..Self::default()
        }
    }

    /// Columns that refuse NULL, and no other demand.
    #[cfg(test)]
    pub fn refusing_null(not_null: &[bool]) -> Self {
        Self { not_null: not_null.to_vec(), ..Self::default() }
    }

    /// Adds the demands on rows that bring their rowid in column `rowid`.
    #[must_use]
    pub fn for_rowid(mut self, rowid: Option<usize>) -> Self {
        if let Some(refuses) = rowid.and_then(|column| self.not_null.get_mut(column)) {
            *refuses = false;
        }
        if !self.not_null.contains(&true) {
            // The hot loop is faster with an empty list.
            self.not_null.clear();
        }
        self
    }

    /// Returns true if a column refuses NULL.
    #[inline(always)]
    pub fn refuses_null(&self, column: usize) -> bool {
        self.not_null.get(column).copied().unwrap_or(false)
    }

    /// Returns true if a column is part of the key that was asked for.
    pub fn is_key(&self, column: usize) -> bool {
        self.key.get(column) == Some(&true)
    }
}
