//! The one error type: what happened, where, what is on disk now, what to do.
//!
//! Stands beside every stage; none of them prints. An [`Error`] has a
//! [`kind`](Error::kind) for programs, and reads as a message for people:
//!
//! ```text
//! people.csv:17:9: column "age": 'abc' is not an INTEGER
//!   Ada,abc,London
//! on disk: nothing was written to app.db
//! to do: load the column as it is with --type age=text, …
//! ```
//!
//! Must never: swallow the cause of a failure, or claim a state of the disk
//! that the code which made the error did not bring about.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a row could not be loaded, and where it stands in the input.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BadRow {
    /// The input's name: a path, or `<stdin>`.
    pub file: String,
    /// Line of the field at fault (or of the row's start), counted from 1.
    pub line: u64,
    /// Byte column in that line, counted from 1.
    pub column: u64,
    /// What is wrong, naming the column where one is to blame.
    pub reason: String,
    /// The row as it stands in the input, without its line end; cut where long.
    pub row: String,
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, reason, row } = self;
        write!(f, "{file}:{line}:{column}: {reason}\n  {row}")
    }
}

/// What kind of failure it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A row of the input cannot be loaded and no leave was given to skip it.
    #[error("{0}")]
    BadRow(Box<BadRow>),
    /// More rows were rejected than allowed.
    #[error("{rejected} rows were rejected, more than the {limit} allowed; the last was\n{last}")]
    TooManyRejects {
        /// Rows rejected so far.
        rejected: u64,
        /// The limit that was given.
        limit: u64,
        /// The row that went over it.
        last: Box<BadRow>,
    },
    /// The call itself is wrong: an unknown column, flags that contradict.
    #[error("{0}")]
    Usage(String),
    /// The input as a whole cannot be read as what it should be.
    #[error("{file}: {reason}")]
    Input {
        /// The input's name.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something already stands where the database should go.
    #[error("{}: {reason}", path.display())]
    Destination {
        /// The file in the way.
        path: PathBuf,
        /// Why it is in the way.
        reason: String,
    },
    /// A row breaks a rule of the table that it should go into.
    #[error("{table}: {reason}{}", refused_row(*row, values.as_deref()))]
    Constraint {
        /// The table.
        table: String,
        /// Which rule, in SQLite's words.
        reason: String,
        /// Which row it was, from 1, in the order in which the rows went in.
        row: Option<u64>,
        /// Its values, as SQL would write them, cut where long.
        values: Option<String>,
    },
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: "read", "write", "sync".
        action: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// SQLite refused an operation.
    #[error("SQLite cannot {action}: {source}")]
    Sqlite {
        /// What was tried.
        action: &'static str,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// The caller asked to stop.
    #[error("stopped before the end, as asked")]
    Cancelled,
}

fn refused_row(row: Option<u64>, values: Option<&str>) -> String {
    let number = row.map_or_else(String::new, |row| format!("\n  row {row}"));
    number + &values.map_or_else(String::new, |values| format!(": {values}"))
}

/// A failure, with the state of the disk after it and the way out.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    on_disk: Option<String>,
    to_do: Option<String>,
}

impl Error {
    /// A usage error.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        ErrorKind::Usage(message.into()).into()
    }

    /// An error of the operating system, on `path`.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        ErrorKind::Io { action, path: path.to_owned(), source }.into()
    }

    /// An error of SQLite.
    pub(crate) fn sqlite(action: &'static str, source: rusqlite::Error) -> Self {
        ErrorKind::Sqlite { action, source }.into()
    }

    /// Adds what is on disk now, unless a place nearer to the failure knew it.
    #[must_use]
    pub(crate) fn on_disk(mut self, state: impl Into<String>) -> Self {
        self.0.on_disk.get_or_insert_with(|| state.into());
        self
    }

    /// Adds what to do about it, unless a place nearer to the failure knew it.
    #[must_use]
    #[expect(clippy::wrong_self_convention, reason = "it is a to-do, not a conversion")]
    pub(crate) fn to_do(mut self, advice: impl Into<String>) -> Self {
        self.0.to_do.get_or_insert_with(|| advice.into());
        self
    }

    /// What kind of failure it was, for programs.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// What is on disk after the failure.
    pub fn state_on_disk(&self) -> Option<&str> {
        self.0.on_disk.as_deref()
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.0.to_do.as_deref()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, on_disk: None, to_do: None }))
    }
}

impl From<BadRow> for Error {
    fn from(row: BadRow) -> Self {
        ErrorKind::BadRow(Box::new(row)).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.kind)?;
        if let Some(state) = &self.0.on_disk {
            write!(f, "\non disk: {state}")?;
        }
        if let Some(advice) = &self.0.to_do {
            write!(f, "\nto do: {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.kind)
    }
}
