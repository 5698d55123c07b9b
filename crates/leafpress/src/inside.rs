//! Settings and facts that the database itself holds, read through SQLite without a trace.
//!
//! Opens as `verify` does: read-only, and without making files beside it. It may wait
//! some seconds for a lock, and it cannot read what must be recovered first; the
//! error says so.
//!
//! Must never: write, or wait without end.

use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use crate::candidate::Candidate;
use crate::error::{Error, Result};

/// Settings and facts that a database itself holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Inside {
    /// Its journal mode: `wal`, or what a plain connection uses without a log, `delete`.
    pub journal_mode: String,
    /// Bytes in a page.
    pub page_size_bytes: u64,
    /// Pages in it.
    pub pages: u64,
}

/// Settings that a connection of this build of SQLite has if it sets none.
///
/// Settings belong to a connection: those of other processes cannot be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConnectionDefaults {
    /// `synchronous`: 0 OFF, 1 NORMAL, 2 FULL, 3 EXTRA.
    pub synchronous: u32,
    /// Pages after which a commit makes a checkpoint; 0 if it never does.
    pub wal_autocheckpoint_pages: u32,
    /// Bytes to which a log or journal that is kept is cut; -1 for never.
    pub journal_size_limit_bytes: i64,
}

/// Reads the facts that a database holds about itself.
///
/// # Errors
/// When there is none, it is locked, damaged, encrypted, or must be recovered first.
/// Nothing was changed.
pub fn look_inside(path: impl AsRef<Path>) -> Result<Inside> {
    let candidate = Candidate::look_at(path.as_ref())?;
    let refused = |error| candidate.refused("read the database", error);
    let connection = candidate.open().map_err(refused)?;
    let number = |pragma: &str| {
        let sql = format!("PRAGMA {pragma}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
    };
    let pages = number("page_count").map_err(refused)?;
    let page_size_bytes = number("page_size").map_err(refused)?;
    let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    let mode = mode.map_err(refused)?;
    // Without its log a database in WAL mode is read as if it were in another.
    let journal_mode = if candidate.is_wal() { "wal".to_owned() } else { mode };
    Ok(Inside { journal_mode, page_size_bytes, pages })
}

/// Asks this build of SQLite for its defaults.
///
/// # Errors
/// When there is no memory for a connection.
pub fn connection_defaults() -> Result<ConnectionDefaults> {
    let ask = || -> rusqlite::Result<ConnectionDefaults> {
        let connection = Connection::open_in_memory()?;
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        Ok(ConnectionDefaults {
            synchronous: number("PRAGMA synchronous")? as u32,
            wal_autocheckpoint_pages: number("PRAGMA wal_autocheckpoint")?.max(0) as u32,
            journal_size_limit_bytes: number("PRAGMA journal_size_limit")?,
        })
    };
    ask().map_err(|source| Error::sqlite("tell its defaults", source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_tells_its_journal_mode_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t(a)").unwrap();
        let found = look_inside(&path).unwrap();
        assert_eq!((found.journal_mode.as_str(), found.pages), ("delete", 2));
        connection.execute_batch("PRAGMA journal_mode=WAL; INSERT INTO t VALUES (1)").unwrap();
        assert_eq!(look_inside(&path).unwrap().journal_mode, "wal");
        connection.close().unwrap();
        assert_eq!(look_inside(&path).unwrap().journal_mode, "wal");
        assert!(look_inside(folder.path().join("none.db")).is_err());
    }

    #[test]
    fn the_defaults_are_those_of_sqlite() {
        let defaults = connection_defaults().unwrap();
        assert_eq!(defaults.synchronous, 2);
        assert_eq!(defaults.wal_autocheckpoint_pages, 1000);
        assert_eq!(defaults.journal_size_limit_bytes, -1);
    }
}
