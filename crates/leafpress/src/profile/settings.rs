//! Settings of a connection, in SQLite's own words, and the question for one.

use std::fmt;

use rusqlite::Connection;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use serde::{Deserialize, Serialize};

/// The database itself, not those that are attached.
pub(super) const MAIN: Option<&str> = Some("main");

/// Ways in which SQLite undoes transactions that are half done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JournalMode {
    /// Old pages go to a file that is deleted at the commit.
    Delete,
    /// Like `Delete`, but the file is cut to no bytes.
    Truncate,
    /// Like `Delete`, but the file's header is overwritten.
    Persist,
    /// Old pages are kept in memory.
    Memory,
    /// New pages go to a write-ahead log.
    Wal,
    /// Nothing is kept: there is no way back.
    Off,
}

/// Moments at which SQLite waits until the disk has the bytes that it wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    /// Never.
    Off,
    /// Syncs at the moments without which a file could be damaged.
    Normal,
    /// Syncs at every commit.
    Full,
    /// Syncs at every commit, and syncs the folder after a journal is deleted.
    Extra,
}

impl JournalMode {
    /// All that SQLite knows.
    pub const ALL: [Self; 6] =
        [Self::Delete, Self::Truncate, Self::Persist, Self::Memory, Self::Wal, Self::Off];

    /// The word of `PRAGMA journal_mode`, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
            Self::Memory => "memory",
            Self::Wal => "wal",
            Self::Off => "off",
        }
    }
}

impl Synchronous {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Off, Self::Normal, Self::Full, Self::Extra];

    /// The word of `PRAGMA synchronous`, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Normal => "normal",
            Self::Full => "full",
            Self::Extra => "extra",
        }
    }
}

impl fmt::Display for JournalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name().to_ascii_uppercase())
    }
}

impl fmt::Display for Synchronous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name().to_ascii_uppercase())
    }
}

impl FromSql for JournalMode {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word = value.as_str()?;
        let found = Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(word));
        found.ok_or(FromSqlError::InvalidType)
    }
}

impl FromSql for Synchronous {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        let found = usize::try_from(number).ok().and_then(|it| Self::ALL.get(it));
        found.copied().ok_or(FromSqlError::OutOfRange(number))
    }
}

/// Connections that may use the database beside this one, while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locking {
    /// All, between this connection's transactions.
    #[default]
    Shared,
    /// None, not even to read: the database is held from the opening on until the connection is
    /// closed.
    Exclusive,
}

impl Locking {
    /// Its name: `shared` or `exclusive`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }
}

impl fmt::Display for Locking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromSql for Locking {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "normal" => Ok(Self::Shared),
            "exclusive" => Ok(Self::Exclusive),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// Asks for a setting by its pragma.
pub(super) fn ask<T: FromSql>(connection: &Connection, pragma: &str) -> rusqlite::Result<T> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}
