//! The memory of SQLite: how much of it is used, and how to need less.
//!
//! Stands beside every stage. [`shrink`] is what the profile's `small` option does to
//! a connection, for devices where a few hundred kilobytes matter.
//!
//! Must never: change a setting of the whole process, as other connections live there.

use rusqlite::Connection;

use crate::c_api::memory as c_api;
use crate::error::{Error, Result};

/// How many pages a small connection keeps between its transactions.
///
/// Without a journal, a one-row transaction touches page 1 and the path to one leaf: 4
/// pages for 200,000 rows, 5 for a hundred million. With fewer pages kept, each
/// transaction reads them again.
pub const SMALL_CACHE_PAGES: u32 = 8;

/// How many pages a small connection holds before a transaction writes some of them
/// ahead of its commit, which costs a sync of the journal each time.
///
/// One-row updates with a secondary index that splits its pages still did so at 12 (3
/// times in 200 transactions), and no more at 16.
pub const SMALL_SPILL_PAGES: u32 = 16;

/// Makes a connection small: for one-row transactions on a device with little memory.
///
/// To be called right after opening, before any statement; it reads the first page. What
/// it does is for this connection only, and lasts until it is closed:
///
/// - no lookaside block (48 KB): small pieces come from the heap, one by one;
/// - a page cache of [`SMALL_CACHE_PAGES`] pages (only the database `main` has it, not
///   an attached one), taken one by one. SQLite takes 20 at once when a cache gets its
///   first page, except where less than 3 may be kept. So the cache is emptied, gets
///   its first page while 2 may be kept, and then its limit. Should it become empty
///   once more (another connection wrote), SQLite takes all up to the limit at once.
///
/// A transaction that changes more than [`SMALL_SPILL_PAGES`] pages writes some of them
/// before its commit. It is as safe as any.
///
/// # Errors
/// SQLite's: `SQLITE_BUSY` if a statement is open already, or if somebody else holds the
/// database; and whatever reading its first page may say. The connection works then,
/// but is larger than it should be. Nothing on disk is changed in any case.
pub fn shrink(connection: &Connection) -> Result<()> {
    c_api::lookaside_off(connection).map_err(|error| {
        Error::sqlite("give back a connection's lookaside memory", error)
            .on_disk("nothing was changed")
            .to_do("make the connection small right after opening, before any statement")
    })?;
    shrink_cache(connection).map_err(|error| {
        Error::sqlite("make a connection's page cache small", error).on_disk("nothing was changed")
    })
}

fn shrink_cache(connection: &Connection) -> rusqlite::Result<()> {
    let main = Some("main");
    connection.pragma_update(main, "cache_size", 2)?;
    connection.execute_batch("PRAGMA shrink_memory")?;
    // The first page goes into the cache, by itself.
    connection.pragma_query_value(main, "schema_version", |_| Ok(()))?;
    connection.pragma_update(main, "cache_size", SMALL_CACHE_PAGES)?;
    connection.pragma_update(main, "cache_spill", SMALL_SPILL_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_connection_has_its_limits_and_works() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("a.db")).unwrap();
        shrink(&connection).unwrap();
        let pragma = |name| -> u32 {
            connection.pragma_query_value(Some("main"), name, |row| row.get(0)).unwrap()
        };
        assert_eq!(pragma("cache_size"), SMALL_CACHE_PAGES);
        assert_eq!(pragma("cache_spill"), SMALL_SPILL_PAGES);
        connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
        let x: i64 = connection.query_row("SELECT x FROM t", (), |row| row.get(0)).unwrap();
        assert_eq!(x, 7);
        shrink(&connection).expect("once more does no harm");
    }

    #[test]
    fn not_while_a_statement_is_open() {
        let connection = Connection::open_in_memory().unwrap();
        let statement = connection.prepare("SELECT 1").unwrap();
        let error = shrink(&connection).unwrap_err();
        assert!(error.to_string().contains("lookaside"), "{error}");
        assert!(error.advice().unwrap().contains("before any statement"), "{error}");
        drop(statement);
        shrink(&connection).unwrap();
    }
}
