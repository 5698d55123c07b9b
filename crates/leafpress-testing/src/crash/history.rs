//! The content after each transaction, and the way to read it again.
//!
//! Content is compared by a digest: of all rows in order, all values with
//! their types. The history knows the digest after each transaction in the
//! order of commits; whatever is found after a crash is one of them or wrong.
//!
//! Must never: know two states of the same digest. A workload whose
//! transactions change nothing cannot say how much was lost.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

use super::log::Mark;

/// A digest of rows, in the order in which they are given.
#[derive(Clone, Debug, Default)]
pub struct Digest(DefaultHasher);

impl Digest {
    /// The digest of no rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a value.
    pub fn value(&mut self, value: ValueRef<'_>) {
        let (kind, bytes): (u8, &[u8]) = match value {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(integer) => (1, &integer.to_le_bytes()),
            ValueRef::Real(real) => (2, &real.to_bits().to_le_bytes()),
            ValueRef::Text(text) => (3, text),
            ValueRef::Blob(blob) => (4, blob),
        };
        self.0.write_u8(kind);
        self.0.write_usize(bytes.len());
        self.0.write(bytes);
    }

    /// Takes a row.
    pub fn row(&mut self, row: &[Value]) {
        for value in row {
            self.value(value.into());
        }
    }

    /// Takes all rows of a query. Queries without an order get none.
    ///
    /// # Errors
    /// As SQLite says.
    pub fn query(&mut self, connection: &Connection, sql: &str) -> rusqlite::Result<()> {
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                self.value(row.get_ref(column)?);
            }
        }
        Ok(())
    }

    /// Takes all that a database holds: its schema, and the rows of each table.
    ///
    /// # Errors
    /// As SQLite says.
    pub fn whole(connection: &Connection) -> rusqlite::Result<Self> {
        let mut digest = Self::new();
        digest.query(connection, "SELECT name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2")?;
        let sql = "SELECT format('SELECT * FROM \"%w\"', name) FROM sqlite_schema
             WHERE type = 'table' ORDER BY name";
        let mut statement = connection.prepare(sql)?;
        let tables = statement.query_map([], |row| row.get::<_, String>(0))?;
        tables.into_iter().try_for_each(|select| digest.query(connection, &select?))?;
        Ok(digest)
    }

    /// The digest of all that was taken so far; more may follow.
    pub fn so_far(&self) -> u64 {
        self.0.finish()
    }
}

/// The states that a database went through: how many transactions had been
/// committed, and the digest of the content then.
#[derive(Clone, Debug, Default)]
pub struct History {
    states: HashMap<u64, usize>,
    transactions: HashMap<Mark, usize>,
    count: usize,
}

impl History {
    /// A history that begins with this content, before any transaction.
    pub fn new(start: &Digest) -> Self {
        Self { states: HashMap::from([(start.so_far(), 0)]), ..Self::default() }
    }

    /// The next transaction in the order of commits, and the content after it.
    ///
    /// # Panics
    /// If that content was there before, or the mark is known.
    pub fn committed(&mut self, mark: Mark, content: &Digest) {
        self.count += 1;
        let before = self.states.insert(content.so_far(), self.count);
        assert_eq!(before, None, "{mark:?} led back to the content after {before:?} transactions");
        let known = self.transactions.insert(mark, self.count);
        assert_eq!(known, None, "{mark:?} was committed twice");
    }

    /// A transaction whose mark is not known yet led to this content: how many there
    /// are now. Without a change there was none.
    ///
    /// # Panics
    /// If that content was there before, and another one since.
    pub fn reached(&mut self, content: &Digest) -> usize {
        if self.is_changed_by(content) {
            self.count += 1;
            let before = self.states.insert(content.so_far(), self.count);
            assert_eq!(before, None, "the content after {before:?} transactions came again");
        }
        self.count
    }

    /// Records that the transaction acknowledged with this mark is the one of this number.
    ///
    /// # Panics
    /// If the mark is known, or there are fewer transactions.
    pub fn marked(&mut self, mark: Mark, number: usize) {
        assert!(number <= self.count);
        let known = self.transactions.insert(mark, number);
        assert_eq!(known, None, "{mark:?} was committed twice");
    }

    /// A transaction failed and was taken back; until the next one its content may be
    /// found all the same, as the disk may have had it before it was taken back.
    ///
    /// # Panics
    /// If that content was there before.
    pub fn failed(&mut self, content: &Digest) {
        let before = self.states.insert(content.so_far(), self.count);
        assert_eq!(before, None, "what failed led back to the content after {before:?}");
    }

    /// Number of transactions after which the content has this digest.
    pub fn transactions_in(&self, digest: u64) -> Option<usize> {
        self.states.get(&digest).copied()
    }

    /// Returns true if the content differs from that after the last transaction.
    pub fn is_changed_by(&self, content: &Digest) -> bool {
        self.transactions_in(content.so_far()) != Some(self.count)
    }

    /// Place of the transaction in the order of commits, counted from 1.
    ///
    /// # Panics
    /// If it was acknowledged to its caller, but never committed.
    pub fn number(&self, mark: Mark) -> usize {
        *self.transactions.get(&mark).unwrap_or_else(|| {
            panic!("{mark:?} was acknowledged and is not in the database in the end")
        })
    }

    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if nothing was ever committed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
