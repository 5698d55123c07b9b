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

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::staged::{count_rows, has_table};
use crate::load::long_statements::set_sorter;
use crate::schema::declared::{DeclaredIndex, DeclaredTable};
use crate::schema::quote_identifier;

/// Number of rows below which no way takes noticeable time.
pub const ROWS_MIN: u64 = 10_000;

/// Tables of statistics from which SQLite removes the rows of an index that is dropped. `ANALYZE` of
/// this or another SQLite may have made any of them.
const STATISTICS: [&str; 4] = ["sqlite_stat1", "sqlite_stat2", "sqlite_stat3", "sqlite_stat4"];

/// Indexes that are dropped before the rows go in, and made again behind them.
#[derive(Debug, Default)]
pub struct SetAside {
    indexes: Vec<Dropped>,
}

#[derive(Debug)]
struct Dropped {
    name: String,
    sql: String,
    /// The statistics of the index, which SQLite removes together with it: a table's name, and a row.
    statistics: Vec<(&'static str, Vec<Value>)>,
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
    pub fn build_indexes(&self, connection: &Connection, threads: usize) -> rusqlite::Result<()> {
        if self.is_any() {
            set_sorter(connection, threads)?;
        }
        for index in &self.indexes {
            connection.execute_batch(&index.sql)?;
            for (table, row) in &index.statistics {
                let places = vec!["?"; row.len()].join(", ");
                let sql = format!("INSERT INTO main.{table} VALUES ({places})");
                connection.prepare_cached(&sql)?.execute(params_from_iter(row))?;
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
        let mut statistics = Vec::new();
        for table in STATISTICS {
            if !has_table(connection, table)? {
                continue;
            }
            let sql = format!("SELECT * FROM main.{table} WHERE idx = ?1");
            let mut statement = connection.prepare(&sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query([&index.name])?;
            while let Some(row) = rows.next()? {
                let values = (0..columns).map(|column| row.get(column));
                statistics.push((table, values.collect::<rusqlite::Result<_>>()?));
            }
        }
        let sql = connection.query_row(sql, [&index.name], |row| row.get(0))?;
        Ok(Self { name: index.name.clone(), sql, statistics })
    }
}

/// Approximate number of a table's rows: the span of its rowids. For a WITHOUT ROWID table the number in
/// the statistics, or, if there are none, a count. The span is too large if many rows were deleted.
fn rows_about(connection: &Connection, declared: &DeclaredTable) -> rusqlite::Result<u64> {
    let name = quote_identifier(&declared.name);
    if let Some(rowid) = declared.rowid_name() {
        let sql = format!("SELECT max({rowid}) FROM main.{name}");
        let sql_min = format!("SELECT min({rowid}) FROM main.{name}");
        let last: Option<i64> = connection.query_row(&sql, [], |row| row.get(0))?;
        let first: Option<i64> = connection.query_row(&sql_min, [], |row| row.get(0))?;
        return Ok(last
            .zip(first)
            .map_or(0, |(last, first)| last.abs_diff(first).saturating_add(1)));
    }
    if has_table(connection, "sqlite_stat1")? {
        let sql = "SELECT max(CAST(stat AS INTEGER)) FROM main.sqlite_stat1 WHERE tbl = ?1";
        let rows: Option<i64> = connection.query_row(sql, [&declared.name], |row| row.get(0))?;
        if let Some(rows) = rows {
            return Ok(rows.unsigned_abs());
        }
    }
    count_rows(connection, &format!("main.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::existing::connect::ask;

    fn database(sql: &str) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        connection
    }

    fn statistics(connection: &Connection, table: &str) -> Vec<String> {
        let sql = format!(
            "SELECT quote(tbl) || quote(idx) || quote(neq) || quote(nlt) || quote(ndlt) || quote(sample)
             FROM {table} ORDER BY 1"
        );
        let mut statement = connection.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn all_statistics_of_an_index_come_back_with_it() {
        let connection = database(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX t_b ON t(b);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500)
             INSERT INTO t SELECT i, i % 9 FROM n;
             ANALYZE;",
        );
        if !has_table(&connection, "sqlite_stat4").unwrap() {
            // As an SQLite with SQLITE_ENABLE_STAT4 leaves them.
            let sql = "PRAGMA writable_schema=ON;
                CREATE TABLE x(tbl, idx, neq, nlt, ndlt, sample);
                INSERT INTO x VALUES ('t', 't_b', '2 1', '1 2', '1 2', x'0102');
                UPDATE sqlite_schema SET name = 'sqlite_stat4', tbl_name = 'sqlite_stat4',
                    sql = 'CREATE TABLE sqlite_stat4(tbl, idx, neq, nlt, ndlt, sample)'
                    WHERE name = 'x';
                PRAGMA writable_schema=RESET";
            connection.execute_batch(sql).unwrap();
        }
        let before = statistics(&connection, "sqlite_stat4");
        assert!(!before.is_empty());
        let declared = DeclaredTable::read(&connection, "t").unwrap();
        let set_aside = SetAside::choose(&connection, &declared, ROWS_MIN, true).unwrap();
        assert!(set_aside.is_any());
        set_aside.drop_indexes(&connection).unwrap();
        assert_ne!(statistics(&connection, "sqlite_stat4"), before);
        for (threads, beside) in [(1, 0), (3, 2)] {
            set_aside.build_indexes(&connection, threads).unwrap();
            assert_eq!(statistics(&connection, "sqlite_stat4"), before);
            assert_eq!(ask::<i64>(&connection, "PRAGMA threads").unwrap(), beside);
            set_aside.drop_indexes(&connection).unwrap();
        }
    }

    #[test]
    fn rowids_at_both_ends_of_their_range_are_many_rows() {
        let connection = database(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b);
             INSERT INTO t(a) VALUES (-9223372036854775808), (9223372036854775807)",
        );
        let declared = DeclaredTable::read(&connection, "t").unwrap();
        assert_eq!(rows_about(&connection, &declared).unwrap(), u64::MAX);
    }

    #[test]
    fn statistics_that_lack_a_number_are_passed_over() {
        let connection = database(
            "CREATE TABLE t(k TEXT PRIMARY KEY, b) WITHOUT ROWID;
             INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3);
             ANALYZE; UPDATE sqlite_stat1 SET stat = NULL",
        );
        let declared = DeclaredTable::read(&connection, "t").unwrap();
        assert_eq!(rows_about(&connection, &declared).unwrap(), 3);
        let sql = "INSERT INTO sqlite_stat1 VALUES ('t', 'part', '2 1'), ('t', 't', '70 1')";
        connection.execute_batch(sql).unwrap();
        assert_eq!(rows_about(&connection, &declared).unwrap(), 70);
    }
}
