//! That nobody won by doing less: what a rung left is read back with SQLite.
//!
//! Runs after a rung, outside of the time taken and outside of its process.
//! Every run's rows are counted and summed up column by column; the first run
//! of each rung is also read value by value, with types, and put to
//! `integrity_check`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row};

use crate::commits::Call;
use crate::error::{Error, Result};
use crate::generate::INDEXED_COLUMN;
use crate::rung::Work;

/// What a rung should have left, and what it did, where it says so itself.
pub(crate) struct Left {
    pub(crate) expected: String,
    pub(crate) found: String,
}

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
/// is the same for everybody because rows come in the same order. Of random
/// bytes, the place of one that is in some of them.
const DATA_SUMS: &str = "SELECT count(*) || ' rows, sums ' || concat_ws(' ', sum(id), \
     sum(quantity), sum(account / 1000), sum(account % 1000), total(price), total(latitude), \
     sum(length(description)), sum(unicode(description)), min(day), max(day), \
     sum(length(city)), max(city)) FROM data";
const USER_SUMS: &str = "SELECT count(*) || ' rows, sums ' || concat_ws(' ', sum(id), \
     count(area), sum(area), sum(age), sum(active)) FROM user";
const EVENT_SUMS: &str = "SELECT count(*) || ' rows, sums ' || concat_ws(' ', \
     sum(length(key)), sum(length(payload)), sum(instr(key, x'07')), \
     sum(instr(payload, x'07')), hex(min(key)), hex(max(key))) FROM event";

const DATA_ROWS: &str = "SELECT * FROM data ORDER BY rowid";
const USER_ROWS: &str = "SELECT * FROM user ORDER BY rowid";
const EVENT_ROWS: &str = "SELECT * FROM event ORDER BY key";

const CALL_SUMS: &str = "SELECT count(*) || ' rows, sums ' || concat_ws(' ', sum(id), sum(n), \
     sum(length(text)), max(text)) FROM call";

const CALL_ROWS: &str = "SELECT caller, n, text FROM call ORDER BY id";

/// What sums up the work, the table that was made or changed first.
const fn sums_queries(work: Work) -> &'static [&'static str] {
    match work {
        Work::Csv | Work::CsvIndex | Work::Index => &[DATA_SUMS],
        Work::Users => &[USER_SUMS],
        Work::Attach => &[USER_SUMS, EVENT_SUMS, "PRAGMA journal_mode"],
        Work::Keys => &[EVENT_SUMS],
        Work::Append => &[EVENT_SUMS, "PRAGMA journal_mode"],
        Work::Accounting => &[CALL_SUMS],
        Work::Commits | Work::Atomic | Work::Queue | Work::QueueClaims | Work::Described => &[],
    }
}

/// What reads every value of the work.
const fn rows_queries(work: Work) -> &'static [&'static str] {
    match work {
        Work::Csv | Work::CsvIndex | Work::Index => &[DATA_ROWS],
        Work::Users => &[USER_ROWS],
        Work::Attach => &[USER_ROWS, EVENT_ROWS],
        Work::Keys | Work::Append => &[EVENT_ROWS],
        Work::Commits | Work::Atomic | Work::Accounting => &[CALL_ROWS],
        Work::Queue | Work::QueueClaims | Work::Described => &[],
    }
}

const fn has_index(work: Work) -> bool {
    matches!(work, Work::CsvIndex | Work::Index)
}

/// The index on the column that should have one, whatever its name, with one
/// column, of all rows.
fn index_name(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT list.name FROM pragma_index_list('data') list \
         JOIN pragma_index_info(list.name) info \
         WHERE NOT list.partial GROUP BY list.name HAVING count(*) = 1 AND max(info.name) = ?";
    connection.query_row(sql, [INDEXED_COLUMN], |row| row.get(0)).optional()
}

/// The index's entries in its own order, read from it alone.
fn index_query(connection: &Connection, columns: &str, order: &str) -> rusqlite::Result<String> {
    let name = index_name(connection)?.unwrap_or_default().replace('"', "\"\"");
    Ok(format!("SELECT {columns} FROM data INDEXED BY \"{name}\" {order}"))
}

fn open(database: &Path) -> Result<Connection> {
    Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(Error::sqlite("open the database that the rung left"))
}

/// Counts the rows and sums up the columns; without its index, a work that has
/// one comes out as no number of rows.
pub(crate) fn sums(database: &Path, work: Work) -> Result<Sums> {
    let connection = open(database)?;
    let read = || -> rusqlite::Result<Sums> {
        if has_index(work) && index_name(&connection)?.is_none() {
            return Ok(Sums(format!("no index on {INDEXED_COLUMN}")));
        }
        let mut queries: Vec<String> =
            sums_queries(work).iter().map(|query| (*query).to_owned()).collect();
        if has_index(work) {
            queries.push(index_query(&connection, "count(*) || ' entries in the index'", "")?);
        }
        let one = |query: &String| connection.query_row(query, [], |row| row.get(0));
        let texts: Vec<String> = queries.iter().map(one).collect::<Result<_, _>>()?;
        Ok(Sums(texts.join(", ")))
    };
    read().map_err(Error::sqlite("sum up what the rung left"))
}

/// What `integrity_check` says: "ok", or the first fault.
pub(crate) fn integrity(database: &Path) -> Result<String> {
    open(database)?
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(Error::sqlite("check the integrity of what the rung left"))
}

/// A digest of every value and its type, in the order of the rows; and of the
/// index in its own order.
pub(crate) fn digest(database: &Path, work: Work) -> Result<u64> {
    let connection = open(database)?;
    let mut digest = DefaultHasher::new();
    let mut read = || -> rusqlite::Result<()> {
        for query in rows_queries(work) {
            digest_query(&mut digest, &connection, query)?;
        }
        if has_index(work) {
            let columns = format!("{INDEXED_COLUMN}, rowid");
            let query = index_query(&connection, &columns, &format!("ORDER BY {columns}"))?;
            digest_query(&mut digest, &connection, &query)?;
        }
        Ok(())
    };
    read().map_err(Error::sqlite("read what the rung left"))?;
    Ok(digest.finish())
}

/// What the calls of a rung left: "7 rows, each call's own; wal; ok", with what
/// `integrity_check` says, or the first row that is none of the calls made, or
/// not the next of its caller.
pub(crate) fn calls(database: &Path) -> Result<String> {
    let connection = open(database)?;
    let read = || -> rusqlite::Result<String> {
        let mut next_of: HashMap<u32, u64> = HashMap::new();
        let mut rows_count: u64 = 0;
        let mut statement = connection.prepare(CALL_ROWS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (caller, n) = (row.get::<_, u32>(0)?, row.get::<_, i64>(1)?.cast_unsigned());
            let next = next_of.entry(caller).or_default();
            let text = row.get_ref(2)?;
            let is_right = text.as_str().is_ok_and(|text| text == Call::new(caller, n).text());
            if n != *next || !is_right {
                return Ok(format!(
                    "call {n} of caller {caller}, text {text:?}, after {rows_count} rows, \
                     where call {next} was the next"
                ));
            }
            *next += 1;
            rows_count += 1;
        }
        let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
        let journal_mode = one("PRAGMA journal_mode")?;
        let verdict = one("PRAGMA integrity_check(1)")?;
        Ok(format!("{rows_count} rows, each call's own; {journal_mode}; {verdict}"))
    };
    read().map_err(Error::sqlite("read what the calls left"))
}

fn digest_query(
    digest: &mut DefaultHasher,
    connection: &Connection,
    query: &str,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(query)?;
    let columns_count = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        digest_row(digest, row, columns_count)?;
    }
    Ok(())
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

    /// The sums and the digest of the CSV file's table with these rows and what
    /// `index` makes.
    fn check_index(index: &str) -> (Sums, u64) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        let connection = Connection::open(&path).expect("a new database");
        let sql = format!(
            "CREATE TABLE data(id, quantity, account, price, latitude, description, day, city); \
             INSERT INTO data(id, description) VALUES (1, 'b'), (2, 'a'), (3, 'b'), (4, 'C'); {index}"
        );
        connection.execute_batch(&sql).expect("a table");
        connection.close().map_err(|(_, error)| error).expect("it closes");
        let sums = sums(&path, Work::Index).expect("sums");
        let digest = sums.0.starts_with('4').then(|| digest(&path, Work::Index));
        (sums, digest.map_or(0, |digest| digest.expect("a digest")))
    }

    #[test]
    fn an_index_must_be_there_whatever_its_name() {
        let index = check_index("CREATE INDEX one ON data(description)");
        assert!(index.0.0.starts_with("4 rows,"), "{}", index.0);
        assert!(index.0.0.ends_with("4 entries in the index"), "{}", index.0);
        assert_eq!(check_index("CREATE INDEX \"the \"\"other\" ON data(description)"), index);
        for wrong in [
            "",
            "CREATE INDEX one ON data(day)",
            "CREATE INDEX one ON data(description, day)",
            "CREATE INDEX one ON data(description) WHERE id > 1",
        ] {
            let sums = check_index(wrong).0;
            assert_eq!(sums.0, "no index on description", "{wrong}");
        }
    }

    #[test]
    fn another_journal_mode_is_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let sums_of = |mode: &str| {
            let path = folder.path().join(mode);
            crate::sql::load_keys_presorted(0..10, &path).expect("rows");
            let connection = Connection::open(&path).expect("it opens");
            let pragma = format!("PRAGMA journal_mode = {mode}");
            connection.query_row(&pragma, [], |_| Ok(())).expect("it is set");
            connection.close().map_err(|(_, error)| error).expect("it closes");
            sums(&path, Work::Append).expect("sums")
        };
        assert_ne!(sums_of("wal"), sums_of("delete"));
    }
}
