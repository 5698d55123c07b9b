//! JSON as the loader reads it: source, reader, decoder and batch together, on
//! blocks of any size.
//!
//! The model is `serde_json`: what it reads from an input is what must come
//! out. Beside that: damaged inputs are told of and never panic, and a row's
//! line is its line.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leafpress_format::Value;

use super::{Form, JsonBatch, JsonOptions, JsonPiece, JsonSource};
use crate::input::rows::{DecodeHalt, RowBatch, RowDecoder, RowReader, RowSource};
use crate::input::source::Source;
use crate::{ErrorKind, Result};

/// A value that outlives its batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(integer) => Self::Integer(integer),
            Value::Real(real) => Self::Real(real),
            Value::Text(text) => Self::Text(String::from_utf8(text.to_vec()).unwrap()),
            Value::Blob(blob) => panic!("JSON has no blobs, but here is {blob:?}"),
        }
    }
}

fn text(text: &str) -> Owned {
    Owned::Text(text.to_owned())
}

/// A bad row: how many good ones come before, line, column, reason, original.
pub(super) type Bad = (usize, u64, u64, String, String);

/// All that an input reads as.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reading {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Owned>>,
    pub lines: Vec<u64>,
    pub originals: Vec<String>,
    pub texts: Vec<Vec<Option<String>>>,
    pub bad: Vec<Bad>,
    pub lines_total: u64,
    /// How often the whole input was read.
    pub passes: usize,
}

pub(super) fn options(block_bytes: usize) -> JsonOptions {
    JsonOptions { block_bytes, ..JsonOptions::default() }
}

pub(super) fn read(input: &[u8], block_bytes: usize) -> Result<Reading> {
    read_with(input, options(block_bytes))
}

pub(super) fn read_with(input: &[u8], options: JsonOptions) -> Result<Reading> {
    let spool = tempfile::tempdir().unwrap();
    let source = Source::reader("in.json", input, Some(spool.path()));
    let bytes_read = Arc::new(AtomicU64::new(0));
    let mut source = JsonSource::new(source, options, &bytes_read)?;
    let mut passes = 0;
    loop {
        passes += 1;
        assert!(passes <= 2, "a second pass knows all columns");
        if let Some(reading) = pass(&mut source, &bytes_read)? {
            return Ok(Reading { passes, ..reading });
        }
        source.discover_columns(&bytes_read)?;
    }
}

/// One pass; `None` if a column is new.
fn pass(source: &mut JsonSource<'_>, bytes_read: &Arc<AtomicU64>) -> Result<Option<Reading>> {
    let (mut reader, decoder) = source.open(bytes_read)?;
    let columns: Vec<String> = source.columns().iter().map(|c| c.name.clone()).collect();
    let mut reading = Reading { columns, ..Reading::default() };
    let (mut piece, mut batch) = (JsonPiece::default(), JsonBatch::default());
    while reader.claim(&mut piece)? {
        match decoder.decode(&mut piece, &mut batch) {
            Ok(()) => add(&batch, &mut reading),
            Err(DecodeHalt::Failed(error)) => return Err(error),
            Err(DecodeHalt::NewColumn) => {
                // A stream can be read again only if it was read to its end.
                while reader.claim(&mut piece)? {}
                return Ok(None);
            }
        }
    }
    assert!(!reader.claim(&mut piece)?, "the end stays the end");
    reading.lines_total = reader.lines_total();
    Ok(Some(reading))
}

fn add(batch: &JsonBatch, reading: &mut Reading) {
    for bad in batch.bad_rows() {
        let row = &bad.bad_row;
        let before = reading.rows.len() + bad.good_rows_before;
        let original = String::from_utf8_lossy(&bad.original).into_owned();
        reading.bad.push((before, row.line, row.column, row.reason.clone(), original));
    }
    for row in 0..batch.rows() {
        let columns = 0..reading.columns.len();
        let values: Vec<Owned> =
            columns.clone().map(|column| batch.value(row, column).into()).collect();
        let content =
            values.iter().map(|value| if let Owned::Text(t) = value { t.len() } else { 0 });
        assert!(content.sum::<usize>() <= batch.content_bytes(row));
        let to_text = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
        reading.texts.push(columns.map(|c| batch.text(row, c).map(to_text)).collect());
        reading.rows.push(values);
        reading.lines.push(batch.line(row));
        reading.originals.push(String::from_utf8(batch.original(row)).unwrap());
    }
}

pub(super) fn message(result: Result<Reading>) -> String {
    result.unwrap_err().to_string()
}

pub(super) const SIZES: [usize; 7] = [1, 2, 7, 16, 33, 100, 1 << 20];

/// Reads with blocks of many sizes, which must make no difference.
pub(super) fn read_at_all_sizes(input: &str) -> Reading {
    let whole = read(input.as_bytes(), 1 << 20).unwrap();
    for block_bytes in SIZES {
        let reading = read(input.as_bytes(), block_bytes).unwrap();
        assert_eq!(Reading { passes: whole.passes, ..reading }, whole, "blocks of {block_bytes}");
    }
    whole
}

#[test]
fn lines_are_rows() {
    let input = "{\"id\": 1, \"name\": \"Ada\", \"score\": 1.50}\n\n  \
                 {\"id\":2,\"score\":null,\"ok\":true}\r\n{\"name\":\"Bo\",\"id\":3}";
    let reading = read_at_all_sizes(input);
    assert_eq!(reading.columns, ["id", "name", "score", "ok"]);
    assert_eq!(
        reading.rows,
        [
            vec![Owned::Integer(1), text("Ada"), Owned::Real(1.5), Owned::Null],
            vec![Owned::Integer(2), Owned::Null, Owned::Null, Owned::Integer(1)],
            vec![Owned::Integer(3), text("Bo"), Owned::Null, Owned::Null],
        ]
    );
    assert_eq!(reading.lines, [1, 3, 4]);
    assert_eq!(reading.lines_total, 4);
    assert_eq!(reading.originals[2], "{\"name\":\"Bo\",\"id\":3}");
    assert_eq!(reading.texts[0][2].as_deref(), Some("1.50"));
    assert_eq!(reading.texts[1][3].as_deref(), Some("true"));
    assert_eq!(reading.texts[1][2], None);
    assert!(reading.bad.is_empty());
}
