//! The CSV file, by the rival.

use std::fs::File;
use std::path::Path;

use rusqlite::Statement;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

use super::data;
use super::existing::create_index;
use super::insert::PRAGMAS;
use crate::error::{Error, Result};
use crate::generate::{CSV_COLUMNS, ColumnKind};

/// Bytes that the CSV reader asks for at a time.
const READ_BYTES: usize = 1 << 20;

/// Rows of one statement, where the CSV file goes in by batches.
pub(in crate::loads) const CSV_STATEMENT_ROWS: usize = 20;

/// A field of the CSV file on its way to a parameter, bound as it is.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// Loads the CSV file of [`crate::generate`], `statement_rows` rows with one
/// statement, and says how many rows it had.
pub(in crate::loads) fn load_csv(
    csv_path: &Path,
    database: &Path,
    statement_rows: usize,
) -> Result<u64> {
    data::load(database, statement_rows, |inserter| {
        let reader = csv::ReaderBuilder::new()
            .buffer_capacity(READ_BYTES)
            .from_path(csv_path)
            .map_err(|error| Error::Csv {
                path: csv_path.to_owned(),
                line: 1,
                reason: error.to_string(),
            })?;
        let mut input = CsvInput { path: csv_path, reader, rows: 0 };
        let mut records = vec![csv::ByteRecord::new(); inserter.statement_rows()];
        loop {
            let read_count = input.read(&mut records)?;
            inserter.insert(read_count, |insert, index, bound_before| {
                input.bind(insert, bound_before, &records[index])
            })?;
            if read_count < records.len() {
                return Ok(input.rows);
            }
        }
    })
}

/// Loads the CSV file by batches, then makes the index.
pub(in crate::loads) fn load_csv_with_index(csv_path: &Path, database: &Path) -> Result<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{self, FileSize, TextFormat};
    use crate::loads::{Load, LoadRung};
    use crate::rung::described::{Described as _, Found};
    use crate::rung::result::RungResult;

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

    /// The contents that a load of the file left, which are right.
    fn left_of_csv(database: &Path, input_rows: u64) -> Vec<String> {
        let rung = LoadRung { by: Load::CsvSql, rows: 0, memory_bytes: None };
        let result = RungResult { rows: input_rows, ..RungResult::default() };
        let found = Found { database, input_rows, is_first: true, is_alone: false };
        let left = rung.check(&result, &found).expect("it can be read");
        assert_eq!(left.found, left.expected);
        left.alike
    }

    #[test]
    fn the_sql_rival_loads_what_was_generated() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (csv, database) = (folder.path().join("a.csv"), folder.path().join("a.db"));
        let size = FileSize::Bytes(200_000);
        let file = generate::write_table(&csv, TextFormat::Csv, size, &mut |_| ());
        let file = file.expect("a CSV file");
        assert_eq!(load_csv(&csv, &database, 1).expect("it loads"), file.rows);
        for statement_rows in [20, file.rows as usize, file.rows as usize + 1] {
            let batched = folder.path().join(format!("{statement_rows}.db"));
            let rows = load_csv(&csv, &batched, statement_rows);
            assert_eq!(rows.expect("it loads"), file.rows, "{statement_rows} rows a statement");
            let left = |path| left_of_csv(path, file.rows);
            assert_eq!(left(&batched), left(&database), "{statement_rows} rows a statement");
        }
        // The same sums, made by reading the CSV file and nothing else.
        let (mut ids, mut accounts, mut description_chars) = (0_u64, 0_u64, 0);
        let mut reader = csv::Reader::from_path(&csv).expect("it opens");
        for record in reader.records() {
            let record = record.expect("it is CSV");
            ids += record[0].parse::<u64>().expect("an id");
            accounts += record[2].parse::<u64>().expect("an account");
            description_chars += record[5].chars().count();
        }
        let connection = rusqlite::Connection::open(&database).expect("it opens");
        let sums = connection
            .query_row(
                "SELECT sum(id), sum(account), sum(length(description)) FROM data",
                [],
                |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)),
            )
            .expect("sums");
        assert_eq!(sums, (ids as i64, accounts as i64, description_chars as i64));
    }
}
