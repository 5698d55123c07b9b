//! That nobody won by doing less: what a rung left is read back with SQLite.
//!
//! Runs after a rung, outside of the time taken and outside of its process.
//! Every run's rows are counted and summed up column by column; the first run
//! of each rung is also read value by value, with types, and put to
//! `integrity_check`.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::error::{Error, Result};
use crate::rung::Work;

/// What a rung left; equal for all rungs of the same work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sums(String);

impl std::fmt::Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The sums of a table. Integers are summed exactly (accounts in two halves, as
/// a gigabyte of them overflows 64 bits); reals as they come, which
/// is the same for everybody because rows come in the same order.
const fn sums_query(work: Work) -> &'static str {
    match work {
        Work::Csv => {
            "SELECT count(*) || ' rows, sums ' || concat_ws(' ', sum(id), sum(quantity), \
             sum(account / 1000), sum(account % 1000), total(price), total(latitude), \
             sum(length(description)), \
             sum(unicode(description)), min(day), max(day), sum(length(city)), max(city)) FROM data"
        }
        Work::Users => {
            "SELECT count(*) || ' rows, sums ' || concat_ws(' ', sum(id), count(area), sum(area), \
             sum(age), sum(active)) FROM user"
        }
    }
}

const fn table(work: Work) -> &'static str {
    match work {
        Work::Csv => "data",
        Work::Users => "user",
    }
}

fn open(database: &Path) -> Result<Connection> {
    Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(Error::sqlite("open the database that the rung left"))
}

/// Counts the rows and sums up the columns.
pub(crate) fn sums(database: &Path, work: Work) -> Result<Sums> {
    open(database)?
        .query_row(sums_query(work), [], |row| row.get(0))
        .map(Sums)
        .map_err(Error::sqlite("sum up what the rung left"))
}

/// What `integrity_check` says: "ok", or the first fault.
pub(crate) fn integrity(database: &Path) -> Result<String> {
    open(database)?
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(Error::sqlite("check the integrity of what the rung left"))
}

/// A digest of every value and its type, in the order of the rows.
pub(crate) fn digest(database: &Path, work: Work) -> Result<u64> {
    let query = format!("SELECT * FROM {} ORDER BY rowid", table(work));
    let connection = open(database)?;
    let mut digest = DefaultHasher::new();
    let mut read = || -> rusqlite::Result<()> {
        let mut statement = connection.prepare(&query)?;
        let columns_count = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            digest_row(&mut digest, row, columns_count)?;
        }
        Ok(())
    };
    read().map_err(Error::sqlite("read what the rung left"))?;
    Ok(digest.finish())
}

fn digest_row(
    digest: &mut DefaultHasher,
    row: &Row<'_>,
    columns_count: usize,
) -> rusqlite::Result<()> {
    for index in 0..columns_count {
        match row.get_ref(index)? {
            ValueRef::Null => digest.write_u8(0),
            ValueRef::Integer(number) => {
                digest.write_u8(1);
                digest.write_i64(number);
            }
            ValueRef::Real(number) => {
                digest.write_u8(2);
                digest.write_u64(number.to_bits());
            }
            ValueRef::Text(text) => digest_bytes(digest, 3, text),
            ValueRef::Blob(bytes) => digest_bytes(digest, 4, bytes),
        }
    }
    Ok(())
}

fn digest_bytes(digest: &mut DefaultHasher, kind: u8, bytes: &[u8]) {
    digest.write_u8(kind);
    digest.write_usize(bytes.len());
    digest.write(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums, the digest and the integrity of one user made by `values`.
    fn check(values: &str) -> (Sums, u64, String) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        let connection = Connection::open(&path).expect("a new database");
        let sql =
            format!("CREATE TABLE user(id, area, age, active); INSERT INTO user VALUES {values}");
        connection.execute_batch(&sql).expect("a table");
        connection.close().map_err(|(_, error)| error).expect("it closes");
        let sums = sums(&path, Work::Users).expect("sums");
        let digest = digest(&path, Work::Users).expect("a digest");
        (sums, digest, integrity(&path).expect("a verdict"))
    }

    #[test]
    fn equal_rows_are_equal() {
        let one = check("(1, '000123', 5, 1), (2, NULL, 6, 0)");
        assert_eq!(one, check("(1, '000123', 5, 1), (2, NULL, 6, 0)"));
        assert_eq!(one.2, "ok");
    }

    #[test]
    fn a_missing_row_shows_in_the_sums() {
        assert_ne!(check("(1, 'a', 5, 1), (2, NULL, 6, 0)").0, check("(1, 'a', 5, 1)").0);
    }

    #[test]
    fn another_type_or_order_shows_in_the_digest() {
        let rows = check("(1, '123', 5, 1), (2, '456', 5, 1)");
        let typed = check("(1, 123, 5, 1), (2, '456', 5, 1)");
        let swapped = check("(2, '456', 5, 1), (1, '123', 5, 1)");
        assert_eq!(rows.0, typed.0);
        assert_ne!(rows.1, typed.1);
        assert_ne!(rows.1, swapped.1);
    }
}
