//! Faults with a place: a row of an input, a statement of a script or of a batch.
//!
//! Must never: say what is on disk, or what to do. The error that holds the fault does.

use std::fmt;

use crate::words::{printable, printable_lines};

/// A row that could not be loaded: the reason, and its place in the input.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BadRow {
    /// The input's name: a path, or `<stdin>`.
    pub file: String,
    /// Line of the field at fault (or of the row's start), counted from 1.
    pub line: u64,
    /// Byte column in that line, counted from 1.
    pub column: u64,
    /// The fault, naming the column where one is to blame.
    pub reason: String,
    /// The row as it stands in the input, without its line end; cut where long.
    pub row: String,
}

impl BadRow {
    /// A fault of a row at a place of a file, without the row's text.
    #[must_use]
    pub fn new(file: String, line: u64, column: u64, reason: String) -> Self {
        Self { file, line, column, reason, row: String::new() }
    }

    /// Shows the row as it stands in the input.
    #[must_use]
    pub fn with_row(mut self, row: String) -> Self {
        self.row = row;
        self
    }
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, reason, row } = self;
        let [file, reason, row] = [file, reason, row].map(|text| printable(text));
        write!(f, "{file}:{line}:{column}: {reason}\n  {row}")
    }
}

/// A statement of a script that SQLite refused, or a text that is none.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ScriptError {
    /// The script's name: a path, `<stdin>`, or the flag it stands behind.
    pub file: String,
    /// Line of the word at fault (or of the statement's start), counted from 1.
    pub line: u64,
    /// Byte column in that line, counted from 1.
    pub column: u64,
    /// The fault, in SQLite's words where it said it.
    pub reason: String,
    /// The statement; cut where long.
    pub sql: String,
    /// Transactions before it that were committed, and stay; 0 where it ran on a copy.
    pub transactions_committed: u64,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, reason, sql, .. } = self;
        let ([file, reason], sql) =
            ([file, reason].map(|text| printable(text)), printable_lines(sql));
        write!(f, "{file}:{line}:{column}: {reason}\n  {sql}")
    }
}

/// The statement of a batch or a script that failed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct FailedStatement {
    /// Number of the statement, from 1.
    pub ordinal: u64,
    /// The line of its text on which it begins, counted from 1.
    pub line: u64,
    /// The statement; cut where long.
    pub sql: String,
}

impl fmt::Display for FailedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ordinal, line, sql } = self;
        write!(f, "statement {ordinal}, line {line}: {sql}")
    }
}
