//! The rival: the best that SQL can do, at the price of every safety.
//!
//! One prepared statement, one transaction, no journal, no sync, exclusive
//! locking, 1 GB of cache, types known beforehand: nothing is left to tune that
//! is still `INSERT`. It must stay that way: no allocation per row, values bound
//! by position, numbers parsed by the fastest parser at hand. A ratio against a
//! slow rival is a lie.
//!
//! Here: the settings, the CSV file, rows made in memory. `sql/keys.rs` has the
//! rows with random keys, `sql/existing.rs` what is added to a database that
//! exists, where the rival keeps its journal and its syncs.

mod existing;
mod keys;

pub(crate) use self::existing::{append_keys, attach_users, create_index};
pub(crate) use self::keys::{load_keys_in_batches, load_keys_presorted, load_keys_unsorted};

use std::fs::File;
use std::path::Path;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};

use crate::error::{Error, Result};
use crate::generate::{Areas, CSV_COLUMNS, ColumnKind, UserRow, Users};

/// The rival's settings. They hold for a new database; a crash destroys it.
pub(crate) const PRAGMAS: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
     PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -1000000;";

/// The rival's settings in a database that exists and must survive a crash; the
/// database says itself that it is in WAL mode or has a rollback journal.
pub(crate) const DURABLE_PRAGMAS: &str = "PRAGMA synchronous = FULL; PRAGMA cache_size = -1000000;";

/// The rival's settings for CREATE INDEX, over the others. A small cache makes it
/// sort in small runs that stay in the processor's cache, and two helpers sort
/// while it reads: measured, five times faster than a large cache and sorting in
/// memory.
pub(crate) const INDEX_PRAGMAS: &str =
    "PRAGMA cache_size = -2000; PRAGMA temp_store = FILE; PRAGMA threads = 2;";

/// The table that the CSV file goes to.
const DATA_TABLE: &str = "CREATE TABLE data(id INTEGER, quantity INTEGER, account INTEGER, \
     price REAL, latitude REAL, description TEXT, day TEXT, city TEXT)";

/// The table that rows made in memory go to.
const USER_TABLE: &str =
    "CREATE TABLE user(id INTEGER PRIMARY KEY, area TEXT, age INTEGER, active INTEGER)";

/// Bytes that the CSV reader asks for at a time.
const READ_BYTES: usize = 1 << 20;

/// Rows of one statement, where rows are made in memory.
pub(crate) const STATEMENT_ROWS: u64 = 50;

/// Rows of one statement, where the CSV file goes in by batches.
pub(crate) const CSV_STATEMENT_ROWS: usize = 20;

/// Opens a new database with the rival's settings.
fn create(database: &Path, table: &str) -> Result<Connection> {
    let connection = open(database, PRAGMAS)?;
    connection
        .execute_batch(&format!("{table}; BEGIN"))
        .map_err(Error::sqlite("create the table"))?;
    Ok(connection)
}

/// Opens a database with these settings.
fn open(database: &Path, pragmas: &str) -> Result<Connection> {
    let connection = Connection::open(database).map_err(Error::sqlite("open the database"))?;
    connection.execute_batch(pragmas).map_err(Error::sqlite("set its pragmas"))?;
    Ok(connection)
}

/// Commits and closes, so that all of the work is inside of the time taken.
fn finish(connection: Connection) -> Result<()> {
    connection.execute_batch("COMMIT").map_err(Error::sqlite("commit"))?;
    connection.close().map_err(|(_, error)| Error::sqlite("close the database")(error))
}

/// A field of the CSV file on its way to a parameter, bound as it is.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// Prepares an INSERT of `rows_count` rows, each of the values `row`.
fn prepare<'c>(
    connection: &'c Connection,
    table: &str,
    row: &str,
    rows_count: usize,
) -> Result<Statement<'c>> {
    let rows = vec![row; rows_count].join(",");
    connection
        .prepare(&format!("INSERT INTO {table} VALUES {rows}"))
        .map_err(Error::sqlite("prepare the statement"))
}

/// Loads the CSV file of [`crate::generate`], `statement_rows` rows with one
/// statement, and says how many rows it had.
pub(crate) fn load_csv(csv_path: &Path, database: &Path, statement_rows: usize) -> Result<u64> {
    const ROW: &str = "(?,?,?,?,?,?,?,?)";
    let batch_rows = statement_rows.max(1);
    let connection = create(database, DATA_TABLE)?;
    let reader =
        csv::ReaderBuilder::new().buffer_capacity(READ_BYTES).from_path(csv_path).map_err(
            |error| Error::Csv { path: csv_path.to_owned(), line: 1, reason: error.to_string() },
        )?;
    let mut input = CsvInput { path: csv_path, reader, rows: 0 };
    let mut records = vec![csv::ByteRecord::new(); batch_rows];
    let mut insert = prepare(&connection, "data", ROW, records.len())?;
    loop {
        let read_count = input.read(&mut records)?;
        if read_count < records.len() {
            insert = prepare(&connection, "data", ROW, read_count.max(1))?;
            records.truncate(read_count);
        }
        for (index, record) in records.iter().enumerate() {
            input.bind(&mut insert, index * CSV_COLUMNS.len(), record)?;
        }
        if !records.is_empty() {
            insert.raw_execute().map_err(Error::sqlite("insert"))?;
        }
        if read_count < batch_rows {
            break;
        }
    }
    drop(insert);
    finish(connection)?;
    Ok(input.rows)
}

/// Loads the CSV file by batches, then makes the index.
pub(crate) fn load_csv_with_index(csv_path: &Path, database: &Path) -> Result<u64> {
    let rows = load_csv(csv_path, database, CSV_STATEMENT_ROWS)?;
    create_index(database, PRAGMAS)?;
    Ok(rows)
}

/// The CSV file while it is read, and how far.
struct CsvInput<'a> {
    path: &'a Path,
    reader: csv::Reader<File>,
    rows: u64,
}

impl CsvInput<'_> {
    /// Reads as many records as there is place for, fewer at the end.
    fn read(&mut self, records: &mut [csv::ByteRecord]) -> Result<usize> {
        for (index, record) in records.iter_mut().enumerate() {
            match self.reader.read_byte_record(record) {
                Ok(true) => self.rows += 1,
                Ok(false) => return Ok(index),
                Err(error) => return Err(self.broken(error.to_string())),
            }
        }
        Ok(records.len())
    }

    /// Binds a record's fields to the parameters after `bound_before`.
    #[inline]
    fn bind(
        &self,
        insert: &mut Statement<'_>,
        bound_before: usize,
        record: &csv::ByteRecord,
    ) -> Result<()> {
        for (index, (name, kind)) in CSV_COLUMNS.iter().enumerate() {
            let (parameter, field) = (bound_before + index + 1, &record[index]);
            let Some(bound) = bind_field(insert, parameter, *kind, field) else {
                let value = String::from_utf8_lossy(field);
                return Err(self.broken(format!("{name} {value:?} is no {kind:?}")));
            };
            bound.map_err(Error::sqlite("bind a value"))?;
        }
        Ok(())
    }

    /// Says what is wrong near the last record that was read.
    fn broken(&self, reason: String) -> Error {
        Error::Csv { path: self.path.to_owned(), line: self.reader.position().line(), reason }
    }
}

/// Binds a field as what its column holds; `None` if it is not that.
#[inline]
fn bind_field(
    insert: &mut Statement<'_>,
    parameter: usize,
    kind: ColumnKind,
    field: &[u8],
) -> Option<rusqlite::Result<()>> {
    Some(match kind {
        ColumnKind::Integer => insert.raw_bind_parameter(parameter, parse_integer(field)?),
        ColumnKind::Real => {
            insert.raw_bind_parameter(parameter, fast_float2::parse::<f64, _>(field).ok()?)
        }
        ColumnKind::Text => insert.raw_bind_parameter(parameter, Text(field)),
    })
}

/// A decimal number of 64 bits.
#[inline]
fn parse_integer(field: &[u8]) -> Option<i64> {
    let (negative, digits) = match field {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Downwards, as the negative side is the longer one.
        number = number.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(number) } else { number.checked_neg() }
}

/// Inserts `rows_count` users made in memory and says how many there were.
pub(crate) fn load_users(areas: &Areas, rows_count: u64, database: &Path) -> Result<u64> {
    let connection = create(database, USER_TABLE)?;
    insert_users(&connection, areas, rows_count, STATEMENT_ROWS)?;
    finish(connection)?;
    Ok(rows_count)
}

/// Inserts users, `statement_rows` with one statement.
///
/// SQLite gives the ids, which come out as the generator's, one after the other:
/// that is a quarter faster than to bind them, so the best SQL does it.
fn insert_users(
    connection: &Connection,
    areas: &Areas,
    rows_count: u64,
    statement_rows: u64,
) -> Result<()> {
    let mut users = Users::new(areas, 0..rows_count);
    let table = Insert { table: "user", values: "(NULL,?,?,?)", statement_rows };
    table.insert(connection, rows_count, &mut users, bind_user)
}

/// How rows go in.
#[derive(Debug, Clone, Copy)]
struct Insert {
    table: &'static str,
    /// The values of one row.
    values: &'static str,
    /// Rows of one statement.
    statement_rows: u64,
}

impl Insert {
    /// Inserts so many rows with prepared statements; the last ones one by one.
    /// `bind` binds a row to the parameters after those of the rows before it.
    fn insert<R>(
        self,
        connection: &Connection,
        rows_count: u64,
        rows: &mut impl Iterator<Item = R>,
        bind: impl Fn(&mut Statement<'_>, usize, &R) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let columns_count = self.values.matches('?').count();
        let statement_rows = self.statement_rows.max(1);
        let (full_count, rest_count) = (rows_count / statement_rows, rows_count % statement_rows);
        for (statements_count, statement_rows) in [(full_count, statement_rows), (rest_count, 1)] {
            let statement_rows = statement_rows as usize;
            let mut insert = prepare(connection, self.table, self.values, statement_rows)?;
            for _ in 0..statements_count {
                for (row_index, row) in rows.by_ref().take(statement_rows).enumerate() {
                    bind(&mut insert, row_index * columns_count, &row)
                        .map_err(Error::sqlite("bind a value"))?;
                }
                insert.raw_execute().map_err(Error::sqlite("insert"))?;
            }
        }
        Ok(())
    }
}

#[inline]
fn bind_user(
    insert: &mut Statement<'_>,
    bound_before: usize,
    user: &UserRow<'_>,
) -> rusqlite::Result<()> {
    let (_, area, age, active) = *user;
    insert.raw_bind_parameter(bound_before + 1, area)?;
    insert.raw_bind_parameter(bound_before + 2, age)?;
    insert.raw_bind_parameter(bound_before + 3, active)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_64_bits_and_nothing_else() {
        assert_eq!(parse_integer(b"0"), Some(0));
        assert_eq!(parse_integer(b"-42"), Some(-42));
        assert_eq!(parse_integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
        for wrong in ["", "-", "9223372036854775808", "1.5", "12a", "+1"] {
            assert_eq!(parse_integer(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_field_of_the_wrong_kind_is_said() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.csv");
        let text = "id,quantity,account,price,latitude,description,day,city\n\
                    1,2,3,4.5,6.7,a,b,c\n1,2,x,4.5,6.7,a,b,c\n";
        std::fs::write(&path, text).expect("it can be written");
        let error = load_csv(&path, &folder.path().join("a.db"), 1).expect_err("x is no integer");
        assert!(error.to_string().contains("account \"x\" is no Integer"), "{error}");
    }
}
