//! Choice of the indexes that a table keeps during a large insert; the others are built anew
//! afterwards, in the same transaction.
//!
//! Each new row searches each index. In an order that is not the index's own
//! that touches pages all over it, while an index that is built anew is sorted
//! once, but with the old rows in it. Measured on two busy cores, WAL, a table
//! of 3 M rows of 100 bytes with a unique text key, and an index on another
//! part of the key; seconds of the whole transaction:
//!
//! | new rows | indexes | kept | built anew |
//! |---|---|---|---|
//! | 100,000, 16 MB of cache | 1 | 1.5 | 2.3 |
//! | 300,000, 16 MB of cache | 1 | 2.0 | 1.9 |
//! | 300,000 | 1 | 3.0 | 4.8 |
//! | 1,000,000 | 1 | 7.3 | 6.6 |
//! | 1,000,000 | 3 | 13.7 | 15.5 |
//! | 3,000,000 | 1 | 23.2 | 8.9 |
//!
//! So indexes are built anew where at least half as many rows come as are
//! there. Unique indexes always stay, as they say which rows are refused.
//!
//! Must never: leave an index out when the table is done, or lose the
//! statistics that SQLite drops together with it.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::staged::has_table;
use crate::schema::declared::{DeclaredIndex, DeclaredTable};
use crate::schema::quote_identifier;

/// Number of rows below which no way takes noticeable time.
pub const ROWS_MIN: u64 = 10_000;

/// Indexes that are dropped before the rows go in, and made again behind them.
#[derive(Debug, Default)]
pub struct SetAside {
    indexes: Vec<Dropped>,
}

#[derive(Debug)]
struct Dropped {
    name: String,
    sql: String,
    /// The statistics of the indexes, which SQLite drops together with them.
    statistics: Vec<(String, String)>,
}

impl SetAside {
    /// Chooses which indexes to set aside for that many new rows, which come to the old ones or
    /// in their place. Triggers and foreign keys may need them meanwhile.
    pub fn choose(
        connection: &Connection,
        declared: &DeclaredTable,
        rows_new: u64,
        old_rows_stay: bool,
    ) -> rusqlite::Result<Self> {
        let is_needed = !declared.triggers.is_empty() || !declared.referring.is_empty();
        let may_go = |it: &&DeclaredIndex| !it.unique && it.origin == "c";
        let indexes: Vec<_> = declared.indexes.iter().filter(may_go).collect();
        // The rows that are there are counted last: without statistics that may read all of a table.
        if is_needed
            || indexes.is_empty()
            || rows_new < ROWS_MIN
            || (old_rows_stay && rows_new < rows_about(connection, declared)? / 2)
        {
            return Ok(Self::default());
        }
        let dropped = indexes.into_iter().map(|it| Dropped::read(connection, it));
        Ok(Self { indexes: dropped.collect::<rusqlite::Result<_>>()? })
    }

    /// Drops the indexes.
    pub fn drop_indexes(&self, connection: &Connection) -> rusqlite::Result<()> {
        let drop = |it: &Dropped| {
            connection.execute_batch(&format!("DROP INDEX main.{}", quote_identifier(&it.name)))
        };
        self.indexes.iter().try_for_each(drop)
    }

    /// Makes the indexes again, as they were declared.
    pub fn build_indexes(&self, connection: &Connection) -> rusqlite::Result<()> {
        if self.is_any() {
            // The sorter works in runs of the cache's size: small ones, sorted
            // side by side and merged, take a fifth of the time of a large one.
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let sorter = format!("PRAGMA threads={threads}; PRAGMA cache_size=-2000");
            connection.execute_batch(&sorter)?;
        }
        for index in &self.indexes {
            connection.execute_batch(&index.sql)?;
            for (table, statistics) in &index.statistics {
                let sql = "INSERT INTO main.sqlite_stat1(tbl, idx, stat) VALUES (?1, ?2, ?3)";
                connection.execute(sql, params![table, index.name, statistics])?;
            }
        }
        Ok(())
    }

    /// Returns true if indexes are set aside.
    pub fn is_any(&self) -> bool {
        !self.indexes.is_empty()
    }

    /// Words for the report.
    pub fn said(&self) -> String {
        match &self.indexes[..] {
            [] => String::new(),
            [index] => format!("; index {} built anew", index.name),
            indexes => format!("; {} indexes built anew", indexes.len()),
        }
    }
}

impl Dropped {
    fn read(connection: &Connection, index: &DeclaredIndex) -> rusqlite::Result<Self> {
        let sql = "SELECT sql FROM main.sqlite_schema WHERE type = 'index' AND name = ?1";
        let statistics = if has_table(connection, "sqlite_stat1")? {
            connection
                .prepare("SELECT tbl, stat FROM main.sqlite_stat1 WHERE idx = ?1")?
                .query_map([&index.name], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?
        } else {
            Vec::new()
        };
        let sql = connection.query_row(sql, [&index.name], |row| row.get(0))?;
        Ok(Self { name: index.name.clone(), sql, statistics })
    }
}

/// Approximate number of a table's rows, without reading all of it: the number in the statistics,
/// else the span of its rowids. They are equal unless many rows were deleted.
fn rows_about(connection: &Connection, declared: &DeclaredTable) -> rusqlite::Result<u64> {
    let name = quote_identifier(&declared.name);
    if let Some(rowid) = declared.rowid_name() {
        let sql = format!("SELECT max({rowid}) FROM main.{name}");
        let sql_min = format!("SELECT min({rowid}) FROM main.{name}");
        let last: Option<i64> = connection.query_row(&sql, [], |row| row.get(0))?;
        let first: Option<i64> = connection.query_row(&sql_min, [], |row| row.get(0))?;
        return Ok(last.zip(first).map_or(0, |(last, first)| last.abs_diff(first) + 1));
    }
    if has_table(connection, "sqlite_stat1")? {
        let sql = "SELECT CAST(stat AS INTEGER) FROM main.sqlite_stat1 WHERE tbl = ?1 LIMIT 1";
        let rows: Option<i64> =
            connection.query_row(sql, [&declared.name], |row| row.get(0)).optional()?;
        if let Some(rows) = rows {
            return Ok(rows.unsigned_abs());
        }
    }
    super::staged::count_rows(connection, &format!("main.{name}"))
}
