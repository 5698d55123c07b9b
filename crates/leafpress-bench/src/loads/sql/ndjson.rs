//! The NDJSON file, by the rival: a line at a time by `serde_json`, into a struct that borrows its
//! texts from the line.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use rusqlite::Statement;
use serde::Deserialize;

use super::data;
use crate::error::{Error, Result};

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;

/// A line, as its types are known beforehand.
#[derive(Deserialize)]
struct Line<'a> {
    id: i64,
    quantity: i64,
    account: i64,
    price: f64,
    latitude: f64,
    #[serde(borrow)]
    description: Cow<'a, str>,
    #[serde(borrow)]
    day: Cow<'a, str>,
    #[serde(borrow)]
    city: Cow<'a, str>,
}

/// Loads the NDJSON file, so many rows with one statement, and says how many rows it had.
pub(in crate::loads) fn load_ndjson(
    path: &Path,
    database: &Path,
    statement_rows: usize,
) -> Result<u64> {
    data::load(database, statement_rows, |inserter| {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        let mut lines = vec![Vec::new(); inserter.statement_rows()];
        let mut rows = 0;
        loop {
            let count = read(&mut reader, &mut lines).map_err(Error::io("read", path))?;
            inserter.insert(count, |insert, index, bound_before| {
                let line: Line<'_> = serde_json::from_slice(&lines[index]).map_err(|error| {
                    let (path, line) = (path.to_owned(), rows + index as u64 + 1);
                    Error::Csv { path, line, reason: error.to_string() }
                })?;
                bind(insert, bound_before, &line).map_err(Error::sqlite("bind a value"))
            })?;
            rows += count as u64;
            if count < lines.len() {
                return Ok(rows);
            }
        }
    })
}

/// Reads as many lines as there is place for, fewer at the end.
fn read(reader: &mut impl BufRead, lines: &mut [Vec<u8>]) -> io::Result<usize> {
    for (index, line) in lines.iter_mut().enumerate() {
        line.clear();
        if reader.read_until(b'\n', line)? == 0 {
            return Ok(index);
        }
    }
    Ok(lines.len())
}

#[inline]
fn bind(insert: &mut Statement<'_>, bound_before: usize, line: &Line<'_>) -> rusqlite::Result<()> {
    insert.raw_bind_parameter(bound_before + 1, line.id)?;
    insert.raw_bind_parameter(bound_before + 2, line.quantity)?;
    insert.raw_bind_parameter(bound_before + 3, line.account)?;
    insert.raw_bind_parameter(bound_before + 4, line.price)?;
    insert.raw_bind_parameter(bound_before + 5, line.latitude)?;
    insert.raw_bind_parameter(bound_before + 6, &*line.description)?;
    insert.raw_bind_parameter(bound_before + 7, &*line.day)?;
    insert.raw_bind_parameter(bound_before + 8, &*line.city)
}
