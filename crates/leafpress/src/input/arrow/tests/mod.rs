//! Tests of the Arrow and Parquet inputs, against files that the crates' own
//! writers make.

#![expect(clippy::from_iter_instead_of_collect, reason = "it names the array that is made")]
#![expect(clippy::needless_for_each, reason = "writing a few batches is one line")]

mod damaged;
mod joined;
mod real;
mod round_trip;
mod types;
#[cfg(feature = "parquet")]
mod wide;

use std::fs::File;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use leafpress_format::Value;

use super::{ArrowBatch, ArrowSource};
use crate::Result;
use crate::cancel::CancelToken;
use crate::input::kind::{Kind, kind_of};
use crate::input::rows::{DecodeHalt, RowBatch, RowDecoder, RowReader, RowSource};
use crate::input::source::Source;

/// A value that outlives its batch. Reals are compared bit by bit.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Owned {
    Null,
    Integer(i64),
    Real(u64),
    Text(String),
    Blob(Vec<u8>),
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(integer) => Self::Integer(integer),
            Value::Real(real) => Self::Real(real.to_bits()),
            Value::Text(text) => Self::Text(String::from_utf8(text.to_vec()).unwrap()),
            Value::Blob(blob) => Self::Blob(blob.to_vec()),
        }
    }
}

pub(super) fn text(text: &str) -> Owned {
    Owned::Text(text.to_owned())
}

/// All rows of a source, and how many pieces they came in.
pub(super) fn read(source: &mut ArrowSource<'_>) -> Result<(Vec<Vec<Owned>>, usize)> {
    let columns = source.columns().len();
    let (mut reader, decoder) = source.open(&Arc::default())?;
    let (mut rows, mut pieces) = (Vec::new(), 0);
    let (mut piece, mut batch) = Default::default();
    while reader.claim(&mut piece)? {
        decoder.decode(&mut piece, &mut batch).map_err(|halt| match halt {
            DecodeHalt::Failed(error) => error,
            DecodeHalt::NewColumn => unreachable!("the schema has all columns"),
        })?;
        pieces += 1;
        check_batch(&batch, rows.len());
        let values = |row| (0..columns).map(|column| batch.value(row, column).into()).collect();
        rows.extend((0..batch.rows()).map(values));
    }
    Ok((rows, pieces))
}

/// Checks each batch. SQLite judges what JSON is, as SQLite reads it.
fn check_batch(batch: &ArrowBatch, rows_before: usize) {
    thread_local! {
        static SQLITE: rusqlite::Connection = rusqlite::Connection::open_in_memory().unwrap();
    }
    for row in [0, batch.rows() - 1] {
        assert_eq!(batch.line(row), (rows_before + row) as u64 + 1);
        let json = String::from_utf8(batch.original(row)).unwrap();
        let ask = |database: &rusqlite::Connection| {
            database.query_row("SELECT json_type(?1)", [&json], |row| row.get::<_, String>(0))
        };
        let kind = SQLITE.with(ask).unwrap();
        assert_eq!(kind, "object", "{json}");
        assert!(batch.excerpt(row).chars().count() <= 201);
    }
    assert!(batch.bad_rows().is_empty());
    let columns = batch.columns();
    for row in 0..batch.rows() {
        let mut content_bytes = 0;
        for column in 0..columns {
            let value = batch.value(row, column);
            if let Value::Text(bytes) | Value::Blob(bytes) = value {
                content_bytes += bytes.len();
            }
            if let Some((source, text)) = batch.text_within(row, column) {
                assert_eq!(value, Value::Text(&source[text]), "row {row}, column {column}");
            }
        }
        assert_eq!(batch.content_bytes(row), content_bytes, "row {row}");
    }
}

/// The batches as an Arrow stream.
pub(super) fn stream_of(batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<u8> {
    let schema = batches[0].schema();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// The batches as an Arrow file.
pub(super) fn file_of(batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<u8> {
    let schema = batches[0].schema();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// A source of bytes that come as if from a pipe.
pub(super) fn piped(bytes: Vec<u8>, kind: Kind) -> Result<ArrowSource<'static>> {
    let folder = std::env::temp_dir();
    let mut source = Source::reader("<stdin>", Cursor::new(bytes), Some(&folder));
    assert_eq!(kind_of(&source.beginning()?), Some(kind));
    ArrowSource::new(source, kind, &folder)
}

/// A file in a folder that goes away with it.
pub(super) struct Stored {
    pub path: PathBuf,
    folder: tempfile::TempDir,
}

pub(super) fn stored(bytes: &[u8]) -> Stored {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    File::create(&path).unwrap().write_all(bytes).unwrap();
    Stored { path, folder }
}

impl Stored {
    pub fn open(&self) -> Result<ArrowSource<'static>> {
        open_file(&self.path, self.folder.path())
    }
}

/// A source of what stands in a file.
pub(super) fn open_file(path: &Path, folder: &Path) -> Result<ArrowSource<'static>> {
    let mut source = Source::file(path, Some(folder), &CancelToken::new())?;
    let kind = kind_of(&source.beginning()?).expect("a kind that is known");
    ArrowSource::new(source, kind, folder)
}

/// A batch of columns named by their places.
pub(super) fn batch_of(columns: Vec<ArrayRef>) -> RecordBatch {
    let named = columns.into_iter().enumerate().map(|(i, array)| (format!("c{i}"), array, true));
    RecordBatch::try_from_iter_with_nullable(named).unwrap()
}
