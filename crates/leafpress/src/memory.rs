//! The memory of SQLite, and how to save it.
//!
//! Stands beside every stage. [`of`] reads SQLite's own book-keeping. [`shrink`] is
//! what the profile's `small` option does to a connection, for devices where a few
//! hundred kilobytes matter.
//!
//! SQLite counts some figures for the whole process and some for each connection, and
//! no figure says how much of the process's memory is a connection's. To learn what one
//! connection needs, let it be the only one of the process.
//!
//! ```
//! let connection = rusqlite::Connection::open_in_memory()?;
//! connection.execute_batch("CREATE TABLE t (x)")?;
//! let memory = leafpress::memory::of(&connection);
//! assert!(memory.connection.schema_bytes > 0);
//! println!("{memory}");
//! # Ok::<(), rusqlite::Error>(())
//! ```
//!
//! Must never: change a setting of the whole process, as other connections live there.

use std::fmt;

use rusqlite::{Connection, ffi};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::vfs::memory as c_api;

/// SQLite's own figures of its memory.
///
/// Displayed as a table, with each figure now and at its highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryStats {
    /// All connections of the process together.
    pub process: ProcessMemory,
    /// The connection that was asked about.
    pub connection: ConnectionMemory,
}

/// The memory of SQLite in the whole process, other connections and other threads
/// included. All zero if SQLite was compiled or started not to count it.
///
/// A maximum counts from the start of the process, or from [`reset_highwater`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessMemory {
    /// Taken from the heap now.
    pub used_bytes: u64,
    /// The most that was taken at a time.
    pub used_bytes_max: u64,
    /// The largest single piece that was asked for.
    pub largest_allocation_bytes: u64,
    /// Cached pages that were taken from the heap one by one. (The first 20 of a cache
    /// come as one piece, which is not counted here.)
    pub page_cache_overflow_bytes: u64,
    /// The most of that at a time.
    pub page_cache_overflow_bytes_max: u64,
    /// Pieces taken from the heap now.
    pub allocations: u64,
    /// The most at a time.
    pub allocations_max: u64,
}

/// The memory of one connection. A maximum counts from the opening of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConnectionMemory {
    /// Small pieces in use of those that the connection set aside at its opening.
    pub lookaside_slots_used: u64,
    /// The most at a time.
    pub lookaside_slots_used_max: u64,
    /// Number of small pieces that came from there.
    pub lookaside_hits: u64,
    /// Number of pieces that were too large for it and came from the heap.
    pub lookaside_misses_size: u64,
    /// Number of pieces that came from the heap because none was free.
    pub lookaside_misses_full: u64,
    /// The pages in the caches of all its databases, in bytes. Without those set aside
    /// for later.
    pub page_cache_bytes: u64,
    /// Number of pages that were found in a cache.
    pub page_cache_hits: u64,
    /// Number of pages that were read from their file.
    pub page_cache_misses: u64,
    /// Number of pages that were written ahead of their commit, to make room in the cache; in a
    /// journal mode each may cost a sync.
    pub pages_spilled: u64,
    /// The schemas of all its databases: tables, indexes, triggers.
    pub schema_bytes: u64,
    /// Its prepared statements.
    pub statements_bytes: u64,
}

/// Reads the figures of a connection and of the process around it.
///
/// Takes some microseconds; reads no file. What other threads do meanwhile may show in
/// some figures of the process and not in others.
pub fn of(connection: &Connection) -> MemoryStats {
    let used = c_api::of_process(ffi::SQLITE_STATUS_MEMORY_USED);
    let overflow = c_api::of_process(ffi::SQLITE_STATUS_PAGECACHE_OVERFLOW);
    let allocations = c_api::of_process(ffi::SQLITE_STATUS_MALLOC_COUNT);
    let figure = |which| c_api::of_connection(connection, which);
    let slots = figure(ffi::SQLITE_DBSTATUS_LOOKASIDE_USED);
    MemoryStats {
        process: ProcessMemory {
            used_bytes: used.now,
            used_bytes_max: used.most,
            largest_allocation_bytes: c_api::of_process(ffi::SQLITE_STATUS_MALLOC_SIZE).most,
            page_cache_overflow_bytes: overflow.now,
            page_cache_overflow_bytes_max: overflow.most,
            allocations: allocations.now,
            allocations_max: allocations.most,
        },
        connection: ConnectionMemory {
            lookaside_slots_used: slots.now,
            lookaside_slots_used_max: slots.most,
            lookaside_hits: figure(ffi::SQLITE_DBSTATUS_LOOKASIDE_HIT).most,
            lookaside_misses_size: figure(ffi::SQLITE_DBSTATUS_LOOKASIDE_MISS_SIZE).most,
            lookaside_misses_full: figure(ffi::SQLITE_DBSTATUS_LOOKASIDE_MISS_FULL).most,
            page_cache_bytes: figure(ffi::SQLITE_DBSTATUS_CACHE_USED).now,
            page_cache_hits: figure(ffi::SQLITE_DBSTATUS_CACHE_HIT).now,
            page_cache_misses: figure(ffi::SQLITE_DBSTATUS_CACHE_MISS).now,
            pages_spilled: figure(ffi::SQLITE_DBSTATUS_CACHE_SPILL).now,
            schema_bytes: figure(ffi::SQLITE_DBSTATUS_SCHEMA_USED).now,
            statements_bytes: figure(ffi::SQLITE_DBSTATUS_STMT_USED).now,
        },
    }
}

/// Lets the maxima of the process start again from what they are now. Those of
/// connections stay.
pub fn reset_highwater() {
    for figure in [
        ffi::SQLITE_STATUS_MEMORY_USED,
        ffi::SQLITE_STATUS_MALLOC_SIZE,
        ffi::SQLITE_STATUS_PAGECACHE_OVERFLOW,
        ffi::SQLITE_STATUS_MALLOC_COUNT,
    ] {
        c_api::reset_most(figure);
    }
}

/// A line for each figure, with none below the last.
impl fmt::Display for MemoryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, connection } = self;
        let none = || "-".to_owned();
        let count = |number: u64| number.to_string();
        let overflow_max = process.page_cache_overflow_bytes_max;
        let slots_max = connection.lookaside_slots_used_max;
        let rows = [
            ("process: in use", kib(process.used_bytes), kib(process.used_bytes_max)),
            ("process: largest allocation", none(), kib(process.largest_allocation_bytes)),
            ("process: pages overflown", kib(process.page_cache_overflow_bytes), kib(overflow_max)),
            ("process: allocations", count(process.allocations), count(process.allocations_max)),
            ("lookaside: slots in use", count(connection.lookaside_slots_used), count(slots_max)),
            ("lookaside: hits", count(connection.lookaside_hits), none()),
            ("lookaside: too large", count(connection.lookaside_misses_size), none()),
            ("lookaside: none free", count(connection.lookaside_misses_full), none()),
            ("page cache", kib(connection.page_cache_bytes), none()),
            ("page cache: hits", count(connection.page_cache_hits), none()),
            ("page cache: misses", count(connection.page_cache_misses), none()),
            ("page cache: spilled", count(connection.pages_spilled), none()),
            ("schema", kib(connection.schema_bytes), none()),
            ("statements", kib(connection.statements_bytes), none()),
        ];
        write!(f, "{:<27}  {:>12}  {:>12}", "memory of SQLite", "now", "most")?;
        for (name, now, most) in rows {
            write!(f, "\n{name:<27}  {now:>12}  {most:>12}")?;
        }
        Ok(())
    }
}

/// Always in the same unit, so that rows can be compared by eye.
fn kib(bytes: u64) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}

/// Number of pages that a small connection keeps between its transactions.
///
/// Without a journal, a one-row transaction touches page 1 and the path to one leaf: 4
/// pages for 200,000 rows, 5 for a hundred million. With fewer pages kept, each
/// transaction reads them again.
pub const SMALL_CACHE_PAGES: u32 = 8;

/// Number of pages that a small connection holds before a transaction writes some of them ahead of
/// its commit, which costs a sync of the journal each time.
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
/// One-row updates then need 27 to 58 KB of SQLite's memory, and not 151 KB to 2 MB
/// (which is the cache's usual limit). A transaction that changes more than
/// [`SMALL_SPILL_PAGES`] pages writes some of them before its commit; it is as safe as
/// any. What is sorted, as by CREATE INDEX, still takes a megabyte: that limit is the
/// process's.
///
/// # Errors
/// SQLite's: `SQLITE_BUSY` if a statement is open already, or if another connection holds the
/// database; and any error of reading its first page. The connection works then, but is larger than
/// it should be. On disk nothing changes in any case, but that a transaction which a crash had cut
/// short is rolled back, as by any first statement.
pub fn shrink(connection: &Connection) -> Result<()> {
    c_api::lookaside_off(connection).map_err(|error| {
        Error::sqlite("give back a connection's lookaside memory", error)
            .on_disk("nothing was changed")
            .to_do("make the connection small right after opening, before any statement")
    })?;
    shrink_cache(connection).map_err(|error| {
        Error::sqlite("make a connection's page cache small", error)
            .on_disk("all that was committed")
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
    fn a_connection_has_figures_of_its_own() {
        let connection = Connection::open_in_memory().unwrap();
        let opened = of(&connection).connection;
        connection.execute_batch("CREATE TABLE t (x); CREATE INDEX by_x ON t (x)").unwrap();
        connection.execute("INSERT INTO t VALUES (zeroblob(1000000))", ()).unwrap();
        let statement = connection.prepare("SELECT * FROM t ORDER BY x").unwrap();
        let memory = of(&connection);
        let stats = memory.connection;
        assert!(stats.page_cache_bytes > opened.page_cache_bytes + 1_000_000, "{memory}");
        assert!(stats.schema_bytes > opened.schema_bytes, "{memory}");
        assert!(stats.statements_bytes > 0 && opened.statements_bytes == 0, "{memory}");
        assert!(stats.lookaside_hits > 0, "{memory}");
        assert!(stats.lookaside_slots_used_max >= stats.lookaside_slots_used, "{memory}");
        assert!(stats.lookaside_slots_used > 0, "the statement's: {memory}");
        drop(statement);
        assert_eq!(of(&connection).connection.statements_bytes, 0);
        // The process has at least what this connection has.
        assert!(memory.process.used_bytes > stats.page_cache_bytes, "{memory}");
        assert!(memory.process.used_bytes_max >= memory.process.used_bytes, "{memory}");
        assert!(memory.process.largest_allocation_bytes >= 1_000_000, "the blob: {memory}");
    }

    #[test]
    fn the_table_has_a_line_for_each_figure_and_says_whose_it_is() {
        let process = ProcessMemory {
            used_bytes: 28_040,
            used_bytes_max: 109_224,
            largest_allocation_bytes: 87_360,
            allocations: 71,
            ..ProcessMemory::default()
        };
        let connection = ConnectionMemory { page_cache_bytes: 8_992, ..Default::default() };
        let stats = MemoryStats { process, connection };
        let table = stats.to_string();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "process: in use                  27.4 KiB     106.7 KiB");
        assert_eq!(lines[2], "process: largest allocation             -      85.3 KiB");
        assert_eq!(lines[9], "page cache                        8.8 KiB             -");
        assert_eq!(lines.len(), 15, "{table}");
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{table}");
        let json = serde_json::to_value(stats).unwrap();
        assert_eq!(json["process"]["largest_allocation_bytes"], 87_360);
        assert_eq!(json["connection"]["page_cache_bytes"], 8_992);
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
