//! The inputs, made from nothing but a row's number.
//!
//! Every value is a hash of its row's number and column, so that any part of an
//! input can be made by any thread and comes out the same everywhere. The first
//! thing in a run; knows neither SQLite nor the rivals.
//!
//! The CSV file has eight mixed columns, [`CSV_COLUMNS`]:
//!
//! ```text
//! id,quantity,account,price,latitude,description,day,city
//! 1,44,3940217716382,8123.40,-12.034561,veranotilo,2013-01-01,Lisbon
//! 2,7,291038471123,15.05,47.100000,"somari, delu",2019-11-30,São Paulo
//! ```
//!
//! These rows can be written as NDJSON, too, one object a line.
//!
//! Rows made in memory are those of [`crate::users`], and with random keys of [`crate::events`].

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Kind of values in a column of the CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers of 64 bits.
    Integer,
    /// Numbers with a fixed count of decimals.
    Real,
    /// Text; dates too.
    Text,
}

/// Name and kind of each column of the CSV file.
pub const CSV_COLUMNS: [(&str, ColumnKind); 8] = [
    ("id", ColumnKind::Integer),
    ("quantity", ColumnKind::Integer),
    ("account", ColumnKind::Integer),
    ("price", ColumnKind::Real),
    ("latitude", ColumnKind::Real),
    ("description", ColumnKind::Text),
    ("day", ColumnKind::Text),
    ("city", ColumnKind::Text),
];

/// The column that gets an index where one is measured: text of which nearly
/// every value is another, in no order.
pub const INDEXED_COLUMN: &str = "description";

/// Format of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// With a header; quotes only where they are needed.
    Csv,
    /// One JSON object a line.
    Ndjson,
}

/// End of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSize {
    /// With the row in which it reaches this many bytes.
    Bytes(u64),
    /// With this many rows.
    Rows(u64),
}

/// Rows that one thread makes at a time: about 1.5 MB of CSV.
const BLOCK_ROWS: u64 = 16_384;

/// Cities of the `city` column; some are not ASCII, as in real data.
const CITIES: [&str; 16] = [
    "Amsterdam",
    "Bogotá",
    "Cairo",
    "Delhi",
    "Edinburgh",
    "Hanoi",
    "Kraków",
    "Lagos",
    "Lima",
    "Lisbon",
    "Nairobi",
    "Oslo",
    "San Francisco",
    "São Paulo",
    "Tokyo",
    "Zürich",
];

/// Syllables of the `description` column.
const SYLLABLES: [&str; 32] = [
    "ba", "del", "fi", "gor", "ha", "jin", "ka", "lo", "mar", "ne", "o", "per", "qui", "ro", "sa",
    "ti", "u", "ver", "wa", "xe", "yo", "zan", "bri", "cla", "dru", "fle", "gra", "plo", "ski",
    "sto", "tre", "vla",
];

/// A file that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFile {
    /// Its size.
    pub bytes: u64,
    /// Its rows, without the header.
    pub rows: u64,
}

/// Mixes the bits of `state` so that neighbours have nothing in common.
#[inline]
pub(crate) fn hash(state: u64) -> u64 {
    let mut bits = state.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Writes a file of the rows of [`CSV_COLUMNS`] on all cores, and syncs it, so
/// that its writing disturbs nothing later. `progress` is told the bytes written
/// so far.
///
/// # Errors
/// If the file cannot be written; it may then be there, cut short.
pub fn write_table(
    path: &Path,
    format: TextFormat,
    size: FileSize,
    progress: &mut dyn FnMut(u64),
) -> Result<TableFile> {
    let threads_count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    write_table_with(path, format, size, threads_count, progress)
}

fn write_table_with(
    path: &Path,
    format: TextFormat,
    size: FileSize,
    threads_count: usize,
    progress: &mut dyn FnMut(u64),
) -> Result<TableFile> {
    let mut file = File::create(path).map_err(Error::io("create", path))?;
    let header = format.header();
    file.write_all(&header).map_err(Error::io("write", path))?;
    let mut written = TableFile { bytes: header.len() as u64, rows: 0 };
    let mut blocks: Vec<Block> = (0..threads_count.max(1)).map(|_| Block::default()).collect();
    while size.rest(written) > 0 {
        fill_blocks(&mut blocks, format, written.rows);
        for block in &blocks {
            let (bytes, rows) = block.cut(size, written);
            file.write_all(&block.text[..bytes]).map_err(Error::io("write", path))?;
            written.bytes += bytes as u64;
            written.rows += rows;
        }
        progress(written.bytes);
    }
    file.sync_all().map_err(Error::io("sync", path))?;
    Ok(written)
}

impl TextFormat {
    fn header(self) -> Vec<u8> {
        let names: Vec<&str> = CSV_COLUMNS.iter().map(|(name, _)| *name).collect();
        match self {
            Self::Csv => format!("{}\n", names.join(",")).into_bytes(),
            Self::Ndjson => Vec::new(),
        }
    }
}

impl FileSize {
    /// Remainder to be written, in its own unit.
    fn rest(self, written: TableFile) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.saturating_sub(written.bytes),
            Self::Rows(rows) => rows.saturating_sub(written.rows),
        }
    }
}

/// Some rows as text, and where each ends.
#[derive(Default)]
struct Block {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Block {
    /// Bytes and rows of this block that the file still needs.
    fn cut(&self, size: FileSize, written: TableFile) -> (usize, u64) {
        let rest = size.rest(written);
        let rows = match size {
            _ if rest == 0 => 0,
            // Up to the row that reaches the size.
            FileSize::Bytes(_) => self.ends.partition_point(|end| (*end as u64) < rest) + 1,
            FileSize::Rows(_) => usize::try_from(rest).unwrap_or(usize::MAX),
        };
        let rows = rows.min(self.ends.len());
        (self.ends[..rows].last().copied().unwrap_or(0), rows as u64)
    }

    fn fill(&mut self, format: TextFormat, rows: Range<u64>) {
        self.text.clear();
        self.ends.clear();
        for row in rows {
            match format {
                TextFormat::Csv => push_csv_row(&mut self.text, row),
                TextFormat::Ndjson => push_ndjson_row(&mut self.text, row),
            }
            self.ends.push(self.text.len());
        }
    }
}

/// Fills the blocks with consecutive rows from `first_row` on, a thread for each.
fn fill_blocks(blocks: &mut [Block], format: TextFormat, first_row: u64) {
    thread::scope(|scope| {
        for (index, block) in blocks.iter_mut().enumerate() {
            let start = first_row + index as u64 * BLOCK_ROWS;
            scope.spawn(move || block.fill(format, start..start + BLOCK_ROWS));
        }
    });
}

fn push_csv_row(text: &mut Vec<u8>, row: u64) {
    for column in 0..CSV_COLUMNS.len() {
        if column > 0 {
            text.push(b',');
        }
        let start = text.len();
        push_value(text, row, column);
        if text[start..].contains(&b',') {
            text.insert(start, b'"');
            text.push(b'"');
        }
    }
    text.push(b'\n');
}

/// No text of ours has a quote, a backslash or a control character, so nothing
/// needs an escape.
fn push_ndjson_row(text: &mut Vec<u8>, row: u64) {
    for (column, (name, kind)) in CSV_COLUMNS.iter().enumerate() {
        text.push(if column == 0 { b'{' } else { b',' });
        text.push(b'"');
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b"\":");
        if *kind == ColumnKind::Text {
            text.push(b'"');
        }
        push_value(text, row, column);
        if *kind == ColumnKind::Text {
            text.push(b'"');
        }
    }
    text.extend_from_slice(b"}\n");
}

/// The bits that the value of a column comes from.
#[inline]
fn bits_of(row: u64, column: usize) -> u64 {
    hash(hash(row).wrapping_mul(8).wrapping_add(column as u64))
}

/// The value of a column of [`CSV_COLUMNS`] that holds integers.
#[cfg(feature = "parquet")]
pub(crate) fn integer_of(row: u64, column: usize) -> i64 {
    let bits = bits_of(row, column);
    match column {
        0 => (row + 1).cast_signed(),
        1 => (bits % 1000).cast_signed(),
        _ => (bits % 5_000_000_000_000).cast_signed(),
    }
}

/// The value of a column of [`CSV_COLUMNS`] that holds decimal numbers: that nearest to its text, as the
/// quotient of two whole numbers is.
#[cfg(feature = "parquet")]
pub(crate) fn real_of(row: u64, column: usize) -> f64 {
    let bits = bits_of(row, column);
    if column == 3 {
        return (bits % 1_000_000) as f64 / 100.0;
    }
    let (micros, is_negative) = (bits % 90_000_000, bits >> 63 == 1);
    let latitude = micros as f64 / 1e6;
    if is_negative && micros > 0 { -latitude } else { latitude }
}

/// Pushes the value of a column of [`CSV_COLUMNS`], without quotes.
pub(crate) fn push_value(text: &mut Vec<u8>, row: u64, column: usize) {
    let bits = bits_of(row, column);
    match column {
        0 => push_number(text, row + 1),
        1 => push_number(text, bits % 1000),
        2 => push_number(text, bits % 5_000_000_000_000),
        3 => push_decimal(text, bits % 1_000_000, 2),
        4 => push_latitude(text, bits),
        5 => push_description(text, bits),
        6 => push_day(text, bits),
        _ => text.extend_from_slice(CITIES[(bits % CITIES.len() as u64) as usize].as_bytes()),
    }
}

fn push_number(text: &mut Vec<u8>, number: u64) {
    push_padded(text, number, 1);
}

/// Pushes a number with leading zeros up to `width_min` digits.
fn push_padded(text: &mut Vec<u8>, mut number: u64, width_min: usize) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [b'0'; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    while number > 0 {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    text.extend_from_slice(&digits[start.min(DIGITS_MAX - width_min)..]);
}

/// Pushes `units / 10^decimals` with all its decimals.
fn push_decimal(text: &mut Vec<u8>, units: u64, decimals: u32) {
    let one = 10_u64.pow(decimals);
    push_number(text, units / one);
    text.push(b'.');
    push_padded(text, units % one, decimals as usize);
}

fn push_latitude(text: &mut Vec<u8>, bits: u64) {
    let micros = bits % 90_000_000;
    // No minus sign before zero: "-0.000000" is no number that comes back.
    if bits >> 63 == 1 && micros > 0 {
        text.push(b'-');
    }
    push_decimal(text, micros, 6);
}

/// A made-up word or two, 5 to 20 characters; one in twenty has a comma, and
/// therefore quotes in CSV.
fn push_description(text: &mut Vec<u8>, mut bits: u64) {
    let has_comma = bits.is_multiple_of(20);
    let length_min = 5 + (bits >> 8) % 11;
    bits >>= 16;
    let start = text.len();
    let mut comma_wanted = has_comma;
    while text.len() - start < length_min as usize {
        text.extend_from_slice(SYLLABLES[(bits % 32) as usize].as_bytes());
        bits = bits.rotate_right(5);
        if comma_wanted {
            text.extend_from_slice(b", ");
            comma_wanted = false;
        }
    }
}

fn push_day(text: &mut Vec<u8>, bits: u64) {
    push_padded(text, 2013 + bits % 12, 4);
    text.push(b'-');
    push_padded(text, 1 + (bits >> 8) % 12, 2);
    text.push(b'-');
    push_padded(text, 1 + (bits >> 16) % 28, 2);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written(format: TextFormat, size: FileSize, threads_count: usize) -> (TableFile, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        let written = write_table_with(&path, format, size, threads_count, &mut |_| ());
        let written = written.expect("it can be written");
        (written, fs::read(&path).expect("it can be read"))
    }

    fn csv_of(bytes: u64, threads_count: usize) -> (TableFile, Vec<u8>) {
        written(TextFormat::Csv, FileSize::Bytes(bytes), threads_count)
    }

    #[test]
    fn a_file_can_have_a_number_of_rows() {
        for rows in [1, 1000, BLOCK_ROWS, 3 * BLOCK_ROWS + 7] {
            let (file, text) = written(TextFormat::Csv, FileSize::Rows(rows), 2);
            assert_eq!((file.rows, file.bytes), (rows, text.len() as u64));
            let lines = String::from_utf8_lossy(&text).lines().count() as u64;
            assert_eq!(lines, rows + 1);
        }
    }

    #[test]
    fn ndjson_holds_the_rows_of_the_csv_file() {
        let (_, csv_text) = written(TextFormat::Csv, FileSize::Rows(2000), 2);
        let (file, json_text) = written(TextFormat::Ndjson, FileSize::Rows(2000), 3);
        assert_eq!((file.rows, file.bytes), (2000, json_text.len() as u64));
        let json_text = String::from_utf8(json_text).expect("it is UTF-8");
        let mut lines = json_text.lines();
        let mut reader = csv::Reader::from_reader(csv_text.as_slice());
        for record in reader.records() {
            let record = record.expect("it is CSV");
            let object: serde_json::Value =
                serde_json::from_str(lines.next().expect("as many lines")).expect("it is JSON");
            assert_eq!(object.as_object().map(serde_json::Map::len), Some(CSV_COLUMNS.len()));
            for (field, (name, kind)) in record.iter().zip(CSV_COLUMNS) {
                let same = match kind {
                    ColumnKind::Integer => object[name].as_i64() == field.parse().ok(),
                    ColumnKind::Real => object[name].as_f64() == field.parse().ok(),
                    ColumnKind::Text => object[name].as_str() == Some(field),
                };
                assert!(same, "{name}: {field:?} and {}", object[name]);
            }
        }
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn the_file_is_the_same_whatever_the_number_of_threads() {
        let (one, text) = csv_of(3_000_000, 1);
        assert_eq!(csv_of(3_000_000, 3), (one, text.clone()));
        assert_eq!(one.bytes, text.len() as u64);
        assert_eq!(one.rows + 1, String::from_utf8_lossy(&text).lines().count() as u64);
        // It ends with the row in which it reached its size.
        let last_row = text[..text.len() - 1].iter().rposition(|byte| *byte == b'\n');
        assert!(one.bytes >= 3_000_000 && last_row.is_some_and(|end| end + 1 < 3_000_000));
    }

    #[test]
    fn values_are_of_their_columns_kinds() {
        let (written, text) = csv_of(200_000, 2);
        let mut rows = 0;
        let mut quoted = 0;
        let mut reader = csv::Reader::from_reader(text.as_slice());
        for record in reader.records() {
            let record = record.expect("it is CSV");
            rows += 1;
            assert_eq!(record.len(), CSV_COLUMNS.len());
            for (value, (name, kind)) in record.iter().zip(CSV_COLUMNS) {
                let fits = match kind {
                    ColumnKind::Integer => {
                        value.parse::<i64>().is_ok_and(|n| n.to_string() == value)
                    }
                    ColumnKind::Real => value.parse::<f64>().is_ok() && value.contains('.'),
                    ColumnKind::Text => value.parse::<f64>().is_err(),
                };
                assert!(fits, "{name} {value:?} in row {rows}");
            }
            assert_eq!(&record[0], rows.to_string());
            assert!((5..=20).contains(&record[5].len()), "{:?}", &record[5]);
            quoted += u64::from(record[5].contains(','));
        }
        assert_eq!(rows, written.rows);
        assert!((rows / 40..rows / 10).contains(&quoted), "{quoted} of {rows} have a comma");
    }
}
