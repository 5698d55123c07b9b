//! Statistics of an index (`sqlite_stat1`), counted while its entries go by.
//!
//! SQLite's planner wants to know how many rows share a value. `sqlite_stat1`
//! tells it, per index: the number of entries, and for one, two, … columns of
//! the key how many entries an equal beginning has on average. In key order
//! equal beginnings stand side by side, so that a comparison with the entry
//! before is all it takes.
//!
//! Counters of neighbouring partitions merge into that of both.
//!
//! Must never: count what is not in the index. A wrong statistic is a slow
//! query for ever.

use std::fmt::Write as _;

use leafpress_format::{KeyColumn, SortOrder, equal_columns, key_has_null};

use crate::schema::shape::EntryShape;

/// The statistics of one index, or of a WITHOUT ROWID table's key.
#[derive(Debug, Clone)]
pub struct StatCounter {
    /// The columns that the user declared, which the statistics are of.
    key: Vec<KeyColumn>,
    /// True if ANALYZE takes each NULL for another value, once it has met a value.
    nulls_differ: bool,
    entries: u64,
    /// For one, two, … columns of the key: the number of different beginnings.
    beginnings: Vec<u64>,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl StatCounter {
    /// A counter for an index or a WITHOUT ROWID table of these entries; `unique` if no two share a
    /// key.
    pub fn new(entry: &EntryShape, unique: bool) -> Self {
        let key = entry.order[..entry.unique_columns].to_vec();
        // ANALYZE compares no more entries of a unique index of one column once
        // it has met a value. In ascending order no NULL comes then.
        let nulls_differ = unique
            && entry.columns.len() == 2
            && matches!(key.as_slice(), [one] if one.order == SortOrder::Descending);
        let beginnings = vec![0; key.len()];
        Self { key, nulls_differ, entries: 0, beginnings, first: Vec::new(), last: Vec::new() }
    }

    /// Adds the next entry's record.
    #[inline]
    pub fn add(&mut self, record: &[u8]) {
        if self.entries == 0 {
            self.first.extend_from_slice(record);
            self.count(0);
        } else {
            self.count(equal_columns(&self.last, record, &self.key));
        }
        self.last.clear();
        self.last.extend_from_slice(record);
    }

    #[inline]
    fn count(&mut self, equal_columns: usize) {
        self.entries += 1;
        for beginnings in &mut self.beginnings[equal_columns..] {
            *beginnings += 1;
        }
    }

    /// Adds the entries that follow.
    pub fn merge(&mut self, later: Self) {
        if self.entries == 0 {
            *self = later;
            return;
        }
        if later.entries == 0 {
            return;
        }
        // The later ones count their first entry as new in every column.
        let shared = equal_columns(&self.last, &later.first, &self.key);
        self.entries += later.entries;
        for (column, (ours, theirs)) in
            self.beginnings.iter_mut().zip(&later.beginnings).enumerate()
        {
            *ours += theirs - u64::from(column < shared);
        }
        self.last = later.last;
    }

    /// Number of entries.
    #[cfg(test)]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The column `stat` of `sqlite_stat1`; `None` for an empty index, for which ANALYZE writes no
    /// row.
    pub fn stat(&self) -> Option<String> {
        if self.entries == 0 {
            return None;
        }
        let mut stat = self.entries.to_string();
        let all_differ = self.nulls_differ && !key_has_null(&self.first, 1);
        for &beginnings in &self.beginnings {
            let beginnings = if all_differ { self.entries } else { beginnings };
            let _ = write!(stat, " {}", average(self.entries, beginnings));
        }
        Some(stat)
    }
}

/// Entries for each beginning: rounded up, but for a key that is nearly unique,
/// which SQLite since 3.37 takes for one.
fn average(entries: u64, beginnings: u64) -> u64 {
    let average = entries.div_ceil(beginnings);
    if average == 2 && entries * 10 <= beginnings * 11 { 1 } else { average }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::describe::describe_existing;
    use leafpress_testing::{TreeReader, serialized};
    use proptest::prelude::*;
    use rusqlite::Connection;

    /// Compares the statistics of ANALYZE with those counted in two halves, for each tree of the
    /// table.
    fn check(connection: &mut Connection, cut_percent: usize) {
        connection.execute_batch("ANALYZE").expect("ANALYZE");
        let shape = describe_existing(connection, "main", "t").expect("a shape");
        let file = serialized(connection);
        let table_key = shape.key.iter().map(|key| ("t".to_owned(), key, true));
        let indexes =
            shape.indexes.iter().map(|index| (index.name.clone(), &index.entry, index.unique));
        for (name, entry, unique) in table_key.chain(indexes) {
            let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
            let root = connection.query_row(root, [&name], |row| row.get(0)).expect("a root");
            let entries = TreeReader::new(&file).entries(root);
            let (first, second) = entries.split_at(entries.len() * cut_percent / 100);
            let [mut counter, later] = [first, second].map(|part| {
                let mut counter = StatCounter::new(entry, unique);
                for entry in part {
                    counter.add(&entry.payload);
                }
                counter
            });
            counter.merge(later);
            assert_eq!(counter.entries(), entries.len() as u64);
            let stat = "SELECT stat FROM sqlite_stat1 WHERE tbl = 't' AND idx = ?1";
            let stat = connection.query_row(stat, [&name], |row| row.get::<_, String>(0)).ok();
            assert_eq!(counter.stat(), stat, "{name}");
        }
    }

    #[test]
    fn nearly_unique_is_unique() {
        for (entries, beginnings, expected) in
            [(110, 100, 1), (111, 100, 2), (2, 1, 2), (3, 2, 2), (100, 100, 1), (101, 10, 11)]
        {
            assert_eq!(average(entries, beginnings), expected, "{entries} {beginnings}");
        }
    }

    #[test]
    fn many_rows_are_counted_as_by_analyze() {
        let mut connection = Connection::open_in_memory().expect("memory");
        let sql = "CREATE TABLE t(a, b, c);
            INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
                SELECT i * 10 / 11, i % 7, i * 37 % 1000 FROM n;
            CREATE INDEX i ON t(a); CREATE INDEX j ON t(b, c DESC, a);";
        connection.execute_batch(sql).expect("rows");
        check(&mut connection, 33);
    }

    proptest! {
        /// Whatever stands in the rows, and wherever the partition ends.
        #[test]
        fn statistics_are_those_of_analyze(
            rows in prop::collection::vec((0..4_u8, 0..3_u8, 0..60_u16), 0..40),
            without_rowid: bool,
            cut_percent in 0..=100_usize,
        ) {
            let mut connection = Connection::open_in_memory().expect("memory");
            let ending = if without_rowid { "WITHOUT ROWID" } else { "" };
            let sql = format!(
                "CREATE TABLE t(a NOT NULL, b COLLATE NOCASE NOT NULL, c, d UNIQUE, PRIMARY KEY(a, b, c)) {ending};
                 CREATE INDEX i ON t(b, a DESC); CREATE INDEX j ON t(c, c); CREATE UNIQUE INDEX k ON t(c, d);
                 CREATE UNIQUE INDEX l ON t(d DESC);"
            );
            connection.execute_batch(&sql).expect("a table");
            for (a, b, c) in rows {
                let a = [1.to_string(), "1.0".into(), "'x'".into(), "x'00'".into()][usize::from(a)].clone();
                let b = ["'a'", "'A'", "'b'"][usize::from(b)];
                let d = if c % 3 == 0 { "NULL".to_owned() } else { (c / 2).to_string() };
                connection
                    .execute(&format!("INSERT OR IGNORE INTO t VALUES({a}, {b}, {}, {d})", c % 8), [])
                    .expect("a row");
            }
            check(&mut connection, cut_percent);
        }
    }
}
